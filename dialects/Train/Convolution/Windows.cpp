// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All windows as one tensor, and back.

#include "dialects/Train/Convolution/Windows.h"

using namespace mlir;
using namespace trainc::train;

/// The axes of windows that are reduced: they lead.
SmallVector<int64_t> trainc::train::tapAxes(ArrayRef<Sliding> slidings) {
  return llvm::to_vector(llvm::seq<int64_t>(0, slidings.size()));
}

bool trainc::train::arePieces(ArrayRef<Sliding> slidings) {
  return llvm::all_of(slidings, [](const Sliding &s) {
    return s.dilation == 1 && s.stride == s.taps &&
           s.size + s.low + s.high == s.count * DimAttr::constant(s.count.getContext(), s.taps);
  });
}

namespace {
/// Shapes that windows go through.
struct WindowShapes {
  /// `image`: [a, b, axes...], without what surrounds it; of the two first ones the sizes count.
  WindowShapes(TrainBuilder &tb, ArrayRef<DimAttr> first, ArrayRef<Sliding> slidings)
      : axes(slidings.size()), image(first), padded(first), low(2, tb.dimAttr(0)) {
    for (const Sliding &s : slidings) {
      image.push_back(s.size);
      low.push_back(s.low);
      padded.push_back(s.size + s.low + s.high);
    }
    isCut = arePieces(slidings);
    pieces.append(first.begin(), first.end());
    SmallVector<int64_t> rest = {0, 1};
    for (int64_t i = 0; i < axes; ++i) {
      // Each axis as window and tap.
      pieces.append({slidings[i].count, tb.dimAttr(slidings[i].taps)});
      rest.push_back(2 + 2 * i);
      tapsFirst.push_back(3 + 2 * i);
    }
    tapsFirst.append(rest);
  }

  bool isPadded() const {
    return padded != image || llvm::any_of(low, [](DimAttr size) { return !size.isConstant(0); });
  }

  int64_t axes;
  SmallVector<DimAttr> image, padded, low;
  /// Whether windows are pieces of the axes, which then have these sizes.
  bool isCut;
  SmallVector<DimAttr> pieces;
  /// From pieces to windows.
  SmallVector<int64_t> tapsFirst;
};
} // namespace

/// [taps..., batch, channels, windows...]
Value trainc::train::buildWindows(TrainBuilder &tb, Value x, ArrayRef<Sliding> slidings,
                                  double padding) {
  SmallVector<DimAttr> own = getDims(x);
  WindowShapes shapes(tb, ArrayRef<DimAttr>(own).take_front(2), slidings);
  int64_t axes = shapes.axes;
  // No copy where nothing is added.
  if (shapes.isPadded())
    x = tb.pad(x, padding, shapes.low, shapes.padded);
  // A reshape and a transpose then: no element is read twice.
  if (shapes.isCut)
    return tb.transpose(tb.reshape(x, shapes.pieces), shapes.tapsFirst);
  SmallVector<DimAttr> dims;
  SmallVector<int64_t> kept;
  for (const Sliding &s : slidings)
    dims.push_back(tb.dimAttr(s.taps));
  // Repeated for the taps, which a window then moves by.
  for (DimAttr size : shapes.padded) {
    kept.push_back(dims.size());
    dims.push_back(size);
  }
  x = tb.broadcast(x, dims, kept);
  for (auto [i, s] : llvm::enumerate(slidings)) {
    int64_t axis = axes + 2 + int64_t(i);
    // One axis of windows after the other.
    dims[axis] = s.count;
    x = WindowOp::create(tb.b(), tb.loc(), getTensorType(dims, getElementType(x)), x, axis,
                         int64_t(i), s.stride, s.dilation);
  }
  return x;
}

Value trainc::train::sumWindows(TrainBuilder &tb, Value windows, ArrayRef<Sliding> slidings) {
  SmallVector<DimAttr> dims = getDims(windows);
  int64_t axes = slidings.size();
  WindowShapes shapes(tb, ArrayRef<DimAttr>(dims).slice(axes, 2), slidings);
  Value x = windows;
  if (shapes.isCut) {
    SmallVector<int64_t> back(shapes.tapsFirst.size());
    for (auto [to, from] : llvm::enumerate(shapes.tapsFirst))
      back[from] = int64_t(to);
    x = tb.reshape(tb.transpose(x, back), shapes.padded);
  } else {
    // One axis after the other, the last one first: taps add up where windows overlap.
    for (int64_t i = axes - 1; i >= 0; --i) {
      int64_t axis = axes + 2 + i;
      dims[axis] = shapes.padded[2 + i];
      x = SpreadOp::create(tb.b(), tb.loc(), getTensorType(dims, getElementType(x)), x, axis, i,
                           slidings[i].stride, slidings[i].dilation);
    }
    x = tb.sum(x, tapAxes(slidings));
  }
  if (!shapes.isPadded())
    return x;
  // A pad by less than nothing cuts off.
  SmallVector<DimAttr> low;
  for (DimAttr size : shapes.low)
    low.push_back(tb.dimAttr(0) - size);
  return tb.pad(x, 0, low, shapes.image);
}
