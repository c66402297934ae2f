// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Statuses of the C API as exit codes.
#include "cli/failure.h"

namespace trainrt::run {

/// What is left over is about files, data or options, which a person can change. An invalid
/// argument is an error of this program, which has made the call.
ExitCode exitCodeOf(trainrt_status status) {
  switch (status) {
  case TRAINRT_OK:
    return exitSuccess;
  case TRAINRT_OUT_OF_MEMORY:
  case TRAINRT_DEVICE_ERROR:
    return exitResources;
  case TRAINRT_RANK_LOST:
    return exitRanks;
  case TRAINRT_INVALID_ARGUMENT:
  case TRAINRT_INTERNAL:
    return exitInternal;
  default:
    return exitInput;
  }
}

/// The name of the status where the library has said no more.
std::string ErrorSlot::message(trainrt_status status) const {
  return error ? trainrt_error_message(error) : trainrt_status_name(status);
}

/// Returns for TRAINRT_OK alone. `context` comes in a line of its own.
void ErrorSlot::check(trainrt_status status, const std::string &context) const {
  if (status == TRAINRT_OK)
    return;
  std::string text = message(status);
  if (status == TRAINRT_MISSING_WEIGHTS && text.find("--weights") == std::string::npos)
    text +=
        "\ngive the weights with --weights FILE, or start from random ones with --init normal:STD";
  if (!context.empty())
    text += "\n" + context;
  throw Failure(exitCodeOf(status), text);
}

} // namespace trainrt::run
