// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Vector-Jacobian products against central differences of the reference evaluation, in double, for
// random cotangents of all results together and of each alone.
#include "Samples.h"
#include "dialects/Train/TrainBuilder.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

namespace {
bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

class Gradients : public properties::SampleTest {
protected:
  /// <cotangents, op(operands)>
  double project(Instance &instance, ArrayRef<HostTensor> operands,
                 ArrayRef<HostTensor> cotangents) {
    auto results = reference::evaluateOp(instance.op, operands, instance.symbols);
    EXPECT_TRUE(succeeded(results));
    double sum = 0;
    for (auto [result, cotangent] : llvm::zip_equal(*results, cotangents))
      for (auto [y, g] : llvm::zip(result.data, cotangent.data))
        sum += g == 0 ? 0 : y * g;
    return sum;
  }

  /// `active[i]`: result i has a cotangent.
  void check(Instance &instance, ArrayRef<bool> active) {
    Operation *op = instance.op;
    auto differentiable = cast<DifferentiableOpInterface>(op);
    std::mt19937_64 random(7);
    SmallVector<HostTensor> results = instance.evaluate(), cotangents;
    for (auto [tensor, on] : llvm::zip_equal(results, active))
      cotangents.push_back(on ? properties::fill(tensor.shape, "n", random)
                              : reference::makeTensor(tensor.shape));

    // The gradients as ops behind the op, cotangents as further arguments.
    Block &block = instance.function.getBody().front();
    SmallVector<Value> given;
    SmallVector<HostTensor> arguments(instance.arguments);
    for (auto [result, tensor, on] : llvm::zip_equal(op->getResults(), cotangents, active)) {
      given.push_back(on ? block.addArgument(result.getType(), op->getLoc()) : Value());
      if (on)
        arguments.push_back(tensor);
    }
    OpBuilder builder(block.getTerminator());
    TrainBuilder tb(builder, op->getLoc());
    SmallVector<bool> needed;
    for (unsigned i = 0; i < op->getNumOperands(); ++i)
      needed.push_back(differentiable.isDifferentiable(i));
    SmallVector<Value> gradients(op->getNumOperands());
    differentiable.buildVJP(tb, given, needed, gradients);
    SmallVector<Value> values;
    for (auto [gradient, operand, wanted] : llvm::zip_equal(gradients, op->getOperands(), needed)) {
      if (!gradient || !wanted)
        continue;
      ASSERT_EQ(gradient.getType(), operand.getType()) << "type of the gradient";
      values.push_back(gradient);
    }
    // A use, so that the verifier looks at what was built.
    block.getTerminator()->setOperands(values);
    instance.function.setFunctionType(FunctionType::get(context.get(), block.getArgumentTypes(),
                                                        block.getTerminator()->getOperandTypes()));
    ASSERT_TRUE(succeeded(verify(*instance.module)));
    auto evaluated = reference::evaluateBlock(block, arguments, instance.symbols);
    ASSERT_TRUE(succeeded(evaluated));

    unsigned next = 0;
    for (unsigned i = 0; i < op->getNumOperands(); ++i) {
      if (!needed[i])
        continue;
      EXPECT_TRUE(isFloat(op->getOperand(i)));
      SmallVector<HostTensor> operands(instance.operands);
      HostTensor expected = reference::makeTensor(operands[i].shape);
      for (size_t e = 0; e < expected.data.size(); ++e) {
        double x = operands[i].data[e];
        if (std::isinf(x))
          continue; // masked: constant around it
        double h = 1e-5 * std::max(1.0, std::fabs(x));
        operands[i].data[e] = x + h;
        double above = project(instance, operands, cotangents);
        operands[i].data[e] = x - h;
        double below = project(instance, operands, cotangents);
        operands[i].data[e] = x;
        expected.data[e] = (above - below) / (2 * h);
      }
      HostTensor actual =
          gradients[i] ? (*evaluated)[next++] : reference::makeTensor(operands[i].shape);
      expectEqual(actual, expected, 1e-6, "gradient of operand " + std::to_string(i));
    }
  }
};
} // namespace

TEST_P(Gradients, equalFiniteDifferences) {
  Instance probe(*context, sample());
  ASSERT_TRUE(probe.op);
  auto differentiable = dyn_cast<DifferentiableOpInterface>(probe.op);
  if (!differentiable || !differentiable.hasDerivative())
    return;
  SmallVector<bool> floats;
  for (unsigned i = 0; i < probe.op->getNumResults(); ++i)
    floats.push_back(differentiable.isDifferentiableResult(i));
  if (llvm::none_of(floats, [](bool on) { return on; }))
    return;
  // A value used twice as one op's operand has one gradient an operand; the sum is autodiff's.
  {
    SCOPED_TRACE("all results");
    Instance instance(*context, sample());
    check(instance, floats);
  }
  if (llvm::count(floats, true) < 2)
    return;
  for (size_t i = 0; i < floats.size(); ++i) {
    if (!floats[i])
      continue;
    SCOPED_TRACE("result " + std::to_string(i));
    SmallVector<bool> one(floats.size(), false);
    one[i] = true;
    Instance instance(*context, sample());
    check(instance, one);
  }
}

TRAINC_FOR_EACH_SAMPLE(Gradients);
