// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --profile: what each command of the package's functions takes, against what the device copies in
// that time, and what each class of commands does.
#ifndef TRAINRT_CLI_PROFILE_H
#define TRAINRT_CLI_PROFILE_H

#include "cli/reporter.h"
#include "trainrt/trainrt.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace trainrt::run {

class Profile {
public:
  /// Lets the session that `settings` are for tell this profile, which must outlive it.
  void attach(trainrt_session_options &settings);
  /// Bytes read and written in a second.
  void setCopySpeed(double value) { copySpeed = value; }

  /// FILE: a JSON object a line for each command, {"function", "command", "name", "class", "ms"
  /// (median), "runs", "bytes", "flops", "sent_bytes", "of_copy", "nodes", of matmuls and attention
  /// "type" and "shape" (an object), and of exchanges "waited_ms"};
  /// FILE.classes.json: one for each class of each function, {"function", "class", "commands",
  /// "ms", "bytes", "flops"}, and the class "gaps", what a run takes beyond its commands;
  /// FILE.trace.json: the last run of each function for Chrome's trace viewer. Throws Failure.
  void write(const std::string &path) const;
  /// The same for people, summed over commands of one name, and over classes.
  std::string table() const;

private:
  struct Entry {
    std::string name, kind, type;
    std::vector<std::string> nodes;
    std::vector<std::pair<std::string, int64_t>> shape;
    uint64_t sent = 0, allBytes = 0, allFlops = 0; ///< the latter of all runs together
    std::vector<double> milliseconds;              ///< of each run
    std::vector<double> waited;                    ///< of each run, for an exchange
    double lastStart = 0;

    double median() const { return medianOf(milliseconds); }
    /// Means: batches may differ in what counts of them.
    uint64_t bytes() const { return allBytes / milliseconds.size(); }
    uint64_t flops() const { return allFlops / milliseconds.size(); }
    /// What a function's time has of it.
    double own() const { return sent ? medianOf(waited) : median(); }
    static double medianOf(const std::vector<double> &runs);
  };
  using Key = std::pair<std::string, size_t>; ///< function, command
  struct Class {
    std::string function, name;
    size_t commands = 0;
    double ms = 0, bytes = 0, flops = 0;
  };

  void add(const trainrt_command &command);
  double ofCopy(double bytes, double milliseconds) const;
  std::string trace() const;
  /// By function, the slowest first; gaps last.
  std::vector<Class> classes() const;
  std::string classTable() const;

  std::map<Key, Entry> entries;
  /// Of each function, when each run ended, in milliseconds since it began.
  std::map<std::string, std::vector<double>> ends;
  double copySpeed = 0;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_PROFILE_H
