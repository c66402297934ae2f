// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The number formats that frozen weights may be stored in: their names, the values of their codes,
// and where the codes change. All as bitsandbytes has them, since its checkpoints are read.
#ifndef TRAINRT_FORMAT_QUANT_FORMAT_H
#define TRAINRT_FORMAT_QUANT_FORMAT_H

#include <array>
#include <cstdint>
#include <string_view>

namespace trainrt {

enum class QuantFormat : uint8_t {
  NF4,  ///< 4 bits: quantiles of the normal distribution, a scale for each block
  FP4,  ///< 4 bits: sign, two of exponent, one of mantissa, a scale for each block
  Int8, ///< multiples of absmax / 127 of a row
  Cast  ///< another floating-point type
};

/// The manifest's name ("nf4").
const char *nameOf(QuantFormat format);
/// Inverse of `nameOf`; false if unknown.
bool parseQuantFormat(std::string_view name, QuantFormat &format);

inline bool isFourBit(QuantFormat format) { return format <= QuantFormat::FP4; }

inline constexpr int64_t minBlock = 16, maxBlock = 4096;
/// A power of two between them.
inline bool isBlock(int64_t block) {
  return block >= minBlock && block <= maxBlock && (block & (block - 1)) == 0;
}
/// Statistics that share a scale, where they are quantized, too.
inline constexpr int64_t nestedBlock = 256;
inline int64_t blocksOf(int64_t count, int64_t block) {
  return count / block + (count % block != 0);
}

/// The values of the 16 codes; a block's absmax is 1.
const std::array<float, 16> &codeValues(QuantFormat fourBit);
/// NF4: a value's code is how many of these it exceeds.
extern const std::array<float, 15> nf4Thresholds;
/// FP4: how many of these a magnitude exceeds is its place in `fp4Codes`.
extern const std::array<float, 7> fp4Thresholds;
extern const std::array<uint8_t, 8> fp4Codes;

/// The 256 values, ascending, of the codes of quantized statistics ("dynamic" type): a sign, as
/// many zeros as the decimal exponent, and the rest of the bits the mantissa.
const std::array<float, 256> &dynamicMap();

} // namespace trainrt

#endif // TRAINRT_FORMAT_QUANT_FORMAT_H
