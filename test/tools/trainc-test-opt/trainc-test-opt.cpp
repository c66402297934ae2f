// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc-test-opt: trainc-opt with the test dialect and the passes of tests.

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "test/lib/TestDialect/TestDialect.h"
#include "test/lib/TestPasses/TestPasses.h"
#include "trainc/Registry/Registry.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  trainc::registerAllDialects(registry);
  registry.insert<trainc::testdialect::TestDialect>();
  trainc::registerAllPasses();
  trainc::testdialect::registerTestCodegenPass();
  trainc::testdialect::registerTestEvaluatePass();
  trainc::testdialect::registerTestGroupLaunchesPass();
  trainc::testdialect::registerTestLifetimesPass();
  trainc::testdialect::registerTestTrainToPlanPass();
  trainc::testdialect::registerTestInputRulesPass();
  trainc::testdialect::registerTestTokenInputsPass();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "trainc's optimizer driver, for tests\n", registry));
}
