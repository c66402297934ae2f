// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The data of one step after the other. For a device that runs ahead they are made by a thread of
// their own while earlier steps run, two at most, so that reading and gathering rows cost no time.
#ifndef TRAINRT_CLI_DATA_LOADER_H
#define TRAINRT_CLI_DATA_LOADER_H

#include "cli/data/batch_order.h"
#include "cli/data/dataset.h"
#include "cli/failure.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace trainrt::run {

/// A step's micro-batches and where in the data they lie.
struct StepData {
  std::vector<Batch> batches;
  std::vector<trainrt_batch> views;
  int64_t rows = 0;   ///< of all micro-batches
  int64_t tokens = 0; ///< of them that are no padding; -1 where nothing tells
  BatchOrder::Position before, after;
  /// Of trainrt_session_check, where the loader checks batches.
  trainrt_status status = TRAINRT_OK;
  ErrorSlot error;
  std::string refusal; ///< why there are no batches, where several ranks have to know that
};

class StepLoader {
public:
  struct Settings {
    trainrt_session *session = nullptr; ///< whose host memory rows are gathered in
    int64_t microBatches = 1;           ///< of all ranks
    int64_t rank = 0, ranks = 1;
    /// How many steps there are, over data that repeats; without it: to the end of epoch `epochs`.
    std::optional<int64_t> steps;
    int64_t epochs = 1;
    bool ahead = false;
    bool checks = false; ///< batches, so that steps need not
  };
  /// `order` is where the next step begins.
  StepLoader(const Dataset &data, std::unique_ptr<BatchOrder> order, const Settings &settings);
  ~StepLoader();
  StepLoader(const StepLoader &) = delete;
  StepLoader &operator=(const StepLoader &) = delete;

  /// Null after the last step. Throws what reading the data throws.
  std::unique_ptr<StepData> next();
  /// Takes back what is no longer needed: its memory is used again.
  void recycle(std::unique_ptr<StepData> data);

private:
  bool done() const {
    return settings.steps ? made >= *settings.steps : order->position().epoch >= settings.epochs;
  }
  void load(StepData &into);
  void loadAhead();

  const Dataset &data;
  const Settings settings;
  // Of the thread, if there is one.
  std::unique_ptr<BatchOrder> order;
  int64_t made = 0;

  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex.
  std::deque<std::unique_ptr<StepData>> ready, unused;
  std::exception_ptr failure;
  bool ended = false, stopped = false;
  std::thread thread;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_LOADER_H
