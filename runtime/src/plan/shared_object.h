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

  /// Errors are BadPackage, without the entry's name. Once only.
  Status load(const void *data, uint64_t size);
  /// Null where it has no such symbol.
  void *symbol(const std::string &name) const;

private:
  int descriptor = -1;
  void *handle = nullptr;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_SHARED_OBJECT_H
