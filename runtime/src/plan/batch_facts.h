// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the values of a batch say about how it is run: how many elements count, and whether the
// conditions of a function's variants hold (docs/design/counts.md).
#ifndef TRAINRT_PLAN_BATCH_FACTS_H
#define TRAINRT_PLAN_BATCH_FACTS_H

#include "format/dtype.h"
#include "format/program.h"

#include <deque>
#include <mutex>
#include <string>
#include <vector>

namespace trainrt {

/// Whether a variant may compute a batch.
struct Verdict {
  int32_t condition = -1; ///< the first one that does not hold; -1: all do
  int64_t row = -1;       ///< the first for which it does not; -1: the host cannot tell
};

struct BatchFacts {
  /// Of Function::batchCounts, how many elements count; -1: the host cannot tell.
  std::vector<int64_t> needed;
  /// Of Function::variants.
  std::vector<Verdict> verdicts;
};

/// `arrays` and `filled` are those of a bound batch, whose shapes fit.
BatchFacts lookAt(const Program &program, const Function &function,
                  const std::vector<ArrayView> &arrays, const std::vector<bool> &filled);

/// "'fixed_where_padded'" and what it needs of which inputs.
std::string describe(const Program &program, const Condition &condition);
const char *nameOf(Condition::Kind kind);

/// Facts of the batches that were checked last, by where their arrays lie. Any thread.
class KnownFacts {
public:
  void remember(const Function &function, const std::vector<ArrayView> &arrays,
                const BatchFacts &facts);
  bool find(const Function &function, const std::vector<ArrayView> &arrays,
            BatchFacts &facts) const;

private:
  struct Entry {
    const Function *function;
    std::vector<const void *> data;
    BatchFacts facts;
  };
  static std::vector<const void *> placesOf(const Function &function,
                                            const std::vector<ArrayView> &arrays);
  /// More than a loader has ready, with all their micro-batches.
  static constexpr size_t most = 256;

  mutable std::mutex mutex;
  std::deque<Entry> entries;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_BATCH_FACTS_H
