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
  for (auto [bad, message] : {std::pair("x = 1\n", "line 1: a choice outside of a table"),
                              std::pair("a\n\n", "line 2: it is empty"),
                              std::pair("a\nx = 1\nx = 2\n", "line 3: this choice is there twice"),
                              std::pair("a\nb\na\n", "line 3: this table is there twice"),
                              std::pair("a\nx = 1", "line 2: its end is missing")}) {
    Tuning ignored;
    Status status = readTuning(bad, ignored);
    EXPECT_EQ(status.code(), Code::BadData) << bad;
    EXPECT_EQ(status.message(), message);
  }
}
