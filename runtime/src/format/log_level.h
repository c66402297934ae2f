// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How much a program tells: the levels of --log-level, and which one counts. trainc and trainc-run
// have them in common; only the standard library is needed.
#ifndef TRAINRT_FORMAT_LOG_LEVEL_H
#define TRAINRT_FORMAT_LOG_LEVEL_H

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

namespace trainrt::run {

/// Each level shows what those before it show.
enum class LogLevel { error, warning, info, debug };

inline constexpr const char *logLevelNames[] = {"error", "warning", "info", "debug"};

inline std::optional<LogLevel> parseLogLevel(std::string_view text) {
  for (int level = 0; level < 4; ++level)
    if (text == logLevelNames[level])
      return LogLevel(level);
  return std::nullopt;
}

/// The level of the command line, where `option` is not empty; else that of the environment
/// variable, where it is set and not empty; else info. On a name that is no level returns nullopt
/// and says in `problem` which one.
inline std::optional<LogLevel> chooseLogLevel(std::string_view option, const char *variable,
                                              std::string &problem) {
  std::string_view text = option;
  std::string source = "--log-level";
  if (text.empty()) {
    const char *value = std::getenv(variable);
    text = value ? value : "";
    source = variable;
  }
  if (text.empty())
    return LogLevel::info;
  std::optional<LogLevel> level = parseLogLevel(text);
  if (!level)
    problem = source + ": '" + std::string(text) + "' is not error, warning, info or debug";
  return level;
}

} // namespace trainrt::run

#endif // TRAINRT_FORMAT_LOG_LEVEL_H
