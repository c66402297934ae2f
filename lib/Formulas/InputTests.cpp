// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Comparisons of an input and conversions of it to booleans, by the ops that make them.

#include "trainc/Formulas/InputTests.h"

#include "dialects/Train/Splats.h"
#include "trainc/Analysis/ElementOrigin.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Calls `visit` for each op that reads elements of an input, maybe moved or of another integer
/// type, but does not only move them itself.
/// Each reader once for each value that it reads; moved and converted forms are followed.
static void forReaders(BlockArgument input, llvm::function_ref<void(Operation *, Value)> visit) {
  SmallVector<Value> worklist = {input};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (user->getNumResults() == 1 && findOrigin(user->getResult(0)) == input)
        worklist.push_back(user->getResult(0));
      else
        visit(user, value);
    }
  }
}

static bool isTest(Operation *op) {
  return isa<CastOp>(op) && getElementType(op->getResult(0)).isInteger(1);
}

/// Numbers that the model tells apart in the input: for padding by value. `neighbours`: also those
/// beside a bound.
SmallVector<int64_t> trainc::comparedNumbers(BlockArgument input, bool neighbours) {
  llvm::SmallSetVector<int64_t, 4> numbers;
  forReaders(input, [&](Operation *user, Value value) {
    // A conversion to a boolean asks for 0.
    if (isTest(user))
      numbers.insert(0);
    auto compare = dyn_cast<CompareOp>(user);
    if (!compare)
      return;
    for (Value operand : compare->getOperands()) {
      if (auto cast = operand.getDefiningOp<CastOp>(); cast && operand != value)
        operand = cast.getOperand();
      std::optional<double> number = getSplatValue(operand);
      if (!number)
        continue;
      numbers.insert(int64_t(*number));
      ComparePredicate predicate = compare.getPredicate();
      if (neighbours && predicate != ComparePredicate::eq && predicate != ComparePredicate::ne) {
        numbers.insert(int64_t(*number) - 1);
        numbers.insert(int64_t(*number) + 1);
      }
    }
  });
  return numbers.takeVector();
}

/// Different forms of the input are compared: a token with a token.
bool trainc::comparesWithItself(BlockArgument input) {
  bool found = false;
  forReaders(input, [&](Operation *user, Value) {
    auto compare = dyn_cast<CompareOp>(user);
    found |= compare && compare.getLhs() != compare.getRhs() &&
             findOrigin(compare.getLhs()) == input && findOrigin(compare.getRhs()) == input;
  });
  return found;
}

/// Its numbers go into results, not only into choices and indices.
bool trainc::isComputedWith(BlockArgument input) {
  bool found = false;
  forReaders(input, [&](Operation *user, Value) {
    found |= !isTest(user) && !isa<CompareOp, IndexOperandOpInterface>(user);
  });
  return found;
}

/// areAlike: no test tells two numbers that are no padding apart. needOrder: a test asks for being
/// above padding.
TokenTests trainc::findTokenTests(BlockArgument input, int64_t padding) {
  TokenTests tests;
  forReaders(input, [&](Operation *user, Value value) {
    if (isTest(user))
      tests.areAlike &= padding == 0;
    auto compare = dyn_cast<CompareOp>(user);
    if (!compare) {
      tests.areAlike &= isTest(user) || isa<IndexOperandOpInterface>(user);
      return;
    }
    bool left = compare.getLhs() == value;
    Value other = left ? compare.getRhs() : compare.getLhs();
    if (findOrigin(other) == input)
      return; // as documents are told apart
    if (auto cast = other.getDefiningOp<CastOp>())
      other = cast.getOperand();
    std::optional<double> number = getSplatValue(other);
    ComparePredicate predicate = compare.getPredicate();
    if (predicate == ComparePredicate::eq || predicate == ComparePredicate::ne) {
      tests.areAlike &= number == double(padding);
      return;
    }
    // x >= n and x < n split between n - 1 and n, the others between n and n + 1.
    bool orEqual = predicate == ComparePredicate::ge || predicate == ComparePredicate::lt;
    tests.needOrder = true;
    tests.areAlike &= left && number && *number <= double(padding) + orEqual;
  });
  return tests;
}

/// Of two operands, whatever they are.
std::optional<bool> trainc::testsEquality(Operation *op) {
  auto compare = dyn_cast<CompareOp>(op);
  if (compare && compare.getPredicate() == ComparePredicate::eq)
    return true;
  return compare && compare.getPredicate() == ComparePredicate::ne ? std::optional<bool>(false)
                                                                   : std::nullopt;
}

Value trainc::getDivisor(Operation *op) {
  auto quotient = dyn_cast<DivOp>(op);
  return quotient ? quotient->getOperand(1) : Value();
}
