// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How trainc-run fails: an exception that carries the exit code, and the translation of the C API's
// statuses into it.
#ifndef TRAINRT_CLI_FAILURE_H
#define TRAINRT_CLI_FAILURE_H

#include "trainrt/trainrt.h"

#include <stdexcept>
#include <string>

namespace trainrt::run {

enum ExitCode {
  exitSuccess = 0,
  exitInput = 1,     ///< the input is at fault
  exitUsage = 2,     ///< the command line is
  exitResources = 3, ///< out of memory, a device fault
  exitInternal = 4,  ///< a bug
  exitRanks = 5      ///< another rank has ended, or does not come
};

/// Ends the program with `code` after printing what() behind "trainc-run: error: ".
class Failure : public std::runtime_error {
public:
  Failure(ExitCode code, const std::string &message, bool isShared = false)
      : std::runtime_error(message), code(code), isShared(isShared) {}
  const ExitCode code;
  /// Whether all ranks that train together end by it, each by itself.
  const bool isShared;
};

ExitCode exitCodeOf(trainrt_status status);

/// Owns the error that a C API call may write.
class ErrorSlot {
public:
  ErrorSlot() = default;
  ErrorSlot(const ErrorSlot &) = delete;
  ErrorSlot &operator=(const ErrorSlot &) = delete;
  ~ErrorSlot() { trainrt_error_free(error); }
  operator trainrt_error **() { return &error; }
  std::string message(trainrt_status status) const;
  /// Throws a Failure unless `status` is OK; `context` is put behind the message.
  void check(trainrt_status status, const std::string &context = {}) const;

private:
  trainrt_error *error = nullptr;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_FAILURE_H
