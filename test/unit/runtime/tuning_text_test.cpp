// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tuning results as the text that packages hold.

#include "plan/tuning.h"

#include <gtest/gtest.h>

using namespace trainrt;

TEST(Tuning, TextIsReadAsItWasWritten) {
  const Tuning tuning = {{"a", {{"x", "1 2"}, {"y", "3"}}}, {"b", {}}};
  Tuning read;
  EXPECT_EQ(writeTuning(tuning), "a\nx = 1 2\ny = 3\nb\n");
  ASSERT_TRUE(readTuning(writeTuning(tuning), read).ok());
  EXPECT_EQ(read, tuning);
  for (const char *bad : {"x = 1\n", "a\n\n", "a\nx = 1\nx = 2\n", "a\nb\na\n", "a\nx = 1"}) {
    Tuning ignored;
    EXPECT_EQ(readTuning(bad, ignored).code(), Code::BadData) << bad;
  }
}
