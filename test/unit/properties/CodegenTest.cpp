// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every sample compiled: decompose, form-kernels and the CPU's code generator against the reference
// evaluator, in f64 and in f32, small and in sizes that fill vectors with a rest.
#include "KernelRunner.h"
#include "Samples.h"
#include "lib/Schedule/FormKernels/FormKernels.h"
#include "lib/Transforms/Decompose/Decompose.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/StringSet.h"
#include <regex>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::Instance;
using trainc::properties::KernelRunner;

namespace {
/// One way to compile a sample.
struct Variant {
  std::string name, arguments, body;
  properties::Sample sample;
  int64_t batch = 2, seq = 3;
};

std::string replace(const std::string &text, const char *pattern, const char *with) {
  return std::regex_replace(text, std::regex(pattern), with);
}

/// The same in f32; attributes that are f64 by definition (F64Attr) stay.
std::string inSinglePrecision(std::string text) {
  text = replace(text, "xf64", "xf32");
  text = replace(text, "tensor<f64>", "tensor<f32>");
  return replace(text, "(full|value =) ([-0-9.]+) : f64", "$1 $2 : f32");
}

/// Ops whose attributes do not depend on sizes: their samples can be of any size.
bool scales(StringRef op) {
  static const llvm::StringSet<> ops = {
      "train.reduce", "train.softmax",   "train.log_softmax", "train.layer_norm",
      "train.sgd",    "train.transpose", "train.broadcast",   "train.cross_entropy",
      "train.adam",   "train.lamb",      "train.fusion",      "testdialect.sum_squares"};
  return ops.contains(op);
}

/// 2 becomes 5, 3 becomes 77 and 4 becomes 133 in all shapes.
std::string enlarge(std::string text) {
  std::string result;
  bool shape = false;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 7, "tensor<") == 0)
      shape = true;
    if (text[i] == '>' || text[i] == ',')
      shape = false;
    bool alone = shape && text[i + 1] == 'x' && (text[i - 1] == 'x' || text[i - 1] == '<');
    result += alone && text[i] == '2'   ? "5"
              : alone && text[i] == '3' ? "77"
              : alone && text[i] == '4' ? "133"
                                        : std::string(1, text[i]);
  }
  return result;
}

/// Every variant of every sample. Strings live as long as the vector.
std::vector<std::unique_ptr<Variant>> makeVariants() {
  std::vector<std::unique_ptr<Variant>> variants;
  auto add = [&](const properties::Sample &sample, bool single, bool large, bool symbolic) {
    auto variant = std::make_unique<Variant>();
    variant->name = sample.name() + (single ? "_f32" : "_f64") + (large ? "_large" : "");
    variant->arguments = sample.arguments;
    variant->body = sample.body;
    for (std::string *text : {&variant->arguments, &variant->body}) {
      if (single)
        *text = inSinglePrecision(*text);
      if (large && !symbolic)
        *text = enlarge(*text);
    }
    if (large) {
      variant->batch = 5;
      variant->seq = 41;
    }
    variant->sample = {sample.op, variant->arguments.c_str(), variant->body.c_str(), sample.fills};
    variants.push_back(std::move(variant));
  };
  for (const properties::Sample &sample : properties::getSamples()) {
    if (StringRef(sample.body).contains(" streamed ")) // a kernel of GPUs alone
      continue;
    std::string text = std::string(sample.arguments) + sample.body;
    static const std::regex shapes("tensor<([^>]*)>");
    bool symbolic = text.find("batch") != std::string::npos, uniform = true, mixed = false;
    for (std::sregex_iterator it(text.begin(), text.end(), shapes), end; it != end; ++it) {
      std::string shape = (*it)[1];
      uniform &= shape.rfind("2x3x", 0) == 0 && shape.size() < 9;
      mixed |= shape.rfind("2x3x4", 0) == 0;
    }
    for (bool single : {false, true}) {
      add(sample, single, false, symbolic);
      if (symbolic ? !mixed : uniform || scales(sample.op))
        add(sample, single, true, symbolic);
    }
  }
  return variants;
}
} // namespace

TEST(Codegen, computesWhatTheReferenceDoes) {
  auto context = properties::makeContext();
  KernelRunner runner(*context);
  auto variants = makeVariants();
  std::vector<std::unique_ptr<Instance>> instances;
  std::vector<SmallVector<HostTensor>> expected;
  for (auto &variant : variants) {
    SCOPED_TRACE(variant->name);
    SymbolValues symbols;
    symbols.values = {{"batch", variant->batch}, {"seq", variant->seq}, {"world", 1}};
    auto instance = std::make_unique<Instance>(*context, variant->sample, &symbols);
    ASSERT_TRUE(instance->op);
    // Results of the function are the op's; expectations come from arguments as memory holds them.
    Block &block = instance->function.getBody().front();
    block.getTerminator()->setOperands(instance->op->getResults());
    instance->function.setFunctionType(
        FunctionType::get(context.get(), block.getArgumentTypes(), instance->op->getResultTypes()));
    for (auto [argument, tensor] : llvm::zip_equal(block.getArguments(), instance->arguments))
      properties::roundTo(argument.getType(), tensor);
    auto results = reference::evaluateBlock(block, instance->arguments, instance->symbols);
    ASSERT_TRUE(succeeded(results));
    expected.push_back(*results);

    PassManager passes(context.get());
    passes.addPass(createDecomposePass());
    passes.addNestedPass<func::FuncOp>(createFormKernelsPass());
    ASSERT_TRUE(succeeded(passes.run(*instance->module)));
    EXPECT_TRUE(succeeded(runner.add(instance->function)));
    instances.push_back(std::move(instance));
  }
  // Equal ones share a kernel.
  EXPECT_LT(runner.size(), variants.size());
  for (StringRef cpu : {StringRef("x86-64-v3"), codegen::getHostLevel()}) {
    SCOPED_TRACE(cpu.str());
    std::string reason = runner.load(cpu);
    ASSERT_TRUE(reason.empty()) << reason;
    for (auto [variant, instance, tensors] : llvm::zip_equal(variants, instances, expected)) {
      SCOPED_TRACE(variant->name);
      auto results = runner.run(instance->function, instance->arguments, instance->symbols);
      if (failed(results))
        continue;
      Operation *end = instance->function.getBody().front().getTerminator();
      for (auto [value, actual, tensor] : llvm::zip_equal(end->getOperands(), *results, tensors)) {
        Type element = getElementTypeOrSelf(value.getType());
        double tolerance = element.isF64() ? 1e-11 : isa<FloatType>(element) ? 5e-6 : 0;
        properties::roundTo(value.getType(), tensor);
        properties::expectEqual(actual, tensor, tolerance, "result");
      }
    }
  }
}
