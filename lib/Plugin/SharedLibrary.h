// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a plug-in's shared object has, read without running any of it.

#ifndef TRAINC_LIB_PLUGIN_SHAREDLIBRARY_H
#define TRAINC_LIB_PLUGIN_SHAREDLIBRARY_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <cstdint>
#include <optional>
#include <string>

namespace trainc::plugin {

struct SharedLibrary {
  /// "x86-64" or "aarch64".
  std::string processor;
  /// Functions that others may call.
  llvm::StringSet<> functions;
  /// Which version of trainrt/plugin.h it was compiled with.
  std::optional<uint32_t> abi;
  /// Which compiler a plug-in in C++ was built for, "" where it is none.
  std::string compilerAbi;
};

/// Returns what is wrong with the file, "" if nothing is.
std::string readSharedLibrary(llvm::StringRef bytes, SharedLibrary &library);

} // namespace trainc::plugin

#endif // TRAINC_LIB_PLUGIN_SHAREDLIBRARY_H
