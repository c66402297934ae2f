// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// program.fb -> Program. First FlatBuffers' own verifier (offsets within the buffer), then ours:
// every index within its table, expressions in order, lifetimes, arities.

#include "format/program.h"
#include "program_generated.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace trainrt {

namespace {

class Reader {
public:
  /// `start`: of the whole buffer.
  Reader(const fb::Program &source, const unsigned char *start, Program &program)
      : source(source), start(start), program(program) {}

  /// In this order: tables that others index come first. Expressions before everything whose sizes
  /// they are, inputs before the symbols that are read from them, kernels and nodes before
  /// commands.
  Status read() {
    if (source.target() > fb::Target::MAX)
      return bad("target ", int(source.target()), " is unknown");
    program.target = static_cast<Target>(source.target());
    TRAINRT_TRY(readExprs());
    TRAINRT_TRY(readTensors("inputs", source.inputs(), program.inputs, false));
    TRAINRT_TRY(readSymbols());
    TRAINRT_TRY(readTensors("outputs", source.outputs(), program.outputs, false));
    TRAINRT_TRY(readTensors("parameters", source.parameters(), program.parameters, true));
    TRAINRT_TRY(readTensors("state", source.state(), program.state, true));
    TRAINRT_TRY(readTensors("derived", source.derived(), program.derived, true));
    TRAINRT_TRY(readTensors("hypers", source.hypers(), program.hypers, true));
    TRAINRT_TRY(readConstants());
    if (source.nodes())
      for (const flatbuffers::String *node : *source.nodes())
        program.nodes.push_back(node->str());
    if (source.kernels())
      for (const fb::Kernel *kernel : *source.kernels())
        program.kernels.push_back({kernel->name()->str(), kernel->args(), kernel->dims()});
    if (source.externals())
      for (const fb::ExternalFunction *function : *source.externals())
        program.externals.push_back({function->plugin()->str(), function->name()->str()});
    TRAINRT_TRY(readRules());
    TRAINRT_TRY(checkCountUses());
    if (source.functions())
      for (const fb::Function *function : *source.functions())
        TRAINRT_TRY(readFunction(*function));
    return linkVariants();
  }

private:
  template <typename... Args> Status bad(const Args &...what) const {
    return fail(Code::BadPackage, "program.fb: ", what...);
  }

  /// All indices of the package come through here: what has been read is in range everywhere else.
  Status index(const std::string &where, uint64_t value, uint64_t limit) const {
    if (value < limit)
      return {};
    return bad(where, " is ", static_cast<int64_t>(value), ", but there are only ", limit);
  }
  Status expr(const std::string &where, uint32_t value) const {
    return index(where, value, program.exprs.size());
  }

  Status readExprs() {
    auto *exprs = source.exprs();
    // The verifier looks at the length in front only.
    if (exprs && (exprs->Data() - start) % ptrdiff_t(alignof(fb::Expr)) != 0)
      return bad("exprs are not aligned");
    // Expressions come before the symbols; how many there will be is known already.
    uint64_t numSymbols = source.symbols() ? source.symbols()->size() : 0;
    for (uint32_t i = 0; exprs && i < exprs->size(); ++i) {
      const fb::Expr *from = exprs->Get(i);
      Expr to;
      std::string where = "exprs[" + std::to_string(i) + "]";
      if (from->kind() > fb::ExprKind::MAX)
        return bad(where, ".kind ", int(from->kind()), " is unknown");
      to.kind = static_cast<Expr::Kind>(from->kind());
      to.value = from->value();
      if (to.kind == Expr::Kind::Symbol) {
        TRAINRT_TRY(index(where + ".a", static_cast<uint32_t>(from->a()), numSymbols));
        to.a = static_cast<uint32_t>(from->a());
      } else if (to.kind != Expr::Kind::Constant) {
        // Operands before their users: one sweep evaluates all, and there are no cycles.
        TRAINRT_TRY(index(where + ".a", static_cast<uint32_t>(from->a()), i));
        TRAINRT_TRY(index(where + ".b", static_cast<uint32_t>(from->b()), i));
        to.a = static_cast<uint32_t>(from->a());
        to.b = static_cast<uint32_t>(from->b());
      }
      program.exprs.push_back(to);
    }
    return {};
  }

