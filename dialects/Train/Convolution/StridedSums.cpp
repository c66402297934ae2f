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

LogicalResult trainc::train::sumPhases(ReduceOp op, PatternRewriter &rewriter) {
  Value x;
  const SmallVector<SpreadOp> spreads =
      op.getKind() == ReduceKind::sum ? summedSpreads(op, x) : SmallVector<SpreadOp>();
  if (spreads.empty())
    return failure();
  TrainBuilder tb(rewriter, op.getLoc());
  const SmallVector<DimAttr> dims = getDims(x);
  const int64_t rank = dims.size();
  // Taps k = stride * g + r are cut into g and r, zeros where there are none.
  SmallVector<int64_t> strides(rank, 0);
  for (SpreadOp spread : spreads)
    strides[spread.getTaps()] = int64_t(spread.getStride());
  SmallVector<DimAttr> whole = dims, cut;
  SmallVector<int64_t> at;
  for (int64_t i = 0; i < rank; ++i) {
    at.push_back(cut.size());
    cut.push_back(dims[i]);
    if (strides[i] == 0)
      continue;
    DimAttr phases = tb.dimAttr(strides[i]);
    whole[i] = floorDiv(dims[i] + tb.dimAttr(strides[i] - 1), phases) * phases;
    cut.back() = whole[i];
    cut.push_back(phases);
  }
  if (whole != dims)
    x = tb.pad(x, 0, SmallVector<DimAttr>(rank, tb.dimAttr(0)), whole);
  // Windows of the taps, not a reshape: what makes the elements stays in one kernel with the sums.
  x = tb.broadcast(x, cut, at);
  for (int64_t i = 0; i < rank; ++i) {
    if (strides[i] == 0)
      continue;
    cut[at[i]] = floorDiv(whole[i], tb.dimAttr(strides[i]));
    x = WindowOp::create(rewriter, op.getLoc(), getTensorType(cut, getElementType(x)), x, at[i],
                         at[i] + 1, strides[i], /*dilation=*/1);
  }
  // Position stride * q + r of an axis is q in phase r, where windows move by 1.
  SmallVector<int64_t> phaseOf(rank, -1);
  for (SpreadOp spread : llvm::reverse(spreads)) {
    const int64_t axis = spread.getAxis(), taps = spread.getTaps(), stride = spread.getStride();
    DimAttr size = getDim(spread.getResult(), axis);
    cut[at[axis]] = floorDiv(size + tb.dimAttr(stride - 1), tb.dimAttr(stride));
    phaseOf[axis] = at[taps] + 1;
    x = SpreadOp::create(rewriter, op.getLoc(), getTensorType(cut, getElementType(x)), x, at[axis],
                         at[taps], /*stride=*/1, /*dilation=*/1);
  }
  SmallVector<int64_t> summed;
  for (int64_t axis : op.getAxes())
    summed.push_back(at[axis]);
  x = tb.sum(x, summed);
  // Phases lie beside their positions.
  auto keptAt = [&](int64_t axis) {
    return axis - llvm::count_if(summed, [&](int64_t other) { return other < axis; });
  };
  SmallVector<int64_t> order;
  SmallVector<DimAttr> joined;
  for (int64_t i = 0; i < rank; ++i) {
    if (llvm::is_contained(op.getAxes(), i))
      continue;
    order.push_back(keptAt(at[i]));
    joined.push_back(cut[at[i]]);
    if (phaseOf[i] < 0)
      continue;
    order.push_back(keptAt(phaseOf[i]));
    joined.back() = joined.back() * cut[phaseOf[i]];
  }
  x = tb.reshape(tb.transpose(x, order), joined);
  SmallVector<DimAttr> wanted = getDims(op.getResult());
  if (joined != wanted)
    x = tb.pad(x, 0, SmallVector<DimAttr>(wanted.size(), tb.dimAttr(0)), wanted);
  rewriter.replaceOp(op, x);
  return success();
}
