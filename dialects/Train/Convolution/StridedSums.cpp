// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Phase by phase: every tap is looked at where it counts and nowhere else, and neighbours in a
// phase are neighbours in the windows, so that kernels read vectors.

#include "dialects/Train/Convolution/StridedSums.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

/// The spreads that `op` sums over the taps of, the outermost first, and in `x` what they spread;
/// none where nothing moves by more than 1. Sizes have to be numbers: quotients of symbols would be
/// in the shapes otherwise.
static SmallVector<SpreadOp> summedSpreads(ReduceOp op, Value &x) {
  SmallVector<SpreadOp> spreads;
  SmallVector<int64_t> seen;
  for (x = op.getOperand(); auto spread = x.getDefiningOp<SpreadOp>(); x = spread.getOperand()) {
    const int64_t axis = spread.getAxis(), taps = spread.getTaps();
    if (spread.getDilation() != 1 || !spread->hasOneUse() ||
        !llvm::is_contained(op.getAxes(), taps) || llvm::is_contained(op.getAxes(), axis) ||
        llvm::is_contained(seen, taps) || llvm::is_contained(seen, axis) ||
        !getDim(x, taps).getConstant() || !getDim(x, axis).getConstant())
      break;
    seen.append({axis, taps});
    spreads.push_back(spread);
  }
  if (llvm::none_of(spreads, [](SpreadOp spread) { return spread.getStride() > 1; }))
    spreads.clear();
  return spreads;
}

namespace {

/// What is wanted of an axis that windows slide along, and where its phases are.
struct Sliding {
  int64_t axis, taps, stride;
  /// Of the sum: the first position that is wanted, and how many.
  int64_t start;
  DimAttr size;
  /// Zeros before the first tap, so that the wanted positions begin with the first phase.
  int64_t shift() const { return (stride - start % stride) % stride; }
  /// Positions of one phase that are wanted.
  DimAttr count() const {
    auto number = [&](int64_t value) { return DimAttr::constant(size.getContext(), value); };
    return floorDiv(size + number(stride - 1), number(stride));
  }
};

} // namespace

/// The op that cuts off what windows reach of padding, if nothing else reads the sum: it takes a
/// range of the axes in `slidings`, whose starts and sizes are set.
static Operation *findCrop(ReduceOp op, MutableArrayRef<Sliding> slidings,
                           ArrayRef<int64_t> keptAt) {
  // Others would still want what is cut off.
  if (!op->hasOneUse())
    return nullptr;
  auto crop = dyn_cast<SubrangeOpInterface>(*op->user_begin());
  if (!crop || crop->getNumOperands() != 1 || crop->getNumResults() != 1)
    return nullptr;
  const Subrange range = crop.getSubrange(0, 0);
  Value result = crop->getResult(0);
  assert(int64_t(range.starts.size()) == getRank(result) && "a range along every axis");
  // All axes or none are set.
  SmallVector<Sliding> cut(slidings);
  for (int64_t axis = 0; axis < getRank(result); ++axis) {
    auto start = range.starts[axis].getConstant(), size = getDim(result, axis).getConstant();
    auto whole = getDim(op.getResult(), axis).getConstant();
    auto *sliding = llvm::find_if(cut, [&](const Sliding &s) { return keptAt[s.axis] == axis; });
    if (sliding == cut.end()) {
      if (range.starts[axis].isConstant(0) && getDim(result, axis) == getDim(op.getResult(), axis))
        continue;
      return nullptr;
    }
    // Padding on one side and a range on the other would be two ops.
    if (!start || !size || !whole || *start < 0 || *start + *size > *whole ||
        range.steps[axis] != 1)
      return nullptr;
    sliding->start = *start;
    sliding->size = getDim(result, axis);
  }
  llvm::copy(cut, slidings.begin());
  return crop;
}

/// Taps k = stride * g + r as [g, r], zeros where there are none; the phases r are behind the axis
/// of their positions, or behind g. `at` and `phaseAt`: where axes of `x` and phases are then.
static Value cutTaps(TrainBuilder &tb, Value x, ArrayRef<Sliding> slidings, bool beside,
                     SmallVector<int64_t> &at, SmallVector<int64_t> &phaseAt) {
  assert(at.empty() && phaseAt.empty() && "filled here");
  const SmallVector<DimAttr> dims = getDims(x);
  const int64_t rank = dims.size();
  SmallVector<DimAttr> whole = dims, low(rank, tb.dimAttr(0)), cut;
  phaseAt.assign(slidings.size(), -1);
  for (int64_t i = 0; i < rank; ++i) {
    at.push_back(cut.size());
    cut.push_back(dims[i]);
    for (auto [number, s] : llvm::enumerate(slidings)) {
      if (s.taps == i) {
        low[i] = tb.dimAttr(s.shift());
        DimAttr phases = tb.dimAttr(s.stride);
        whole[i] = floorDiv(dims[i] + low[i] + tb.dimAttr(s.stride - 1), phases) * phases;
        cut[at[i]] = whole[i];
      }
      if ((beside ? s.axis : s.taps) == i) {
        phaseAt[number] = cut.size();
        cut.push_back(tb.dimAttr(s.stride));
      }
    }
  }
  if (whole != dims)
    x = tb.pad(x, 0, low, whole);
  // Windows of the taps, not a reshape: what makes the elements stays in one kernel with the sums.
  x = tb.broadcast(x, cut, at);
  for (int64_t i = 0; i < rank; ++i)
    for (auto [s, phase] : llvm::zip_equal(slidings, phaseAt)) {
      if (s.taps != i)
        continue;
      cut[at[i]] = floorDiv(whole[i], tb.dimAttr(s.stride));
      x = WindowOp::create(tb.b(), tb.loc(), getTensorType(cut, getElementType(x)), x, at[i], phase,
                           s.stride, /*dilation=*/1);
    }
  return x;
}

