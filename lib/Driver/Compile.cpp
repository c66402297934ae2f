// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// One compilation: import, legalize, graph, schedule, codegen, package.

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "lib/Conversion/TrainToPlan/GroupLaunches.h"
#include "lib/Conversion/TrainToPlan/TrainToPlan.h"
#include "lib/Driver/Diagnostics.h"
#include "lib/Package/Package.h"
#include "lib/Package/ProgramWriter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "trainc/Driver.h"
#include "trainc/Regex.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/Path.h"
#include <chrono>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using Clock = std::chrono::steady_clock;

namespace {

class Compilation {
public:
  explicit Compilation(const CompileOptions &options)
      : options(options), printer(context, options.model) {
    context.disableMultithreading();
    context.printOpOnDiagnostic(false);
    context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                        onnx::ONNXDialect, TrainDialect, plan::PlanDialect>();
    if (options.explain)
      explainDecisions(context);
  }

  int run() {
    start = Clock::now();
    if (int code = checkOutput())
      return code;
    // Loads the dialects of code generation, which must happen outside of pass managers.
    std::unique_ptr<codegen::KernelCodegen> codegen;
    if (options.cuda)
      codegen = std::make_unique<codegen::GpuCodegen>(
          context, codegen::GpuOptions{options.targets, options.cudaPath, options.variants});
    else
      codegen = std::make_unique<codegen::CpuCodegen>(context, options.targets);
    if (int code = import())
      return code;
    if (phaseDone("import"))
      return ExitSuccess;
    if (failed(legalizeONNX(*module, options.legalize, legalized)))
      return ExitInput;
    scaleParameters();
    reportParameters();
    if (phaseDone("legalize"))
      return ExitSuccess;
    PassManager graph(&context), schedule(&context);
    buildGraphPipeline(graph, options.graph);
    buildSchedulePipeline(schedule, options.schedule);
    if (options.printPipeline) {
      for (PassManager *pm : {&graph, &schedule}) {
        pm->printAsTextualPipeline(llvm::errs());
        llvm::errs() << "\n";
      }
    }
    if (failed(graph.run(*module)))
      return ExitInput;
    if (phaseDone("graph"))
      return ExitSuccess;
    FailureOr<PackageInterface> interface = collectInterface(*module);
    if (failed(interface))
      return internalError("graph");
    checkpointIR();
    if (failed(schedule.run(*module)))
      return internalError("schedule");
    if (phaseDone("schedule"))
      return ExitSuccess;
    PackageContents contents;
    if (failed(generateCode(*codegen, contents)))
      return codegen->lacksTools() ? ExitInput : internalError("codegen");
    if (phaseDone("codegen"))
      return ExitSuccess;
    FailureOr<std::vector<char>> program = writeProgram(*module, *interface, options.cuda);
    if (failed(program))
      return internalError("package");
    contents.program = std::move(*program);
    describe(contents);
    std::string output = outputPath();
    if (failed(writePackage(*module, *interface, model, contents, output)))
      return ExitInput;
    reportPackage(output, codegen->size());
    return ExitSuccess;
  }

private:
  /// Whether the package can be written, before time is spent on it.
  int checkOutput() {
    std::string output = outputPath();
    StringRef folder = llvm::sys::path::parent_path(output);
    std::error_code code =
        llvm::sys::fs::access(folder.empty() ? "." : folder, llvm::sys::fs::AccessMode::Write);
    if (!options.stopAfter.empty() || !code)
      return ExitSuccess;
    llvm::errs() << options.model << ": error: cannot create '" << output << "': '" << folder
                 << "': " << code.message() << "; -o names another place\n";
    return ExitInput;
  }

  int import() {
    if (!llvm::sys::fs::exists(options.model)) {
      llvm::errs() << options.model << ": error: no such file\n";
      return ExitInput;
    }
    module = importONNX(options.model, context, model);
    return module ? ExitSuccess : ExitInput;
  }

