// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same ops on vectors of a symbolic length. Rows of a tensor are as good as a tensor of their
// own: what views them goes, and the kernel gets the place where they begin.

#include "FlatForm.h"
#include "dialects/Train/Reorder/Formula.h"
#include "mlir/IR/IRMapping.h"
#include "trainc/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// More take longer than a launch: their kernels know that blocks are whole.
static constexpr int64_t kMostElements = 1 << 20;
/// Elements that the blocks of every pointwise plan divide.
static constexpr int64_t kWhole = 4096;
static constexpr llvm::StringLiteral kLength = "elements", kBlocks = "blocks";

/// Of the form's own: the length of none of the fusion's axes is a symbol.
static std::string startSymbol(unsigned input) { return "start" + std::to_string(input); }

/// Where an op's result lies in its operand, if that is all it is and its elements are side by side
/// there: how many elements behind the first.
static std::optional<int64_t> getViewStart(Operation *op) {
  if (op->getNumOperands() != 1 || op->getNumResults() != 1 || getRank(op->getOperand(0)) == 0)
    return std::nullopt;
  Value operand = op->getOperand(0), result = op->getResult(0);
  // Asked as if the operand were row major: that is what its elements' numbers count.
  StridedLayout layout = contiguousLayout(operand.getType());
  if (auto view = dyn_cast<StridedViewOpInterface>(op)) {
    std::optional<StridedLayout> viewed = view.getStridedView(layout);
    if (!viewed)
      return std::nullopt;
    layout = std::move(*viewed);
  } else if (auto range = dyn_cast<SubrangeOpInterface>(op)) {
    Subrange part = range.getSubrange(0, 0);
    for (auto [axis, stride] : llvm::enumerate(layout.strides)) {
      std::optional<int64_t> start = part.starts[axis].getConstant(),
                             size = getDim(result, axis).getConstant(),
                             all = getDim(operand, axis).getConstant();
      // All of it is there: nothing is filled in.
      if (!start || !size || !all || *start < 0 || *start + (*size - 1) * part.steps[axis] >= *all)
        return std::nullopt;
      layout.offset = layout.offset + part.starts[axis] * stride;
      stride = stride * DimAttr::constant(op->getContext(), part.steps[axis]);
    }
  } else {
    return std::nullopt;
  }
  std::optional<int64_t> start = layout.offset.getConstant();
  layout.offset = DimAttr::constant(op->getContext(), 0);
  return start && isContiguous(layout, result.getType()) ? start : std::nullopt;
}

namespace {

/// Asks op by op, from the last to the first, whether a fusion has a flat form, and which elements
/// of each value that is.
class FlatSearch {
public:
  explicit FlatSearch(FusionOp fusion) : body(fusion.getBody().front()) {}

  bool run();

  /// Of what has axes and is needed: the first of the elements, all of which are side by side.
  llvm::DenseMap<Value, int64_t> starts;
  int64_t elements = 0;
  bool reduces = false;

private:
  bool needs(Value value, int64_t start);
  bool takes(Operation &op);
  bool isOnePass();
  bool isAligned(Value argument);

  Block &body;
};

} // namespace

/// One place for each value.
bool FlatSearch::needs(Value value, int64_t start) {
  return getRank(value) == 0 || starts.try_emplace(value, start).first->second == start;
}

/// Whether the op is the same in the flat form. Readers of its result have been asked before.
bool FlatSearch::takes(Operation &op) {
  if (op.getNumResults() != 1 || op.getNumRegions() != 0)
    return false;
  Value result = op.getResult(0);
  const SmallVector<DimAttr> dims = getDims(result);
  if (isa<ReductionOpInterface>(op))
    // No axis is left: all of them are reduced.
    return dims.empty() && op.getNumOperands() == 1 && needs(op.getOperand(0), 0);
  auto needed = starts.find(result);
  // Nothing reads it: it is left out.
  if (!dims.empty() && needed == starts.end())
    return true;
  const int64_t start = dims.empty() ? 0 : needed->second;
  if (std::optional<int64_t> inside = getViewStart(&op))
    return !dims.empty() && needs(op.getOperand(0), *inside + start);
  // One number everywhere.
  auto fusable = dyn_cast<FusionOpInterface>(op);
  if (fusable && fusable.getFusionRole() == FusionRole::Access)
    return op.getNumOperands() == 1 && getRank(op.getOperand(0)) == 0;
  auto pointwise = dyn_cast<PointwiseOpInterface>(op);
  return pointwise && !dependsOnPlace(pointwise) &&
         llvm::all_of(op.getOperands(), [&](Value operand) {
           return getRank(operand) == 0 || (getDims(operand) == dims && needs(operand, start));
         });
}

/// Whether nothing that has axes is made of totals: a second pass would read everything again.
bool FlatSearch::isOnePass() {
  llvm::DenseSet<Value> totals;
  for (Operation &op : body.without_terminator()) {
    if (!isa<ReductionOpInterface>(op) &&
        llvm::none_of(op.getOperands(), [&](Value value) { return totals.contains(value); }))
      continue;
    for (Value result : op.getResults())
      if (getRank(result) != 0)
        return false;
    totals.insert(op.result_begin(), op.result_end());
  }
  return true;
}

