// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compilation: import, legalize, graph, schedule, codegen, package. Or one phase of it, from a
// reproducer.

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "format/signature.h"
#include "format/status.h"
#include "lib/Conversion/TrainToPlan/PlanModule.h"
#include "lib/Driver/CrashGuard.h"
#include "lib/Driver/Diagnostics.h"
#include "lib/Driver/Initialization.h"
#include "lib/Driver/OptimizerChoice.h"
#include "lib/Driver/Outputs.h"
#include "lib/Driver/PadTokens.h"
#include "lib/Driver/ParameterSummary.h"
#include "lib/Driver/RecomputeChoice.h"
#include "lib/Driver/ReportMemory.h"
#include "lib/Driver/Reproducer.h"
#include "lib/Driver/SaveKernels.h"
#include "lib/Driver/SavedIR.h"
#include "lib/Driver/ScaleParameters.h"
#include "lib/Package/Identity.h"
#include "lib/Package/Package.h"
#include "lib/Package/ProgramWriter.h"
#include "lib/Phases/Phases.h"
#include "lib/Report/MemoryReport.h"
#include "lib/Schedule/Memory/ChooseOffload.h"
#include "lib/Support/TextFile.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Support/Timing.h"
#include "trainc/Driver.h"
#include "trainc/Registry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include <chrono>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using Clock = std::chrono::steady_clock;

namespace {

using BuildPipeline = llvm::function_ref<void(OpPassManager &)>;

class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : options(options), log(options.logLevel, options.warningsAsErrors),
        printer(context, options.model, log), outputs(this->options, log) {
    timing.setEnabled(options.timing);
    rootTimer = timing.getRootScope();
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
    context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                        onnx::ONNXDialect, TrainDialect, plan::PlanDialect>();
  }

  int run() {
    begin();
    if (int code = outputs.check())
      return code;
    codegen = makeCodegen(options.variants);
    int code = runPhases().value_or(ExitSuccess);
    printTiming();
    return outputs.close(code);
  }

  int replay(ParsedReproducer &reproducer) {
    begin();
    if (int code = outputs.check())
      return code;
    if (int code = outputs.open(context, {}))
      return code;
    codegen = makeCodegen(options.variants);
    if (failed(readReproducerModule(options.replay, context, reproducer)))
      return ExitInput;
    module = std::move(reproducer.module);
    int code = replayPhase(reproducer);
    printTiming();
    return outputs.close(code);
  }

  /// After a crash objects must not be destroyed.
  bool hasCrashed() const { return crashed; }

private:
  //===--------------------------------------------------------------------===//
  // Phases
  //===--------------------------------------------------------------------===//

  /// The exit code where the compilation ends early.
  std::optional<int> runPhases() {
    if (auto end = runPhase("import", [&] { return orSavedIR("import", import()); }))
      return end;
    if (auto end = runPhase("legalize", [&] { return orSavedIR("legalize", legalize()); }))
      return end;
    if (options.printPipeline) {
      printPipelines();
      return ExitSuccess;
    }
    for (StringRef phase : {"graph", "schedule"})
      if (auto end = runPasses(phase, [&](OpPassManager &pm) { buildPhase(phase, pm); }))
        return end;
    if (auto end = runPhase("codegen", [&] {
          const int code = generateCode();
          return code || options.report.empty() ? code
                                                : reportMemory(*module, plain ? *plain : ModuleOp(),
                                                               interface, options, outputs, log);
        }))
      return end;
    return runPhase("package", [&] { return package(); });
  }

  /// Runs a phase, which returns an exit code. Returns it where the compilation ends here.
  std::optional<int> runPhase(StringRef phase, llvm::function_ref<int()> work,
                              BuildPipeline build = nullptr) {
    Clock::time_point begin = Clock::now();
    // What a reproducer of this phase begins with; the program is written from what codegen has
    // begun with.
    if (module && phase != "package")
      before = module->clone();
    int code = ExitSuccess;
    timer = rootTimer.nest(phase);
    std::string signal = guard.run([&] {
      if (options.onPhase && !build)
        options.onPhase(phase, nullptr);
      code = work();
    });
    timer.stop();
    if (!signal.empty()) {
      crashed = true;
      return reportFault(phase, "crashed (" + signal + ")", build);
    }
    if (code == ExitInternal)
      return reportFault(phase, "failed", build);
    if (code)
      return code;
    if (log.shows(LogLevel::debug) && module) {
      int64_t ops = 0;
      module->walk([&](Operation *) { ++ops; });
      log.debug() << "phase " << phase << ": " << llvm::format("%.3f", secondsSince(begin))
                  << " s, " << ops << " ops\n";
    }
    return endPhase(phase);
  }

