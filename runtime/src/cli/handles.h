// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The C API's objects as C++ values that free themselves, and a package's descriptions in one
// piece.
#ifndef TRAINRT_CLI_HANDLES_H
#define TRAINRT_CLI_HANDLES_H

#include "trainrt/trainrt.h"

#include <memory>
#include <string>
#include <vector>

namespace trainrt::run {

template <auto destroy> struct Destroy {
  template <typename T> void operator()(T *object) const { destroy(object); }
};
using PackageHandle = std::unique_ptr<trainrt_package, Destroy<trainrt_package_free>>;
using SessionHandle = std::unique_ptr<trainrt_session, Destroy<trainrt_session_free>>;
using FileHandle = std::unique_ptr<trainrt_file, Destroy<trainrt_file_free>>;

/// An open package with what it says about itself. All text belongs to the handle.
struct Package {
  /// Throws Failure.
  /// `key`: that must have signed it; "": any.
  explicit Package(const std::string &path, const std::string &key = {});

  std::string path;
  PackageHandle handle;
  trainrt_package_info info;
  std::vector<trainrt_symbol> symbols;
  std::vector<trainrt_tensor_info> inputs, outputs, parameters, state;
};

/// Whether ranks that train it have a part each of something.
bool hasShards(const Package &package);
/// And of the parameters, so that all evaluate at once.
bool sharesParameters(const Package &package);
/// "f32 [batch, 128]".
std::string describe(const trainrt_tensor_info &tensor);
/// "i64 [40, 128]".
std::string describe(const trainrt_tensor &tensor);
/// numpy's name of a dtype ("float32"), for hints.
const char *numpyName(trainrt_dtype dtype);
/// Whether the runtime accepts `from` where `to` is needed: no value can change.
bool isLossless(trainrt_dtype from, trainrt_dtype to);

} // namespace trainrt::run

#endif // TRAINRT_CLI_HANDLES_H
