// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The file: comments for people, one of them with a JSON object; the module; and a resource with
// the pipeline where mlir-opt looks for it.

#include "lib/Driver/Reproducer.h"
#include "format/json_depth.h"
#include "format/status.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/Pass.h"
#include "mlir/Pass/PassInstrumentation.h"
#include "trainc/Support/RegularFile.h"
#include "trainc/Support/TextFile.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/LineIterator.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace trainc;

static constexpr StringLiteral kHeader = "// reproducer: ";

namespace {

/// Keeps the pass under way and the module before it; stops with the first that fails.
class LastPass : public PassInstrumentation {
public:
  explicit LastPass(FailingPass &found) : found(found) {}

  void runBeforePass(Pass *pass, Operation *op) override {
    // Behind a failure other passes may still run.
    if (found.kind != FailingPass::None)
      return;
    llvm::raw_string_ostream text(pipeline);
    pipeline.clear();
    SmallVector<StringRef> anchors;
    // The pass is nested in these ops: the pipeline has to name them.
    Operation *root = op;
    for (Operation *at = op; at; at = at->getParentOp()) {
      anchors.push_back(at->getName().getStringRef());
      root = at;
    }
    for (StringRef anchor : llvm::reverse(anchors))
      text << anchor << "(";
    pass->printAsTextualPipeline(text);
    text << std::string(anchors.size(), ')');
    // Before each pass: the last clone is what a crash began with.
    before = cast<ModuleOp>(root->clone());
  }
  void runAfterPass(Pass *, Operation *op) override {
    if (failed(verify(op)))
      record(FailingPass::BrokenIR);
  }
  void runAfterPassFailed(Pass *, Operation *) override { record(FailingPass::Reported); }

  /// The first failure counts; without a pass before it there is none.
  void record(FailingPass::Kind kind) {
    if (found.kind != FailingPass::None || !before)
      return;
    found.kind = kind;
    found.pipeline = pipeline;
    found.module = std::move(before);
  }

private:
  FailingPass &found;
  std::string pipeline;
  OwningOpRef<ModuleOp> before;
};

} // namespace

FailingPass trainc::findFailingPass(ModuleOp module, function_ref<void(OpPassManager &)> build,
                                    CrashGuard &guard) {
  FailingPass found;
  // Not destroyed after a crash.
  // Instrumentation outlives the run, in the manager.
  auto pm = std::make_unique<PassManager>(module.getContext(), ModuleOp::getOperationName());
  OwningOpRef<ModuleOp> copy = module.clone();
  build(*pm);
  // The verifier runs here, so that what it finds is told from what passes say.
  pm->enableVerifier(false);
  auto instrumentation = std::make_unique<LastPass>(found);
  LastPass *last = instrumentation.get();
  pm->addInstrumentation(std::move(instrumentation));
  std::string signal = guard.run([&] { (void)pm->run(*copy); });
  if (!signal.empty()) {
    assert(last && "added above");
    last->record(FailingPass::Crashed);
    (void)pm.release();
    (void)copy.release();
  }
  return found;
}

void trainc::printReproducer(const Reproducer &reproducer, ModuleOp module, StringRef path,
                             raw_ostream &out) {
  // People read it first, then programs.
  StringRef file = llvm::sys::path::filename(path);
  out << "// trainc " TRAINC_VERSION ": phase '" << reproducer.phase << "' " << reproducer.fault
      << "\n// replay: trainc --replay " << file;
  if (!reproducer.pipeline.empty())
    out << ", or trainc-opt --run-reproducer " << file;
  // Arguments may be any bytes.
  llvm::json::Array arguments;
  for (const std::string &argument : reproducer.arguments)
    arguments.push_back(llvm::json::fixUTF8(argument));
  out << "\n"
      << kHeader
      << llvm::json::Value(
             llvm::json::Object{{"phase", reproducer.phase}, {"arguments", std::move(arguments)}})
      << "\n";
  AsmState state(module, OpPrintingFlags().enableDebugInfo());
  // mlir-opt reads the pipeline from a resource.
  if (!reproducer.pipeline.empty())
    state.attachResourcePrinter("mlir_reproducer", [&](Operation *, AsmResourceBuilder &builder) {
      builder.buildString("pipeline", reproducer.pipeline);
      builder.buildBool("disable_threading", true);
      builder.buildBool("verify_each", true);
    });
  module->print(out, state);
  out << "\n";
}

std::string trainc::writeReproducer(const Reproducer &reproducer, ModuleOp module,
                                    StringRef package, FileRoles &files) {
  llvm::SmallString<256> beside(package), temporary;
  // Beside the package, or where anybody may write.
  llvm::sys::path::replace_extension(beside, "repro.mlir");
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, temporary);
  llvm::sys::path::append(temporary, llvm::sys::path::filename(beside));
  std::string problem;
  for (StringRef path : {beside.str(), temporary.str()}) {
    // Never over an input or output.
    if (!(problem = files.writes(path, "the reproducer")).empty())
      continue;
    problem = writeTextFile(
        path, [&](raw_ostream &out) { printReproducer(reproducer, module, path, out); });
    if (problem.empty())
      return path.str();
  }
  llvm::errs() << "trainc: note: there is no reproducer: " << trainrt::shownLines(problem) << "\n";
  return {};
}

bool trainc::readReproducerHeader(StringRef path, ParsedReproducer &reproducer,
                                  std::string &problem) {
  std::unique_ptr<llvm::MemoryBuffer> file = readRegularFile(path, problem);
  if (!file)
    return false;
  // Lines end with a zero behind the text.
  auto buffer = llvm::MemoryBuffer::getMemBufferCopy(file->getBuffer());
  for (llvm::line_iterator line(*buffer); !line.is_at_end(); ++line) {
    // Only comments in front of the module are looked at.
    StringRef text = *line;
    if (!text.starts_with("//"))
      break;
    if (!text.consume_front(kHeader))
      continue;
    // The parser recurses.
    if (trainrt::nestsTooDeep(text))
      break;
    llvm::Expected<llvm::json::Value> header = llvm::json::parse(text);
    const llvm::json::Object *object = header ? header->getAsObject() : nullptr;
    const llvm::json::Array *arguments = object ? object->getArray("arguments") : nullptr;
    std::optional<StringRef> phase = object ? object->getString("phase") : std::nullopt;
    if (!header)
      llvm::consumeError(header.takeError());
    // Damaged: the message below says what it is not.
    if (!arguments || !phase)
      break;
    reproducer.phase = phase->str();
    // What is no text is an empty argument, which parsing refuses.
    for (const llvm::json::Value &argument : *arguments)
      reproducer.arguments.push_back(argument.getAsString().value_or("").str());
    return true;
  }
  problem = "it does not begin as a reproducer of trainc does; trainc-opt --run-reproducer runs "
            "those of other tools";
  return false;
}

LogicalResult trainc::readReproducerModule(StringRef path, MLIRContext &context,
                                           ParsedReproducer &reproducer) {
  ParserConfig config(&context);
  // The resource is read along with the module.
  reproducer.passes.attachResourceParser(config);
  reproducer.module = parseSourceFile<ModuleOp>(path, config);
  return success(bool(reproducer.module));
}