  /// Sets the factors of --no-decay and --lr-scale on the parameters.
  void scaleParameters() {
    auto forward = module->lookupSymbol<func::FuncOp>("forward");
    Regex noDecay;
    noDecay.compile(options.noDecay);
    std::vector<std::pair<Regex, double>> scales;
    for (auto &[pattern, factor] : options.lrScale) {
      scales.emplace_back(Regex(), factor);
      scales.back().first.compile(pattern);
    }
    Builder builder(&context);
    for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
      auto name = forward.getArgAttrOfType<StringAttr>(i, kNameAttr);
      if (!forward.getArgAttr(i, kTrainableAttr) || !name)
        continue;
      if (!options.noDecay.empty() && noDecay.search(name.getValue()))
        forward.setArgAttr(i, kDecayScaleAttr, builder.getF64FloatAttr(0));
      for (auto &[regex, factor] : scales)
        if (regex.search(name.getValue())) {
          forward.setArgAttr(i, kLrScaleAttr, builder.getF64FloatAttr(factor));
          break;
        }
    }
  }

  LogicalResult generateCode(codegen::KernelCodegen &codegen, PackageContents &contents) {
    auto source = [&](train::FusionOp fusion) { return codegen.add(fusion); };
    SmallVector<func::FuncOp> functions(module->getOps<func::FuncOp>());
    for (func::FuncOp function : functions)
      if (failed(convertTrainToPlan(function, source, options.graph.precision == Precision::TF32)))
        return failure();
    auto grouped = [&](StringRef kernel) { return codegen.addGrouped(kernel); };
    if (options.cuda)
      for (auto function : module->getOps<plan::FunctionOp>())
        groupLaunches(function, grouped);
    if (!options.saveIR.empty())
      saveText("5-kernels.mlir", [&](raw_ostream &out) { codegen.getModule().print(out); });
    FailureOr<std::vector<codegen::KernelObject>> objects = codegen.emitObjects();
    if (failed(objects))
      return failure();
    contents.kernels = std::move(*objects);
    for (const std::string &target : options.targets)
      contents.targets.push_back((options.cuda ? "cuda:" : "cpu:") + target);
    return success();
  }

  void describe(PackageContents &contents) {
    contents.kind = options.legalize.inference ? "inference" : "training";
    contents.loss = legalized.loss;
    contents.embedWeights = options.embedWeights;
    if (options.embedIR) {
      llvm::raw_string_ostream stream(contents.ir);
      printIR(stream);
    }
    contents.options = llvm::json::Object{{"command", options.commandLine}};
    if (options.legalize.inference)
      return;
    const GraphOptions &graph = options.graph;
    contents.optimizer =
        llvm::json::Object{{"name", graph.optimizer},
                           {"lr", options.lr},
                           {"betas", llvm::json::Array{graph.betas[0], graph.betas[1]}},
                           {"eps", graph.epsilon},
                           {"weight_decay", options.weightDecay},
                           {"clip_norm", graph.clip ? llvm::json::Value(options.clipNorm)
                                                    : llvm::json::Value(nullptr)},
                           {"momentum", graph.momentum},
                           {"nesterov", graph.nesterov},
                           {"accumulate", options.accumulate}};
  }

  std::string outputPath() const {
    if (!options.output.empty())
      return options.output;
    llvm::SmallString<256> path(options.model);
    llvm::sys::path::replace_extension(path, "tpk");
    return path.str().str();
  }

  //===--------------------------------------------------------------------===//
  // What the user sees
  //===--------------------------------------------------------------------===//

  double seconds() const { return std::chrono::duration<double>(Clock::now() - start).count(); }

