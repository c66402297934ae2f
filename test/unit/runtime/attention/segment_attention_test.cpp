// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels for attention over short segments.

#include "cuda/attention_problem.h"

using namespace trainrt::cuda;
using namespace trainrt::cuda::test;

namespace {

using SegmentAttention = AttentionKernels;

TEST_F(SegmentAttention, IsItsDefinition) {
  for (bool causal : {false, true}) {
    Case test;
    test.causal = causal;
    Problem<warp::BF16, 64>(test).compare();
    Problem<warp::F16, 64>(test).compare();
    test.columns = 40; // fewer than there is room for
    Problem<warp::BF16, 64>(test).compare();
    test.columns = 128, test.lengths = {33, 2, 17};
    Problem<warp::BF16, 128>(test).compare();
  }
}

TEST_F(SegmentAttention, LongSegments) {
  for (bool causal : {false, true}) {
    Case test;
    test.causal = causal, test.lengths = {150, 81}, test.heads = test.kvHeads = 1;
    Problem<warp::BF16, 64>(test).compare();
  }
}

TEST_F(SegmentAttention, Windows) {
  for (auto [before, after] : {std::pair{0, 0}, {1, 0}, {0, 3}, {15, 17}, {16, 1}, {40, 200}}) {
    Case test;
    test.before = before, test.after = after;
    test.heads = test.kvHeads = 1, test.lengths = {70, 1, 0, 33};
    SCOPED_TRACE(testing::Message() << before << " " << after);
    Problem<warp::BF16, 64>(test).compare();
  }
  Case test;
  test.causal = true, test.before = 19, test.heads = 4, test.lengths = {50, 16};
  Problem<warp::BF16, 64>(test).compare();
  test.causal = false;
  test.before = 20, test.after = 5, test.dropout = 0.2, test.lengths = {90, 30};
  Problem<warp::F16, 64>(test).compare();
  test.columns = 128, test.dropout = 0;
  Problem<warp::BF16, 128>(test).compare();
}

TEST_F(SegmentAttention, ManySegments) {
  Case test;
  test.heads = test.kvHeads = 1;
  for (size_t number : {33, 70, 140}) {
    std::mt19937 random(5);
    test.lengths.clear();
    for (size_t i = 0; i < number; ++i)
      test.lengths.push_back(int(random() % 40));
    Problem<warp::BF16, 64>(test).compare();
  }
}

TEST_F(SegmentAttention, GroupsOfHeads) {
  for (bool causal : {false, true}) {
    Case test;
    test.causal = causal, test.heads = 4, test.lengths = {7, 70, 0, 1};
    Problem<warp::BF16, 64>(test).compare();
    test.kvHeads = 1;
    Problem<warp::BF16, 64>(test).compare();
  }
}

TEST_F(SegmentAttention, Strides) {
  Case test;
  test.packed = true;
  Problem<warp::BF16, 64>(test).compare();
}

TEST_F(SegmentAttention, NumbersOfWarps) {
  Case test;
  for (unsigned threads : {256, 384}) {
    test.threads = threads;
    Problem<warp::BF16, 64>(test).compare();
  }
}

TEST_F(SegmentAttention, Dropout) {
  for (bool causal : {false, true}) {
    Case test;
    test.causal = causal, test.dropout = 0.1;
    Problem<warp::BF16, 64>(test).compare();
    test.kvHeads = 1, test.dropout = 0.5;
    Problem<warp::F16, 64>(test).compare();
  }
}

} // namespace
