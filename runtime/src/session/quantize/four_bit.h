// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NF4 and FP4: 4-bit codes of blocks of elements, each block with its largest magnitude (absmax) as
// the scale, and these statistics themselves in 8 bits ("double" quantization). A tensor is a flat
// row-major sequence; blocks do not care about rows. The high half of a byte is the earlier
// element.
#ifndef TRAINRT_SESSION_QUANTIZE_FOUR_BIT_H
#define TRAINRT_SESSION_QUANTIZE_FOUR_BIT_H

#include "device/thread_pool.h"
#include "format/quant_format.h"
#include "session/quantize/elements.h"

#include <vector>

namespace trainrt {

/// The absmax of each block. False if an element is not finite: `bad` is then the first such.
bool blockMaxima(const Elements &elements, int64_t count, int64_t block, ThreadPool &pool,
                 std::vector<float> &absmax, int64_t &bad);

/// Writes the bytes [begin, end) of the (count + 1) / 2 bytes of codes to `to`.
void encodeFourBit(QuantFormat format, const Elements &elements, int64_t count, int64_t block,
                   const float *absmax, ThreadPool &pool, unsigned char *to, int64_t begin,
                   int64_t end);

/// The elements [begin, end): the code's value times the absmax, rounded once.
void decodeFourBit(QuantFormat format, const unsigned char *codes, int64_t block,
                   const float *absmax, int64_t begin, int64_t end, float *to);

struct NestedStatistics {
  std::vector<unsigned char> codes;
  std::vector<float> absmax; ///< of `nestedBlock` statistics each, less the offset
  float offset = 0;
};

/// Of any number of statistics; the offset of none is 0.
NestedStatistics encodeStatistics(const std::vector<float> &absmax, ThreadPool &pool);

/// The statistics [begin, end).
void decodeStatistics(const unsigned char *codes, const float *absmax, float offset, int64_t begin,
                      int64_t end, float *to);

} // namespace trainrt

#endif // TRAINRT_SESSION_QUANTIZE_FOUR_BIT_H
