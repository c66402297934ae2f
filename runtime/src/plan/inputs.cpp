// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Binding happens in the order names, ranks and types, symbols, other axes, rules: so that the
// first error is the one to mend first.

#include "plan/inputs.h"
#include "io/convert.h"
#include "plan/counts.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

namespace {

class Binder {
public:
  Binder(const Program &program, const Function &function, const BindOptions &options,
         BoundBatch &bound)
      : program(program), function(function), fillMissing(options.fillMissing),
        checked(options.checked), locate(options.locate), givenCounts(options.givenCounts),
        knownFacts(options.known), place(options.place), bound(bound) {}

  /// A batch of the same names, types and shapes as the last one needs its values looked at,
  /// nothing else: nearly all batches of a run.
  Status run(const Batch &batch) {
    if (sameAsBefore(batch))
      return bindAgain(batch);
    // Until all is checked: a batch that fails must not be taken for known.
    bound.function = nullptr;
    TRAINRT_TRY(bindFirst(batch));
    // From here on, what fits is known.
    TRAINRT_TRY(checkAllValues());
    bound.function = &function;
    bound.fillMissing = fillMissing;
    bound.signature = batch;
    return {};
  }

private:
  /// By names in the order given: another order is bound again, which costs little.
  bool sameAsBefore(const Batch &batch) const {
    if (bound.function != &function || bound.fillMissing != fillMissing ||
        bound.signature.size() != batch.size())
      return false;
    for (size_t i = 0; i < batch.size(); ++i) {
      const NamedArray &before = bound.signature[i];
      if (before.name != batch[i].name || before.array.dtype != batch[i].array.dtype ||
          before.array.shape != batch[i].array.shape)
        return false;
    }
    return true;
  }

  /// Symbols, shapes and rules of sizes are those of the last batch; data, place and counts are
  /// new.
  Status bindAgain(const Batch &batch) {
    for (size_t i = 0; i < function.batchInputs.size(); ++i) {
      if (bound.sources[i] < 0)
        continue;
      ArrayView &array = bound.arrays[function.batchInputs[i]];
      const ArrayView &given = batch[size_t(bound.sources[i])].array;
      array.data = given.data;
      array.onDevice = given.onDevice;
      TRAINRT_TRY(locateInput(function.batchInputs[i]));
      TRAINRT_TRY(checkType(function.batchInputs[i]));
    }
    TRAINRT_TRY(bindCounts());
    return checkAllValues();
  }

  /// `checked`: these values have been looked at before.
  Status checkAllValues() {
    for (size_t i = 0; !checked && i < program.valueRules.size(); ++i)
      TRAINRT_TRY(checkValues(program.valueRules[i], bound.rules[i]));
    return {};
  }

  Status bindFirst(const Batch &batch) {
    bound.arrays.assign(program.inputs.size(), {});
    bound.filled.assign(program.inputs.size(), false);
    bound.anyFilled = false;
    bound.symbols.assign(program.symbols.size(), 0);
    assert(function.batchSymbols.size() == program.symbols.size() && "one flag for each symbol");
    known.assign(program.symbols.size(), false);
    shownBy.assign(program.symbols.size(), -1);
    TRAINRT_TRY(findInputs(batch));
    // A symbol of one value needs no input to show it.
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (program.symbols[i].min == program.symbols[i].max) {
        bound.symbols[i] = program.symbols[i].min;
        known[i] = true;
      } else if (program.symbols[i].run != Symbol::Run::None) {
        known[i] = true;
      }
    program.setRunSymbols(place, bound.symbols);
    // Three passes: axes that are symbols, then those that are made of them, then what was not
    // given.
    for (uint32_t input : function.batchInputs)
      if (!bound.filled[input])
        TRAINRT_TRY(bindSymbols(input));
    for (uint32_t input : function.batchInputs)
      TRAINRT_TRY(bound.filled[input] ? fillShape(input) : checkShape(input));
    TRAINRT_TRY(bindCounts());
    for (uint32_t symbol : function.batchCounts)
      known[symbol] = true;
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (function.batchSymbols[i] && !known[i])
        return fail(Code::BadData, "the size '", program.symbols[i].name,
                    "' is not known: it is read from axis ", program.symbols[i].axis, " of input '",
                    program.inputs[size_t(program.symbols[i].input)].name, "'");
    TRAINRT_TRY(checkSizeRules());
    bound.rules.assign(program.valueRules.size(), {});
    for (size_t i = 0; i < program.valueRules.size(); ++i)
      bindRule(program.valueRules[i], bound.rules[i]);
    return {};
  }

