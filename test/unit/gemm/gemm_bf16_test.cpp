// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gemmBF16 against the chain of fused multiply-adds that it is defined as, for every instruction
// set this machine has: not a bit differs, whatever the shape, strides and threads.
#include "device/cpu/flush_denormals.h"
#include "device/cpu/gemm.h"
#include "device/cpu/gemm_kernels.h"
#include "device/thread_pool.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

using namespace trainrt;

namespace {

std::vector<const GemmKernels *> kernelSets() {
  std::vector<const GemmKernels *> sets;
  if (auto *neon = gemmBF16KernelsNeon())
    sets.push_back(neon);
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    sets.push_back(gemmBF16KernelsAvx2());
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    sets.push_back(gemmBF16KernelsAvx512());
    if (__builtin_cpu_supports("avx512bf16"))
      sets.push_back(gemmBF16KernelsAvx512BF16());
  }
#endif
  return sets;
}

float widened(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

uint16_t cut(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return uint16_t(bits >> 16);
}

/// A batch of products that owns its memory.
struct Case {
  int64_t m, n, k, batch = 1;
  bool transposeA = false, transposeB = false, transposeC = false;
  int64_t gap = 1, padA = 0; ///< elements between neighbours; behind a row of A
  float beta = 0;

  std::vector<uint16_t> a{}, b{};
  std::vector<float> c{}, wanted{};
  int64_t strides[3] = {};
  GemmArgs args{};

  void fill(std::mt19937 &random, int smallest = -4) {
    strides[0] = (m + padA) * (k + padA) * gap;
    strides[1] = k * n * gap;
    strides[2] = m * n * gap;
    auto numbers = [&](std::vector<uint16_t> &to, int64_t stride) {
      to.resize(size_t(batch * stride));
      for (uint16_t &value : to)
        value = cut(std::ldexp(float(int(random() % 511)) - 255, smallest - int(random() % 6)));
    };
    numbers(a, strides[0]);
    numbers(b, strides[1]);
    c.resize(size_t(batch * strides[2]));
    for (float &value : c)
      value = beta == 0 ? std::numeric_limits<float>::quiet_NaN() : float(random() % 100);
    args = {a.data(),
            b.data(),
            c.data(),
            m,
            n,
            k,
            (transposeA ? 1 : k + padA) * gap,
            (transposeA ? m + padA : 1) * gap,
            (transposeB ? 1 : n) * gap,
            (transposeB ? k : 1) * gap,
            (transposeC ? 1 : n) * gap,
            (transposeC ? m : 1) * gap,
            1,
            &batch,
            &strides[0],
            &strides[1],
            &strides[2],
            1,
            beta,
            true};
    define();
  }

  /// Blocks of at most 512 elements in chains of at most 256, in whole pairs, the odd element of a
  /// pair first.
  void define() {
    const FlushDenormals flush(true);
    wanted = c;
    const int64_t pairs = (k + 1) / 2, blocks = std::max<int64_t>(1, (k + 511) / 512);
    for (int64_t q = 0; q < batch; ++q)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          float &at = wanted[size_t(q * strides[2] + i * args.c_m + j * args.c_n)];
          auto product = [&](int64_t p, float sum) {
            if (p >= k)
              return sum;
            return std::fma(widened(a[size_t(q * strides[0] + i * args.a_m + p * args.a_k)]),
                            widened(b[size_t(q * strides[1] + p * args.b_k + j * args.b_n)]), sum);
          };
          for (int64_t block = 0; block < blocks; ++block) {
            const int64_t begin = pairs * block / blocks,
                          length = pairs * (block + 1) / blocks - begin;
            const int64_t chains = (length + 127) / 128, longest = (length + chains - 1) / chains;
            for (int64_t from = 0; from < length; from += longest) {
              float sum = 0;
              for (int64_t p = begin + from; p < begin + std::min(from + longest, length); ++p)
                sum = product(2 * p, product(2 * p + 1, sum));
              const float keep = block + from ? 1 : beta;
              at = keep == 0 ? sum : std::fma(keep, at, sum);
            }
          }
        }
  }

  bool isWanted() const {
    for (int64_t q = 0; q < batch; ++q)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
          const size_t at = size_t(q * strides[2] + i * args.c_m + j * args.c_n);
          if (std::memcmp(&c[at], &wanted[at], sizeof(float)) != 0)
            return false;
        }
    return true;
  }

  std::string text() const {
    return std::to_string(batch) + " x " + std::to_string(m) + "x" + std::to_string(n) + "x" +
           std::to_string(k) + (transposeA ? " At" : "") + (transposeB ? " Bt" : "") +
           (transposeC ? " Ct" : "") + " gap " + std::to_string(gap) + " pad " +
           std::to_string(padA) + " beta " + std::to_string(beta);
  }
};

