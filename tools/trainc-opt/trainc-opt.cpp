// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// trainc-opt: runs passes on IR. A thin main over MLIR's driver.

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "trainc/Registry/Registry.h"
#include "trainc/Support/FileRoles.h"
#include "trainc/Support/Names.h"
#include "trainc/Support/RegularFile.h"
#include "llvm/Support/CommandLine.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  // Pipelines by name, as docs have them.
  trainc::registerAllPasses();
  // Their passes are options, too: before all others are read.
  for (int i = 1; i < argc; ++i)
    if (llvm::StringRef file = argv[i]; file.consume_front("--plugin="))
      if (std::optional<trainc::plugin::Fault> fault = trainc::loadPlugin(file)) {
        llvm::errs() << "trainc-opt: error: "
                     << trainc::showNames(fault->where + ": " + fault->what) << "\n";
        return 1;
      }
  trainc::registerAllDialects(registry);
  llvm::cl::list<std::string> plugins("plugin", llvm::cl::value_desc("FILE"),
                                      llvm::cl::desc("a plug-in in C++ (docs/plugins.md)"));
  auto [input, output] =
      mlir::registerAndParseCLIOptions(argc, argv, "trainc's optimizer driver\n", registry);
  if (std::string problem = input == "-" ? "" : trainc::checkRegularFile(input); !problem.empty()) {
    llvm::errs() << "trainc-opt: error: " << trainc::showNames(problem) << "\n";
    return 1;
  }
  // MLIR's driver opens the output before it has read all of a mapped input.
  trainc::FileRoles files;
  files.reads(input, "the input");
  if (std::string problem = files.writes(output, "-o"); !problem.empty()) {
    llvm::errs() << "trainc-opt: error: " << trainc::showNames(problem) << "\n";
    return 2;
  }
  return mlir::asMainReturnCode(mlir::MlirOptMain(argc, argv, input, output, registry));
}
