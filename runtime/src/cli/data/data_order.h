// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows of the data form which micro-batch. The order is a pure function of (rows, batch size,
// shuffling, seed) and a position, so a resumed run takes up exactly where the first one stopped.
#ifndef TRAINRT_CLI_DATA_DATA_ORDER_H
#define TRAINRT_CLI_DATA_DATA_ORDER_H

#include <cstdint>
#include <vector>

namespace trainrt::run {

/// The rows 0 .. rows - 1 in the order of epoch `epoch` (from 0): Fisher-Yates from the back, its
/// random numbers SplitMix64 started at mix(mix(seed) + epoch), bounded without bias by rejection.
/// The same on every machine.
std::vector<int64_t> shuffledRows(int64_t rows, uint64_t seed, uint64_t epoch);

class DataOrder {
public:
  /// Position: `index` rows of epoch `epoch` have been given out.
  struct Position {
    int64_t epoch = 0, index = 0;
    bool operator==(const Position &) const = default;
  };

  /// `rows`, `batch` >= 1.
  DataOrder(int64_t rows, int64_t batch, bool shuffle, uint64_t seed)
      : rows(rows), batch(batch), shuffle(shuffle), seed(seed) {}

  Position position() const { return at; }
  /// An index beyond the rows counts as the next epoch's beginning.
  void seek(Position position);

  /// The next batch. `wrap`: always `batch` rows, going on with the next epoch's where one ends.
  /// Otherwise an epoch ends with what is left (`dropShort`: with the last full batch), and
  /// position() is then the beginning of the next one. Empty only where dropShort and batch > rows.
  std::vector<int64_t> next(bool wrap, bool dropShort = false);

  /// Batches of one epoch that does not wrap.
  int64_t batchesPerEpoch(bool dropShort) const {
    return dropShort ? rows / batch : (rows + batch - 1) / batch;
  }

private:
  int64_t row(int64_t index);

  const int64_t rows, batch;
  const bool shuffle;
  const uint64_t seed;
  Position at;
  int64_t orderEpoch = -1;
  std::vector<int64_t> order; ///< of orderEpoch
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_DATA_DATA_ORDER_H
