// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler tells on standard error, by level.
#ifndef TRAINC_LIB_DRIVER_LOG_H
#define TRAINC_LIB_DRIVER_LOG_H

#include "format/log_level.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/raw_ostream.h"

namespace trainc {

using trainrt::run::LogLevel;

class Log {
public:
  Log(LogLevel level, bool warningsAsErrors) : level(level), warningsAsErrors(warningsAsErrors) {}

  bool shows(LogLevel wanted) const { return !muted && wanted <= level; }

  /// Where a line of a level goes; nowhere if it is not shown. Both begin the line.
  llvm::raw_ostream &info() { return line(LogLevel::info, "trainc: "); }
  llvm::raw_ostream &debug() { return line(LogLevel::debug, "trainc: debug: "); }

  /// Counts a warning. Returns what it is called, "error" where warnings are errors; "" where it is
  /// not shown.
  llvm::StringRef countWarning() {
    if (muted)
      return "";
    if (!warningsAsErrors)
      return level >= LogLevel::warning ? "warning" : "";
    ++promoted;
    return "error";
  }
  /// The compiler's own warnings, about `subject`, a file.
  void warning(llvm::StringRef subject, const llvm::Twine &text);
  /// An error about `subject`, a file; of any level.
  static void error(llvm::StringRef subject, const llvm::Twine &text);
  /// Warnings that were called errors.
  unsigned promotedWarnings() const { return promoted; }

  /// While it is muted nothing is shown, nor counted: the compiler repeats what it has done.
  void mute(bool on) { muted = on; }
  bool isMuted() const { return muted; }
  /// The same for remarks only: passes run on what is tried out.
  void muteRemarks(bool on) { remarksMuted = on; }
  bool showsRemarks() const { return !muted && !remarksMuted; }

private:
  llvm::raw_ostream &line(LogLevel wanted, llvm::StringRef begin) {
    return shows(wanted) ? llvm::errs() << begin : llvm::nulls();
  }

  const LogLevel level;
  const bool warningsAsErrors;
  bool muted = false, remarksMuted = false;
  unsigned promoted = 0;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_LOG_H
