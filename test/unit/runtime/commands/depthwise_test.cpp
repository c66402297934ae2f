// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels for convolutions with a filter for each channel, run on the host by an emulation of a
// thread block, against the definition in f64; which calls they do.

#include "cuda/warp_emulation.h"

#include "device/cuda/depthwise.h"
#include "device/cuda/kernels/depthwise.h"
#include "device/cuda/kernels/depthwise_f32.h"
#include "device/cuda/kernels/depthwise_total.h"

#include <gtest/gtest.h>

#include <random>

using namespace trainrt;
using namespace trainrt::cuda;

namespace {

using Kind = Convolution::Kind;

struct Case {
  int64_t images, channels, rows, columns, padRows, padColumns;
  int32_t partLines = 0; ///< rows of a block; 0: as it is
};

template <typename T> struct Element {
  using Stored = uint16_t;
  static constexpr DType dtype = std::is_same_v<T, warp::BF16> ? DType::BF16 : DType::F16;
  static constexpr double error = std::is_same_v<T, warp::BF16> ? 0x1p-8 : 0x1p-11;
  static Stored narrow(float x) { return warp::detail::narrow(T(), x); }
  static float widen(Stored x) { return warp::detail::widen(T(), x); }
};
template <> struct Element<device::F32> {
  using Stored = float;
  static constexpr DType dtype = DType::F32;
  static constexpr double error = 0x1p-22;
  static Stored narrow(float x) { return x; }
  static float widen(Stored x) { return x; }
};

template <typename T, int Taps> class Problem {
public:
  using Of = Element<T>;
  using Values = std::vector<typename Of::Stored>;

  explicit Problem(const Case &test) : partLines(test.partLines) {
    call.dtype = Of::dtype;
    call.batch = test.images;
    call.channels = call.filters = call.groups = test.channels;
    call.axes = 2;
    const int64_t positions[] = {test.rows, test.columns};
    const int64_t pads[] = {test.padRows, test.padColumns};
    for (int i = 0; i < 2; ++i) {
      call.positions[i] = positions[i], call.pads[i] = pads[i], call.taps[i] = Taps;
      call.windows[i] = positions[i] + 2 * pads[i] - Taps + 1;
      call.strides[i] = call.dilations[i] = 1;
    }
    input.resize(size_t(call.batch * call.positions[0] * call.positions[1] * call.channels));
    output.resize(size_t(call.batch * call.windows[0] * call.windows[1] * call.channels));
    filter.resize(size_t(call.channels * Taps * Taps));
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (Values *each : {&input, &output, &filter})
      for (auto &x : *each)
        x = Of::narrow(normal(random));
  }

  /// Runs what makes one of the three, and compares it.
  void check(Kind kind) {
    call.kind = kind;
    ASSERT_TRUE(Depthwise::fits(call));
    Values &result = kind == Kind::Forward ? output : kind == Kind::Data ? input : filter;
    std::vector<double> expected(result.size()), magnitudes(result.size());
    forEachProduct([&](size_t in, size_t tap, size_t out) {
      const double x = Of::widen(input[in]), w = Of::widen(filter[tap]), y = Of::widen(output[out]);
      const size_t at = kind == Kind::Forward ? out : kind == Kind::Data ? in : tap;
      const double product = kind == Kind::Forward ? x * w : kind == Kind::Data ? y * w : x * y;
      expected[at] += product;
      magnitudes[at] += std::abs(product);
    });
    std::fill(result.begin(), result.end(), Of::narrow(NAN));
    run();
    const Values first = result;
    for (size_t i = 0; i < result.size(); ++i)
      ASSERT_NEAR(Of::widen(result[i]), expected[i],
                  std::abs(expected[i]) * Of::error + magnitudes[i] * 0x1p-20)
          << "element " << i << " of kind " << int(kind) << ", " << Taps << " taps";
    run();
    EXPECT_EQ(std::memcmp(first.data(), result.data(), first.size() * sizeof first[0]), 0);
  }

  ConvolutionCall call;

private:
  template <typename Fn> void forEachProduct(const Fn &fn) const {
    auto at = [&](const int64_t (&sizes)[3], int64_t n, int64_t y, int64_t x, int64_t c) {
      return size_t(((n * sizes[0] + y) * sizes[1] + x) * call.channels + c);
    };
    for (int64_t n = 0; n < call.batch; ++n)
      for (int64_t y = 0; y < call.windows[0]; ++y)
        for (int64_t x = 0; x < call.windows[1]; ++x)
          for (int64_t i = 0; i < Taps; ++i)
            for (int64_t j = 0; j < Taps; ++j) {
              const int64_t row = y + i - call.pads[0], column = x + j - call.pads[1];
              if (row < 0 || row >= call.positions[0] || column < 0 || column >= call.positions[1])
                continue;
              for (int64_t c = 0; c < call.channels; ++c)
                fn(at(call.positions, n, row, column, c), size_t((c * Taps + i) * Taps + j),
                   at(call.windows, n, y, x, c));
            }
  }
  /// Small problems have a block for each row.
  void cut(DepthwiseArguments &args, DepthwiseGrid &grid) const {
    if (!partLines)
      return;
    args.partLines = partLines;
    grid.x = unsigned(args.lines + partLines - 1) / unsigned(partLines);
  }
  template <typename Body> static void launch(const DepthwiseGrid &grid, Body body) {
    warp::Emulation emulation(grid.threads, grid.shared);
    for (unsigned y = 0; y < grid.y; ++y)
      for (unsigned x = 0; x < grid.x; ++x)
        emulation.run(x, y, 0, body);
  }
  void run() {
    if (call.kind == Kind::Filter) {
      std::vector<float> parts(size_t(depthwiseSumsBytes(call)) / 4, NAN);
      auto [sums, grid] = depthwiseSumsLaunch(call);
      cut(sums, grid);
      sums.source = uint64_t(input.data()), sums.result = uint64_t(output.data());
      sums.filter = uint64_t(parts.data());
      launch(grid, [&, &sums = sums] {
        if constexpr (std::is_same_v<T, device::F32>)
          device::depthwiseSumsF32<Taps>(sums);
        else
          device::depthwiseSums<T, Taps>(sums);
      });
      auto [total, totalGrid] = depthwiseTotalLaunch(call);
      total.parts = int32_t(grid.x) * sums.columnBlocks;
      total.sums = sums.filter, total.filter = uint64_t(filter.data());
      launch(totalGrid, [&, &total = total] { device::depthwiseTotal<T>(total); });
      return;
    }
    auto [args, grid] = depthwiseLaunch(call);
    cut(args, grid);
    const bool backward = call.kind == Kind::Data;
    args.source = uint64_t(backward ? output.data() : input.data());
    args.result = uint64_t(backward ? input.data() : output.data());
    args.filter = uint64_t(filter.data());
    launch(grid, [&, &args = args] {
      if constexpr (std::is_same_v<T, device::F32>)
        backward ? device::depthwiseF32<Taps, true>(args) : device::depthwiseF32<Taps, false>(args);
      else
        backward ? device::depthwise<T, Taps, true>(args) : device::depthwise<T, Taps, false>(args);
    });
  }

  Values input, output, filter;
  int32_t partLines;
};

template <typename T, int Taps> void check(const Case &test) {
  for (Kind kind : {Kind::Forward, Kind::Data, Kind::Filter})
    Problem<T, Taps>(test).check(kind);
}

TEST(Depthwise, IsWhatItsDefinitionSays) {
  const Case same = {2, 12, 9, 5, 1, 1}, uneven = {1, 8, 13, 8, 2, 0, 6};
  check<warp::BF16, 3>(same);
  check<warp::F16, 3>(uneven);
  check<device::F32, 3>(same);
  check<warp::BF16, 5>({1, 4, 6, 11, 2, 2});
  check<device::F32, 5>({2, 8, 5, 7, 4, 3});
  check<warp::BF16, 7>({1, 8, 13, 9, 3, 3, 9});
  check<device::F32, 7>({2, 4, 7, 7, 3, 6, 5});
}

TEST(Depthwise, PartsOfManyImages) {
  // Parts end within an image and behind it; of the last images a block has fewer than of others.
  check<warp::BF16, 5>({5, 4, 4, 12, 2, 1, 7});
  check<device::F32, 3>({7, 4, 3, 17, 1, 1, 5});
  check<warp::F16, 7>({19, 4, 3, 3, 3, 4, 4});
}

TEST(Depthwise, ManyChannelsAndColumns) {
  check<warp::BF16, 3>({1, 36, 3, 133, 1, 1, 2});
  check<device::F32, 5>({1, 36, 2, 130, 3, 2, 4});
}

TEST(Depthwise, PartsAreFewRows) {
  // A block tells of so many in shared memory.
  ConvolutionCall call = Problem<warp::BF16, 7>({1, 8, 9, 9, 3, 3}).call;
  auto check = [&](int64_t batch, int64_t channels, int64_t rows) {
    call.batch = batch, call.channels = call.filters = call.groups = channels;
    call.positions[0] = call.windows[0] = rows;
    for (Kind kind : {Kind::Forward, Kind::Filter}) {
      call.kind = kind;
      const bool sums = kind == Kind::Filter;
      const auto [args, grid] = sums ? depthwiseSumsLaunch(call) : depthwiseLaunch(call);
      for (int64_t part = 0; part < std::min(grid.x, 5000u); ++part) {
        int64_t reads = 0, line = part * args.partLines;
        const int64_t end = std::min<int64_t>(line + args.partLines, args.lines);
        ASSERT_LT(line, end);
        for (int64_t count; line < end; line += count) {
          count = std::min(end - line, rows - line % rows);
          const DepthwiseReads some(args, 7, sums, int32_t(line % rows), int32_t(count));
          EXPECT_GE(some.end, count);
          reads += some.end - some.begin;
        }
        EXPECT_LE(reads, depthwiseSteps) << batch << " " << channels << " " << rows;
      }
      EXPECT_GE(int64_t(grid.x) * args.partLines, args.lines);
    }
  };
  for (int64_t rows : {1, 2, 7, 100, 5000})
    check(1 << 14, 8, rows);
  check(1, 8, 1000000);
  check(512, 4096, 224);
}

TEST(Depthwise, FitsSomeCalls) {
  auto with = [](auto change) {
    ConvolutionCall call = Problem<device::F32, 3>({1, 8, 5, 5, 1, 1}).call;
    change(call);
    return Depthwise::fits(call);
  };
  EXPECT_TRUE(with([](ConvolutionCall &) {}));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.groups = 4; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.filters = 16; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.channels = c.filters = c.groups = 6; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.axes = 3; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.taps[1] = 5; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.taps[0] = c.taps[1] = 4; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.strides[1] = 2; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.dilations[0] = 2; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.pads[0] = 3; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.batch = int64_t(1) << 31; }));
  EXPECT_FALSE(with([](ConvolutionCall &c) { c.positions[1] = int64_t(1) << 25; }));
}

} // namespace
