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
  return slidings.size() <= 3 && !getElementType(op.getInput()).isF64() && !arePieces(slidings);
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

namespace {
/// Windows as rows. Axes of one tap are left as they are.
struct Rows {
  Rows(TrainBuilder &tb, ConvolutionOpInterface op)
      : tb(tb), image(getDims(op.getInput())), filter(getDims(op.getFilter())),
        output(getDims(op.getOutput())) {
    const SmallVector<Sliding> slidings = getSlidings(op);
    split.push_back(image.front());
    order.push_back(0);
    for (const Sliding &s : slidings) {
      order.push_back(int64_t(split.size()));
      split.push_back(s.count);
      if (s.taps > 1)
        split.push_back(tb.dimAttr(s.taps));
    }
    // What is left of the axes are taps, then channels.
    split.push_back(image.back());
    for (int64_t axis : llvm::seq<int64_t>(0, split.size()))
      if (!llvm::is_contained(order, axis))
        order.push_back(axis);
    for (int64_t axis : order)
      pieces.push_back(split[axis]);
  }

  DimAttr numRows() const { return product(tb.context(), ArrayRef<DimAttr>(output).drop_back()); }
  DimAttr depth() const { return product(tb.context(), ArrayRef<DimAttr>(filter).drop_front()); }

  Value ofInput(Value input) {
    return tb.reshape(tb.transpose(tb.reshape(input, split), order), {numRows(), depth()});
  }
  Value toInput(Value rows) {
    SmallVector<int64_t> back(order.size());
    for (auto [to, from] : llvm::enumerate(order))
      back[from] = int64_t(to);
    return tb.reshape(tb.transpose(tb.reshape(rows, pieces), back), image);
  }
  Value ofOutput(Value value) { return tb.reshape(value, {numRows(), output.back()}); }
  Value ofFilter(Value value) { return tb.reshape(value, {filter.front(), depth()}); }

  TrainBuilder &tb;
  SmallVector<DimAttr> image, filter, output;
  /// The image's axes as windows and taps, and these behind all windows.
  SmallVector<DimAttr> split, pieces;
  SmallVector<int64_t> order;
};
} // namespace

bool trainc::train::multiplyPieces(ConvolutionOpInterface op) {
  const SmallVector<Sliding> slidings = getSlidings(op);
  const bool isPlain = llvm::all_of(
      slidings, [](const Sliding &s) { return s.low.isConstant(0) && s.high.isConstant(0); });
  if (op.getGroups() != 1 || !isPlain || !arePieces(slidings))
    return false;
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  Rows rows(tb, op);
  Value result = op->getResult(0), replacement;
  if (result == op.getOutput())
    replacement = tb.reshape(tb.matmul(rows.ofInput(op.getInput()), rows.ofFilter(op.getFilter()),
                                       /*transposeLhs=*/false, /*transposeRhs=*/true),
                             rows.output);
  else if (result == op.getInput())
    replacement = rows.toInput(
        tb.matmul(rows.ofOutput(op.getOutput()), rows.ofFilter(op.getFilter()), false, false));
  else
    replacement = tb.reshape(
        tb.matmul(rows.ofOutput(op.getOutput()), rows.ofInput(op.getInput()), true, false),
        rows.filter);
  result.replaceAllUsesWith(replacement);
  op->erase();
  return true;
}
