// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Accuracy of the elementary functions against double, in units of the last place of the f32
// result, over floats of every exponent and the special values.

#include "FusionHarness.h"
#include "GpuEmulation.h"
#include "lib/Target/CUDA/Kernels/GpuCodegen.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include <cmath>
#include <cstring>

using namespace trainc::test;
using namespace trainc::train;

namespace {

double ulps(float got, double want) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : 1e30;
  if (std::fabs(want) >= 3.4028235677973366e38) // rounds to infinity
    return std::isinf(got) && (got > 0) == (want > 0) ? 0 : 1e30;
  if (std::isinf(got))
    return std::fabs(want) > 3.402823e38 ? 0.5 : 1e30;
  int exponent;
  std::frexp(want, &exponent);
  return std::fabs(got - want) / std::ldexp(1.0, std::max(exponent, -125) - 24);
}

/// Floats of every sign and exponent, and the special ones.
std::vector<float> samples(uint32_t step) {
  std::vector<float> result;
  for (uint64_t bits = 0; bits < (uint64_t(1) << 32); bits += step) {
    uint32_t word = uint32_t(bits);
    float value;
    std::memcpy(&value, &word, 4);
    result.push_back(value);
  }
  for (float value :
       {0.0f, -0.0f, 1.0f, -1.0f, INFINITY, -INFINITY, NAN, 1e-45f, 3.4e38f, 88.72284f, -103.97f})
    result.push_back(value);
  return result;
}

using Make = std::function<Value(TrainBuilder &, mlir::ValueRange)>;

/// The largest error of `got`, in ulps, and the first input where it is.
double worstOf(const std::vector<float> &got, const std::vector<std::vector<float>> &inputs,
               const std::function<double(const double *)> &exact, float *at) {
  double most = 0;
  for (size_t i = 0; i < inputs[0].size(); ++i) {
    double x[2] = {inputs[0][i], inputs.size() > 1 ? inputs[1][i] : 0.0f};
    double error = ulps(got[i], exact(x));
    if (error > most) {
      most = error;
      *at = inputs[0][i];
    }
  }
  return most;
}

double worst(const Make &make, const std::vector<std::vector<float>> &inputs,
             const std::function<double(const double *)> &exact, float *at) {
  FusionHarness h;
  trainc::codegen::CpuCodegen codegen(h.context);
  std::vector<Input> types(inputs.size(), Input{"n"});
  auto info = codegen.add(
      h.build(types, [&](TrainBuilder &tb, mlir::ValueRange x) { return Values{make(tb, x)}; }));
  EXPECT_TRUE(mlir::succeeded(info));
  auto object = codegen.emitSharedObject(cpuLevels().back());
  EXPECT_TRUE(mlir::succeeded(object));
  LoadedKernels loaded(*object);
  size_t n = inputs[0].size();
  std::vector<float> out(n);
  std::vector<void *> args;
  for (auto &input : inputs)
    args.push_back(const_cast<float *>(input.data()));
  args.push_back(out.data());
  int64_t dims[] = {int64_t(n)};
  reinterpret_cast<Kernel *>(loaded.find(info->stages[0].name))(args.data(), dims, 0,
                                                                (n + 2047) / 2048, nullptr);
  return worstOf(out, inputs, exact, at);
}

void check(const char *name, const Make &make, double (*exact)(double), double bound) {
  float at = 0;
  double error = worst(make, {samples(2039)}, [&](const double *x) { return exact(x[0]); }, &at);
  EXPECT_LE(error, bound) << name << " at " << at;
  testing::Test::RecordProperty(name, std::to_string(error));
}

/// As `worst`, of the instructions that a GPU has; `exact` rounds where the host's are the GPU's.
double worstOnGpu(const Make &make, const std::vector<float> &x, double (*exact)(double),
                  float *at) {
  FusionHarness h;
  trainc::codegen::GpuCodegen codegen(h.context, {});
  auto info = codegen.add(h.build({{"n"}}, [&](TrainBuilder &tb, mlir::ValueRange values) {
    return Values{make(tb, values)};
  }));
  EXPECT_TRUE(mlir::succeeded(info));
  EmulatedKernels kernels(codegen.getModule());
  // Room for what a vector reads behind the end.
  std::vector<float> in(x), out(x.size() + 64);
  in.resize(out.size());
  const int64_t n = int64_t(x.size());
  int64_t error[4] = {};
  auto blocks = info->stages[0].work.evaluate([&](llvm::StringRef) { return std::optional(n); });
  EXPECT_TRUE(mlir::succeeded(blocks));
  auto address = [](void *pointer) { return int64_t(reinterpret_cast<intptr_t>(pointer)); };
  kernels.launch(info->stages[0].name, *blocks, info->stages[0].grain,
                 {address(in.data()), address(out.data()), n, address(error)},
                 /*backwards=*/false);
  return worstOf(out, {x}, [&](const double *value) { return exact(value[0]); }, at);
}

} // namespace

