// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An expression that matches nothing is a mistake more often than not.

#include "lib/Driver/IdleExpressions.h"

#include "trainc/Support/Nearest.h"
#include "trainc/Support/Regex.h"

using namespace mlir;
using namespace trainc;

static void warnOfIdle(const CompileOptions &options, Log &log, StringRef option,
                       StringRef expression, ArrayRef<std::string> names) {
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

void trainc::warnOfIdleScales(const CompileOptions &options, Log &log,
                              ArrayRef<std::string> trained) {
  warnOfIdle(options, log, "--no-decay", options.noDecay, trained);
  for (auto &[pattern, factor] : options.lrScale)
    warnOfIdle(options, log, "--lr-scale", pattern, trained);
}
