// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether batches fit, asked by the step itself or ahead of it by any thread.

#include "session/batch_binder.h"

#include <cassert>

namespace trainrt {

namespace {
/// Whether values decide how a batch is run.
/// Then facts about values are worth remembering, and counts may be given.
bool hasFacts(const Function &function) {
  return !function.batchCounts.empty() || !function.variants.empty();
}
} // namespace

Status BatchBinder::bind(const Function &function, const Batch &batch, BindOptions options,
                         BoundBatch &into) const {
  // A batch may lie in the device's memory.
  if (!device->isHost())
    options.locate = [this](ArrayView &array) { return device->locate(array); };
  options.place = place;
  std::vector<int64_t> given;
  // What an earlier check has found out of the same arrays.
  if (hasFacts(function))
    options.known = &knownFacts;
  // A copy, so that setCount may come at any time.
  if (!function.batchCounts.empty()) {
    std::lock_guard lock(countsMutex);
    given = counts;
    options.givenCounts = &given;
  }
  return bindBatch(*package, function, batch, options, into);
}

Status BatchBinder::bindAll(const Function &function, const std::vector<Batch> &batches,
                            const BindOptions &options, std::vector<BoundBatch> &into) const {
  // Asked before anything of a batch is looked at.
  if (inference)
    return fail(Code::Unsupported,
                package->manifest().training
                    ? "the session was created for evaluation only; create one that trains"
                    : "the package was compiled with --inference; compile it without to train");
  into.resize(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    // The first batch that does not fit ends it; a single one needs no number.
    Status status = bind(function, batches[i], options, into[i]);
    if (!status.ok())
      return batches.size() == 1 ? status
                                 : status.within("micro-batch " + std::to_string(i) + ": ");
  }
  return {};
}

/// From any thread: the step itself binds once more.
Status BatchBinder::check(const Function &function, const std::vector<Batch> &batches) const {
  std::vector<BoundBatch> into;
  TRAINRT_TRY(bindAll(function, batches, {}, into));
  for (const BoundBatch &batch : into)
    if (hasFacts(*batch.function))
      knownFacts.remember(*batch.function, batch.arrays, batch.facts);
  return {};
}

Status BatchBinder::setCount(size_t symbol, int64_t value) {
  assert(symbol < package->program().symbols.size() && "callers look names up");
  const Symbol &count = package->program().symbols[symbol];
  if (!count.counts)
    return fail(Code::InvalidArgument, "symbol '", count.name,
                "' is no count: it is a size of the "
                "batch, which its arrays say");
  // -1 goes back to counting.
  if (value < -1 || value > count.max)
    return fail(Code::InvalidArgument, "the count '", count.name, "' cannot be ", value,
                value < 0 ? " (-1: it is counted)"
                          : ", its maximum is " + std::to_string(count.max));
  std::lock_guard lock(countsMutex);
  counts[symbol] = value;
  return {};
}

} // namespace trainrt
