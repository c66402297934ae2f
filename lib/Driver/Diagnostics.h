// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the compiler speaks to its user.
#ifndef TRAINC_LIB_DRIVER_DIAGNOSTICS_H
#define TRAINC_LIB_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace trainc {

/// Prints errors, warnings and notes as `MODEL: node 'NAME': error: text` on standard error.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, llvm::StringRef model);
  ~DiagnosticPrinter();

private:
  mlir::MLIRContext &context;
  std::string model;
  mlir::DiagnosticEngine::HandlerID id;
};

/// Prints every remark of the passes (--explain).
void explainDecisions(mlir::MLIRContext &context);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_DIAGNOSTICS_H
