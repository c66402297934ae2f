// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which convolutions are calls of a GPU's library, and what makes others of them.

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/TrainBuilder.h"

using namespace mlir;
using namespace trainc::train;

static DimAttr number(DimAttr like, int64_t value) {
  return DimAttr::constant(like.getContext(), value);
}

/// Positions from the first window's first to the last one's last.
static DimAttr reachOfAll(const Sliding &s) {
  return (s.count - number(s.count, 1)) * number(s.count, s.stride) + number(s.count, s.reach());
}

/// Whether the library finds as many windows with `low` zeros on both sides. It may find some that
/// `high` would be too few for: none of them is counted.
static bool hasEvenPads(const Sliding &s) {
  std::optional<int64_t> low = s.low.getConstant();
  if (!low || *low < 0)
    return false;
  const DimAttr room = s.size + s.low + s.low;
  return room == reachOfAll(s) ||
         floorDiv(room - number(room, s.reach()), number(room, s.stride)) + number(room, 1) ==
             s.count;
}

/// All but the zeros.
static bool isCallButForPads(ConvolutionOpInterface op, ArrayRef<Sliding> slidings) {
  const DimAttr groups = number(getDim(op.getInput(), 0), int64_t(op.getGroups()));
  const bool isDepthwise =
      getDims(op.getFilter()).back().isConstant(1) && getDim(op.getFilter(), 0) == groups;
  return slidings.size() <= 3 && !getElementType(op.getInput()).isF64() && !isDepthwise &&
         !arePieces(slidings);
}

bool trainc::train::isLibraryCall(ConvolutionOpInterface op) {
  const SmallVector<Sliding> slidings = getSlidings(op);
  return isCallButForPads(op, slidings) && llvm::all_of(slidings, hasEvenPads);
}

/// The op on an input that windows fill: zeros around it are there, positions that none reaches
/// are not. Where the input is the result, that is done the other way.
bool trainc::train::evenPads(ConvolutionOpInterface op) {
  const SmallVector<Sliding> slidings = getSlidings(op);
  if (llvm::all_of(slidings, hasEvenPads) || !isCallButForPads(op, slidings))
    return false;
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  const SmallVector<DimAttr> image = getDims(op.getInput());
  SmallVector<DimAttr> filled = image, low(image.size(), tb.dimAttr(0)), back = low;
  for (auto [i, s] : llvm::enumerate(slidings)) {
    filled[1 + i] = reachOfAll(s);
    low[1 + i] = s.low;
    back[1 + i] = tb.dimAttr(0) - s.low;
  }
  const auto none =
      DimsAttr::get(op->getContext(), SmallVector<DimAttr>(slidings.size(), tb.dimAttr(0)));
  auto even = cast<ConvolutionOpInterface>(builder.clone(*op));
  even->setAttr("low", none);
  even->setAttr("high", none);
  Value result = even->getResult(0);
  if (even.getInput() == result) {
    result.setType(getTensorType(filled, getElementType(result)));
    result = tb.pad(result, 0, back, image);
  } else {
    builder.setInsertionPoint(even);
    // It leads the operands where it is one.
    even->setOperand(0, tb.pad(even.getInput(), 0, low, filled));
  }
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return true;
}