  /// Whether the compilation goes on with IR that is this phase's, or a later one's. Phases before
  /// run for what is not in the IR: the model's weights and identity, and what the package offers.
  bool precedesSavedIR(StringRef phase) const {
    return !options.startFrom.empty() &&
           llvm::find(kPhases, phase) <= llvm::find(kPhases, options.startFrom);
  }

  /// At the end of a phase: takes the IR that --start-from names instead of its own. `code` is that
  /// of the phase.
  int orSavedIR(StringRef phase, int code = ExitSuccess) {
    if (code || options.startFrom != phase)
      return code;
    module = readSavedIR(options.savedIR, context);
    return module ? ExitSuccess : ExitInput;
  }

  std::optional<int> runPasses(StringRef phase, BuildPipeline build) {
    if (options.startFrom == phase)
      return runPhase(phase, [&] {
        if (phase == "schedule" ? !readInterface() : failed(followRecompute()))
          return int(ExitInternal);
        return orSavedIR(phase);
      });
    auto buildAll = [&](OpPassManager &pm) {
      build(pm);
      if (options.onPhase)
        options.onPhase(phase, &pm);
    };
    return runPhase(
        phase,
        [&] {
          if (phase == "schedule" && !readInterface())
            return int(ExitInternal);
          // Not destroyed after a crash.
          auto *pm = new PassManager(&context, ModuleOp::getOperationName());
          pm->enableTiming(timer);
          buildAll(*pm);
          // One look at the end; which pass it was that broke something is found out where it is
          // so.
          pm->enableVerifier(false);
          bool succeeded = mlir::succeeded(pm->run(*module)) && mlir::succeeded(verify(*module));
          delete pm;
          if (!succeeded)
            return int(budgetRefused ? ExitInput : ExitInternal);
          return phase == "graph" && failed(followRecompute()) ? int(ExitInternal)
                                                               : int(ExitSuccess);
        },
        buildAll);
  }

  /// What is told of recompute behind its pass: the list of --recompute list, which ends the
  /// compilation, and what a report compares with.
  LogicalResult followRecompute() {
    if (options.recompute == "list") {
      options.stopAfter = "graph";
      return listOpportunities(*module, options, *makeCodegen(/*variants=*/false), log);
    }
    if (options.report.empty() || !recomputes(options))
      return success();
    FailureOr<OwningOpRef<ModuleOp>> planned =
        planPlain(*before, options, *makeCodegen(/*variants=*/false), log);
    if (succeeded(planned))
      plain = std::move(*planned);
    return planned;
  }

  /// What the package offers, from the functions while they are functions.
  bool readInterface() {
    FailureOr<PackageInterface> collected = collectInterface(*module);
    if (succeeded(collected)) {
      interface = std::move(*collected);
      takeOptimizerState();
    }
    return succeeded(collected);
  }

  /// State that the model's files hold, for the tensors of this optimizer; then its count of steps
  /// goes on, too.
  void takeOptimizerState() {
    size_t taken = 0;
    const std::string &format = options.graph.optimizerState;
    bool narrow = !format.empty() && format != "fp32";
    for (const StateBytes &bytes : model.optimizerState) {
      int index = PackageInterface::find(interface.state, bytes.name);
      if (index < 0 || narrow)
        continue;
      interface.state[index].weight =
          WeightAttr::get(&context, StringAttr::get(&context, bytes.file), bytes.offset,
                          bytes.length, /*absent=*/false);
      ++taken;
    }
    if (taken)
      log.info() << "goes on after " << model.steps << " steps, with the optimizer's state of "
                 << "the checkpoint (" << taken << " tensors)\n";
    else if (!model.optimizerState.empty() && !options.legalize.inference)
      log.warning(options.model, "the optimizer's state in the checkpoint is not that of '" +
                                     options.graph.optimizer + "'" +
                                     (narrow ? " with --optimizer-state " + format : "") +
                                     " and is not taken over; it begins at zero");
    if (!taken)
      model.steps = 0;
  }

