// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parsing samples, filling their operands, comparing tensors.
#include "Samples.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Parser/Parser.h"
#include "test/lib/TestDialect/TestDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using trainc::train::HostTensor;

namespace trainc::properties {

std::string Sample::name() const {
  unsigned index = 0;
  for (const Sample &other : getSamples()) {
    if (&other == this)
      break;
    index += StringRef(other.op) == op;
  }
  return StringRef(op).split('.').second.str() + "_" + std::to_string(index);
}

std::string sampleName(const ::testing::TestParamInfo<unsigned> &info) {
  return getSamples()[info.param].name();
}

std::unique_ptr<MLIRContext> makeContext() {
  DialectRegistry registry;
  registry.insert<func::FuncDialect, arith::ArithDialect, math::MathDialect,
                  testdialect::TestDialect, train::TrainDialect>();
  auto context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
  return context;
}

HostTensor fill(ArrayRef<int64_t> shape, StringRef how, std::mt19937_64 &random) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  HostTensor tensor = reference::makeTensor(shape);
  std::normal_distribution<double> normal;
  auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  int64_t width = shape.empty() ? 1 : shape.back();
  for (auto [i, x] : llvm::enumerate(tensor.data)) {
    switch (how.front()) {
    case 'n':
      x = normal(random);
      break;
    case 'p':
      x = uniform(0.5, 2);
      break;
    case 'u':
      x = uniform(0.1, 0.9);
      break;
    case 'b':
      x = random() % 2;
      break;
    case 'k':
      x = double(random() >> 11);
      break;
    case 'm':
      x = i % 3 == 1 ? -infinity : normal(random);
      break;
    case 'r':
      x = int64_t(i) < width ? -infinity : normal(random);
      break;
    case 'i': {
      auto [low, high] = how.drop_front(2).split(':');
      int64_t first = 0, end = 0;
      bool bad = low.getAsInteger(10, first) || high.getAsInteger(10, end);
      EXPECT_FALSE(bad) << how.str();
      x = double(std::uniform_int_distribution<int64_t>(first, end - 1)(random));
      break;
    }
    case '=':
      EXPECT_FALSE(how.drop_front().getAsDouble(x)) << how.str();
      break;
    default:
      ADD_FAILURE() << "unknown fill " << how.str();
    }
  }
  return tensor;
}

Instance::Instance(MLIRContext &context, const Sample &sample, const train::SymbolValues *sizes) {
  std::string text = std::string("func.func @sample(") + sample.arguments + ") {\n  " +
                     sample.body + "\n  return\n}\n";
  module = parseSourceString<ModuleOp>(text, &context);
  if (!module) {
    ADD_FAILURE() << "cannot parse\n" << text;
    return;
  }
  function = *module->getOps<func::FuncOp>().begin();
  Block &block = function.getBody().front();
  if (sizes)
    symbols = *sizes;
  else
    symbols.values = {{"batch", 2}, {"seq", 3}, {"world", 1}};

  std::mt19937_64 random(20260101);
  SmallVector<StringRef> fills;
  StringRef(sample.fills).split(fills, ' ', -1, /*KeepEmpty=*/false);
  if (fills.size() != block.getNumArguments()) {
    ADD_FAILURE() << fills.size() << " fills for " << block.getNumArguments() << " arguments";
    return;
  }
  for (auto [argument, how] : llvm::zip_equal(block.getArguments(), fills)) {
    auto shape = reference::evaluateShape(argument.getType(), symbols);
    if (failed(shape)) {
      ADD_FAILURE() << "unknown symbol in an argument's type";
      return;
    }
    arguments.push_back(fill(*shape, how, random));
  }
  op = block.getTerminator()->getPrevNode();
  EXPECT_EQ(op->getName().getStringRef().str(), sample.op);
  auto values = evaluate(op->getOperands());
  if (failed(values))
    ADD_FAILURE() << "cannot evaluate the operands";
  else
    operands = *values;
}

SmallVector<HostTensor> Instance::evaluate() {
  auto results = reference::evaluateOp(op, operands, symbols);
  if (failed(results)) {
    ADD_FAILURE() << "cannot evaluate the op";
    return {};
  }
  return *results;
}

FailureOr<SmallVector<HostTensor>> Instance::evaluate(ValueRange values) {
  // Only what the values need is evaluated: the op under test may be the question.
  OwningOpRef<ModuleOp> copy(cast<ModuleOp>(module->clone()));
  Block &from = function.getBody().front();
  Block &to = (*copy->getOps<func::FuncOp>().begin()).getBody().front();
  IRMapping mapping;
  for (auto [a, b] : llvm::zip_equal(from.getArguments(), to.getArguments()))
    mapping.map(a, b);
  for (auto [a, b] : llvm::zip_equal(from, to))
    mapping.map(a.getResults(), b.getResults());
  SmallVector<Value> mapped;
  for (Value value : values)
    mapped.push_back(mapping.lookup(value));
  to.getTerminator()->setOperands(mapped);
  for (Operation &inner : llvm::make_early_inc_range(llvm::reverse(to)))
    if (!inner.hasTrait<OpTrait::IsTerminator>() && inner.use_empty())
      inner.erase();
  return reference::evaluateBlock(to, arguments, symbols);
}

void expectEqual(const HostTensor &actual, const HostTensor &expected, double tolerance,
                 StringRef what) {
  ASSERT_EQ(std::vector<int64_t>(actual.shape.begin(), actual.shape.end()),
            std::vector<int64_t>(expected.shape.begin(), expected.shape.end()))
      << what.str();
  for (size_t i = 0; i < expected.data.size(); ++i) {
    double a = actual.data[i], e = expected.data[i];
    if ((std::isnan(a) && std::isnan(e)) || a == e)
      continue;
    bool near = std::fabs(a - e) <= tolerance * std::max(1.0, std::fabs(e));
    ASSERT_TRUE(near) << what.str() << ": element " << i << " is " << a << ", expected " << e;
  }
}

HostTensor slice(const HostTensor &tensor, int64_t axis, int64_t start, int64_t extent) {
  SmallVector<int64_t> shape(tensor.shape);
  int64_t size = shape[axis], inner = 1, outer = 1;
  for (int64_t a = 0; a < int64_t(shape.size()); ++a)
    (a < axis ? outer : inner) *= a == axis ? 1 : shape[a];
  shape[axis] = extent;
  HostTensor part = reference::makeTensor(shape);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < extent * inner; ++i)
      part.data[o * extent * inner + i] = tensor.data[(o * size + start) * inner + i];
  return part;
}

} // namespace trainc::properties
