// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs pipelines on a module given as text and evaluates what they leave.
#ifndef TRAINC_TEST_TRANSFORMS_PASSHARNESS_H
#define TRAINC_TEST_TRANSFORMS_PASSHARNESS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "trainc/Reference/Reference.h"
#include <map>
#include <string>

namespace trainc::transforms {

class PassHarness {
public:
  PassHarness();
  /// The module that the pipeline leaves of `text`; null, with a failed expectation, if it fails.
  mlir::OwningOpRef<mlir::ModuleOp> run(llvm::StringRef text, llvm::StringRef pipeline);
  /// Results of a function by role and name. Arguments are filled by name, the same whatever the
  /// function: floats normally distributed; integers from `integers`, or 0 and 1 at random.
  /// `rounds`: every float is rounded to its type, arguments included; the reference evaluator
  /// rounds none.
  std::map<std::string, reference::HostTensors>
  evaluate(mlir::ModuleOp module, llvm::StringRef function,
           const std::map<std::string, std::vector<double>> &given,
           const reference::SymbolValues &symbols = {}, bool rounds = false);
  mlir::MLIRContext &getContext() { return *context; }

private:
  std::unique_ptr<mlir::MLIRContext> context;
};

/// Number of ops of this name.
unsigned countOps(mlir::ModuleOp module, llvm::StringRef name);

} // namespace trainc::transforms

#endif // TRAINC_TEST_TRANSFORMS_PASSHARNESS_H
