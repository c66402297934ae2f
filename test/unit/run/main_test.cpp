// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What trainc-run does where nothing is left to do it with.

#include "../runtime/limited_new.h"
#include "cli/main.h"

#include <gtest/gtest.h>

TEST(Main, NoMemory) {
  char program[] = "trainc-run", package[] = "no such package, with a name that is allocated",
       option[] = "--info";
  char *arguments[] = {program, package, option, nullptr};
  testing::internal::CaptureStderr();
  int code;
  {
    trainrt::test::LimitedNew limit(0);
    code = trainrt::run::runMain(3, arguments);
  }
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "trainc-run: error: out of memory\n");
  EXPECT_EQ(code, 3);
}
