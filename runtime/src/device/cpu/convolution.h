// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions of f32 and their gradients, the CPU target's library calls. Operands are row major:
// input [batch, positions..., channels], filter [filters, taps..., channels / groups], output
// [batch, windows..., filters].
#ifndef TRAINRT_DEVICE_CPU_CONVOLUTION_H
#define TRAINRT_DEVICE_CPU_CONVOLUTION_H

#include "format/memory/convolution_work.h"

namespace trainrt {

class ThreadPool;
struct GemmKernels;

/// Writes all of the operand that `sizes.kind` names from the other two. An element's bits depend
/// on the operands' values and sizes, not on the instruction set or on threads. Throws
/// std::runtime_error where the processor has no AVX2.
void convolutionF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                    ThreadPool &pool);

/// With these kernels, which the processor must be able to run.
void convolutionF32(const ConvolutionSizes &sizes, float *input, float *filter, float *output,
                    ThreadPool &pool, const GemmKernels &kernels);

} // namespace trainrt

#endif // TRAINRT_DEVICE_CPU_CONVOLUTION_H
