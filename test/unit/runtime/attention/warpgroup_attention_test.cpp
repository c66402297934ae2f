// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels for attention with dropout by warpgroups, and for its gradient.

#include "cuda/warpgroup_emulation.h"

#include "cuda/attention_problem.h"
#include "device/cuda/kernels/warpgroup_attention.h"
#include "device/cuda/kernels/warpgroup_forward.h"

using namespace trainrt::cuda;
using namespace trainrt::cuda::test;

namespace {

using WarpgroupAttention = AttentionKernels;

/// Gradients by kernels of these shapes, of a grid of `blocks`.
template <typename T, typename Queries, typename Keys, bool drops = false>
struct WarpgroupProblem : Problem<T, Queries::columns> {
  WarpgroupProblem(const Case &test, unsigned blocks)
      : Problem<T, Queries::columns>(test), blocks(blocks) {}
  void runWindows() override {
    const AttentionArguments args = this->windowArguments();
    launch<Queries>([&] { device::warpgroupQueries<T, Queries, drops>(args); });
    launch<Keys>([&] { device::warpgroupKeys<T, Keys, drops>(args); });
  }
  /// The forward of attention without dropout is another one's.
  void runForward() override {
    if constexpr (drops) {
      using Shape = typename WarpgroupShapes<Queries::columns>::Forward;
      const AttentionArguments args = this->windowArguments();
      launch<Shape>([&] { device::warpgroupForward<T, Shape, drops>(args); });
      this->takeStatistics();
    } else {
      Problem<T, Queries::columns>::runForward();
    }
  }
  template <typename Shape> void launch(const std::function<void()> &kernel) {
    warp::WarpgroupEmulation emulation(Shape::threads, Shape::sharedBytes, blocks);
    for (unsigned x = 0; x < blocks; ++x)
      static_cast<warp::Emulation &>(emulation).run(x, 0, 0, kernel);
  }
  const unsigned blocks;
};

Case samples(int number, int rows, bool causal) {
  Case test;
  test.windows = test.samples = true;
  test.lengths.assign(size_t(number), rows), test.rest = 0;
  test.causal = causal, test.heads = test.kvHeads = 1;
  return test;
}

/// The shapes that are launched.
template <typename T, int columns>
using Launched = WarpgroupProblem<T, typename WarpgroupShapes<columns>::Queries,
                                  typename WarpgroupShapes<columns>::Keys>;

TEST_F(WarpgroupAttention, IsItsDefinition) {
  for (bool causal : {false, true})
    for (int rows : {1, 64, 130, 300}) {
      SCOPED_TRACE(testing::Message() << rows << " rows" << (causal ? ", causal" : ""));
      Launched<warp::BF16, 64>(samples(2, rows, causal), 2).compare();
    }
}

TEST_F(WarpgroupAttention, GroupsOfHeads) {
  Case test = samples(2, 200, true);
  test.heads = 4, test.kvHeads = 2;
  Launched<warp::F16, 64>(test, 3).compare();
  test.columns = 40, test.kvHeads = 1, test.packed = true, test.heads = 2;
  Launched<warp::BF16, 64>(test, 1).compare();
}

TEST_F(WarpgroupAttention, ManyColumns) {
  Case test = samples(1, 270, true);
  test.columns = 128;
  Launched<warp::BF16, 128>(test, 2).compare();
  test.columns = 96, test.heads = 2;
  Launched<warp::F16, 128>(test, 1).compare();
}

TEST_F(WarpgroupAttention, Dropout) {
  using Shapes = WarpgroupShapes<64>;
  for (bool causal : {true, false}) {
    Case test = samples(2, causal ? 210 : 75, causal);
    test.dropout = 0.1, test.heads = 2, test.kvHeads = causal ? 2 : 1;
    WarpgroupProblem<warp::BF16, Shapes::Queries, Shapes::Keys, true>(test, 3).compare();
  }
}

TEST_F(WarpgroupAttention, Windows) {
  for (auto [before, after] : {std::pair{100, 70}, {0, 3}, {64, 0}}) {
    SCOPED_TRACE(testing::Message() << before << " and " << after);
    Case test = samples(1, 333, false);
    test.before = before, test.after = after;
    Launched<warp::BF16, 64>(test, 2).compare();
  }
}

// How a block is cut up is a matter of time, not of numbers.
TEST_F(WarpgroupAttention, OtherShapes) {
  const Case test = samples(1, 260, true);
  WarpgroupProblem<warp::BF16, WarpgroupShape<64, 2, 128, 2, 1, true>,
                   WarpgroupShape<64, 3, 64, 3, 1, false>>(test, 2)
      .compare();
  WarpgroupProblem<warp::BF16, WarpgroupShape<64, 2, 64, 4, 2, true>,
                   WarpgroupShape<64, 2, 64, 2, 1, false>>(test, 1)
      .compare();
}

// However many thread blocks there are, the bits are the same.
TEST_F(WarpgroupAttention, GridsHaveTheSameBits) {
  Case test = samples(2, 150, true);
  test.heads = 2;
  std::vector<std::vector<uint16_t>> bits;
  for (unsigned blocks : {1, 3, 7}) {
    Launched<warp::BF16, 64> problem(test, blocks);
    problem.compare();
    for (auto *each : {&problem.dQ, &problem.dK, &problem.dV})
      bits.push_back(each->data);
  }
  for (size_t i = 3; i < bits.size(); ++i)
    EXPECT_EQ(bits[i], bits[i % 3]);
}

} // namespace
