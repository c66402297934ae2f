// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Elements of all types: conversions that lose nothing, and whether they are finite.
#ifndef TRAINRT_IO_CONVERT_H
#define TRAINRT_IO_CONVERT_H

#include "format/dtype.h"

#include <cstdint>

namespace trainrt {

/// Whether every value of `from` is one of `to`: the same type, wider integers of a fitting sign,
/// bool to integers, f16 and bf16 to f32 and f64, f32 to f64.
bool convertsExactly(DType from, DType to);

/// Converts `count` elements; the pair must be one of `convertsExactly`. No overlap.
void convertElements(const void *from, DType fromType, void *to, DType toType, int64_t count);

/// Whether one of `count` values is NaN or infinity; not -infinity, which masks are made of.
bool holdsNoNumber(DType dtype, const void *values, int64_t count);

float halfToFloat(uint16_t bits);
float bfloatToFloat(uint16_t bits);

} // namespace trainrt

#endif // TRAINRT_IO_CONVERT_H