  Status readSymbols() {
    std::set<std::string> names;
    for (uint32_t i = 0; source.symbols() && i < source.symbols()->size(); ++i) {
      const fb::Symbol *from = source.symbols()->Get(i);
      Symbol to;
      to.name = from->name()->str();
      to.min = from->min();
      to.max = from->max();
      to.divisor = from->divisor();
      to.input = from->source_input();
      to.axis = from->source_axis();
      to.counts = from->counts();
      to.differs = from->differs();
      to.what = static_cast<Symbol::What>(from->what());
      to.run = static_cast<Symbol::Run>(from->run());
      std::string where = "symbols[" + std::to_string(i) + "] '" + to.name + "'";
      if (!names.insert(to.name).second)
        return bad(where, " is there twice");
      // Sizes are not negative, and their range is not empty.
      if (to.min < 0 || to.min > to.max)
        return bad(where, ": min ", to.min, ", max ", to.max, " are no range of sizes");
      if (to.divisor < 1)
        return bad(where, ".divisor is ", to.divisor);
      if (from->run() > fb::RunSymbol::MAX)
        return bad(where, ".run ", int(from->run()), " is unknown");
      if (to.run != Symbol::Run::None) {
        if (to.counts || to.input >= 0)
          return bad(where, " is of the run and of an input");
        to.input = to.axis = -1;
      } else if (to.counts) {
        if (from->what() > fb::CountKind::MAX)
          return bad(where, ".what ", int(from->what()), " is unknown");
        TRAINRT_TRY(checkCount(where, to));
      } else if (to.input < 0) {
        // Without an input nothing else could give it a value.
        if (to.min != to.max)
          return bad(where, ".source_input is ", to.input, " though its value is not fixed");
        to.input = to.axis = -1;
      } else {
        TRAINRT_TRY(index(where + ".source_input", uint64_t(to.input), program.inputs.size()));
        TRAINRT_TRY(index(where + ".source_axis", static_cast<uint32_t>(to.axis),
                          program.inputs[size_t(to.input)].shape.size()));
        // One size of the axis has to mean one value.
        const ExprId axis = program.inputs[size_t(to.input)].shape[size_t(to.axis)];
        if (!linear(axis, i, to.factor, to.offset, /*depth=*/0) || to.factor < 1)
          return bad(where, ": that axis of input '", program.inputs[size_t(to.input)].name,
                     "' is neither the symbol itself nor a multiple of it and a number");
      }
      program.symbols.push_back(std::move(to));
    }
    return {};
  }

  /// Whether an expression is `factor * symbol + offset`, with other symbols nowhere in it. Such a
  /// sum is shallow: what is deeper is none of the compiler's.
  bool linear(ExprId id, uint32_t symbol, int64_t &factor, int64_t &offset, int depth) const {
    const Expr &expr = program.exprs[id];
    factor = offset = 0;
    if (expr.kind == Expr::Kind::Constant)
      return offset = expr.value, true;
    if (expr.kind == Expr::Kind::Symbol)
      return factor = 1, expr.a == symbol;
    const bool adds = expr.kind == Expr::Kind::Add;
    int64_t a[2], b[2];
    if (depth > 4 || (!adds && expr.kind != Expr::Kind::Mul) ||
        !linear(expr.a, symbol, a[0], a[1], depth + 1) ||
        !linear(expr.b, symbol, b[0], b[1], depth + 1))
      return false;
    if (adds)
      return !__builtin_add_overflow(a[0], b[0], &factor) &&
             !__builtin_add_overflow(a[1], b[1], &offset);
    // One of the two is a number.
    if (a[0] != 0)
      std::swap(a, b);
    return a[0] == 0 && !__builtin_mul_overflow(a[1], b[0], &factor) &&
           !__builtin_mul_overflow(a[1], b[1], &offset);
  }

