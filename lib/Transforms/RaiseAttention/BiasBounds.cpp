// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranges of formulas of positions, such as ALiBi's slopes times distances: few ops above a bias say
// whether it can hide a column.

#include "lib/Transforms/RaiseAttention/BiasBounds.h"

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Ops above a value that are looked at. What lies further up is taken to be anything.
static constexpr unsigned kMostOps = 64;

/// `known`: of values that were looked at. They are those of one question, as the pass erases ops.
static Range findRange(Value value, llvm::SmallDenseMap<Value, Range> &known) {
  Operation *def = value.getDefiningOp();
  if (!def)
    return rangeOfType(getElementType(value));
  if (auto at = known.find(value); at != known.end())
    return at->second;
  // A value that is on its way counts as well: nothing reads itself.
  known.insert({value, rangeOfType(getElementType(value))});
  if (known.size() > kMostOps)
    return known.lookup(value);
  SmallVector<Range> operands;
  for (Value operand : def->getOperands())
    operands.push_back(findRange(operand, known));
  return known[value] = inferRange(def, cast<OpResult>(value).getResultNumber(), operands);
}

Range trainc::findRange(Value value) {
  llvm::SmallDenseMap<Value, Range> known;
  return ::findRange(value, known);
}
