// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Crash signals in guarded work: all of them come back, also those of other threads.

#include "lib/Driver/CrashGuard.h"
#include "trainc/Codegen/CompileModule.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>

using trainc::CrashGuard;

namespace {

/// Uses up any stack; the volatile sum keeps it from becoming a loop.
int recurse(int depth) {
  volatile char frame[4096];
  frame[depth % 4096] = char(depth);
  return depth == 0 ? 0 : recurse(depth + 1) + frame[depth % 4096];
}

TEST(CrashGuard, NothingHappens) {
  CrashGuard guard;
  bool done = false;
  EXPECT_EQ(guard.run([&] { done = true; }), "");
  EXPECT_TRUE(done);
}

TEST(CrashGuard, Signals) {
  CrashGuard guard;
  EXPECT_EQ(guard.run([] { std::abort(); }), "Aborted");
  EXPECT_EQ(guard.run([] { std::raise(SIGSEGV); }), "Segmentation fault");
  EXPECT_EQ(guard.run([] { std::raise(SIGFPE); }), "Floating point exception");
}

TEST(CrashGuard, StackOverflow) {
  CrashGuard guard;
  for (int i = 0; i < 2; ++i)
    EXPECT_EQ(guard.run([] { recurse(1); }), "Segmentation fault");
}

TEST(CrashGuard, OtherThreads) {
  CrashGuard guard;
  std::atomic<int> done{0};
  std::string signal = guard.run([&] {
    trainc::codegen::inParallel(64, [&](size_t number) {
      if (number == 5)
        std::abort();
      ++done;
    });
  });
  EXPECT_EQ(signal, "Aborted");
  // Only a thread that crashes leaves work behind.
  EXPECT_GE(done, 5);
}

} // namespace
