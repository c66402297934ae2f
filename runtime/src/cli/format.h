// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers and text, both ways, the same in every locale.
#ifndef TRAINRT_CLI_FORMAT_H
#define TRAINRT_CLI_FORMAT_H

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt::run {

/// The parts between `separator`; one empty part for "".
std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string> &parts, std::string_view separator);

/// nullopt unless the whole text is a number.
std::optional<int64_t> parseInteger(std::string_view text);
std::optional<double> parseNumber(std::string_view text);

/// The shortest text that reads back as `value`.
std::string shortest(double value);
/// With at least nine significant digits: nine where those identify it (a float's value), else 17.
std::string precise(double value);
/// With `digits` digits behind the point.
std::string fixed(double value, int digits);
/// `,"key":number`, or `,"key":null,"nonfinite":"nan"` (`inf`, `-inf`).
std::string jsonLoss(const char *key, double value);
/// A quoted JSON string, in which nothing is left for a terminal to act on; what is not UTF-8 is
/// replaced.
std::string jsonString(std::string_view text);
bool isUtf8(std::string_view text);

/// "1,234,567".
std::string grouped(int64_t value);
/// "312.4 MiB".
std::string byteSize(uint64_t bytes);
/// "1:02:03", "4:05".
std::string duration(double seconds);

} // namespace trainrt::run

#endif // TRAINRT_CLI_FORMAT_H
