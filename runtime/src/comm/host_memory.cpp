// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "comm/host_memory.h"

#include <cassert>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <random>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace trainrt {

HostMemory::~HostMemory() {
  removeName();
  if (memory)
    ::munmap(memory, size);
}

/// All of a new one's pages are got, so that no later write ends the process.
Status HostMemory::map(int file, size_t bytes, bool isNew) {
  int error = isNew ? ::posix_fallocate(file, 0, off_t(bytes)) : 0;
  void *mapped = MAP_FAILED;
  if (!error) {
    mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    error = mapped == MAP_FAILED ? errno : 0;
  }
  ::close(file);
  if (error)
    return fail(Code::Unsupported, "no memory that processes share: ", std::strerror(error));
  memory = static_cast<std::byte *>(mapped);
  size = bytes;
  return {};
}

Status HostMemory::create(size_t bytes, std::string &name) {
  std::random_device random;
  ownName = "/trainrt-" + std::to_string(::getpid()) + "-" + std::to_string(random());
  assert(ownName.size() < nameBytes);
  const int file = ::shm_open(ownName.c_str(), O_RDWR | O_CREAT | O_EXCL, 0600);
  if (file < 0) {
    ownName.clear();
    return fail(Code::Unsupported, "no memory that processes share: ", std::strerror(errno));
  }
  name = ownName;
  return map(file, bytes, true);
}

Status HostMemory::open(const std::string &name, size_t bytes) {
  const int file = ::shm_open(name.c_str(), O_RDWR, 0);
  if (file < 0)
    return fail(Code::Unsupported,
                "it does not see rank 0's memory of the host: ", std::strerror(errno));
  return map(file, bytes, false);
}

void HostMemory::removeName() {
  if (!ownName.empty())
    ::shm_unlink(std::exchange(ownName, {}).c_str());
}

} // namespace trainrt