  /// The passes of a phase, if it is one of passes, and what checks what it leaves behind.
  void buildPhase(StringRef phase, OpPassManager &pm) {
    if (phase == "graph") {
      buildGraphPipeline(pm, options.graph);
      // What is computed again changes nothing that the package offers.
      if (recomputes(options) && !precedesSavedIR(phase))
        addRecompute(pm, options, log, budgetRefused);
    } else if (phase == "schedule") {
      buildSchedulePipeline(pm, options.schedule);
    } else if (phase == "codegen" && options.offload.enabled) {
      ChooseOffloadPassOptions choose;
      choose.target = options.target->name().str();
      choose.density = options.density;
      choose.limit = options.offload.limit;
      choose.rate = options.offload.rate;
      pm.addPass(createChooseOffloadPass(choose));
    }
    pm.addPass(createVerifyPass(phase));
  }

  /// Those of a phase that does its work otherwise, behind it; an exit code.
  int runPlainPasses(StringRef phase) {
    PassManager pm(&context, ModuleOp::getOperationName());
    pm.enableTiming(timer);
    pm.enableVerifier(false);
    buildPhase(phase, pm);
    return succeeded(pm.run(*module)) ? ExitSuccess : ExitInternal;
  }

  /// After legalization, which has the last word on what the passes are to do.
  void printPipelines() {
    for (StringRef phase : {"graph", "schedule", "codegen"}) {
      PassManager pm(&context, ModuleOp::getOperationName());
      buildPhase(phase, pm);
      pm.printAsTextualPipeline(llvm::outs());
      llvm::outs() << "\n";
    }
  }

  int import() {
    if (!llvm::sys::fs::exists(options.model)) {
      Log::error(options.model, "no such file");
      return ExitInput;
    }
    if (!options.signKey.empty())
      if (trainrt::Status status = trainrt::checkPrivateKey(options.signKey); !status.ok()) {
        Log::error(options.model, "--sign: " + status.message());
        return ExitInput;
      }
    ArtifactFiles files{options.model, options.optimizerModel, options.checkpoint};
    if (llvm::sys::fs::is_directory(options.model))
      if (std::string problem = findArtifacts(options.model, files); !problem.empty()) {
        Log::error(options.model, problem);
        return ExitInput;
      }
    if (!files.optimizerModel.empty() && files.checkpoint.empty()) {
      Log::error(options.model, "--optimizer-model is for a training model of ONNX Runtime, which "
                                "also needs --checkpoint");
      return ExitInput;
    }
    ArtifactOptimizer optimizer;
    if (!files.checkpoint.empty())
      module = importArtifacts(files, context, model, optimizer);
    else
      module = importONNX(options.model, context, model,
                          options.graph.optimizer.empty() && !options.legalize.inference);
    if (!module || failed(checkOptimizer(*module->getOps<onnx::GraphOp>().begin(), options)) ||
        (model.initialization && failed(runInitialization(*module, model))))
      return ExitInput;
    contents.identity = identityOf(*module->getOps<onnx::GraphOp>().begin());
    chooseOptimizer(options, optimizer);
    if (int code = runPlainPasses("import"))
      return code;
    return outputs.open(context, inputFiles(files));
  }

  /// What the import has read, and what the package will refer to.
  std::vector<Outputs::Input> inputFiles(const ArtifactFiles &files) const {
    std::vector<Outputs::Input> read = {{files.trainingModel, "the model"},
                                        {files.optimizerModel, "the optimizer's model"},
                                        {files.checkpoint, "the checkpoint"}};
    auto add = [&](StringRef file) {
      llvm::SmallString<256> path(model.folder);
      llvm::sys::path::append(path, file);
      read.emplace_back(path.str(), "a file of the model's weights");
    };
    for (const std::string &file : model.weightFiles)
      add(file);
    for (const StateBytes &state : model.optimizerState)
      add(state.file);
    return read;
  }

