// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks are independent of each other, so the split among threads changes no bit. An all-zero
// block has the code of NaN, which exceeds no threshold: 0, which in NF4 is the value -1, times 0.

#include "session/quantize/four_bit.h"
#include "session/quantize/arithmetic.h"
#include "session/quantize/device_mean.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt {

namespace {

/// Elements that a thread takes at least, and those that it holds at once.
constexpr int64_t grain = 1 << 16, held = maxBlock;

/// A code is the number of thresholds below the value: no branches.
void codesOf(QuantFormat format, const float *values, int64_t count, unsigned char *codes) {
  std::memset(codes, 0, size_t(count));
  if (format == QuantFormat::NF4) {
    for (float threshold : nf4Thresholds)
      for (int64_t i = 0; i < count; ++i)
        codes[i] = uint8_t(codes[i] + (values[i] > threshold));
    return;
  }
  // The sign apart: thresholds are of magnitudes.
  for (float threshold : fp4Thresholds)
    for (int64_t i = 0; i < count; ++i)
      codes[i] = uint8_t(codes[i] + (std::fabs(values[i]) > threshold));
  for (int64_t i = 0; i < count; ++i)
    codes[i] = uint8_t(fp4Codes[codes[i]] | (values[i] < 0 ? 8 : 0));
}

/// The nearest of the dynamic map's values, but as bitsandbytes searches: seven halvings, then one
/// comparison with the middle on the side of `x`. Ties go to the pivot.
unsigned char dynamicCode(float x) {
  // The same steps as bitsandbytes', so that ties fall the same way.
  const std::array<float, 256> &map = dynamicMap();
  int pivot = 127, above = 255, below = 0;
  for (int step = 64; step > 0; step /= 2) {
    if (x > map[size_t(pivot)]) {
      below = pivot;
      pivot += step;
    } else {
      above = pivot;
      pivot -= step;
    }
  }
  assert(below <= pivot && pivot <= above && "the search closes in");
  const float value = map[size_t(pivot)];
  if (x > value)
    return uint8_t(x > (map[size_t(above)] + value) * 0.5f ? above : pivot);
  return uint8_t(x < (map[size_t(below)] + value) * 0.5f ? below : pivot);
}

} // namespace

bool blockMaxima(const Elements &elements, int64_t count, int64_t block, ThreadPool &pool,
                 std::vector<float> &absmax, int64_t &bad) {
  assert(isBlock(block) && "a block fits into what a thread holds");
  absmax.resize(size_t(blocksOf(count, block)));
  FirstIndex notFinite;
  pool.parallelFor(int64_t(absmax.size()), std::max<int64_t>(1, grain / block),
                   [&](unsigned, int64_t first, int64_t last) {
                     float values[held];
                     for (int64_t b = first; b < last; ++b) {
                       // The last block may be shorter.
                       const int64_t begin = b * block, size = std::min(block, count - begin);
                       elements(begin, begin + size, values);
                       float most = 0;
                       // Comparisons that are false for NaN: the loop has no branch.
                       bool finite = true;
                       for (int64_t i = 0; i < size; ++i) {
                         const float magnitude = std::fabs(values[i]);
                         finite &= magnitude <= 0x1.fffffep127f;
                         most = magnitude > most ? magnitude : most;
                       }
                       // Rarely: only where something was wrong.
                       for (int64_t i = 0; !finite && i < size; ++i)
                         if (!std::isfinite(values[i]))
                           notFinite.report(begin + i);
                       // As the GPU computes: subnormals are flushed.
                       absmax[size_t(b)] = withoutSubnormals(most);
                     }
                   });
  bad = notFinite.any() ? notFinite.get() : -1;
  return !notFinite.any();
}

void encodeFourBit(QuantFormat format, const Elements &elements, int64_t count, int64_t block,
                   const float *absmax, ThreadPool &pool, unsigned char *to, int64_t begin,
                   int64_t end) {
  assert(0 <= begin && begin <= end && end <= (count + 1) / 2 && "bytes have two elements each");
  pool.parallelFor(end - begin, grain / 2, [&](unsigned, int64_t firstByte, int64_t lastByte) {
    float values[held];
    unsigned char codes[held];
    // Pieces of whole bytes, each of two elements.
    for (int64_t from = begin + firstByte; from < begin + lastByte;) {
      const int64_t until = std::min(begin + lastByte, from + held / 2);
      const int64_t first = from * 2, last = std::min(until * 2, count), size = last - first;
      assert(size >= 0 && size <= held && "a piece is what a thread holds");
      elements(first, last, values);
      for (int64_t i = 0; i < size;) { // a block, or what of it is here
        // A piece may begin or end within a block.
        const int64_t index = (first + i) / block;
        const int64_t stop = std::min(size, (index + 1) * block - first);
        const float scale = scaleOf(absmax[index]);
        // What fills the last byte is an element of value 0 in the last block.
        if (last == count && stop == size && size % 2)
          values[size] = scaled(0, scale);
        for (; i < stop; ++i)
          values[i] = scaled(values[i], scale);
      }
      codesOf(format, values, (until - from) * 2, codes);
      // The first element of a byte is in its high half.
      for (int64_t i = 0; i < until - from; ++i)
        to[from - begin + i] = uint8_t(codes[i * 2] << 4 | codes[i * 2 + 1]);
      from = until;
    }
  });
}

void decodeFourBit(QuantFormat format, const unsigned char *codes, int64_t block,
                   const float *absmax, int64_t begin, int64_t end, float *to) {
  const std::array<float, 16> &values = codeValues(format);
  // The same order of halves.
  for (int64_t i = begin; i < end; ++i)
    to[i - begin] = values[i % 2 ? codes[i / 2] & 15 : codes[i / 2] >> 4] * absmax[i / block];
}

NestedStatistics encodeStatistics(const std::vector<float> &absmax, ThreadPool &pool) {
  const auto count = int64_t(absmax.size());
  NestedStatistics result;
  // Statistics are positive: their mean is taken off first, which leaves more of the 8 bits.
  result.offset = count ? deviceMean(absmax.data(), count) : 0;
  result.codes.resize(absmax.size());
  result.absmax.resize(size_t(blocksOf(count, nestedBlock)));
  pool.parallelFor(
      int64_t(result.absmax.size()), 64, [&](unsigned, int64_t firstBlock, int64_t lastBlock) {
        for (int64_t b = firstBlock; b < lastBlock; ++b) {
          const int64_t begin = b * nestedBlock, size = std::min(nestedBlock, count - begin);
          float differences[nestedBlock], most = 0;
          for (int64_t i = 0; i < size; ++i) {
            // In f32, in the order of elements.
            differences[i] = absmax[size_t(begin + i)] - result.offset;
            most = std::max(most, std::fabs(differences[i]));
          }
          result.absmax[size_t(b)] = withoutSubnormals(most);
          const float scale = scaleOf(result.absmax[size_t(b)]);
          for (int64_t i = 0; i < size; ++i)
            result.codes[size_t(begin + i)] = dynamicCode(scaled(differences[i], scale));
        }
      });
  return result;
}

void decodeStatistics(const unsigned char *codes, const float *absmax, float offset, int64_t begin,
                      int64_t end, float *to) {
  const std::array<float, 256> &map = dynamicMap();
  for (int64_t i = begin; i < end; ++i) {
    // Rounded twice, as bitsandbytes does it.
    const float difference = map[codes[i]] * absmax[i / nestedBlock];
    to[i - begin] = difference + offset;
  }
}

} // namespace trainrt
