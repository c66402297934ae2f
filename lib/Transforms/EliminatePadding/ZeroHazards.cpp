// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges decide: ops say of which operands they make finite numbers.

#include "lib/Transforms/EliminatePadding/ZeroHazards.h"

#include "trainc/Formulas/InputTests.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Whether zeros in place of what padding held make something infinite, or NaN, of floats.
void ZeroHazards::check(Operation *op, ArrayRef<Operand> operands) {
  SmallVector<bool> changed;
  SmallVector<Range> ranges;
  for (const Operand &operand : operands) {
    changed.push_back(operand.changed);
    ranges.push_back(operand.content.sure);
  }
  if (!llvm::is_contained(changed, true) || llvm::none_of(op->getResultTypes(), [](Type type) {
        return isa<FloatType>(getElementTypeOrSelf(type));
      }))
    return;
  // An op that tells no ranges may do anything.
  auto known = dyn_cast<RangeOpInterface>(op);
  if (!known || !known.keepsFinite(ranges, changed))
    reason = describeOp(op) + " may be infinite or no number where padding is 0";
}

/// From here on any element of the results may be one with a changed operand.
void ZeroHazards::scatter(Operation *op, ArrayRef<Operand> operands) {
  check(op, operands);
  SmallVector<Content> held;
  for (const Operand &operand : operands)
    held.push_back(operand.content);
  for (OpResult result : op->getResults()) {
    const Content content = inferContent(op, result.getResultNumber(), held);
    auto [it, isNew] = scattered.try_emplace(result, content);
    if (!isNew)
      it->second = it->second.unite(content);
  }
}

/// An op that reads scattered elements: each operand counts with what it holds anywhere.
void ZeroHazards::visit(Operation *op, SmallVector<Operand> operands) {
  // One number for the whole batch, a sum of losses over their count mostly: where that is 0, the
  // plain step's is infinite or no number as well, and both steps end.
  Value divisor = getDivisor(op);
  if (divisor && getRank(divisor) == 0 && !scattered.contains(divisor))
    return;
  for (auto [value, operand] : llvm::zip_equal(op->getOperands(), operands))
    if (auto it = scattered.find(value); it != scattered.end()) {
      operand.content = operand.changed ? operand.content.unite(it->second) : it->second;
      operand.changed = true;
    }
  scatter(op, operands);
}
