// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gemmF32 against a plain double-precision product over random shapes, strides and batches, for
// every instruction set this machine has; and its promises about bits: not of threads, strides or
// kernels.
#include "device/cpu/gemm.h"
#include "device/cpu/gemm_kernels.h"
#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

using namespace trainrt;

namespace {

std::vector<const GemmKernels *> kernelSets() {
  std::vector<const GemmKernels *> sets;
  if (auto *neon = gemmKernelsNeon())
    sets.push_back(neon);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    sets.push_back(gemmKernelsAvx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"))
    sets.push_back(gemmKernelsAvx512());
#endif
  return sets;
}

/// A problem that owns its memory.
struct Case {
  int64_t m, n, k;
  bool transposeA = false, transposeB = false, transposeC = false;
  int64_t gap = 1;                       ///< elements from one to the next along the fastest axis
  std::vector<int64_t> batch{};          ///< extents
  bool sharedA = false, sharedB = false; ///< batch strides of 0
  float alpha = 1, beta = 0;

  std::vector<float> a{}, b{}, c{};
  std::vector<int64_t> aBatch{}, bBatch{}, cBatch{};
  GemmArgs args{};

  void fill(std::mt19937 &random) {
    std::normal_distribution<float> normal;
    int64_t count = 1;
    for (size_t i = batch.size(); i-- > 0;) {
      aBatch.insert(aBatch.begin(), sharedA ? 0 : count * m * k * gap);
      bBatch.insert(bBatch.begin(), sharedB ? 0 : count * n * k * gap);
      cBatch.insert(cBatch.begin(), count * m * n * gap);
      count *= batch[i];
    }
    a.resize(size_t(count * m * k * gap));
    b.resize(size_t(count * n * k * gap));
    c.resize(size_t(count * m * n * gap));
    for (float &value : a)
      value = normal(random);
    for (float &value : b)
      value = normal(random);
    for (float &value : c)
      value = beta == 0 ? std::numeric_limits<float>::quiet_NaN() : normal(random);
    args = {a.data(),
            b.data(),
            c.data(),
            m,
            n,
            k,
            (transposeA ? 1 : k) * gap,
            (transposeA ? m : 1) * gap,
            (transposeB ? 1 : n) * gap,
            (transposeB ? k : 1) * gap,
            (transposeC ? 1 : n) * gap,
            (transposeC ? m : 1) * gap,
            int(batch.size()),
            batch.data(),
            aBatch.data(),
            bBatch.data(),
            cBatch.data(),
            alpha,
            beta};
  }

  int64_t matrices() const {
    int64_t count = 1;
    for (int64_t extent : batch)
      count *= extent;
    return count;
  }

  /// Runs it and returns the largest error relative to the sum of the terms' magnitudes.
  double error(ThreadPool &pool, const GemmKernels &kernels) {
    std::vector<float> before = c;
    gemm(args, pool, kernels);
    double worst = 0;
    for (int64_t matrix = 0; matrix < matrices(); ++matrix) {
      int64_t aAt = sharedA ? 0 : matrix * m * k * gap, bAt = sharedB ? 0 : matrix * n * k * gap;
      int64_t cAt = matrix * m * n * gap;
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          double sum = 0, magnitude = 0;
          for (int64_t p = 0; p < k; ++p) {
            double term = double(a[size_t(aAt + i * args.a_m + p * args.a_k)]) *
                          double(b[size_t(bAt + p * args.b_k + j * args.b_n)]);
            sum += term;
            magnitude += std::fabs(term);
          }
          size_t at = size_t(cAt + i * args.c_m + j * args.c_n);
          sum *= alpha;
          if (beta != 0) {
            sum += double(beta) * double(before[at]);
            magnitude += std::fabs(double(before[at]));
          }
          double error = std::fabs(double(c[at]) - sum) / (magnitude + 1e-30);
          if (!(error <= worst))
            worst = error;
        }
    }
    return worst;
  }

  std::string text() const {
    return std::to_string(matrices()) + " x " + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k) + (transposeA ? " At" : "") + (transposeB ? " Bt" : "") +
           (transposeC ? " Ct" : "") + " gap " + std::to_string(gap) + " beta " +
           std::to_string(beta);
  }
};

constexpr double tolerance = 3e-6;

TEST(Gemm, RandomShapesAndStrides) {
  ThreadPool pool(3);
  std::mt19937 random(1);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (const GemmKernels *kernels : kernelSets())
    for (int round = 0; round < 300; ++round) {
      Case test{1 + below(round % 5 ? 70 : 400), 1 + below(round % 7 ? 70 : 1200),
                1 + below(round % 3 ? 50 : 1300)};
      test.transposeA = below(2);
      test.transposeB = below(2);
      test.transposeC = below(4) == 0;
      test.gap = below(3) == 0 ? 2 : 1;
      if (test.m * test.n * test.k < 1 << 18)
        for (int64_t rank = below(4); rank > 0; --rank)
          test.batch.push_back(1 + below(4));
      test.sharedA = below(5) == 0;
      test.sharedB = below(4) == 0;
      test.alpha = below(2) ? 1.0f : 0.7f;
      test.beta = float(below(3)) * 0.5f;
      test.fill(random);
      ASSERT_LT(test.error(pool, *kernels), tolerance) << kernels->name << ": " << test.text();
    }
}