  void reportParameters() {
    int64_t elements = 0;
    for (const ParameterChoice &choice : legalized.trained)
      elements += choice.elements;
    llvm::errs() << "trainc: " << options.model << ": " << legalized.nodes << " nodes -> "
                 << legalized.ops << " ops; target " << (options.cuda ? "cuda" : "cpu");
    for (const std::string &target : options.targets)
      llvm::errs() << " " << target;
    llvm::errs() << "\n";
    if (!options.legalize.inference)
      llvm::errs() << "trainc: trains " << legalized.trained.size() << " parameters (" << elements
                   << " elements) to minimise '" << legalized.loss << "'\n";
    for (const ParameterChoice &choice : legalized.excluded)
      if (!options.legalize.inference)
        llvm::errs() << "trainc: not trained: " << choice.name << " (" << choice.reason << ")\n";
    if (!legalized.inactiveDropouts.empty())
      llvm::errs() << options.model << ": warning: " << legalized.inactiveDropouts.size()
                   << " Dropout nodes are inactive in the export (first: '"
                   << legalized.inactiveDropouts.front()
                   << "'); --dropout on activates them, --dropout off silences this\n";
  }

  void reportPackage(StringRef output, size_t kernels) {
    uint64_t size = 0;
    (void)llvm::sys::fs::file_size(output, size);
    llvm::errs() << "trainc: wrote " << output << " (" << kernels << " kernels, " << size / 1024
                 << " KiB) in " << llvm::format("%.2f", seconds()) << " s\n";
  }

  /// Saves the IR of a finished phase where asked for; true where the user wants to stop here.
  bool phaseDone(StringRef phase) {
    static constexpr StringLiteral phases[] = {"import", "legalize", "graph", "schedule",
                                               "codegen"};
    if (!options.saveIR.empty()) {
      size_t number = llvm::find(phases, phase) - std::begin(phases) + 1;
      saveText(std::to_string(number) + "-" + phase.str() + ".mlir",
               [&](raw_ostream &out) { printIR(out); });
    }
    if (options.stopAfter != phase)
      return false;
    llvm::errs() << "trainc: stopped after " << phase << "\n";
    return true;
  }
  /// A file of --save-ir.
  void saveText(StringRef name, llvm::function_ref<void(raw_ostream &)> print) {
    llvm::sys::fs::create_directories(options.saveIR);
    llvm::SmallString<256> path(options.saveIR);
    llvm::sys::path::append(path, name);
    std::error_code error;
    llvm::raw_fd_ostream file(path, error);
    if (error)
      llvm::errs() << "trainc: warning: cannot write '" << path << "': " << error.message() << "\n";
    else
      print(file);
  }
  /// The module with its locations, which are ONNX nodes, without large constants.
  void printIR(raw_ostream &out) {
    module->print(out, OpPrintingFlags().enableDebugInfo().elideLargeElementsAttrs(64));
  }

  /// Keeps the IR before the phases that have no excuse to fail.
  void checkpointIR() {
    reproducer.clear();
    llvm::raw_string_ostream stream(reproducer);
    printIR(stream);
  }
  int internalError(StringRef phase) {
    llvm::SmallString<256> path(llvm::sys::path::filename(options.model));
    llvm::sys::path::replace_extension(path, "repro.mlir");
    std::error_code error;
    llvm::raw_fd_ostream file(path, error);
    if (!error)
      file << "// trainc " TRAINC_VERSION ": phase '" << phase
           << "' failed on: " << options.commandLine << "\n// replay: trainc-opt --schedule "
           << path << "\n"
           << reproducer;
    llvm::errs() << "trainc: error: phase '" << phase
                 << "' failed; this is a fault of the compiler. The IR is in '" << path
                 << "' (no weights in it): please report it\n";
    return ExitInternal;
  }

  const CompileOptions &options;
  MLIRContext context;
  DiagnosticPrinter printer;
  OwningOpRef<ModuleOp> module;
  ImportedModel model;
  LegalizeResult legalized;
  std::string reproducer;
  Clock::time_point start;
};
} // namespace

int trainc::compile(const CompileOptions &options) { return Compilation(options).run(); }
