// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What each rank of a host tells the others in a turn, in memory that they share.
#ifndef TRAINRT_COMM_HOST_SLOTS_H
#define TRAINRT_COMM_HOST_SLOTS_H

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace trainrt {

/// Two slots for the bytes of each rank, taken in turn: whoever writes to one again has seen that
/// all others are behind what was there.
class HostSlots {
public:
  HostSlots(size_t ranks, size_t mostBytes) : ranks(ranks), mostBytes(mostBytes) {}

  size_t bytes() const { return 2 * ranks * each(); }
  void placeAt(std::byte *address) { begin = address; }

  /// At most `mostBytes`. Who reads them has learnt in some other way that they are there.
  void write(size_t rank, uint64_t turn, std::span<const std::byte> told) {
    assert(told.size() <= mostBytes);
    const uint64_t size = told.size();
    std::memcpy(slot(rank, turn), &size, sizeof size);
    std::memcpy(slot(rank, turn) + sizeof size, told.data(), told.size());
  }
  std::span<const std::byte> read(size_t rank, uint64_t turn) const {
    uint64_t size = 0;
    std::memcpy(&size, slot(rank, turn), sizeof size);
    return {slot(rank, turn) + sizeof size, size_t(size)};
  }

private:
  size_t each() const { return sizeof(uint64_t) + mostBytes; }
  std::byte *slot(size_t rank, uint64_t turn) const {
    return begin + (2 * rank + turn % 2) * each();
  }

  const size_t ranks, mostBytes;
  std::byte *begin = nullptr;
};

} // namespace trainrt

#endif // TRAINRT_COMM_HOST_SLOTS_H
