// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --memory-stats: how much memory is in use where the parts of a step begin and end, as lines like
// those of ONNX Runtime or as JSON objects.
#ifndef TRAINRT_CLI_LOG_MEMORY_STATS_H
#define TRAINRT_CLI_LOG_MEMORY_STATS_H

#include "cli/handles.h"

#include <cstdint>
#include <string>

namespace trainrt::run {

class MemoryLog {
public:
  MemoryLog(int64_t rank, bool json) : rank(rank), json(json) {}
  /// Lets the session that `settings` are for tell this log, which must outlive it.
  void attach(trainrt_session_options &settings);
  /// What has been told since the last call.
  std::string take();

private:
  const int64_t rank;
  const bool json;
  std::string coming;
};

/// A line, or an object and a line break, in MiB.
std::string memoryText(const trainrt_phase_memory &memory, int64_t rank);
std::string memoryJson(const trainrt_phase_memory &memory, int64_t rank);
/// Whether a step has lines: the first nine, and then powers of two. Objects come for every step.
bool hasMemoryText(int64_t step);

} // namespace trainrt::run

#endif // TRAINRT_CLI_LOG_MEMORY_STATS_H
