// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file is read twice: first for its command line, which decides on everything else, in a context
// of its own, where whatever is wrong with it is told.

#include "lib/Driver/SavedIR.h"
#include "lib/Driver/Diagnostics.h"
#include "lib/Phases/Phases.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "trainc/Driver/Driver.h"
#include "trainc/Registry/Registry.h"
#include "trainc/Support/RegularFile.h"

using namespace mlir;
using namespace trainc;

void trainc::printSavedIR(ModuleOp module, ArrayRef<std::string> arguments,
                          const std::string &target, raw_ostream &out) {
  // The attribute is there while it is printed only.
  SmallVector<Attribute> words;
  for (const std::string &word : arguments)
    words.push_back(StringAttr::get(module.getContext(), word));
  // The last --target counts: a device of this machine is spelled out.
  words.push_back(StringAttr::get(module.getContext(), "--target=" + target));
  module->setAttr(kCommandLineAttr, ArrayAttr::get(module.getContext(), words));
  module->print(out, OpPrintingFlags().enableDebugInfo());
  module->removeAttr(kCommandLineAttr);
  out << "\n";
}

static LogicalResult verifyPhase(ModuleOp module, StringRef phase) {
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  // One check, no verification of everything else.
  pm.enableVerifier(false);
  pm.addPass(createVerifyPass(phase));
  return pm.run(module);
}

int trainc::checkSavedIR(StringRef path, StringRef phase, Log &log,
                         std::vector<std::string> &arguments) {
  if (std::string problem = checkRegularFile(path); !problem.empty()) {
    Log::error("trainc", problem);
    return ExitInput;
  }
  DialectRegistry registry;
  registerAllDialects(registry);
  // Its own context goes with everything that was read.
  MLIRContext context(registry, MLIRContext::Threading::DISABLED);
  context.printOpOnDiagnostic(false);
  DiagnosticPrinter printer(context, path, log);
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  if (!module) {
    Log::error(path, "it is not IR that --save-ir has written");
    return ExitInput;
  }
  // Which phase it is of instead, for the message.
  if (failed(verifyPhase(*module, phase))) {
    log.mute(true);
    const auto *other = llvm::find_if(
        kPhases, [&](StringRef other) { return succeeded(verifyPhase(*module, other)); });
    log.mute(false);
    const std::string found =
        other == std::end(kPhases) ? "" : "; it looks like that of '" + other->str() + "'";
    Log::error(path, "it is not what the phase '" + phase + "' leaves behind" + found);
    return ExitInput;
  }
  auto words = (*module)->getAttrOfType<ArrayAttr>(kCommandLineAttr);
  // Strings, at least the target.
  if (!words || words.empty() || !llvm::all_of(words, llvm::IsaPred<StringAttr>)) {
    Log::error(path, "its module does not tell the command line that it was made with (" +
                         kCommandLineAttr + ", strings): the files of --save-ir do, and those " +
                         "that trainc-opt makes of them");
    return ExitInput;
  }
  for (auto word : words.getAsRange<StringAttr>())
    arguments.push_back(word.str());
  return ExitSuccess;
}

OwningOpRef<ModuleOp> trainc::readSavedIR(StringRef path, MLIRContext &context) {
  OwningOpRef<ModuleOp> module = parseSourceFile<ModuleOp>(path, &context);
  // It has been read already, and would be saved again.
  if (module)
    (*module)->removeAttr(kCommandLineAttr);
  return module;
}