  int legalize() {
    if (failed(legalizeONNX(*module, options.legalize, legalized))) {
      if (legalized.trained.empty() && !legalized.excluded.empty())
        warnOfIdleChoice(options, log, legalized); // which may be why
      return ExitInput;
    }
    if (legalized.ownGradients && options.graph.precision == Precision::FP16) {
      Log::error(options.model, "--precision fp16 scales the loss before it is differentiated, but "
                                "this graph holds its gradients; use bf16");
      return ExitInput;
    }
    options.graph.ownUpdates = legalized.ownUpdates;
    if (std::string problem = setPadTokens(module->lookupSymbol<func::FuncOp>("forward"),
                                           options.padTokens, model.paddingIds);
        !problem.empty()) {
      Log::error(options.model, problem);
      return ExitInput;
    }
    if (std::string problem = readRecompute(options.recompute); !problem.empty()) {
      Log::error(options.model, "--recompute: " + problem);
      return ExitInput;
    }
    reportModel();
    warnOfIdleChoice(options, log, legalized);
    if (failed(addAdapters()))
      return ExitInput;
    scaleParameters(module->lookupSymbol<func::FuncOp>("forward"), options, log);
    reportParameters(*module, options, legalized, log);
    return runPlainPasses("legalize");
  }

  /// --lora and --quantize
  LogicalResult addAdapters() {
    if (options.graph.lora && (legalized.ownGradients || legalized.ownUpdates))
      return emitError(module->getLoc(),
                       "--lora needs a model without gradients: this one's are those of its own "
                       "parameters; export the forward pass and the loss");
    PassManager pm(&context, ModuleOp::getOperationName());
    pm.enableTiming(timer);
    buildAdapterPipeline(pm, options.graph);
    return pm.run(*module);
  }

  int generateCode() {
    KernelOrigins origins;
    PlanModuleOptions planning;
    planning.tf32 = options.graph.precision == Precision::TF32;
    if (!options.saveKernels.empty()) {
      planning.onKernel = [&](const codegen::KernelInfo &kernel, train::FusionOp fusion) {
        origins.addFusion(kernel, fusion);
      };
      planning.onGroup = [&](StringRef kernel, StringRef group) {
        origins.addGroup(kernel, group);
      };
    }
    TimingScope planTimer = timer.nest("plan");
    if (failed(planModule(*module, *codegen, planning)))
      return ExitInternal;
    planTimer.stop();
    // Of what is for the user to mend only sizes are missing by now.
    const unsigned errors = printer.errors();
    if (int code = runPlainPasses("codegen"))
      return printer.errors() > errors && options.offload.enabled ? int(ExitInput) : code;
    if (int code = outputs.saveIR("5-kernels.mlir",
                                  [&](raw_ostream &out) { codegen->getModule().print(out); }))
      return code;
    if (!options.saveKernels.empty()) {
      FailureOr<std::vector<codegen::KernelListing>> listings = codegen->emitListings();
      if (failed(listings))
        return codegen->lacksTools() ? ExitInput : ExitInternal;
      origins.addLaunches(*module);
      if (int code = outputs.checkWritten(
              saveKernels(*listings, origins, options.saveKernels, outputs.files())))
        return code;
      log.info() << "saved " << listings->size() << " kernels in " << options.saveKernels << "\n";
    }
    TimingScope kernelTimer = timer.nest("kernels");
    FailureOr<std::vector<codegen::KernelObject>> objects = codegen->emitObjects();
    kernelTimer.stop();
    if (failed(objects))
      return codegen->lacksTools() ? ExitInput : ExitInternal;
    contents.kernels = std::move(*objects);
    for (const codegen::KernelObject &object : contents.kernels)
      log.debug() << object.name << ": " << object.bytes.size() << " bytes\n";
    for (const std::string &processor : options.processors)
      contents.targets.push_back((options.target->name() + ":" + processor).str());
    return ExitSuccess;
  }

