// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operators that there are handlers for, and their list.

#include "Legalizer.h"
#include "trainc/Conversion/ONNXToTrain/OwnHandlers.h"

#include "llvm/ADT/StringExtras.h"

using namespace mlir;

namespace trainc::legalize {

/// Aliases copy entries, so that registerMicrosoft comes after the standard operators.
void registerAll(HandlerTable &table) {
  registerMath(table);
  registerUnary(table);
  registerShape(table);
  registerPad(table);
  registerRearrange(table);
  registerScatter(table);
  registerOrder(table);
  registerSignal(table);
  registerControlFlow(table);
  registerCustomGradient(table);
  registerIndex(table);
  registerSelection(table);
  registerSequence(table);
  registerLinear(table);
  registerNorm(table);
  registerGroupNorm(table);
  registerAttention(table);
  registerReduce(table);
  registerLoss(table);
  registerRandom(table);
  registerBatchNorm(table);
  registerConv(table);
  registerPool(table);
  registerResize(table);
  registerGridSample(table);
  registerRecurrent(table);
  registerRecurrentGrad(table);
  registerQuantization(table);
  registerMicrosoft(table);
  registerGradients(table);
  registerTraining(table);
}

} // namespace trainc::legalize

void trainc::listOperators(llvm::raw_ostream &out) {
  using legalize::HandlerTable;
  // A table of its own: nothing is legalized.
  HandlerTable table;
  legalize::registerAll(table);
  auto names = llvm::to_vector(table.entries.keys());
  // In the order of the names: docs have them so.
  llvm::sort(names);
  for (StringRef name : names) {
    const HandlerTable::Entry &entry = table.entries[name];
    SmallVector<StringRef> kinds;
    for (auto [kind, called] :
         {std::pair(HandlerTable::kReals, "float"), std::pair(HandlerTable::kIntegers, "integer"),
          std::pair(HandlerTable::kBooleans, "boolean")})
      // Bits, one a kind.
      if (entry.kinds & kind)
        kinds.push_back(called);
    out << "| `" << name << "` | " << entry.since << " | "
        << (kinds.empty() ? "refused by name" : llvm::join(kinds, ", ")) << " | "
        << (entry.gradient ? "yes" : "") << " |\n";
  }
}