  /// A rule of an input that this batch does not have, or whose bounds are not known, stays unused.
  void bindRule(const ValueRule &rule, BoundBatch::RuleBounds &bounds) {
    const std::vector<uint32_t> &inputs = function.batchInputs;
    if (std::find(inputs.begin(), inputs.end(), rule.input) == inputs.end())
      return;
    const std::vector<int64_t> &shape = bound.arrays[rule.input].shape;
    for (size_t axis = 0; axis < rule.begin.size(); ++axis) {
      int64_t begin, end;
      if (!valueOf(rule.begin[axis], begin) || !valueOf(rule.end[axis], end))
        return;
      bounds.begin.push_back(std::max<int64_t>(begin, 0));
      bounds.end.push_back(std::min(end, shape[axis]));
    }
    int64_t max;
    if (valueOf(rule.max, max))
      bounds.max = max;
  }

  const std::string &nameOfInput(uint32_t input) const { return program.inputs[input].name; }

  /// Batches have few arrays: quadratic is the quickest.
  Status findInputs(const Batch &batch) {
    for (size_t i = 0; i < batch.size(); ++i)
      for (size_t j = 0; j < i; ++j)
        if (batch[i].name == batch[j].name)
          return fail(Code::InvalidArgument, "input '", batch[i].name, "' is given twice");
    std::string missing;
    bound.sources.clear();
    for (uint32_t input : function.batchInputs) {
      auto given = std::find_if(batch.begin(), batch.end(), [&](const NamedArray &array) {
        return array.name == nameOfInput(input);
      });
      bound.sources.push_back(given == batch.end() ? -1 : int32_t(given - batch.begin()));
      if (given != batch.end()) {
        bound.arrays[input] = given->array;
        TRAINRT_TRY(locateInput(input));
        TRAINRT_TRY(checkType(input));
      } else if (fillMissing) {
        bound.filled[input] = bound.anyFilled = true;
      } else {
        missing += (missing.empty() ? "'" : ", '") + nameOfInput(input) + "'";
      }
    }
    if (missing.empty())
      return {};
    std::string present;
    for (const NamedArray &array : batch)
      present += (present.empty() ? "'" : ", '") + array.name + "'";
    return fail(Code::BadData, "the data lacks the input ", missing,
                present.empty() ? "" : "; it has " + present);
  }

  /// Where an array that may lie on the device does.
  /// The device tells; without one all arrays are the host's.
  Status locateInput(uint32_t input) {
    if (!locate)
      return {};
    Status status = locate(bound.arrays[input]);
    return status.ok() ? status : status.within("input '" + nameOfInput(input) + "': ");
  }

  Status checkType(uint32_t input) {
    const TensorDecl &decl = program.inputs[input];
    const ArrayView &array = bound.arrays[input];
    if (array.shape.size() != decl.shape.size()) {
      std::string expected;
      for (ExprId extent : decl.shape)
        expected += (expected.empty() ? "" : ", ") + program.text(extent);
      return fail(Code::BadData, "input '", decl.name, "': expected ", decl.shape.size(),
                  decl.shape.size() == 1 ? " axis [" : " axes [", expected, "], got ",
                  array.shape.size(), " ", shapeText(array.shape));
    }
    // Narrowing would change data silently; the message says how to do it on purpose.
    if (!convertsExactly(array.dtype, decl.dtype))
      return fail(Code::BadData, "input '", decl.name, "': expected ", numpyName(decl.dtype),
                  ", got ", numpyName(array.dtype),
                  ", which may lose information; convert it yourself with ", "data['", decl.name,
                  "'].astype(numpy.", numpyName(decl.dtype), ")");
    // Conversion is done on the host.
    if (array.onDevice && array.dtype != decl.dtype)
      return fail(Code::BadData, "input '", decl.name, "': an array in GPU memory must be ",
                  numpyName(decl.dtype), ", got ", numpyName(array.dtype));
    int64_t elements;
    if (!countElements(array.shape.data(), array.shape.size(), elements))
      return fail(Code::InvalidArgument, "input '", decl.name, "': shape ", shapeText(array.shape),
                  " is impossible");
    if (elements && !array.data)
      return fail(Code::InvalidArgument, "input '", decl.name, "': data is NULL");
    // Kernels and loops load whole elements.
    if (reinterpret_cast<uintptr_t>(array.data) % sizeOf(array.dtype) != 0)
      return fail(Code::InvalidArgument, "input '", decl.name, "': data is not aligned to its ",
                  sizeOf(array.dtype), "-byte elements");
    return {};
  }

