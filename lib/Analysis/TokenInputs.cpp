// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks index operands what they choose, and follows them back to inputs.

#include "trainc/Analysis/TokenInputs.h"
#include "trainc/Analysis/ElementOrigin.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

StringRef textOf(func::FuncOp function, BlockArgument argument, StringRef attribute) {
  auto text = function.getArgAttrOfType<StringAttr>(argument.getArgNumber(), attribute);
  return text ? text.getValue() : StringRef();
}

std::optional<int64_t> integerOf(func::FuncOp function, BlockArgument argument,
                                 StringRef attribute) {
  auto value = function.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), attribute);
  return value ? std::optional<int64_t>(value.getInt()) : std::nullopt;
}

/// Whether `op` takes whole rows of a parameter, as operand 1 says.
bool takesRows(func::FuncOp function, Operation *op) {
  // Mixed precision converts it first, and of several ranks each may hold a part of it.
  BlockArgument argument = findConverted(op->getOperand(0));
  auto mapped = dyn_cast<AxisMapOpInterface>(op);
  if (!mapped || !argument || textOf(function, argument, kRoleAttr) != "parameter" ||
      getRank(op->getOperand(0)) != 2)
    return false;
  AxisMap map = mapped.getAxisMap();
  // Any row, and every column of it.
  // The row is chosen by data (opaque), the column is the result's own.
  int row = map.operands[0][0], column = map.operands[0][1];
  return row >= 0 && column >= 0 && map.loops[row] == LoopKind::Opaque &&
         map.loops[column] == LoopKind::Parallel && !llvm::is_contained(map.operands[1], column);
}

/// Uses of one input as ids.
struct Ids {
  BlockArgument input;
  /// Of the longest table that they choose rows of.
  int64_t tableRows = 0;
  SmallVector<OpOperand *> uses;
};

/// Whether `ids` are what the model reads, not where (positions) or in which part (segments).
bool areTokens(func::FuncOp function, const Ids &ids, ArrayRef<Ids> all) {
  // What the user says goes before what the graph looks like.
  if (integerOf(function, ids.input, kPadTokenAttr) ||
      !textOf(function, ids.input, kPadMaskAttr).empty())
    return true; // the user says so
  for (const Ids &other : all) {
    if (other.input == ids.input || getDims(other.input) != getDims(ids.input))
      continue;
    // Of equals, the first.
    // Token ids choose among more rows than positions or segments do; the same shape is what makes
    // inputs comparable.
    bool first = ids.input.getArgNumber() < other.input.getArgNumber();
    if (other.tableRows > ids.tableRows || (other.tableRows == ids.tableRows && !first))
      return false;
  }
  return true;
}

/// The input that masks `ids`: as --pad-token names it, else by the convention of the names,
/// attention_mask for input_ids and decoder_attention_mask for decoder_input_ids.
BlockArgument findMask(func::FuncOp function, BlockArgument ids) {
  constexpr StringLiteral ending("attention_mask");
  StringRef wanted = textOf(function, ids, kPadMaskAttr), name = textOf(function, ids, kNameAttr);
  BlockArgument best;
  size_t longest = 0;
  for (BlockArgument argument : function.getArguments()) {
    if (textOf(function, argument, kRoleAttr) != "input" || getDims(argument) != getDims(ids) ||
        argument.use_empty())
      continue;
    StringRef other = textOf(function, argument, kNameAttr);
    if (!wanted.empty()) {
      if (other == wanted)
        return argument;
      continue;
    }
    // "decoder_" of decoder_input_ids belongs to decoder_attention_mask: the longest common
    // beginning wins.
    StringRef prefix = other;
    if (!prefix.consume_back(ending) || !name.starts_with(prefix))
      continue;
    if (!best || prefix.size() > longest) {
      best = argument;
      longest = prefix.size();
    }
  }
  return best;
}

} // namespace

SmallVector<TokenInput> trainc::findTokenInputs(func::FuncOp function) {
  SmallVector<Ids> ids;
  SmallVector<TokenInput> labels;
  function.walk([&](IndexOperandOpInterface op) {
    for (OpOperand &operand : op->getOpOperands()) {
      std::optional<IndexRule> rule = op.getIndexRule(operand.getOperandNumber());
      BlockArgument input = rule ? findOrigin(operand.get()) : BlockArgument();
      if (!input || input.getOwner() != &function.front() ||
          textOf(function, input, kRoleAttr) != "input")
        continue;
      // An index rule with an exception is a label's: the class that counts for nothing.
      if (rule->except) {
        auto same = [&](const TokenInput &label) {
          return label.input == input && label.padValue == rule->except;
        };
        auto *label = llvm::find_if(labels, same);
        if (label == labels.end()) {
          labels.push_back({input, TokenRole::Label, rule->except, {}, false, {}});
          label = &labels.back();
        }
        label->uses.push_back(&operand);
      } else if (takesRows(function, op)) {
        auto *entry = llvm::find_if(ids, [&](const Ids &other) { return other.input == input; });
        if (entry == ids.end()) {
          ids.push_back({input, 0, {}});
          entry = &ids.back();
        }
        // Tables of symbolic length count as empty: a known vocabulary beats them.
        int64_t rows = getDim(op->getOperand(0), 0).getConstant().value_or(0);
        entry->tableRows = std::max(entry->tableRows, rows);
        entry->uses.push_back(&operand);
      }
    }
  });

  SmallVector<TokenInput> result;
  for (const Ids &entry : ids) {
    if (!areTokens(function, entry, ids))
      continue;
    TokenInput tokens{entry.input, TokenRole::Embed, {}, {}, false, entry.uses};
    std::optional<int64_t> named = integerOf(function, entry.input, kPadTokenAttr);
    tokens.padValue = named ? named : integerOf(function, entry.input, kPaddingIdxAttr);
    tokens.mask = findMask(function, entry.input);
    // A value that the user has named is what padding is; else the mask says where it lies.
    tokens.byMask = tokens.mask && !named;
    result.push_back(std::move(tokens));
  }
  result.append(labels.begin(), labels.end());
  // A total order, since functions are walked in the order of ops: packages do not depend on which
  // op stands first.
  llvm::sort(result, [](const TokenInput &a, const TokenInput &b) {
    return std::make_tuple(a.input.getArgNumber(), a.role, a.padValue) <
           std::make_tuple(b.input.getArgNumber(), b.role, b.padValue);
  });
  return result;
}
