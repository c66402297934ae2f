// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc-lsp-server: the language server of .mlir files for editors, with trainc's dialects. A thin
// main over MLIR's server.

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Support/LogicalResult.h"
#include "mlir/Tools/mlir-lsp-server/MlirLspServerMain.h"
#include "trainc/Registry/Registry.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  trainc::registerAllDialects(registry);
  return llvm::failed(mlir::MlirLspServerMain(argc, argv, registry));
}
