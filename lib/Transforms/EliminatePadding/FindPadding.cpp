// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `find-padding`: chooses the mask and asks the flow of padding.

#include "dialects/Train/Splats.h"
#include "lib/Analysis/ElementOrigin.h"
#include "lib/Analysis/TokenInputs.h"
#include "lib/Transforms/EliminatePadding/EliminatePadding.h"
#include "lib/Transforms/EliminatePadding/PaddingFlow.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include "mlir/IR/Remarks.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_FINDPADDINGPASS
#include "lib/Transforms/EliminatePadding/EliminatePadding.h.inc"
} // namespace trainc

namespace {
/// Numbers that the ids are compared to: where padding is told by its id, it is one of them.
SmallVector<int64_t> comparedNumbers(BlockArgument ids) {
  SmallVector<int64_t> numbers;
  SmallVector<Value> worklist = {ids};
  while (!worklist.empty()) {
    Value value = worklist.pop_back_val();
    for (Operation *user : value.getUsers()) {
      if (user->getNumResults() == 1 && findOrigin(user->getResult(0)) == ids)
        worklist.push_back(user->getResult(0));
      if (!isa<CompareOp>(user))
        continue;
      for (Value operand : user->getOperands()) {
        if (auto cast = operand.getDefiningOp<CastOp>(); cast && operand != value)
          operand = cast.getOperand();
        if (std::optional<double> number = getSplatValue(operand);
            number && !llvm::is_contained(numbers, int64_t(*number)))
          numbers.push_back(int64_t(*number));
      }
    }
  }
  return numbers;
}

struct FindPaddingPass : trainc::impl::FindPaddingPassBase<FindPaddingPass> {
  using FindPaddingPassBase::FindPaddingPassBase;

  void runOnOperation() override {
    auto forward = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!forward)
      return;
    SmallVector<TokenInput> inputs = findTokenInputs(forward);
    auto *tokens = llvm::find_if(inputs, [](const TokenInput &input) {
      return input.role == TokenRole::Embed && input.knowsPadding() && getRank(input.input) == 2;
    });
    auto options = [&](StringRef name) {
      return remark::RemarkOpts::name(name).category("find-padding").function(forward.getName());
    };
    if (tokens == inputs.end()) {
      remark::missed(locationOf(forward), options("Declined"))
          << remark::add("padding is computed like tokens") << remark::reason("no input masks it");
      return;
    }
    PaddingInputs padding;
    padding.mask = {tokens->byMask ? tokens->mask : tokens->input,
                    tokens->byMask ? 0 : *tokens->padValue};
    for (const TokenInput &input : inputs)
      if (input.role == TokenRole::Label)
        padding.labels[input.input.getArgNumber()] = *input.padValue;

    // First whatever ids padding holds; then, if the model tells padding by an id, only that one.
    SmallVector<std::optional<int64_t>> guesses = {std::nullopt};
    if (tokens->byMask)
      for (int64_t number : comparedNumbers(tokens->input))
        guesses.push_back(number);
    PaddingFlow flow(forward);
    std::string first;
    bool found = false;
    for (std::optional<int64_t> guess : guesses) {
      padding.ids.clear();
      if (guess)
        padding.ids[tokens->input.getArgNumber()] = *guess;
      PaddingConditions conditions;
      std::string reason = flow.follow(padding, conditions);
      if (!reason.empty()) {
        if (first.empty())
          first = reason;
        continue;
      }
      const PaddingMask &mask = padding.mask;
      StringRef name = getArgName(forward, mask.input.getArgNumber());
      annotate(forward, mask, tokens->byMask, conditions);
      remark::passed(tokens->uses.front()->getOwner()->getLoc(), options("Found"))
          << remark::add("padding is where {0} is {1}; it reaches no token", name, mask.value);
      found = true;
      break;
    }
    if (!found)
      remark::missed(tokens->uses.front()->getOwner()->getLoc(), options("Declined"))
          << remark::add("padding is computed like tokens") << remark::reason("{0}", first);
  }

private:
  /// That of the first node.
  static Location locationOf(func::FuncOp function) {
    return function.getBody().front().front().getLoc();
  }

  void annotate(func::FuncOp forward, const PaddingMask &mask, bool byMask,
                const PaddingConditions &conditions) {
    Builder builder(&getContext());
    StringAttr input = builder.getStringAttr(getArgName(forward, mask.input.getArgNumber()));
    IntegerAttr value = builder.getI64IntegerAttr(mask.value);
    SmallVector<Attribute> list;
    auto add = [&](StringRef kind, ArrayRef<NamedAttribute> fields) {
      SmallVector<NamedAttribute> all = {builder.getNamedAttr("kind", builder.getStringAttr(kind))};
      llvm::append_range(all, fields);
      list.push_back(builder.getDictionaryAttr(all));
    };
    NamedAttribute maskField = builder.getNamedAttr("mask", input),
                   padding = builder.getNamedAttr("padding", value);
    // A mask of other numbers than 0 and 1 is more than a mask.
    if (byMask)
      add("binary", {builder.getNamedAttr("input", input)});
    for (const PaddingConditions::Fixed &fixed : conditions.fixed)
      add("fixed_where_padded",
          {maskField, padding,
           builder.getNamedAttr("input", builder.getStringAttr(getArgName(forward, fixed.input))),
           builder.getNamedAttr("shift", builder.getI64IntegerAttr(fixed.shift)),
           builder.getNamedAttr("value", builder.getI64IntegerAttr(fixed.value))});
    for (int64_t index : conditions.real)
      add("real_at",
          {maskField, padding, builder.getNamedAttr("index", builder.getI64IntegerAttr(index))});
    for (const PaddingConditions::Some &some : conditions.some)
      add("real_at",
          {builder.getNamedAttr("mask", builder.getStringAttr(getArgName(forward, some.input))),
           builder.getNamedAttr("padding", builder.getI64IntegerAttr(some.value)),
           builder.getNamedAttr("index", builder.getI64IntegerAttr(-2))});
    forward->setAttr(
        kPaddingAttr,
        builder.getDictionaryAttr(
            {builder.getNamedAttr("input", input), builder.getNamedAttr("value", value),
             builder.getNamedAttr("conditions", builder.getArrayAttr(list))}));
  }
};
} // namespace
