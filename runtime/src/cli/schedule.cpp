// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Parsing and evaluating learning-rate schedules.
#include "cli/schedule.h"

#include "cli/format.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace trainrt::run {

/// The kind comes first, then the others in any order; of one that is given twice the last counts.
/// Sets `error` where the result is nullopt.
std::optional<LrSchedule> LrSchedule::parse(const std::string &text, std::string &error) {
  LrSchedule schedule;
  bool first = true;
  for (const std::string &part : split(text, ',')) {
    if (first) {
      first = false;
      if (part == "constant")
        schedule.kind = Kind::constant;
      else if (part == "linear")
        schedule.kind = Kind::linear;
      else if (part == "cosine")
        schedule.kind = Kind::cosine;
      else {
        error = "'" + part + "' is not constant, linear or cosine";
        return std::nullopt;
      }
      continue;
    }
    // Without "=" the value is empty, which is no number: the error names the key.
    size_t equals = part.find('=');
    std::string key = part.substr(0, equals);
    std::string value = equals == std::string::npos ? "" : part.substr(equals + 1);
    if (key == "warmup" || key == "total") {
      std::optional<int64_t> number = parseInteger(value);
      // A warm-up may be 0 steps, a total is one at least.
      if (!number || *number < (key == "total")) {
        error = key + "='" + value + "' is not a number of steps";
        return std::nullopt;
      }
      if (key == "warmup")
        schedule.warmup = *number;
      else
        schedule.total = number;
    } else if (key == "min") {
      std::optional<double> number = parseNumber(value);
      if (!number || !(*number >= 0) || !std::isfinite(*number)) {
        error = "min='" + value + "' is not a learning rate";
        return std::nullopt;
      }
      schedule.min = *number;
    } else {
      error = "'" + part + "' is none of warmup=N, total=N, min=F";
      return std::nullopt;
    }
  }
  // A total that is not given is the run's last step, which may be shorter; `at` copes with that.
  if (schedule.total && schedule.warmup > *schedule.total) {
    error = "warmup is longer than total";
    return std::nullopt;
  }
  return schedule;
}

/// The step behind the warm-up has the base rate, the one behind the total has `min`, and
/// so have all later ones, unless the rate is constant. A function of the step alone, so a run that
/// goes on needs no state of it.
double LrSchedule::at(int64_t step, double base) const {
  assert(step >= 1 && (kind == Kind::constant || total) && "steps are numbered from 1");
  if (step <= warmup)
    return base * double(step) / double(warmup);
  if (kind == Kind::constant)
    return base;
  // At least one step, where the warm-up takes all.
  double length = double(std::max<int64_t>(1, total.value_or(0) - warmup));
  double p = std::clamp(double(step - 1 - warmup) / length, 0.0, 1.0);
  if (kind == Kind::linear)
    return base + (min - base) * p;
  return min + (base - min) * (1 + std::cos(3.14159265358979323846 * p)) / 2;
}

namespace {
std::string nameOf(LrSchedule::Kind kind) {
  return kind == LrSchedule::Kind::constant ? "constant"
         : kind == LrSchedule::Kind::linear ? "linear"
                                            : "cosine";
}
} // namespace

/// What `parse` reads as the same schedule. A constant one ends nowhere, so its total is left out;
/// that of a run which is shorter than its warm-up may as well be the warm-up (see `at`).
std::string LrSchedule::option() const {
  std::string result = nameOf(kind);
  if (warmup)
    result += ",warmup=" + std::to_string(warmup);
  if (kind != Kind::constant && total)
    result += ",total=" + std::to_string(std::max(*total, warmup));
  if (kind != Kind::constant && min != 0)
    result += ",min=" + shortest(min);
  return result;
}

std::string LrSchedule::text() const {
  std::string result = nameOf(kind);
  if (warmup)
    result += ", warm-up " + std::to_string(warmup);
  if (kind != Kind::constant) {
    if (total)
      result += ", total " + std::to_string(*total);
    if (min != 0)
      result += ", min " + shortest(min);
  }
  return result;
}

} // namespace trainrt::run
