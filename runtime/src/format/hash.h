// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The two checksums of a package: FNV-1a 64 (manifest) and CRC-32 (zip). They find damage; they are
// no protection against somebody who wants to forge a package.
#ifndef TRAINRT_FORMAT_HASH_H
#define TRAINRT_FORMAT_HASH_H

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainrt {

inline constexpr uint64_t fnvBasis = 0xcbf29ce484222325ull;

/// FNV-1a 64 of `size` bytes; pass an earlier result as `state` to continue it.
uint64_t fnv1a64(const void *data, size_t size, uint64_t state = fnvBasis);

/// CRC-32 as in zip files; pass an earlier result as `crc` to continue it.
uint32_t crc32(const void *data, size_t size, uint32_t crc = 0);
/// The CRC-32 of bytes whose first part has `first`, and the rest, of `size` bytes, `rest`.
uint32_t joinCrc32(uint32_t first, uint32_t rest, uint64_t size);

/// 16 lower-case hex digits.
std::string hex64(uint64_t value);

} // namespace trainrt

#endif // TRAINRT_FORMAT_HASH_H
