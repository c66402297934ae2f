// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Signals: window functions, Fourier transforms (of frames, too) as matmuls with their matrix, and
// the causal convolution that carries its last inputs along.

#include "lib/Conversion/ONNXToTrain/Images/Windows.h"

#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// a0 - a1 cos(2 pi i / n) + a2 cos(4 pi i / n), n one less where the window is symmetric.
static LogicalResult window(NodeContext &c, double a0, double a1, double a2) {
  // The size may be that of the batch.
  std::optional<Dims> size = c.sizes(0, "size");
  Type element = c.elementType(c.attr("output_datatype", int64_t(1)));
  if (!size || !c.needSizes(*size))
    return failure();
  if (size->size() != 1 || !element || !isa<FloatType>(element))
    return c.fail("it needs one size and a float output_datatype");
  TrainBuilder &tb = c.tb;
  // A periodic window is one that would go on with its first element.
  bool periodic = c.attr("periodic", int64_t(1));
  Type wide = tb.b().getF64Type();
  // In doubles: it is computed once.
  Value at = tb.iota(*size, wide, 0);
  DimAttr period = periodic ? (*size)[0] : (*size)[0] - c.dim(1);
  Value angle = tb.div(tb.mul(at, tb.scalarLike(at, 2 * M_PI)), tb.splat(tb.dim(period, wide), at));
  auto term = [&](double factor, double multiple) {
    return tb.mul(tb.cos(tb.mul(angle, tb.scalarLike(at, multiple))), tb.scalarLike(at, factor));
  };
  // Hann and Hamming have two terms.
  Value y = tb.sub(tb.scalarLike(at, a0), term(a1, 1));
  if (a2 != 0)
    y = tb.add(y, term(a2, 2));
  return c.set(tb.cast(y, element));
}

static LogicalResult hannWindow(NodeContext &c) { return window(c, 0.5, 0.5, 0); }
static LogicalResult hammingWindow(NodeContext &c) { return window(c, 25.0 / 46, 21.0 / 46, 0); }
static LogicalResult blackmanWindow(NodeContext &c) { return window(c, 0.42, 0.5, 0.08); }

//===- Fourier transform --------------------------------------------------===//

/// Cosines and sines of 2 pi i k / length, [rows, columns]; the product is reduced in integers. All
/// of the transform is in doubles: many terms cancel, and results that should be 0 are compared.
static std::pair<Value, Value> fourierMatrix(NodeContext &c, DimAttr length, DimAttr rows,
                                             DimAttr columns) {
  TrainBuilder &tb = c.tb;
  Dims dims = {rows, columns};
  Type integer = tb.b().getI64Type(), wide = tb.b().getF64Type();
  // Reduced modulo the length before it is an angle, so that large products stay exact.
  Value turns = tb.mul(tb.iota(dims, integer, 0), tb.iota(dims, integer, 1));
  turns = train::ModOp::create(tb.b(), tb.loc(), turns.getType(), turns,
                               tb.splat(tb.dim(length, integer), turns));
  Value angle = tb.cast(turns, wide);
  angle =
      tb.div(tb.mul(angle, tb.scalarLike(angle, 2 * M_PI)), tb.splat(tb.dim(length, wide), angle));
  return {tb.cos(angle), tb.sin(angle)};
}

/// Of the half of a spectrum that a real signal has: 1 for what there is once, the mean and, of an
/// even length, the highest frequency, else 2.
static Value halfWeights(NodeContext &c, DimAttr length, ArrayRef<DimAttr> dims) {
  TrainBuilder &tb = c.tb;
  Value k = tb.iota(dims, tb.b().getI64Type(), 0);
  // Twice k is the length for the highest frequency of an even one.
  Value highest = tb.splat(tb.dim(length, tb.b().getI64Type()), k);
  Value once = tb.logicalOr(tb.compare("eq", k, tb.scalarLike(k, 0)),
                            tb.compare("eq", tb.mul(k, tb.scalarLike(k, 2)), highest));
  Value one = tb.full(dims, tb.b().getF64Type(), 1);
  return tb.select(once, one, tb.scalarLike(one, 2));
}

