// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc-translate: --import-onnx FILE.onnx prints the module of the `onnx` dialect, --dump-package
// FILE.tpk a package as text, --list-operators (of no file: /dev/null) the table of the ONNX
// operators that compile. A thin main over MLIR's translation driver.

#include "dialects/ONNX/ONNXDialect.h"
#include "lib/Package/DumpPackage.h"
#include "mlir/Tools/mlir-translate/MlirTranslateMain.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "trainc/Import.h"
#include "trainc/Legalize.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;

/// Both formats refer to other files or are mapped, so they are opened by their name.
static StringRef nameOf(const llvm::SourceMgr &sources) {
  return sources.getMemoryBuffer(sources.getMainFileID())->getBufferIdentifier();
}

int main(int argc, char **argv) {
  TranslateToMLIRRegistration importRegistration(
      "import-onnx", "import an ONNX model",
      [](llvm::SourceMgr &sources, MLIRContext *context) -> OwningOpRef<Operation *> {
        trainc::ImportedModel imported;
        OwningOpRef<ModuleOp> module = trainc::importONNX(nameOf(sources), *context, imported);
        return module ? OwningOpRef<Operation *>(module.release()) : nullptr;
      },
      [](DialectRegistry &registry) { registry.insert<trainc::onnx::ONNXDialect>(); });
  TranslateRegistration dumpRegistration(
      "dump-package", "print a package as text",
      [](const std::shared_ptr<llvm::SourceMgr> &sources, raw_ostream &out, MLIRContext *) {
        return trainc::dumpPackage(nameOf(*sources), out, llvm::errs());
      });
  TranslateRegistration listRegistration(
      "list-operators", "print a table of the ONNX operators that compile",
      [](const std::shared_ptr<llvm::SourceMgr> &, raw_ostream &out, MLIRContext *) {
        trainc::listOperators(out);
        return success();
      });
  return failed(mlirTranslateMain(argc, argv, "trainc translation tool"));
}
