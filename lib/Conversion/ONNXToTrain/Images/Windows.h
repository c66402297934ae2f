// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows that slide over the axes of an image, as convolutions and pools have them: what the
// operators' attributes say of each axis, and the tensor of all windows.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_WINDOWS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_WINDOWS_H

#include "lib/Conversion/ONNXToTrain/NodeContext.h"

namespace trainc::legalize {

/// How windows slide along one axis.
struct Sliding {
  int64_t taps = 1, stride = 1, dilation = 1;
  /// The axis, what surrounds it, and the number of windows.
  DimAttr size, low, high, count;
  /// The part of `high` that only ceil_mode adds.
  int64_t beyond = 0;

  /// Positions from the first to the last tap.
  int64_t reach() const { return (taps - 1) * dilation + 1; }
};

/// Reads kernel_shape (or takes `kernel`), strides, dilations, pads, auto_pad and ceil_mode of a
/// node whose input 0 is [batch, channels, axes...]; nullopt with a reason. A transposed
/// convolution has no windows on its input: there `count` stays null and pads are those given.
std::optional<llvm::SmallVector<Sliding>>
readSlidings(NodeContext &c, llvm::ArrayRef<int64_t> kernel, bool transposed = false);

/// [a, b, axes...] -> [taps of axis 0, taps of axis 1, ..., a, b, windows of axis 0, ...]; outside
/// of `x` is `padding`. Taps come first, so that kernels over them run along the images' rows.
mlir::Value buildWindows(train::TrainBuilder &tb, mlir::Value x, llvm::ArrayRef<Sliding> slidings,
                         double padding);

/// The axes of the taps in what buildWindows makes.
llvm::SmallVector<int64_t> tapAxes(llvm::ArrayRef<Sliding> slidings);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_WINDOWS_H