static LogicalResult fourier(NodeContext &c) {
  int64_t rank = c.rank(0), given = c.attr("axis", int64_t(1));
  Dims dims = c.dims(0);
  // The last axis holds the parts.
  bool complex = rank > 0 && dims.back().isConstant(2);
  if (!c.needFloat(0) || rank < 2 || !(complex || dims.back().isConstant(1)))
    return c.fail("it needs floats with an axis of real, or real and imaginary, parts at the end");
  // Since opset 20 the axis is an input.
  if (c.version() >= 20) {
    given = -2;
    if (c.has(2)) {
      auto values = c.constants(2, "axis");
      if (!values || values->size() != 1)
        return failure();
      given = (*values)[0];
    }
  }
  std::optional<int64_t> axis = c.axis(given, rank);
  if (!axis)
    return failure();
  bool inverse = c.attr("inverse", int64_t(0)), onesided = c.attr("onesided", int64_t(0));
  if (*axis == rank - 1)
    return c.fail("its axis is the one of real and imaginary parts");
  // One side is what a real signal has.
  if (onesided && inverse != complex)
    return c.fail(inverse ? "its inverse from one side of a spectrum needs complex numbers"
                          : "it is onesided, but its signal is complex");
  DimAttr length = dims[*axis];
  // As ONNX has it: from n/2 + 1 values the even length.
  if (onesided && inverse)
    length = (length - c.dim(1)) * c.dim(2);
  if (c.has(1)) {
    std::optional<Dims> values = c.sizes(1, "dft_length");
    if (!values)
      return failure();
    if (values->size() != 1 || (*values)[0].getConstant().value_or(1) < 1)
      return c.fail("its dft_length is not one positive size");
    length = (*values)[0];
  }
  if (length.getConstant().value_or(1) < 1)
    return c.fail("it has no signal of length " + length.str());
  TrainBuilder &tb = c.tb;
  // Frequencies of one side.
  DimAttr half = train::floorDiv(length, c.dim(2)) + c.dim(1);
  // What is read of the signal or spectrum, and what is made.
  DimAttr taken = onesided && inverse ? half : length;
  DimAttr columns = onesided && !inverse ? half : length;
  auto [cosine, sine] = fourierMatrix(c, length, taken, columns);
  if (onesided && inverse) {
    // The other side is the mirror image: its parts count twice.
    Value weights = halfWeights(c, length, {taken, columns});
    cosine = tb.mul(cosine, weights);
    sine = tb.mul(sine, weights);
  }
  // Rows of signals: the axis goes to the end, zeros fill it up.
  SmallVector<int64_t> order, back;
  for (int64_t i = 0; i < rank - 1; ++i)
    if (i != *axis)
      order.push_back(i);
  order.push_back(*axis);
  Dims lines;
  for (int64_t i : order)
    lines.push_back(dims[i]);
  // Cut off or filled up with zeros.
  lines.back() = taken;
  DimAttr rows = train::product(c.context(), ArrayRef<DimAttr>(lines).drop_back());
  assert(c.rank(0) > 1 && "parts and an axis");
  auto part = [&](int64_t which) {
    Dims own(dims.begin(), dims.end() - 1), low(rank - 1, c.dim(0));
    Value x = tb.reshape(tb.sliceAxis(c.tensor(0), rank - 1, c.dim(which), c.dim(1)), own);
    own[*axis] = taken;
    if (taken != dims[*axis])
      x = tb.pad(x, 0, low, own);
    x = tb.reshape(tb.transpose(x, order), {rows, taken});
    return tb.cast(x, tb.b().getF64Type());
  };
  // e^(-i a) forwards, e^(i a) / length backwards.
  // Real parts of the product, then imaginary ones; those of a real result are not computed.
  Value real = tb.matmul(part(0), cosine), imaginary;
  if (complex) {
    Value turned = tb.matmul(part(1), sine);
    real = inverse ? tb.sub(real, turned) : tb.add(real, turned);
  }
  if (!(onesided && inverse)) {
    imaginary = tb.matmul(part(0), sine);
    if (!inverse)
      imaginary = tb.neg(imaginary);
    if (complex)
      imaginary = tb.add(imaginary, tb.matmul(part(1), cosine));
  }
  // Where each axis was.
  back.resize(rank - 1);
  for (auto [to, from] : llvm::enumerate(order))
    back[from] = to;
  lines.back() = columns;
  auto result = [&](Value x) {
    // Only the inverse is scaled.
    if (inverse)
      x = tb.div(x, tb.splat(tb.dim(length, tb.b().getF64Type()), x));
    x = tb.transpose(tb.reshape(tb.cast(x, c.element(0)), lines), back);
    Dims own = train::getDims(x);
    own.push_back(c.dim(1));
    return tb.reshape(x, own);
  };
  Value first = result(real);
  // A real result has one part.
  return c.set(imaginary ? tb.concat({first, result(imaginary)}, rank - 1) : first);
}