  /// A count is of one input's elements or runs, rounded up to its divisor; so are its bounds, or a
  /// rounded count could leave them.
  Status checkCount(const std::string &where, const Symbol &symbol) {
    TRAINRT_TRY(
        index(where + ".source_input", static_cast<uint32_t>(symbol.input), program.inputs.size()));
    if (symbol.axis != -1)
      return bad(where, ".source_axis is ", symbol.axis, " of a count, not -1");
    if (symbol.min % symbol.divisor || (symbol.max != INT64_MAX && symbol.max % symbol.divisor))
      return bad(where, ": min ", symbol.min, " and max ", symbol.max,
                 " of a count are no multiples of ", symbol.divisor);
    const TensorDecl &input = program.inputs[size_t(symbol.input)];
    // Padding of floats is 0: other values would be compared with rounding.
    if (isFloat(input.dtype) && symbol.differs)
      return bad(where, ".differs is ", symbol.differs, ", but input '", input.name,
                 "' holds floats, of which only zeros are told apart");
    if (symbol.what != Symbol::What::Elements && (isFloat(input.dtype) || input.shape.size() != 2))
      return bad(where, " counts runs in input '", input.name,
                 "', which does not hold integers in rows and columns");
    return {};
  }

  /// What a caller sees or gives does not depend on how counts are rounded.
  Status checkCountUses() {
    std::vector<bool> counted;
    // In one sweep, as operands come first.
    for (const Expr &expr : program.exprs)
      counted.push_back(expr.kind == Expr::Kind::Symbol ? program.symbols[expr.a].counts
                                                        : expr.kind != Expr::Kind::Constant &&
                                                              (counted[expr.a] || counted[expr.b]));
    for (auto [table, tensors] :
         {std::pair{"inputs", &program.inputs}, {"outputs", &program.outputs}})
      for (const TensorDecl &tensor : *tensors)
        for (ExprId extent : tensor.shape)
          if (counted[extent])
            return bad(table, " '", tensor.name, "' has the extent ", program.text(extent),
                       ", which depends on a count");
    for (const ValueRule &rule : program.valueRules)
      for (ExprId id : rule.expressions())
        if (counted[id])
          return bad("value_rules: ", program.text(id), " depends on a count");
    return {};
  }

  template <typename Tensors>
  Status readTensors(const char *table, const Tensors *tensors, std::vector<TensorDecl> &result,
                     bool isStatic) {
    std::set<std::string> names;
    for (uint32_t i = 0; tensors && i < tensors->size(); ++i) {
      const fb::Tensor *from = tensors->Get(i);
      TensorDecl to;
      to.name = from->name()->str();
      std::string where = std::string(table) + "[" + std::to_string(i) + "] '" + to.name + "'";
      if (!names.insert(to.name).second)
        return bad(where, " is there twice");
      if (from->dtype() > fb::DType::MAX)
        return bad(where, ".dtype ", int(from->dtype()), " is unknown");
      to.dtype = static_cast<DType>(from->dtype());
      if (from->shape())
        to.shape.assign(from->shape()->begin(), from->shape()->end());
      // Far more than any model has, and few enough for what counts axes in small types.
      if (to.shape.size() > 64)
        return bad(where, " has ", to.shape.size(), " axes");
      for (uint32_t extent : to.shape)
        TRAINRT_TRY(expr(where + ".shape", extent));
      // Parameters, state and hyper-parameters have the same size for every batch: bytes are
      // counted once, here.
      if (isStatic) {
        for (uint32_t extent : to.shape) {
          if (program.exprs[extent].kind != Expr::Kind::Constant)
            return bad(where, ".shape is not constant");
          to.staticShape.push_back(program.exprs[extent].value);
        }
        if (!countBytes(to.dtype, to.staticShape.data(), to.staticShape.size(), to.staticBytes))
          return bad(where, ".shape ", shapeText(to.staticShape), " is impossible");
      }
      to.shardUnit = from->shard_unit();
      to.gradientUnit = from->gradient_unit();
      // Bounded by the tensor, so that no shard's size overflows.
      const int64_t most = std::max<int64_t>(1 << 20, to.staticBytes / int64_t(sizeOf(to.dtype)));
      const bool isParameter = std::string_view(table) == "parameters",
                 isHeld = isParameter || std::string_view(table) == "state";
      for (auto [field, unit, owns] : {std::tuple(".shard_unit", to.shardUnit, isHeld),
                                       {".gradient_unit", to.gradientUnit, isParameter}})
        if (unit && (!owns || unit < 0 || unit > most))
          return bad(where, field, " is ", unit);
      result.push_back(std::move(to));
    }
    return {};
  }