  /// The first input that shows a symbol gives its value, later ones must agree: messages name
  /// both.
  Status bindSymbols(uint32_t input) {
    const TensorDecl &decl = program.inputs[input];
    for (size_t axis = 0; axis < decl.shape.size(); ++axis) {
      const Expr &expr = program.exprs[decl.shape[axis]];
      if (expr.kind != Expr::Kind::Symbol) {
        TRAINRT_TRY(bindPart(input, axis));
        continue;
      }
      const Symbol &symbol = program.symbols[expr.a];
      int64_t value = bound.arrays[input].shape[axis];
      if (known[expr.a]) {
        if (bound.symbols[expr.a] == value)
          continue;
        std::string source = shownBy[expr.a] < 0
                                 ? ""
                                 : " as in input '" + nameOfInput(uint32_t(shownBy[expr.a])) + "'";
        return fail(Code::BadData, "input '", decl.name, "', axis ", axis, " ('", symbol.name,
                    "'): expected ", bound.symbols[expr.a], source, ", got ", value);
      }
      std::string reason;
      if (!allowedValue(symbol, value, reason))
        return fail(Code::BadData, "input '", decl.name, "', axis ", axis, " ('", symbol.name,
                    "'): ", value, " ", reason);
      bound.symbols[expr.a] = value;
      known[expr.a] = true;
      shownBy[expr.a] = int64_t(input);
    }
    return {};
  }

  /// A symbol that an axis tells of which it is only a part, as w of `2 * w`.
  Status bindPart(uint32_t input, size_t axis) {
    const TensorDecl &decl = program.inputs[input];
    for (size_t i = 0; i < program.symbols.size(); ++i) {
      const Symbol &symbol = program.symbols[i];
      if (symbol.counts || symbol.input != int32_t(input) || symbol.axis != int32_t(axis) ||
          known[i])
        continue;
      const std::string where = "input '" + decl.name + "', axis " + std::to_string(axis) + " ('" +
                                program.text(decl.shape[axis]) + "'): ";
      const int64_t size = bound.arrays[input].shape[axis];
      std::string reason;
      if (!valueAt(symbol, size, bound.symbols[i]))
        return fail(Code::BadData, where, size, " is not its size for any whole '", symbol.name,
                    "'");
      if (!allowedValue(symbol, bound.symbols[i], reason))
        return fail(Code::BadData, where, size, " makes '", symbol.name, "' ", bound.symbols[i],
                    ", which ", reason);
      known[i] = true;
      shownBy[i] = int64_t(input);
    }
    return {};
  }

  /// Before the number that padding is.
  static const char *whatCounts(Symbol::What what) {
    return what == Symbol::What::Elements ? "elements are not "
           : what == Symbol::What::Runs   ? "runs are not of "
                                          : "elements of one run are not ";
  }

  /// Facts are of the data, so known ones are taken only where the caller knows the data. A count
  /// that is given may be more than needed, never less.
  Status bindCounts() {
    if (!checked || !knownFacts || !knownFacts->find(function, bound.arrays, bound.facts))
      bound.facts = lookAt(program, function, bound.arrays, bound.filled);
    for (size_t i = 0; i < function.batchCounts.size(); ++i) {
      const uint32_t index = function.batchCounts[i];
      const Symbol &symbol = program.symbols[index];
      const ArrayView &array = bound.arrays[size_t(symbol.input)];
      const std::string &input = nameOfInput(uint32_t(symbol.input));
      const int64_t needed = bound.facts.needed[i];
      int64_t elements;
      if (!countElements(array.shape.data(), array.shape.size(), elements))
        return fail(Code::BadData, "input '", input, "' is too large");
      const int64_t whole = mostOf(symbol, array.shape);
      const int64_t given = givenCounts ? (*givenCounts)[index] : -1;
      if (given >= 0 && given < needed)
        return fail(Code::BadData, "the count '", symbol.name, "' was given as ", given,
                    ", but input '", input, "' needs ", needed, ": so many of its ",
                    whatCounts(symbol.what), symbol.differs);
      if (needed > symbol.max)
        return fail(Code::BadData, "input '", input, "': ", needed, " ", whatCounts(symbol.what),
                    symbol.differs, ", at most ", symbol.max, " may be (the count '", symbol.name,
                    "')");
      // Of what the host cannot see all may count.
      bound.symbols[index] = bucketOf(symbol,
                                      given >= 0    ? given
                                      : needed >= 0 ? needed
                                                    : whole,
                                      whole);
    }
    return {};
  }

