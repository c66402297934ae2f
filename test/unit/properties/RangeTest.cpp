// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Claims of RangeOpInterface: sampled here to refute them, over every op that makes them.
#include "Samples.h"
#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainBuilder.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::Instance;

namespace {
Range hullOf(const HostTensor &tensor) {
  Range hull{Range::kInfinity, -Range::kInfinity};
  for (double x : tensor.data)
    hull = std::isnan(x) ? Range{hull.lo, hull.hi, true} : hull.unite(Range::number(x));
  return hull.lo <= hull.hi ? hull : Range::anything();
}

class Ranges : public properties::SampleTest {
protected:
  void expectInside(Instance &instance, ArrayRef<HostTensor> operands, ArrayRef<Range> ranges) {
    auto results = reference::evaluateOp(instance.op, operands, instance.symbols);
    // An index out of range ends a run.
    if (failed(results))
      return;
    for (auto [number, result] : llvm::enumerate(*results)) {
      Range range = inferRange(instance.op, number, ranges);
      for (double y : result.data) {
        // Overflow is not looked at.
        bool finite = llvm::all_of(ranges, [](const Range &operand) { return operand.isFinite(); });
        if (finite && std::isinf(y) && range.contains(std::copysign(Range::kUnbounded, y)))
          continue;
        EXPECT_TRUE(std::isnan(y) ? range.nan : range.contains(y))
            << y << " is not in " << range.lo << " .. " << range.hi << (range.nan ? " or NaN" : "")
            << ", of " << ranges[0].lo << " .. " << ranges[0].hi;
      }
    }
  }
};

class FiniteChanges : public properties::SampleTest {
protected:
  /// Results, and gradients of finite cotangents for all operands.
  std::optional<bool> areFinite(const SmallVector<double> &numbers, unsigned changed) {
    Instance instance(*context, sample());
    auto argument = dyn_cast<BlockArgument>(instance.op->getOperand(changed));
    auto differentiable = dyn_cast<DifferentiableOpInterface>(instance.op);
    if (!argument || !differentiable || !llvm::all_of(instance.op->getResults(), [](Value result) {
          return isa<FloatType>(getElementType(result));
        }))
      return std::nullopt;
    SmallVector<HostTensor> arguments(instance.arguments);
    for (auto [i, x] : llvm::enumerate(arguments[argument.getArgNumber()].data))
      x = numbers[i % numbers.size()];
    Block &block = instance.function.getBody().front();
    OpBuilder builder(block.getTerminator());
    TrainBuilder tb(builder, instance.op->getLoc());
    std::mt19937_64 random(11);
    SmallVector<Value> values(instance.op->getResults()), given;
    SmallVector<HostTensor> results = instance.evaluate();
    for (auto [result, tensor] : llvm::zip_equal(instance.op->getResults(), results)) {
      given.push_back(block.addArgument(result.getType(), result.getLoc()));
      arguments.push_back(properties::fill(tensor.shape, "n", random));
    }
    SmallVector<bool> needed;
    for (unsigned i = 0; i < instance.op->getNumOperands(); ++i)
      needed.push_back(differentiable.isDifferentiable(i));
    SmallVector<Value> gradients(needed.size());
    differentiable.buildVJP(tb, given, needed, gradients);
    for (auto [gradient, wanted] : llvm::zip_equal(gradients, needed))
      if (gradient && wanted)
        values.push_back(gradient);
    block.getTerminator()->setOperands(values);
    auto evaluated = reference::evaluateBlock(block, arguments, instance.symbols);
    if (failed(evaluated))
      return std::nullopt;
    for (const HostTensor &tensor : *evaluated)
      if (!llvm::all_of(tensor.data, [](double x) { return std::isfinite(x); }))
        return false;
    return true;
  }
};
} // namespace

TEST_P(Ranges, holdTheResults) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  SmallVector<Range> hulls, wide;
  for (auto [operand, tensor] : llvm::zip_equal(instance.op->getOperands(), instance.operands)) {
    hulls.push_back(hullOf(tensor));
    wide.push_back(rangeOfType(getElementType(operand)));
  }
  expectInside(instance, instance.operands, hulls);
  expectInside(instance, instance.operands, wide);
  // One operand is one number, as at padding.
  for (auto [i, operand] : llvm::enumerate(instance.op->getOperands())) {
    bool isFloat = isa<FloatType>(getElementType(operand));
    SmallVector<double> numbers = {0, 1};
    if (isFloat)
      numbers.append({-1, 0.5, -2.5, 1e4, -1e9, -Range::kInfinity, Range::kInfinity, NAN});
    else if (!getElementType(operand).isInteger(1))
      numbers.append({-1, 3, 300});
    for (double x : numbers) {
      SmallVector<HostTensor> operands(instance.operands);
      SmallVector<Range> ranges(hulls);
      for (auto [j, other] : llvm::enumerate(instance.op->getOperands())) {
        if (other != operand)
          continue;
        llvm::fill(operands[j].data, x);
        ranges[j] = Range::number(x);
      }
      expectInside(instance, operands, ranges);
    }
  }
}
TRAINC_FOR_EACH_SAMPLE(Ranges);

TEST_P(FiniteChanges, makeNoInfinity) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto known = dyn_cast<RangeOpInterface>(instance.op);
  if (!known)
    return;
  for (auto [i, operand] : llvm::enumerate(instance.op->getOperands())) {
    if (!isa<FloatType>(getElementType(operand)))
      continue;
    SmallVector<Range> ranges;
    SmallVector<bool> changed(instance.operands.size(), false);
    changed[i] = true;
    bool finite = true;
    for (const HostTensor &tensor : instance.operands) {
      ranges.push_back(hullOf(tensor));
      finite &= ranges.back().isFinite();
    }
    if (!finite)
      continue;
    for (SmallVector<double> numbers :
         {SmallVector<double>{0}, {1}, {-1, 0, 2}, {0.25, 0.5}, {-3, 5}}) {
      ranges[i] = {*std::min_element(numbers.begin(), numbers.end()),
                   *std::max_element(numbers.begin(), numbers.end())};
      if (!known.keepsFinite(ranges, changed))
        continue;
      if (std::optional<bool> are = areFinite(numbers, i))
        EXPECT_TRUE(*are) << "operand " << i << " from " << numbers.front();
    }
  }
}
TRAINC_FOR_EACH_SAMPLE(FiniteChanges);
