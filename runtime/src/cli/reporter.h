// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What trainc-run tells: JSON objects on standard output for programs, or text with a progress bar
// on standard error for people. Warnings and errors go to standard error in both. The level filters
// standard error; what goes to standard output was asked for and is always told.
#ifndef TRAINRT_CLI_REPORTER_H
#define TRAINRT_CLI_REPORTER_H

#include "format/log_level.h"
#include "trainrt/trainrt.h"

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace trainrt::run {

struct StepRecord {
  int64_t step;        ///< from 1
  double loss;         ///< may be not finite
  double lr;           ///< of this step
  double milliseconds; ///< wall time, with reading the batch
  double samplesPerSecond;
  uint64_t peakBytes;    ///< most memory that the runtime has held
  double gradNorm = NAN; ///< NaN where the package does not tell it
  int64_t tokens = -1;   ///< that are no padding; -1 where nothing tells
  /// Of what the device could compute at best in that time; NaN where that is not known.
  double peakShare = NAN;

  double tokensPerSecond() const { return tokens < 0 ? NAN : double(tokens) / milliseconds * 1000; }
};

struct EvalRecord {
  /// What batches' losses are weighted by.
  enum Weighting {
    rows,        ///< exact: the loss is a mean over rows
    denominator, ///< exact: what each batch's loss is divided by
    rowsOnly,    ///< several batches of a loss that is no quotient of sums over rows
  };
  int64_t step;    ///< steps done before it
  double loss;     ///< mean over the rows; NaN where the model has none
  int64_t samples; ///< rows
  double milliseconds;
  uint64_t peakBytes;
  Weighting weighting;
  bool isCrossEntropy = false; ///< as far as that is known
  std::optional<double> accuracy{};
  int64_t labels = 0; ///< that the accuracy is of

  double perplexity() const { return isCrossEntropy ? std::exp(loss) : NAN; }
};

/// What a run was like.
struct SummaryRecord {
  int64_t steps;
  double milliseconds;                      ///< median of the steps' StepRecord::milliseconds
  std::optional<double> hostMicroseconds;   ///< GPU: median time that a step keeps the host busy
  uint64_t peakBytes;                       ///< most memory that the runtime has held
  uint64_t plans = 0;                       ///< functions for certain sizes (and graphs) made
  double buildMilliseconds = 0;             ///< that this took
  uint64_t batches = 0, variantBatches = 0; ///< of functions with variants; by variants
  std::vector<std::string> declined = {};   ///< why others were not
};

/// Takes what a reporter tells, for files of its own.
class RecordSink {
public:
  virtual ~RecordSink() = default;
  virtual void fact(const std::string &name, const std::string &value) {}
  virtual void step(const StepRecord &record) = 0;
  virtual void eval(const EvalRecord &record) = 0;
  virtual void summary(const SummaryRecord &record) {}
};

class Reporter {
public:
  virtual ~Reporter() = default;
  /// It outlives what is told from now on.
  void add(RecordSink &sink) { sinks.push_back(&sink); }
  /// A line of the introduction: "threads", "2".
  void fact(const std::string &name, const std::string &value) {
    for (RecordSink *sink : sinks)
      sink->fact(name, value);
    show(name, value);
  }
  /// Steps `first` to `last` (both included) follow.
  virtual void begin(int64_t first, int64_t last) = 0;
  void step(const StepRecord &record) {
    for (RecordSink *sink : sinks)
      sink->step(record);
    show(record);
  }
  void eval(const EvalRecord &record) {
    for (RecordSink *sink : sinks)
      sink->eval(record);
    show(record);
  }
  void summary(const SummaryRecord &record) {
    for (RecordSink *sink : sinks)
      sink->summary(record);
    show(record);
  }
  /// For people only: programs find the same in a file.
  virtual void table(const std::string &text) = 0;
  virtual void memory(const trainrt_memory &memory) = 0;
  /// What --density and --memory-stats say, in the form that this reporter has.
  virtual void lines(const std::string &text) = 0;
  /// Something that went well and a person likes to know: a checkpoint, a written file.
  virtual void note(const std::string &text) = 0;
  /// Something that a run does otherwise than expected, and as well: no warning, but for programs,
  /// too.
  virtual void notice(const std::string &text) = 0;
  /// Throws a Failure where warnings are errors.
  virtual void warning(const std::string &text) = 0;
  /// What only somebody who looks for a fault likes to know.
  virtual void debug(const std::string &text) = 0;
  /// No more steps follow: leaves the progress bar.
  virtual void end() = 0;
  /// Why standard output no longer takes the log; "" while it does.
  virtual std::string lost() const = 0;

protected:
  virtual void show(const std::string &name, const std::string &value) = 0;
  virtual void show(const StepRecord &record) = 0;
  virtual void show(const EvalRecord &record) = 0;
  virtual void show(const SummaryRecord &record) = 0;

private:
  std::vector<RecordSink *> sinks;
};

struct ReporterSettings {
  bool json = false;
  LogLevel level = LogLevel::info;
  bool warningsAsErrors = false;
  /// Of several ranks one that is not the first: it has no bar, and what it tells begins with its
  /// number; without `speaks` it tells errors alone.
  std::optional<int64_t> otherRank = {};
  bool speaks = true;
};
std::unique_ptr<Reporter> makeReporter(const ReporterSettings &settings);

} // namespace trainrt::run

#endif // TRAINRT_CLI_REPORTER_H
