// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What holds for every op: it has samples, its interfaces agree with each other, costs can be
// evaluated, selections select, evaluation mode keeps shapes.
#include "Samples.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/raw_ostream.h"
#include <set>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

TEST(Registry, everyOpHasSamples) {
  auto context = properties::makeContext();
  std::set<std::string> sampled;
  for (const properties::Sample &sample : properties::getSamples())
    sampled.insert(sample.op);
  for (RegisteredOperationName name : context->getRegisteredOperations()) {
    StringRef dialect = name.getDialectNamespace();
    if (dialect != TrainDialect::getDialectNamespace() && dialect != "testdialect")
      continue;
    if (name.getStringRef() == "testdialect.call") // computes nothing: there to be refused
      continue;
    bool speaks =
        name.hasInterface<AxisMapOpInterface>() || name.hasInterface<PointwiseOpInterface>() ||
        name.hasInterface<ReductionOpInterface>() || name.hasInterface<ReferenceOpInterface>() ||
        name.hasInterface<ElementAccessOpInterface>() ||
        name.hasInterface<DecomposableOpInterface>() ||
        name.hasInterface<DifferentiableOpInterface>() || name.hasInterface<FusionOpInterface>() ||
        name.hasInterface<SliceOpInterface>();
    EXPECT_TRUE(!speaks || sampled.count(name.getStringRef().str()))
        << name.getStringRef().str() << " has no sample in SampleTable.cpp";
  }
}

using Interfaces = properties::SampleTest;

TEST_P(Interfaces, areConsistent) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  Operation *op = instance.op;
  EXPECT_TRUE(isPure(op));
  EXPECT_TRUE(reference::isEvaluable(op));
  auto fusion = dyn_cast<FusionOpInterface>(op);
  ASSERT_TRUE(fusion);
  switch (fusion.getFusionRole()) {
  case FusionRole::Pointwise:
    EXPECT_TRUE(isa<PointwiseOpInterface>(op));
    break;
  case FusionRole::Access:
    EXPECT_TRUE(isa<ElementAccessOpInterface>(op));
    break;
  case FusionRole::Reduction:
    EXPECT_TRUE(isa<ReductionOpInterface>(op));
    break;
  case FusionRole::Standalone:
    EXPECT_TRUE((isa<ScatterOpInterface, ScanOpInterface, ContractionOpInterface>(op)));
    break;
  case FusionRole::None:
    EXPECT_TRUE(isa<DecomposableOpInterface>(op) || op->getNumRegions() == 1);
    break;
  case FusionRole::View:
  case FusionRole::Library:
    break;
  }
}

TEST_P(Interfaces, printAsTheyParse) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  std::string text, generic;
  llvm::raw_string_ostream(text) << *instance.module;
  llvm::raw_string_ostream stream(generic);
  instance.module->print(stream, OpPrintingFlags().printGenericOpForm());
  for (const std::string &printed : {text, generic}) {
    auto again = parseSourceString<ModuleOp>(printed, context.get());
    ASSERT_TRUE(again) << printed;
    std::string second;
    llvm::raw_string_ostream(second) << *again;
    EXPECT_EQ(second, text);
  }
}

TEST_P(Interfaces, costsAreNumbers) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto cost = dyn_cast<CostOpInterface>(instance.op);
  if (!cost)
    return;
  FailureOr<int64_t> flops = instance.symbols.evaluate(cost.getFlops());
  ASSERT_TRUE(succeeded(flops));
  EXPECT_GE(*flops, 0);
  (void)cost.getRecomputeClass();
  EXPECT_LE(cost.getElementCost(), 1000u);
}

TEST_P(Interfaces, evaluationGivesTheTypesShapes) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto results = instance.evaluate();
  ASSERT_EQ(results.size(), instance.op->getNumResults());
  for (auto [result, tensor] : llvm::zip(instance.op->getResults(), results))
    EXPECT_EQ(int64_t(tensor.data.size()), tensor.size());
}

TEST_P(Interfaces, slicesSelect) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto slice = dyn_cast<SliceOpInterface>(instance.op);
  if (!slice || slice.getSlicedAxis() < 0)
    return;
  auto expected = instance.evaluate();
  OpBuilder builder(context.get());
  builder.setInsertionPointAfter(instance.op);
  TrainBuilder tb(builder, instance.op->getLoc());
  Value sliced = slice.buildSliced(tb, instance.op->getOperand(0), slice.getSlicedAxis());
  ASSERT_TRUE(sliced);
  EXPECT_EQ(getDim(sliced, slice.getSlicedAxis()), slice.getSlicedExtent());
  ASSERT_TRUE(succeeded(verify(*instance.module)));
  auto actual = instance.evaluate(ValueRange{sliced});
  ASSERT_TRUE(succeeded(actual));
  EXPECT_EQ((*actual)[0].data, expected[0].data);
  EXPECT_EQ((*actual)[0].shape.size(), expected[0].shape.size() + slice.dropsAxis());
}

TEST_P(Interfaces, evaluationModeKeepsTypes) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto mode = dyn_cast<EvalModeOpInterface>(instance.op);
  if (!mode)
    return;
  OpBuilder builder(context.get());
  builder.setInsertionPointAfter(instance.op);
  TrainBuilder tb(builder, instance.op->getLoc());
  SmallVector<Value> values;
  mode.buildEvalMode(tb, values);
  ASSERT_EQ(values.size(), instance.op->getNumResults());
  for (auto [value, result] : llvm::zip(values, instance.op->getResults()))
    EXPECT_EQ(value.getType(), result.getType());
}

TEST_P(Interfaces, reductionsHaveANeutralElement) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto reduction = dyn_cast<ReductionOpInterface>(instance.op);
  if (!reduction)
    return;
  Type type = instance.op->getResult(0).getType();
  for (double x : {0.0, 1.0, -2.5, 1e30}) {
    if (isa<IntegerType>(getElementTypeOrSelf(type)) && x != 0 && x != 1)
      continue;
    EXPECT_EQ(reduction.evaluateCombine(reduction.evaluateIdentity(), x), x);
    EXPECT_EQ(reduction.evaluateCombine(x, reduction.evaluateIdentity()), x);
  }
  EXPECT_EQ(reduction.getIdentity(getElementTypeOrSelf(type)).getType(),
            getElementTypeOrSelf(type));
}

TRAINC_FOR_EACH_SAMPLE(Interfaces);
