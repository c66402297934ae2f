// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "dialects/Train/Reorder/Reorder.h"

using namespace mlir;
using namespace trainc::train;

#include "dialects/Train/TrainReorder.cpp.inc"

SmallVector<int64_t> trainc::train::identityOrder(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

SmallVector<int64_t> trainc::train::inverseOrder(ArrayRef<int64_t> order) {
  SmallVector<int64_t> places(order.size());
  for (auto [place, axis] : llvm::enumerate(order))
    places[axis] = place;
  return places;
}

SmallVector<int64_t> trainc::train::composeOrders(ArrayRef<int64_t> outer,
                                                  ArrayRef<int64_t> inner) {
  return llvm::map_to_vector(inner, [&](int64_t axis) { return outer[axis]; });
}

SmallVector<DimAttr> trainc::train::inOrder(ArrayRef<DimAttr> dims, ArrayRef<int64_t> order) {
  return llvm::map_to_vector(order, [&](int64_t axis) { return dims[axis]; });
}

SmallVector<int64_t> trainc::train::memoryOrder(ArrayRef<DimAttr> dims, ArrayRef<int64_t> order) {
  return llvm::filter_to_vector(order, [&](int64_t axis) { return !dims[axis].isConstant(1); });
}

std::optional<SmallVector<int64_t>> trainc::train::getPermutation(Operation *op) {
  auto access = dyn_cast_if_present<ElementAccessOpInterface>(op);
  auto mapped = dyn_cast_if_present<AxisMapOpInterface>(op);
  // What also checks what it moves (`train.within`) has to stay, though in the same order.
  if (!access || !mapped || !access.onlyMoves() || isa<IndexOperandOpInterface>(op) ||
      op->getNumOperands() != 1 || op->getNumResults() != 1 ||
      getRank(op->getOperand(0)) != getRank(op->getResult(0)))
    return std::nullopt;
  AxisMap map = mapped.getAxisMap();
  SmallVector<int64_t> order;
  for (int loop : map.results[0]) {
    auto at = llvm::find(map.operands[0], loop);
    if (loop < 0 || map.loops[loop] != LoopKind::Parallel || at == map.operands[0].end())
      return std::nullopt;
    order.push_back(at - map.operands[0].begin());
  }
  return order;
}
