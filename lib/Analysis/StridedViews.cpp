// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strided views: forming kernels and scheduling ask the same questions here and so never disagree.

#include "lib/Analysis/StridedViews.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

StridedLayout trainc::contiguousLayout(Type tensorType) {
  MLIRContext *context = tensorType.getContext();
  SmallVector<DimAttr> dims = getDims(tensorType);
  StridedLayout layout{DimAttr::constant(context, 0), {}};
  layout.strides.resize(dims.size());
  DimAttr stride = DimAttr::constant(context, 1);
  for (int64_t axis = dims.size() - 1; axis >= 0; --axis) {
    layout.strides[axis] = stride;
    stride = stride * dims[axis];
  }
  return layout;
}

bool trainc::isContiguous(const StridedLayout &layout, Type tensorType) {
  StridedLayout expected = contiguousLayout(tensorType);
  SmallVector<DimAttr> dims = getDims(tensorType);
  if (!layout.offset.isConstant(0))
    return false;
  for (auto [axis, dim] : llvm::enumerate(dims))
    if (!dim.isConstant(1) && layout.strides[axis] != expected.strides[axis])
      return false;
  return true;
}

FusionRole trainc::getFusionRole(Operation *op) {
  auto fusion = dyn_cast<FusionOpInterface>(op);
  return fusion ? fusion.getFusionRole() : FusionRole::None;
}

/// Libraries want the elements of rows or of columns side by side: one of the axes that are not
/// those of a batch must have stride 1. `axes` are the loops of the value's axes.
static bool hasUnitStride(const AxisMap &map, ArrayRef<int> axes, ArrayRef<DimAttr> dims,
                          const StridedLayout &layout) {
  auto isBatch = [&](int loop) {
    return llvm::all_of(map.operands,
                        [&](ArrayRef<int> operand) { return llvm::is_contained(operand, loop); }) &&
           llvm::is_contained(map.results[0], loop);
  };
  bool anyLong = false;
  for (auto [axis, loop] : llvm::enumerate(axes)) {
    if (isBatch(loop) || dims[axis].isConstant(1))
      continue;
    if (layout.strides[axis].isConstant(1))
      return true;
    anyLong = true;
  }
  return !anyLong;
}

static bool libraryReads(Operation *library, Value value, const StridedLayout &layout) {
  auto mapped = dyn_cast<AxisMapOpInterface>(library);
  if (!mapped)
    return false;
  AxisMap map = mapped.getAxisMap();
  for (OpOperand &operand : library->getOpOperands())
    if (operand.get() == value &&
        !hasUnitStride(map, map.operands[operand.getOperandNumber()], getDims(value), layout))
      return false;
  return true;
}

bool trainc::acceptsStrides(Value value, const StridedLayout &layout,
                            llvm::function_ref<bool(Operation *)> ignore) {
  for (Operation *user : value.getUsers()) {
    if (ignore(user))
      continue;
    FusionRole role = getFusionRole(user);
    if (role == FusionRole::Library) {
      if (!libraryReads(user, value, layout))
        return false;
      continue;
    }
    auto view = dyn_cast<StridedViewOpInterface>(user);
    if (!view || (role != FusionRole::View && role != FusionRole::Access))
      return false;
    std::optional<StridedLayout> next = view.getStridedView(layout);
    // A kernel computes access ops itself, but reads what stands behind another view from memory.
    auto none = [](Operation *) { return false; };
    if (!next || !(role == FusionRole::View ? acceptsStrides(user->getResult(0), *next, none)
                                            : acceptsStrides(user->getResult(0), *next, ignore)))
      return false;
  }
  return true;
}

std::optional<StridedLayout> trainc::layoutForContiguousResult(Operation *view) {
  auto mapped = dyn_cast<AxisMapOpInterface>(view);
  if (!mapped || view->getNumOperands() != 1 || view->getNumResults() != 1)
    return std::nullopt;
  AxisMap map = mapped.getAxisMap();
  if (map.operands[0].size() != map.results[0].size())
    return std::nullopt;
  StridedLayout result = contiguousLayout(view->getResult(0).getType());
  StridedLayout operand{result.offset, {}};
  for (int loop : map.operands[0]) {
    auto axis = llvm::find(map.results[0], loop);
    if (loop < 0 || map.loops[loop] != LoopKind::Parallel || axis == map.results[0].end())
      return std::nullopt;
    operand.strides.push_back(result.strides[axis - map.results[0].begin()]);
  }
  return operand;
}

std::optional<StridedLayout> trainc::getLayout(Value value) {
  Operation *def = value.getDefiningOp();
  auto view = dyn_cast_or_null<StridedViewOpInterface>(def);
  if (!view)
    return contiguousLayout(value.getType());
  std::optional<StridedLayout> operand = getLayout(def->getOperand(0));
  return operand ? view.getStridedView(*operand) : std::nullopt;
}

bool trainc::isAbsorbedByProducer(Operation *view) {
  if (!isa<StridedViewOpInterface>(view))
    return false;
  Value operand = view->getOperand(0);
  Operation *producer = operand.getDefiningOp();
  if (!producer || getFusionRole(producer) != FusionRole::Library || !operand.hasOneUse())
    return false;
  std::optional<StridedLayout> layout = layoutForContiguousResult(view);
  auto mapped = dyn_cast<AxisMapOpInterface>(producer);
  if (!layout || !mapped)
    return false;
  AxisMap map = mapped.getAxisMap();
  unsigned result = cast<OpResult>(operand).getResultNumber();
  return hasUnitStride(map, map.results[result], getDims(operand), *layout);
}
