// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How the compiler speaks of faults: by ONNX node.
#ifndef TRAINC_LIB_DRIVER_DIAGNOSTICS_H
#define TRAINC_LIB_DRIVER_DIAGNOSTICS_H

#include "lib/Driver/Log.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"

namespace trainc {

/// Prints errors, warnings and notes as `MODEL: node 'NAME': error: text` on standard error.
class DiagnosticPrinter {
public:
  DiagnosticPrinter(mlir::MLIRContext &context, llvm::StringRef model, Log &log);
  ~DiagnosticPrinter();

  /// Errors so far, but for warnings that count as errors.
  unsigned errors() const { return errorCount; }

private:
  void print(mlir::Diagnostic &diagnostic);

  mlir::MLIRContext &context;
  std::string model;
  Log &log;
  unsigned errorCount = 0;
  mlir::DiagnosticEngine::HandlerID id;
};

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_DIAGNOSTICS_H
