// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Batches of rows of similar length, dealt to ranks so that each has as many batches and as much
// work as the others (docs/data.md). A pure function of the options, the epoch and a position.
#ifndef TRAINRT_SESSION_DATA_SAMPLER_H
#define TRAINRT_SESSION_DATA_SAMPLER_H

#include "format/status.h"

#include <cstdint>
#include <vector>

namespace trainrt {

struct SamplerOptions {
  int64_t rows = 0;
  /// Of every row; empty: all 1.
  std::vector<int64_t> lengths;
  /// What a row costs, to sort and to balance by; empty: its length.
  std::vector<double> complexities;
  int64_t batchSize = 0;      ///< rows of a batch, at most; 0: no limit
  int64_t tokensPerBatch = 0; ///< rows x longest, at most; 0: no limit
  int64_t lengthMultiple = 1; ///< what the longest is rounded up to
  int64_t group = 0;          ///< rows that are sorted together; 0: 50 batches a rank; 1: none
  bool shuffle = false;
  uint64_t seed = 0;
  int64_t rank = 0, world = 1;
  bool dropTail = false;    ///< rows that cannot be shared evenly are left out, not given again
  bool fullBatches = false; ///< every batch has `batchSize` rows
  /// Rounds of about equal cost that follow each other, since one step takes them; 0 or 1: none do.
  int64_t together = 1;
};

class Sampler {
public:
  /// `index` rounds of epoch `epoch` have been given out; a round is one batch for each rank.
  struct Position {
    int64_t epoch = 0, index = 0;
  };

  /// InvalidArgument for options, BadData for what is wrong with a row.
  static Status create(SamplerOptions options, Sampler &sampler);

  /// The rows of this rank's next batch; valid until the next call.
  const std::vector<int64_t> &next();
  Position position() const { return at; }
  /// An index beyond the rounds counts as the next epoch's beginning.
  void seek(Position position);
  int64_t batches(int64_t epoch);
  /// Of all ranks, in the run's first round: the largest number of rows and of places in a row. No
  /// round of the first epoch has more in all.
  void largest(int64_t &rows, int64_t &length);
  /// Of everything but the rank: plans are equal where it is.
  uint64_t hash() const;

private:
  struct Round {
    size_t offset = 0; ///< in Plan::rows
    int64_t rows = 0, longest = 0;
    int64_t first = 0; ///< the earliest place of its rows in the epoch's order
    double cost = 0;   ///< of the rank that has most
  };
  struct Plan {
    int64_t epoch = -1;
    std::vector<Round> rounds;
    std::vector<int64_t> rows; ///< of this rank
  };
  /// A row in the epoch's order.
  struct Place {
    int64_t row, order;
  };

  int64_t length(int64_t row) const {
    return options.lengths.empty() ? 1 : options.lengths[size_t(row)];
  }
  double cost(int64_t row) const {
    return options.complexities.empty() ? double(length(row)) : options.complexities[size_t(row)];
  }
  int64_t padded(int64_t length) const;
  int64_t groupSize() const;
  std::vector<Place> orderOf(int64_t epoch) const;
  /// How many rows each rank takes of the sorted `pool` from `from` on; 0 where the next group is
  /// to be waited for.
  int64_t takenRows(const std::vector<Place> &pool, size_t from, bool isLast,
                    int64_t &longest) const;
  /// Makes a round of the `count` x world rows at `places`.
  void deal(const Place *places, int64_t count, int64_t longest, std::vector<double> &work);
  /// Puts the rounds, which come by their cost within each group, into the epoch's order.
  void orderRounds(int64_t epoch, const std::vector<size_t> &groups);
  const Plan &planOf(int64_t epoch);

  SamplerOptions options;
  Position at;
  Plan plan;
  std::vector<int64_t> batch;
};

} // namespace trainrt

#endif // TRAINRT_SESSION_DATA_SAMPLER_H