TEST(Gemm, TinyExtents) {
  ThreadPool pool(2);
  std::mt19937 random(2);
  for (const GemmKernels *kernels : kernelSets())
    for (int64_t m : {1, 2, 3, 17})
      for (int64_t n : {1, 2, 3, 17, 33})
        for (int64_t k : {1, 2, 3, 15, 17})
          for (int way = 0; way < 8; ++way) {
            Case test{m, n, k, bool(way & 1), bool(way & 2), bool(way & 4)};
            test.fill(random);
            ASSERT_LT(test.error(pool, *kernels), tolerance)
                << kernels->name << ": " << test.text();
          }
}

TEST(Gemm, EmptySumScalesC) {
  ThreadPool pool(2);
  std::vector<float> c = {1, 2, 3, 4, 5, 6};
  GemmArgs args{nullptr, nullptr, c.data(), 2,       3,       0,       0,       1, 3,   1,
                3,       1,       0,        nullptr, nullptr, nullptr, nullptr, 1, 0.5f};
  gemmF32(args, pool);
  EXPECT_EQ(c, (std::vector<float>{0.5f, 1, 1.5f, 2, 2.5f, 3}));
  c[1] = std::numeric_limits<float>::quiet_NaN();
  args.beta = 0;
  gemmF32(args, pool);
  EXPECT_EQ(c, std::vector<float>(6, 0.0f));
}

TEST(Gemm, NothingToDo) {
  ThreadPool pool(2);
  int64_t extent = 0, stride = 0;
  GemmArgs args{};
  args.k = 4;
  gemmF32(args, pool);
  args.m = args.n = 4;
  args.batchRank = 1;
  args.batch = &extent;
  args.aBatch = args.bBatch = args.cBatch = &stride;
  gemmF32(args, pool);
}

TEST(Gemm, NonFiniteValuesArrive) {
  ThreadPool pool(2);
  std::mt19937 random(3);
  Case test{40, 50, 60};
  test.fill(random);
  test.a[7 * 60 + 3] = std::numeric_limits<float>::infinity();
  gemmF32(test.args, pool);
  for (int64_t i = 0; i < 40; ++i)
    for (int64_t j = 0; j < 50; ++j)
      EXPECT_EQ(std::isfinite(test.c[size_t(i * 50 + j)]), i != 7);
}

/// The same matrices through every strided form, thread count and instruction set: the same bits.
TEST(Gemm, BitsDependOnValuesOnly) {
  std::mt19937 random(4);
  struct Shape {
    int64_t m, n, k, batch;
  };
  for (Shape shape : {Shape{200, 300, 1100, 1}, Shape{33, 47, 65, 12}, Shape{5, 3, 700, 2},
                      Shape{15, 33, 1600, 1}, Shape{90, 110, 2600, 1}}) {
    Case plain{shape.m, shape.n, shape.k};
    plain.batch = {shape.batch};
    plain.fill(random);
    ThreadPool one(1);
    gemmF32(plain.args, one);
    for (const GemmKernels *kernels : kernelSets())
      for (unsigned threads : {1u, 2u, 5u})
        for (int way = 0; way < 8; ++way) {
          Case other{shape.m, shape.n, shape.k, bool(way & 1), bool(way & 2), bool(way & 4)};
          other.batch = {shape.batch};
          other.fill(random);
          for (int64_t q = 0; q < shape.batch; ++q) {
            for (int64_t i = 0; i < shape.m; ++i)
              for (int64_t p = 0; p < shape.k; ++p)
                other.a[size_t(q * other.aBatch[0] + i * other.args.a_m + p * other.args.a_k)] =
                    plain.a[size_t(q * plain.aBatch[0] + i * plain.args.a_m + p)];
            for (int64_t p = 0; p < shape.k; ++p)
              for (int64_t j = 0; j < shape.n; ++j)
                other.b[size_t(q * other.bBatch[0] + p * other.args.b_k + j * other.args.b_n)] =
                    plain.b[size_t(q * plain.bBatch[0] + p * plain.args.b_k + j)];
          }
          ThreadPool pool(threads);
          gemm(other.args, pool, *kernels);
          int64_t different = 0;
          for (int64_t q = 0; q < shape.batch; ++q)
            for (int64_t i = 0; i < shape.m; ++i)
              for (int64_t j = 0; j < shape.n; ++j)
                different +=
                    std::memcmp(&other.c[size_t(q * other.cBatch[0] + i * other.args.c_m +
                                                j * other.args.c_n)],
                                &plain.c[size_t(q * plain.cBatch[0] + i * plain.args.c_m + j)],
                                4) != 0;
          ASSERT_EQ(different, 0) << kernels->name << " " << threads
                                  << " threads: " << other.text();
        }
  }
}

