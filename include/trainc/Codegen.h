// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code generation of kernels. A `train.fusion` becomes one function with the kernel ABI of
// docs/design/package.md; structurally equal fusions share one. The loop templates (lib/Codegen)
// are separate from the mapping to a processor (lib/Codegen/CPU).
#ifndef TRAINC_CODEGEN_H
#define TRAINC_CODEGEN_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainc::codegen {

/// How a plan launches a kernel. Expressions are in the symbols of the fusion asked about.
struct KernelInfo {
  /// Exported name of the function.
  std::string name;
  /// Values that the launch passes as `dims`, in order.
  llvm::SmallVector<train::DimAttr> dims;
  /// Number of work items.
  train::DimAttr work;
  /// Work items that a task should have at least, so that starting it pays.
  int64_t grain = 1;
  /// Scratch memory of a thread in bytes.
  train::DimAttr scratchBytes;
  /// Pairs (input, result) that may be one buffer: every element of the input is last read by the
  /// work item that writes the same element of the result, before it does. Any other overlap of a
  /// result with an input or another result is wrong.
  llvm::SmallVector<std::pair<unsigned, unsigned>> inPlace;
};

/// The kernels of one package for x86-64.
class CpuCodegen {
public:
  /// Loads the dialects that kernels are made of: not to be called while a pass manager runs.
  explicit CpuCodegen(mlir::MLIRContext &context);
  ~CpuCodegen();
  CpuCodegen(const CpuCodegen &) = delete;
  CpuCodegen &operator=(const CpuCodegen &) = delete;

  /// Adds the kernel of a fusion, or finds the equal one. Two fusions are equal when they have the
  /// same ops, attributes, element types and static sizes, with symbolic sizes compared up to
  /// renaming. Fails with a diagnostic at the op that no template can take.
  mlir::FailureOr<KernelInfo> add(train::FusionOp fusion);

  /// Number of different kernels.
  size_t size() const;

  /// Lowers all kernels for a CPU level ("x86-64-v3", "x86-64-v4") and links them; the
  /// bytes of a shared object. Kernels may not be added afterwards. Several threads may call it at
  /// once.
  mlir::FailureOr<std::vector<char>> emitSharedObject(llvm::StringRef cpu);
  /// The same for several levels, spread over the threads of the machine.
  mlir::FailureOr<std::vector<std::vector<char>>>
  emitSharedObjects(llvm::ArrayRef<llvm::StringRef> cpus);

  /// Whether the last failure to emit was the machine's: no linker, no room for temporary files.
  bool lacksTools() const;

  /// The kernels as `llvm.func` with scf, vector and arith bodies, before lowering.
  mlir::ModuleOp getModule();
  /// LLVM assembly of all kernels (before optimisation), for inspection.
  mlir::FailureOr<std::string> getLLVMText();

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// The best CPU level that this machine runs ("x86-64-v4"), under the name that the runtime
/// matches;
/// "" if it runs none.
llvm::StringRef getHostLevel();

/// Replaces the math ops in `root` that the machine has no instruction for: f32 by arith ops
/// (accurate to 2 ulp, no branches, scalars and vectors of any length), f64 by calls of the C
/// library. Ops that are neither are left alone.
void expandMath(mlir::Operation *root);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_H
