// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What holds for every op: it has samples, its interfaces agree with each other, costs can be
// evaluated, selections select, evaluation mode keeps shapes.
#include "Samples.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
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
    // There to be refused: compute nothing; say what is not so, or not all. What a plug-in computes
    // is not known here.
    static constexpr StringLiteral refused[] = {"train.external", "testdialect.call",
                                                "testdialect.mistyped", "testdialect.project",
                                                "testdialect.silent"};
    if (llvm::is_contained(refused, name.getStringRef()))
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

static void advance(SmallVectorImpl<int64_t> &index, ArrayRef<int64_t> shape) {
  for (size_t axis = shape.size(); axis-- > 0 && ++index[axis] == shape[axis];)
    index[axis] = 0;
}

TEST_P(Interfaces, subrangesHoldTheElements) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto ranges = dyn_cast<SubrangeOpInterface>(instance.op);
  if (!ranges)
    return;
  auto results = instance.evaluate();
  for (auto [number, result] : llvm::enumerate(results)) {
    SmallVector<int64_t> index(result.shape.size(), 0);
    for (double element : result.data) {
      std::optional<double> found;
      for (auto [operand, tensor] : llvm::enumerate(instance.operands)) {
        const Subrange range = ranges.getSubrange(operand, number);
        int64_t position = 0;
        bool inside = true;
        for (size_t axis = 0; axis < index.size(); ++axis) {
          FailureOr<int64_t> start = instance.symbols.evaluate(range.starts[axis]);
          ASSERT_TRUE(succeeded(start));
          const int64_t at = *start + range.steps[axis] * index[axis];
          inside &= at >= 0 && at < tensor.shape[axis];
          position = position * tensor.shape[axis] + at;
        }
        if (!inside)
          continue;
        EXPECT_FALSE(found) << "operands overlap";
        found = tensor.data[position];
      }
      if (!found) {
        ASSERT_TRUE(ranges.getFill()) << "an element comes from nowhere";
        found = train::detail::attrValue(ranges.getFill());
      }
      EXPECT_EQ(*found, element);
      advance(index, result.shape);
    }
  }
}

TEST_P(Interfaces, whatOnlyMovesHasElementsOfItsOperand) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto access = dyn_cast<ElementAccessOpInterface>(instance.op);
  if (!access || !access.onlyMoves())
    return;
  for (const HostTensor &result : instance.evaluate())
    for (double element : result.data)
      EXPECT_TRUE(llvm::is_contained(instance.operands[0].data, element));
}

TEST_P(Interfaces, choicesTakeOneOfTwo) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto choice = dyn_cast<ChoiceOpInterface>(instance.op);
  if (!choice)
    return;
  auto operand = [&](Value value, size_t i) {
    const HostTensor &tensor =
        instance.operands[llvm::find(instance.op->getOperands(), value).getIndex()];
    return tensor.data[tensor.shape.empty() ? 0 : i];
  };
  const HostTensor result = instance.evaluate()[0];
  for (auto [i, element] : llvm::enumerate(result.data))
    EXPECT_EQ(element, operand(choice.getCondition(), i) != 0 ? operand(choice.getOnTrue(), i)
                                                              : operand(choice.getOnFalse(), i));
}

TEST_P(Interfaces, rowsAreSelected) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto rows = dyn_cast<RowSelectionOpInterface>(instance.op);
  if (!rows)
    return;
  EXPECT_EQ(rows.getIndex(), rows.getIndexMutable().get());
  auto valueOf = [&](Value value) -> const HostTensor & {
    return instance.operands[llvm::find(instance.op->getOperands(), value).getIndex()];
  };
  const HostTensor &data = valueOf(rows.getData()), &chosen = valueOf(rows.getIndex());
  const HostTensor result = instance.evaluate()[0];
  SmallVector<int64_t> index(result.shape.size(), 0);
  for (double element : result.data) {
    int64_t position = 0;
    const auto row = int64_t(chosen.data[index[rows.getAxis()]]);
    for (size_t axis = 0; axis < index.size(); ++axis)
      position = position * data.shape[axis] + (axis == rows.getAxis() ? row : index[axis]);
    EXPECT_EQ(element, row < 0 ? 0 : data.data[position]);
    advance(index, result.shape);
  }
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