/// STFT: the transform of each window of the signal, times a window function.
static LogicalResult shortTimeFourier(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  Dims dims = c.dims(0);
  // Without the last axis the signal is real.
  bool complex = dims.size() == 3 && dims[2].isConstant(2);
  if (dims.size() != 2 && !(dims.size() == 3 && (complex || dims[2].isConstant(1))))
    return c.fail(
        "its signal is not [batch, length] or that with real, or real and imaginary, parts");
  bool onesided = c.attr("onesided", int64_t(1));
  if (onesided && complex)
    return c.fail("it is onesided, but its signal is complex");
  auto steps = c.constants(1, "frame_step");
  if (!steps)
    return failure();
  // From the window or from the frame's length; both have to agree.
  std::optional<int64_t> taps;
  if (c.has(2)) {
    if (c.rank(2) != 1 || c.element(2) != c.element(0))
      return c.fail(
          "its window is not one number of the signal's type for each element of a frame");
    taps = c.dims(2)[0].getConstant();
  }
  if (c.has(3)) {
    auto given = c.constants(3, "frame_length");
    if (!given)
      return failure();
    if (given->size() != 1 || (c.has(2) && taps != (*given)[0]))
      return c.fail("its frame_length is not its window's length");
    taps = (*given)[0];
  }
  // Bounds, so that products of sizes do not overflow.
  constexpr int64_t most = 1 << 24;
  if (!taps || *taps < 1 || *taps > most || steps->size() != 1 || (*steps)[0] < 1 ||
      (*steps)[0] > most)
    return c.fail("its frames' length and step are not both positive and known while compiling");
  TrainBuilder &tb = c.tb;
  DimAttr length = c.dim(*taps), room = dims[1] - length;
  // A signal shorter than a frame is refused when it comes.
  if (!c.needSizes({room}))
    return failure();
  DimAttr frames = train::floorDiv(room, c.dim((*steps)[0])) + c.dim(1);
  DimAttr bins = onesided ? train::floorDiv(length, c.dim(2)) + c.dim(1) : length;
  // Frames are windows of the signal.
  Sliding sliding{*taps, (*steps)[0], 1, dims[1], c.dim(0), c.dim(0), frames};
  auto [cosine, sine] = fourierMatrix(c, length, length, bins);
  Dims table = {length, bins};
  // The window function is in the matrix: one matmul does both.
  if (c.has(2)) {
    Value weights = tb.broadcast(tb.cast(c.tensor(2), tb.b().getF64Type()), table, {0});
    cosine = tb.mul(cosine, weights);
    sine = tb.mul(sine, weights);
  }
  auto part = [&](int64_t which) {
    Value x = c.tensor(0);
    if (dims.size() == 3)
      x = tb.sliceAxis(x, 2, c.dim(which), c.dim(1));
    // [taps, batch, 1, frames]
    x = buildWindows(tb, tb.reshape(x, {dims[0], c.dim(1), dims[1]}), sliding, 0);
    x = tb.reshape(tb.transpose(x, {1, 2, 3, 0}), {dims[0] * frames, length});
    return tb.cast(x, tb.b().getF64Type());
  };
  // e^(-i a), as in the forward transform.
  Value real = tb.matmul(part(0), cosine), imaginary = tb.neg(tb.matmul(part(0), sine));
  if (complex) {
    real = tb.add(real, tb.matmul(part(1), sine));
    imaginary = tb.add(imaginary, tb.matmul(part(1), cosine));
  }
  auto result = [&](Value x) {
    return tb.reshape(tb.cast(x, c.element(0)), {dims[0], frames, bins, c.dim(1)});
  };
  return c.set(tb.concat({result(real), result(imaginary)}, 3));
}

