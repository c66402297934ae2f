// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// FNV-1a is a byte at a time by definition; CRC-32 goes 8 bytes at a time through 8 tables, since
// it covers embedded weights and data files.

#include "format/hash.h"

#include <array>
#include <cstring>

namespace trainrt {

uint64_t fnv1a64(const void *data, size_t size, uint64_t state) {
  auto *bytes = static_cast<const unsigned char *>(data);
  // The multiplier is FNV's 64-bit prime; results are stored in packages and must not change.
  for (size_t i = 0; i < size; ++i)
    state = (state ^ bytes[i]) * 0x100000001b3ull;
  return state;
}

namespace {
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;

/// The polynomial of zip and gzip, reversed.
constexpr uint32_t polynomial = 0xedb88320u;

/// tables[t][i] is the CRC of byte i with t bytes of zeros behind it.
constexpr CrcTables makeTables() {
  CrcTables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit)
      value = (value >> 1) ^ (value & 1 ? polynomial : 0u);
    tables[0][i] = value;
  }
  for (uint32_t i = 0; i < 256; ++i)
    for (int t = 1; t < 8; ++t)
      tables[t][i] = (tables[t - 1][i] >> 8) ^ tables[0][tables[t - 1][i] & 255];
  return tables;
}

constexpr CrcTables crcTables = makeTables();

/// The product of two polynomials modulo that of the CRC; the highest bit is x^0.
constexpr uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a; a <<= 1, b = (b >> 1) ^ (b & 1 ? polynomial : 0u))
    if (a & 0x80000000u)
      product ^= b;
  return product;
}
} // namespace

uint32_t crc32(const void *data, size_t size, uint32_t crc) {
  auto *bytes = static_cast<const unsigned char *>(data);
  const CrcTables &t = crcTables;
  crc = ~crc;
  for (; size >= 8; bytes += 8, size -= 8) {
    uint32_t low, high;
    // Little-endian, as all of the runtime assumes of its machines.
    std::memcpy(&low, bytes, 4);
    std::memcpy(&high, bytes + 4, 4);
    low ^= crc;
    crc = t[7][low & 255] ^ t[6][(low >> 8) & 255] ^ t[5][(low >> 16) & 255] ^ t[4][low >> 24] ^
          t[3][high & 255] ^ t[2][(high >> 8) & 255] ^ t[1][(high >> 16) & 255] ^ t[0][high >> 24];
  }
  for (; size; ++bytes, --size)
    crc = (crc >> 8) ^ t[0][(crc ^ *bytes) & 255];
  return ~crc;
}

/// `size` bytes more behind the first ones multiply their CRC by x^(8 size).
uint32_t joinCrc32(uint32_t first, uint32_t rest, uint64_t size) {
  uint32_t shift = 0x80000000u; // x^0
  for (uint32_t power = 0x00800000u; size; size >>= 1, power = multiply(power, power))
    if (size & 1)
      shift = multiply(shift, power);
  return multiply(shift, first) ^ rest;
}

std::string hex64(uint64_t value) {
  std::string text(16, '0');
  for (int i = 15; i >= 0; --i, value >>= 4)
    text[i] = "0123456789abcdef"[value & 15];
  return text;
}

} // namespace trainrt
