// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Constant folding through the reference evaluator: every op that it can evaluate folds, with no
// folder of its own.
#include "lib/Transforms/FoldConstants/FoldConstants.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Analysis/AffineIntegers.h"
#include "trainc/Reference/Reference.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::reference::HostTensors;

namespace trainc {
#define GEN_PASS_DEF_FOLDCONSTANTSPASS
#include "lib/Transforms/FoldConstants/FoldConstants.h.inc"
} // namespace trainc

namespace {
struct FoldConstants : trainc::impl::FoldConstantsPassBase<FoldConstants> {
  using FoldConstantsPassBase::FoldConstantsPassBase;

  void runOnOperation() override {
    known.clear();
    // Operands come before their users, so one walk is enough.
    SmallVector<Operation *> ops;
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    AffineIntegers affine;
    for (Operation *op : ops) {
      visit(op);
      foldUniform(op, affine);
    }
    // What only folded ops used, constants made in between included.
    ops.clear();
    getOperation().walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : llvm::reverse(ops))
      if (isOpTriviallyDead(op))
        op->erase();
  }

private:
  /// Large results would make the IR, and the package, larger than the op that computes them.
  bool isSmall(Operation *op) const {
    return llvm::all_of(op->getResultTypes(), [&](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape() && tensor.getNumElements() <= maxElements;
    });
  }

  /// Integers of any size that are the same everywhere, whatever they are made of, and formulas of
  /// such numbers.
  /// A splat takes no room, whatever its size.
  void foldUniform(Operation *op, AffineIntegers &affine) {
    if (op->getNumResults() != 1 || op->getNumOperands() == 0 || op->use_empty() || !isPure(op))
      return;
    Value value = op->getResult(0);
    std::optional<double> number = getNumber(op);
    if (std::optional<AffineInteger> known = affine.get(value); known && known->isUniform())
      if (std::optional<int64_t> constant = known->constant.getConstant())
        number = double(*constant);
    if (!number)
      return;
    OpBuilder builder(op);
    TrainBuilder tb(builder, op->getLoc());
    Value full = tb.full(getDims(value), getElementType(value), *number);
    const bool isWhole = *number == std::trunc(*number) && std::fabs(*number) < 1e15;
    remark::passed(op->getLoc(), options())
        << remark::add("folded {0}: {1} everywhere", op->getName().getStringRef(),
                       isWhole ? std::to_string(int64_t(*number)) : std::to_string(*number));
    value.replaceAllUsesWith(full);
  }
  /// The number that a formula of the same numbers everywhere gives, as a mask of ones does. Of
  /// floats and booleans: integers are affine's, a double does not hold all of them.
  static std::optional<double> getNumber(Operation *op) {
    auto pointwise = dyn_cast<PointwiseOpInterface>(op);
    auto isHeld = [](Type type) {
      Type element = getElementTypeOrSelf(type);
      return isa<FloatType>(element) || element.isInteger(1);
    };
    if (!pointwise || !llvm::all_of(op->getOperandTypes(), isHeld) ||
        !llvm::all_of(op->getResultTypes(), isHeld))
      return std::nullopt;
    if (dependsOnPlace(pointwise))
      return std::nullopt;
    SmallVector<int64_t> index(getRank(op->getResult(0)), 0);
    SmallVector<double> numbers;
    for (Value operand : op->getOperands()) {
      std::optional<double> number = getSplatValue(operand);
      if (!number)
        return std::nullopt;
      numbers.push_back(*number);
    }
    const double result = trainc::train::detail::wrapValue(pointwise.evaluateScalar(numbers, index),
                                                           op->getResult(0).getType());
    return std::isfinite(result) ? std::optional(result) : std::nullopt;
  }

  remark::RemarkOpts options() {
    return remark::RemarkOpts::name("FoldConstants")
        .category("fold-constants")
        .function(getOperation().getName());
  }

  /// Evaluates one op whose operands are known. Ops without operands are constants: they are known,
  /// and stay.
  void visit(Operation *op) {
    // What the others send is not known, though one rank alone would get what it gives.
    if (op->hasTrait<CollectiveCall>())
      return;
    if (op->getNumResults() == 0 || op->getNumRegions() != 0 || !isPure(op) ||
        !trainc::reference::isEvaluable(op))
      return;
    SmallVector<trainc::reference::HostTensor> operands;
    for (Value operand : op->getOperands()) {
      auto it = known.find(operand);
      if (it == known.end())
        return;
      operands.push_back(it->second);
    }
    if (!isSmall(op)) {
      if (operands.empty())
        return;
      auto missed = remark::missed(op->getLoc(), options());
      missed << remark::reason("the result has more than {0} elements or a symbolic size",
                               int64_t(maxElements));
      if (llvm::any_of(op->getResultTypes(),
                       [](Type type) { return !cast<RankedTensorType>(type).hasStaticShape(); }))
        missed << remark::suggest("give sizes numbers: trainc --dim NAME=N");
      return;
    }
    // The evaluator may refuse (a division by zero): the op then stays, to fail as it would.
    FailureOr<HostTensors> results = trainc::reference::evaluateOp(op, operands, {});
    if (failed(results))
      return;
    SmallVector<DenseElementsAttr> attributes;
    for (auto [type, tensor] : llvm::zip_equal(op->getResultTypes(), *results)) {
      attributes.push_back(trainc::reference::toAttribute(cast<RankedTensorType>(type), tensor));
      if (!attributes.back())
        return;
    }
    SmallVector<Value> values(op->getResults());
    if (!operands.empty()) {
      // Several results may be data and fill, so each is asked for by itself.
      OpBuilder builder(op);
      SmallVector<Operation *> constants;
      for (auto [value, attribute] : llvm::zip_equal(values, attributes)) {
        Operation *constant = op->getDialect()->materializeConstant(builder, attribute,
                                                                    value.getType(), op->getLoc());
        // Not every type has a constant op.
        if (!constant) {
          for (Operation *made : constants)
            made->erase();
          return;
        }
        constants.push_back(constant);
      }
      remark::passed(op->getLoc(), options())
          << remark::add("folded {0}", op->getName().getStringRef());
      for (auto [value, constant] : llvm::zip_equal(values, constants)) {
        value.replaceAllUsesWith(constant->getResult(0));
        value = constant->getResult(0);
      }
    }
    // Rounded as the op would have rounded them.
    // Later ops must see what the program would: elements in the op's own type, not the evaluator's
    // f64.
    for (auto [value, attribute, tensor] : llvm::zip_equal(values, attributes, *results)) {
      tensor.data.clear();
      for (Attribute element : attribute.getValues<Attribute>())
        tensor.data.push_back(trainc::train::detail::attrValue(element));
      known[value] = std::move(tensor);
    }
  }

  llvm::DenseMap<Value, trainc::reference::HostTensor> known;
};
} // namespace
