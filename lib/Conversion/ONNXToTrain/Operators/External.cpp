// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Operators of plug-ins: the declared sizes get their values from the inputs', and the call is one
// op. Its gradient is that of the function that the importer has made of the operator.

#include "dialects/Train/External/External.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;

namespace trainc::legalize {
namespace {

using plugin::Expression;
using train::DimsAttr;

/// Of a name in a plug-in's JSON, or null.
static Type elementTypeOf(StringRef name, MLIRContext *context) {
  Builder b(context);
  return llvm::StringSwitch<Type>(name)
      .Case("f32", b.getF32Type())
      .Case("f64", b.getF64Type())
      .Case("f16", b.getF16Type())
      .Case("bf16", b.getBF16Type())
      .Case("i8", b.getIntegerType(8))
      .Case("i16", b.getIntegerType(16))
      .Case("i32", b.getIntegerType(32))
      .Case("i64", b.getIntegerType(64))
      .Case("bool", b.getIntegerType(1))
      .Default({});
}

class External {
public:
  External(NodeContext &c, const plugin::Operator &op) : c(c), op(op) {}

  LogicalResult run() {
    const std::string &target = c.state.options->target;
    auto found = op.implementations.find(target);
    if (found == op.implementations.end())
      return c.fail("its plug-in has no '" + target + "' that computes it there; add that (" +
                    op.where + ")");
    implementation = found->second;
    if (c.numInputs() != int64_t(op.inputs.size()))
      return c.fail("it has " + Twine(c.numInputs()) + " inputs, not " + Twine(op.inputs.size()) +
                    " (" + op.where + ")");
    for (auto [i, input] : llvm::enumerate(op.inputs))
      if (failed(checkInput(input, i)) || failed(bindAxes(input, i)))
        return failure();
    for (auto [i, input] : llvm::enumerate(op.inputs))
      if (failed(checkShape(input, i)))
        return failure();
    if (failed(readAttributes()))
      return failure();
    SmallVector<Type> results;
    for (const plugin::Tensor &output : op.outputs)
      if (failed(addResult(output, results)))
        return failure();
    return build(results);
  }

private:
  LogicalResult checkInput(const plugin::Tensor &input, int64_t i) {
    if (!c.has(i))
      return c.fail("its input '" + input.name + "' is missing");
    if (c.in(i).unsignedBits)
      return c.fail("its input '" + input.name +
                    "' is unsigned, which plug-ins are not given; cast it before");
    bool known = false;
    for (const std::string &type : input.types)
      known |= elementTypeOf(type, c.context()) == c.element(i);
    if (!input.like.empty())
      known = c.element(i) == elementOf(input.like);
    const int64_t rank = input.shape.size();
    if (known && (input.hasLeading ? c.rank(i) >= rank : c.rank(i) == rank))
      return success();
    std::string text;
    llvm::raw_string_ostream stream(text);
    // As descriptions have it.
    stream << "its input '" << input.name << "' is ";
    if (c.element(i).isInteger(1))
      stream << "bool";
    else
      stream << c.element(i);
    stream << train::dimsToString(c.dims(i)) << ", and the plug-in takes '" << input.text << "' ("
           << op.where << ")";
    return c.fail(text);
  }

  Type elementOf(StringRef name) {
    for (auto [i, input] : llvm::enumerate(op.inputs))
      if (input.name == name)
        return c.element(i);
    return {};
  }

  /// Names of axes that stand alone get the sizes that are there.
  LogicalResult bindAxes(const plugin::Tensor &input, int64_t i) {
    ArrayRef<DimAttr> dims = c.dims(i);
    sizes[input.name] = train::product(c.context(), dims);
    ArrayRef<DimAttr> front = dims.drop_back(input.shape.size());
    if (input.hasLeading && !leading)
      leading = llvm::to_vector(front);
    for (auto [size, dim] : llvm::zip_equal(input.shape, dims.take_back(input.shape.size())))
      if (size.kind == Expression::Kind::Name)
        axes.try_emplace(size.name, dim);
    return success();
  }

  LogicalResult checkShape(const plugin::Tensor &input, int64_t i) {
    Dims wanted;
    if (failed(shapeOf(input, wanted)))
      return failure();
    if (ArrayRef<DimAttr>(wanted) == ArrayRef<DimAttr>(c.dims(i)))
      return success();
    return c.fail("its input '" + input.name + "' has the shape " + train::dimsToString(c.dims(i)) +
                  ", and '" + input.text + "' of the plug-in is " + train::dimsToString(wanted) +
                  " here (" + op.where + ")");
  }

  LogicalResult shapeOf(const plugin::Tensor &tensor, Dims &dims) {
    if (tensor.hasLeading)
      llvm::append_range(dims, *leading);
    for (const Expression &size : tensor.shape) {
      DimAttr dim = evaluate(size);
      if (!dim)
        return failure();
      dims.push_back(dim);
    }
    return success();
  }

