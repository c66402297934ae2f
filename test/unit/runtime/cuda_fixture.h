// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What tests of sessions on a GPU share: a driver that is none, and a package for it.
#ifndef TRAINRT_TESTS_CUDA_FIXTURE_H
#define TRAINRT_TESTS_CUDA_FIXTURE_H

#include "cuda/fake_driver.h"
#include "device/cuda/driver.h"
#include "session/checkpoint.h"
#include "tiny_package.h"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

class CudaTest : public ::testing::Test {
protected:
  void SetUp() override {
    setenv("TRAINRT_CUDA_DRIVER", TRAINRT_FAKE_CUDA, 1);
    void *library = dlopen(TRAINRT_FAKE_CUDA, RTLD_NOW);
    ASSERT_TRUE(library) << dlerror();
    fake = reinterpret_cast<FakeCuda *(*)()>(dlsym(library, "fakeCuda"))();
    fake->major = 9;
    fake->minor = 0;
    fake->devices = 1;
    fake->memory = size_t(1) << 30;
    fake->sharedBytes = 227 << 10;
    fake->faultingKernel = nullptr;
    fake->failingGraph = 0;
    fake->graphBytes = 0;
    fake->ordinalOfMemory = 0;
    fake->peers = fake->failingOpening = fake->isSilent = 0;
    fake->launches = fake->early = fake->bodies = fake->captures = fake->graphRuns =
        fake->copiesWithin = fake->waits = fake->usedWhileBusy = fake->freedWhileOpen = 0;
    setenv("TRAINRT_CUDA_PATH", TRAINRT_FAKE_LIBRARIES, 1);
    open({});
  }
  void TearDown() override {
    EXPECT_EQ(fake->allocated, 0u);
    EXPECT_EQ(fake->liveGraphs, 0);
    EXPECT_EQ(fake->usedWhileBusy, 0);
    EXPECT_EQ(fake->freedWhileOpen, 0);
    unsetenv("TRAINRT_CUDA_DRIVER");
    unsetenv("TRAINRT_CUDA_PATH");
  }

  void open(TinyOptions options) {
    options.cuda = true;
    writeTinyPackage(folder / "m.tpk", options);
    Status status = Package::open(folder / "m.tpk", package);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::unique_ptr<Session> make(SessionOptions options = {}) {
    options.threads = 2;
    std::unique_ptr<Session> session;
    Status status = Session::create(package, options, session);
    EXPECT_TRUE(status.ok()) << status.message();
    return session;
  }

  /// The same model for the CPU.
  std::unique_ptr<Session> makeCpu() {
    writeTinyPackage(folder / "cpu.tpk");
    std::shared_ptr<const Package> cpu;
    EXPECT_TRUE(Package::open(folder / "cpu.tpk", cpu).ok());
    std::unique_ptr<Session> session;
    EXPECT_TRUE(Session::create(cpu, {}, session).ok());
    return session;
  }

  static std::vector<float> values(const Session &session, bool state = false) {
    ArrayView array;
    Status status = state ? session.state(0, array) : session.parameter(0, array);
    EXPECT_TRUE(status.ok()) << status.message();
    auto *data = static_cast<const float *>(array.data);
    return {data, data + array.bytes / 4};
  }
  static void expectNear(const std::vector<float> &a, const std::vector<float> &b) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i)
      EXPECT_NEAR(a[i], b[i], 1e-5f) << i;
  }
  static TinyBatch bad(int64_t rows) {
    TinyBatch batch(rows);
    batch.y[0] = INFINITY;
    return batch;
  }

  FakeCuda *fake = nullptr;
  TemporaryFolder folder;
  std::shared_ptr<const Package> package;
};

} // namespace

#endif // TRAINRT_TESTS_CUDA_FIXTURE_H
