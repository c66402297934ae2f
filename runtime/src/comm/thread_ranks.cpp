// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// All ranks meet before they copy, when what is sent is known, and behind it, when nobody needs it
// any more.

#include "comm/thread_ranks.h"

#include <condition_variable>
#include <cstring>
#include <mutex>

namespace trainrt {

namespace {

/// Shared by the ranks, and gone with the last of them.
struct Meeting {
  explicit Meeting(int world) : tables(size_t(world)) {}

  std::mutex mutex;
  std::condition_variable changed;
  // Under the mutex; `tables` only while its rank waits.
  std::vector<std::span<const Communicator::Sent>> tables;
  size_t arrived = 0;
  uint64_t round = 0;
  Status failure;

  /// Waits for all ranks.
  /// A round that all have come to is a good one for all, also for those that wake up behind a
  /// later failure: no rank goes on where another one does not.
  Status wait(std::unique_lock<std::mutex> &lock) {
    if (!failure.ok())
      return failure;
    const uint64_t mine = round;
    if (++arrived == tables.size()) {
      arrived = 0;
      ++round;
      changed.notify_all();
      return {};
    }
    changed.wait(lock, [&] { return round != mine || !failure.ok(); });
    return round != mine ? Status() : failure;
  }
};

class ThreadRank final : public Communicator {
public:
  ThreadRank(int rank, int world, RankGroups groups, std::shared_ptr<Meeting> meeting)
      : Communicator(rank, world, groups), meeting(std::move(meeting)) {}

  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    const size_t ranks = size_t(world());
    {
      std::unique_lock lock(meeting->mutex);
      meeting->tables[size_t(rank())] = sent;
      TRAINRT_TRY(meeting->wait(lock));
    }
    // All tables are there and stay until the second meeting: no mutex is needed to read them.
    Status copied;
    for (size_t from = 0; from < ranks && copied.ok(); ++from) {
      const Sent &piece = meeting->tables[from][size_t(rank())];
      if (piece.bytes != received[from].bytes)
        copied = fail(Code::RankLost, "rank ", from, " sends ", piece.bytes, " bytes where rank ",
                      rank(), " waits for ", received[from].bytes);
      else if (piece.bytes)
        std::memcpy(received[from].data, piece.data, size_t(piece.bytes));
    }
    // The others are waiting: without a reason they would wait for ever.
    if (!copied.ok())
      abort(copied);
    std::unique_lock lock(meeting->mutex);
    return meeting->wait(lock);
  }

  void abort(const Status &why) override {
    std::lock_guard lock(meeting->mutex);
    if (meeting->failure.ok())
      meeting->failure = why.as(Code::RankLost);
    meeting->changed.notify_all();
  }

  Status failure() const override {
    std::lock_guard lock(meeting->mutex);
    return meeting->failure;
  }
  bool sharesMemory() const override { return true; }

private:
  const std::shared_ptr<Meeting> meeting;
};

} // namespace

std::vector<std::unique_ptr<Communicator>> createThreadRanks(int world, RankGroups groups) {
  auto meeting = std::make_shared<Meeting>(world);
  std::vector<std::unique_ptr<Communicator>> ranks;
  for (int rank = 0; rank < world; ++rank)
    ranks.push_back(std::make_unique<ThreadRank>(rank, world, groups, meeting));
  return ranks;
}

} // namespace trainrt
