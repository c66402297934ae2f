// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory that processes of one host share.
#ifndef TRAINRT_COMM_HOST_MEMORY_H
#define TRAINRT_COMM_HOST_MEMORY_H

#include "format/status.h"

#include <cstddef>
#include <string>

namespace trainrt {

class HostMemory {
public:
  HostMemory() = default;
  ~HostMemory();
  HostMemory(const HostMemory &) = delete;
  HostMemory &operator=(const HostMemory &) = delete;

  static constexpr size_t nameBytes = 64; ///< of a name and its end

  /// New memory, all zeros. The name is for the others' `open`. Unsupported where there is none.
  Status create(size_t bytes, std::string &name);
  /// What another process has created, of as many bytes. Unsupported where this one does not see
  /// it.
  Status open(const std::string &name, size_t bytes);
  /// No process opens it any more: it ends with those that have it. By the one that created it.
  void removeName();

  std::byte *data() const { return memory; }

private:
  Status map(int file, size_t bytes, bool isNew);

  std::byte *memory = nullptr;
  size_t size = 0;
  std::string ownName;
};

} // namespace trainrt

#endif // TRAINRT_COMM_HOST_MEMORY_H
