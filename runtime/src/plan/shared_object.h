// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A shared object out of a package, loaded without ever being a file.
#ifndef TRAINRT_PLAN_SHARED_OBJECT_H
#define TRAINRT_PLAN_SHARED_OBJECT_H

#include "format/status.h"

#include <cstdint>
#include <string>

namespace trainrt {

class SharedObject {
public:
  SharedObject() = default;
  ~SharedObject();
  SharedObject(const SharedObject &) = delete;
  SharedObject &operator=(const SharedObject &) = delete;

  /// Errors are BadPackage, without the entry's name; they say what to do where the loader's words
  /// are known. Constructors of the object run here. Once only.
  Status load(const void *data, uint64_t size);
  /// Null where it has no such symbol.
  void *symbol(const std::string &name) const;

private:
  int descriptor = -1;
  void *handle = nullptr;
};

/// What glibc's loader says of an object that it knows as `path`, which is nothing that a person
/// knows, and the way out: "it needs libx.so, which is not on this machine: ...". What is unknown
/// stays as it is.
std::string explainLoader(std::string reason, const std::string &path);

} // namespace trainrt

#endif // TRAINRT_PLAN_SHARED_OBJECT_H
