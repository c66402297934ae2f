// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank has a row of words, which it alone writes, and slots for bytes.

#include "device/cuda/ranks/peer_board.h"

#include <atomic>
#include <thread>

namespace trainrt::cuda {

/// Zero at the beginning, as new memory is.
struct PeerBoard::Row {
  alignas(64) std::atomic<uint64_t> gathered; ///< calls so far, the one under way included
  std::atomic<uint64_t> asked, questions;     ///< the last number, and how many there were
  std::atomic<uint64_t> answered[mostRanks];  ///< of each other rank's
  std::atomic<bool> hasLeft;
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");
};

size_t PeerBoard::bytes() const { return world * sizeof(Row) + slots.bytes(); }

Status PeerBoard::mapped(Status status) {
  if (status.ok())
    slots.placeAt(memory.data() + world * sizeof(Row));
  return status;
}

PeerBoard::Row &PeerBoard::row(size_t rank) const {
  return reinterpret_cast<Row *>(memory.data())[rank];
}

/// Others are mostly there, or come soon.
template <typename Fn> Status PeerBoard::await(const Fn &isThere) const {
  using Clock = std::chrono::steady_clock;
  constexpr auto soon = std::chrono::microseconds(50);
  const Clock::time_point began = Clock::now();
  for (size_t rank = 0; rank < world; ++rank) {
    while (rank != size_t(ranks.rank()) && !isThere(rank)) {
      const auto waited = Clock::now() - began;
      if (waited < soon)
        continue;
      TRAINRT_TRY(ranks.failure());
      if (waited > ranks.limit())
        return fail(Code::RankLost, "the others have not come within ",
                    ranks.limit().count() / 1000, " s");
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  return {};
}

Status PeerBoard::gather(std::span<const std::byte> mine,
                         std::vector<std::span<const std::byte>> &all) {
  const auto own = size_t(ranks.rank());
  const uint64_t number = ++gathered;
  slots.write(own, number, mine);
  row(own).gathered.store(number);
  int left = -1;
  TRAINRT_TRY(await([&](size_t rank) {
    if (row(rank).gathered.load() >= number)
      return true;
    if (row(rank).hasLeft.load())
      left = int(rank);
    return left >= 0;
  }));
  if (left >= 0)
    return fail(Code::RankLost, "rank ", left, " has left");
  all.clear();
  for (size_t rank = 0; rank < world; ++rank)
    all.push_back(slots.read(rank, number));
  return {};
}

void PeerBoard::ask(uint64_t number) {
  Row &own = row(size_t(ranks.rank()));
  own.asked.store(number);
  own.questions.fetch_add(1);
}

Status PeerBoard::awaitAnswers() const {
  const auto own = size_t(ranks.rank());
  const uint64_t questions = row(own).questions.load();
  return await([&](size_t rank) {
    return row(rank).hasLeft.load() || row(rank).answered[own].load() == questions;
  });
}

uint64_t PeerBoard::question(int rank) const {
  const Row &other = row(size_t(rank)), &own = row(size_t(ranks.rank()));
  const bool isNew = other.questions.load() != own.answered[size_t(rank)].load();
  return isNew ? other.asked.load() : 0;
}

void PeerBoard::answer(int rank) { row(size_t(ranks.rank())).answered[size_t(rank)].fetch_add(1); }

void PeerBoard::leave() { row(size_t(ranks.rank())).hasLeft.store(true); }

} // namespace trainrt::cuda
