// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --log-dir: every step and evaluation as a line of a .csv, and as TensorBoard has them. A disk
// that is full ends the log and not the training.
#ifndef TRAINRT_CLI_LOG_RUN_LOG_H
#define TRAINRT_CLI_LOG_RUN_LOG_H

#include "cli/reporter.h"

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainrt::run {

class RunLog : public RecordSink {
public:
  /// Goes on behind step `done` of the folder's log; 0: it begins anew. Throws Failure where the
  /// folder cannot be written to.
  RunLog(const std::string &folder, int64_t done, Reporter &reporter);

  void step(const StepRecord &record) override;
  void eval(const EvalRecord &record) override;

  /// Steps before this run, and their losses.
  const std::vector<std::pair<int64_t, double>> &earlier() const { return before; }

private:
  using Values = std::vector<std::pair<std::string, double>>;
  struct Close {
    void operator()(std::FILE *file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  File openTable(const std::string &name, const std::string &header, int64_t done);
  void write(std::FILE *to, const std::string &text);
  void tell(std::FILE *table, int64_t step, const char *group, const Values &values);
  /// Now and then, and always with `always`, what was written can be read.
  void flush(bool always);

  const std::string folder;
  Reporter &reporter;
  File events, steps, evaluations;
  std::vector<std::pair<int64_t, double>> before;
  std::chrono::steady_clock::time_point flushed;
  bool lost = false;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_LOG_RUN_LOG_H
