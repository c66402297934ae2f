// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The memory plan of a batch against what the device can still give.
#include "cli/data/memory_fit.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/target.h"
#include "trainrt/data.h"

namespace trainrt::run {

namespace {

/// Free memory is asked once, when it is made: batches of all sizes
/// are held against the same number.
class Room {
public:
  Room(const Package &package, trainrt_session *session, const Dataset &data, MicroBatches micro,
       int64_t length)
      : package(package), data(data), micro(micro), length(length),
        threads(trainrt_session_threads(session)), device(traitsOf(package.info.target)) {
    ErrorSlot error, heldError;
    uint64_t bytes = 0;
    trainrt_memory held = trainrt_memory_default();
    // Without both numbers nothing can be compared.
    if (trainrt_session_free_memory(session, &bytes, error) != TRAINRT_OK ||
        trainrt_session_memory(session, &held, heldError) != TRAINRT_OK)
      return;
    free = bytes;
    // Memory that was asked for and never touched is still free on the host.
    taken = device.isSeparate ? held.total : held.parameters;
  }

  /// All that such a batch needs, or, with `full` unset, the least: with as much padding as there
  /// can be. 0 where the package cannot say.
  uint64_t needed(int64_t rows, bool full = true) const {
    std::vector<trainrt_symbol_value> symbols = data.symbolValues(rows, length);
    // Counts at their least: as if nearly everything was padding.
    if (!full)
      for (const trainrt_symbol &symbol : package.symbols)
        if (symbol.axis < 0 && symbol.input)
          symbols.push_back({symbol.name, symbol.min});
    trainrt_memory plan = trainrt_memory_default();
    ErrorSlot error;
    return trainrt_package_memory(package.handle.get(), symbols.data(), symbols.size(), micro,
                                  threads, &plan, error) == TRAINRT_OK
               ? plan.total
               : 0;
  }
  /// Unknown memory fits: the device will say.
  bool fits(uint64_t bytes) const { return !free || bytes <= *free + taken; }

  /// The largest batch of less than `rows` rows that fits; 0: none.
  /// Halving between what fits and what does not: more rows are taken to need more.
  int64_t largest(int64_t rows) const {
    int64_t least = 0, beyond = rows;
    while (beyond - least > 1) {
      const int64_t middle = least + (beyond - least) / 2;
      (fits(needed(middle)) ? least : beyond) = middle;
    }
    // What the package's divisor makes of it may be larger again.
    least = least ? data.possibleBatch(least) : 0;
    return fits(needed(least)) ? least : 0;
  }

  const Package &package;
  const Dataset &data;
  const MicroBatches micro;
  const int64_t length;
  const uint32_t threads;
  const TargetTraits &device;
  std::optional<uint64_t> free;
  uint64_t taken = 0; ///< of what is needed, what the session has already
};

} // namespace

/// Leaves the size as it is where nothing fits: `requireMemory` then says why.
void chooseBatch(const Package &package, trainrt_session *session, Dataset &data,
                 MicroBatches micro) {
  // A size that was given is checked, not changed.
  if (!data.choosesBatch())
    return;
  const Room room(package, session, data, micro, 0);
  if (room.fits(room.needed(data.batchSize())))
    return;
  if (const int64_t rows = room.largest(data.batchSize()))
    data.setBatchSize(rows);
}

void requireMemory(const Package &package, trainrt_session *session, const Dataset &data,
                   MicroBatches micro, int64_t rows, int64_t length, const char *option,
                   Reporter &reporter) {
  // With the longest rows that there can be.
  const Room room(package, session, data, micro, length);
  const uint64_t full = room.needed(rows);
  if (room.fits(full))
    return;
  const std::string what =
      data.path() + ": a batch of " + grouped(rows) + (rows == 1 ? " row" : " rows") + " needs ";
  const std::string free = byteSize(*room.free + room.taken) + " are free for it";
  // Between both numbers the data decides.
  const uint64_t least = room.needed(rows, false);
  if (room.fits(least)) {
    reporter.warning(what + "up to " + byteSize(full) + " of memory, and " + free +
                     ": it fits only with enough padding");
    return;
  }
  const int64_t possible = room.largest(rows);
  std::string wayOut;
  // Which option to change, and to what.
  if (!possible)
    wayOut = "not even a smaller one fits";
  else if (std::string(option) != "--batch-size")
    wayOut = std::string("a smaller ") + option + " may fit";
  else
    wayOut = "--batch-size " + std::to_string(possible) + " fits" +
             (micro ? " (--accumulate N makes a step of N such batches)" : "");
  wayOut += "\ncompiling with --recompute, --memory-budget or --precision bf16 needs less, too";
  if (room.device.isSeparate)
    wayOut += "; `nvidia-smi` shows other processes on the GPU";
  throw Failure(exitResources, what + byteSize(least) + " of memory, and " + free + "; " + wayOut);
}

} // namespace trainrt::run
