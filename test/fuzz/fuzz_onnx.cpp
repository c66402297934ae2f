// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: an ONNX file through import, legalization and the passes on the graph. Whatever
// fails has said why; whatever succeeds verifies.

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Pass/PassManager.h"
#include "scratch.h"
#include "trainc/Conversion/Legalize.h"
#include "trainc/Import/Import.h"
#include "trainc/Pipelines/Pipelines.h"
#include "wire_mutator.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::fuzz;

/// LLVM's shared library is built without a sanitizer and shares allocators with what is built
/// with one, which would then find poison in memory that is in use.
extern "C" const char *__asan_default_options() { return "allow_user_poisoning=0"; }

namespace {

/// One context for a number of inputs: it costs more than a small input does, and keeps all
/// attributes of every input.
class Compiler {
public:
  Compiler() : context(MLIRContext::Threading::DISABLED) {
    context.printOpOnDiagnostic(false);
    context.loadDialect<arith::ArithDialect, func::FuncDialect, math::MathDialect,
                        onnx::ONNXDialect, train::TrainDialect>();
    context.getDiagEngine().registerHandler([this](Diagnostic &diagnostic) {
      errors += diagnostic.getSeverity() == DiagnosticSeverity::Error;
      require(!diagnostic.str().empty(), "a diagnostic says something");
      return success();
    });
  }

  void run(StringRef path) {
    errors = 0;
    ImportedModel model;
    OwningOpRef<ModuleOp> module = importONNX(path, context, model);
    require(bool(module) || errors, "a failed import says why");
    if (!module)
      return;
    require(succeeded(verify(*module)), "an imported module verifies");
    LegalizeOptions options;
    LegalizeResult result;
    bool trains = succeeded(legalizeONNX(*module, options, result));
    if (!trains) {
      require(errors, "a failed legalization says why");
      options.inference = true;
      if (failed(legalizeONNX(*module, options, result)))
        return;
    }
    GraphOptions graph;
    graph.inference = options.inference;
    PassManager passes(&context);
    buildGraphPipeline(passes, graph);
    errors = 0;
    if (failed(passes.run(*module)))
      require(errors, "passes that fail say why");
  }

  unsigned runs = 0;

private:
  MLIRContext context;
  unsigned errors = 0;
};

/// The operators that legalization knows, for the mutator.
const std::vector<std::string> &operators() {
  static const std::vector<std::string> names = [] {
    std::string table;
    llvm::raw_string_ostream stream(table);
    listOperators(stream);
    std::vector<std::string> result;
    SmallVector<StringRef> lines;
    StringRef(table).split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (StringRef line : lines)
      result.push_back(line.split('`').second.split('`').first.str());
    return result;
  }();
  return names;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static std::unique_ptr<Compiler> compiler;
  if (!compiler || ++compiler->runs == 200) {
    compiler = std::make_unique<Compiler>();
    writeScratch("w.bin", std::string(64, '\x3c'));
  }
  compiler->run(writeScratch("m.onnx", {reinterpret_cast<const char *>(data), size}));
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed) {
  return mutateWire(data, size, limit, seed, operators());
}