  Status readConstants() {
    for (uint32_t i = 0; source.constants() && i < source.constants()->size(); ++i) {
      const fb::Constant *from = source.constants()->Get(i);
      if (from->dtype() > fb::DType::MAX)
        return bad("constants[", i, "].dtype ", int(from->dtype()), " is unknown");
      Constant to;
      to.dtype = static_cast<DType>(from->dtype());
      // Copied: the mapped file has them at any offset, and kernels read whole elements.
      to.data.assign(from->data()->begin(), from->data()->end());
      program.constants.push_back(std::move(to));
    }
    return {};
  }

  Status readRules() {
    for (uint32_t i = 0; source.value_rules() && i < source.value_rules()->size(); ++i) {
      const fb::ValueRule *from = source.value_rules()->Get(i);
      std::string where = "value_rules[" + std::to_string(i) + "]";
      TRAINRT_TRY(index(where + ".input", from->input(), program.inputs.size()));
      TRAINRT_TRY(expr(where + ".max", from->max()));
      TRAINRT_TRY(index(where + ".node", from->node(), program.nodes.size()));
      if (isFloat(program.inputs[from->input()].dtype))
        return bad(where, ".input '", program.inputs[from->input()].name, "' holds no integers");
      ValueRule to{from->input(),  from->min(),  from->max(), from->has_except(),
                   from->except(), from->node(), {},          {}};
      const size_t rank = program.inputs[to.input].shape.size();
      for (auto [name, ids, place] :
           {std::tuple{".begin", from->begin(), &to.begin}, {".end", from->end(), &to.end}}) {
        if (ids)
          place->assign(ids->begin(), ids->end());
        for (ExprId id : *place)
          TRAINRT_TRY(expr(where + name, id));
      }
      if (to.begin.size() != to.end.size() || (!to.begin.empty() && to.begin.size() != rank))
        return bad(where, " is about a part of other axes than '", program.inputs[to.input].name,
                   "' has");
      program.valueRules.push_back(std::move(to));
    }
    for (uint32_t i = 0; source.size_rules() && i < source.size_rules()->size(); ++i) {
      const fb::SizeRule *from = source.size_rules()->Get(i);
      std::string where = "size_rules[" + std::to_string(i) + "]";
      TRAINRT_TRY(expr(where + ".value", from->value()));
      TRAINRT_TRY(index(where + ".node", from->node(), program.nodes.size()));
      program.sizeRules.push_back({from->value(), from->max(), from->node()});
    }
    return {};
  }

