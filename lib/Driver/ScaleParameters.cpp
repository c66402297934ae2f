// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Factors of parameters whose names match.

#include "lib/Driver/ScaleParameters.h"

#include "dialects/Train/TrainDialect.h"
#include "lib/Support/Nearest.h"
#include "trainc/Regex.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

void trainc::warnOfIdle(const CompileOptions &options, Log &log, StringRef option,
                        StringRef expression, const std::vector<std::string> &names) {
  Regex regex;
  if (expression.empty() || !regex.compile(expression).empty() ||
      llvm::any_of(names, [&](StringRef name) { return regex.search(name); }))
    return;
  log.warning(options.model,
              option + " '" + expression + "' matches no " +
                  (option == "--freeze" || option == "--trainable" ? "parameter"
                                                                   : "parameter that is trained") +
                  nearestMatches(expression, names));
}

void trainc::warnOfIdleChoice(const CompileOptions &options, Log &log,
                              const LegalizeResult &legalized) {
  std::vector<std::string> names;
  for (const auto *list : {&legalized.trained, &legalized.excluded})
    for (const ParameterChoice &choice : *list)
      names.push_back(choice.name);
  warnOfIdle(options, log, "--freeze", options.legalize.freeze, names);
  warnOfIdle(options, log, "--trainable", options.legalize.trainable, names);
}

void trainc::scaleParameters(func::FuncOp forward, const CompileOptions &options, Log &log) {
  Regex noDecay;
  noDecay.compile(options.noDecay);
  std::vector<std::pair<Regex, double>> scales;
  for (auto &[pattern, factor] : options.lrScale) {
    scales.emplace_back(Regex(), factor);
    scales.back().first.compile(pattern);
  }
  Builder builder(forward.getContext());
  std::vector<std::string> names;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto name = forward.getArgAttrOfType<StringAttr>(i, kNameAttr);
    if (!forward.getArgAttr(i, kTrainableAttr) || !name)
      continue;
    names.push_back(name.str());
    if (!options.noDecay.empty() && noDecay.search(name.getValue()))
      forward.setArgAttr(i, kDecayScaleAttr, builder.getF64FloatAttr(0));
    for (auto &[regex, factor] : scales)
      if (regex.search(name.getValue())) {
        forward.setArgAttr(i, kLrScaleAttr, builder.getF64FloatAttr(factor));
        break;
      }
  }
  warnOfIdle(options, log, "--no-decay", options.noDecay, names);
  for (auto &[pattern, factor] : options.lrScale)
    warnOfIdle(options, log, "--lr-scale", pattern, names);
}
