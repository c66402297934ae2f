// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --density: how much of each step's inputs is real, as a table every few steps (that of ONNX
// Runtime) and in all at the end, or as JSON objects.
#ifndef TRAINRT_CLI_DENSITY_H
#define TRAINRT_CLI_DENSITY_H

#include "cli/handles.h"

#include <cstdint>
#include <string>
#include <vector>

namespace trainrt::run {

/// One input of one step.
struct DensityRecord {
  int64_t step = 0;
  bool isLabel = false;
  std::string input, mask; ///< "" without a mask: then `pad` tells
  int64_t pad = 0;
  int64_t valid = 0, total = 0;
  std::vector<int64_t> validByRow;
};

class DensityLog {
public:
  /// Tells every `every` steps. Throws Failure where the package knows of nothing to count.
  DensityLog(const Package &package, int64_t every, bool json);
  /// Lets the session that `settings` are for tell this log, which must outlive it.
  void attach(trainrt_session_options &settings);

  /// What has come since the last call: of the step that was given to the session in between.
  std::vector<DensityRecord> take();
  /// A step was made. Returns what is to be told now; "" for nothing.
  std::string add(std::vector<DensityRecord> step);
  /// What is left to tell at the end, and the whole run.
  std::string finish();

private:
  struct Total {
    DensityRecord all; ///< of every step; the rows are left out
    double lowest = 1, highest = 0;
  };
  std::string flush();
  std::string summary() const;

  const int64_t every;
  const bool json;
  std::vector<DensityRecord> coming, untold;
  int64_t untoldSteps = 0, steps = 0;
  std::vector<Total> totals;
};

/// ONNX Runtime's table, in the same bytes.
std::string densityTable(const std::vector<DensityRecord> &records, int64_t steps);
/// {"event":"density",...} and a line break.
std::string densityJson(const DensityRecord &record);

} // namespace trainrt::run

#endif // TRAINRT_CLI_DENSITY_H