  Status readFunction(const fb::Function &from) {
    Function to;
    to.name = from.name()->str();
    functionText = "function '" + to.name + "'";
    if (program.function(to.name))
      return bad(functionText, " is there twice");
    uint64_t numCommands = from.commands() ? from.commands()->size() : 0;
    // Inputs that any buffer names, plus those that give symbols their values (below), are what a
    // batch must hold for this function.
    std::set<uint32_t> inputs;
    for (uint32_t i = 0; from.buffers() && i < from.buffers()->size(); ++i) {
      const fb::Buffer *buffer = from.buffers()->Get(i);
      std::string where = functionText + ".buffers[" + std::to_string(i) + "]";
      if (buffer->space() > fb::Space::MAX)
        return bad(where, ".space ", int(buffer->space()), " is unknown");
      auto space = static_cast<Space>(buffer->space());
      TRAINRT_TRY(expr(where + ".bytes", buffer->bytes()));
      Buffer result{space, static_cast<uint32_t>(buffer->index()), buffer->bytes(), buffer->first(),
                    buffer->last()};
      result.dtype = buffer->dtype();
      if (result.dtype < -1 || result.dtype >= numDTypes)
        return bad(where, ".dtype ", int(result.dtype), " is unknown");
      if (buffer->label())
        result.label = buffer->label()->str();
      // Elsewhere the host's memory is the device's: such a copy would be a mistake of the
      // compiler.
      if (space == Space::Host && !traitsOf(program.target).isSeparate)
        return bad(where, ".space: only programs for cuda move values to the host");
      if (space == Space::Arena || space == Space::Host) {
        // Lifetimes are what the arena is planned from: a wrong one would let two buffers share
        // bytes.
        if (result.first < 0 || result.first > result.last || uint64_t(result.last) >= numCommands)
          return bad(where, ": lifetime [", result.first, ", ", result.last, "] is not within the ",
                     numCommands, " commands");
      } else {
        TRAINRT_TRY(index(where + ".index", result.index, tableSize(space)));
        to.usesGradients |= space == Space::Gradient;
        to.usesDerived |= space == Space::Derived;
        if (space == Space::Input)
          inputs.insert(result.index);
      }
      to.buffers.push_back(result);
    }
    if (from.outputs())
      to.outputs.assign(from.outputs()->begin(), from.outputs()->end());
    for (uint32_t output : to.outputs)
      TRAINRT_TRY(index(functionText + ".outputs", output, program.outputs.size()));
    // Results that nobody asked for have no memory.
    for (const Buffer &buffer : to.buffers)
      if (buffer.space == Space::Output &&
          std::find(to.outputs.begin(), to.outputs.end(), buffer.index) == to.outputs.end())
        return bad(functionText, " has a buffer of output '", program.outputs[buffer.index].name,
                   "', which is not among its outputs");
    for (uint32_t i = 0; i < numCommands; ++i)
      TRAINRT_TRY(readCommand(*from.commands()->Get(i), int32_t(i), to));
    if (size_t wrong; !matchLoops(to.commands, wrong))
      return bad(functionText, ".commands[", wrong, "]: its loop does not begin and end alike");

    // Everything below that can need an expression is collected, so that a step evaluates no other.
    auto collect = [&](ExprId id) { program.collect(id, to.exprs, to.symbols); };
    to.exprs.resize(program.exprs.size());
    to.symbols.resize(program.symbols.size());
    for (const Buffer &buffer : to.buffers)
      collect(buffer.bytes);
    for (uint32_t output : to.outputs)
      std::for_each(program.outputs[output].shape.begin(), program.outputs[output].shape.end(),
                    collect);
    for (const Command &command : to.commands) {
      for (const Operand &operand : command.operands)
        if (operand.isPresent())
          collect(operand.offset);
      std::for_each(command.sizes.begin(), command.sizes.end(), collect);
      std::for_each(command.costs.begin(), command.costs.end(), collect);
    }
    TRAINRT_TRY(readFlops(from, to));
    TRAINRT_TRY(readPhases(from, to));
    TRAINRT_TRY(readConditions(from, to));
    auto collectInput = [&](uint32_t input) {
      const auto &shape = program.inputs[input].shape;
      std::for_each(shape.begin(), shape.end(), collect);
    };
    for (uint32_t input : inputs)
      collectInput(input);
    for (const ValueRule &rule : program.valueRules)
      if (inputs.count(rule.input))
        for (ExprId id : rule.expressions())
          collect(id);
    // A symbol that no axis of these inputs shows is read from its source input; reading that one
    // may need more symbols.
    // Ends: every turn but the last adds an input.
    for (bool again = true; again;) {
      again = false;
      for (size_t i = 0; i < program.symbols.size(); ++i) {
        const Symbol &symbol = program.symbols[i];
        if (!to.symbols[i] || symbol.input < 0 || isShown(uint32_t(i), inputs))
          continue;
        again |= inputs.insert(uint32_t(symbol.input)).second; // a count is never shown
        collectInput(uint32_t(symbol.input));
      }
    }
    to.inputs.assign(inputs.begin(), inputs.end());
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (to.symbols[i] && program.symbols[i].counts)
        to.counts.push_back(uint32_t(i));
    // Of the function alone; linkVariants adds what its variants need.
    to.batchInputs = to.inputs;
    to.batchSymbols = to.symbols;
    to.batchCounts = to.counts;
    program.functions.push_back(std::move(to));
    return {};
  }

  /// -1 for both: the function has no phases (an evaluation). Each phase may be empty.
  Status readPhases(const fb::Function &from, Function &to) {
    to.forwardEnd = from.forward_end();
    to.backwardEnd = from.backward_end();
    const bool isAbsent = to.forwardEnd == -1 && to.backwardEnd == -1;
    if (!isAbsent && (to.forwardEnd < 0 || to.forwardEnd > to.backwardEnd ||
                      uint64_t(to.backwardEnd) > to.commands.size()))
      return bad(functionText, ": its forward ends at ", to.forwardEnd, ", its backward at ",
                 to.backwardEnd, " of ", to.commands.size(), " commands");
    return {};
  }

