// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emission of one stage of a kernel for NVIDIA GPUs: the code of one thread. Lanes of a thread are
// vectors of 16 bytes in memory wherever the offset is known to be a multiple; there are no masked
// vectors: a template gives the rest to scalar code. Threads whose work is a copy of another's (so
// that loops need no branch) are not `active` and store nothing.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_GPUEMITTER_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_GPUEMITTER_H

#include "mlir/IR/BuiltinOps.h"
#include "trainc/Codegen/KernelEmitter.h"
#include "trainc/Codegen/ReductionStages.h"

namespace trainc::codegen {

inline constexpr int64_t kWarp = 32;
/// Address spaces of NVPTX.
inline constexpr unsigned kGlobalSpace = 1, kSharedSpace = 3;

/// How a template's work is spread over threads.
enum class Mapping {
  /// A thread computes vectors of the space.
  Pointwise,
  /// Threads of a warp or block share a row; all of it is in registers, or in loops.
  Row,
  /// Many blocks share the few rows: partial results, then totals.
  Split,
  /// The vector axis is kept: threads side by side on it, partial results by blocks of rows.
  Column,
  Scatter,
  Scan,
  Product,
  /// A flat form that is reduced to scalars, by as many blocks as it has parts.
  Total,
};

struct GpuStage {
  /// Behind the kernel's name; "" where there is one stage.
  llvm::StringRef suffix;
  train::DimAttr blocks;
  int64_t threads = 256;
};

/// What a kernel's launch looks like and what its templates rely on: a function of the structure
/// up to names of sizes.
struct GpuPlan {
  Mapping mapping = Mapping::Pointwise;
  llvm::SmallVector<GpuStage> stages;
  /// Null: none.
  train::DimAttr temporaryBytes;
  /// Elements of a thread's vector, and vectors whose loads are in flight together.
  unsigned lanes = 1, unroll = 1;
  /// Row: threads that share a row, rows of a block, and vectors of a thread where they are all in
  /// registers (0: loops).
  int64_t rowThreads = kWarp, blockRows = 1, vectors = 0;
  /// Row: lanes of the passes that only reduce, where no vector divides the row: what is left over
  /// goes one by one. 0: as the others.
  unsigned reducingLanes = 0;
};

class GpuEmitter final : public KernelEmitter {
public:
  /// `function` takes a pointer a buffer and the error slot and has an empty body; dims and the
  /// temporary buffer join its arguments when they are asked for.
  GpuEmitter(train::FusionOp fusion, const Structure &structure, mlir::LLVM::LLVMFuncOp function,
             llvm::SmallVectorImpl<train::DimAttr> &dims, const GpuStage &stage, bool hasTemporary);

  // Where the thread is; index scalars.
  mlir::Value thread();
  mlir::Value block();
  int64_t threads() const { return blockThreads; }

  mlir::Value loadFrom(mlir::Value pointer, mlir::Type element,
                       const train::ElementIndex &offset) override;
  void storeTo(mlir::Value pointer, mlir::Type element, const train::ElementIndex &offset,
               mlir::Value value) override;
  mlir::Value buffer(unsigned number) override;
  mlir::Value lessThan(const train::ElementIndex &a, const train::ElementIndex &b) override;
  /// The stages' common buffer, from a byte (a multiple of 16) on.
  mlir::Value temporary(int64_t byteOffset = 0);
  /// Shared memory of the block for `count` elements: a new array.
  mlir::Value shared(mlir::Type element, int64_t count);

  /// From now on only threads where `condition` holds want results; null: all do. Nothing but the
  /// report of bad indices looks at it: stores are the template's to guard.
  void setActive(mlir::Value condition) { guard.active = condition; }

  // Meeting of threads. All threads of the warp or block must come by.
  void syncBlock();
  void syncWarp();
  /// The value that the thread has whose number differs in the bits of `mask`.
  mlir::Value shuffle(mlir::Value value, int32_t mask);
  /// The i32 that the thread before has; the first one's own.
  mlir::Value shuffleUp(mlir::Value value);
  /// Whether `condition` holds for all threads of the warp.
  mlir::Value allOfWarp(mlir::Value condition);
  /// The threads of the warp, a bit each, whose `key` (i32) is this thread's.
  mlir::Value matchWarp(mlir::Value key);
  /// Combines scalars over groups of `width` (a power of two, at most 32) neighbouring threads in a
  /// fixed tree; every thread gets the total.
  mlir::Value combineWarp(mlir::Operation *reduction, mlir::Value value, int64_t width = kWarp);
  /// The same over all threads of the block; `reductions` and `values` go together.
  Values combineBlock(llvm::ArrayRef<mlir::Operation *> reductions, mlir::ValueRange values);
  /// From now on what is open is done again and again: shared memory of combineBlock is reused.
  void repeatWork();
  /// The same by `meet`, which combines values over groups of so many neighbouring threads.
  Values combineBlock(mlir::ValueRange values,
                      llvm::function_ref<Values(mlir::ValueRange, int64_t)> meet);

