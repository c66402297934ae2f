// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of memory from the host's allocator, or from the system: 64-byte aligned, large ones on
// huge pages where the system has them. Their pages come when they are first touched, zeroed or
// not.
#ifndef TRAINRT_DEVICE_MEMORY_H
#define TRAINRT_DEVICE_MEMORY_H

#include "format/status.h"

#include <cstddef>
#include <cstdint>
#include <string>

namespace trainrt {

struct Allocator {
  void *user = nullptr;
  /// Null if it cannot.
  void *(*allocate)(void *user, size_t bytes, size_t alignment) = nullptr;
  void (*deallocate)(void *user, void *memory, size_t bytes) = nullptr;
};

/// "12.3 MiB"
std::string bytesText(uint64_t bytes);

class Memory {
public:
  Memory() = default;
  ~Memory() { release(); }
  Memory(Memory &&other) noexcept { *this = std::move(other); }
  Memory &operator=(Memory &&other) noexcept;

  /// Frees what it held, then gets `size` bytes; `what` names them in the error. The content is
  /// undefined unless `zeroed`.
  Status allocate(const Allocator &allocator, int64_t size, const char *what, bool zeroed);
  void release();

  unsigned char *data() const { return bytes; }
  int64_t size() const { return length; }

private:
  Allocator source;
  unsigned char *bytes = nullptr;
  int64_t length = 0;
};

} // namespace trainrt

#endif // TRAINRT_DEVICE_MEMORY_H
