// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emission of one kernel for the CPU. Loops run over scalars or lanes; the last, partial vector of
// a row runs masked. Memory has the alignment of one element.
#ifndef TRAINC_LIB_TARGET_CPU_KERNELS_CPUEMITTER_H
#define TRAINC_LIB_TARGET_CPU_KERNELS_CPUEMITTER_H

#include "trainc/Codegen/KernelEmitter.h"

namespace trainc::codegen {

/// Lanes of the vectors in loops: one 512-bit or two 256-bit registers of f32.
inline constexpr unsigned kLanes = 16;
/// Bytes of readable zeros at the global of this name, for reads that a mask turns off.
inline constexpr llvm::StringLiteral kZerosName = "trainc_zeros";
inline constexpr unsigned kZerosBytes = kLanes * 8;

class CpuEmitter final : public KernelEmitter {
public:
  /// `function` has the kernel ABI of docs/design/package.md and an empty body.
  CpuEmitter(train::FusionOp fusion, const Structure &structure, mlir::LLVM::LLVMFuncOp function,
             llvm::SmallVectorImpl<train::DimAttr> &dims)
      : KernelEmitter(fusion, structure, function, dims), buffers(uses.size()) {
    workDepth = 1; // The loop over work items.
  }

  /// The loop over the work items of the call; returns the item's number.
  mlir::Value openItems();
  void closeItems();

  mlir::Value loadFrom(mlir::Value pointer, mlir::Type element,
                       const train::ElementIndex &offset) override;
  void storeTo(mlir::Value pointer, mlir::Type element, const train::ElementIndex &offset,
               mlir::Value value) override;
  mlir::Value buffer(unsigned number) override;
  /// The thread's scratch memory from a byte on.
  mlir::Value scratch(mlir::Value byteOffset);
  /// The buffer that the kernel's stages share, from a byte on.
  mlir::Value temporary(train::DimAttr byteOffset);

  /// All lanes below `count` (an index scalar); null where there is one lane.
  mlir::Value tailMask(mlir::Value count);
  /// Lanes that the current code may read and write; null: all.
  void setTail(mlir::Value mask) { guard.tail = mask; }

private:
  /// Entry `number` of the table of buffers.
  mlir::Value loadBuffer(unsigned number);
  mlir::Value makeDim(unsigned number) override;
  void reportIndex(mlir::Value bad, mlir::Value data) override;
  void reportNumber(mlir::Value bad) override;
  /// The thread's error slot.
  mlir::Value errors();
  /// The lanes at base, base + 2, ...; `mask` (or null) says which of them are wanted.
  mlir::Value loadEverySecond(mlir::Value pointer, mlir::Type memory, mlir::Value base,
                              mlir::Value mask);
  mlir::Value guardedPointer(mlir::Value pointer, mlir::Value condition);

  Values buffers;
  mlir::Value scratchBase, errorBase, zerosBase, temporaryBase;
};

/// Lanes worth using along an axis.
unsigned lanesFor(train::DimAttr size);

/// What the launch of a kernel needs to know; a function of the structure only.
struct Launch {
  train::DimAttr work, scratchBytes;
  int64_t grain = 1;
};
Launch planLaunch(train::FusionOp fusion, const Structure &structure);
/// Items that make a task of a thread, of about `elements` elements each.
int64_t chooseGrain(double elements, const Structure &structure);

// The templates. Each emits the whole body of the function.
void mapPointwise(CpuEmitter &emitter);
void mapRow(CpuEmitter &emitter);
void mapColumn(CpuEmitter &emitter);
void mapScatter(CpuEmitter &emitter);
/// Scratch of a scatter of rows.
train::DimAttr sortedRowsBytes(const Structure &structure);
void mapScan(CpuEmitter &emitter);

/// Columns of a work item in the templates whose vector axis is kept.
inline constexpr int64_t kColumnBlock = 64;
/// Levels of the sums of columns, at most.
inline constexpr unsigned kColumnLevels = 5;
/// Elements of a work item in pointwise kernels.
inline constexpr int64_t kPointwiseBlock = 2048;

/// Calls `body(i, mask)` for the vectors of [lower, upper), the last one masked; `size` is upper -
/// lower where it is known.
void forEachVector(CpuEmitter &emitter, mlir::Value lower, mlir::Value upper,
                   std::optional<int64_t> size,
                   llvm::function_ref<void(const train::ElementIndex &)> body);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CPU_KERNELS_CPUEMITTER_H
