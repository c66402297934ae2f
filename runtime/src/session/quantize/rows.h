// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Weights in 8 bits with a scale for each row, as bitsandbytes' LLM.int8 has them, and weights
// rounded to another floating-point type.
#ifndef TRAINRT_SESSION_QUANTIZE_ROWS_H
#define TRAINRT_SESSION_QUANTIZE_ROWS_H

#include "device/thread_pool.h"
#include "session/quantize/elements.h"

#include <vector>

namespace trainrt {

/// The absmax of each row, of the elements rounded to f16, which is what bitsandbytes quantizes.
/// False if one of them is not finite: `bad` is then the first such.
bool rowMaxima(const Elements &elements, int64_t rows, int64_t columns, ThreadPool &pool,
               std::vector<float> &absmax, int64_t &bad);

/// Writes the elements [begin, end) as multiples of absmax / 127.
void encodeRows(const Elements &elements, int64_t columns, const float *absmax, ThreadPool &pool,
                int8_t *to, int64_t begin, int64_t end);

/// The elements [begin, end).
void decodeRows(const int8_t *codes, int64_t columns, const float *absmax, int64_t begin,
                int64_t end, float *to);

/// Writes the elements [begin, end) as bf16 or f16; returns the first that is not finite then, or
/// -1.
int64_t castElements(const Elements &elements, DType dtype, ThreadPool &pool, unsigned char *to,
                     int64_t begin, int64_t end);

} // namespace trainrt

#endif // TRAINRT_SESSION_QUANTIZE_ROWS_H
