// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls on the device against their definition in f64: layouts, types, batches,
// epilogues, and what is promised about determinism and tuning. Tolerances are the error bounds of
// a sum of k products.

#include "device.h"
#include "device/cuda/blas.h"
#include "device/cuda/tuning/tuner.h"
#include "tests.h"

#include <cmath>
#include <cstring>

namespace trainrt::cuda::test {

namespace {

struct Kind {
  DType dtype;
  bool tf32 = false, wide = false;
  std::string name() const {
    return std::string(nameOf(dtype)) + (tf32 ? "-tf32" : "") + (wide ? "-f32" : "");
  }
};
const Kind kinds[] = {{DType::F32},
                      {DType::F32, true},
                      {DType::BF16},
                      {DType::F16},
                      {DType::F64},
                      {DType::BF16, false, true},
                      {DType::F16, false, true}};

/// A call with the sizes of its arrays, and where in them the operands begin.
struct Case {
  std::string name;
  GemmCall call;
  size_t sizeA = 0, sizeB = 0, sizeC = 0;
  size_t beginA = 0, beginB = 0, beginC = 0;
};

size_t span(const std::vector<int64_t> &extents, const std::vector<int64_t> &strides) {
  int64_t last = 0;
  for (size_t i = 0; i < extents.size(); ++i)
    last += std::max<int64_t>(extents[i] - 1, 0) * strides[i];
  return size_t(last) + 1;
}

void setSizes(Case &test) {
  const GemmCall &call = test.call;
  auto size = [&](int64_t e0, int64_t s0, int64_t e1, int64_t s1,
                  const std::vector<int64_t> &batch) {
    std::vector<int64_t> extents = {e0, e1}, strides = {s0, s1};
    extents.insert(extents.end(), call.batch.begin(), call.batch.end());
    strides.insert(strides.end(), batch.begin(), batch.end());
    return span(extents, strides);
  };
  test.sizeA = test.beginA + size(call.m, call.aM, call.k, call.aK, call.aBatch);
  test.sizeB = test.beginB + size(call.k, call.bK, call.n, call.bN, call.bBatch);
  test.sizeC = test.beginC + size(call.m, call.cM, call.n, call.cN, call.cBatch);
}

GemmCall matrices(Kind kind, int64_t m, int64_t n, int64_t k, bool columnA = false,
                  bool columnB = false, bool columnC = false, int64_t pad = 0) {
  GemmCall call;
  call.dtype = kind.dtype, call.tf32 = kind.tf32;
  call.resultType = kind.wide ? DType::F32 : kind.dtype;
  call.m = m, call.n = n, call.k = k;
  call.aM = columnA ? 1 : k + pad, call.aK = columnA ? m + pad : 1;
  call.bK = columnB ? 1 : n + pad, call.bN = columnB ? k + pad : 1;
  call.cM = columnC ? 1 : n + pad, call.cN = columnC ? m + pad : 1;
  return call;
}

void addBatch(GemmCall &call, int64_t extent, int64_t a, int64_t b, int64_t c) {
  call.batch.push_back(extent);
  call.aBatch.push_back(a);
  call.bBatch.push_back(b);
  call.cBatch.push_back(c);
}

double gelu(double x) {
  return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
}
double geluSlope(double x) {
  double inner = std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + inner) +
         0.5 * x * (1 - inner * inner) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

/// Calls `body(index of C, sum of products, sum of their sizes, j)` for every element.
template <typename Body>
void forEachElement(const Case &test, const std::vector<double> &a, const std::vector<double> &b,
                    Body body) {
  const GemmCall &call = test.call;
  std::vector<int64_t> index(call.batch.size());
  for (;;) {
    size_t atA = test.beginA, atB = test.beginB, atC = test.beginC;
    for (size_t i = 0; i < index.size(); ++i) {
      atA += size_t(index[i] * call.aBatch[i]);
      atB += size_t(index[i] * call.bBatch[i]);
      atC += size_t(index[i] * call.cBatch[i]);
    }
    for (int64_t i = 0; i < call.m; ++i)
      for (int64_t j = 0; j < call.n; ++j) {
        double sum = 0, size = 0;
        for (int64_t k = 0; k < call.k; ++k) {
          double product = a[atA + size_t(i * call.aM + k * call.aK)] *
                           b[atB + size_t(k * call.bK + j * call.bN)];
          sum += product;
          size += std::fabs(product);
        }
        body(atC + size_t(i * call.cM + j * call.cN), sum, size, j);
      }
    size_t axis = index.size();
    while (axis > 0 && ++index[axis - 1] == call.batch[axis - 1])
      index[--axis] = 0;
    if (axis == 0)
      return;
  }
}

GemmOperands operandsOf(const GemmCall &call) {
  return {call.a, call.b, call.c, call.bias, call.aux};
}

Status runOnce(Device &device, Blas &blas, const GemmCall &call) {
  // As the runtime does: addresses are not known yet, but their last bits.
  GemmCall prepared = call;
  for (DeviceAddress *address :
       {&prepared.a, &prepared.b, &prepared.c, &prepared.bias, &prepared.aux})
    *address %= 256;
  std::shared_ptr<const GemmPlan> plan;
  TRAINRT_TRY(blas.prepare(prepared, plan));
  Scratch scratch(device, plan->workspaceBytes());
  return device.capture(
      [&] { return plan->enqueue(device.stream(), operandsOf(call), scratch.workspace()); });
}

/// Bound of the error of a product whose terms have sizes that sum to `size`.
double bound(const GemmCall &call, double expected, double size) {
  double sums = call.dtype == DType::F64 ? unitRoundoff(DType::F64) : unitRoundoff(DType::F32);
  double error = 2 * double(call.k + 4) * sums * size;
  if (call.tf32)
    error += std::ldexp(size, -9); // each operand loses up to 2^-10 of itself
  error += unitRoundoff(call.resultType) * std::fabs(expected);
  return error + (call.resultType == DType::F16 ? std::ldexp(1, -25) : 0);
}

void run(Device &device, Blas &blas, Case test) {
  setSizes(test);
  GemmCall &call = test.call;
  std::mt19937 random(unsigned(test.sizeA * 31 + test.sizeC));
  Array a(device, call.dtype, test.sizeA), b(device, call.dtype, test.sizeB),
      c(device, call.resultType, test.sizeC);
  a.fill(random);
  b.fill(random);
  if (call.beta == 0) // then C is not read
    std::fill(c.values.begin(), c.values.end(), NAN);
  else
    c.fill(random);
  a.toDevice();
  b.toDevice();
  c.toDevice();
  call.a = a.address(test.beginA), call.b = b.address(test.beginB), call.c = c.address(test.beginC);
  std::vector<uint8_t> before = c.bits();
  if (!check(runOnce(device, blas, call), test.name))
    return;
  std::vector<uint8_t> after = c.bits();
  std::vector<double> found = c.fromDevice();

  std::vector<bool> written(test.sizeC);
  double worst = 0;
  forEachElement(test, a.values, b.values, [&](size_t at, double sum, double size, int64_t) {
    double old = call.beta == 0 ? 0 : call.beta * c.values[at];
    double expected = call.alpha * sum + old;
    double limit = bound(call, expected, std::fabs(call.alpha) * size + std::fabs(old));
    double error = std::fabs(found[at] - expected);
    worst = std::max(worst, error <= limit ? (limit > 0 ? error / limit : 0)
                                           : std::max(2.0, error / limit));
    written[at] = true;
  });
  bool untouched = true;
  size_t bytes = sizeOf(call.resultType);
  for (size_t i = 0; i < test.sizeC; ++i)
    untouched &= written[i] || std::memcmp(&before[i * bytes], &after[i * bytes], bytes) == 0;
  check(worst <= 1, test.name, "error is " + std::to_string(worst) + " of its bound");
  check(untouched, test.name, "wrote between the elements of C");

  c.setBits(before);
  if (check(runOnce(device, blas, call), test.name + ", again"))
    check(c.bits() == after, test.name, "other bits in a second run");
}

void testLayouts(Device &device, Blas &blas, Kind kind) {
  const int64_t shapes[][4] = {{96, 80, 64, 0}, {67, 45, 33, 0}, {129, 72, 40, 8}};
  for (const auto &[m, n, k, pad] : shapes)
    for (int layout = 0; layout < 8; ++layout) {
      GemmCall call = matrices(kind, m, n, k, layout & 1, layout & 2, layout & 4, pad);
      call.alpha = layout % 3 == 0 ? 1 : 0.5f;
      call.beta = layout % 3 == 2 ? 1 : layout % 3 == 1 ? 0.25f : 0;
      std::string name = "gemm " + kind.name() + " " + std::to_string(m) + "x" + std::to_string(n) +
                         "x" + std::to_string(k) + " layout " + std::to_string(layout);
      run(device, blas, {name, call});
    }
}

void testForms(Device &device, Blas &blas, Kind kind) {
  auto form = [&](const char *name, const GemmCall &call, size_t begin = 0) {
    run(device, blas, {"gemm " + kind.name() + " " + name, call, 0, 0, 0, begin, begin, begin});
  };
  GemmCall call = matrices(kind, 40, 48, 32);
  addBatch(call, 3, 40 * 32, 32 * 48, 40 * 48);
  form("batch", call);

  call = matrices(kind, 40, 48, 32);
  addBatch(call, 2, 3 * 40 * 32, 3 * 32 * 48, 3 * 40 * 48);
  addBatch(call, 3, 40 * 32, 32 * 48, 40 * 48);
  form("two batch axes that are one", call);

  // Rows 40, heads 3, columns 32: heads lie between the rows.
  call = matrices(kind, 40, 40, 32);
  call.aM = 96, call.bK = 1, call.bN = 96;
  addBatch(call, 2, 40 * 96, 40 * 96, 3 * 40 * 40);
  addBatch(call, 3, 32, 32, 40 * 40);
  form("scores of heads between rows", call);

  call = matrices(kind, 40, 32, 40);
  call.bK = 96, call.cM = 96;
  addBatch(call, 2, 3 * 40 * 40, 40 * 96, 40 * 96);
  addBatch(call, 3, 40 * 40, 32, 32);
  call.beta = 1;
  form("values of heads between rows", call);

  call = matrices(kind, 24, 48, 32);
  addBatch(call, 5, 24 * 32, 0, 24 * 48);
  form("one B for all, folded", call);

  call = matrices(kind, 24, 48, 32);
  addBatch(call, 5, 24 * 32, 0, 24 * 48 + 16);
  form("one B for all", call);

  call = matrices(kind, 24, 48, 32);
  addBatch(call, 5, 0, 32 * 48, 24 * 48);
  form("one A for all", call);

  call = matrices(kind, 24, 16, 32);
  call.bK = 80, call.cM = 80;
  addBatch(call, 5, 0, 16, 16);
  form("one A for all, folded", call);

  call = matrices(kind, 16, 24, 32);
  addBatch(call, 2, 3 * 16 * 32, 0, 4 * 3 * 16 * 24);
  addBatch(call, 4, 0, 32 * 24, 3 * 16 * 24);
  addBatch(call, 3, 16 * 32, 4 * 32 * 24, 16 * 24);
  form("three batch axes", call);

  form("a column", matrices(kind, 100, 1, 77));
  form("a row", matrices(kind, 1, 100, 77));
  form("an outer product", matrices(kind, 50, 60, 1));
  form("one element", matrices(kind, 1, 1, 1000));
  call = matrices(kind, 1, 64, 32);
  addBatch(call, 7, 32, 32 * 64, 64);
  form("a batch of rows", call);
  call = matrices(kind, 1, 64, 32);
  call.aM = 3, call.cM = 0;
  form("strides of extents of 1", call);
  form("a long sum", matrices(kind, 64, 64, 16384));
  form("operands at odd addresses", matrices(kind, 64, 64, 64), 1);

  call = matrices(kind, 20, 30, 0);
  form("an empty sum", call);
  call.cM = 40;
  addBatch(call, 2, 0, 0, 20 * 40);
  form("an empty sum with gaps", call);
  call.beta = 1;
  form("an empty sum added", call);
}

void testEpilogue(Device &device, Blas &blas, DType dtype, GemmEpilogue epilogue,
                  const std::string &name) {
  Case test{"gemm " + std::string(nameOf(dtype)) + " epilogue " + name,
            matrices({dtype, false}, 256, 96, 64)};
  GemmCall &call = test.call;
  call.alpha = 0.125f;
  setSizes(test);
  std::mt19937 random(7);
  size_t columns = size_t(call.n);
  Array a(device, dtype, test.sizeA), b(device, dtype, test.sizeB), c(device, dtype, test.sizeC),
      aux(device, dtype, test.sizeC), bias(device, dtype, columns);
  for (Array *array : {&a, &b, &c, &aux, &bias}) {
    array->fill(random);
    array->toDevice();
  }
  call.epilogue = epilogue;
  call.a = a.address(), call.b = b.address(), call.c = c.address();
  call.aux = aux.address(), call.bias = bias.address();
  if (!check(runOnce(device, blas, call), test.name))
    return;
  std::vector<double> found = c.fromDevice(), foundAux = aux.fromDevice(),
                      foundBias = bias.fromDevice();
  std::vector<uint8_t> bits = c.bits(), bitsBias = bias.bits();
  // GELU in the library has an approximate tanh (2^-10.9 or so), and reads what was rounded.
  double unit = unitRoundoff(dtype), worst = 0, worstAux = 0, worstBias = 0;
  double curve = epilogue == GemmEpilogue::Bias ? 0 : std::ldexp(1, -9);
  std::vector<double> sums(columns), sizes(columns);
  forEachElement(test, a.values, b.values, [&](size_t at, double sum, double size, int64_t j) {
    double product = call.alpha * sum, limit = bound(call, product, call.alpha * size);
    double expected = product;
    if (epilogue == GemmEpilogue::Bias || epilogue == GemmEpilogue::GeluAuxBias)
      expected += bias.values[size_t(j)];
    if (epilogue == GemmEpilogue::GeluAux || epilogue == GemmEpilogue::GeluAuxBias) {
      worstAux = std::max(worstAux, std::fabs(foundAux[at] - expected) /
                                        (limit + unit * std::fabs(expected)));
      limit += unit * std::fabs(expected);
      expected = gelu(expected);
    } else if (epilogue != GemmEpilogue::Bias) {
      limit += std::fabs(product) * curve * 4;
      expected *= geluSlope(aux.values[at]);
    }
    limit += unit * std::fabs(expected) + curve * std::fabs(expected) + curve * std::fabs(product);
    worst = std::max(worst, std::fabs(found[at] - expected) / limit);
    sums[size_t(j)] += expected;
    sizes[size_t(j)] += limit;
  });
  check(worst <= 1, test.name, "error is " + std::to_string(worst) + " of its bound");
  check(worstAux <= 1, test.name, "aux's error is " + std::to_string(worstAux) + " of its bound");
  if (epilogue == GemmEpilogue::DGeluBGrad) {
    for (size_t j = 0; j < columns; ++j)
      worstBias = std::max(worstBias, std::fabs(foundBias[j] - sums[j]) /
                                          (sizes[j] + unit * std::fabs(sums[j])));
    check(worstBias <= 1, test.name, "the bias gradient's error is " + std::to_string(worstBias));
  }
  if (check(runOnce(device, blas, call), test.name + ", again"))
    check(c.bits() == bits && bias.bits() == bitsBias, test.name, "other bits in a second run");
}

void testTuning(Device &device) {
  std::unique_ptr<CublasLt> blas, other;
  if (!check(CublasLt::load(blas), "a second instance") ||
      !check(CublasLt::load(other), "a third instance"))
    return;
  Kind kind{DType::BF16, false};
  Case test{"gemm tuned", matrices(kind, 512, 384, 256)};
  setSizes(test);
  std::mt19937 random(1);
  Array a(device, kind.dtype, test.sizeA), b(device, kind.dtype, test.sizeB),
      c(device, kind.dtype, test.sizeC);
  for (Array *array : {&a, &b}) {
    array->fill(random);
    array->toDevice();
  }
  GemmCall &call = test.call;
  call.a = a.address(), call.b = b.address(), call.c = c.address();
  // Whatever may be chosen gives the same bits again.
  std::vector<std::shared_ptr<const GemmPlan>> plans;
  if (!check(blas->alternatives(call, 32, plans), test.name + ", alternatives"))
    return;
  check(plans.size() > 1, test.name, "there is nothing to choose");
  for (const auto &plan : plans) {
    Scratch scratch(device, plan->workspaceBytes());
    std::vector<uint8_t> bits[2];
    for (auto &each : bits) {
      auto enqueue = [&] {
        return plan->enqueue(device.stream(), operandsOf(call), scratch.workspace());
      };
      check(device.capture(enqueue), test.name + ", " + plan->algorithm());
      each = c.bits();
    }
    check(bits[0] == bits[1], test.name, "other bits in a second run of " + plan->algorithm());
  }
  // What is chosen is used, by another instance, too.
  const GemmPlan &last = *plans.back();
  const Choices choices = {{last.key(), last.algorithm()}};
  check(other->choose(choices), test.name + ", choose");
  check(other->machine() == blas->machine(), test.name, "two names of one machine");
  std::shared_ptr<const GemmPlan> chosen;
  if (check(other->prepare(call, chosen), test.name + ", prepare"))
    check(chosen->algorithm() == last.algorithm(), test.name, "another algorithm than was chosen");
  run(device, *other, test);
  const Choices damaged = {{last.key(), last.algorithm().substr(0, 20)}};
  check(other->choose(damaged).code() == Code::BadData, test.name, "took a damaged text");
}

Status tuneOnce(Device &device, Blas &blas, const GemmCall &call, Workspace workspace) {
  std::unique_ptr<Context> context;
  TRAINRT_TRY(Context::open(0, context));
  Tuner tuner(*context, device.stream(), device.stream());
  TRAINRT_TRY(tuner.start());
  std::shared_ptr<const GemmPlan> plan;
  TRAINRT_TRY(blas.prepare(call, plan));
  TuningResult result;
  TRAINRT_TRY(tuner.tune({productSubject(blas, plan->key(), call, {operandsOf(call)}, workspace)},
                         10, result));
  return blas.choose(result.choices[blas.machine()]);
}

void timeGemm(Device &device, CublasLt &blas, const std::string &name, GemmCall call) {
  Case test{name, call};
  setSizes(test);
  std::mt19937 random(1);
  Array a(device, call.dtype, test.sizeA), b(device, call.dtype, test.sizeB),
      c(device, call.dtype, test.sizeC);
  for (Array *array : {&a, &b}) {
    array->fill(random);
    array->toDevice();
  }
  call.a = a.address(), call.b = b.address(), call.c = c.address();
  Scratch scratch(device, gemmWorkspaceLimit);
  double seconds[2] = {};
  for (bool tuned : {false, true}) {
    if (tuned && !check(tuneOnce(device, blas, call, scratch.workspace()), name))
      return;
    std::shared_ptr<const GemmPlan> plan;
    if (!check(blas.prepare(call, plan), name))
      return;
    check(device.time(
              [&] { return plan->enqueue(device.stream(), operandsOf(call), scratch.workspace()); },
              seconds[tuned]),
          name);
  }
  double products = 2.0 * double(call.m) * double(call.n) * double(call.k) * 1e-12;
  for (int64_t extent : call.batch)
    products *= double(extent);
  std::printf("%-40s %8.1f us %6.1f TFLOP/s, tuned %8.1f us %6.1f TFLOP/s\n", name.c_str(),
              seconds[0] * 1e6, products / seconds[0], seconds[1] * 1e6, products / seconds[1]);
  std::fflush(stdout);
}

} // namespace

void testGemm(Device &device) {
  std::unique_ptr<Blas> blas;
  if (!check(Blas::load(blas), "cuBLASLt"))
    return;
  for (Kind kind : kinds) {
    testLayouts(device, *blas, kind);
    testForms(device, *blas, kind);
  }
  for (DType dtype : {DType::BF16, DType::F16}) {
    testEpilogue(device, *blas, dtype, GemmEpilogue::Bias, "bias");
    testEpilogue(device, *blas, dtype, GemmEpilogue::GeluAux, "gelu");
    testEpilogue(device, *blas, dtype, GemmEpilogue::GeluAuxBias, "gelu of bias");
    testEpilogue(device, *blas, dtype, GemmEpilogue::DGelu, "gelu's gradient");
    testEpilogue(device, *blas, dtype, GemmEpilogue::DGeluBGrad, "gelu's and bias's gradient");
  }
  testTuning(device);
}

void timeGemms(Device &device) {
  std::unique_ptr<CublasLt> blas;
  if (!check(CublasLt::load(blas), "cuBLASLt"))
    return;
  Kind bf16{DType::BF16, false};
  timeGemm(device, *blas, "gemm 8192x1024x4096 bf16 NN", matrices(bf16, 8192, 1024, 4096));
  timeGemm(device, *blas, "gemm 8192x1024x4096 bf16 NT",
           matrices(bf16, 8192, 1024, 4096, false, true));
  timeGemm(device, *blas, "gemm 8192x4096x1024 bf16 NT",
           matrices(bf16, 8192, 4096, 1024, false, true));
  timeGemm(device, *blas, "gemm 4096x1024x8192 bf16 TN", matrices(bf16, 4096, 1024, 8192, true));
  timeGemm(device, *blas, "gemm 768x768x16384 bf16 TN", matrices(bf16, 768, 768, 16384, true));
  timeGemm(device, *blas, "gemm 8192x1024x4096 f32",
           matrices({DType::F32, false}, 8192, 1024, 4096));
  timeGemm(device, *blas, "gemm 8192x1024x4096 tf32",
           matrices({DType::F32, true}, 8192, 1024, 4096));
}

} // namespace trainrt::cuda::test
