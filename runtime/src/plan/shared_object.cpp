// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// memfd_create + dlopen("/proc/self/fd/N"). The descriptor stays open as long as the library:
// dlopen knows libraries by name, and a reused number would return the older library.

#include "plan/shared_object.h"

#include <cerrno>
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

namespace trainrt {

Status SharedObject::load(const void *data, uint64_t size) {
  descriptor = memfd_create("trainrt-kernels", MFD_CLOEXEC);
  if (descriptor < 0)
    return fail(Code::IoError, "memfd_create: ", std::strerror(errno));
  auto *bytes = static_cast<const char *>(data);
  // In a loop: a write may be shorter than asked for.
  while (size) {
    ssize_t done = ::write(descriptor, bytes, size);
    if (done < 0 && errno == EINTR)
      continue;
    if (done <= 0)
      return fail(Code::OutOfMemory, "cannot copy the kernels into memory: ", std::strerror(errno));
    bytes += done;
    size -= static_cast<uint64_t>(done);
  }
  // dlopen has no function for memory; the name is that of the open file.
  std::string path = "/proc/self/fd/" + std::to_string(descriptor);
  handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return fail(Code::BadPackage, "cannot be loaded: ", shown(reason ? reason : "unknown reason"));
  }
  return {};
}

void *SharedObject::symbol(const std::string &name) const { return dlsym(handle, name.c_str()); }

/// The library before its file.
SharedObject::~SharedObject() {
  if (handle)
    dlclose(handle);
  if (descriptor >= 0)
    ::close(descriptor);
}

} // namespace trainrt