  int makeProgram() {
    FailureOr<std::vector<char>> program = writeProgram(*module, interface, options.target->name());
    if (failed(program))
      return ExitInternal;
    contents.program = std::move(*program);
    return ExitSuccess;
  }

  int package() {
    if (int code = makeProgram())
      return code;
    describe();
    std::string output = outputs.package();
    if (failed(writePackage(*module, interface, model, contents, output)))
      return ExitInput;
    uint64_t size = 0;
    (void)llvm::sys::fs::file_size(output, size);
    log.info() << "wrote " << trainrt::shown(output) << " (" << codegen->size() << " kernels, "
               << size / 1024 << " KiB) in " << llvm::format("%.2f", secondsSince(start)) << " s"
               << (options.cache.empty() ? "" : cacheUse()) << "\n";
    return ExitSuccess;
  }

  std::string cacheUse() {
    return llvm::formatv(", {0} % of the code from the cache",
                         int(100 * codegen->getCacheHitRate()));
  }

  /// Without a model, what the package says of it comes from the interface and the command line.
  int packageReplayed() {
    chooseOptimizer(options, ArtifactOptimizer());
    for (const InterfaceTensor &output : interface.outputs)
      if (output.isLoss)
        legalized.loss = output.name;
    return package();
  }

  void describe() {
    contents.kind = options.legalize.inference ? "inference" : "training";
    contents.loss = legalized.loss;
    contents.embedWeights = options.embedWeights;
    if (options.embedIR) {
      llvm::raw_string_ostream stream(contents.ir);
      module->print(stream, OpPrintingFlags().enableDebugInfo().elideLargeElementsAttrs(64));
      stream << "\n";
    }
    contents.signKey = options.signKey;
    if (options.tellCommandLine)
      contents.arguments = options.arguments;
    if (options.legalize.inference || legalized.ownUpdates)
      return;
    contents.optimizer = describeOptimizer(options, model.steps);
  }

  /// Loads the dialects of code generation, which must happen outside of pass managers.
  std::unique_ptr<codegen::KernelCodegen> makeCodegen(bool variants) {
    return options.target->createKernels(
        context, {options.processors, options.toolkit, variants, options.cache});
  }

  //===--------------------------------------------------------------------===//
  // Faults
  //===--------------------------------------------------------------------===//

  /// Whether a model that cannot be compiled is found there: then a failure is the model's.
  static bool mayRefuse(StringRef phase) { return phase == "graph"; }

  /// A phase has failed that `build` is the pipeline of, if any: writes the reproducer.
  int reportFault(StringRef phase, std::string fault, BuildPipeline build = nullptr) {
    Reproducer reproducer{phase == "package" ? "codegen" : phase.str(), fault, "", {}};
    OwningOpRef<ModuleOp> ir = std::move(before);
    std::string pass;
    if (build && ir) {
      log.mute(true);
      FailingPass found = findFailingPass(*ir, build, guard);
      log.mute(false);
      const bool isCheck = StringRef(found.pipeline).contains("(verify-");
      if (found.kind == FailingPass::Reported && printer.errors() && mayRefuse(phase) && !isCheck)
        return ExitInput;
      crashed |= found.kind == FailingPass::Crashed;
      if (found.kind == FailingPass::BrokenIR)
        reproducer.fault = fault = "made invalid IR";
      if (found.module) {
        ir = std::move(found.module);
        reproducer.pipeline = found.pipeline;
        pass = " in " + found.pipeline;
      } else {
        PassManager pm(&context, ModuleOp::getOperationName());
        build(pm);
        llvm::raw_string_ostream text(reproducer.pipeline);
        pm.printAsTextualPipeline(text);
      }
    }
    llvm::errs() << "trainc: error: phase '" << phase << "' " << fault << pass
                 << "; this is a fault of the compiler\n";
    if (!ir) {
      llvm::errs() << "trainc: note: please report it with the model: there is no IR of it yet\n";
      return ExitInternal;
    }
    reproducer.arguments = options.arguments;
    // Not the device that this machine has.
    reproducer.arguments.push_back("--target=" + options.target->spell(options.processors));
    std::string file = writeReproducer(reproducer, *ir);
    if (!file.empty())
      llvm::errs() << "trainc: note: '" << file << "' reproduces it (trainc --replay " << file
                   << ") and holds no weights: please report it\n";
    return ExitInternal;
  }

