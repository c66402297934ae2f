// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A file that holds its command line decides on all but what is told and saved.

#include "lib/Driver/Options/InspectionOptions.h"

#include "format/log_level.h"
#include "lib/Phases/Phases.h"
#include "trainc/Support/Nearest.h"
#include "llvm/ADT/StringExtras.h"

using namespace trainc;

/// What goes with a file that holds its command line.
static constexpr llvm::StringLiteral kInspection[] = {
    "--log-level", "--warnings-as-errors",  "--cache",
    "--explain",   "--explain-unsupported", "--remarks",
    "--save-ir",   "--save-kernels",        "--timing",
    "--output"};

/// What is wrong with the name of a phase; "" if nothing is.
static std::string checkPhase(const std::string &name, llvm::ArrayRef<llvm::StringLiteral> phases) {
  assert(!phases.empty() && "there are phases");
  if (llvm::is_contained(phases, llvm::StringRef(name)))
    return "";
  // With the nearest name, if any is near.
  return "expected " + llvm::join(phases.drop_back(), ", ") + " or " + phases.back().str() +
         ", got '" + name + "'" + suggestion(name, {phases.begin(), phases.end()});
}

InspectionOptions::InspectionOptions(CLI::App &app, CompileOptions &options)
    : OptionGroup(app, options) {
  group("Looking inside");
  add("--log-level", logLevel, "LEVEL",
      "error|warning|info|debug: what is told on standard error (default: "
      "TRAINC_LOG_LEVEL, else info)");
  app.add_flag("--warnings-as-errors", options.warningsAsErrors, "a warning ends the compilation");
  // Without a value it is the summary.
  app.add_flag("--explain{summary}", explainKind,
               "say what the passes did and why not: a summary by pass; all: every "
               "decision with its node")
      ->type_name("[=all]")
      ->check(CLI::IsMember({"summary", "all"}));
  app.add_flag("--explain-unsupported", options.legalize.explainUnsupported,
               "with each operator that is not supported the head of an ONNX function, and of its "
               "gradient, that would take its place");
  add("--write-plugin-stub", options.pluginStub, "NAME",
      "write the JSON and the C file that a plug-in for this operator of the model, DOMAIN::NAME, "
      "begins with, in the folder of -o, and stop (docs/plugins.md)");
  add("--remarks", options.remarks, "FILE", "every decision of the passes, a JSON object a line");
  add("--save-ir", options.saveIR, "DIR", "the IR after each phase");
  add("--save-kernels", options.saveKernels, "DIR",
      "the code of each kernel: MLIR, LLVM IR, assembly or PTX");
  add("--stop-after", options.stopAfter, "PHASE", "import|legalize|graph|schedule|codegen")
      ->check([](const std::string &text) { return checkPhase(text, kPhases); });
  add("--start-from", options.startFrom, "PHASE",
      "import|legalize|graph|schedule: the model is a file of --save-ir, the IR "
      "after this phase; goes on from there, with the command line in it")
      // The last phase has nothing behind it.
      ->check([](const std::string &text) {
        return checkPhase(text, llvm::ArrayRef(kPhases).drop_back());
      });
  app.add_flag("--check-options", options.checkOptions,
               "say whether the options are right, without a model");
  app.add_flag("--print-pipeline", options.printPipeline,
               "print the passes of the phases graph, schedule and codegen for this model, a line "
               "each, and stop before them");
  app.add_flag("--timing", options.timing,
               "on standard error, the time that each phase and each pass takes");
  add("--replay", options.replay, "FILE",
      "run the phase of a reproducer (MODEL.repro.mlir, written when the compiler "
      "fails) again");
}

/// Refuses other options than those of inspection and `own`, "OPTION does not go with WITH".
static void allowOnly(const CLI::App &app, llvm::ArrayRef<llvm::StringLiteral> own,
                      const std::string &with) {
  // What was given, whatever its value is.
  for (const CLI::Option *option : app.get_options()) {
    const std::string name =
        option->get_lnames().empty() ? option->get_name() : "--" + option->get_lnames().front();
    if (*option && !llvm::is_contained(kInspection, llvm::StringRef(name)) &&
        !llvm::is_contained(own, llvm::StringRef(name)))
      throw CLI::ParseError(option->get_name() + " does not go with " + with, ExitUsage);
  }
}

void InspectionOptions::checkReplayed() const {
  allowOnly(app, {"--replay"}, "--replay, which takes the command line from the file");
}

void InspectionOptions::checkResumed() const {
  allowOnly(app, {"model", "--start-from", "--stop-after", "--plugin"},
            "--start-from, which takes the command line from the IR");
  // In the order of the phases.
  if (has("--stop-after") &&
      llvm::find(kPhases, options.stopAfter) <= llvm::find(kPhases, options.startFrom))
    throw CLI::ValidationError("--stop-after", options.stopAfter + " is over: --start-from " +
                                                   options.startFrom +
                                                   " goes on with the phase behind that");
}

void InspectionOptions::check() {
  std::string problem;
  // The option, else the environment.
  if (auto chosen = trainrt::run::chooseLogLevel(logLevel, "TRAINC_LOG_LEVEL", problem))
    options.logLevel = *chosen;
  else
    throw CLI::ParseError(problem, ExitUsage);
  if (has("--start-from"))
    checkResumed();
  // Either of both has its command line in a file.
  if (has("--replay"))
    checkReplayed();
  else if (options.model.empty() && !options.checkOptions)
    throw CLI::RequiredError("model");
  if (has("--save-kernels") && !options.stopAfter.empty() && options.stopAfter != "codegen")
    throw CLI::ValidationError("--save-kernels", "there are none yet after " + options.stopAfter);
}

void InspectionOptions::read() {
  options.explain = explainKind.empty()    ? Explain::Nothing
                    : explainKind == "all" ? Explain::All
                                           : Explain::Summary;
}
