// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which attentions over segments the runtime's own kernels take, and which are cuDNN's.

#include "cuda_fixture.h"
#include "device/cuda/attention/segment_attention.h"

using namespace trainrt::cuda;

namespace {

class SegmentChoice : public CudaTest {
protected:
  /// 64 segments of up to `longest` rows, of which `rows` are used.
  static AttentionCall call(int64_t longest, int64_t rows, int64_t columns = 64) {
    AttentionCall call;
    call.batch = 1, call.heads = call.kvHeads = 16;
    call.queryRows = call.keyRows = rows;
    call.keyColumns = call.valueColumns = columns;
    call.segments = 64, call.longest = longest;
    for (auto *strides : {&call.q, &call.k, &call.v, &call.o})
      (*strides)[1] = columns, (*strides)[2] = 16 * columns;
    return call;
  }
  std::unique_ptr<SegmentAttention> load() {
    std::unique_ptr<SegmentAttention> attention;
    Status status = SegmentAttention::load(attention);
    EXPECT_TRUE(status.ok()) << status.message();
    return attention;
  }
};

TEST_F(SegmentChoice, ShortOnesAndThoseThatAreNotFull) {
  auto attention = load();
  EXPECT_TRUE(attention->takes(call(1, 64)));
  EXPECT_TRUE(attention->takes(call(128, 64 * 128)));
  EXPECT_TRUE(attention->takes(call(192, 64 * 192)));
  EXPECT_TRUE(attention->takes(call(256, 64 * 128)));
  EXPECT_FALSE(attention->takes(call(256, 64 * 256)));
  EXPECT_FALSE(attention->takes(call(257, 64 * 64)));
  EXPECT_TRUE(attention->takes(call(64, 64 * 64, 128)));
  EXPECT_TRUE(attention->takes(call(128, 64 * 64, 128)));
  EXPECT_FALSE(attention->takes(call(128, 64 * 128, 128)));
}

TEST_F(SegmentChoice, AsFarAsSharedMemoryGoes) {
  EXPECT_FALSE(load()->takes(call(256, 64 * 64, 128)));
  fake->sharedBytes = 99 << 10;
  EXPECT_TRUE(load()->takes(call(192, 64 * 192)));
  EXPECT_FALSE(load()->takes(call(193, 64 * 64)));
  fake->major = 7; // no such instructions
  EXPECT_FALSE(load()->takes(call(16, 64 * 16)));
}

TEST_F(SegmentChoice, WhatTheKernelsCompute) {
  auto attention = load();
  const AttentionCall taken = call(64, 64 * 64);
  ASSERT_TRUE(attention->takes(taken));
  auto refuses = [&](auto change) {
    AttentionCall other = taken;
    change(other);
    return !attention->takes(other);
  };
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.segments = 0; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.dtype = DType::F32; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.hasBias = true; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.valueColumns = 32; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 36; }));
  EXPECT_TRUE(refuses([](AttentionCall &c) { c.keyColumns = c.valueColumns = 136; }));
  // A backward like its forward: they have one mask of dropout.
  EXPECT_FALSE(refuses([](AttentionCall &c) { c.backward = true, c.dropout = 0.1f; }));
}

TEST_F(SegmentChoice, RowsThatBeginAnywhereAreAnError) {
  auto attention = load();
  AttentionCall odd = call(64, 64 * 64);
  odd.k[2] += 4;
  std::shared_ptr<const AttentionPlan> plan;
  Status status = attention->prepare(odd, plan);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("multiples of 8 columns"), std::string::npos) << status.message();
}

} // namespace
