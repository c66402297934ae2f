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
    AttentionArguments args = this->windowArguments();
    const size_t tiles = size_t(args.rows + groupRows - 1) / groupRows;
    mask.assign(drops ? size_t(args.segments * args.heads) * tiles * tiles * maskBlockBytes : 0,
                0xff);
    args.mask = uint64_t(mask.data());
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
  /// What the first kernel leaves for the second one.
  std::vector<unsigned char> mask;
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

// Whatever warps draw it, the mask is that of `Dropout`, which other kernels for attention have.
TEST_F(WarpgroupAttention, MaskIsThatOfOtherKernels) {
  for (double probability : {0.0, 0.1, 0.5, 0.9}) {
    AttentionArguments args;
    const uint64_t seed[2] = {0x123456789abcdef, 77};
    args.seed = uint64_t(seed), args.heads = 3;
    args.dropped = uint32_t(probability * 65536 + 0.5);
    warp::WarpgroupEmulation emulation(32, 0, 1);
    int wrong = 0;
    static_cast<warp::Emulation &>(emulation).run(0, 0, 0, [&] {
      const device::Dropout dropout(args, 2, 1);
      // Bytes of a lane's words by tile of queries, of which each has four tiles of keys.
      uint32_t words[4] = {};
      for (int keys = 0; keys < 4; ++keys) {
        uint32_t bytes[4];
        const device::KeptOfKeys ofKeys{
            warp::transposed(device::MaskDrawing(args, 2, 1).draw(bytes, 8, 4 + keys))};
        for (int queries = 0; queries < 4; ++queries) {
          words[queries] |= (bytes[queries] & 0xff) << 8 * keys;
          uint32_t numbers[4];
          dropout.draw(numbers, 8 + queries, 4 + keys);
          for (uint32_t &number : numbers)
            number = warp::transposed(number);
          for (int i = 0; i < 8; ++i)
            wrong +=
                ofKeys[queries * 8 + i] != dropout.keeps(numbers[i / 4 + i / 2 % 2 * 2], i % 2);
        }
      }
      for (int queries = 0; queries < 4; ++queries)
        for (int i = 0; i < 32; ++i) {
          uint32_t numbers[4];
          dropout.draw(numbers, 8 + queries, 4 + i / 8);
          wrong +=
              device::KeptOfQueries{words[queries]}[i] != dropout.keeps(numbers[i / 2 % 4], i % 2);
        }
    });
    EXPECT_EQ(wrong, 0) << probability;
  }
}

TEST_F(WarpgroupAttention, DropoutInWindows) {
  Case test = samples(1, 150, false);
  test.before = 70, test.after = 3, test.dropout = 0.3;
  using Shapes = WarpgroupShapes<64>;
  WarpgroupProblem<warp::F16, Shapes::Queries, Shapes::Keys, true>(test, 2).compare();
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

template <bool drops> void compareGrids() {
  Case test = samples(2, 150, true);
  test.heads = 2, test.dropout = drops ? 0.2 : 0;
  std::vector<std::vector<uint16_t>> bits;
  using Shapes = WarpgroupShapes<64>;
  for (unsigned blocks : {1, 3, 7}) {
    WarpgroupProblem<warp::BF16, Shapes::Queries, Shapes::Keys, drops> problem(test, blocks);
    problem.run(/*backward=*/false);
    problem.run(/*backward=*/true);
    for (auto *each : {&problem.o, &problem.dQ, &problem.dK, &problem.dV})
      bits.push_back(each->data);
  }
  for (size_t i = 4; i < bits.size(); ++i)
    EXPECT_EQ(bits[i], bits[i % 4]);
}

// However many thread blocks there are, the bits are the same.
TEST_F(WarpgroupAttention, GridsHaveTheSameBits) {
  compareGrids<false>();
  compareGrids<true>();
}

} // namespace
