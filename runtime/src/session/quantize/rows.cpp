// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A row of zeros has no scale; its codes are 0, as bitsandbytes' CUDA kernel makes them out of NaN.

#include "session/quantize/rows.h"
#include "io/convert.h"
#include "session/quantize/arithmetic.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace trainrt {

namespace {

/// Elements that a thread takes at least, and those that it holds at once.
constexpr int64_t grain = 1 << 16, held = 4096;

/// `body(first, values, count)` for pieces of the elements [begin, end).
template <typename Body>
void forPieces(const Elements &elements, int64_t begin, int64_t end, const Body &body) {
  float values[held];
  for (int64_t first = begin; first < end; first += held) {
    const int64_t last = std::min(end, first + held);
    elements(first, last, values);
    body(first, values, last - first);
  }
}

/// As LLM.int8 casts weights first.
float throughHalf(float value) { return halfToFloat(floatToHalf(value)); }

} // namespace

bool rowMaxima(const Elements &elements, int64_t rows, int64_t columns, ThreadPool &pool,
               std::vector<float> &absmax, int64_t &bad) {
  absmax.assign(size_t(rows), 0.0f);
  FirstIndex notFinite;
  pool.parallelFor(rows, std::max<int64_t>(1, grain / std::max<int64_t>(columns, 1)),
                   [&](unsigned, int64_t firstRow, int64_t lastRow) {
                     for (int64_t row = firstRow; row < lastRow; ++row)
                       forPieces(elements, row * columns, (row + 1) * columns,
                                 [&](int64_t first, const float *values, int64_t count) {
                                   for (int64_t i = 0; i < count; ++i) {
                                     // Rounded before it is compared: the scale fits what is
                                     // stored.
                                     const float value = std::fabs(throughHalf(values[i]));
                                     if (!std::isfinite(value))
                                       notFinite.report(first + i);
                                     absmax[size_t(row)] = std::max(absmax[size_t(row)], value);
                                   }
                                 });
                   });
  bad = notFinite.any() ? notFinite.get() : -1;
  return !notFinite.any();
}

void encodeRows(const Elements &elements, int64_t columns, const float *absmax, ThreadPool &pool,
                int8_t *to, int64_t begin, int64_t end) {
  pool.parallelFor(end - begin, grain, [&](unsigned, int64_t from, int64_t until) {
    forPieces(elements, begin + from, begin + until,
              [&](int64_t first, const float *values, int64_t count) {
                for (int64_t i = 0; i < count; ++i) {
                  // The row of an element, wherever the range begins.
                  const float most = absmax[(first + i) / columns];
                  // In two roundings, as PyTorch and the GPU's fast division have it.
                  const float reciprocal = 1.0f / most, scale = 127.0f * reciprocal;
                  // Ties to even.
                  const float multiple = std::nearbyint(throughHalf(values[i]) * scale);
                  to[first + i - begin] = most > 0 ? int8_t(multiple) : int8_t(0);
                }
              });
  });
}

void decodeRows(const int8_t *codes, int64_t columns, const float *absmax, int64_t begin,
                int64_t end, float *to) {
  for (int64_t i = begin; i < end; ++i) {
    // Two products, in this order.
    const float product = float(codes[i]) * absmax[i / columns];
    to[i - begin] = product * (1.0f / 127.0f);
  }
}

int64_t castElements(const Elements &elements, DType dtype, ThreadPool &pool, unsigned char *to,
                     int64_t begin, int64_t end) {
  // The largest that round to a finite one.
  assert((dtype == DType::BF16 || dtype == DType::F16) && "casts are to 16 bits");
  const float most = dtype == DType::BF16 ? 0x1.fefffep127f : 0x1.ffdffep15f;
  FirstIndex notFinite;
  pool.parallelFor(end - begin, grain, [&](unsigned, int64_t from, int64_t until) {
    forPieces(elements, begin + from, begin + until,
              [&](int64_t first, const float *values, int64_t count) {
                roundElements(values, count, dtype, to + (first - begin) * 2);
                // Also for NaN.
                for (int64_t i = 0; i < count; ++i)
                  if (!(std::fabs(values[i]) <= most))
                    notFinite.report(first + i);
              });
  });
  // The smallest index, whichever thread has found it.
  return notFinite.any() ? notFinite.get() : -1;
}

} // namespace trainrt
