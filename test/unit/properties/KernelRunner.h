// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs functions whose `train.fusion` ops are compiled kernels and whose other ops are evaluated by
// the reference: what form-kernels and the code generator make of an op, held against the op.
#ifndef TRAINC_TEST_PROPERTIES_KERNELRUNNER_H
#define TRAINC_TEST_PROPERTIES_KERNELRUNNER_H

#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "trainc/Reference/Reference.h"
#include "llvm/ADT/DenseMap.h"

namespace trainc::properties {

class KernelRunner {
public:
  explicit KernelRunner(mlir::MLIRContext &context) : codegen(context) {}
  ~KernelRunner();

  /// Adds the kernels of a function; failure after a diagnostic where there is one that cannot be
  /// made.
  mlir::LogicalResult add(mlir::func::FuncOp function);
  /// Compiles all kernels and loads them in place of those before. Returns an empty string or the
  /// reason why not.
  std::string load(llvm::StringRef cpu);
  /// Results of a function that was added. Fails after a test failure.
  mlir::FailureOr<llvm::SmallVector<train::HostTensor>>
  run(mlir::func::FuncOp function, llvm::ArrayRef<train::HostTensor> arguments,
      const train::SymbolValues &symbols);
  size_t size() const { return codegen.size(); }

private:
  mlir::FailureOr<llvm::SmallVector<train::HostTensor>>
  launch(train::FusionOp fusion, llvm::ArrayRef<train::HostTensor> inputs,
         const train::SymbolValues &symbols);

  codegen::CpuCodegen codegen;
  llvm::DenseMap<mlir::Operation *, codegen::KernelInfo> kernels;
  void *library = nullptr;
};

/// Rounds values to the element type of `type`, as memory does.
void roundTo(mlir::Type type, train::HostTensor &tensor);

} // namespace trainc::properties

#endif // TRAINC_TEST_PROPERTIES_KERNELRUNNER_H
