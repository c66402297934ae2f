// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc-opt: runs passes on IR. A thin main over MLIR's driver.

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "trainc/Registry.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  trainc::registerAllDialects(registry);
  trainc::registerAllPasses();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "trainc's optimizer driver\n", registry));
}
