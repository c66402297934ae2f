// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Learning-rate schedules: `--lr-schedule constant|linear|cosine[,warmup=N][,total=N][,min=F]`.
#ifndef TRAINRT_CLI_SCHEDULE_H
#define TRAINRT_CLI_SCHEDULE_H

#include <cstdint>
#include <optional>
#include <string>

namespace trainrt::run {

/// With s the step from 1, w = warmup, and p = (s - 1 - w) / (total - w) limited to [0, 1]:
///   s <= w:   base * s / w
///   constant: base
///   linear:   base + (min - base) * p
///   cosine:   min + (base - min) * (1 + cos(pi * p)) / 2
/// Without warm-up these are PyTorch's LinearLR (to min) and CosineAnnealingLR(total, min).
struct LrSchedule {
  enum class Kind { constant, linear, cosine };
  Kind kind = Kind::constant;
  int64_t warmup = 0;           ///< steps
  std::optional<int64_t> total; ///< steps; default: those of the run
  double min = 0;

  /// nullopt and a message in `error` where `text` is not one.
  static std::optional<LrSchedule> parse(const std::string &text, std::string &error);

  /// The rate of step `step` >= 1; `total` must be set unless the kind is constant.
  double at(int64_t step, double base) const;

  /// What `parse` reads: "cosine,warmup=10,total=500,min=1e-05".
  std::string option() const;

  /// "cosine, warm-up 10, total 500, min 1e-05".
  std::string text() const;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_SCHEDULE_H
