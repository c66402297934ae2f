// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is computed of one random word alone is a function of it, which is looked at on words that
// lie evenly over all: so that it does not matter in which ops it is written (a comparison, a
// floor of a sum, conversions and quotients).

#include "trainc/Formulas/DrawnMasks.h"

#include "dialects/Train/Reorder/Formula.h"
#include "dialects/Train/Splats.h"
#include "dialects/Train/TrainBuilder.h"
#include "trainc/Support/DeadOps.h"
#include <cmath>
#include <vector>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
constexpr int kWords = 4096;

/// A function of a random word: what gives the words, and its values on some of them.
struct Drawn {
  Operation *source;
  std::vector<double> values;
};

/// Values of a function of random words: `high` for a share `keep` of them, 0 for the others.
struct TwoValued {
  double high, keep;
};
} // namespace

static std::optional<TwoValued> twoValued(ArrayRef<double> samples) {
  double high = 0;
  int count = 0;
  for (double sample : samples) {
    if (sample == 0)
      continue;
    if (!(sample > 0) || (count && sample != high))
      return std::nullopt;
    high = sample;
    ++count;
  }
  // All or none: nothing is drawn.
  if (count == 0 || count == kWords)
    return std::nullopt;
  return TwoValued{high, double(count) / kWords};
}

static bool isKeep(double number, double keep) { return std::abs(number - keep) <= 1.0 / 2048; }

/// The result of `op`, if all its operands are functions of the words of one draw or constants.
static std::optional<Drawn> drawnBy(Operation *op, const llvm::DenseMap<Value, Drawn> &known) {
  // Elsewhere, but of the same draws.
  if (auto access = dyn_cast<ElementAccessOpInterface>(op); access && access.onlyMoves()) {
    auto it = known.find(op->getOperand(0));
    return it == known.end() ? std::nullopt : std::optional(it->second);
  }
  auto pointwise = dyn_cast<PointwiseOpInterface>(op);
  // Without a formula of an element nothing is known.
  if (!pointwise || op->getNumResults() != 1)
    return std::nullopt;
  int64_t rank = cast<RankedTensorType>(op->getResult(0).getType()).getRank();
  SmallVector<const Drawn *> operands;
  Drawn result{nullptr, std::vector<double>(kWords)};
  SmallVector<double> elements(op->getNumOperands());
  for (auto [value, element] : llvm::zip_equal(op->getOperands(), elements)) {
    auto it = known.find(value);
    operands.push_back(it == known.end() ? nullptr : &it->second);
    // Beside the draw only numbers: a probability that is data may be anything.
    std::optional<double> number = operands.back() ? std::nullopt : getSplatValue(value);
    if (!operands.back() && !number)
      return std::nullopt;
    element = number.value_or(0);
    // Numbers of two draws are independent.
    if (operands.back() && result.source && operands.back()->source != result.source)
      return std::nullopt;
    if (operands.back())
      result.source = operands.back()->source;
  }
  if (!result.source)
    return std::nullopt;
  // Where an element lies may not matter.
  if (dependsOnPlace(pointwise))
    return std::nullopt;
  SmallVector<int64_t> index(rank, 0);
  // The formula is of one element, and so are the words: one after the other says all of it.
  for (int word = 0; word < kWords; ++word) {
    for (auto [drawn, element] : llvm::zip_equal(operands, elements))
      if (drawn)
        element = drawn->values[word];
    result.values[word] = pointwise.evaluateScalar(elements, index);
  }
  return result;
}

/// x where `value` is x / keep, or null.
static Value unscaled(Value value, double keep) {
  // Exporters write either x / keep or x * (1 / keep).
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<DivOp, MulOp>(op))
    return {};
  std::optional<double> by = getSplatValue(op->getOperand(1));
  if (by && isKeep(isa<DivOp>(op) ? *by : 1 / *by, keep))
    return op->getOperand(0);
  return {};
}

/// x mask / keep, where a user of the mask, or one of its product's, makes it.
static std::optional<DrawnMask> scaledProduct(OpOperand &use, double keep) {
  auto product = dyn_cast<MulOp>(use.getOwner());
  if (!product)
    return std::nullopt;
  Value data = product->getOperand(1 - use.getOperandNumber());
  // Scaled before, as drop paths are written.
  if (Value x = unscaled(data, keep))
    return DrawnMask{product.getResult(), x, keep};
  // Or behind.
  if (product.getResult().hasOneUse()) {
    Value result = product.getResult().getUsers().begin()->getResult(0);
    if (unscaled(result, keep) == product.getResult())
      return DrawnMask{result, data, keep};
  }
  return std::nullopt;
}

SmallVector<DrawnMask> trainc::findDrawnMasks(func::FuncOp function) {
  SmallVector<DrawnMask> masks;
  llvm::DenseMap<Value, Drawn> known;
  // One block, so that operands come before their users.
  for (Operation &op : function.getBody().front()) {
    if (op.getNumResults() != 1)
      continue;
    Value result = op.getResult(0);
    if (isa<RandomBitsOp>(op)) {
      Drawn words{&op, std::vector<double>(kWords)};
      // Of all words, in the middle of even steps; they have a sign.
      for (int word = 0; word < kWords; ++word)
        words.values[word] = std::ldexp(double(word) + 0.5, 20) - 0x1p31;
      known[result] = std::move(words);
      continue;
    }
    std::optional<Drawn> drawn = drawnBy(&op, known);
    if (!drawn)
      continue;
    // 0 or 1 / keep with the probability keep: the mean is 1, as dropout's is.
    std::optional<TwoValued> values = twoValued(drawn->values);
    if (values && values->high != 1 && isKeep(1 / values->high, values->keep)) {
      masks.push_back({result, {}, values->keep});
      continue;
    }
    // 0 or 1: a mask only with a product that is scaled for it.
    if (values && values->high == 1)
      for (OpOperand &use : result.getUses())
        if (std::optional<DrawnMask> mask = scaledProduct(use, values->keep))
          masks.push_back(*mask);
    known[result] = std::move(*drawn);
  }
  return masks;
}

void trainc::dropMasks(func::FuncOp function, ArrayRef<DrawnMask> masks) {
  // The last one first: what it is without may be one that is replaced itself.
  for (const DrawnMask &mask : llvm::reverse(masks)) {
    Value value = mask.value, without = mask.without;
    if (!without) {
      OpBuilder builder(value.getDefiningOp());
      TrainBuilder tb(builder, value.getLoc());
      without = tb.scalarLike(value, 1);
    }
    value.replaceAllUsesWith(without);
  }
  eraseDeadOps(function.getBody().front());
}

SmallVector<Operation *> trainc::findDraws(func::FuncOp function) {
  SmallVector<Operation *> draws;
  function.walk([&](RandomBitsOp op) { draws.push_back(op); });
  return draws;
}
