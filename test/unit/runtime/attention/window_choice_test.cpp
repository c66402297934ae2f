// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which gradients of attention with a window the runtime's own kernels for windows take. Those for
// warpgroups would take the rest: they are switched off.

#include "cuda_fixture.h"
#include "device/cuda/attention/own_attention.h"

#include <cstdlib>

using namespace trainrt::cuda;

namespace {

class WindowChoice : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    setenv("TRAINRT_WARPGROUP_ATTENTION", "0", 1);
  }
  void TearDown() override {
    unsetenv("TRAINRT_WARPGROUP_ATTENTION");
    CudaTest::TearDown();
  }
  static AttentionCall call(int64_t rows, int64_t before, int64_t after, int64_t columns = 64) {
    AttentionCall call;
    call.backward = true;
    call.batch = 16, call.heads = call.kvHeads = 12;
    call.queryRows = call.keyRows = rows;
    call.keyColumns = call.valueColumns = columns;
    call.band = {before, after};
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

TEST_F(WindowChoice, NarrowOnes) {
  auto attention = load();
  EXPECT_TRUE(attention->takes(call(1024, 64, 64)));
  EXPECT_TRUE(attention->takes(call(384, 64, 64)));
  EXPECT_FALSE(attention->takes(call(383, 64, 64)));
  EXPECT_TRUE(attention->takes(call(1024, 0, 0, 128)));
  EXPECT_FALSE(attention->takes(call(1024, AttentionBand::all, 0)));
  // What is after a row is hidden.
  AttentionCall causal = call(512, 100, AttentionBand::all);
  EXPECT_FALSE(attention->takes(causal));
  causal.causal = true;
  EXPECT_TRUE(attention->takes(causal));
}

TEST_F(WindowChoice, Segments) {
  auto attention = load();
  AttentionCall packed = call(16 * 500, 64, 64);
  packed.batch = 1, packed.segments = 16, packed.longest = 1024;
  EXPECT_TRUE(attention->takes(packed));
  packed.longest = 380;
  EXPECT_FALSE(attention->takes(packed));
  // Short ones have kernels that compute forward, too.
  packed.longest = 128;
  EXPECT_TRUE(attention->takes(packed));
  packed.backward = false;
  EXPECT_TRUE(attention->takes(packed));
  packed.longest = 1024;
  EXPECT_FALSE(attention->takes(packed));
}

TEST_F(WindowChoice, WhatTheKernelsCompute) {
  auto attention = load();
  auto refuses = [&](auto change) {
    AttentionCall other = call(1024, 64, 64);
    change(other);
    return !attention->takes(other);
  };
  EXPECT_FALSE(refuses([](AttentionCall &) {}));
  // The forward is cuDNN's, and so is its mask of dropout.
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.backward = false; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.dropout = 0.1f; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.dtype = DType::F32; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.hasBias = true; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 256; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyRows = 2048; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.batch = 65536; }));
  // Rows that begin anywhere are for cuDNN.
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.k[2] += 4; }));
  fake->sharedBytes = 48 << 10;
  attention = load();
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 128; }));
  fake->major = 7; // no such instructions
  attention = load();
  EXPECT_TRUE(refuses([](AttentionCall &) {}));
}

} // namespace
