// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Errors by value: a code of the C API and a message. The runtime's own code returns these instead
// of throwing, so that the parts the compiler links (zip, safetensors, planner) work without
// exceptions. Strings in a message may come from a file: they are `shown`.
#ifndef TRAINRT_FORMAT_STATUS_H
#define TRAINRT_FORMAT_STATUS_H

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
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
  DeviceError = 12,
  RankLost = 13
};

/// A name out of a file, or any other text of somebody else's, as it may stand in a message: what a
/// terminal would act on, and what is no UTF-8, as "\xNN"; of long text both ends and how much is
/// between them. To show it again changes nothing.
std::string shown(std::string_view text);
/// The same of a whole message of several lines, whose names have been shortened before.
std::string shownLines(std::string_view text);

/// Lines of a message, made of text that has been `shown`.
struct Lines {
  std::string text;
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
    return ok() ? Status() : Status(errorCode, shown(prefix) + text);
  }
  /// The same message under another code.
  Status as(Code code) const { return ok() ? Status() : Status(code, text); }

private:
  Code errorCode = Code::Ok;
  std::string text;
};

/// `fail(Code::BadData, "input '", name, "': ...")`: streams its arguments into a message, strings
/// as `shown`. A `const char *` is taken for text of our own.
template <typename... Args> Status fail(Code code, const Args &...args) {
  std::ostringstream stream;
  auto add = [&](const auto &part) {
    using Part = std::remove_cvref_t<decltype(part)>;
    if constexpr (std::is_same_v<Part, Lines>)
      stream << shownLines(part.text);
    else if constexpr (std::is_same_v<Part, std::string> || std::is_same_v<Part, std::string_view>)
      stream << shown(part);
    else
      stream << part;
  };
  (add(args), ...);
  return Status(code, stream.str());
}

} // namespace trainrt

/// Returns the status of `expr` from the enclosing function if it is an error.
#define TRAINRT_TRY(expr)                                                                          \
  do {                                                                                             \
    if (::trainrt::Status tryStatus_ = (expr); !tryStatus_.ok())                                   \
      return tryStatus_;                                                                           \
  } while (false)

#endif // TRAINRT_FORMAT_STATUS_H
