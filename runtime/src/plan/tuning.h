// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tuning finds on a machine and a package carries: a table of choices for each kind of
// machine, as text in the entry "tuning.txt".
//
//   matrix products, cuBLASLt 130100, NVIDIA H200, 132 SMs
//   bf16 TN 768x8192x3072 ... = 0000000000000042 ...
//
// A line without " = " begins the table of that machine. Whoever made a choice can read it; here it
// is text. Both tables and lines are sorted.
#ifndef TRAINRT_PLAN_TUNING_H
#define TRAINRT_PLAN_TUNING_H

#include "format/status.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

class Package;

inline constexpr const char *tuningEntry = "tuning.txt";

/// By what there is to choose for.
using Choices = std::map<std::string, std::string>;
/// By what they are valid for.
using Tuning = std::map<std::string, Choices>;

/// BadData names the line.
Status readTuning(std::string_view text, Tuning &tuning);
std::string writeTuning(const Tuning &tuning);

struct TuningResult {
  /// Something that was or could have been timed.
  struct Line {
    std::string what;
    int64_t uses = 0;             ///< of it in a step
    double before = 0, after = 0; ///< seconds of one; `after` as `before` where it was not reached
    size_t candidates = 0;        ///< that were compared; 0: time was up before
    bool changed = false;
  };
  /// The most expensive first.
  std::vector<Line> lines;
  Tuning choices;
};

/// "12 x bf16 TN ...: 41.20 us -> 38.00 us, of 27".
std::string describe(const TuningResult::Line &line);

/// Writes the package with its choices and, over them, these.
Status writeTuned(const Package &package, const Tuning &choices, const std::string &path);

} // namespace trainrt

#endif // TRAINRT_PLAN_TUNING_H