//===- Causal convolution -------------------------------------------------===//

/// Every channel with a kernel of its own, over the present and what came before it; the last
/// inputs are the next call's past.
static LogicalResult causalConv(NodeContext &c) {
  if (!c.needFloat(0) || c.rank(0) != 3 || c.rank(1) != 3 || c.element(1) != c.element(0))
    return c.fail("it needs an input [batch, channels, length] and a weight [channels, 1, taps]");
  TrainBuilder &tb = c.tb;
  Dims dims = c.dims(0), weight = c.dims(1);
  // The taps are written out.
  auto taps = weight[2].getConstant();
  if (!taps || *taps < 1 || weight[0] != dims[1] || !weight[1].isConstant(1))
    return c.fail("its weight does not fit its channels, or has no static number of taps");
  StringRef activation = c.attr("activation", "none");
  // The past has one place less than the kernel.
  Dims padded = dims, state = dims;
  padded[2] = dims[2] + c.dim(*taps - 1);
  state[2] = c.dim(*taps - 1);
  assert(*taps > 0 && "asked above");
  Value x = c.tensor(0);
  if (c.has(3)) {
    if (c.dims(3) != state || c.element(3) != c.element(0))
      return c.fail("its past state does not fit");
    x = tb.concat({c.tensor(3), x}, 2);
  } else {
    // Without a past: zeros.
    x = tb.pad(x, 0, {c.dim(0), c.dim(0), c.dim(*taps - 1)}, padded);
  }
  Value kernel = tb.reshape(c.tensor(1), {weight[0], weight[2]}), y;
  // In the order of the taps, oldest first.
  for (int64_t tap = 0; tap < *taps; ++tap) {
    Value factor = tb.reshape(tb.sliceAxis(kernel, 1, c.dim(tap), c.dim(1)), {weight[0]});
    Value shifted = tb.sliceAxis(x, 2, c.dim(tap), dims[2]);
    y = tb.add(y, tb.mul(shifted, tb.broadcast(factor, dims, {1})));
  }
  if (c.has(2)) {
    if (c.rank(2) != 1 || c.dims(2)[0] != dims[1] || c.element(2) != c.element(0))
      return c.fail("its bias needs one number a channel");
    y = tb.add(y, tb.broadcast(c.tensor(2), dims, {1}));
  }
  if (activation != "none")
    y = tb.mul(y, tb.sigmoid(y));
  // The end of what was read, past included.
  (void)c.set(tb.slice(x, {c.dim(0), c.dim(0), dims[2]}, state), 1);
  return c.set(y);
}

void registerSignal(HandlerTable &table) {
  table.add("HannWindow", hannWindow, 1, 17);
  table.add("HammingWindow", hammingWindow, 1, 17);
  table.add("BlackmanWindow", blackmanWindow, 1, 17);
  table.add("DFT", fourier, 1, 17);
  table.add("STFT", shortTimeFourier, 2, 17);
  table.entries["STFT"].settings = {2};
  table.add("CausalConvWithState", causalConv, 2, 27);
  table.describe({"HannWindow", "HammingWindow", "BlackmanWindow"}, HandlerTable::kIntegers, false);
}

} // namespace trainc::legalize
