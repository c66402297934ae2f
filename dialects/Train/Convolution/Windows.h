// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows that slide over the axes of an image, as convolutions and pools have them: the tensor of
// all windows, and its elements back at the positions they came from.
#ifndef TRAINC_DIALECTS_TRAIN_CONVOLUTION_WINDOWS_H
#define TRAINC_DIALECTS_TRAIN_CONVOLUTION_WINDOWS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc::train {

/// How windows slide along one axis.
struct Sliding {
  int64_t taps = 1, stride = 1, dilation = 1;
  /// The axis, what surrounds it, and the number of windows.
  DimAttr size, low, high, count;
  /// The part of `high` that only ceil_mode adds, where a pool has it.
  DimAttr beyond = {};

  /// Positions from the first to the last tap.
  int64_t reach() const { return (taps - 1) * dilation + 1; }
};

/// Whether windows touch without overlapping, from the first position to the last: pieces of the
/// axes, which a reshape makes.
bool arePieces(llvm::ArrayRef<Sliding> slidings);

/// [a, b, axes...] -> [taps of axis 0, taps of axis 1, ..., a, b, windows of axis 0, ...]; outside
/// of `x` is `padding`. Taps come first, so that kernels over them run along the images' rows.
mlir::Value buildWindows(TrainBuilder &tb, mlir::Value x, llvm::ArrayRef<Sliding> slidings,
                         double padding);

/// The transpose of buildWindows: each element of `windows` added to the position it came from;
/// what came from the padding is left out. Gives [a, b, axes...].
mlir::Value sumWindows(TrainBuilder &tb, mlir::Value windows, llvm::ArrayRef<Sliding> slidings);

/// The axes of the taps in what buildWindows makes.
llvm::SmallVector<int64_t> tapAxes(llvm::ArrayRef<Sliding> slidings);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_CONVOLUTION_WINDOWS_H
