// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers and text, both ways.
#include "cli/format.h"
#include "format/status.h"

#include <nlohmann/json.hpp>

#include <charconv>
#include <cmath>

namespace trainrt::run {

/// One part more than there are separators: an empty text is one empty part.
std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (;;) {
    size_t at = text.find(separator);
    parts.emplace_back(text.substr(0, at));
    if (at == std::string_view::npos)
      return parts;
    text.remove_prefix(at + 1);
  }
}

std::string join(const std::vector<std::string> &parts, std::string_view separator) {
  std::string result;
  for (size_t i = 0; i < parts.size(); ++i)
    result.append(i ? separator : "").append(parts[i]);
  return result;
}

namespace {

/// All of the text has to be the number, without blanks or a plus. No locale changes that.
template <typename T> std::optional<T> parse(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return std::nullopt;
  return value;
}

/// The longest number has 309 digits before the point; callers ask for few behind it.
template <typename... Args> std::string print(double value, Args... args) {
  char buffer[512];
  auto result = std::to_chars(buffer, buffer + sizeof buffer, value, args...);
  return std::string(buffer, result.ptr);
}

} // namespace

std::optional<int64_t> parseInteger(std::string_view text) { return parse<int64_t>(text); }
std::optional<double> parseNumber(std::string_view text) { return parse<double>(text); }

/// As few digits as bring back the same double.
std::string shortest(double value) { return print(value); }

/// As many digits as bring back the same f32 where it is one, else the same double.
std::string precise(double value) {
  return print(value, std::chars_format::general, double(float(value)) == value ? 9 : 17);
}

std::string fixed(double value, int digits) {
  return print(value, std::chars_format::fixed, digits);
}

/// JSON has no NaN and no infinities: they are null, and named beside it.
std::string jsonLoss(const char *key, double value) {
  std::string start = ",\"" + std::string(key) + "\":";
  if (std::isfinite(value))
    return start + precise(value);
  return start + "null,\"nonfinite\":" +
         (std::isnan(value) ? "\"nan\""
          : value > 0       ? "\"inf\""
                            : "\"-inf\"");
}

std::string jsonString(std::string_view text) {
  // Where a terminal would act on something all that is not ASCII is escaped.
  const bool isActive = shownLines(text) != text;
  return nlohmann::json(text).dump(-1, ' ', isActive, nlohmann::json::error_handler_t::replace);
}

/// Both handlers agree exactly where no byte is wrong: one leaves such bytes out, the other puts a
/// sign there.
bool isUtf8(std::string_view text) {
  auto dump = [&](nlohmann::json::error_handler_t handler) {
    return nlohmann::json(text).dump(-1, ' ', false, handler);
  };
  return dump(nlohmann::json::error_handler_t::ignore) ==
         dump(nlohmann::json::error_handler_t::replace);
}

/// A group of three needs a digit before it; the minus is none.
std::string grouped(int64_t value) {
  std::string digits = std::to_string(value);
  for (size_t at = digits.size(); at > size_t(value < 0 ? 4 : 3);) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

/// Powers of 1024. What is beyond TiB stays in TiB.
std::string byteSize(uint64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  double value = double(bytes);
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return fixed(value, unit ? 1 : 0) + " " + units[unit];
}

/// Rounded up, so that what is left is never told as 0 too early. NaN, negative or absurd: not
/// known.
std::string duration(double seconds) {
  if (!(seconds >= 0) || seconds > 1e9)
    return "?";
  int64_t total = int64_t(std::ceil(seconds));
  auto two = [](int64_t value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  if (total >= 3600)
    return std::to_string(total / 3600) + ":" + two(total / 60 % 60) + ":" + two(total % 60);
  return std::to_string(total / 60) + ":" + two(total % 60);
}

} // namespace trainrt::run
