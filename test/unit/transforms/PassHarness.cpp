// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "PassHarness.h"

#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "trainc/Registry/Registry.h"
#include "gtest/gtest.h"
#include <random>

using namespace mlir;
using trainc::reference::HostTensor;
using trainc::reference::HostTensors;

namespace trainc::transforms {

PassHarness::PassHarness() {
  static bool registered = (registerAllPasses(), true);
  (void)registered;
  DialectRegistry registry;
  registerAllDialects(registry);
  context = std::make_unique<MLIRContext>(registry, MLIRContext::Threading::DISABLED);
  context->loadAllAvailableDialects();
}

OwningOpRef<ModuleOp> PassHarness::run(StringRef text, StringRef pipeline) {
  auto module = parseSourceString<ModuleOp>(text, context.get());
  if (!module) {
    ADD_FAILURE() << "cannot parse\n" << text.str();
    return {};
  }
  PassManager manager(context.get());
  if (failed(parsePassPipeline(pipeline, manager)) || failed(manager.run(*module))) {
    ADD_FAILURE() << "cannot run " << pipeline.str();
    return {};
  }
  return module;
}

static void roundTo(Type type, HostTensor &tensor) {
  auto element = dyn_cast<FloatType>(getElementTypeOrSelf(type));
  if (!element)
    return;
  for (double &x : tensor.data) {
    APFloat value(x);
    bool lossy;
    value.convert(element.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lossy);
    x = value.convertToDouble();
  }
}

/// Op by op, each result rounded to its type. Of functions without kernels, which round inside.
static FailureOr<HostTensors> evaluateRounded(func::FuncOp function, HostTensors arguments,
                                              const reference::SymbolValues &symbols) {
  llvm::DenseMap<Value, HostTensor> values;
  for (auto [argument, tensor] : llvm::zip_equal(function.getArguments(), arguments)) {
    roundTo(argument.getType(), tensor);
    values[argument] = tensor;
  }
  for (Operation &op : function.getBody().front()) {
    HostTensors operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    auto results = reference::evaluateOp(&op, operands, symbols);
    if (failed(results))
      return failure();
    for (auto [result, tensor] : llvm::zip_equal(op.getResults(), *results)) {
      roundTo(result.getType(), tensor);
      values[result] = std::move(tensor);
    }
  }
  return failure();
}

std::map<std::string, HostTensors>
PassHarness::evaluate(ModuleOp module, StringRef name,
                      const std::map<std::string, std::vector<double>> &given,
                      const reference::SymbolValues &symbols, bool rounds) {
  auto function = module.lookupSymbol<func::FuncOp>(name);
  if (!function) {
    ADD_FAILURE() << "no function " << name.str();
    return {};
  }
  auto textOf = [](Attribute attr) {
    return attr ? cast<StringAttr>(attr).getValue().str() : std::string();
  };
  HostTensors arguments;
  for (BlockArgument argument : function.getArguments()) {
    std::string key = textOf(function.getArgAttr(argument.getArgNumber(), train::kNameAttr));
    auto shape = reference::evaluateShape(argument.getType(), symbols);
    if (failed(shape)) {
      ADD_FAILURE() << "unknown size of " << key;
      return {};
    }
    HostTensor tensor = reference::makeTensor(*shape);
    if (auto it = given.find(key); it != given.end()) {
      EXPECT_EQ(it->second.size(), tensor.data.size()) << key;
      tensor.data = it->second;
    } else {
      std::mt19937_64 random(std::hash<std::string>()(key));
      std::normal_distribution<double> normal;
      bool isFloat = isa<FloatType>(getElementTypeOrSelf(argument.getType()));
      for (double &x : tensor.data)
        x = isFloat ? normal(random) : double(random() % 2);
    }
    arguments.push_back(std::move(tensor));
  }
  auto results = rounds ? evaluateRounded(function, std::move(arguments), symbols)
                        : reference::evaluate(function, arguments, symbols);
  if (failed(results)) {
    ADD_FAILURE() << "cannot evaluate @" << name.str();
    return {};
  }
  std::map<std::string, HostTensors> byName;
  for (auto [i, tensor] : llvm::enumerate(*results))
    byName[textOf(function.getResultAttr(i, train::kRoleAttr)) + ":" +
           textOf(function.getResultAttr(i, train::kNameAttr))]
        .push_back(tensor);
  return byName;
}

unsigned countOps(ModuleOp module, StringRef name) {
  unsigned count = 0;
  module.walk([&](Operation *op) { count += op->getName().getStringRef() == name; });
  return count;
}

} // namespace trainc::transforms
