// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the package says of itself comes from the command line, the model and the interface.

#include "format/status.h"
#include "lib/Driver/OptimizerChoice.h"
#include "lib/Driver/Phases/Phases.h"
#include "mlir/IR/AsmState.h"
#include "trainc/Package/ProgramWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace trainc;

/// A program that cannot be written is the compiler's fault: passes have made it.
int trainc::makeProgram(Compilation &c) {
  FailureOr<std::vector<char>> program =
      writeProgram(*c.module, c.interface, c.options.target->name());
  if (failed(program))
    return ExitInternal;
  c.contents.program = std::move(*program);
  return ExitSuccess;
}

static void describe(Compilation &c) {
  const CompileOptions &options = c.options;
  PackageContents &contents = c.contents;
  // In the order of the manifest.
  contents.kind = options.legalize.inference ? "inference" : "training";
  contents.loss = c.legalized.loss;
  contents.embedWeights = options.embedWeights;
  if (options.embedIR) {
    llvm::raw_string_ostream stream(contents.ir);
    // With places in the model; large constants are in the package anyway.
    c.module->print(stream, OpPrintingFlags().enableDebugInfo().elideLargeElementsAttrs(64));
    stream << "\n";
  }
  contents.signKey = options.signKey;
  contents.plugins = options.legalize.plugins;
  if (options.tellCommandLine)
    contents.arguments = options.arguments;
  // The model's own algorithm has no such parameters.
  if (!options.legalize.inference && !c.legalized.ownUpdates)
    contents.optimizer = describeOptimizer(options, c.model.steps);
}

int trainc::makePackage(Compilation &c) {
  // The package goes last: everything else may fail before.
  if (int code = makeProgram(c))
    return code;
  describe(c);
  std::string output = c.outputs.package();
  if (failed(writePackage(*c.module, c.interface, c.model, c.contents, output)))
    return ExitInput;
  // For the message only.
  uint64_t size = 0;
  (void)llvm::sys::fs::file_size(output, size);
  std::string cached;
  if (!c.options.cache.empty())
    cached = llvm::formatv(", {0} % of the code from the cache",
                           int(100 * c.codegen->getCacheHitRate()));
  c.log.info() << "wrote " << trainrt::shown(output) << " (" << c.codegen->size() << " kernels, "
               << size / 1024 << " KiB) in " << llvm::format("%.2f", c.seconds()) << " s" << cached
               << "\n";
  return ExitSuccess;
}
