// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Named inputs first: an id without a name is for the others.

#include "trainc/Conversion/ONNXToTrain/Roles/PadTokens.h"
#include "trainc/Analysis/TokenInputs.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Inputs only, by name.
static std::optional<unsigned> findInput(func::FuncOp forward, StringRef wanted) {
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto role = forward.getArgAttrOfType<StringAttr>(i, kRoleAttr);
    auto name = forward.getArgAttrOfType<StringAttr>(i, kNameAttr);
    if (role && role == "input" && name && name == wanted)
      return i;
  }
  return std::nullopt;
}

/// "'input_ids', 'decoder_input_ids'"
static std::string idInputs(func::FuncOp forward) {
  std::string text;
  for (const TokenInput &tokens : findTokenInputs(forward))
    if (tokens.role == TokenRole::Embed)
      text += (text.empty() ? "'" : ", '") +
              forward.getArgAttrOfType<StringAttr>(tokens.input.getArgNumber(), kNameAttr)
                  .getValue()
                  .str() +
              "'";
  return text;
}

std::string trainc::setPadTokens(func::FuncOp forward, ArrayRef<PadToken> tokens,
                                 ArrayRef<std::pair<std::string, int64_t>> paddingIds) {
  Builder builder(forward.getContext());
  // What the model's embeddings say about padding; inputs that are gone are passed over.
  for (auto &[name, id] : paddingIds)
    if (std::optional<unsigned> input = findInput(forward, name))
      forward.setArgAttr(*input, kPaddingIdxAttr, builder.getI64IntegerAttr(id));
  std::string known = idInputs(forward);
  // Every message below ends with what there is.
  std::string which = known.empty()
                          ? "no input of the model holds token ids: none chooses rows of an "
                            "initializer of rank 2"
                          : "token ids are in " + known;
  // Checked one by one: the first that is wrong stops.
  for (const PadToken &token : tokens) {
    if (token.input.empty())
      continue;
    std::optional<unsigned> input = findInput(forward, token.input);
    if (!input)
      return "--pad-token: there is no input '" + token.input + "'; " + which;
    if (token.id) {
      forward.setArgAttr(*input, kPadTokenAttr, builder.getI64IntegerAttr(*token.id));
    } else {
      std::optional<unsigned> mask = findInput(forward, token.mask);
      if (!mask)
        return "--pad-token: '" + token.mask + "' is neither a number nor an input that masks '" +
               token.input + "'";
      // A mask says for each token whether it counts.
      if (getDims(forward.getArgument(*mask)) != getDims(forward.getArgument(*input)))
        return "--pad-token: '" + token.mask + "' cannot mask '" + token.input +
               "': they have different shapes";
      forward.setArgAttr(*input, kPadMaskAttr, builder.getStringAttr(token.mask));
    }
    if (llvm::none_of(findTokenInputs(forward), [&](const TokenInput &found) {
          return found.role == TokenRole::Embed && found.input.getArgNumber() == *input;
        }))
      return "--pad-token: input '" + token.input + "' holds no token ids; " + which;
  }
  // Then ids without a name: for all inputs with ids that have no mask.
  for (const PadToken &token : tokens) {
    if (!token.input.empty())
      continue;
    bool any = false;
    for (const TokenInput &found : findTokenInputs(forward)) {
      unsigned input = found.input.getArgNumber();
      if (found.role != TokenRole::Embed || forward.getArgAttr(input, kPadMaskAttr))
        continue;
      any = true;
      // What is named stays.
      if (!forward.getArgAttr(input, kPadTokenAttr))
        forward.setArgAttr(input, kPadTokenAttr, builder.getI64IntegerAttr(*token.id));
    }
    if (!any)
      return "--pad-token: " + which;
  }
  return {};
}
