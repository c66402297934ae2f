// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records of memory as text.
#include "cli/log/memory_stats.h"

#include "cli/format.h"

#include <utility>

namespace trainrt::run {

namespace {
double mebibytes(uint64_t bytes) { return double(bytes) / (1 << 20); }
} // namespace

std::string memoryText(const trainrt_phase_memory &memory, int64_t rank) {
  auto part = [](const char *name, uint64_t bytes) {
    return std::string(" | ") + name + ": " + fixed(mebibytes(bytes), 1);
  };
  return "rank-" + std::to_string(rank) + " step " + std::to_string(memory.step) +
         " memory (MiB) | phase: " + memory.phase + part("allocated", memory.allocated) +
         part("max allocated", memory.peak) + part("cached", memory.cached) +
         part("inactive", memory.cached - memory.allocated) + "\n";
}

std::string memoryJson(const trainrt_phase_memory &memory, int64_t rank) {
  auto part = [](const char *name, uint64_t bytes) {
    return std::string(",\"") + name + "\":" + shortest(mebibytes(bytes));
  };
  return "{\"event\":\"memory\",\"step\":" + std::to_string(memory.step) + ",\"phase\":\"" +
         memory.phase + "\"" + part("allocated", memory.allocated) + part("peak", memory.peak) +
         part("cached", memory.cached) + part("inactive", memory.cached - memory.allocated) +
         ",\"rank\":" + std::to_string(rank) + "}\n";
}

/// People get the first steps and powers of two, programs every step.
bool hasMemoryText(int64_t step) { return step < 10 || (step & (step - 1)) == 0; }

/// The session calls during a step and keeps a pointer to this object, which outlives it. What
/// comes waits as text until `take`.
void MemoryLog::attach(trainrt_session_options &settings) {
  settings.memory_user = this;
  settings.memory = [](void *user, const trainrt_phase_memory *memory) {
    auto &log = *static_cast<MemoryLog *>(user);
    if (log.json)
      log.coming += memoryJson(*memory, log.rank);
    else if (hasMemoryText(memory->step))
      log.coming += memoryText(*memory, log.rank);
  };
}

/// Of all phases since the last call; "" where none was told.
std::string MemoryLog::take() { return std::exchange(coming, {}); }

} // namespace trainrt::run
