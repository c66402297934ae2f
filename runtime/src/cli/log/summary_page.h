// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --summary: one page about a run, for a browser: its losses as a curve, its memory, and the
// command that repeats it. Nothing in it is loaded from elsewhere.
#ifndef TRAINRT_CLI_LOG_SUMMARY_PAGE_H
#define TRAINRT_CLI_LOG_SUMMARY_PAGE_H

#include "cli/reporter.h"

#include <string>
#include <utility>
#include <vector>

namespace trainrt::run {

class SummaryPage : public RecordSink {
public:
  using Points = std::vector<std::pair<int64_t, double>>;
  /// `arguments` of the command line. `earlier`: losses of steps before this run.
  SummaryPage(std::string path, const std::vector<std::string> &arguments, Points earlier);

  void fact(const std::string &name, const std::string &value) override;
  void step(const StepRecord &record) override;
  void eval(const EvalRecord &record) override { evaluations.push_back(record); }

  /// `how` the run ended. Throws Failure where the file cannot be written.
  void write(const trainrt_memory &memory, const std::string &how) const;

private:
  std::string results(const std::string &how) const;

  const std::string path;
  std::string command;
  std::vector<std::pair<std::string, std::string>> facts;
  Points losses;
  std::vector<EvalRecord> evaluations;
  int64_t steps = 0, tokens = 0;
  double milliseconds = 0, bestShare = NAN;
  StepRecord last{};
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_LOG_SUMMARY_PAGE_H
