// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strided views: forming kernels and scheduling ask the same questions here and so never disagree.

#include "trainc/Analysis/StridedViews.h"

#include "dialects/Train/RowMoves.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Row-major: the last axis has stride 1. Offsets and strides count elements.
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

/// Axes of extent 1 have no stride that matters.
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
  /// None: the op does not become part of a schedule.
  auto fusion = dyn_cast<FusionOpInterface>(op);
  return fusion ? fusion.getFusionRole() : FusionRole::None;
}

/// Whether a library call takes `value`, wherever it reads it, in this layout.
static bool libraryReads(Operation *library, Value value, const StridedLayout &layout) {
  auto fusion = cast<FusionOpInterface>(library);
  return llvm::all_of(library->getOpOperands(), [&](OpOperand &operand) {
    return operand.get() != value ||
           fusion.acceptsOperandLayout(operand.getOperandNumber(), layout);
  });
}

/// Whether all readers of `value` could read it where it lies, in this layout. Readers that
/// `ignore` says are none of the caller's.
bool trainc::acceptsStrides(Value value, const StridedLayout &layout,
                            llvm::function_ref<bool(Operation *)> ignore) {
  for (Operation *user : value.getUsers()) {
    if (ignore(user))
      continue;
    FusionRole role = getFusionRole(user);
    // Opaque readers need whole, contiguous tensors.
    if (role == FusionRole::Library) {
      if (!libraryReads(user, value, layout))
        return false;
      continue;
    }
    // It lies where the join has it.
    if (isJoinedInPlace(user))
      continue;
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

/// For views that only move axes: the operand's layout with which the result lies in `result`.
static std::optional<StridedLayout> layoutForResult(Operation *view, const StridedLayout &result) {
  auto mapped = dyn_cast<AxisMapOpInterface>(view);
  if (!mapped || view->getNumOperands() != 1 || view->getNumResults() != 1)
    return std::nullopt;
  // A slice or a broadcast has other axes than its operand: no permutation.
  AxisMap map = mapped.getAxisMap();
  if (map.operands[0].size() != map.results[0].size())
    return std::nullopt;
  StridedLayout operand{result.offset, {}};
  for (int loop : map.operands[0]) {
    auto axis = llvm::find(map.results[0], loop);
    if (loop < 0 || map.loops[loop] != LoopKind::Parallel || axis == map.results[0].end())
      return std::nullopt;
    operand.strides.push_back(result.strides[axis - map.results[0].begin()]);
  }
  return operand;
}

/// With this layout of the operand a producer stores its result there at once.
std::optional<StridedLayout> trainc::layoutForContiguousResult(Operation *view) {
  if (view->getNumResults() != 1)
    return std::nullopt;
  return layoutForResult(view, contiguousLayout(view->getResult(0).getType()));
}

/// Where the elements of a value lie: below a chain of views, or as the call that absorbed the view
/// below has stored them. `isStored`: views that have a buffer of their own.
std::optional<StridedLayout> trainc::getLayout(Value value,
                                               llvm::function_ref<bool(Operation *)> isStored) {
  Operation *def = value.getDefiningOp();
  auto view = dyn_cast_or_null<StridedViewOpInterface>(def);
  if (!view) {
    if (std::optional<JoinedPart> part = getJoinedPart(value))
      return part->layout;
    Operation *absorbed = getAbsorbedView(value);
    return absorbed ? layoutForContiguousResult(absorbed) : contiguousLayout(value.getType());
  }
  if (isStored(def))
    return contiguousLayout(value.getType());
  std::optional<StridedLayout> operand = getLayout(def->getOperand(0), isStored);
  return operand ? view.getStridedView(*operand) : std::nullopt;
}

/// The view of a library call's result that the call itself can apply as it stores. Forming kernels
/// and scheduling both ask here: the answer depends on the IR only.
Operation *trainc::getAbsorbedView(Value value) {
  auto result = dyn_cast<OpResult>(value);
  if (!result || getFusionRole(result.getOwner()) != FusionRole::Library)
    return nullptr;
  // One reader that is no library call decides.
  Operation *view = nullptr;
  for (Operation *user : value.getUsers()) {
    if (getFusionRole(user) == FusionRole::Library)
      continue;
    if (view && view != user)
      return nullptr;
    view = user;
  }
  if (!isa_and_nonnull<StridedViewOpInterface>(view) || getJoinedPart(value))
    return nullptr;
  std::optional<StridedLayout> layout = layoutForContiguousResult(view);
  auto producer = cast<FusionOpInterface>(result.getOwner());
  if (!layout || !producer.acceptsResultLayout(result.getResultNumber(), *layout))
    return nullptr;
  // All other readers must take the layout that the view wants.
  bool others = llvm::all_of(value.getUsers(), [&](Operation *user) {
    return user == view || libraryReads(user, value, *layout);
  });
  return others ? view : nullptr;
}

bool trainc::isAbsorbedByProducer(Operation *view) {
  return isa<StridedViewOpInterface>(view) && getAbsorbedView(view->getOperand(0)) == view;
}

/// Where operand number `operand` of a join lies in the row-major result.
static StridedLayout layoutInJoin(Operation *join, unsigned operand) {
  StridedLayout layout = contiguousLayout(join->getResult(0).getType());
  for (auto [start, stride] : llvm::zip_equal(getJoinStarts(join, operand), layout.strides))
    layout.offset = layout.offset + start * stride;
  return layout;
}

namespace {
/// What a library call has made, and where it lies if what is read of it lies somewhere.
struct Made {
  OpResult value;
  StridedLayout layout;
};
} // namespace

/// Up from an operand of a join through views that nothing else reads.
static std::optional<Made> findMade(Operation *join, unsigned number) {
  Value value = join->getOperand(number);
  StridedLayout layout = layoutInJoin(join, number);
  while (value.hasOneUse()) {
    auto result = dyn_cast<OpResult>(value);
    Operation *def = value.getDefiningOp();
    if (!result)
      return std::nullopt;
    if (getFusionRole(def) == FusionRole::Library)
      return Made{result, layout};
    if (!isa<StridedViewOpInterface>(def) || def->getNumOperands() != 1)
      return std::nullopt;
    std::optional<StridedLayout> above =
        isReshape(def) ? reshapeLayout(getDims(value), getDims(def->getOperand(0)), layout)
                       : layoutForResult(def, layout);
    if (!above)
      return std::nullopt;
    layout = *above;
    value = def->getOperand(0);
  }
  return std::nullopt;
}

/// Calls that write whole buffers only take no offset.
static bool writesAt(const Made &made) {
  auto producer = cast<FusionOpInterface>(made.value.getOwner());
  const unsigned number = made.value.getResultNumber();
  StridedLayout behind = made.layout;
  behind.offset = behind.offset + DimAttr::constant(made.value.getContext(), 1);
  return producer.acceptsResultLayout(number, made.layout) &&
         producer.acceptsResultLayout(number, behind);
}

bool trainc::isJoinedInPlace(Operation *op) {
  if (!isJoin(op))
    return false;
  for (unsigned number = 0; number < op->getNumOperands(); ++number) {
    std::optional<Made> made = findMade(op, number);
    if (!made || !writesAt(*made))
      return false;
  }
  return true;
}

std::optional<JoinedPart> trainc::getJoinedPart(Value value) {
  // Down through views to the join, then up again for the layout.
  Value below = value;
  while (below.hasOneUse()) {
    OpOperand &use = *below.use_begin();
    Operation *user = use.getOwner();
    if (isJoinedInPlace(user))
      return JoinedPart{user, findMade(user, use.getOperandNumber())->layout};
    if (!isa<StridedViewOpInterface>(user) || user->getNumResults() != 1)
      return std::nullopt;
    below = user->getResult(0);
  }
  return std::nullopt;
}
