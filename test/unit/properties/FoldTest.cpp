// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Canonicalization keeps values: on arguments, on constants, and with each operand filled with 0, 1
// or -1, where folders have their special cases.
#include "Samples.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Transforms/Passes.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

namespace {
class Folds : public properties::SampleTest {
protected:
  /// Replaces an operand of the op by a constant of these values.
  static bool makeConstant(Instance &instance, unsigned operand, const HostTensor &values) {
    OpBuilder builder(instance.op);
    Value old = instance.op->getOperand(operand);
    auto type = cast<RankedTensorType>(old.getType());
    Operation *constant;
    if (!type.hasStaticShape()) {
      if (!llvm::all_equal(values.data) || !isa<FloatType>(type.getElementType()))
        return false;
      constant = FullOp::create(builder, old.getLoc(), type,
                                builder.getFloatAttr(type.getElementType(), values.data[0]));
    } else {
      DenseElementsAttr attribute = reference::toAttribute(type, values);
      if (!attribute)
        return false;
      constant = ConstantOp::create(builder, old.getLoc(), attribute);
    }
    instance.op->setOperand(operand, constant->getResult(0));
    instance.operands[operand] = values;
    return true;
  }

  void check(Instance &instance, StringRef what) {
    auto expected = reference::evaluateOp(instance.op, instance.operands, instance.symbols);
    if (failed(expected))
      return; // not a valid instance, such as an index out of range
    Block &block = instance.function.getBody().front();
    block.getTerminator()->setOperands(instance.op->getResults());
    instance.function.setFunctionType(
        FunctionType::get(context.get(), block.getArgumentTypes(), instance.op->getResultTypes()));
    PassManager passes(context.get());
    passes.addPass(createCanonicalizerPass());
    ASSERT_TRUE(succeeded(passes.run(*instance.module))) << what.str();
    auto actual = reference::evaluateBlock(block, instance.arguments, instance.symbols);
    ASSERT_TRUE(succeeded(actual)) << what.str();
    ASSERT_EQ(actual->size(), expected->size());
    for (auto [a, e] : llvm::zip_equal(*actual, *expected))
      expectEqual(a, e, 1e-12, what);
  }
};
} // namespace

TEST_P(Folds, keepValues) {
  Instance plain(*context, sample());
  ASSERT_TRUE(plain.op);
  unsigned count = plain.op->getNumOperands();
  check(plain, "arguments");

  Instance constants(*context, sample());
  bool all = count > 0;
  for (unsigned i = 0; i < count; ++i)
    all &= makeConstant(constants, i, SmallVector<HostTensor>(constants.operands)[i]);
  if (all)
    check(constants, "constants");

  for (unsigned i = 0; i < count; ++i)
    for (double value : {0.0, 1.0, -1.0}) {
      Instance special(*context, sample());
      if (value < 0 && getElementType(special.op->getOperand(i)).isInteger(1))
        continue;
      if (makeConstant(special, i, reference::makeTensor(special.operands[i].shape, value)))
        check(special, "operand " + std::to_string(i) + " = " + std::to_string(int(value)));
    }
}

TRAINC_FOR_EACH_SAMPLE(Folds);
