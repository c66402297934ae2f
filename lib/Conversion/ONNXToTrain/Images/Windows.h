// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Windows that slide over the axes of an image: what the attributes of convolutions and pools say
// of each axis.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_WINDOWS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_WINDOWS_H

#include "dialects/Train/Convolution/Windows.h"
#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

using train::buildWindows;
using train::Sliding;
using train::tapAxes;

/// Reads kernel_shape (or takes `kernel`), strides, dilations, pads, auto_pad and ceil_mode of a
/// node whose input 0 is [batch, channels, axes...]; nullopt with a reason. A transposed
/// convolution has no windows on its input: there `count` stays null and pads are those given.
std::optional<llvm::SmallVector<Sliding>>
readSlidings(NodeContext &c, llvm::ArrayRef<int64_t> kernel, bool transposed = false);

/// Whether a list has as many elements as `axes` axes of positions need. Fails if not.
llvm::LogicalResult needPerAxis(NodeContext &c, llvm::StringRef name, int64_t given, int64_t wanted,
                                int64_t axes);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_IMAGES_WINDOWS_H
