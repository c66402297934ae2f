// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reductions: ReduceSum and its relatives. Axes are an attribute or an input, by operator and
// opset.

#include "lib/Conversion/ONNXToTrain/Handlers.h"

using namespace mlir;
using trainc::train::ReduceKind;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// Known elements: sums and products of sizes.
static std::optional<Scalar> reduceContent(NodeContext &c, StringRef name, const Content &x) {
  StringRef step = name == "ReduceSum"    ? "Add"
                   : name == "ReduceProd" ? "Mul"
                   : name == "ReduceMax"  ? "Max"
                   : name == "ReduceMin"  ? "Min"
                                          : "";
  // Others need roots or real numbers.
  if (step.empty() || x.values.empty())
    return std::nullopt;
  // Two at a time, with the same rules as the operators themselves.
  Content total = makeScalar(x.element, x.values[0]);
  for (const Scalar &value : ArrayRef<Scalar>(x.values).drop_front()) {
    Content next = makeScalar(x.element, value);
    std::optional<Content> sum = evaluate(step, {&total, &next}, x.element, c.state.bounds);
    if (!sum)
      return std::nullopt;
    total = *sum;
  }
  return total.values[0];
}

static LogicalResult reduce(NodeContext &c) {
  StringRef name = c.op.getOpType();
  int64_t rank = c.rank(0);
  Axes axes;
  bool given = false;
  // Axes became an input, one operator after the other.
  if (c.has(1)) {
    auto values = c.constants(1, "axes");
    auto found = values ? c.axes(*values, rank) : std::nullopt;
    if (!found)
      return failure();
    axes = *found;
    // An empty list means all axes, unless the attribute says otherwise.
    given = !axes.empty();
  } else if (auto values = c.ints("axes")) {
    auto found = c.axes(*values, rank);
    if (!found)
      return failure();
    axes = *found;
    given = !axes.empty();
  }
  // Without axes the reduction itself is left out: a sum of squares is then the square.
  if (!given && !c.attr("noop_with_empty_axes", int64_t(0))) {
    for (int64_t i = 0; i < rank; ++i)
      axes.push_back(i);
  }
  // Reductions expect them in order.
  llvm::sort(axes);
  bool keep = c.attr("keepdims", int64_t(1));
  // Only whole tensors of rank 0 or 1: lists of sizes.
  if (const Content *known = c.content(0); known && rank <= 1 && int64_t(axes.size()) == rank)
    if (std::optional<Scalar> total = reduceContent(c, name, *known))
      return c.set(Content{known->element, SmallVector<int64_t>(keep ? rank : 0, 1), {*total}});

  // Extremes of booleans are "any" and "all".
  if (c.element(0).isInteger(1) && name != "ReduceMax" && name != "ReduceMin")
    return c.fail("it is not supported on booleans");
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(0);
  Value x = c.tensor(0), y;
  Type element = c.element(0);
  bool integer = isa<IntegerType>(element);
  // A root or logarithm of integers is computed in reals and truncated.
  if (integer && (name == "ReduceL2" || name.starts_with("ReduceLog")))
    x = tb.cast(x, tb.b().getF64Type());
  // A scalar has no axes: its one element is the result.
  auto apply = [&](ReduceKind kind, Value value) {
    // Nothing to reduce, as a sum of one.
    return axes.empty() ? value : tb.reduce(kind, value, axes);
  };
  if (name == "ReduceSum")
    y = apply(ReduceKind::sum, x);
  else if (name == "ReduceMean")
    y = axes.empty() ? x : tb.mean(x, axes);
  else if (name == "ReduceMax")
    y = apply(ReduceKind::max, x);
  else if (name == "ReduceMin")
    y = apply(ReduceKind::min, x);
  else if (name == "ReduceProd")
    y = apply(ReduceKind::prod, x);
  else if (name == "ReduceL1")
    // Integers have no abs of their own.
    y = apply(ReduceKind::sum, integer ? tb.max(x, tb.sub(tb.scalarLike(x, 0), x)) : tb.abs(x));
  else if (name == "ReduceL2") {
    // As in PyTorch, the gradient of the norm of zeros is 0, not 0 / 0: padding is normalized, too.
    y = apply(ReduceKind::sum, tb.mul(x, x));
    Value zero = tb.scalarLike(y, 0), none = tb.compare("eq", y, zero);
    y = tb.select(none, zero, tb.sqrt(tb.select(none, tb.scalarLike(y, 1), y)));
  } else if (name == "ReduceSumSquare")
    y = apply(ReduceKind::sum, tb.mul(x, x));
  else if (name == "ReduceLogSum")
    y = tb.log(apply(ReduceKind::sum, x));
  else { // ReduceLogSumExp, shifted so that it never overflows
    Value peak = apply(ReduceKind::max, x);
    // A sum of nothing but -inf is -inf; a shift by it would give NaN.
    peak = tb.select(tb.isInf(peak), tb.scalarLike(peak, 0), peak);
    Value shifted = axes.empty() ? tb.sub(x, peak) : tb.sub(x, tb.broadcastAlong(peak, dims, axes));
    y = tb.add(peak, tb.log(apply(ReduceKind::sum, tb.exp(shifted))));
  }
  y = tb.cast(y, element);
  // The axes stay, with size 1.
  if (keep) {
    for (int64_t axis : axes)
      dims[axis] = c.dim(1);
    y = tb.reshape(y, dims);
  }
  return c.set(y);
}

void registerReduce(HandlerTable &table) {
  for (StringRef name :
       {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2",
        "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
    table.add(name, reduce, 1, 1);
  using Table = HandlerTable;
  table.describe({"ReduceSum", "ReduceMean", "ReduceProd", "ReduceL1", "ReduceL2",
                  "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"},
                 Table::kNumbers);
  table.describe({"ReduceMax", "ReduceMin"}, Table::kAll);
}

} // namespace trainc::legalize
