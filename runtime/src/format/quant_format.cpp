// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The tables, and the dynamic map's formula.

#include "format/quant_format.h"

#include <algorithm>
#include <cmath>

namespace trainrt {

namespace {

/// In the order of QuantFormat; manifests store these words.
constexpr const char *formatNames[] = {"nf4", "fp4", "int8", "cast"};

constexpr std::array<float, 16> nf4Values = {-1.0f,
                                             -0.6961928009986877f,
                                             -0.5250730514526367f,
                                             -0.39491748809814453f,
                                             -0.28444138169288635f,
                                             -0.18477343022823334f,
                                             -0.09105003625154495f,
                                             0.0f,
                                             0.07958029955625534f,
                                             0.16093020141124725f,
                                             0.24611230194568634f,
                                             0.33791524171829224f,
                                             0.44070982933044434f,
                                             0.5626170039176941f,
                                             0.7229568362236023f,
                                             1.0f};

// Codes are sign and magnitude: twelfths.
constexpr std::array<float, 16> fp4Values = {
    0.0f,  0.0625f / 12,  8.0f / 12,  1.0f,  4.0f / 12,  0.5f,  2.0f / 12,  0.25f,
    -0.0f, -0.0625f / 12, -8.0f / 12, -1.0f, -4.0f / 12, -0.5f, -2.0f / 12, -0.25f};

/// `n` steps from 0.1 to 1, from both ends to the middle, each in one rounding: what PyTorch's
/// linspace gives on a CPU that has fused multiply-add.
/// bitsandbytes makes its map with PyTorch; a bit less would quantize some numbers to other codes.
float edge(int i, int n) {
  const float step = (1.0f - 0.1f) / float(n);
  return i < (n + 1) / 2 ? std::fma(step, float(i), 0.1f) : std::fma(-step, float(n - i), 1.0f);
}

/// bitsandbytes' dynamic map: seven exponents of ten, the smallest with one step, each with twice
/// as many as the one before; sorted, since codes are found by bisection.
std::array<float, 256> makeDynamicMap() {
  std::array<float, 256> map{};
  size_t count = 0;
  for (int exponent = 0; exponent < 7; ++exponent) {
    constexpr double powers[] = {1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1};
    const int n = 1 << exponent;
    for (int i = 0; i < n; ++i) {
      const float middle = (edge(i, n) + edge(i + 1, n)) / 2.0f;
      map[count++] = float(powers[exponent]) * middle;
      // The right side is evaluated before count++ (C++17): the negative of the value just written.
      map[count++] = -map[count - 1];
    }
  }
  map[count++] = 0;
  map[count] = 1; // and no -1
  std::sort(map.begin(), map.end());
  return map;
}

} // namespace

const char *nameOf(QuantFormat format) { return formatNames[size_t(format)]; }

bool parseQuantFormat(std::string_view name, QuantFormat &format) {
  auto *found = std::find(std::begin(formatNames), std::end(formatNames), name);
  format = QuantFormat(found - formatNames);
  return found != std::end(formatNames);
}

const std::array<float, 16> &codeValues(QuantFormat fourBit) {
  return fourBit == QuantFormat::NF4 ? nf4Values : fp4Values;
}

const std::array<float, 15> nf4Thresholds = {
    -0.8480964004993439f,  -0.6106329262256622f,  -0.4599952697753906f,   -0.33967943489551544f,
    -0.23460740596055984f, -0.13791173323988914f, -0.045525018125772476f, 0.03979014977812767f,
    0.1202552504837513f,   0.2035212516784668f,   0.2920137718319893f,    0.3893125355243683f,
    0.5016634166240692f,   0.6427869200706482f,   0.8614784181118011f};

// Some are not quite in the middle between two values: so they are in bitsandbytes' CUDA kernels.
const std::array<float, 7> fp4Thresholds = {0.00260417f, 0.0859375f, 0.20833333f, 0.29166667f,
                                            0.4166667f,  0.583333f,  0.8333333f};
const std::array<uint8_t, 8> fp4Codes = {0, 1, 6, 7, 4, 5, 2, 3};

/// Made once, on first use; initialization of a local static is safe from any thread.
const std::array<float, 256> &dynamicMap() {
  static const std::array<float, 256> map = makeDynamicMap();
  return map;
}

} // namespace trainrt