  /// The expression is evaluated for reports only, hence the list of what it alone needs, in order.
  Status readFlops(const fb::Function &from, Function &to) {
    if (from.flops() == -1)
      return {};
    TRAINRT_TRY(expr(functionText + ".flops", static_cast<uint32_t>(from.flops())));
    const auto id = static_cast<ExprId>(from.flops());
    std::vector<bool> marked, symbols;
    program.collect(id, marked, symbols);
    program.collect(id, to.exprs, to.symbols);
    for (ExprId i = 0; i <= id; ++i)
      if (marked[i])
        to.flops.push_back(i);
    return {};
  }

  Status readConditions(const fb::Function &from, Function &to) {
    // Conditions are asked before a variant runs in place of its function; a function of its own
    // has nobody to ask for.
    if (!from.conditions() || from.conditions()->size() == 0)
      return {};
    if (!from.variant_of())
      return bad(functionText, ".conditions: it is no variant of a function");
    for (uint32_t i = 0; i < from.conditions()->size(); ++i) {
      const fb::Condition *source = from.conditions()->Get(i);
      const std::string where = functionText + ".conditions[" + std::to_string(i) + "]";
      if (source->kind() > fb::ConditionKind::MAX)
        return bad(where, ".kind ", int(source->kind()), " is unknown");
      Condition condition{static_cast<Condition::Kind>(source->kind()),
                          static_cast<uint32_t>(source->mask()),
                          static_cast<uint32_t>(source->input()),
                          source->padding(),
                          source->shift(),
                          source->value(),
                          source->index()};
      if (condition.hasInput())
        TRAINRT_TRY(checkConditionInput(where + ".input", condition.input, source->value()));
      if (!condition.hasMask()) {
        to.conditions.push_back(condition);
        continue;
      }
      TRAINRT_TRY(checkConditionInput(where + ".mask", condition.mask, source->padding()));
      const TensorDecl &mask = program.inputs[condition.mask];
      if (mask.shape.size() != 2)
        return bad(where, ".mask '", mask.name, "' has ", mask.shape.size(), " axes, not 2");
      if (condition.kind == Condition::Kind::RealAt ? condition.index < -2 : condition.shift < 0)
        return bad(where, " has a negative index or shift");
      const bool ofNumbers = condition.kind == Condition::Kind::Contiguous ||
                             condition.kind == Condition::Kind::Above ||
                             condition.kind == Condition::Kind::Unbroken;
      if (ofNumbers && isFloat(mask.dtype))
        return bad(where, ".mask '", mask.name, "' holds floats, not integers");
      if (condition.kind == Condition::Kind::FixedWherePadded &&
          program.inputs[condition.input].shape != mask.shape)
        return bad(where, ".input '", program.inputs[condition.input].name,
                   "' has another shape than '", mask.name, "'");
      to.conditions.push_back(condition);
    }
    return {};
  }

  /// The input exists, and the value can be told apart in it: of floats only zeros are.
  Status checkConditionInput(const std::string &where, uint32_t input, int64_t value) const {
    TRAINRT_TRY(index(where, input, program.inputs.size()));
    if (isFloat(program.inputs[input].dtype) && value != 0)
      return bad(where, " '", program.inputs[input].name, "' holds floats, which can only be 0");
    return {};
  }

  /// Variants can take the place of their functions: they compute the same outputs and may change
  /// the same state.
  /// Needs all functions to be read; names of variants are looked up among them.
  Status linkVariants() {
    auto touches = [](const Function &function, Space space) {
      std::set<uint32_t> indices;
      for (const Buffer &buffer : function.buffers)
        if (buffer.space == space)
          indices.insert(buffer.index);
      return indices;
    };
    for (uint32_t i = 0; i < program.functions.size(); ++i) {
      const flatbuffers::String *name = source.functions()->Get(i)->variant_of();
      if (!name)
        continue;
      Function &variant = program.functions[i];
      const std::string where = "function '" + variant.name + "'.variant_of '" + name->str() + "'";
      uint32_t base = 0;
      while (base < program.functions.size() && program.functions[base].name != name->str())
        ++base;
      if (base == program.functions.size())
        return bad(where, " is no function");
      // One level: a variant of a variant would have conditions of both.
      if (base == i || source.functions()->Get(base)->variant_of())
        return bad(where, " is a variant itself");
      Function &of = program.functions[base];
      // As sets: outputs may be listed in another order.
      if (std::set(variant.outputs.begin(), variant.outputs.end()) !=
          std::set(of.outputs.begin(), of.outputs.end()))
        return bad(where, " computes other outputs");
      for (Space space : {Space::State, Space::Gradient})
        if (touches(variant, space) != touches(of, space))
          return bad(where, " has access to other state or gradients");
      variant.base = int32_t(base);
      of.variants.push_back(i);
      widen(of, variant);
    }
    return {};
  }