  LogicalResult addResult(const plugin::Tensor &output, SmallVectorImpl<Type> &results) {
    Dims dims;
    if (failed(shapeOf(output, dims)) || !c.needSizes(dims))
      return failure();
    // As a function is told it.
    if (dims.size() > 255)
      return c.fail("its output '" + output.name + "' has " + Twine(dims.size()) +
                    " axes, and functions of plug-ins take 255 at most (" + op.where + ")");
    Type element = output.like.empty() ? elementTypeOf(output.types.front(), c.context())
                                       : elementOf(output.like);
    results.push_back(train::getTensorType(dims, element));
    sizes[output.name] = train::product(c.context(), dims);
    return success();
  }

  /// Null with a reason.
  DimAttr evaluate(const Expression &expression) {
    using Kind = Expression::Kind;
    switch (expression.kind) {
    case Kind::Number:
      return c.dim(expression.number);
    case Kind::Size:
      return sizes.lookup(expression.name);
    case Kind::Name:
      return valueOf(expression.name);
    default:
      break;
    }
    DimAttr lhs = evaluate(expression.operands[0]), rhs = evaluate(expression.operands[1]);
    if (!lhs || !rhs)
      return {};
    switch (expression.kind) {
    case Kind::Add:
      return lhs + rhs;
    case Kind::Subtract:
      return lhs - rhs;
    case Kind::Multiply:
      return lhs * rhs;
    case Kind::Min:
      return c.state.bounds.min(lhs, rhs);
    case Kind::Max:
      return c.state.bounds.max(lhs, rhs);
    default:
      break;
    }
    if (rhs.getConstant().value_or(1) <= 0 || !c.state.bounds.atMost(c.dim(1), rhs)) {
      (void)c.fail("a size of the plug-in is divided by " + rhs.str() +
                   ", which is not known to be above 0 (" + op.where + ")");
      return {};
    }
    if (expression.kind == Kind::Remainder)
      return train::mod(lhs, rhs);
    return train::floorDiv(expression.kind == Kind::Divide ? lhs : lhs + rhs - c.dim(1), rhs);
  }

  DimAttr valueOf(StringRef name) {
    if (DimAttr axis = axes.lookup(name))
      return axis;
    std::optional<int64_t> value = c.attr(name, std::numeric_limits<int64_t>::min());
    if (*value != std::numeric_limits<int64_t>::min())
      return c.dim(*value);
    (void)c.fail("its attribute '" + name + "' is missing");
    return {};
  }

  LogicalResult readAttributes() {
    using Kind = plugin::Attribute::Kind;
    Builder &b = c.tb.b();
    NamedAttrList list;
    for (const plugin::Attribute &attribute : op.attributes) {
      Attribute given = c.rawAttr(attribute.name), value;
      if (!given)
        return c.fail("its attribute '" + attribute.name + "' is missing");
      switch (attribute.kind) {
      case Kind::Int:
        value = dyn_cast<IntegerAttr>(given);
        break;
      case Kind::Float:
        if (auto number = dyn_cast<FloatAttr>(given))
          value = b.getF64FloatAttr(number.getValueAsDouble());
        break;
      case Kind::Ints:
        if (auto list = dyn_cast<DenseI64ArrayAttr>(given))
          value = b.getI64ArrayAttr(list.asArrayRef());
        break;
      case Kind::Floats:
        if (auto list = dyn_cast<DenseF32ArrayAttr>(given))
          value = b.getF64ArrayAttr(llvm::to_vector_of<double>(list.asArrayRef()));
        break;
      case Kind::String:
        value = dyn_cast<StringAttr>(given);
        break;
      }
      if (!value)
        return c.fail("its attribute '" + attribute.name +
                      "' is of another type than the plug-in "
                      "declares (" +
                      op.where + ")");
      list.set(attribute.name, value);
    }
    if (!list.empty())
      settings = list.getDictionary(c.context());
    return success();
  }

  /// Grid, block and shared memory, and the kernel's arguments.
  LogicalResult layOutLaunch(DimsAttr &launch, ArrayAttr &arguments) {
    if (!implementation.launch)
      return success();
    Builder &b = c.tb.b();
    const plugin::Launch &from = *implementation.launch;
    Dims dims;
    for (const std::vector<Expression> *list : {&from.grid, &from.block})
      for (size_t axis = 0; axis < 3; ++axis)
        dims.push_back(axis < list->size() ? evaluate((*list)[axis]) : c.dim(1));
    dims.push_back(evaluate(from.shared));
    SmallVector<Attribute> values;
    for (const plugin::Argument &argument : from.arguments)
      values.push_back(valueOf(argument));
    if (llvm::is_contained(dims, DimAttr()) || llvm::is_contained(values, Attribute()))
      return failure();
    if (failed(checkLaunch(dims)))
      return failure();
    launch = DimsAttr::get(c.context(), dims);
    arguments = b.getArrayAttr(values);
    return success();
  }

