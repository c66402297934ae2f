// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels for the gradient of attention with a window.

#include "cuda/attention_problem.h"

using namespace trainrt::cuda;
using namespace trainrt::cuda::test;

namespace {

using WindowedAttention = AttentionKernels;

Case samples(int number, int rows, int before, int after) {
  Case test;
  test.windows = test.samples = true;
  test.lengths.assign(size_t(number), rows), test.rest = 0;
  test.before = before, test.after = after, test.heads = test.kvHeads = 1;
  return test;
}

TEST_F(WindowedAttention, IsItsDefinition) {
  // Within a block of rows, over several, and more than there are.
  for (auto [rows, before, after] : {std::tuple{200, 30, 41},
                                     {150, 0, 0},
                                     {129, 64, 0},
                                     {70, 0, 3},
                                     {1, 5, 5},
                                     {100, 200, 300},
                                     {256, 70, 130}}) {
    SCOPED_TRACE(testing::Message() << rows << " rows, " << before << " and " << after);
    const Case test = samples(2, rows, before, after);
    Problem<warp::BF16, 64>(test).compare();
  }
}

TEST_F(WindowedAttention, CausalGroupsOfHeads) {
  Case test = samples(2, 75, 50, 100);
  test.causal = true, test.heads = 4, test.kvHeads = 2;
  Problem<warp::F16, 64>(test).compare();
  test.columns = 40, test.kvHeads = 1, test.packed = true, test.heads = 2;
  Problem<warp::BF16, 64>(test).compare();
}

TEST_F(WindowedAttention, ManyColumns) {
  Case test = samples(1, 135, 20, 35);
  test.columns = 128;
  Problem<warp::BF16, 128>(test).compare();
  test.columns = 96;
  Problem<warp::F16, 128>(test).compare();
}

TEST_F(WindowedAttention, Segments) {
  Case test = samples(1, 1, 40, 20);
  test.samples = false, test.rest = 37;
  test.lengths = {133, 1, 0, 64}, test.heads = 4, test.kvHeads = 2;
  Problem<warp::BF16, 64>(test).compare();
}

TEST_F(WindowedAttention, Dropout) {
  Case test = samples(2, 100, 30, 12);
  test.dropout = 0.2;
  Problem<warp::BF16, 64>(test).compare();
}

} // namespace
