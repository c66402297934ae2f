// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention by the runtime's kernels, run on the host by an emulation of a
// thread block, against the definition in f64.
#ifndef TRAINRT_TEST_CUDA_ATTENTION_PROBLEM_H
#define TRAINRT_TEST_CUDA_ATTENTION_PROBLEM_H

#include "cuda/warp_emulation.h"

#include "device/cuda/kernels/segment_attention.h"
#include "device/cuda/kernels/windowed_attention.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

namespace trainrt::cuda::test {

struct Case {
  std::vector<int> lengths = {37, 1, 0, 64, 5};
  int columns = 64, heads = 2, kvHeads = 2, rest = 5;
  bool causal = false, packed = false;
  double dropout = 0;
  unsigned threads = 128;
  int before = 1 << 20, after = 1 << 20;
  /// Gradients by the kernels for windows; `samples`: of samples of equal
  /// lengths, without offsets.
  bool windows = false, samples = false;

  /// The columns of a segment that row `i` of it sees.
  int first(int i) const { return std::max(0, i - before); }
  int end(int i, int length) const { return causal ? i + 1 : std::min(length, i + after + 1); }
  int used() const { return std::accumulate(lengths.begin(), lengths.end(), 0); }
  int rows() const { return used() + rest; }
  int longest() const { return *std::max_element(lengths.begin(), lengths.end()); }
  float scale() const { return float(1 / std::sqrt(double(columns))); }
};

inline constexpr float mark = 7;

/// [rows, heads, columns], in a row that may hold more. Behind the segments
/// NaNs.
template <typename T> struct Matrices {
  Matrices(const Case &test, int heads)
      : rows(test.rows()), heads(heads), columns(test.columns),
        row(heads * columns * (test.packed ? 3 : 1) + (test.packed ? 8 : 0)),
        data(size_t((rows + 16) * row), warp::detail::narrow(T(), mark)) {}
  size_t at(int t, int h, int c) const { return size_t(t * row + h * columns + c); }
  double operator()(int t, int h, int c) const {
    return warp::detail::widen(T(), data[at(t, h, c)]);
  }
  void set(int t, int h, int c, double x) {
    data[at(t, h, c)] = warp::detail::narrow(T(), float(x));
  }
  void fill(std::mt19937 &random, int used) {
    std::normal_distribution<double> normal;
    for (int t = 0; t < rows; ++t)
      for (int h = 0; h < heads; ++h)
        for (int c = 0; c < columns; ++c)
          set(t, h, c, t < used ? normal(random) : NAN);
  }
  HeadMatrices description() {
    return {uint64_t(data.data()), int64_t(row * 2), int64_t(columns * 2), 0};
  }

  int rows, heads, columns, row;
  std::vector<uint16_t> data;
};

template <typename T, int Columns> struct Problem {
  explicit Problem(const Case &test)
      : test(test), q(test, test.heads), k(test, test.kvHeads), v(test, test.kvHeads),
        o(test, test.heads), dO(test, test.heads), dQ(test, test.heads), dK(test, test.kvHeads),
        dV(test, test.kvHeads), stats(size_t(test.rows() * test.heads), NAN) {
    std::mt19937 random(3);
    for (auto *each : {&q, &k, &v, &dO})
      each->fill(random, test.used());
    offsets.push_back(0);
    for (int length : test.lengths)
      offsets.push_back(offsets.back() + length);
  }

  AttentionArguments arguments() {
    AttentionArguments args;
    args.q = q.description(), args.k = k.description(), args.v = v.description();
    args.o = o.description(), args.dO = dO.description(), args.dQ = dQ.description();
    args.dK = dK.description(), args.dV = dV.description();
    args.stats = uint64_t(stats.data()), args.offsets = uint64_t(offsets.data());
    args.seed = uint64_t(seed);
    args.segments = int(test.lengths.size()), args.rows = test.rows();
    args.longest = (test.longest() + 15) / 16 * 16;
    args.heads = test.heads, args.group = test.heads / test.kvHeads, args.columns = test.columns;
    args.clearing = 2;
    args.before = std::min(test.before, args.longest);
    args.after = test.causal ? 0 : std::min(test.after, args.longest);
    args.dropped = uint32_t(test.dropout * 65536 + 0.5);
    args.kept = float(1 / (1 - test.dropout)), args.scale = test.scale();
    return args;
  }
  virtual ~Problem() = default;
  void run(bool backward) {
    if (backward && test.windows)
      runWindows();
    else if (backward)
      runSegments(true);
    else
      runForward();
  }
  virtual void runForward() { runSegments(false); }
  void runSegments(bool backward) {
    const AttentionArguments args = arguments();
    const size_t matrix = size_t(args.longest) * Columns * 2;
    warp::Emulation emulation(test.threads,
                              backward ? 4 * matrix + size_t(args.longest) * 8 : 2 * matrix);
    for (int y = 0; y < args.segments + args.clearing; ++y)
      for (int x = 0; x < (backward ? test.kvHeads : test.heads); ++x)
        emulation.run(unsigned(x), unsigned(y), 0, [&] {
          if (backward)
            device::backward<T, Columns>(args);
          else
            device::forward<T, Columns>(args);
        });
  }
  /// With numbers of the rows, which the kernels for windows hand on, and
  /// statistics as cuDNN's forward lays them out.
  AttentionArguments windowArguments() {
    AttentionArguments args = arguments();
    args.statsRow = test.heads, args.statsHead = 1;
    args.clearing = (args.longest + windowRows - 1) / windowRows;
    byHead.clear();
    logs.assign(stats.size(), NAN), dots.assign(stats.size(), NAN);
    args.logs = uint64_t(logs.data()), args.dots = uint64_t(dots.data());
    if (!test.samples)
      return args;
    // The statistics lie [samples, heads, rows].
    args.offsets = 0, args.rows = test.lengths[0];
    args.statsRow = 1, args.statsHead = args.rows, args.statsSample = args.heads * args.rows;
    for (HeadMatrices *each :
         {&args.q, &args.k, &args.v, &args.o, &args.dO, &args.dQ, &args.dK, &args.dV})
      each->sample = args.rows * each->row;
    for (int g = 0; g < args.segments; ++g)
      for (int h = 0; h < args.heads; ++h)
        for (int i = 0; i < args.rows; ++i)
          byHead.push_back(stats[size_t((g * args.rows + i) * args.heads + h)]);
    args.stats = uint64_t(byHead.data());
    return args;
  }
  /// Of samples, from where a forward with such arguments has left them.
  void takeStatistics() {
    const int rows = test.lengths[0];
    for (size_t g = 0; g < test.lengths.size(); ++g)
      for (int h = 0; h < test.heads; ++h)
        for (int i = 0; i < rows; ++i)
          stats[(g * size_t(rows) + size_t(i)) * size_t(test.heads) + size_t(h)] =
              byHead[(g * size_t(test.heads) + size_t(h)) * size_t(rows) + size_t(i)];
  }
  virtual void runWindows() {
    const AttentionArguments args = windowArguments();
    for (bool keys : {false, true}) {
      warp::Emulation emulation(windowThreads, size_t(windowSharedBytes(Columns, keys)));
      for (int z = 0; z < args.segments + !test.samples; ++z)
        for (int y = 0; y < (keys ? test.kvHeads : test.heads); ++y)
          for (int x = 0; x < args.clearing; ++x)
            emulation.run(unsigned(x), unsigned(y), unsigned(z), [&] {
              if (keys)
                device::windowKeys<T, Columns>(args);
              else
                device::windowQueries<T, Columns>(args);
            });
    }
  }

  /// The mask of dropout by (head, row, column), read through values that are
  /// columns of the identity.
  std::vector<bool> mask() {
    std::vector<bool> keep(size_t(test.heads * test.rows() * test.rows()));
    const std::vector<uint16_t> values = v.data;
    for (int first = 0; first < test.longest(); first += test.columns) {
      for (size_t g = 0; g < test.lengths.size(); ++g)
        for (int i = 0; i < test.lengths[g]; ++i)
          for (int h = 0; h < test.kvHeads; ++h)
            for (int c = 0; c < test.columns; ++c)
              v.set(offsets[g] + i, h, c, i == first + c);
      run(false);
      for (size_t g = 0; g < test.lengths.size(); ++g)
        for (int i = 0; i < test.lengths[g]; ++i)
          for (int h = 0; h < test.heads; ++h)
            for (int c = 0; c < test.columns && first + c < test.lengths[g]; ++c)
              keep[size_t((h * test.rows() + offsets[g] + i) * test.rows() + offsets[g] + first +
                          c)] = o(offsets[g] + i, h, c) != 0;
    }
    v.data = values;
    return keep;
  }

  using Values = std::vector<double>;
  void check(const char *name, const Matrices<T> &found, const Values &expected, double limit) {
    double errors = 0, squares = 0;
    for (int t = 0; t < found.rows + 16; ++t)
      for (int x = 0; x < found.row; ++x) {
        const size_t at = size_t(t * found.row + x);
        const double value = warp::detail::widen(T(), found.data[at]);
        if (t >= found.rows || x >= found.heads * found.columns)
          ASSERT_EQ(value, mark) << name << ": written outside";
        else if (t >= test.used())
          ASSERT_EQ(value, 0) << name << ": not cleared, row " << t;
        else {
          errors += (value - expected[at]) * (value - expected[at]);
          squares += expected[at] * expected[at];
        }
      }
    const double unit = sizeof(T) && std::is_same_v<T, warp::BF16> ? 1.0 / 256 : 1.0 / 2048;
    // Scores of a single column have no gradient: what is left is of the order
    // of additions.
    const double scale = squares == 0 ? 0.01 : std::sqrt(squares);
    EXPECT_LE(std::sqrt(errors), limit * unit * scale) << name;
  }

  void compare() {
    std::vector<bool> keep;
    if (test.dropout > 0) {
      keep = mask();
      size_t kept = 0, all = 0;
      for (size_t g = 0; g < test.lengths.size(); ++g)
        for (int h = 0; h < test.heads; ++h)
          for (int i = 0; i < test.lengths[g]; ++i)
            for (int j = test.first(i); j < test.end(i, test.lengths[g]); ++j, ++all)
              kept +=
                  keep[size_t((h * test.rows() + offsets[g] + i) * test.rows() + offsets[g] + j)];
      const double share = 1 - test.dropout;
      EXPECT_NEAR(double(kept) / double(all), share,
                  5 * std::sqrt(share * test.dropout / double(all)));
    }
    run(false);
    run(true);
    Values eO(o.data.size()), eQ(dQ.data.size()), eK(dK.data.size()), eV(dV.data.size());
    const double scaling = test.scale(), kept = 1 / (1 - test.dropout);
    for (size_t g = 0; g < test.lengths.size(); ++g)
      for (int h = 0; h < test.heads; ++h)
        for (int i = offsets[g]; i < offsets[g + 1]; ++i) {
          const int hk = h / (test.heads / test.kvHeads),
                    begin = offsets[g] + test.first(i - offsets[g]),
                    end = offsets[g] + test.end(i - offsets[g], test.lengths[g]);
          Values p(size_t(test.rows())), dP(p.size());
          double sum = 0, dot = 0;
          for (int j = begin; j < end; ++j) {
            for (int c = 0; c < test.columns; ++c)
              p[size_t(j)] += q(i, h, c) * k(j, hk, c) * scaling;
            sum += p[size_t(j)] = std::exp(p[size_t(j)]);
          }
          EXPECT_NEAR(stats[size_t(i * test.heads + h)], std::log(sum), 1e-5);
          for (int j = begin; j < end; ++j) {
            const double weight = p[size_t(j)] /= sum;
            const double factor = keep.empty()                                            ? 1
                                  : keep[size_t((h * test.rows() + i) * test.rows() + j)] ? kept
                                                                                          : 0;
            for (int c = 0; c < test.columns; ++c) {
              eO[o.at(i, h, c)] += weight * factor * v(j, hk, c);
              eV[dV.at(j, hk, c)] += weight * factor * dO(i, h, c);
              dP[size_t(j)] += dO(i, h, c) * v(j, hk, c) * factor;
            }
            dot += weight * dP[size_t(j)];
          }
          for (int j = begin; j < end; ++j) {
            const double dS = p[size_t(j)] * (dP[size_t(j)] - dot) * scaling;
            for (int c = 0; c < test.columns; ++c) {
              eQ[dQ.at(i, h, c)] += dS * k(j, hk, c);
              eK[dK.at(j, hk, c)] += dS * q(i, h, c);
            }
          }
        }
    check("o", o, eO, 2);
    check("d_q", dQ, eQ, 4);
    check("d_k", dK, eK, 4);
    check("d_v", dV, eV, 4);
  }

  const Case &test;
  Matrices<T> q, k, v, o, dO, dQ, dK, dV;
  std::vector<float> stats, byHead, logs, dots;
  std::vector<int32_t> offsets;
  alignas(8) int64_t seed[2] = {11, 5};
};

class AttentionKernels : public testing::Test {
  void SetUp() override {
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    GTEST_SKIP() << "one thread with many stacks, which ThreadSanitizer takes for one";
#endif
#endif
  }
};

} // namespace trainrt::cuda::test

#endif // TRAINRT_TEST_CUDA_ATTENTION_PROBLEM_H