/// Whether vectors of what is read of an argument are as aligned as those of its buffer.
bool FlatSearch::isAligned(Value argument) {
  auto start = starts.find(argument);
  return start == starts.end() ||
         start->second * getElementBytes(getElementType(argument)) % kStartBytes == 0;
}

/// The space is what reductions reduce, all of them the same, else the shape of all results.
bool FlatSearch::run() {
  Operation *yield = body.getTerminator();
  SmallVector<DimAttr> space = getDims(yield->getOperand(0));
  for (Operation &op : body.without_terminator())
    if (isa<ReductionOpInterface>(op)) {
      SmallVector<DimAttr> dims = getDims(op.getOperand(0));
      if (std::exchange(reduces, true) && dims != space)
        return false;
      space = std::move(dims);
    }
  if (space.empty() || !isOnePass())
    return false;
  std::optional<int64_t> known = product(yield->getContext(), space).getConstant();
  if (!known || *known == 0)
    return false;
  elements = *known;
  for (Value value : yield->getOperands())
    if (reduces ? getRank(value) != 0 : getDims(value) != space || !needs(value, 0))
      return false;
  auto backwards = llvm::drop_begin(llvm::reverse(body));
  return llvm::all_of(backwards, [&](Operation &op) { return takes(op); }) &&
         llvm::all_of(body.getArguments(), [&](Value argument) { return isAligned(argument); });
}

/// The same reduction of a vector; false where its axes are not among its attributes.
static bool reduceVector(Operation *op) {
  auto reduction = cast<ReductionOpInterface>(op);
  Builder builder(op->getContext());
  Attribute axes = builder.getDenseI64ArrayAttr(reduction.getReducedAxes());
  // Whatever the op calls them.
  for (NamedAttribute attribute : op->getAttrDictionary())
    if (attribute.getValue() == axes)
      op->setAttr(attribute.getName(), builder.getDenseI64ArrayAttr({0}));
  return reduction.getReducedAxes() == SmallVector<int64_t>{0};
}

/// The form has its own block and arguments; `fusion` stays as it is.
std::unique_ptr<FlatForm> FlatForm::of(FusionOp fusion) {
  FlatSearch search(fusion);
  if (!search.run())
    return nullptr;
  MLIRContext *context = fusion.getContext();
  std::unique_ptr<FlatForm> form(new FlatForm());
  // Sums go over their elements in a loop, whose end costs nothing.
  const bool whole =
      !search.reduces && search.elements > kMostElements && search.elements % kWhole == 0;
  form->kind = whole ? "whole" : "flat";
  form->values[whole ? kBlocks : kLength] = whole ? search.elements / kWhole : search.elements;
  DimAttr length = whole ? DimAttr::symbol(context, kBlocks) * DimAttr::constant(context, kWhole)
                         : DimAttr::symbol(context, kLength);
  auto flatType = [&](Value value) -> Type {
    return getRank(value) == 0 ? value.getType() : getTensorType({length}, getElementType(value));
  };
  OpBuilder builder(context);
  builder.setInsertionPointToEnd(&form->block);
  for (Value input : fusion.getInputs())
    form->block.addArgument(flatType(input), input.getLoc());
  form->flat =
      FusionOp::create(builder, fusion.getLoc(), llvm::map_to_vector(fusion.getResults(), flatType),
                       form->block.getArguments());
  Block &from = fusion.getBody().front();
  Block *body = builder.createBlock(&form->flat.getBody());
  IRMapping mapping;
  SmallVector<DimAttr> starts;
  for (auto [number, argument] : llvm::enumerate(from.getArguments())) {
    mapping.map(argument, body->addArgument(flatType(argument), argument.getLoc()));
    // Of all that have a place, moved or not: both are one kernel.
    starts.push_back(getRank(argument) == 0 ? DimAttr::constant(context, 0)
                                            : DimAttr::symbol(context, startSymbol(number)));
    form->values[startSymbol(number)] =
        search.starts.lookup(argument) * getElementBytes(getElementType(argument)) / kStartBytes;
  }
  for (Operation &op : from) {
    Value result = op.getNumResults() == 1 ? op.getResult(0) : Value();
    // Nothing reads it.
    if (result && getRank(result) != 0 && !search.starts.contains(result))
      continue;
    // What is seen of a value is all that there is of it.
    if (result && getViewStart(&op)) {
      mapping.map(result, mapping.lookup(op.getOperand(0)));
      continue;
    }
    Operation *clone = builder.clone(op, mapping);
    for (Value result : clone->getResults())
      result.setType(flatType(result));
    if (isa<ReductionOpInterface>(clone) && !reduceVector(clone))
      return nullptr;
  }
  form->flat->setAttr(kStartsAttr, DimsAttr::get(context, starts));
  return form;
}

/// Sizes of the flat kernel in terms of the fusion's: only the form's own symbols are there.
DimAttr FlatForm::restore(DimAttr dim) const {
  return dim.substitute([&](StringRef name) {
    auto value = values.find(name);
    return value == values.end() ? DimAttr() : DimAttr::constant(dim.getContext(), value->second);
  });
}

} // namespace trainc::codegen
