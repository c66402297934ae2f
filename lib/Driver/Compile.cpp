// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compilation: import, legalize, graph, schedule, codegen, package. Or one phase of it, from a
// reproducer; or those behind the phase that saved IR is of.

#include "lib/Driver/PhaseRunner.h"
#include "lib/Driver/Phases/Phases.h"
#include "lib/Driver/PluginFaults.h"
#include "lib/Driver/PluginStub.h"
#include "lib/Driver/Replay.h"
#include "lib/Driver/ReportMemory.h"
#include "lib/Driver/SavedIR.h"
#include "lib/Driver/StoredCommandLine.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;
using namespace trainc;

/// A phase of passes. Returns the exit code where the compilation ends here.
static std::optional<int> runPasses(Compilation &c, PhaseRunner &runner, StringRef phase) {
  auto build = [&](OpPassManager &pm) {
    buildPhase(c, phase, pm);
    // Who watches sees the pipeline before it runs.
    if (c.options.onPhase)
      c.options.onPhase(phase, &pm);
  };
  auto work = [&] { return runPhasePasses(c, phase, build); };
  // Without a pipeline a fault of saved IR is not looked for in passes.
  return c.options.startFrom == phase ? runner.run(phase, work) : runner.run(phase, work, build);
}

/// The exit code where the compilation ends early.
static std::optional<int> runPhases(Compilation &c, PhaseRunner &runner) {
  // A phase that is one function, behind which saved IR may take the place of its own.
  auto run = [&](StringRef phase, int (*work)(Compilation &)) {
    return runner.run(phase, [&] {
      const int code = work(c);
      return code ? code : c.takeSavedIR(phase);
    });
  };
  if (auto end = run("import", importModel))
    return end;
  if (!c.options.pluginStub.empty())
    return writePluginStub(c);
  if (auto end = run("legalize", legalizeModel))
    return end;
  // Before the first pass, as pipelines depend on the model.
  if (c.options.printPipeline) {
    printPipelines(c);
    return ExitSuccess;
  }
  assert(c.module && "legalization leaves a module");
  for (StringRef phase : {"graph", "schedule"})
    if (auto end = runPasses(c, runner, phase))
      return end;
  auto generate = [](Compilation &c) {
    const int code = generateCode(c);
    return code || c.options.report.empty()
               ? code
               : reportMemory(*c.module, c.plain ? *c.plain : ModuleOp(), c.interface, c.options,
                              c.outputs, c.log);
  };
  if (auto end = run("codegen", generate))
    return end;
  return run("package", makePackage);
}

/// Makes a compilation, runs it from its first output to its last and tells its times. One that has
/// crashed stays in memory.
static int runToEnd(const CompileOptions &options,
                    llvm::function_ref<int(Compilation &, PhaseRunner &)> work) {
  auto c = std::make_unique<Compilation>(options);
  // Nothing is read before it is known that outputs can be written.
  if (int code = c->outputs.check())
    return code;
  PhaseRunner runner(*c);
  const int code = work(*c, runner);
  // Times are told before outputs are closed, which may fail.
  c->rootTimer.stop();
  c->timing.print();
  c->timing.setEnabled(false);
  const int closed = c->outputs.close(code);
  // Its state may be anything: destroying it may crash again.
  if (runner.hasCrashed())
    (void)c.release();
  return closed;
}

static int compileModel(const CompileOptions &options) {
  return runToEnd(options, [](Compilation &c, PhaseRunner &runner) {
    c.codegen = makeCodegen(c, c.options.variants);
    return runPhases(c, runner).value_or(ExitSuccess);
  });
}

static int replayReproducer(const CompileOptions &given) {
  // The file decides on everything but where outputs go.
  ParsedReproducer reproducer;
  std::string problem;
  if (!readReproducerHeader(given.replay, reproducer, problem)) {
    Log::error(given.replay, problem);
    return ExitInput;
  }
  CompileOptions options;
  if (int code = takeStoredOptions(reproducer.arguments, given.replay, given, options))
    return code;
  options.replay = given.replay;
  options.output = given.output;
  if (int code = loadPlugins(options.plugins))
    return code;
  return runToEnd(options, [&](Compilation &c, PhaseRunner &runner) {
    // No inputs besides the reproducer itself.
    if (int code = c.outputs.open(c.context, {}))
      return code;
    c.codegen = makeCodegen(c, c.options.variants);
    return replayPhase(c, runner, reproducer);
  });
}

/// --start-from
static int resumeCompilation(const CompileOptions &given) {
  for (const std::string &file : given.plugins)
    if (!plugin::isSharedObject(file)) {
      Log::error(file, "with --start-from only plug-ins in C++ are named again, to read their ops; "
                       "descriptions are those of the saved command line");
      return ExitInput;
    }
  Log log(given.logLevel, /*warningsAsErrors=*/false);
  std::vector<std::string> arguments;
  CompileOptions options;
  // Of its own context: what is wrong with the file is told before anything else.
  if (int code = checkSavedIR(given.model, given.startFrom, log, arguments))
    return code;
  if (int code = takeStoredOptions(arguments, given.model, given, options))
    return code;
  if (int code = loadPlugins(options.plugins))
    return code;
  // The model is read again: packages need its weights.
  if (options.model.empty()) {
    Log::error(given.model, "its command line names no model");
    return ExitInput;
  }
  // The target, which whoever wrote the command line need not have named.
  options.arguments.pop_back();
  options.startFrom = given.startFrom;
  options.savedIR = given.model;
  options.stopAfter = given.stopAfter;
  // The command line may have had it.
  options.printPipeline = false;
  if (!given.output.empty())
    options.output = given.output;
  return compileModel(options);
}

int trainc::compile(const CompileOptions &options) {
  // Before there is a context, which knows their dialects.
  if (int code = loadPlugins(options.plugins))
    return code;
  if (!options.replay.empty())
    return replayReproducer(options);
  if (!options.startFrom.empty())
    return resumeCompilation(options);
  return compileModel(options);
}
