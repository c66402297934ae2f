// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Convolutions on the CPU and their gradients against their definition in f64: strides, pads,
// dilation, groups, one to three axes, positions that no window reaches. The same bits from each
// instruction set and from several threads; memory as it is told ahead.
#include "device/cpu/convolution.h"
#include "device/cpu/gemm.h"
#include "device/cpu/gemm_kernels.h"
#include "device/thread_pool.h"
#include "format/memory/winograd_work.h"
#include "format/memory/working_memory.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

using namespace trainrt;

namespace {

using Kind = Convolution::Kind;

struct Axis {
  int64_t positions, taps, stride = 1, dilation = 1, pad = 0;
  int64_t windows() const { return (positions + 2 * pad - (taps - 1) * dilation - 1) / stride + 1; }
};

struct Case {
  const char *name;
  int64_t batch, channels, filters, groups;
  std::vector<Axis> axes;
};

const Case cases[] = {
    {"3x3", 2, 16, 32, 1, {{14, 3, 1, 1, 1}, {14, 3, 1, 1, 1}}},
    {"3x3, odd sizes", 3, 5, 7, 1, {{9, 3, 1, 1, 1}, {11, 3, 1, 1, 1}}},
    {"3x3, stride 2", 2, 16, 24, 1, {{15, 3, 2, 1, 1}, {14, 3, 2, 1, 1}}},
    {"7x7 of an image, stride 2", 2, 3, 40, 1, {{33, 7, 2, 1, 3}, {32, 7, 2, 1, 3}}},
    {"1x1, stride 2", 2, 32, 16, 1, {{14, 1, 2}, {15, 1, 2}}},
    {"1x1, stride 3, a pad", 2, 8, 8, 1, {{10, 1, 3, 1, 1}, {10, 1, 3, 1, 1}}},
    {"no pads, a rest", 2, 8, 8, 1, {{12, 4, 3}, {13, 4, 3}}},
    {"in place, runs of taps", 1, 24, 33, 1, {{9, 3}, {40, 3}}},
    {"pads of one axis", 2, 8, 8, 1, {{12, 5, 1, 1, 2}, {10, 1}}},
    {"dilated", 2, 8, 16, 1, {{16, 3, 1, 2, 2}, {16, 3, 1, 3, 3}}},
    {"dilated, stride 2", 2, 8, 16, 1, {{17, 3, 2, 2, 2}, {17, 3, 2, 2, 2}}},
    {"groups", 2, 16, 32, 4, {{10, 3, 1, 1, 1}, {10, 3, 1, 1, 1}}},
    {"groups in place", 2, 16, 8, 2, {{10, 3}, {10, 3}}},
    {"groups, stride 2, odd", 2, 6, 9, 3, {{11, 3, 2, 1, 1}, {9, 3, 2, 1, 1}}},
    {"two filters a channel", 2, 8, 16, 8, {{9, 3, 1, 1, 1}, {9, 3, 1, 1, 1}}},
    {"a filter a channel", 2, 40, 40, 40, {{9, 3, 1, 1, 1}, {13, 3, 1, 1, 1}}},
    {"a filter a channel, stride 2", 2, 35, 35, 35, {{9, 3, 2, 1, 1}, {12, 3, 2, 1, 1}}},
    {"a filter a channel, 7x7", 1, 64, 64, 64, {{8, 7, 1, 1, 3}, {5, 7, 1, 1, 3}}},
    {"a filter a channel, dilated, one axis", 2, 16, 16, 16, {{31, 4, 1, 3, 4}}},
    {"a filter a channel, a tap beyond", 2, 16, 16, 16, {{9, 2, 1, 1, 2}, {3, 5, 3, 1, 4}}},
    {"a filter a channel, parts of samples, 9 taps",
     18,
     70,
     70,
     70,
     {{3, 3, 1, 1, 1}, {4, 9, 1, 1, 4}}},
    {"one axis", 3, 12, 20, 1, {{50, 5, 1, 1, 2}}},
    {"one long axis", 1, 8, 8, 1, {{40000, 3, 1, 1, 1}}},
    {"one axis, stride 2, dilated", 2, 16, 16, 1, {{41, 3, 2, 4, 4}}},
    {"three axes", 2, 8, 16, 1, {{6, 3, 1, 1, 1}, {8, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},
    {"three axes, stride 2", 2, 4, 8, 1, {{7, 3, 2, 1, 1}, {8, 3, 2, 1, 1}, {9, 3, 2, 1, 1}}},
    {"one position", 4, 16, 16, 1, {{1, 3, 1, 1, 1}, {1, 3, 1, 1, 1}}},
    {"one filter", 2, 8, 1, 1, {{12, 3, 1, 1, 1}, {12, 3, 1, 1, 1}}},
    {"many channels", 3, 512, 70, 1, {{7, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},
    {"by tiles", 2, 32, 64, 1, {{28, 3, 1, 1, 1}, {28, 3, 1, 1, 1}}},
    {"by tiles, odd sizes", 3, 40, 70, 1, {{15, 3, 1, 1, 0}, {17, 3, 1, 1, 2}}},
    {"by tiles, many channels", 2, 300, 33, 1, {{14, 3, 1, 1, 1}, {14, 3, 1, 1, 1}}},
    {"a filter's gradient by tiles", 9, 32, 35, 1, {{7, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},
    {"rows of some blocks", 1, 128, 16, 1, {{40, 3, 1, 1, 1}, {40, 3, 1, 1, 1}}},
};

ConvolutionSizes sizesOf(const Case &test, Kind kind) {
  ConvolutionSizes sizes;
  sizes.kind = kind;
  sizes.batch = test.batch, sizes.channels = test.channels;
  sizes.filters = test.filters, sizes.groups = test.groups;
  for (size_t i = 0; i < test.axes.size(); ++i) {
    const Axis &axis = test.axes[i];
    sizes.axes[3 - test.axes.size() + i] = {axis.positions, axis.taps,     axis.windows(),
                                            axis.stride,    axis.dilation, axis.pad};
  }
  return sizes;
}

/// Calls `fn` with the places of each product's three elements.
template <typename Fn> void forEachProduct(const ConvolutionSizes &s, Fn fn) {
  const auto &[d, h, w] = s.axes;
  const int64_t channels = s.groupChannels(), filters = s.groupFilters();
  auto at = [](const ConvolutionSizes::Axis &axis, int64_t window, int64_t tap) {
    const int64_t i = window * axis.stride + tap * axis.dilation - axis.pad;
    return i < axis.positions ? i : -1;
  };
  int64_t output = 0;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t od = 0; od < d.windows; ++od)
      for (int64_t oh = 0; oh < h.windows; ++oh)
        for (int64_t ow = 0; ow < w.windows; ++ow)
          for (int64_t k = 0; k < s.filters; ++k, ++output) {
            int64_t filter = k * s.taps() * channels;
            for (int64_t td = 0; td < d.taps; ++td)
              for (int64_t th = 0; th < h.taps; ++th)
                for (int64_t tw = 0; tw < w.taps; ++tw, filter += channels) {
                  const int64_t id = at(d, od, td), ih = at(h, oh, th), iw = at(w, ow, tw);
                  if (id < 0 || ih < 0 || iw < 0)
                    continue;
                  const int64_t input =
                      (((n * d.positions + id) * h.positions + ih) * w.positions + iw) *
                          s.channels +
                      k / filters * channels;
                  for (int64_t c = 0; c < channels; ++c)
                    fn(size_t(input + c), size_t(filter + c), size_t(output));
                }
          }
}

struct Operands {
  std::vector<float> values[3]; ///< input, filter, output

  explicit Operands(const ConvolutionSizes &s) {
    int64_t positions = 1, windows = 1;
    for (const auto &axis : s.axes)
      positions *= axis.positions, windows *= axis.windows;
    values[0].resize(size_t(s.batch * positions * s.channels));
    values[1].resize(size_t(s.filters * s.taps() * s.groupChannels()));
    values[2].resize(size_t(s.batch * windows * s.filters));
    std::mt19937 random(7);
    std::normal_distribution<float> normal;
    for (std::vector<float> &all : values)
      for (float &value : all)
        value = normal(random);
  }
  /// All of the result is written.
  void run(const ConvolutionSizes &sizes, size_t result, ThreadPool &pool,
           const GemmKernels &kernels) {
    std::fill(values[result].begin(), values[result].end(), NAN);
    convolutionF32(sizes, values[0].data(), values[1].data(), values[2].data(), pool, kernels);
  }
};

std::vector<const GemmKernels *> allKernels() {
  std::vector<const GemmKernels *> kernels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    kernels.push_back(gemmKernelsAvx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    kernels.push_back(gemmKernelsAvx512());
  return kernels;
}

class CpuConvolution : public testing::TestWithParam<Case> {};

} // namespace

TEST_P(CpuConvolution, IsItsDefinition) {
  ASSERT_FALSE(allKernels().empty());
  for (Kind kind : {Kind::Forward, Kind::Data, Kind::Filter}) {
    SCOPED_TRACE(int(kind));
    const ConvolutionSizes sizes = sizesOf(GetParam(), kind);
    const size_t result = kind == Kind::Forward ? 2 : kind == Kind::Data ? 0 : 1;
    Operands operands(sizes);
    std::vector<double> expected(operands.values[result].size()), bounds(expected.size()),
        terms(expected.size());
    forEachProduct(sizes, [&](size_t input, size_t filter, size_t output) {
      const size_t at[] = {input, filter, output};
      double product = 1;
      for (size_t i = 0; i < 3; ++i)
        product *= i == result ? 1.0 : double(operands.values[i][at[i]]);
      expected[at[result]] += product;
      bounds[at[result]] += std::fabs(product);
      ++terms[at[result]];
    });
    std::vector<float> first;
    for (const GemmKernels *kernels : allKernels())
      for (unsigned threads : {1, 3}) {
        SCOPED_TRACE(testing::Message() << kernels->name << ", " << threads << " threads");
        ThreadPool pool(threads);
        operands.run(sizes, result, pool, *kernels);
        const std::vector<float> &found = operands.values[result];
        if (first.empty()) {
          first = found;
          for (size_t i = 0; i < found.size(); ++i)
            // A chain of n roundings, each of at most half a unit of what has been summed up.
            ASSERT_LE(std::fabs(found[i] - expected[i]),
                      (std::min(terms[i], 256.0) + terms[i] / 192 + 2) * 0x1p-24 * bounds[i])
                << i;
        }
        ASSERT_EQ(0, std::memcmp(first.data(), found.data(), found.size() * sizeof(float)));
        const GemmTile tile = {kernels->lanes, kernels->rows, kernels->vectors};
        WorkingMemory told(tile, threads);
        told.addConvolution(sizes);
        EXPECT_GE(told.bytes(), int64_t(pool.scratchBytes()));
        if (threads == 1) {
          EXPECT_EQ(told.bytes(), int64_t(pool.scratchBytes()));
        }
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, CpuConvolution, testing::ValuesIn(cases),
                         [](const auto &info) { return "Case" + std::to_string(info.index); });

/// The samples of a batch do not know of each other, with tiles or without.
TEST(CpuConvolutionOfSamples, AreThoseOfABatch) {
  for (int64_t side : {7, 14})
    for (Kind kind : {Kind::Forward, Kind::Data}) {
      const Case test = {"", 5, 64, 32, 1, {{side, 3, 1, 1, 1}, {side, 3, 1, 1, 1}}};
      ConvolutionSizes sizes = sizesOf(test, kind);
      EXPECT_EQ(WinogradTiles::areUsed(sizes), side == 14);
      const size_t from = kind == Kind::Forward ? 0 : 2, to = 2 - from;
      Operands all(sizes), one(sizes);
      ThreadPool pool(2);
      all.run(sizes, to, pool, *allKernels().back());
      const size_t read = all.values[from].size() / 5, written = all.values[to].size() / 5;
      one.values[from].assign(all.values[from].begin() + int64_t(3 * read),
                              all.values[from].begin() + int64_t(4 * read));
      sizes.batch = 1;
      one.run(sizes, to, pool, *allKernels().back());
      EXPECT_EQ(0, std::memcmp(one.values[to].data(), all.values[to].data() + 3 * written,
                               written * sizeof(float)));
    }
}
