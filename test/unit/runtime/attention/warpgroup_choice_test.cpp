// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which gradients of attention the runtime's own kernels for warpgroups can compute, and which of
// them they take.

#include "cuda_fixture.h"
#include "device/cuda/attention/own_attention.h"

#include <cstdlib>

using namespace trainrt::cuda;

namespace {

class WarpgroupChoice : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    fake->sharedBytes = 227 << 10;
    setenv("TRAINRT_WARPGROUP_ATTENTION", "1", 1);
  }
  void TearDown() override {
    unsetenv("TRAINRT_WARPGROUP_ATTENTION");
    CudaTest::TearDown();
  }
  static AttentionCall call(int64_t rows, int64_t columns = 64) {
    AttentionCall call;
    call.backward = call.causal = true;
    call.batch = 16, call.heads = call.kvHeads = 12;
    call.queryRows = call.keyRows = rows;
    call.keyColumns = call.valueColumns = columns;
    for (auto *strides :
         {&call.q, &call.k, &call.v, &call.o, &call.dO, &call.dQ, &call.dK, &call.dV})
      (*strides)[0] = rows * 12 * columns, (*strides)[1] = columns, (*strides)[2] = 12 * columns;
    return call;
  }
  std::unique_ptr<OwnAttention> load() {
    std::unique_ptr<OwnAttention> attention;
    Status status = OwnAttention::load(attention);
    EXPECT_TRUE(status.ok()) << status.message();
    return attention;
  }
};

TEST_F(WarpgroupChoice, Environment) {
  AttentionCall dropped = call(1024);
  dropped.dropout = 0.1f;
  EXPECT_TRUE(load()->takes(call(1024)));
  EXPECT_TRUE(load()->takes(dropped));
  setenv("TRAINRT_WARPGROUP_ATTENTION", "0", 1);
  EXPECT_FALSE(load()->takes(call(1024)));
  unsetenv("TRAINRT_WARPGROUP_ATTENTION");
  EXPECT_TRUE(load()->takes(call(1024)));
  // Dropout's mask would be cuDNN's in the forward.
  EXPECT_FALSE(load()->takes(dropped));
}

TEST_F(WarpgroupChoice, WhatTheKernelsCompute) {
  auto attention = load();
  auto refuses = [&](auto change) {
    AttentionCall other = call(1024);
    change(other);
    return !attention->takes(other);
  };
  EXPECT_FALSE(refuses([](AttentionCall &) {}));
  EXPECT_FALSE(refuses([](AttentionCall &c) { c.causal = false; }));
  EXPECT_FALSE(refuses([](AttentionCall &c) { c.kvHeads = 3; }));
  EXPECT_FALSE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 128; }));
  EXPECT_FALSE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 40; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.backward = false; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.dtype = DType::F32; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.hasBias = true; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 256; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyRows = 2048; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.batch = int64_t(1) << 30; }));
  // Rows that begin anywhere are for cuDNN.
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.k[2] += 4; }));
}

// Both directions, as they have one mask.
TEST_F(WarpgroupChoice, Dropout) {
  auto attention = load();
  for (bool backward : {false, true}) {
    AttentionCall dropped = call(1024);
    dropped.backward = backward, dropped.dropout = 0.1f;
    EXPECT_TRUE(attention->takes(dropped));
    AttentionCall other = dropped;
    other.queryRows = other.keyRows = 65537;
    EXPECT_FALSE(attention->takes(other));
    other = dropped;
    other.keyColumns = other.valueColumns = 72;
    EXPECT_FALSE(attention->takes(other));
    other = dropped;
    other.k[2] += 4;
    ASSERT_TRUE(attention->takes(other));
    std::shared_ptr<const AttentionPlan> plan;
    Status status = attention->prepare(other, plan);
    EXPECT_EQ(status.code(), Code::Unsupported);
    EXPECT_NE(status.message().find("multiples of 8 columns. TRAINRT"), std::string::npos)
        << status.message();
  }
}

// Two numbers of each row, and a bit for each weight.
TEST_F(WarpgroupChoice, Memory) {
  EXPECT_EQ(WarpgroupAttention::backwardBytes(call(1024)), 16u * 12 * 1024 * 8);
  auto attention = load();
  for (int64_t rows : {1, 64, 197, 1024, 65536}) {
    AttentionCall dropped = call(rows);
    dropped.dropout = 0.1f;
    const uint64_t blocks = uint64_t(rows + 63) / 64,
                   asked = WarpgroupAttention::backwardBytes(dropped);
    EXPECT_GE(asked, 16u * 12 * (uint64_t(rows) * 8 + blocks * blocks * 512));
    EXPECT_LE(asked, 16u * 12 * (uint64_t(rows) * 8 + blocks * blocks * 512) + 15);
    // Never more than what is planned with, which is for cuDNN.
    EXPECT_LE(asked, uint64_t(attentionWorkspaceLimit(sizesOf(dropped))));
    EXPECT_TRUE(attention->takes(dropped)) << rows;
  }
}

// Where both could, the environment says who does, and else what was measured: windows of 64 on
// either side.
TEST_F(WarpgroupChoice, Windows) {
  for (auto [after, wide] : {std::pair{63, false}, {64, true}})
    for (auto [value, first] : {std::pair{"1", true}, {"0", false}, {"", wide}}) {
      AttentionCall window = call(1024);
      window.causal = false;
      window.band = {64, after};
      setenv("TRAINRT_WARPGROUP_ATTENTION", value, 1);
      EXPECT_TRUE(load()->takes(window));
      EXPECT_EQ(WarpgroupAttention::isAskedFirst(window), first) << value;
    }
}

TEST_F(WarpgroupChoice, OnlyDevicesOfTheirArchitecture) {
  fake->sharedBytes = 160 << 10;
  EXPECT_FALSE(load()->takes(call(1024)));
  fake->sharedBytes = 227 << 10;
  for (auto [major, minor] : {std::pair{8, 0}, {9, 1}, {10, 0}}) {
    fake->major = major, fake->minor = minor;
    EXPECT_FALSE(load()->takes(call(1024)));
  }
}

} // namespace
