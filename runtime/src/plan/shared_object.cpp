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

namespace {

/// A part of what the loader says, and what is added to it.
struct Remedy {
  const char *part, *remedy;
};

constexpr Remedy remedies[] = {
    {"version `", "it was built on a newer system: build it on one as old as this, and compile the "
                  "model again"},
    {"executable stack", "link it with -z noexecstack, and compile the model again"},
    {"failed to map segment", "the system refuses code that is loaded from memory: allow it to "
                              "this process (SELinux: execmem)"},
};

} // namespace

std::string explainLoader(std::string reason, const std::string &path) {
  const std::string opening = ": cannot open shared object file", symbol = "undefined symbol: ";
  if (reason.starts_with(path + opening))
    return "/proc, by which the loader reads it, is not mounted here: mount it (mount -t proc proc "
           "/proc)";
  if (const size_t at = reason.find(opening); at != std::string::npos)
    return "it needs " + reason.substr(0, at) +
           ", which is not on this machine: install that, name its folder in LD_LIBRARY_PATH, or "
           "link it statically and compile the model again";
  if (reason.starts_with(path + ": "))
    reason.erase(0, path.size() + 2);
  for (size_t at; (at = reason.find(path)) != std::string::npos;)
    reason.replace(at, path.size(), "it");
  if (const size_t at = reason.find(symbol); at != std::string::npos)
    return "it needs '" + reason.substr(at + symbol.size()) +
           "', which none of the libraries has that it was linked with: link the one that does "
           "(cc -l...), and compile the model again";
  for (const Remedy &known : remedies)
    if (reason.find(known.part) != std::string::npos)
      return reason + ": " + known.remedy;
  return reason;
}

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
    return fail(Code::BadPackage,
                "cannot be loaded: ", explainLoader(reason ? reason : "unknown reason", path));
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
