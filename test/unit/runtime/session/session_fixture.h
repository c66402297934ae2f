// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions of the tiny package.
#ifndef TRAINRT_TEST_UNIT_RUNTIME_SESSION_SESSION_FIXTURE_H
#define TRAINRT_TEST_UNIT_RUNTIME_SESSION_SESSION_FIXTURE_H

#include "tiny_package.h"

#include <gtest/gtest.h>

namespace trainrt::test {

class SessionTest : public ::testing::Test {
protected:
  void SetUp() override { makePackage({}); }

  void makePackage(const TinyOptions &options) {
    writeTinyPackage(folder / "m.tpk", options);
    Status status = Package::open(folder / "m.tpk", package);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::unique_ptr<Session> make(SessionOptions options = {}) {
    std::unique_ptr<Session> session;
    if (!options.threads)
      options.threads = 1;
    Status status = Session::create(package, options, session);
    EXPECT_TRUE(status.ok()) << status.message();
    return session;
  }

  static std::vector<float> floats(const ArrayView &array) {
    auto *data = static_cast<const float *>(array.data);
    return {data, data + array.bytes / 4};
  }
  static std::vector<float> w(const Session &session) {
    ArrayView array;
    EXPECT_TRUE(session.parameter(0, array).ok());
    return floats(array);
  }

  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
};

} // namespace trainrt::test

#endif // TRAINRT_TEST_UNIT_RUNTIME_SESSION_SESSION_FIXTURE_H
