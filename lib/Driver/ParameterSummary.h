// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of a model is trained, and how the rest is stored.
#ifndef TRAINC_LIB_DRIVER_PARAMETERSUMMARY_H
#define TRAINC_LIB_DRIVER_PARAMETERSUMMARY_H

#include "lib/Driver/Log.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Driver/Driver.h"

namespace trainc {

/// Of the parameters of @forward. Elements are values of the model, whatever stores them.
struct ParameterSummary {
  explicit ParameterSummary(mlir::func::FuncOp forward);

  int64_t elements = 0;
  int64_t trained = 0, trainedElements = 0, trainedBytes = 0;
  /// Weights that are quantized, in which format, and their bytes before and after.
  int64_t quantized = 0, bytesBefore = 0, bytesAfter = 0;
  std::string format;

  /// "of 3180000 parameters 53616 are trained (1.7 %) and saved, 209 KiB; 28 weights are stored as
  /// nf4: 11.1 MiB -> 1.7 MiB"
  std::string text() const;
};

/// Tells what of the legalized module is trained and what not, and why.
void reportParameters(mlir::ModuleOp module, const CompileOptions &options,
                      const LegalizeResult &legalized, Log &log);
/// Tells how many parameters have which rate and decay of their own.
void reportGroups(llvm::ArrayRef<GroupDecision> decisions, Log &log);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_PARAMETERSUMMARY_H
