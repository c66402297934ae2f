// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The same ops on vectors of a symbolic length.

#include "FlatForm.h"
#include "dialects/Train/Reorder/Formula.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// More take longer than a launch.
static constexpr int64_t kMostElements = 1 << 20;
static constexpr llvm::StringLiteral kLength = "elements";

/// Each element of the result from those of the operands at the same place, or from a scalar.
static bool isElementwise(Operation *op, ArrayRef<DimAttr> space) {
  if (op->getNumResults() != 1 || op->getNumRegions() != 0)
    return false;
  SmallVector<DimAttr> dims = getDims(op->getResult(0));
  if (!dims.empty() && ArrayRef<DimAttr>(dims) != space)
    return false;
  auto fusable = dyn_cast<FusionOpInterface>(op);
  if (fusable && fusable.getFusionRole() == FusionRole::Access)
    return op->getNumOperands() == 1 && getRank(op->getOperand(0)) == 0;
  auto pointwise = dyn_cast<PointwiseOpInterface>(op);
  return pointwise && !dependsOnPlace(pointwise);
}

/// Null unless every op is elementwise, and the size known: kernels of large tensors are worth
/// their own shape.
std::unique_ptr<FlatForm> FlatForm::of(FusionOp fusion) {
  SmallVector<DimAttr> space = getDims(fusion.getResult(0));
  std::optional<int64_t> elements = getNumElements(fusion.getResult(0).getType()).getConstant();
  if (space.empty() || !elements || *elements == 0 || *elements > kMostElements)
    return nullptr;
  for (Value value : llvm::concat<Value>(fusion.getInputs(), fusion.getResults()))
    if (getRank(value) != 0 && getDims(value) != space)
      return nullptr;
  if (llvm::any_of(fusion.getResults(), [](Value value) { return getRank(value) == 0; }))
    return nullptr;
  for (Operation &op : fusion.getBody().front().without_terminator())
    if (!isElementwise(&op, space))
      return nullptr;
  return std::unique_ptr<FlatForm>(new FlatForm(fusion, *elements));
}

/// The form has its own block and arguments; `fusion` stays as it is.
FlatForm::FlatForm(FusionOp fusion, int64_t elements) : elements(elements) {
  DimAttr length = DimAttr::symbol(fusion.getContext(), kLength);
  auto flatType = [&](Value value) -> Type {
    return getRank(value) == 0 ? value.getType() : getTensorType({length}, getElementType(value));
  };
  for (Value input : fusion.getInputs())
    block.addArgument(flatType(input), input.getLoc());
  OpBuilder builder(fusion.getContext());
  builder.setInsertionPointToEnd(&block);
  flat = FusionOp::create(builder, fusion.getLoc(),
                          llvm::map_to_vector(fusion.getResults(), flatType), block.getArguments());
  IRMapping mapping;
  fusion.getBody().cloneInto(&flat.getBody(), mapping);
  Block &body = flat.getBody().front();
  for (BlockArgument argument : body.getArguments())
    argument.setType(flatType(argument));
  for (Operation &op : body.without_terminator())
    op.getResult(0).setType(flatType(op.getResult(0)));
}

/// Sizes of the flat kernel in terms of the fusion's: only the length is the form's own.
DimAttr FlatForm::restore(DimAttr dim) const {
  return dim.substitute([&](StringRef name) {
    return name == kLength ? DimAttr::constant(dim.getContext(), elements) : DimAttr();
  });
}

} // namespace trainc::codegen