  /// What is known while compiling, against what no GPU goes beyond (CUDA C++ Programming Guide,
  /// "Technical Specifications per Compute Capability"); a kernel may have less.
  LogicalResult checkLaunch(ArrayRef<DimAttr> dims) {
    static constexpr std::pair<StringRef, int64_t> most[] = {
        {"grid along x", (int64_t(1) << 31) - 1},
        {"grid along y", 65535},
        {"grid along z", 65535},
        {"block along x", 1024},
        {"block along y", 1024},
        {"block along z", 64},
        {"dynamic shared memory", 227 << 10}};
    // What depends on the batch is looked at where its sizes are known, in the run.
    int64_t threads = 1;
    for (size_t i = 0; i < dims.size(); ++i) {
      const auto &[what, limit] = most[i];
      const bool isBlock = i / 3 == 1;
      const int64_t least = isBlock ? 1 : 0, size = dims[i].getConstant().value_or(least);
      if (size < least || size > limit)
        return c.fail("the " + what + " of its kernel '" + implementation.symbol + "' is " +
                      Twine(size) + ", and GPUs have " + Twine(least) + " to " + Twine(limit) +
                      " (" + op.where + ")");
      threads *= isBlock ? size : 1;
    }
    if (threads > 1024)
      return c.fail("a block of its kernel '" + implementation.symbol + "' has " + Twine(threads) +
                    " threads, and GPUs have at most 1024 (" + op.where + ")");
    return success();
  }

  Attribute valueOf(const plugin::Argument &argument) {
    using Kind = plugin::Argument::Kind;
    Builder &b = c.tb.b();
    if (argument.kind == Kind::Size)
      return evaluate(argument.size);
    if (argument.kind != Kind::Tensor)
      return argument.kind == Kind::Float32 ? b.getF32FloatAttr(float(c.attr(argument.name, 0.0)))
                                            : b.getF64FloatAttr(c.attr(argument.name, 0.0));
    int64_t number = 0;
    for (const std::vector<plugin::Tensor> *list : {&op.inputs, &op.outputs})
      for (const plugin::Tensor &tensor : *list) {
        if (tensor.name == argument.name)
          return b.getI64IntegerAttr(number);
        ++number;
      }
    return {};
  }

  LogicalResult build(TypeRange results) {
    SmallVector<Value> inputs;
    for (int64_t i = 0; i < c.numInputs(); ++i)
      inputs.push_back(c.tensor(i));
    DimsAttr launch;
    ArrayAttr arguments;
    if (failed(layOutLaunch(launch, arguments)))
      return failure();
    DimAttr flops = c.dim(0);
    if (op.flops)
      flops = evaluate(*op.flops);
    else
      for (const plugin::Tensor &output : op.outputs)
        flops = flops + sizes.lookup(output.name);
    if (!flops)
      return failure();
    auto made =
        train::ExternalOp::create(c.tb.b(), c.op.getLoc(), results, inputs, op.plugin,
                                  implementation.symbol, flops, settings, launch, arguments);
    for (auto [i, result] : llvm::enumerate(made.getResults()))
      if (int64_t(i) < c.numOutputs() && failed(c.set(result, i)))
        return failure();
    return success();
  }

  NodeContext &c;
  const plugin::Operator &op;
  plugin::Implementation implementation;
  /// Values of the names of axes, and elements of the tensors by their names.
  llvm::StringMap<DimAttr> axes, sizes;
  std::optional<Dims> leading;
  DictionaryAttr settings;
};
} // namespace

static LogicalResult external(NodeContext &c) {
  StringRef name = c.op.getOpType();
  // Nodes that handlers of plug-ins in C++ make have the domain there.
  if (name.consume_front(plugin::kDomain))
    name.consume_front("::");
  const plugin::Operator *op = plugin::findOperator(*c.state.options->plugins, name);
  assert(op && "there is a handler for each operator of the plug-ins");
  return External(c, *op).run();
}

void registerPlugins(HandlerTable &table, const plugin::Plugins *described) {
  for (const plugin::LoadedPlugin &plugin : plugin::getLoadedPlugins())
    for (const auto &entry : plugin.registry.handlers.entries)
      table.entries[entry.getKey()] = entry.getValue();
  if (!described)
    return;
  for (const plugin::Plugin &plugin : *described)
    for (const plugin::Operator &op : plugin.operators) {
      const std::string name = (plugin::kDomain + "::" + op.name).str();
      table.add(name, external, 0, 1);
      table.describe({name}, HandlerTable::kAll, !op.gradient.empty());
      table.entries[name].typedAs = -1;
    }
}

} // namespace trainc::legalize
