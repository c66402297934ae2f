// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An expression that matches nothing is a mistake more often than not.

#include "lib/Driver/IdleExpressions.h"

#include "trainc/Support/Nearest.h"
#include "trainc/Support/Regex.h"

using namespace mlir;
using namespace trainc;

static void warnOfIdle(const CompileOptions &options, Log &log, StringRef option,
                       StringRef expression, ArrayRef<std::string> names, bool ofAll = true) {
  Regex regex;
  // An expression that is none was refused before.
  if (expression.empty() || !regex.compile(expression).empty() ||
      llvm::any_of(names, [&](StringRef name) { return regex.search(name); }))
    return;
  log.warning(options.model, option + " '" + expression + "' matches no " +
                                 (ofAll ? "parameter" : "parameter that is trained") +
                                 nearestMatches(expression, names));
}

void trainc::warnOfIdleChoice(const CompileOptions &options, Log &log,
                              const LegalizeResult &legalized) {
  std::vector<std::string> names;
  // All initializers, trained or not.
  for (const auto *list : {&legalized.trained, &legalized.excluded})
    for (const ParameterChoice &choice : *list)
      names.push_back(choice.name);
  // Expressions that freeze are about all parameters, others about those that are trained.
  for (const ParameterGroup &group : options.groups)
    if (group.freeze)
      warnOfIdle(options, log, group.option, group.pattern, names);
  warnOfIdle(options, log, "--trainable", options.legalize.trainable, names);
}

void trainc::warnOfIdleGroups(const CompileOptions &options, Log &log,
                              ArrayRef<GroupDecision> trained) {
  std::vector<std::string> names;
  for (const GroupDecision &decision : trained)
    names.push_back(decision.name);
  for (const ParameterGroup &group : options.groups)
    if (!group.freeze)
      warnOfIdle(options, log, group.option, group.pattern, names, /*ofAll=*/false);
}
