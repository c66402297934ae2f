// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How far a graph's gradients are from exact ones once every float is rounded to its type: those of
// a decoder in pure-bf16 against those of the same decoder as its modules round in PyTorch.
#include "PassHarness.h"

#include "llvm/Support/FormatVariadic.h"
#include "gtest/gtest.h"
#include <cmath>
#include <random>

using namespace mlir;
using namespace trainc;
using namespace trainc::transforms;

namespace {
constexpr int kRows = 12, kWidth = 16, kInner = 32, kLayers = 3;

/// Writes layers of x + norm(mlp(norm(x))), as Gemma has them. `modules`: what a module gives is
/// cast to bf16, and widened for each reader, so that gradients are rounded where PyTorch rounds
/// them: at each reader, and where they are added.
class Decoder {
public:
  explicit Decoder(bool modules) : modules(modules) {}

  std::string write() {
    Value x = input("x", {kRows, kWidth}, "input");
    for (int i = 0; i < kLayers; ++i) {
      auto weight = [&](llvm::StringRef name, std::vector<int> shape) {
        return input(llvm::formatv("{0}{1}", name, i).str(), shape, "parameter");
      };
      Value n = norm(x, weight("before", {kWidth}));
      Value gate = module("gelu", {product(n, weight("gate", {kInner, kWidth}))});
      Value up = product(n, weight("up", {kInner, kWidth}));
      Value h = module("mul", {gate, up});
      Value down = product(h, weight("down", {kWidth, kInner}));
      x = module("add", {x, norm(down, weight("after", {kWidth}))});
    }
    Value last = norm(x, input("last", {kWidth}, "parameter"));
    std::string scored = op("mul", {use(last), use(input("scores", {kRows, kWidth}, "input"))},
                            typeOf(last.shape, "f32"));
    std::string loss = line(llvm::formatv("train.reduce sum {0} axes = [0, 1] : {1} -> tensor<f32>",
                                          scored, typeOf(last.shape, "f32")));
    return llvm::formatv("func.func @forward({0}) -> (tensor<f32> {{train.role = \"loss\", "
                         "train.name = \"loss\"}) {{\n{1}  return {2} : tensor<f32>\n}\n",
                         arguments, body, loss);
  }

private:
  struct Value {
    std::string name;
    std::vector<int> shape;
    bool low = false;
  };

  static std::string typeOf(const std::vector<int> &shape, llvm::StringRef element) {
    std::string text = "tensor<";
    for (int size : shape)
      text += std::to_string(size) + "x";
    return text + element.str() + ">";
  }
  std::string line(const std::string &text) {
    std::string name = "%" + std::to_string(count++);
    body += "  " + name + " = " + text + "\n";
    return name;
  }
  std::string op(llvm::StringRef name, const std::vector<std::string> &operands,
                 const std::string &type) {
    return line(llvm::formatv("train.{0} {1} : {2}", name, llvm::join(operands, ", "), type));
  }
  Value input(const std::string &name, const std::vector<int> &shape, llvm::StringRef role) {
    arguments += llvm::formatv("{0}%{1}: {2} {{train.role = \"{3}\", train.name = \"{1}\"{4}}",
                               arguments.empty() ? "" : ", ", name, typeOf(shape, "f32"), role,
                               role == "parameter" ? ", train.trainable" : "");
    return {"%" + name, shape};
  }
  std::string use(const Value &value) {
    if (!value.low)
      return value.name;
    return line(llvm::formatv("train.cast {0} : {1} -> {2}", value.name,
                              typeOf(value.shape, "bf16"), typeOf(value.shape, "f32")));
  }
  Value give(const std::string &name, const std::vector<int> &shape) {
    if (!modules)
      return {name, shape};
    return {line(llvm::formatv("train.cast {0} : {1} -> {2}", name, typeOf(shape, "f32"),
                               typeOf(shape, "bf16"))),
            shape, true};
  }
  Value module(llvm::StringRef name, const std::vector<Value> &operands) {
    std::vector<std::string> names;
    for (const Value &operand : operands)
      names.push_back(use(operand));
    const std::vector<int> &shape = operands.front().shape;
    return give(op(name, names, typeOf(shape, "f32")), shape);
  }
  Value product(const Value &x, const Value &weight) {
    std::vector<int> shape = {kRows, weight.shape[0]};
    return give(line(llvm::formatv("train.matmul {0}, {1} transposed : {2}, {3} -> {4}", use(x),
                                   weight.name, typeOf(x.shape, "f32"), typeOf(weight.shape, "f32"),
                                   typeOf(shape, "f32"))),
                shape);
  }
  /// In f32 inside, whatever it is given.
  Value norm(const Value &value, const Value &weight) {
    const std::string x = use(value), full = typeOf(value.shape, "f32");
    const std::string rows = typeOf({kRows}, "f32");
    const std::string square = op("mul", {x, x}, full);
    const std::string sum =
        line(llvm::formatv("train.reduce sum {0} axes = [1] : {1} -> {2}", square, full, rows));
    const std::string size = line(llvm::formatv("train.full {0}.0 : f32 : {1}", kWidth, rows));
    const std::string least = line(llvm::formatv("train.full 1.0e-6 : f32 : {0}", rows));
    const std::string mean = op("add", {op("div", {sum, size}, rows), least}, rows);
    const std::string scale = op("reciprocal", {op("sqrt", {mean}, rows)}, rows);
    auto spread = [&](const std::string &name, const std::string &type, int axis) {
      return line(
          llvm::formatv("train.broadcast {0} axes = [{1}] : {2} -> {3}", name, axis, type, full));
    };
    const std::string normed = op("mul", {x, spread(scale, rows, 0)}, full);
    const std::string weights = spread(weight.name, typeOf({kWidth}, "f32"), 1);
    return give(op("mul", {normed, weights}, full), value.shape);
  }