TEST(MathAccuracy, Exp) {
  check("exp", [](TrainBuilder &tb, mlir::ValueRange x) { return tb.exp(x[0]); }, std::exp, 1.0);
}
TEST(MathAccuracy, Log) {
  check("log", [](TrainBuilder &tb, mlir::ValueRange x) { return tb.log(x[0]); }, std::log, 1.0);
}
TEST(MathAccuracy, Tanh) {
  check("tanh", [](TrainBuilder &tb, mlir::ValueRange x) { return tb.tanh(x[0]); }, std::tanh, 2.0);
}
TEST(MathAccuracy, Erf) {
  check("erf", [](TrainBuilder &tb, mlir::ValueRange x) { return tb.erf(x[0]); }, std::erf, 1.0);
}

static double sigmoid(double x) {
  const double y = 1 / (1 + std::exp(-x));
  // A denormal is 0 where the reciprocal is an instruction.
  return y < 0x1p-126 ? 0 : y;
}
TEST(MathAccuracy, SigmoidOnGpu) {
  float at = 0;
  std::vector<float> x = samples(131071);
  for (int i = -1200; i <= 1200; ++i)
    x.push_back(float(i) / 13);
  double error = worstOnGpu([](TrainBuilder &tb, mlir::ValueRange v) { return tb.sigmoid(v[0]); },
                            x, sigmoid, &at);
  EXPECT_LE(error, 4.0) << at;
}

static double sine(double x) { return std::fabs(x) < 1e15 ? std::sin(x) : NAN; }
static double cosine(double x) { return std::fabs(x) < 1e15 ? std::cos(x) : NAN; }
TEST(MathAccuracy, SinAndCos) {
  // Beyond 1e15 only the range is promised.
  auto bounded = [](bool cos) {
    return [cos](TrainBuilder &tb, mlir::ValueRange x) {
      Value y = cos ? tb.cos(x[0]) : tb.sin(x[0]);
      Value huge = tb.compare("ge", tb.abs(x[0]), tb.scalarLike(x[0], 1e15));
      Value good = tb.compare("le", tb.abs(y), tb.scalarLike(y, 1));
      Value nan = tb.div(tb.scalarLike(y, 0), tb.scalarLike(y, 0));
      return tb.select(tb.logicalAnd(huge, good), nan, y);
    };
  };
  check("sin", bounded(false), sine, 0.6);
  check("cos", bounded(true), cosine, 0.6);
}

TEST(MathAccuracy, Pow) {
  std::vector<float> x, y,
      special = {0.0f, -0.0f,  1.0f,  -1.0f,  2.0f,     -2.0f,     3.0f, -3.0f,       0.5f,  -0.5f,
                 2.5f, -1e10f, 1e38f, 1e-40f, INFINITY, -INFINITY, NAN,  16777217.0f, 1e-10f};
  for (float a : special)
    for (float b : special) {
      x.push_back(a);
      y.push_back(b);
    }
  uint64_t state = 1;
  for (int i = 0; i < 1000000; ++i) {
    auto uniform = [&] {
      state = state * 6364136223846793005ull + 1442695040888963407ull;
      return double(state >> 11) / 9007199254740992.0;
    };
    x.push_back(float(std::exp((uniform() - 0.5) * 20)));
    y.push_back(float((uniform() - 0.5) * 20));
  }
  float at = 0;
  double error = worst([](TrainBuilder &tb, mlir::ValueRange v) { return tb.pow(v[0], v[1]); },
                       {x, y}, [](const double *v) { return std::pow(v[0], v[1]); }, &at);
  EXPECT_LE(error, 0.6) << at;
}
