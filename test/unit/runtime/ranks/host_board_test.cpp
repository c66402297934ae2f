// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads that see a board each as processes of one host do.

#include "comm/host_board.h"

#include <gtest/gtest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <thread>

using namespace trainrt;
using namespace std::chrono_literals;

namespace {

class HostBoards : public ::testing::Test {
protected:
  void run(int world, const std::function<void(HostBoard &board, int rank)> &body) {
    std::vector<std::unique_ptr<HostBoard>> boards;
    std::string name;
    for (int rank = 0; rank < world; ++rank) {
      boards.push_back(std::make_unique<HostBoard>(rank, world));
      const Status status = rank ? boards[size_t(rank)]->open(name) : boards[0]->create(name);
      ASSERT_TRUE(status.ok()) << status.message();
    }
    boards[0]->removeName();
    std::vector<std::thread> threads;
    for (int rank = 0; rank < world; ++rank)
      threads.emplace_back([&, rank] { body(*boards[size_t(rank)], rank); });
    for (std::thread &thread : threads)
      thread.join();
  }
  static std::string words(int rank, int turn) {
    return std::string(size_t(rank * 7 + turn % 5), char('a' + turn % 26)) + std::to_string(turn);
  }
};

TEST_F(HostBoards, TellTheWordsOfAll) {
  for (int world : {2, 3, 5})
    run(world, [&](HostBoard &board, int rank) {
      for (int turn = 0; turn < 200; ++turn) {
        std::vector<std::string> all;
        ASSERT_TRUE(board.gather(words(rank, turn), all, 10s));
        ASSERT_EQ(all.size(), size_t(world));
        for (int other = 0; other < world; ++other)
          EXPECT_EQ(all[size_t(other)], words(other, turn));
      }
    });
}

/// Whatever the outcome of a turn is, it is that of all.
TEST_F(HostBoards, AreGivenUpByAllOrNone) {
  constexpr int turns = 120;
  std::vector<char> told[3];
  std::barrier elsewhere(3);
  run(3, [&](HostBoard &board, int rank) {
    for (int turn = 0; turn < turns; ++turn) {
      if (rank == turn % 5)
        std::this_thread::sleep_for(std::chrono::microseconds(turn * 10));
      std::vector<std::string> all;
      told[rank].push_back(board.gather(words(rank, turn), all, 400us));
      if (!told[rank].back())
        elsewhere.arrive_and_wait();
      else
        for (int other = 0; other < 3; ++other)
          EXPECT_EQ(all[size_t(other)], words(other, turn));
    }
  });
  EXPECT_EQ(told[0], told[1]);
  EXPECT_EQ(told[0], told[2]);
}

TEST_F(HostBoards, DoNotWaitForOneThatDoesNotCome) {
  run(2, [&](HostBoard &board, int rank) {
    std::vector<std::string> all;
    const auto began = std::chrono::steady_clock::now();
    if (rank == 0)
      EXPECT_FALSE(board.gather("here", all));
    EXPECT_LT(std::chrono::steady_clock::now() - began, 1s);
  });
}

TEST_F(HostBoards, HaveNoRoomForLongWords) {
  run(2, [&](HostBoard &board, int rank) {
    std::vector<std::string> all;
    EXPECT_FALSE(board.gather(std::string(rank ? 3 : HostBoard::mostBytes + 1, 'x'), all, 10s));
    EXPECT_TRUE(board.gather(std::string(rank ? 3 : HostBoard::mostBytes, 'x'), all, 10s));
    EXPECT_EQ(all[0].size(), HostBoard::mostBytes);
  });
}

TEST_F(HostBoards, AreNotSeenElsewhere) {
  HostBoard board(1, 2);
  const Status status = board.open("/trainrt-of-another-host");
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("it does not see rank 0's memory of the host: "),
            std::string::npos);
}

TEST(HostMemories, AreNotLargerThanTheHost) {
  HostMemory memory;
  std::string name;
  const Status status = memory.create(size_t(1) << 50, name);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_EQ(status.message().find("no memory that processes share: "), 0u) << status.message();
}

} // namespace
