// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One link that does one copy at a time, in the order in which the copies stand in the schedule.

#include "lib/Schedule/Offload/TransferSchedule.h"

using namespace mlir;
using namespace trainc;

/// Until a copy begins, by a cautious guess.
static constexpr double kCopyLatency = 10e-6;

/// Times are sums of estimated seconds; `changes` is what begins and ends in use at each command.
TransferSchedule::TransferSchedule(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes,
                                   ArrayRef<double> seconds, double bytesPerSecond,
                                   int64_t alignment)
    : begins(1, 0), changes(seconds.size() + 1, 0), bytesPerSecond(bytesPerSecond),
      alignment(alignment) {
  for (double duration : seconds)
    begins.push_back(begins.back() + duration);
  for (auto [life, size] : llvm::zip_equal(lifetimes.buffers, bytes))
    if (life.isArena()) {
      changes[life.first] += padded(size);
      changes[life.last + 1] -= padded(size);
    }
}

double TransferSchedule::copySeconds(int64_t bytes) const {
  return kCopyLatency + double(bytes) / bytesPerSecond;
}

int32_t TransferSchedule::commandAt(double time) const {
  assert(time >= 0 && "the first command begins at 0");
  return int32_t(llvm::upper_bound(begins, time) - begins.begin()) - 1;
}

std::optional<std::vector<Transfer>>
TransferSchedule::place(ArrayRef<const PausedBuffer *> moved) const {
  std::vector<Transfer> transfers;
  for (const PausedBuffer *value : moved) {
    assert(value->written <= value->before && value->before < value->after &&
           "a pause begins behind the last write");
    transfers.push_back({value, value->written + 1, 0, 0});
  }

  // Back as late as possible: from the last one on, each before the next one begins.
  // From the last reader backwards the deadlines are known; a total order, so that equal ones do
  // not depend on the sort.
  llvm::sort(transfers, [](const Transfer &a, const Transfer &b) {
    return std::pair(a.value->after, a.value->buffer) > std::pair(b.value->after, b.value->buffer);
  });
  double next = begins.back();
  for (Transfer &transfer : transfers) {
    // The copy must end when the reader begins, and before the next copy back begins.
    next = std::min(next, begins[transfer.value->after]) - copySeconds(transfer.value->bytes);
    // There is not enough time before the reader, from the first command on.
    if (next < 0)
      return std::nullopt;
    transfer.back = std::min(commandAt(next), transfer.value->after);
  }

  struct Copy {
    int32_t command;
    bool isBack;
    Transfer *transfer;
  };
  std::vector<Copy> copies;
  // To the host as soon as the value is complete.
  llvm::sort(transfers, [](const Transfer &a, const Transfer &b) {
    return std::pair(a.away, a.value->buffer) < std::pair(b.away, b.value->buffer);
  });
  for (Transfer &transfer : transfers) {
    copies.push_back({transfer.away, false, &transfer});
    copies.push_back({transfer.back, true, &transfer});
  }
  // The order of the link: by the command before which a copy stands, copies to the host first; of
  // several back, the one that is needed first.
  llvm::stable_sort(copies, [](const Copy &a, const Copy &b) {
    if (std::pair(a.command, a.isBack) != std::pair(b.command, b.isBack))
      return std::pair(a.command, a.isBack) < std::pair(b.command, b.isBack);
    return a.isBack && std::pair(a.transfer->value->after, a.transfer->value->buffer) <
                           std::pair(b.transfer->value->after, b.transfer->value->buffer);
  });
  double end = 0;
  // One copy at a time, none before the command that it stands at.
  for (const Copy &copy : copies) {
    Transfer &transfer = *copy.transfer;
    end = std::max(end, begins[copy.command]) + copySeconds(transfer.value->bytes);
    if (copy.isBack) {
      // A rounding error is no delay.
      if (end > begins[transfer.value->after] + 1e-9)
        return std::nullopt;
      continue;
    }
    // The memory is free when the copy is done, and the last reader before the pause has run.
    transfer.released = std::max(int32_t(llvm::lower_bound(begins, end) - begins.begin()),
                                 transfer.value->before + 1);
    assert(transfer.away <= transfer.released && "the copy to the host comes before its end");
    // It would never be away.
    if (transfer.released >= transfer.back)
      return std::nullopt;
  }
  return transfers;
}

/// Prefix sums of begins and ends; a transfer takes its bytes out between `released` and `back`.
std::vector<int64_t> TransferSchedule::liveBytes(ArrayRef<Transfer> transfers) const {
  std::vector<int64_t> live = changes;
  for (const Transfer &transfer : transfers) {
    live[transfer.released] -= transfer.value->bytes;
    live[transfer.back] += transfer.value->bytes;
  }
  live.pop_back();
  std::partial_sum(live.begin(), live.end(), live.begin());
  return live;
}

/// The runtime's planner again: bytes of the host's block, with the same alignment.
int64_t TransferSchedule::hostBytes(ArrayRef<Transfer> transfers) const {
  std::vector<trainrt::PlanBuffer> buffers;
  for (const Transfer &transfer : transfers)
    buffers.push_back({transfer.value->bytes, transfer.away, transfer.back});
  return trainrt::planMemory(buffers, alignment).peak;
}
