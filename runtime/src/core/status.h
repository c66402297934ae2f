// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors by value: a code of the C API and a message. The runtime's own code returns these instead
// of throwing, so that the parts the compiler links (zip, safetensors, planner) work without
// exceptions.
#ifndef TRAINRT_CORE_STATUS_H
#define TRAINRT_CORE_STATUS_H

#include <cstdint>
#include <sstream>
#include <string>
#include <utility>

namespace trainrt {

/// Same values as `trainrt_status` of the C API (checked where both are visible).
enum class Code : int32_t {
  Ok = 0,
  InvalidArgument = 1,
  BadPackage = 2,
  BadData = 3,
  MissingWeights = 4,
  NotFound = 5,
  OutOfMemory = 6,
  IoError = 7,
  Nonfinite = 8,
  Cancelled = 9,
  Unsupported = 10,
  Internal = 11,
  DeviceError = 12
};

/// Success, or a code with a message for a person.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(Code code, std::string message) : errorCode(code), text(std::move(message)) {}

  bool ok() const { return errorCode == Code::Ok; }
  Code code() const { return errorCode; }
  const std::string &message() const { return text; }

  /// The same error with `prefix` before its message.
  Status within(const std::string &prefix) const {
    return ok() ? Status() : Status(errorCode, prefix + text);
  }
  /// The same message under another code.
  Status as(Code code) const { return ok() ? Status() : Status(code, text); }

private:
  Code errorCode = Code::Ok;
  std::string text;
};

/// `fail(Code::BadData, "input '", name, "': ...")`: streams its arguments into a message.
template <typename... Args> Status fail(Code code, const Args &...args) {
  std::ostringstream stream;
  (stream << ... << args);
  return Status(code, stream.str());
}

} // namespace trainrt

/// Returns the status of `expr` from the enclosing function if it is an error.
#define TRAINRT_TRY(expr)                                                                          \
  do {                                                                                             \
    if (::trainrt::Status tryStatus_ = (expr); !tryStatus_.ok())                                   \
      return tryStatus_;                                                                           \
  } while (false)

#endif // TRAINRT_CORE_STATUS_H
