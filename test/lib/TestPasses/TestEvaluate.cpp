// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `test-evaluate`: runs functions by the reference evaluator and prints their results, so
// that text tests can state values. An argument's value is its attribute `testdialect.value`;
// without one it is filled with 0.5, -1, 1.5, -2, ... (floats) or 0, 1, 2, ... (integers), symbols
// being 2.
#include "test/lib/TestPasses/TestPasses.h"

#include "dialects/Train/TrainDetail.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Reference/Reference.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using trainc::train::HostTensor;

namespace {
struct TestEvaluate : PassWrapper<TestEvaluate, OperationPass<func::FuncOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(TestEvaluate)

  TestEvaluate() = default;
  TestEvaluate(const TestEvaluate &other) : PassWrapper(other) {}
  StringRef getArgument() const override { return "test-evaluate"; }
  StringRef getDescription() const override { return "prints the results of functions, in double"; }

  void runOnOperation() override {
    func::FuncOp function = getOperation();
    train::SymbolValues symbols;
    SmallVector<HostTensor> arguments;
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes())) {
      if (auto value = function.getArgAttrOfType<ElementsAttr>(i, "testdialect.value")) {
        arguments.push_back(reference::makeTensor(cast<ShapedType>(value.getType()).getShape()));
        for (auto [slot, element] :
             llvm::zip_equal(arguments.back().data, value.getValues<Attribute>()))
          slot = train::detail::attrValue(element);
        (void)reference::bindSymbols(type, arguments.back().shape, symbols);
        continue;
      }
      for (train::DimAttr dim : train::getDims(type))
        dim.forEachSymbol([&](StringRef name) { symbols.values.try_emplace(name, 2); });
      auto shape = reference::evaluateShape(type, symbols);
      if (failed(shape))
        return signalPassFailure();
      arguments.push_back(reference::makeTensor(*shape));
      bool floats = isa<FloatType>(getElementTypeOrSelf(type));
      for (auto [index, slot] : llvm::enumerate(arguments.back().data))
        slot = floats ? (index % 2 ? -1.0 : 1.0) * double(index + 1) / 2 : double(index);
    }
    auto results = reference::evaluate(function, arguments, symbols);
    if (failed(results))
      return signalPassFailure();
    llvm::outs() << "@" << function.getName() << "\n";
    for (const HostTensor &tensor : *results) {
      llvm::outs() << "  [";
      llvm::interleaveComma(tensor.shape, llvm::outs());
      llvm::outs() << "]:";
      for (double element : tensor.data)
        // Without the sign of a NaN, which nobody defines.
        llvm::outs() << llvm::format(" %.6g", std::isnan(element) ? std::fabs(element) : element);
      llvm::outs() << "\n";
    }
  }
};
} // namespace

void testdialect::registerTestEvaluatePass() { PassRegistration<TestEvaluate>(); }
