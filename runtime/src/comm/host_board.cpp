// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A turn's outcome is one word, which the last rank to come and those that give up waiting compete
// for: whatever is there first holds for all. So a rank that has gone, or sleeps, is nobody's
// trouble here.

#include "comm/host_board.h"

#include <atomic>
#include <thread>

namespace trainrt {

/// Zero at the beginning, as new memory is. Words are of two turns, as slots are.
struct HostBoard::Head {
  alignas(64) std::atomic<uint64_t> come; ///< of all turns
  std::atomic<uint64_t> outcomes[2];      ///< turn * 4 + Outcome
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "processes share it");
};

size_t HostBoard::bytes() const { return sizeof(Head) + slots.bytes(); }

Status HostBoard::create(std::string &name) { return mapped(memory.create(bytes(), name)); }
Status HostBoard::open(const std::string &name) { return mapped(memory.open(name, bytes())); }

Status HostBoard::mapped(Status status) {
  if (status.ok())
    slots.placeAt(memory.data() + sizeof(Head));
  return status;
}

HostBoard::Head &HostBoard::head() const { return *reinterpret_cast<Head *>(memory.data()); }

bool HostBoard::isDecided(Outcome &outcome) const {
  const uint64_t word = head().outcomes[turn % 2].load();
  outcome = Outcome(word % 4);
  return word / 4 == turn;
}

/// What holds: another rank may have been first.
HostBoard::Outcome HostBoard::decide(Outcome wish) {
  std::atomic<uint64_t> &word = head().outcomes[turn % 2];
  for (uint64_t before = word.load(); before / 4 != turn;)
    word.compare_exchange_weak(before, turn * 4 + uint64_t(wish));
  return Outcome(word.load() % 4);
}

bool HostBoard::gather(const std::string &mine, std::vector<std::string> &all,
                       std::chrono::microseconds patience) {
  using Clock = std::chrono::steady_clock;
  constexpr auto soon = std::chrono::microseconds(100);
  ++turn;
  Outcome outcome;
  if (mine.size() > mostBytes)
    decide(Outcome::GivenUp);
  else
    slots.write(rank, turn, std::as_bytes(std::span(mine)));
  if (head().come.fetch_add(1) + 1 == turn * world)
    decide(Outcome::Told);
  for (const Clock::time_point began = Clock::now(); !isDecided(outcome);) {
    const auto waited = Clock::now() - began;
    if (waited > patience)
      decide(Outcome::GivenUp);
    else if (waited > soon)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  if (outcome == Outcome::GivenUp)
    return false;
  all.clear();
  for (size_t other = 0; other < world; ++other) {
    const std::span<const std::byte> told = slots.read(other, turn);
    all.emplace_back(reinterpret_cast<const char *>(told.data()), told.size());
  }
  return true;
}

} // namespace trainrt