  const bool modules;
  int count = 0;
  std::string arguments, body;
};

using Gradients = std::map<std::string, reference::HostTensors>;

/// Relative, of all gradients together.
double distance(const Gradients &from, Gradients exact) {
  double error = 0, norm = 0;
  for (const auto &[name, tensors] : from)
    if (name != "loss:loss")
      for (auto [a, e] : llvm::zip_equal(tensors[0].data, exact[name][0].data)) {
        error += (a - e) * (a - e);
        norm += e * e;
      }
  return std::sqrt(error / norm);
}

/// Numbers of bf16 for every argument.
std::map<std::string, std::vector<double>> draw(int seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  auto numbers = [&](int size, double scale) {
    std::vector<double> result(size);
    for (double &x : result)
      x = std::ldexp(std::round(std::ldexp(scale * normal(random), 6)), -6);
    return result;
  };
  std::map<std::string, std::vector<double>> given = {{"grad_scale", {1}}};
  given["x"] = numbers(kRows * kWidth, 1);
  given["scores"] = numbers(kRows * kWidth, 1);
  given["last"] = numbers(kWidth, 1);
  for (int i = 0; i < kLayers; ++i) {
    const std::string number = std::to_string(i);
    for (const char *name : {"gate", "up", "down"})
      given[name + number] = numbers(kWidth * kInner, 0.25);
    for (const char *name : {"before", "after"})
      given[name + number] = numbers(kWidth, 1);
  }
  return given;
}
} // namespace

TEST(Rounding, pureBF16IsNoFartherThanModules) {
  PassHarness harness;
  const std::string text = Decoder(false).write();
  auto plain = harness.run(text, "autodiff");
  auto lowered = harness.run(text, "canonicalize,cse,func.func(mixed-precision{type=bf16 "
                                   "parameters}),canonicalize,cse,autodiff,canonicalize,cse");
  // As it is: casts of different readers are one to cse.
  auto modules = harness.run(Decoder(true).write(), "autodiff");
  ASSERT_TRUE(plain && lowered && modules);
  double ours = 0, theirs = 0;
  for (int seed : {1, 2, 3, 4}) {
    const auto given = draw(seed);
    const Gradients exact = harness.evaluate(*plain, "gradients", given);
    ASSERT_EQ(exact.size(), 2u + 5 * kLayers);
    ours += distance(harness.evaluate(*lowered, "gradients", given, {}, true), exact) / 4;
    theirs += distance(harness.evaluate(*modules, "gradients", given, {}, true), exact) / 4;
    // The same functions but for rounding.
    EXPECT_LT(distance(harness.evaluate(*lowered, "gradients", given), exact), 1e-12);
    EXPECT_LT(distance(harness.evaluate(*modules, "gradients", given), exact), 1e-12);
  }
  EXPECT_LT(ours, theirs);
  // Something was rounded.
  EXPECT_GT(ours, 1e-3);
  RecordProperty("ours", std::to_string(ours));
  RecordProperty("theirs", std::to_string(theirs));
}