  /// The end of the function.
  void finish();
  /// Brings the arguments into the order of the ABI: all stages of a kernel have the same.
  void setArguments(unsigned dimCount);
  void eraseGlobals() {
    for (mlir::Operation *global : globals)
      global->erase();
  }

private:
  mlir::Value makeDim(unsigned number) override;
  void reportIndex(mlir::Value bad, mlir::Value data) override;
  void reportNumber(mlir::Value bad) override;
  mlir::Value makeDivision(mlir::Value x, mlir::Value y, bool remainder) override;
  mlir::Value guardedPointer(mlir::Value pointer, mlir::Value condition);
  mlir::Value makeGlobal(const llvm::Twine &suffix, unsigned space, int64_t bytes, bool zeros);
  mlir::Value laneOf(mlir::Value vector, unsigned lane);
  mlir::Value laneOffset(const train::ElementIndex &offset, unsigned lane);
  void addDims(unsigned count);
  /// Whether any lane of a guard is on.
  mlir::Value anyOf(mlir::Value mask);
  /// Bytes that an access at `offset` is aligned to, at most those of `elements`.
  unsigned alignmentOf(mlir::Value offset, int64_t elementBytes, int64_t elements);
  unsigned alignmentOf(mlir::Value offset, int64_t elementBytes) {
    return alignmentOf(offset, elementBytes, vectorLanes);
  }
  /// A copy of a small input in shared memory, where threads that read different elements do not
  /// wait for each other; else the pointer itself.
  mlir::Value tableOf(mlir::Value pointer, mlir::Type element);
  /// A number that an index scalar is certainly not above.
  std::optional<int64_t> upperBound(mlir::Value value, unsigned depth = 0);

  int64_t blockThreads;
  std::optional<int64_t> blockCount;
  unsigned firstDim, sharedArrays = 0;
  bool repeats = false;
  mlir::Value threadIndex, blockIndex, zerosBase;
  llvm::DenseMap<mlir::Value, int64_t> bounds;
  /// Copies of small inputs in shared memory.
  llvm::DenseMap<mlir::Value, mlir::Value> tables;
  /// Where inputs of a flat form begin in their buffers (kStartsAttr).
  llvm::DenseMap<unsigned, mlir::Value> begins;
  /// Of guards whose first lane is on where any is.
  llvm::DenseMap<mlir::Value, mlir::Value> firstLanes;
  llvm::SmallVector<mlir::Operation *> globals;
};

/// Which mapping a structure gets.
Mapping chooseMapping(const Structure &structure);
GpuPlan planKernel(train::FusionOp fusion, const Structure &structure);

/// Other plans with the same mapping, for kernels of one stage: for tuning to compare.
llvm::SmallVector<GpuPlan> planVariants(train::FusionOp fusion, const Structure &structure,
                                        const GpuPlan &plan);

/// Stages under construction.
class GpuKernel {
public:
  GpuKernel(mlir::ModuleOp module, llvm::StringRef name, train::FusionOp fusion,
            const Structure &structure, const GpuPlan &plan,
            llvm::SmallVectorImpl<train::DimAttr> &dims)
      : fusion(fusion), structure(structure), plan(plan), module(module), name(name), dims(dims) {}

  /// Begins the next stage of the plan; GpuEmitter::finish ends it.
  GpuEmitter &nextStage();
  /// Makes the stages' signatures; null where emission has failed with a diagnostic.
  std::optional<llvm::SmallVector<std::pair<unsigned, unsigned>>> finish();

  train::FusionOp fusion;
  const Structure &structure;
  const GpuPlan &plan;

private:
  mlir::ModuleOp module;
  std::string name;
  llvm::SmallVectorImpl<train::DimAttr> &dims;
  std::vector<std::unique_ptr<GpuEmitter>> stages;
  std::vector<mlir::LLVM::LLVMFuncOp> functions;
};

// The mappings: what the launch is, and all stages' bodies.
void planPointwise(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapPointwise(GpuKernel &kernel);
void planRow(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapRow(GpuKernel &kernel);
/// Whether there are fewer rows than the machine has processors, and much to do in each.
bool isFewLongRows(const Structure &structure);
void planSplit(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapSplit(GpuKernel &kernel);
void planColumn(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapColumn(GpuKernel &kernel);
void planTotal(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapTotal(GpuKernel &kernel);
void planScatter(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapScatter(GpuKernel &kernel);
void planScan(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapScan(GpuKernel &kernel);
/// Whether there is a kernel for the types and sizes; if not, a diagnostic.
llvm::LogicalResult checkProduct(const Structure &structure);
void planProduct(train::FusionOp fusion, const Structure &structure, GpuPlan &plan);
void mapProduct(GpuKernel &kernel);

// Shared by the plans.
/// Elements of a thread's vector along an axis of this size: 16 bytes of the narrowest type that is
/// read or written all over (or is one of `others`), and a divisor of the size where that is known.
unsigned chooseLanes(train::FusionOp fusion, const Structure &structure, train::DimAttr axis,
                     llvm::ArrayRef<mlir::Type> others = {});
/// Vectors of an axis whose size they divide; 1 where the axis is shorter, so that code in a branch
/// that is not taken never divides by 0.
mlir::Value wholeVectors(GpuEmitter &e, train::DimAttr axis, unsigned lanes);
/// Inputs of the shape of the space.
unsigned countSpaceInputs(train::FusionOp fusion, const Structure &structure);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_GPUEMITTER_H
