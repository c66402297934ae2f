// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Code generation of kernels. A `train.fusion` becomes one function with the kernel ABI of
// docs/design/package.md; structurally equal fusions share one. The loop templates (lib/Codegen)
// are separate from the mapping to a processor (lib/Target).
#ifndef TRAINC_CODEGEN_CODEGEN_H
#define TRAINC_CODEGEN_CODEGEN_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/OwningOpRef.h"
#include "trainc/Codegen/Structure.h"
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace trainc::codegen {

/// One launch of a kernel.
struct KernelStage {
  /// Exported name of the function.
  std::string name;
  /// CPU: number of work items. GPU: number of thread blocks.
  train::DimAttr work;
  /// CPU: work items that a task should have at least, so that starting it pays. GPU: threads of a
  /// block.
  int64_t grain = 1;
  /// CPU: scratch memory of a thread in bytes. GPU: dynamic shared memory of a block in bytes.
  train::DimAttr scratchBytes;
  /// Kernels that may be launched instead, with the same arguments (GpuOptions::variants).
  std::vector<KernelStage> variants = {};
};

/// How a plan launches a kernel. Expressions are in the symbols of the fusion asked about.
struct KernelInfo {
  Template form = Template::Pointwise;
  /// Launches, in order, all with the same arguments.
  llvm::SmallVector<KernelStage> stages;
  /// Values that the launches pass as `dims`, in order.
  llvm::SmallVector<train::DimAttr> dims;
  /// Bytes of a buffer that the stages share, passed behind the results; null: none.
  train::DimAttr temporaryBytes;
  /// Pairs (input, result) that may be one buffer: every element of the input is last read by the
  /// work item that writes the same element of the result, before it does. Any other overlap of a
  /// result with an input or another result is wrong.
  llvm::SmallVector<std::pair<unsigned, unsigned>> inPlace;
};

/// A file of kernels for the package.
struct KernelObject {
  /// Name of the entry below "kernels/".
  std::string name;
  std::vector<char> bytes;
};

/// The code of one kernel, for people.
struct KernelListing {
  /// Name of the function, as launches have it.
  std::string name;
  /// Pairs of a file's ending ("mlir", "ll", "x86-64-v4.s", "ptx") and the text.
  std::vector<std::pair<std::string, std::string>> texts;
};

/// The kernels of one package, for one kind of processor.
class KernelCodegen {
public:
  virtual ~KernelCodegen() = default;

  /// Adds the kernel of a fusion, or finds the equal one. Two fusions are equal when they have the
  /// same ops, attributes, element types and static sizes, with symbolic sizes compared up to
  /// renaming. Fails with a diagnostic at the op that no template can take.
  virtual mlir::FailureOr<KernelInfo> add(train::FusionOp fusion) = 0;
  /// Makes a kernel that does several launches of a stage at once, and returns its name; "" where
  /// the processor gains nothing from it.
  virtual std::string addGrouped(llvm::StringRef stage) { return {}; }
  /// Number of different kernels.
  virtual size_t size() const = 0;
  /// Lowers all kernels and makes the files. Kernels may not be added afterwards.
  virtual mlir::FailureOr<std::vector<KernelObject>> emitObjects() = 0;
  /// Every kernel by itself on its way to machine code: MLIR, LLVM IR before optimisation, assembly
  /// or PTX. The code is the one of emitObjects.
  virtual mlir::FailureOr<std::vector<KernelListing>> emitListings() = 0;
  /// Whether the last failure to emit was the machine's: a tool is missing, no room for temporary
  /// files.
  virtual bool lacksTools() const = 0;
  /// Share of the code that came from the cache, 0 to 1.
  virtual double getCacheHitRate() const { return 0; }
  /// The kernels as functions of the LLVM dialect with scf, vector and arith bodies.
  virtual mlir::ModuleOp getModule() = 0;
};

/// Replaces the math ops in `root` that the machine has no instruction for: f32 by arith ops
/// (accurate to 2 ulp, no branches, scalars and vectors of any length), f64 by calls of the C
/// library. Ops that are neither are left alone.
void expandMath(mlir::Operation *root);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_CODEGEN_H
