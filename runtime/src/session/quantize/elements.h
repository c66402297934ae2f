// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where a quantizer reads from: any range of a tensor's elements as f32, so that no f32 copy of the
// whole is needed. And the way back, rounding to a narrower type.
#ifndef TRAINRT_SESSION_QUANTIZE_ELEMENTS_H
#define TRAINRT_SESSION_QUANTIZE_ELEMENTS_H

#include "format/dtype.h"

#include <cstdint>
#include <functional>

namespace trainrt {

/// Writes the elements [begin, end) to `to`. Called by several threads at once.
using Elements = std::function<void(int64_t begin, int64_t end, float *to)>;

/// Of an array of f32, bf16 or f16, of any alignment, that outlives the result.
Elements elementsOf(const void *data, DType dtype);

/// To the nearest, ties to even; magnitudes beyond the largest become infinite.
uint16_t floatToBfloat(float value);
uint16_t floatToHalf(float value);

/// `count` elements as f32, bf16 or f16, of any alignment.
void roundElements(const float *from, int64_t count, DType dtype, void *to);

} // namespace trainrt

#endif // TRAINRT_SESSION_QUANTIZE_ELEMENTS_H
