// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Bodies behind each other, then common subexpressions and what is dead.

#include "lib/Schedule/JoinColumnSums/JoinedKernel.h"

#include "mlir/IR/Dominance.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/CSE.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Copies the ops of a kernel's body; inputs that `values` knows are there already.
static void cloneBody(OpBuilder &inner, FusionOp fusion, Block &body, const IRMapping &values,
                      IRMapping &mapping) {
  Block &from = fusion.getBody().front();
  for (auto [argument, input] : llvm::zip_equal(from.getArguments(), fusion.getInputs()))
    mapping.map(argument, values.lookup(input));
  for (Operation &op : from.without_terminator())
    inner.clone(op, mapping);
}

/// Inputs that nothing in the body reads are none.
static void dropUnusedInputs(FusionOp fusion) {
  Block &body = fusion.getBody().front();
  for (unsigned number = body.getNumArguments(); number-- > 0;)
    if (body.getArgument(number).use_empty()) {
      body.eraseArgument(number);
      fusion->eraseOperand(number);
    }
}

FusionOp trainc::joinKernels(OpBuilder &builder, FusionOp first, FusionOp second) {
  auto body = std::make_unique<Block>();
  OpBuilder inner(builder.getContext());
  inner.setInsertionPointToEnd(body.get());
  llvm::SetVector<Value> inputs;
  IRMapping values;
  auto take = [&](Value input) {
    if (!values.contains(input) && inputs.insert(input))
      values.map(input, body->addArgument(input.getType(), input.getLoc()));
  };
  llvm::for_each(first.getInputs(), take);
  IRMapping ofFirst, ofSecond;
  cloneBody(inner, first, *body, values, ofFirst);
  Operation *firstYield = first.getBody().front().getTerminator();
  for (auto [result, yielded] : llvm::zip_equal(first.getResults(), firstYield->getOperands()))
    values.map(result, ofFirst.lookup(yielded));
  // Results of the first that the second reads are no inputs: they are in the body by now.
  llvm::for_each(second.getInputs(), take);
  cloneBody(inner, second, *body, values, ofSecond);

  // A result has no buffer any more where the other kernel alone has read it.
  SmallVector<Value> results, yielded;
  auto isRead = [&](Value result) {
    return llvm::any_of(result.getUsers(), [&](Operation *user) { return user != second; });
  };
  for (auto [fusion, mapping] : {std::pair(first, &ofFirst), std::pair(second, &ofSecond)})
    for (auto [result, value] : llvm::zip_equal(
             fusion.getResults(), fusion.getBody().front().getTerminator()->getOperands()))
      if (isRead(result)) {
        results.push_back(result);
        yielded.push_back(mapping->lookup(value));
      }
  YieldOp::create(inner, firstYield->getLoc(), yielded);
  auto joined = FusionOp::create(builder, builder.getFusedLoc({first.getLoc(), second.getLoc()}),
                                 ValueRange(results).getTypes(), inputs.getArrayRef());
  joined.getBody().push_back(body.release());
  for (auto [from, to] : llvm::zip_equal(results, joined.getResults()))
    from.replaceAllUsesWith(to);
  second.erase();
  first.erase();

  assert(!yielded.empty() && "somebody reads what was joined");
  // Both bodies have computed what they have in common from the same inputs.
  DominanceInfo dominance(joined);
  IRRewriter rewriter(joined);
  eliminateCommonSubExpressions(rewriter, dominance, joined);
  dropUnusedInputs(joined);
  return joined;
}
