// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The thread pool: every item once, whatever the sizes; nesting, exceptions, callers at the same
// time.
#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <numeric>
#include <set>
#include <stdexcept>

using namespace trainrt;

namespace {

TEST(ThreadPool, CoversEveryItemOnce) {
  for (unsigned threads : {0u, 1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.size(), std::max(threads, 1u));
    for (int64_t n : {0, 1, 2, 7, 64, 1000, 4097})
      for (int64_t grain : {0, 1, 3, 100, 5000}) {
        std::vector<int> hits(size_t(n), 0);
        std::atomic<int64_t> smallChunks{0};
        pool.parallelFor(n, grain, [&](unsigned worker, int64_t begin, int64_t end) {
          ASSERT_LT(worker, pool.size());
          ASSERT_LT(begin, end);
          if (end - begin < grain)
            ++smallChunks;
          for (int64_t i = begin; i < end; ++i)
            ++hits[size_t(i)];
        });
        for (int hit : hits)
          ASSERT_EQ(hit, 1);
        EXPECT_LE(smallChunks.load(), 1);
      }
  }
}

TEST(ThreadPool, ManyShortJobs) {
  ThreadPool pool(4);
  int64_t expected = 0;
  std::atomic<int64_t> sum{0};
  for (int64_t round = 0; round < 20000; ++round) {
    pool.parallelFor(8, 1, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        sum.fetch_add(i, std::memory_order_relaxed);
    });
    expected += 28;
    ASSERT_EQ(sum.load(std::memory_order_relaxed), expected);
  }
}

TEST(ThreadPool, ResultsAreVisibleToTheCaller) {
  ThreadPool pool(4);
  std::vector<int64_t> values(1000);
  for (int64_t round = 0; round < 1000; ++round) {
    pool.parallelFor(1000, 1, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        values[size_t(i)] +=
            i + round; // plain memory: a race would be seen by the thread sanitizer
    });
  }
  for (int64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(values[size_t(i)], 1000 * i + 499500);
}

TEST(ThreadPool, NestedCallsRunInline) {
  ThreadPool pool(3);
  std::atomic<int> count{0};
  pool.parallelFor(30, 1, [&](unsigned worker, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i)
      pool.parallelFor(10, 1, [&](unsigned inner, int64_t from, int64_t to) {
        EXPECT_EQ(inner, worker);
        EXPECT_EQ(from, 0);
        count += int(to);
      });
  });
  EXPECT_EQ(count.load(), 300);
}

TEST(ThreadPool, ExceptionsReachTheCaller) {
  for (unsigned threads : {1u, 4u}) {
    ThreadPool pool(threads);
    for (int round = 0; round < 100; ++round) {
      EXPECT_THROW(pool.parallelFor(100, 1,
                                    [&](unsigned, int64_t begin, int64_t end) {
                                      if (begin <= 57 && 57 < end)
                                        throw std::runtime_error("57");
                                    }),
                   std::runtime_error);
      std::atomic<int64_t> items{0};
      pool.parallelFor(100, 1, [&](unsigned, int64_t begin, int64_t end) { items += end - begin; });
      EXPECT_EQ(items.load(), 100);
    }
  }
}

TEST(ThreadPool, CallersTakeTurns) {
  ThreadPool pool(3);
  std::vector<std::thread> callers;
  std::atomic<int64_t> items{0};
  for (int caller = 0; caller < 3; ++caller)
    callers.emplace_back([&] {
      for (int round = 0; round < 500; ++round)
        pool.parallelFor(50, 1, [&](unsigned worker, int64_t begin, int64_t end) {
          // Scratch belongs to one thread at a time: a race would be seen by the thread sanitizer.
          int *memory = static_cast<int *>(pool.scratch(worker, 64));
          *memory = int(begin);
          items += end - begin;
        });
    });
  for (std::thread &caller : callers)
    caller.join();
  EXPECT_EQ(items.load(), 3 * 500 * 50);
}

TEST(ThreadPool, ScratchIsReused) {
  ThreadPool pool(2);
  void *first = pool.scratch(0, 1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  EXPECT_EQ(pool.scratch(0, 500), first);
  EXPECT_NE(pool.scratch(1, 500), first);
  EXPECT_NE(pool.shared(0, 500), pool.shared(1, 500));
  EXPECT_GE(pool.scratchBytes(), 2500u);
}

/// Packed matrices that are read in each step of a loop are on huge pages, where there are any.
TEST(ThreadPool, LargeScratchBeginsAtAHugePage) {
  ThreadPool pool(1);
  for (size_t megabytes : {8, 9}) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(pool.shared(2, megabytes << 20)) % (2 << 20), 0u);
    EXPECT_EQ(pool.scratchBytes(), megabytes << 20);
  }
}

/// A thread that is late keeps the others waiting for a small part of the work, at most.
TEST(ThreadPool, ChunksAreSmall) {
  ThreadPool pool(2);
  std::atomic<int64_t> longest{0};
  pool.parallelFor(6400, 1, [&](unsigned, int64_t begin, int64_t end) {
    for (int64_t most = longest;
         most < end - begin && !longest.compare_exchange_weak(most, end - begin);)
      ;
  });
  EXPECT_LE(longest, 200);
}

} // namespace
