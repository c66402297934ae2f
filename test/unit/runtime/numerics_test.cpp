// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Where the first value that is not finite was, or was written.

#include "tiny_package.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

TEST(Numerics, SayWhereTheFirstOneIs) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  SessionOptions options;
  options.checkNumerics = true;
  std::unique_ptr<Session> session;
  ASSERT_TRUE(Session::create(package, options, session).ok());
  TinyBatch batch(6);
  StepResult result;
  batch.x[5] = 3e38f;
  batch.x[4] = -3e38f;
  Status status = session->step({batch.batch()}, {}, result);
  EXPECT_NE(status.message().find("the first infinite value is at element 1 of 6 of an "
                                  "intermediate value (f32), written by command 0 of function "
                                  "'step', "),
            std::string::npos)
      << status.message();
  batch.x[7] = NAN;
  ASSERT_TRUE(Session::create(package, options, session).ok());
  status = session->step({batch.batch()}, {}, result);
  EXPECT_NE(status.message().find("the first NaN is at element 7 of 18 of input 'x' (f32), before "
                                  "function 'step' began"),
            std::string::npos)
      << status.message();
}
