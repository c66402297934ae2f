// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the rows of micro-batches come from: the file's order, or the plans of a sampler; and what
// a checkpoint has to know to go on there (docs/data.md).
#ifndef TRAINRT_CLI_DATA_BATCH_ORDER_H
#define TRAINRT_CLI_DATA_BATCH_ORDER_H

#include "cli/data/data_order.h"
#include "cli/data/dataset.h"
#include "cli/options.h"

#include <memory>
#include <string>

namespace trainrt::run {

class BatchOrder {
public:
  using Position = DataOrder::Position;
  virtual ~BatchOrder() = default;
  virtual Position position() const = 0;
  virtual void seek(Position position) = 0;
  /// The rows of the next batch. `wrap`: the data repeats, epochs are not looked at.
  virtual std::vector<int64_t> next(bool wrap) = 0;
  /// Of an epoch that does not wrap.
  virtual int64_t batches(int64_t epoch) = 0;
  /// Whether the number of batches is the same in every epoch.
  virtual bool isRegular() const = 0;
  /// The options that decide on plans, and what they and the data come to; "" for the file's order,
  /// whose position means the same with any of them.
  virtual std::string plan() const { return {}; }
  virtual std::string planOptions() const { return {}; }
  /// Rows and places of the batch that needs most memory; `length` 0: those of the data.
  virtual void largest(int64_t &rows, int64_t &length) = 0;
};

/// What the options say about reading any data.
Dataset::Reading readingOf(const Options &options);

/// As --batch-size and --shuffle say and nothing else.
std::unique_ptr<BatchOrder> makeFileOrder(const Dataset &data, bool shuffle, uint64_t seed);

/// As the options say. Sets what `data` cuts from its batches. Throws Failure where they do not fit
/// the package or the data.
std::unique_ptr<BatchOrder> makeBatchOrder(const Options &options, const Package &package,
                                           Dataset &data, int64_t seed);

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_BATCH_ORDER_H
