// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emission of one kernel for the CPU: elements by demand, each at the outermost loop that its
// coordinates allow and once there. Loops run over scalars or lanes; the last, partial vector of a
// row runs masked.
//
// Memory is raw pointers with the alignment of one element; booleans take a byte there and are i1
// in code. No fast-math flag is ever set: an op's formula gives the same bits in every kernel.
#ifndef TRAINC_LIB_CODEGEN_CPU_KERNELEMITTER_H
#define TRAINC_LIB_CODEGEN_CPU_KERNELEMITTER_H

#include "../Structure.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <functional>
#include <map>

namespace trainc::codegen {

using Index = llvm::SmallVector<train::ElementIndex>;
using Values = llvm::SmallVector<mlir::Value>;

/// Lanes of the vectors in loops: one 512-bit or two 256-bit registers of f32.
inline constexpr unsigned kLanes = 16;
/// Bytes of readable zeros at the global of this name, for reads that a mask turns off.
inline constexpr llvm::StringLiteral kZerosName = "trainc_zeros";
inline constexpr unsigned kZerosBytes = kLanes * 8;

/// Which accesses of an input or result allow it to share a buffer.
struct BufferUse {
  bool used = false;
  /// Only the element of the current position of the space, or of the kept axes.
  bool onlySpace = true, onlyKept = true;
  /// Of an input: last pass that reads it. Of a result: pass that writes it.
  unsigned pass = 0;
};

class KernelEmitter final : public train::ElementBuilder {
public:
  /// `function` has the kernel ABI and an empty body. `dims` are the sizes passed at run time;
  /// sizes beyond them are appended.
  KernelEmitter(train::FusionOp fusion, const Structure &structure, mlir::LLVM::LLVMFuncOp function,
                llvm::SmallVectorImpl<train::DimAttr> &dims);

  // Loops. The body is emitted between openLoop and closeLoop.
  mlir::scf::ForOp openLoop(mlir::Value lower, mlir::Value upper, mlir::Value step,
                            mlir::ValueRange init = {});
  /// Ends the innermost loop; returns its results.
  Values closeLoop(mlir::scf::ForOp loop, mlir::ValueRange yielded = {});
  /// The loop over the work items of the call; returns the item's number.
  mlir::Value openItems();
  void closeItems();

  // Evaluation.
  /// Element of `value`: scalar where the index is uniform, else lanes.
  mlir::Value evaluate(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);
  /// As evaluate, always lanes.
  mlir::Value evaluateLanes(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);
  void store(unsigned result, llvm::ArrayRef<train::ElementIndex> index, mlir::Value value);
  mlir::Value load(unsigned buffer, mlir::Type tensor, llvm::ArrayRef<train::ElementIndex> index);
  /// Splits a position in row-major order of `dims` into coordinates.
  Index delinearize(mlir::Value position, llvm::ArrayRef<train::DimAttr> dims);
  /// Position of a coordinate tuple in row-major order.
  train::ElementIndex linearize(llvm::ArrayRef<train::ElementIndex> index,
                                llvm::ArrayRef<train::DimAttr> dims);

  // Memory with an element type; offsets in elements.
  mlir::Value loadFrom(mlir::Value pointer, mlir::Type element, const train::ElementIndex &offset);
  void storeTo(mlir::Value pointer, mlir::Type element, const train::ElementIndex &offset,
               mlir::Value value);
  /// The thread's scratch memory from a byte on.
  mlir::Value scratch(mlir::Value byteOffset);
  /// Pointer of an input or, from inputs on, of a result.
  mlir::Value buffer(unsigned number);

  // Index arithmetic, at the outermost loop possible.
  mlir::Value constantIndex(int64_t value);
  mlir::Value addIndex(mlir::Value a, mlir::Value b);
  mlir::Value subIndex(mlir::Value a, mlir::Value b);
  mlir::Value mulIndex(mlir::Value a, mlir::Value b);
  mlir::Value minIndex(mlir::Value a, mlir::Value b);
  mlir::Value divIndex(mlir::Value a, mlir::Value b);
  mlir::Value remIndex(mlir::Value a, mlir::Value b);
  mlir::Value productOf(llvm::ArrayRef<train::DimAttr> dims);
  /// All lanes below `count` (an index scalar); null where there is one lane.
  mlir::Value tailMask(mlir::Value count);

  // ElementBuilder.
  mlir::OpBuilder &builder() override { return b; }
  mlir::Location loc() override { return location; }
  mlir::Value element(mlir::OpOperand &operand, llvm::ArrayRef<train::ElementIndex> index) override;
  mlir::Value elementIf(mlir::OpOperand &operand, llvm::ArrayRef<train::ElementIndex> index,
                        mlir::Value mask, mlir::Value other) override;
  unsigned lanes() override { return currentLanes; }
  mlir::Value dim(train::DimAttr dim) override;
  train::ElementIndex constant(int64_t value) override { return {constantIndex(value), 0, {}}; }
  train::ElementIndex add(const train::ElementIndex &a, const train::ElementIndex &b) override;
  train::ElementIndex sub(const train::ElementIndex &a, const train::ElementIndex &b) override;
  train::ElementIndex mul(const train::ElementIndex &a, int64_t factor) override;
  train::ElementIndex dimIndex(train::DimAttr d) override { return {dim(d), 0, {}}; }
  mlir::Value lessThan(const train::ElementIndex &a, const train::ElementIndex &b) override;
  train::ElementIndex checkedIndex(mlir::Operation *op, mlir::Value data,
                                   train::DimAttr extent) override;
  mlir::Value asInteger(const train::ElementIndex &index) override;
  mlir::Value splat(mlir::TypedAttr value) override;
  mlir::Value splatValue(mlir::Value scalar) override;