  /// A batch for `base` is one for `variant`, too.
  void widen(Function &base, const Function &variant) const {
    std::set<uint32_t> inputs(base.batchInputs.begin(), base.batchInputs.end());
    inputs.insert(variant.inputs.begin(), variant.inputs.end());
    for (const Condition &condition : variant.conditions) {
      if (condition.hasInput())
        inputs.insert(condition.input);
      if (condition.hasMask())
        inputs.insert(condition.mask);
    }
    base.batchInputs.assign(inputs.begin(), inputs.end());
    // Of the inputs' extents only the symbols matter, whose values the batch must give.
    std::vector<bool> ignored;
    for (uint32_t input : inputs)
      for (ExprId extent : program.inputs[input].shape)
        program.collect(extent, ignored, base.batchSymbols);
    // From the beginning again, since variants may bring symbols that are counts.
    base.batchCounts.clear();
    for (size_t i = 0; i < program.symbols.size(); ++i) {
      if (variant.symbols[i])
        base.batchSymbols[i] = true;
      if (base.batchSymbols[i] && program.symbols[i].counts)
        base.batchCounts.push_back(uint32_t(i));
    }
  }

  /// Whether an axis is the symbol itself.
  bool isShown(uint32_t symbol, const std::set<uint32_t> &inputs) const {
    for (uint32_t input : inputs)
      for (ExprId extent : program.inputs[input].shape)
        if (program.exprs[extent].kind == Expr::Kind::Symbol && program.exprs[extent].a == symbol)
          return true;
    return false;
  }

  /// 0, so that no index is in range, for spaces without a table: those are planned, not declared.
  uint64_t tableSize(Space space) const {
    switch (space) {
    case Space::Parameter:
    case Space::Gradient:
      return program.parameters.size();
    case Space::State:
      return program.state.size();
    case Space::Derived:
      return program.derived.size();
    case Space::Input:
      return program.inputs.size();
    case Space::Hyper:
      return program.hypers.size();
    case Space::Constant:
      return program.constants.size();
    case Space::Output:
      return program.outputs.size();
    default:
      return 0;
    }
  }

  /// Access is told by the operand, not by the kind of the command: lifetimes, ordering and this
  /// check need no list of kinds.
  Status readOperand(const std::string &where, const fb::Operand &from, const Function &function,
                     int32_t command, Operand &to) {
    if (from.access() > fb::Access::MAX)
      return bad(where, ".access ", int(from.access()), " is unknown");
    to = {from.buffer(), from.offset(), static_cast<Access>(from.access())};
    if (!to.isPresent())
      return {};
    TRAINRT_TRY(index(where + ".buffer", to.buffer, function.buffers.size()));
    TRAINRT_TRY(expr(where + ".offset", to.offset));
    const Buffer &buffer = function.buffers[to.buffer];
    // Outside of its lifetime the bytes may be another buffer's.
    if ((buffer.space == Space::Arena || buffer.space == Space::Host) &&
        (command < buffer.first || command > buffer.last))
      return bad(where, " uses buffer ", to.buffer, " outside of its lifetime [", buffer.first,
                 ", ", buffer.last, "]");
    if (to.isWritten() && (buffer.space == Space::Input || buffer.space == Space::Constant ||
                           buffer.space == Space::Hyper))
      return bad(where, " writes to a read-only buffer");
    return {};
  }