LogicalResult trainc::train::sumPhases(ReduceOp op, PatternRewriter &rewriter) {
  Value x;
  const SmallVector<SpreadOp> spreads =
      op.getKind() == ReduceKind::sum ? summedSpreads(op, x) : SmallVector<SpreadOp>();
  if (spreads.empty())
    return failure();
  TrainBuilder tb(rewriter, op.getLoc());
  const int64_t rank = getRank(x);
  auto isSummed = [&](int64_t axis) { return llvm::is_contained(op.getAxes(), axis); };
  SmallVector<int64_t> keptAt(rank, -1);
  int64_t kept = 0, last = -1;
  for (int64_t i = 0; i < rank; ++i) {
    if (isSummed(i))
      continue;
    keptAt[i] = kept++;
    if (!getDim(op.getOperand(), i).isConstant(1))
      last = i;
  }
  // From the innermost spread on, as they were made.
  SmallVector<Sliding> slidings;
  for (SpreadOp spread : llvm::reverse(spreads))
    slidings.push_back({int64_t(spread.getAxis()), int64_t(spread.getTaps()),
                        int64_t(spread.getStride()), 0,
                        getDim(spread.getResult(), spread.getAxis())});
  // Where rows are of other axes, phases lie where they belong at once. Rows of positions are read
  // and written as vectors only phase by phase: one more pass puts them side by side.
  const bool beside = llvm::none_of(slidings, [&](const Sliding &s) { return s.axis == last; });
  Operation *crop = beside ? findCrop(op, slidings, keptAt) : nullptr;

  SmallVector<int64_t> at, phaseAt;
  x = cutTaps(tb, x, slidings, beside, at, phaseAt);
  // Position stride * q + r of an axis is q in phase r, where windows move by 1.
  // What is reached before the first wanted position is left out.
  SmallVector<DimAttr> cut = getDims(x), starts(cut.size(), tb.dimAttr(0));
  for (const Sliding &s : slidings) {
    DimAttr stride = tb.dimAttr(s.stride);
    DimAttr reached = getDim(op.getOperand(), s.axis) + tb.dimAttr(s.shift() + s.stride - 1);
    cut[at[s.axis]] = floorDiv(reached, stride);
    starts[at[s.axis]] = tb.dimAttr((s.start + s.shift()) / s.stride);
    x = SpreadOp::create(rewriter, op.getLoc(), getTensorType(cut, getElementType(x)), x,
                         at[s.axis], at[s.taps], /*stride=*/1, /*dilation=*/1);
  }
  for (const Sliding &s : slidings)
    cut[at[s.axis]] = s.count();
  x = tb.slice(x, starts, cut);
  SmallVector<int64_t> summed;
  for (int64_t axis : op.getAxes())
    summed.push_back(at[axis]);
  x = tb.sum(x, summed);
  // Phases lie beside their positions.
  auto placeOf = [&](int64_t axis) {
    return axis - llvm::count_if(summed, [&](int64_t other) { return other < axis; });
  };
  SmallVector<int64_t> order;
  SmallVector<DimAttr> joined;
  for (int64_t i = 0; i < rank; ++i) {
    if (isSummed(i))
      continue;
    order.push_back(placeOf(at[i]));
    joined.push_back(cut[at[i]]);
    for (auto [s, phase] : llvm::zip_equal(slidings, phaseAt)) {
      if (s.axis != i)
        continue;
      order.push_back(placeOf(phase));
      joined.back() = joined.back() * cut[phase];
    }
  }
  if (!llvm::is_sorted(order))
    x = tb.transpose(x, order);
  x = tb.reshape(x, joined);
  Operation *replaced = crop ? crop : op.getOperation();
  SmallVector<DimAttr> wanted = getDims(replaced->getResult(0));
  if (joined != wanted)
    x = tb.pad(x, 0, SmallVector<DimAttr>(wanted.size(), tb.dimAttr(0)), wanted);
  rewriter.replaceOp(replaced, x);
  if (crop)
    rewriter.eraseOp(op);
  return success();
}