/// B is read by the first call only, however the problem lies; the bits are those of a call that
/// packs anew.
TEST(Gemm, AKeptOperandIsPackedOnceAndChangesNoBit) {
  std::mt19937 random(8);
  for (const GemmKernels *kernels : kernelSets())
    for (unsigned threads : {1u, 3u})
      for (auto [m, n, k] : {std::array<int64_t, 3>{64, 1100, 700}, {3, 77, 1500}, {130, 40, 30}})
        for (int way = 0; way < 8; ++way) {
          Case test{m, n, k, bool(way & 1), bool(way & 2), bool(way & 4)};
          test.fill(random);
          ThreadPool pool(threads);
          gemm(test.args, pool, *kernels);
          const std::vector<float> wanted = test.c;
          const GemmProblem problem(test.args, {kernels->lanes, kernels->rows, kernels->vectors});
          std::vector<float> room(size_t(problem.keptFloats()) + 16);
          void *at = room.data();
          size_t bytes = room.size() * 4;
          KeptB kept{static_cast<float *>(std::align(64, bytes - 64, at, bytes))};
          for (int call = 0; call < 2; ++call) {
            test.c.assign(test.c.size(), std::numeric_limits<float>::quiet_NaN());
            gemm(test.args, pool, *kernels, &kept);
            ASSERT_EQ(test.c, wanted)
                << kernels->name << " " << threads << " threads: " << test.text();
            std::vector<float> &packed = problem.isSwapped ? test.a : test.b;
            packed.assign(packed.size(), std::numeric_limits<float>::quiet_NaN());
          }
        }
}

/// A term of 2^24 swallows the ones that are added to it singly, but not their sums: what is
/// missing tells the length of a chain of additions, by which a sum's error grows.
TEST(Gemm, ChainsOfAdditionsAreShort) {
  ThreadPool pool(2);
  std::mt19937 random(6);
  const float large = 16777216;
  for (const GemmKernels *kernels : kernelSets())
    for (int64_t k : {512, 700, 3000}) {
      Case test{20, 40, k};
      test.fill(random);
      test.a.assign(test.a.size(), 1.0f);
      test.b.assign(test.b.size(), 1.0f);
      for (int64_t i = 0; i < test.m; ++i)
        test.a[size_t(i * k)] = large;
      gemm(test.args, pool, *kernels);
      for (float value : test.c)
        ASSERT_LE(large + float(k) - value, 256) << kernels->name << ": " << test.text();
    }
}

/// Memory that the arguments do not name is neither read (it would be NaN) nor written.
TEST(Gemm, StaysWithinItsOperands) {
  ThreadPool pool(2);
  std::mt19937 random(5);
  const float guard = 12345;
  for (int64_t m : {1, 5, 13, 30})
    for (int64_t n : {1, 7, 31, 65}) {
      Case test{m, n, 19};
      test.gap = 1;
      test.fill(random);
      const int64_t ldc = n + 3;
      std::vector<float> c(size_t(m * ldc), guard);
      test.args.c = c.data();
      test.args.c_m = ldc;
      gemmF32(test.args, pool);
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < ldc; ++j)
          EXPECT_EQ(c[size_t(i * ldc + j)] == guard, j >= n);
    }
}

/// Floats that end where an unreadable page begins.
class GuardedFloats {
public:
  explicit GuardedFloats(int64_t count) {
    size_t page = size_t(sysconf(_SC_PAGESIZE)), bytes = size_t(count) * 4;
    size_t rounded = (bytes + page - 1) / page * page;
    size = rounded + page;
    memory = static_cast<char *>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + rounded, page, PROT_NONE);
    values = reinterpret_cast<float *>(memory + rounded - bytes);
  }
  ~GuardedFloats() { munmap(memory, size); }
  float *values;

private:
  char *memory;
  size_t size;
};

TEST(Gemm, ReadsNothingBehindItsOperands) {
  ThreadPool pool(1);
  for (const GemmKernels *kernels : kernelSets())
    for (int64_t m : {1, 2, 9, 15, 40})
      for (int64_t n : {1, 5, 16, 31, 33, 70})
        for (int64_t k : {1, 7, 16, 33})
          for (int way = 0; way < 8; ++way) {
            GuardedFloats a(m * k), b(n * k), c(m * n);
            bool ta = way & 1, tb = way & 2, tc = way & 4;
            GemmArgs args{a.values,   b.values,   c.values,   m,          n,          k, ta ? 1 : k,
                          ta ? m : 1, tb ? 1 : n, tb ? k : 1, tc ? 1 : n, tc ? m : 1, 0, nullptr,
                          nullptr,    nullptr,    nullptr,    1,          0};
            gemm(args, pool, *kernels);
            args.beta = 1;
            gemm(args, pool, *kernels);
          }
}

} // namespace
