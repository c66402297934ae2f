// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and their gradients as ops.
#ifndef TRAINC_DIALECTS_TRAIN_CONVOLUTION_CONVOLUTION_H
#define TRAINC_DIALECTS_TRAIN_CONVOLUTION_CONVOLUTION_H

#include "dialects/Train/Convolution/Windows.h"

#include "dialects/Train/TrainConvolutionInterfaces.h.inc"

namespace trainc::train::detail {
llvm::LogicalResult verifyConvolution(ConvolutionOpInterface op);
/// Batch, filters and channels as of a product; positions are opaque where windows overlap or move.
AxisMap convolutionAxisMap(ConvolutionOpInterface op);
/// 2 for each tap, channel, filter and window, padding or not.
DimAttr convolutionFlops(ConvolutionOpInterface op);
} // namespace trainc::train::detail

#define GET_OP_CLASSES
#include "dialects/Train/TrainConvolution.h.inc"

namespace trainc::train {
/// How the windows of a convolution slide along each axis of positions.
llvm::SmallVector<Sliding> getSlidings(ConvolutionOpInterface op);
/// Whether a GPU's library has one call for it that is better than its parts: windows that are no
/// mere pieces of the axes. It takes one number for the zeros before and behind an axis, of at most
/// three, and no f64.
bool isLibraryCall(ConvolutionOpInterface op);
/// Where nothing but the zeros keeps `op` from being a call, replaces it by one of an input with
/// what surrounds it: positions that no window reaches are cut off. Returns whether it did.
bool evenPads(ConvolutionOpInterface op);
/// Where windows are pieces of the axes, with nothing around them, and there is one group, replaces
/// `op` by a matmul of rows: [batch and windows, taps and channels] by those of the filters. In
/// contrast to its parts, whose channels come first, it leaves the channels last. Returns whether
/// it did.
bool multiplyPieces(ConvolutionOpInterface op);
/// How the axes of [batch, positions..., channels] lie in [batch, channels, positions...] of this
/// rank: what transposes the second one to the first one, and back.
llvm::SmallVector<int64_t> channelsLast(int64_t rank);
llvm::SmallVector<int64_t> channelsFirst(int64_t rank);
} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_CONVOLUTION_CONVOLUTION_H
