// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Batches against the functions of a package. What its const methods use may be used by any thread.
#ifndef TRAINRT_SESSION_BATCH_BINDER_H
#define TRAINRT_SESSION_BATCH_BINDER_H

#include "device/device.h"
#include "plan/inputs.h"

#include <mutex>
#include <vector>

namespace trainrt {

class BatchBinder {
public:
  void create(const Package &of, const Device &on, bool forInference, const RunPlace &where) {
    package = &of;
    place = where;
    device = &on;
    inference = forInference;
    counts.assign(of.program().symbols.size(), -1);
  }

  Status bind(const Function &function, const Batch &batch, BindOptions options,
              BoundBatch &into) const;
  Status bindAll(const Function &function, const std::vector<Batch> &batches,
                 const BindOptions &options, std::vector<BoundBatch> &into) const;
  /// As `bindAll`; what their values say is remembered for the step that takes them.
  Status check(const Function &function, const std::vector<Batch> &batches) const;
  /// From now on batches have at least so many elements that count; -1: they are counted again.
  Status setCount(size_t symbol, int64_t value);

private:
  const Package *package = nullptr;
  const Device *device = nullptr;
  bool inference = false;
  RunPlace place;
  /// By index in Program::symbols, what the caller gives for counts; -1: nothing.
  std::vector<int64_t> counts;
  mutable std::mutex countsMutex;
  mutable KnownFacts knownFacts;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_BATCH_BINDER_H
