// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Of a quantized weight the shape and type that it had are in its attribute.

#include "lib/Driver/ParameterSummary.h"
#include "dialects/Train/TrainDialect.h"
#include "format/status.h"
#include "trainc/Report/MemoryModel.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

ParameterSummary::ParameterSummary(func::FuncOp forward) {
  for (BlockArgument argument : forward.getArguments()) {
    const unsigned i = argument.getArgNumber();
    auto role = forward.getArgAttrOfType<StringAttr>(i, kRoleAttr);
    if (!role || role.getValue() != "parameter")
      continue;
    Type element = getElementType(argument);
    const int64_t stored = getNumElements(argument.getType()).getConstant().value_or(0);
    // Scales and codes of others: no parameters of their own.
    if (forward.getArgAttr(i, kPartOfAttr)) {
      bytesAfter += stored * getElementBytes(element);
      continue;
    }
    int64_t values = stored;
    if (auto how = forward.getArgAttrOfType<DictionaryAttr>(i, kQuantizedAttr)) {
      assert(how.getAs<ArrayAttr>("shape") && "as the pass writes it");
      values = 1;
      for (auto size : how.getAs<ArrayAttr>("shape").getAsRange<IntegerAttr>())
        values *= size.getInt();
      ++quantized;
      format = how.getAs<StringAttr>("format").str();
      bytesBefore += values * getElementBytes(how.getAs<TypeAttr>("dtype").getValue());
      bytesAfter += stored * getElementBytes(element);
    }
    // Values as the model has them, not codes.
    elements += values;
    if (forward.getArgAttr(i, kTrainableAttr)) {
      ++trained;
      trainedElements += values;
      trainedBytes += values * getElementBytes(element);
    }
  }
}

std::string ParameterSummary::text() const {
  std::string text;
  llvm::raw_string_ostream out(text);
  assert(trainedElements <= elements && "a part of all");
  out << "of " << elements << " parameters " << trainedElements << " are trained ("
      << llvm::format("%.2g", elements ? 100. * trainedElements / elements : 0.)
      << " %) and saved, " << formatBytes(trainedBytes);
  if (quantized)
    out << "; " << quantized << (quantized == 1 ? " weight is" : " weights are") << " stored as "
        << format << ": " << formatBytes(bytesBefore) << " -> " << formatBytes(bytesAfter);
  return text;
}

void trainc::reportGroups(ArrayRef<GroupDecision> decisions, Log &log) {
  llvm::MapVector<StringRef, unsigned> counts;
  for (const GroupDecision &decision : decisions)
    ++counts[decision.text];
  // All without a group: nothing to tell.
  if (counts.size() < 2 && counts.contains(""))
    return;
  constexpr size_t kMost = 8;
  // In the order of parameters, up to some.
  size_t told = 0;
  for (auto [text, count] : counts) {
    if (text.empty())
      continue;
    if (told++ == kMost) {
      log.info() << "and " << counts.size() - counts.contains("") - kMost
                 << " other groups; --explain=all tells that of each parameter\n";
      break;
    }
    log.info() << count << (count == 1 ? " parameter has " : " parameters have ")
               << trainrt::shown(text.str()) << "\n";
  }
}

void trainc::reportParameters(ModuleOp module, const CompileOptions &options,
                              const LegalizeResult &legalized, Log &log) {
  const ParameterSummary summary(module.lookupSymbol<func::FuncOp>("forward"));
  // With adapters everything else is frozen.
  if (auto lora = module->getAttrOfType<DictionaryAttr>(kLoraAttr)) {
    log.info() << "trains " << summary.trained << " parameters (" << summary.trainedElements
               << " elements), of " << lora.getAs<ArrayAttr>("modules").size()
               << " low-rank branches, to minimise '" << trainrt::shown(legalized.loss) << "'\n";
  } else if (!options.legalize.inference) {
    int64_t elements = 0;
    for (const ParameterChoice &choice : legalized.trained)
      elements += choice.elements;
    if (legalized.ownUpdates)
      log.info() << "runs the model's own training algorithm; its loss is '"
                 << trainrt::shown(legalized.loss) << "'\n";
    else
      log.info() << "trains " << legalized.trained.size() << " parameters (" << elements
                 << " elements) to minimise '" << trainrt::shown(legalized.loss) << "'\n";
    // Each with its reason: silence would hide mistakes.
    for (const ParameterChoice &choice : legalized.excluded)
      log.info() << (legalized.ownUpdates ? "parameter: " : "not trained: ")
                 << trainrt::shown(choice.name) << " (" << choice.reason << ")\n";
  }
  if (options.graph.lora || options.graph.quantize)
    log.info() << summary.text() << "\n";
  if (!legalized.inactiveDropouts.empty())
    log.warning(options.model,
                llvm::Twine(legalized.inactiveDropouts.size()) +
                    " Dropout nodes have no training mode in the export and do nothing (first: '" +
                    legalized.inactiveDropouts.front() +
                    "'); --dropout on activates them, --dropout off silences this");
}