TEST(GemmBF16, IsAChainOfPairs) {
  std::mt19937 random(1);
  auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  ThreadPool one(1), three(3);
  for (int round = 0; round < 150; ++round) {
    Case test{1 + below(round % 5 ? 40 : 200), 1 + below(round % 7 ? 70 : 400),
              1 + below(round % 3 ? 50 : 1300)};
    test.batch = round % 4 == 0 && test.m * test.n * test.k < 1 << 18 ? 1 + below(20) : 1;
    test.transposeA = below(2);
    test.transposeB = below(2);
    test.transposeC = below(4) == 0;
    test.gap = below(4) == 0 ? 2 : 1;
    test.padA = below(4);
    test.beta = float(below(3)) * 0.5f;
    test.fill(random);
    const std::vector<float> before = test.c;
    for (const GemmKernels *kernels : kernelSets())
      for (ThreadPool *pool : {&one, &three}) {
        test.c = before;
        gemm(test.args, *pool, *kernels);
        ASSERT_TRUE(test.isWanted()) << kernels->name << ": " << test.text();
      }
  }
}

TEST(GemmBF16, TinyExtents) {
  std::mt19937 random(2);
  ThreadPool pool(2);
  for (int64_t m : {1, 2, 3, 17})
    for (int64_t n : {1, 2, 17, 33})
      for (int64_t k : {1, 2, 3, 15, 17, 32, 33})
        for (int way = 0; way < 8; ++way) {
          Case test{m, n, k, 1, bool(way & 1), bool(way & 2), bool(way & 4)};
          test.fill(random);
          for (const GemmKernels *kernels : kernelSets()) {
            gemm(test.args, pool, *kernels);
            ASSERT_TRUE(test.isWanted()) << kernels->name << ": " << test.text();
          }
        }
}

/// Products and sums down to 2^-140, where f32 has denormals down to 2^-149.
TEST(GemmBF16, TakesDenormalsForZeros) {
  std::mt19937 random(3);
  ThreadPool pool(2);
  Case test{20, 40, 65};
  test.fill(random, -70);
  size_t zeros = 0;
  for (float value : test.wanted) {
    zeros += value == 0;
    EXPECT_TRUE(value == 0 || std::isnormal(value));
  }
  EXPECT_GT(zeros, test.wanted.size() / 2);
  EXPECT_LT(zeros, test.wanted.size());
  for (const GemmKernels *kernels : kernelSets()) {
    gemm(test.args, pool, *kernels);
    EXPECT_TRUE(test.isWanted()) << kernels->name;
  }
  // The caller's own arithmetic is as it was.
  volatile float least = std::numeric_limits<float>::min();
  EXPECT_NE(least / 2, 0);
}

