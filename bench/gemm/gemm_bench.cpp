// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// gemmF32 beside oneDNN's dnnl_sgemm (Debian's build, on OpenMP) over the shapes of a MiniLM
// training step. Run with OMP_NUM_THREADS=N, which sets both; items per second are floating point
// operations. For stable numbers: --benchmark_repetitions=9
// --benchmark_report_aggregates_only=true, and read the medians; each library sleeps while the
// other one runs.
#include "device/cpu/gemm.h"
#include "device/thread_pool.h"

#include <benchmark/benchmark.h>
#include <dnnl.h>

#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

using namespace trainrt;

namespace {

struct Shape {
  const char *what;
  int64_t batch, m, n, k;
  bool transposeA, transposeB;
};

const Shape shapes[] = {
    {"square", 1, 1024, 1024, 1024, false, false},
    {"projection", 1, 1024, 384, 384, false, true},
    {"qkv", 1, 1024, 1152, 384, false, true},
    {"mlp_up", 1, 1024, 1536, 384, false, true},
    {"mlp_down", 1, 1024, 384, 1536, false, true},
    {"projection_dx", 1, 1024, 384, 384, false, false},
    {"mlp_up_dx", 1, 1024, 384, 1536, false, false},
    {"mlp_down_dx", 1, 1024, 1536, 384, false, false},
    {"projection_dw", 1, 384, 384, 1024, true, false},
    {"mlp_up_dw", 1, 1536, 384, 1024, true, false},
    {"mlp_down_dw", 1, 384, 1536, 1024, true, false},
    {"scores", 96, 128, 128, 32, false, true},
    {"context", 96, 128, 32, 128, false, false},
    {"context_dv", 96, 128, 32, 128, true, false},
    {"pooler", 1, 8, 384, 384, false, true},
    {"head", 1, 8, 2, 384, false, true},
};

unsigned threadCount() {
  const char *text = std::getenv("OMP_NUM_THREADS");
  unsigned threads = text ? unsigned(std::atoi(text)) : std::thread::hardware_concurrency();
  return threads ? threads : 1;
}

struct Operands {
  explicit Operands(const Shape &shape)
      : a(size_t(shape.batch * shape.m * shape.k)), b(size_t(shape.batch * shape.k * shape.n)),
        c(size_t(shape.batch * shape.m * shape.n)) {
    std::mt19937 random(1);
    std::normal_distribution<float> normal;
    for (float &value : a)
      value = normal(random);
    for (float &value : b)
      value = normal(random);
  }
  std::vector<float> a, b, c;
};

void countFlops(benchmark::State &state, const Shape &shape) {
  state.SetItemsProcessed(state.iterations() * shape.batch * shape.m * shape.n * shape.k * 2);
}

void runOurs(benchmark::State &state, const Shape &shape) {
  ThreadPool pool(threadCount());
  Operands operands(shape);
  int64_t aBatch = shape.m * shape.k, bBatch = shape.k * shape.n, cBatch = shape.m * shape.n;
  GemmArgs args{operands.a.data(),
                operands.b.data(),
                operands.c.data(),
                shape.m,
                shape.n,
                shape.k,
                shape.transposeA ? 1 : shape.k,
                shape.transposeA ? shape.m : 1,
                shape.transposeB ? 1 : shape.n,
                shape.transposeB ? shape.k : 1,
                shape.n,
                1,
                1,
                &shape.batch,
                &aBatch,
                &bBatch,
                &cBatch,
                1,
                0};
  for (auto _ : state)
    gemmF32(args, pool);
  countFlops(state, shape);
}

void runOneDnn(benchmark::State &state, const Shape &shape) {
  Operands operands(shape);
  for (auto _ : state)
    for (int64_t matrix = 0; matrix < shape.batch; ++matrix)
      dnnl_sgemm(
          shape.transposeA ? 'T' : 'N', shape.transposeB ? 'T' : 'N', shape.m, shape.n, shape.k, 1,
          operands.a.data() + matrix * shape.m * shape.k, shape.transposeA ? shape.m : shape.k,
          operands.b.data() + matrix * shape.k * shape.n, shape.transposeB ? shape.k : shape.n, 0,
          operands.c.data() + matrix * shape.m * shape.n, shape.n);
  countFlops(state, shape);
}

} // namespace

int main(int argc, char **argv) {
  for (const Shape &shape : shapes) {
    std::string name = std::string(shape.what) + "/" + std::to_string(shape.batch) + "x" +
                       std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" +
                       std::to_string(shape.k);
    benchmark::RegisterBenchmark((name + "/trainrt").c_str(), [&shape](benchmark::State &state) {
      runOurs(state, shape);
    })->UseRealTime();
    benchmark::RegisterBenchmark((name + "/onednn").c_str(), [&shape](benchmark::State &state) {
      runOneDnn(state, shape);
    })->UseRealTime();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv))
    return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
