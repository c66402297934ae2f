// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a step's batches fit, asked by the step itself or ahead of it by any thread.

#include "core/session.h"

namespace trainrt {

Status Session::bind(const Function &function, const Batch &batch, BindOptions options,
                     BoundBatch &into) const {
  if (!device->isHost())
    options.locate = [this](ArrayView &array) { return device->locate(array); };
  std::vector<int64_t> given;
  if (!function.counts.empty()) {
    std::lock_guard lock(countsMutex);
    given = givenCounts;
    options.givenCounts = &given;
  }
  return bindBatch(*source, function, batch, options, into);
}

Status Session::bindAll(const Function &function, const std::vector<Batch> &batches,
                        const BindOptions &options, std::vector<BoundBatch> &into) const {
  if (inference)
    return fail(Code::Unsupported,
                source->manifest().training
                    ? "the session was created for evaluation only"
                    : "the package was compiled with --inference; it cannot train");
  into.resize(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    Status status = bind(function, batches[i], options, into[i]);
    if (!status.ok())
      return batches.size() == 1 ? status
                                 : status.within("micro-batch " + std::to_string(i) + ": ");
  }
  return {};
}

const Function *Session::firstFunction(size_t batches, const double *weights) const {
  const bool fused = batches == 1 && source->step() && (!weights || weights[0] == 1.0);
  return fused ? source->step() : source->micro();
}

Status Session::check(const std::vector<Batch> &batches) const {
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  std::vector<BoundBatch> into;
  const Function *function = firstFunction(batches.size(), nullptr);
  return bindAll(function ? *function : source->program().functions.front(), batches, {}, into);
}

Status Session::setCount(size_t symbol, int64_t value) {
  const Symbol &count = source->program().symbols[symbol];
  if (!count.counts)
    return fail(Code::InvalidArgument, "symbol '", count.name,
                "' is no count: it is a size of the "
                "batch, which its arrays say");
  if (value < -1 || value > count.max)
    return fail(Code::InvalidArgument, "the count '", count.name, "' cannot be ", value,
                value < 0 ? " (-1: it is counted)"
                          : ", its maximum is " + std::to_string(count.max));
  std::lock_guard lock(countsMutex);
  givenCounts[symbol] = value;
  return {};
}

} // namespace trainrt
