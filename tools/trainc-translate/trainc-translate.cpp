// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc-translate: --import-onnx FILE.onnx prints the module of the `onnx` dialect, --dump-package
// FILE.tpk a package as text, --list-operators the table of the ONNX operators that compile. Not a
// main of MLIR's: that empties the output before an import has told which files it reads.

#include "dialects/ONNX/ONNXDialect.h"
#include "mlir/IR/AsmState.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Verifier.h"
#include "trainc/Conversion/Legalize.h"
#include "trainc/Import/Import.h"
#include "trainc/Package/DumpPackage.h"
#include "trainc/Support/FileRoles.h"
#include "trainc/Support/Names.h"
#include "trainc/Support/Temporaries.h"
#include "trainc/Support/TextFile.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
namespace cl = llvm::cl;

namespace {
enum class Translation { ImportONNX, DumpPackage, ListOperators };

/// The text; what is read besides the input is added to `files`.
LogicalResult translate(Translation translation, StringRef input, trainc::FileRoles &files,
                        raw_ostream &out) {
  // Its own reader, without IR.
  if (translation == Translation::DumpPackage)
    return trainc::dumpPackage(input, out, llvm::errs());
  if (translation == Translation::ListOperators) {
    trainc::listOperators(out);
    return success();
  }
  MLIRContext context;
  context.loadDialect<trainc::onnx::ONNXDialect>();
  llvm::SourceMgr sources;
  // Names in messages are the file's.
  std::string said;
  llvm::raw_string_ostream messages(said);
  auto show = llvm::make_scope_exit([&] { llvm::errs() << trainc::showNames(said); });
  SourceMgrDiagnosticHandler handler(sources, &context, messages);
  trainc::ImportedModel imported;
  OwningOpRef<ModuleOp> module = trainc::importONNX(input, context, imported);
  if (!module || failed(verify(*module)))
    return failure();
  // Weights are read where they are, so that no output may be one.
  for (const std::string &file : imported.weightFiles) {
    llvm::SmallString<256> path(imported.folder);
    llvm::sys::path::append(path, file);
    files.reads(path, "a file of the model's weights");
  }
  module->print(out);
  return success();
}
} // namespace

int main(int argc, char **argv) {
  cl::opt<std::string> input(cl::Positional, cl::desc("<input file>"));
  cl::opt<std::string> output("o", cl::desc("Output filename"), cl::value_desc("filename"),
                              cl::init("-"));
  cl::opt<Translation> translation(
      cl::desc("Translation to perform"), cl::Required,
      cl::values(clEnumValN(Translation::ImportONNX, "import-onnx", "print an ONNX model"),
                 clEnumValN(Translation::DumpPackage, "dump-package", "print a package"),
                 clEnumValN(Translation::ListOperators, "list-operators",
                            "print a table of the ONNX operators that compile")));
  registerAsmPrinterCLOptions();
  trainc::endOnSignals();
  cl::ParseCommandLineOptions(argc, argv, "trainc translation tool\n");
  // Listing needs no input.
  if (input.empty() && translation != Translation::ListOperators) {
    llvm::errs() << "trainc-translate: error: no input file is given\n";
    return 2;
  }
  trainc::FileRoles files;
  files.reads(input, "the input");
  // Into memory first: an output appears only if all went well.
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(translate(translation, input, files, stream)))
    return 1;
  // Standard output is nobody's file.
  if (output == "-") {
    llvm::outs() << text;
    return 0;
  }
  if (std::string problem = files.writes(output, "-o"); !problem.empty()) {
    llvm::errs() << "trainc-translate: error: " << trainc::showNames(problem) << "\n";
    return 2;
  }
  std::string problem = trainc::writeTextFile(output, [&](raw_ostream &out) { out << text; });
  if (!problem.empty())
    llvm::errs() << "trainc-translate: error: " << trainc::showNames(problem) << "\n";
  return !problem.empty();
}