  /// Beside the package, else where temporary files go. Returns where, "" after a message if
  /// nowhere.
  std::string writeReproducer(const Reproducer &reproducer, ModuleOp ir) {
    llvm::SmallString<256> beside(outputs.package()), temporary;
    llvm::sys::path::replace_extension(beside, "repro.mlir");
    llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, temporary);
    llvm::sys::path::append(temporary, llvm::sys::path::filename(beside));
    std::string problem;
    for (StringRef path : {beside.str(), temporary.str()}) {
      if (!(problem = outputs.files().writes(path, "the reproducer")).empty())
        continue;
      problem = writeTextFile(
          path, [&](raw_ostream &out) { printReproducer(reproducer, ir, path, out); });
      if (problem.empty())
        return path.str();
    }
    llvm::errs() << "trainc: note: there is no reproducer: " << trainrt::shownLines(problem)
                 << "\n";
    return {};
  }

  int replayPhase(ParsedReproducer &reproducer) {
    StringRef phase = reproducer.phase;
    if (!options.output.empty() && phase != "codegen") {
      Log::error(options.replay, "-o goes with a reproducer of the phase 'codegen': one of '" +
                                     phase + "' makes no package");
      return ExitInput;
    }
    int code = ExitSuccess;
    timer = rootTimer.nest(phase);
    std::string signal = guard.run([&] {
      if (phase == "graph" || phase == "schedule") {
        registerAllPasses();
        auto *pm = new PassManager(&context, ModuleOp::getOperationName());
        pm->enableTiming(timer);
        code = failed(reproducer.passes.apply(*pm))        ? ExitInput
               : (phase == "schedule" && !readInterface()) ? ExitInternal
               : failed(pm->run(*module))                  ? ExitInternal
                                                           : ExitSuccess;
        delete pm;
        return;
      }
      if (options.onPhase)
        options.onPhase(phase, nullptr);
      if (phase == "legalize") {
        code = legalize();
      } else if (phase == "codegen") {
        code = readInterface() ? generateCode() : ExitInternal;
        if (!code)
          code = options.output.empty() ? makeProgram() : packageReplayed();
      } else {
        Log::error(options.replay, "there is no phase '" + phase + "'");
        code = ExitInput;
      }
    });
    timer.stop();
    crashed = !signal.empty();
    if (crashed || code == ExitInternal) {
      llvm::errs() << "trainc: error: phase '" << trainrt::shown(phase.str()) << "' "
                   << (crashed ? "crashed (" + signal + ")" : "failed") << "\n";
      return ExitInternal;
    }
    if (!code)
      log.info() << "phase '" << trainrt::shown(phase.str()) << "' finds no fault in "
                 << trainrt::shown(options.replay) << "\n";
    return code;
  }

  //===--------------------------------------------------------------------===//
  // What the user sees
  //===--------------------------------------------------------------------===//

  static double secondsSince(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void begin() {
    start = Clock::now();
    log.debug() << "version " TRAINC_VERSION ": " << llvm::join(options.arguments, " ") << "\n";
  }

  /// --timing, on standard error
  void printTiming() {
    rootTimer.stop();
    timing.print();
    timing.setEnabled(false);
  }

  void reportModel() {
    log.info() << trainrt::shown(options.model) << ": " << legalized.nodes << " nodes -> "
               << legalized.ops << " ops; target " << options.target->name() << " "
               << llvm::join(options.processors, " ") << "\n";
  }

  /// Saves the IR of a finished phase where asked for. Returns the exit code where the compilation
  /// ends here.
  std::optional<int> endPhase(StringRef phase) {
    if (precedesSavedIR(phase))
      return std::nullopt;
    if (int code = outputs.savePhase(phase, [&](raw_ostream &out) {
          printSavedIR(*module, options.arguments, options.target->spell(options.processors), out);
        }))
      return code;
    if (unsigned count = log.promotedWarnings()) {
      Log::error(options.model,
                 llvm::Twine(count) +
                     (count == 1 ? " warning counts as an error" : " warnings count as errors") +
                     " (--warnings-as-errors)");
      return ExitInput;
    }
    if (options.stopAfter != phase)
      return std::nullopt;
    log.info() << "stopped after " << phase << "\n";
    return ExitSuccess;
  }

  CompileOptions options;
  Log log;
  CrashGuard guard;
  MLIRContext context;
  DiagnosticPrinter printer;
  Outputs outputs;
  std::unique_ptr<codegen::KernelCodegen> codegen;
  OwningOpRef<ModuleOp> module, before;
  /// All of it, and the phase under way.
  DefaultTimingManager timing;
  TimingScope rootTimer, timer;
  /// The plan without recompute, where a report compares with it.
  OwningOpRef<ModuleOp> plain;
  ImportedModel model;
  LegalizeResult legalized;
  PackageInterface interface;
  PackageContents contents;
  bool crashed = false, budgetRefused = false;
  Clock::time_point start;
};