  /// Evaluates an expression; false if a symbol is not known or it overflows.
  /// The expression's own closure is evaluated: others may need symbols that are not known yet.
  bool valueOf(ExprId id, int64_t &value) {
    const Expr &expr = program.exprs[id];
    if (expr.kind == Expr::Kind::Constant)
      return value = expr.value, true;
    std::vector<bool> exprs, symbols;
    program.collect(id, exprs, symbols);
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i] && !known[i])
        return false;
    std::vector<int64_t> values;
    ExprId wrong;
    if (!evaluate(program, exprs, bound.symbols, values, wrong))
      return false;
    value = values[id];
    return true;
  }

  /// Every axis: constants, and expressions of symbols that other axes have shown.
  Status checkShape(uint32_t input) {
    const TensorDecl &decl = program.inputs[input];
    for (size_t axis = 0; axis < decl.shape.size(); ++axis) {
      int64_t expected, got = bound.arrays[input].shape[axis];
      bool isConstant = program.exprs[decl.shape[axis]].kind == Expr::Kind::Constant;
      if (!valueOf(decl.shape[axis], expected))
        return fail(Code::BadData, "input '", decl.name, "', axis ", axis, " ('",
                    program.text(decl.shape[axis]), "'): its size cannot be computed");
      if (expected != got)
        return fail(Code::BadData, "input '", decl.name, "', axis ", axis,
                    isConstant ? "" : " ('" + program.text(decl.shape[axis]) + "')", ": expected ",
                    expected, ", got ", got);
    }
    return {};
  }

  /// An input that is not given reads as zeros, in the shape that the others imply.
  Status fillShape(uint32_t input) {
    const TensorDecl &decl = program.inputs[input];
    ArrayView &array = bound.arrays[input];
    array.dtype = decl.dtype;
    array.shape.clear();
    for (ExprId extent : decl.shape)
      if (!valueOf(extent, array.shape.emplace_back()))
        return fail(Code::BadData, "input '", decl.name, "' is not given, and its size '",
                    program.text(extent), "' is not known from the others");
    if (!countBytes(decl.dtype, array.shape.data(), array.shape.size(), array.bytes))
      return fail(Code::BadData, "input '", decl.name, "' of shape ", shapeText(array.shape),
                  " is impossible");
    return {};
  }

  /// Rules whose symbols this batch does not have say nothing about it.
  Status checkSizeRules() {
    for (const SizeRule &rule : program.sizeRules) {
      int64_t value;
      if (valueOf(rule.value, value) && value > rule.max)
        return fail(Code::BadData, "the size ", program.text(rule.value), " is ", value,
                    ", at most ", rule.max, " is possible (node '", program.nodes[rule.node], "')");
    }
    return {};
  }

  /// The first element that is not in [min, max), nor the exception; -1 if none. Branch-free over
  /// blocks, exact from the first doubtful block on.
  template <typename T>
  int64_t firstBad(const void *data, int64_t count, int64_t min, int64_t max,
                   const ValueRule &rule) {
    auto *values = static_cast<const T *>(data);
    // Whole blocks at once, without a branch an element: nearly all batches are good.
    constexpr int64_t block = 1024;
    int64_t begin = 0;
    // max > 0 here, so max - 1 does not wrap.
    const uint64_t low = static_cast<uint64_t>(min), high = static_cast<uint64_t>(max - 1);
    for (; min >= 0 && max > 0 && begin + block <= count; begin += block) {
      // The sign of one of the differences says so, also where one wraps around: baseline x86 has
      // no 64-bit comparison of vectors.
      uint64_t any = 0;
      for (int64_t i = begin; i < begin + block; ++i) {
        const uint64_t value = static_cast<uint64_t>(static_cast<int64_t>(values[i]));
        any |= (value - low) | (high - value);
        // Beyond the signed range: the element's own sign bit tells.
        if constexpr (std::is_unsigned_v<T>)
          any |= value;
      }
      if (any >> 63)
        break;
    }
    // A block with a value that may be the exception: one by one from there.
    for (int64_t i = begin; i < count; ++i) {
      // Values beyond the signed range are never allowed; the cast makes them negative.
      int64_t value = static_cast<int64_t>(values[i]);
      bool wrapped = std::is_unsigned_v<T> && value < 0;
      if ((value < min || value >= max || wrapped) &&
          !(rule.hasExcept && value == rule.except && !wrapped))
        return i;
    }
    return -1;
  }

  /// Of the part of an array that a rule is about, in rows of its last axis.
  template <typename T>
  int64_t firstBadOfPart(const ArrayView &array, const BoundBatch::RuleBounds &bounds,
                         const ValueRule &rule) {
    const size_t rank = bounds.begin.size();
    for (size_t axis = 0; axis < rank; ++axis)
      if (bounds.begin[axis] >= bounds.end[axis])
        return -1;
    std::vector<int64_t> at = bounds.begin;
    while (true) {
      int64_t first = 0;
      for (size_t axis = 0; axis < rank; ++axis)
        first = first * array.shape[axis] + at[axis];
      const int64_t bad =
          firstBad<T>(static_cast<const T *>(array.data) + first,
                      bounds.end.back() - bounds.begin.back(), rule.min, bounds.max, rule);
      if (bad >= 0)
        return first + bad;
      size_t axis = rank - 1;
      while (axis > 0 && ++at[axis - 1] == bounds.end[axis - 1]) {
        at[axis - 1] = bounds.begin[axis - 1];
        --axis;
      }
      if (axis == 0)
        return -1;
    }
  }

  /// Indices that kernels read with: a value out of range would read other memory. On the device
  /// they check themselves.
  Status checkValues(const ValueRule &rule, const BoundBatch::RuleBounds &bounds) {
    const int64_t max = bounds.max;
    if (max == INT64_MIN)
      return {};
    const ArrayView &array = bound.arrays[rule.input];
    int64_t count, bad = -1;
    if (!array.data || array.onDevice ||
        !countElements(array.shape.data(), array.shape.size(), count))
      return {};
    visitInteger(array.dtype, [&]<typename T>(T) {
      bad = bounds.begin.empty() ? firstBad<T>(array.data, count, rule.min, max, rule)
                                 : firstBadOfPart<T>(array, bounds, rule);
    });
    if (bad < 0)
      return {};
    // From the flat position to one for each axis.
    std::vector<int64_t> position(array.shape.size());
    int64_t rest = bad;
    for (size_t axis = array.shape.size(); axis-- > 0;) {
      position[axis] = rest % array.shape[axis];
      rest /= array.shape[axis];
    }
    int64_t value = 0;
    std::string text;
    if (array.dtype == DType::U64)
      text = std::to_string(static_cast<const uint64_t *>(array.data)[bad]);
    else
      convertElements(static_cast<const char *>(array.data) + bad * int64_t(sizeOf(array.dtype)),
                      array.dtype, &value, DType::I64, 1),
          text = std::to_string(value);
    return fail(Code::BadData, "input '", nameOfInput(rule.input), "': value ", text,
                array.shape.empty() ? std::string() : " at " + shapeText(position),
                " is out of range: allowed are ",
                rule.min == INT64_MIN ? "values" : std::to_string(rule.min), " to ", max - 1,
                rule.hasExcept ? ", or " + std::to_string(rule.except) : "", " (node '",
                program.nodes[rule.node], "')");
  }

  const Program &program;
  const Function &function;
  bool fillMissing, checked;
  const std::function<Status(ArrayView &)> &locate;
  const std::vector<int64_t> *givenCounts;
  const KnownFacts *knownFacts;
  const RunPlace place;
  BoundBatch &bound;
  std::vector<bool> known;
  std::vector<int64_t> shownBy;
};

} // namespace

/// `reason` is set only where the value is not allowed.
bool allowedValue(const Symbol &symbol, int64_t value, std::string &reason) {
  if (value < symbol.min)
    reason = "is below the minimum " + std::to_string(symbol.min);
  else if (value > symbol.max)
    reason = "is above the maximum " + std::to_string(symbol.max);
  else if (value % symbol.divisor != 0)
    reason = "is not a multiple of " + std::to_string(symbol.divisor);
  else
    return true;
  return false;
}

Status bindBatch(const Package &package, const Function &function, const Batch &batch,
                 const BindOptions &options, BoundBatch &bound) {
  return Binder(package.program(), function, options, bound).run(batch);
}

} // namespace trainrt
