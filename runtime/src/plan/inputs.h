// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checking a batch against a function before anything runs: names, types, ranks, sizes against the
// symbols, and the values themselves.
#ifndef TRAINRT_PLAN_INPUTS_H
#define TRAINRT_PLAN_INPUTS_H

#include "plan/batch_facts.h"
#include "plan/package.h"

#include <functional>
#include <string>
#include <vector>

namespace trainrt {

struct NamedArray {
  std::string name;
  ArrayView array;
};
using Batch = std::vector<NamedArray>;

/// A batch that fits.
struct BoundBatch {
  /// By index in Program::inputs, for the inputs of the function. `data` is null where the input
  /// was filled in (the shape is then what it must be) or is empty. The type may still need a
  /// conversion.
  std::vector<ArrayView> arrays;
  std::vector<bool> filled;
  bool anyFilled = false;
  /// By index in Program::symbols; those that the function needs are set. Counts are rounded up.
  std::vector<int64_t> symbols;
  BatchFacts facts;

  /// What was bound: a batch of the same names, types and shapes fits as well, so that only its
  /// values are left to check.
  const Function *function = nullptr;
  bool fillMissing = false;
  Batch signature;
  /// Index in the batch of each input of the function; -1: filled in.
  std::vector<int32_t> sources;
  /// By index in Program::valueRules.
  struct RuleBounds {
    int64_t max = INT64_MIN; ///< INT64_MIN: the function has no use for the rule
    std::vector<int64_t> begin, end;
  };
  std::vector<RuleBounds> rules;
};

struct BindOptions {
  bool fillMissing = false; ///< inputs that are not there are taken as zeros
  bool checked = false;     ///< values have been found to be good
  /// Unless empty: sets `onDevice` and `pinned` of an array. Values on a device are not checked.
  std::function<Status(ArrayView &)> locate;
  /// By index in Program::symbols, the values that a caller gives for counts; -1: none. May be
  /// null.
  const std::vector<int64_t> *givenCounts = nullptr;
  /// The session's, among the ranks of a run.
  RunPlace place;
  /// Where facts of batches that are `checked` may be found. May be null.
  const KnownFacts *known = nullptr;
};
/// Errors are BadData and name the input, the axis or the position, what was expected and, for
/// values, the node that needs it. `bound` may be that of an earlier batch, which makes the next
/// one of the same shapes cheap.
Status bindBatch(const Package &package, const Function &function, const Batch &batch,
                 const BindOptions &options, BoundBatch &bound);

/// Whether `value` may be the value of `symbol`; else the reason ("is below the minimum 1").
bool allowedValue(const Symbol &symbol, int64_t value, std::string &reason);

} // namespace trainrt

#endif // TRAINRT_PLAN_INPUTS_H