  Status readCommand(const fb::Command &from, int32_t number, Function &function) {
    const std::string where = functionText + ".commands[" + std::to_string(number) + "]";
    Command to;
    if (from.nodes())
      to.nodes.assign(from.nodes()->begin(), from.nodes()->end());
    for (uint32_t node : to.nodes)
      TRAINRT_TRY(index(where + ".nodes", node, program.nodes.size()));
    if (from.sizes())
      to.sizes.assign(from.sizes()->begin(), from.sizes()->end());
    for (uint32_t id : to.sizes)
      TRAINRT_TRY(expr(where + ".sizes", id));
    if (from.costs())
      to.costs.assign(from.costs()->begin(), from.costs()->end());
    for (uint32_t id : to.costs)
      TRAINRT_TRY(expr(where + ".costs", id));
    if (!to.costs.empty() && to.costs.size() != 2)
      return bad(where, ".costs has ", to.costs.size(), " entries, not 2");
    for (uint32_t i = 0; from.operands() && i < from.operands()->size(); ++i)
      TRAINRT_TRY(readOperand(where + ".operands[" + std::to_string(i) + "]",
                              *from.operands()->Get(i), function, number,
                              to.operands.emplace_back()));
    // Indices of the program's kernels; which of them are wanted, and whether any, the kind of
    // command says.
    std::vector<uint32_t> kernels;
    if (from.kernels())
      kernels.assign(from.kernels()->begin(), from.kernels()->end());
    for (uint32_t kernel : kernels)
      TRAINRT_TRY(index(where + ".kernel", kernel, program.kernels.size()));
    TRAINRT_TRY(readOp<0>(from, {program, to.operands, to.sizes, kernels, where}, to.op));
    // Only what the copies' lane orders may touch the host's memory.
    bool touchesHost = false, touchesDevice = false;
    for (const Operand &operand : to.operands)
      if (operand.isPresent())
        (function.buffers[operand.buffer].space == Space::Host ? touchesHost : touchesDevice) =
            true;
    if (touchesHost && (!std::holds_alternative<Copy>(to.op) || !touchesDevice))
      return bad(where, " uses a buffer on the host, which only copies to and from the GPU may");
    function.commands.push_back(std::move(to));
    return {};
  }

  /// Reads the kind of command whose number in the union, behind "none", is that in the variant.
  template <size_t kind>
  Status readOp(const fb::Command &from, const CommandCheck &check, CommandOp &op) {
    static_assert(size_t(fb::Op::MAX) == std::variant_size_v<CommandOp>);
    if constexpr (kind == std::variant_size_v<CommandOp>) {
      return check.bad(".op is of an unknown kind");
    } else {
      if (size_t(from.op_type()) != kind + 1)
        return readOp<kind + 1>(from, check, op);
      using Table = TableOf<std::variant_alternative_t<kind, CommandOp>>;
      static_assert(size_t(fb::OpTraits<Table>::enum_value) == kind + 1,
                    "CommandOp has another order than the union of program.fbs");
      return op.emplace<kind>().read(*static_cast<const Table *>(from.op()), check);
    }
  }
  /// The table that a kind is read from is the first parameter of its `read`.
  template <typename Kind, typename Table>
  static Table tableOf(Status (Kind::*)(const Table &, const CommandCheck &));
  template <typename Kind> using TableOf = decltype(tableOf(&Kind::read));

  const fb::Program &source;
  const unsigned char *start;
  Program &program;
  std::string functionText;
};

} // namespace

/// Nothing of `program` changes unless all has been read.
Status readProgram(const unsigned char *data, uint64_t size, Program &program) {
  auto bad = [](const auto &...what) { return fail(Code::BadPackage, "program.fb: ", what...); };
  if (size < 8 || !fb::ProgramBufferHasIdentifier(data))
    return bad("it is not a program (no file identifier)");
  // Limits for hostile files; real ones nest a few levels deep.
  flatbuffers::Verifier verifier(data, size, /*max_depth=*/64, /*max_tables=*/100'000'000);
  if (!fb::VerifyProgramBuffer(verifier))
    return bad("its structure is damaged");
  const fb::Program *source = fb::GetProgram(data);
  if (source->version_major() < programMajor || source->version_major() > programMajorLatest)
    return bad("version_major is ", source->version_major(), "; this runtime reads ", programMajor,
               " to ", programMajorLatest,
               source->version_major() > programMajorLatest
                   ? ": use a newer runtime"
                   : ": compile the model again with this version of trainc");
  Program result;
  TRAINRT_TRY(Reader(*source, data, result).read());
  program = std::move(result);
  return {};
}

} // namespace trainrt