/// A compilation that has crashed stays in memory: what it holds may be damaged.
int runToEnd(const CompileOptions &options, llvm::function_ref<int(Compilation &)> run) {
  auto compilation = std::make_unique<Compilation>(options);
  int code = run(*compilation);
  if (compilation->hasCrashed())
    (void)compilation.release();
  return code;
}

/// What the command line says of how much is told and what is saved, where all else is what another
/// command line said.
void takeInspection(const CompileOptions &given, CompileOptions &options) {
  options.cache = given.cache;
  options.logLevel = given.logLevel;
  options.warningsAsErrors = given.warningsAsErrors;
  options.explain = given.explain;
  options.timing = given.timing;
  options.remarks = given.remarks;
  options.saveIR = given.saveIR;
  options.saveKernels = given.saveKernels;
  options.onPhase = given.onPhase;
}

/// The options of a command line that `file` holds. Returns an exit code.
int parseStored(const std::vector<std::string> &stored, const std::string &file,
                CompileOptions &options) {
  std::vector<const char *> arguments = {"trainc"};
  for (const std::string &argument : stored)
    arguments.push_back(argument.c_str());
  std::optional<int> code = parseCommandLine(arguments.size(), arguments.data(), options);
  if (code)
    Log::error(file, "its command line is not understood");
  return !code ? int(ExitSuccess) : *code ? *code : int(ExitInput);
}

/// The phase of a reproducer with the options of the command line in it. How much is told, and
/// what is saved, is what `given` says.
int replayReproducer(const CompileOptions &given) {
  ParsedReproducer reproducer;
  std::string problem;
  if (!readReproducerHeader(given.replay, reproducer, problem)) {
    Log::error(given.replay, problem);
    return ExitInput;
  }
  CompileOptions options;
  if (int code = parseStored(reproducer.arguments, given.replay, options))
    return code;
  options.replay = given.replay;
  takeInspection(given, options);
  options.output = given.output;
  return runToEnd(options,
                  [&](Compilation &compilation) { return compilation.replay(reproducer); });
}

/// Goes on with the IR of a phase, with the options of the command line in it.
int resumeCompilation(const CompileOptions &given) {
  Log log(given.logLevel, /*warningsAsErrors=*/false);
  std::vector<std::string> arguments;
  CompileOptions options;
  if (int code = checkSavedIR(given.model, given.startFrom, log, arguments))
    return code;
  if (int code = parseStored(arguments, given.model, options))
    return code;
  if (options.model.empty()) {
    Log::error(given.model, "its command line names no model");
    return ExitInput;
  }
  // The target, which whoever wrote the command line need not have named.
  options.arguments.pop_back();
  takeInspection(given, options);
  options.startFrom = given.startFrom;
  options.savedIR = given.model;
  options.stopAfter = given.stopAfter;
  options.printPipeline = false;
  if (!given.output.empty())
    options.output = given.output;
  return runToEnd(options, [](Compilation &compilation) { return compilation.run(); });
}
} // namespace

int trainc::compile(const CompileOptions &options) {
  if (!options.replay.empty())
    return replayReproducer(options);
  if (!options.startFrom.empty())
    return resumeCompilation(options);
  return runToEnd(options, [](Compilation &compilation) { return compilation.run(); });
}