  mlir::Value combine(mlir::Operation *reduction, mlir::Value a, mlir::Value b);
  /// Neutral element of a reduction in `width` lanes.
  mlir::Value identity(mlir::Operation *reduction, unsigned width);
  /// Combines the lanes in a fixed tree.
  mlir::Value combineLanes(mlir::Operation *reduction, mlir::Value value);
  mlir::Value zero(mlir::Type element);

  void setLanes(unsigned count) { vectorLanes = currentLanes = count; }
  unsigned getLanes() const { return vectorLanes; }
  /// Lanes that the current code may read and write; null: all.
  void setTail(mlir::Value mask) { guard.tail = mask; }

  /// Current position, by which in-place use is recognised; set by the templates.
  Index spaceIndex, keptIndex;
  unsigned pass = 0;
  /// Values that the template has at hand for this index, or null.
  std::function<mlir::Value(mlir::Value, llvm::ArrayRef<train::ElementIndex>)> resident;

  static bool same(llvm::ArrayRef<train::ElementIndex> a, llvm::ArrayRef<train::ElementIndex> b);
  /// Pairs (input, result) that may share a buffer, after emission.
  llvm::SmallVector<std::pair<unsigned, unsigned>> inPlacePairs();
  bool hasFailed() const { return failed; }
  const Structure &structure;
  train::FusionOp fusion;

private:
  using Key = std::vector<intptr_t>;
  struct Scope {
    mlir::Block *block;
    mlir::Operation *op;
    std::map<Key, mlir::Value> memo;
  };
  struct Guard {
    mlir::Value scalar, lanes, tail;
  };

  unsigned depthOf(mlir::Value value);
  unsigned depthOf(const train::ElementIndex &index);
  void moveTo(unsigned depth);
  /// Emits at `depth` what `make` builds, once for each key.
  mlir::Value once(unsigned depth, Key key, llvm::function_ref<mlir::Value()> make);
  /// Emits in the entry block, before everything else.
  mlir::Value atEntry(llvm::function_ref<mlir::Value()> make);
  mlir::Value compute(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);
  mlir::Value computeOp(mlir::Operation *op, unsigned result,
                        llvm::ArrayRef<train::ElementIndex> index);
  mlir::Value toLanes(mlir::Value scalar);
  mlir::Value asVector(const train::ElementIndex &index);
  mlir::Value indexValue(const train::ElementIndex &index);
  mlir::Value conjunction(mlir::Value a, mlir::Value b);
  mlir::Value anyLane(mlir::Value mask);
  mlir::Value guardedPointer(mlir::Value pointer, mlir::Value condition);
  mlir::Value elementPointer(mlir::Value pointer, mlir::Type memory, mlir::Value offset);
  mlir::Value laneConstants(mlir::Type element, int64_t stride);
  void reportIndex(mlir::Value bad, mlir::Value data);
  mlir::Value fail(mlir::Operation *op, mlir::Type element, const llvm::Twine &message);
  void noteRead(unsigned argument, llvm::ArrayRef<train::ElementIndex> index);

  mlir::LLVM::LLVMFuncOp function;
  llvm::SmallVectorImpl<train::DimAttr> &dims;
  mlir::OpBuilder b;
  mlir::Location location;
  mlir::Block *entry;
  std::vector<Scope> scopes;
  unsigned position = 0;
  unsigned vectorLanes = 1, currentLanes = 1;
  Guard guard;
  bool failed = false;

  /// Values that a reduction of the fusion goes into.
  llvm::DenseSet<mlir::Value> afterReduction;
  std::map<int64_t, mlir::Value> constants;
  llvm::DenseMap<train::DimAttr, mlir::Value> dimValues;
  llvm::SmallVector<mlir::Value> buffers;
  llvm::SmallVector<BufferUse> uses;
  mlir::Value scratchBase, errorBase, zerosBase;
  /// quotient -> (dividend, remainder, divisor): lets linearize undo delinearize.
  struct Division {
    mlir::Value dividend, remainder;
    train::DimAttr divisor;
  };
  llvm::DenseMap<mlir::Value, Division> divisions;
  llvm::DenseMap<mlir::Value, mlir::Value> splatSource;
  llvm::DenseMap<mlir::Value, train::ElementIndex> loadedFrom;
};

/// Type of an element in memory.
mlir::Type memoryType(mlir::Type element);
/// Bytes of an element in memory.
int64_t memoryBytes(mlir::Type element);
/// Lanes worth using along an axis.
unsigned lanesFor(train::DimAttr size);

/// What the launch of a kernel needs to know; a function of the structure only.
struct Launch {
  train::DimAttr work, scratchBytes;
  int64_t grain = 1;
};
Launch planLaunch(train::FusionOp fusion, const Structure &structure);

// The templates. Each emits the whole body of the function.
void mapPointwise(KernelEmitter &emitter);
void mapRow(KernelEmitter &emitter);
void mapColumn(KernelEmitter &emitter);
void mapScatter(KernelEmitter &emitter);
void mapScan(KernelEmitter &emitter);

/// Columns of a work item in the templates whose vector axis is kept.
inline constexpr int64_t kColumnBlock = 64;
/// Elements of a work item in pointwise kernels.
inline constexpr int64_t kPointwiseBlock = 2048;

/// Calls `body(i, mask)` for the vectors of [lower, upper), the last one masked; `size` is upper -
/// lower where it is known.
void forEachVector(KernelEmitter &emitter, mlir::Value lower, mlir::Value upper,
                   std::optional<int64_t> size,
                   llvm::function_ref<void(const train::ElementIndex &)> body);

} // namespace trainc::codegen

#endif // TRAINC_LIB_CODEGEN_CPU_KERNELEMITTER_H