/// Threads that share a long k add up its chains with the roundings of one thread.
TEST(GemmBF16, PartsOfKAreAddedUpAsOneThreadDoes) {
  std::mt19937 random(6);
  ThreadPool one(1), three(3);
  for (int smallest : {-4, -70})
    for (int way = 0; way < 8; ++way) {
      Case test{20, 40, 2101, 1, bool(way & 1), bool(way & 2), bool(way & 4)};
      test.beta = float(way % 3) * 0.5f;
      test.fill(random, smallest);
      const std::vector<float> before = test.c;
      for (const GemmKernels *kernels : kernelSets())
        for (ThreadPool *pool : {&one, &three}) {
          test.c = before;
          gemm(test.args, *pool, *kernels);
          ASSERT_TRUE(test.isWanted()) << kernels->name << ": " << test.text();
        }
    }
}

TEST(GemmBF16, NonFiniteValuesArrive) {
  std::mt19937 random(4);
  ThreadPool pool(2);
  Case test{40, 50, 61};
  test.fill(random);
  test.a[7 * 61 + 60] = cut(std::numeric_limits<float>::infinity());
  test.b.assign(test.b.size(), cut(1.0f));
  for (const GemmKernels *kernels : kernelSets()) {
    gemm(test.args, pool, *kernels);
    for (int64_t i = 0; i < 40; ++i)
      for (int64_t j = 0; j < 50; ++j)
        ASSERT_EQ(std::isfinite(test.c[size_t(i * 50 + j)]), i != 7) << kernels->name;
  }
}

TEST(GemmBF16, AKeptOperandIsPackedOnceAndChangesNoBit) {
  std::mt19937 random(5);
  for (const GemmKernels *kernels : kernelSets())
    for (int way = 0; way < 8; ++way) {
      Case test{30, 500, 701, 1, bool(way & 1), bool(way & 2), bool(way & 4)};
      test.fill(random);
      ThreadPool pool(2);
      const GemmProblem problem(
          test.args, {kernels->lanes, kernels->rows, kernels->vectors, kernels->pairFloats});
      std::vector<float> room(size_t(problem.keptFloats()) + 16);
      void *at = room.data();
      size_t bytes = room.size() * 4;
      KeptB kept{static_cast<float *>(std::align(64, bytes - 64, at, bytes))};
      for (int call = 0; call < 2; ++call) {
        test.c.assign(test.c.size(), std::numeric_limits<float>::quiet_NaN());
        gemm(test.args, pool, *kernels, &kept);
        ASSERT_TRUE(test.isWanted()) << kernels->name << ": " << test.text();
        (problem.isSwapped ? test.a : test.b).assign(1, 0);
      }
    }
}

/// Elements that end where an unreadable page begins.
class Guarded {
public:
  explicit Guarded(int64_t bytes) {
    const size_t page = size_t(sysconf(_SC_PAGESIZE));
    const size_t rounded = (size_t(bytes) + page - 1) / page * page;
    size = rounded + page;
    memory = static_cast<char *>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(memory + rounded, page, PROT_NONE);
    data = memory + rounded - bytes;
  }
  ~Guarded() { munmap(memory, size); }
  void *data;

private:
  char *memory;
  size_t size;
};

TEST(GemmBF16, ReadsNothingBehindItsOperands) {
  ThreadPool pool(1);
  for (const GemmKernels *kernels : kernelSets())
    for (int64_t m : {1, 2, 15, 40})
      for (int64_t n : {1, 5, 16, 33, 70})
        for (int64_t k : {1, 2, 7, 16, 33})
          for (int way = 0; way < 8; ++way) {
            Guarded a(m * k * 2), b(n * k * 2), c(m * n * 4);
            const bool ta = way & 1, tb = way & 2, tc = way & 4;
            GemmArgs args{a.data,     b.data,     static_cast<float *>(c.data),
                          m,          n,          k,
                          ta ? 1 : k, ta ? m : 1, tb ? 1 : n,
                          tb ? k : 1, tc ? 1 : n, tc ? m : 1,
                          0,          nullptr,    nullptr,
                          nullptr,    nullptr,    1,
                          1,          true};
            gemm(args, pool, *kernels);
          }
}

} // namespace
