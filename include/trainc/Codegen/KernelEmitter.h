// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emission of one kernel, whatever the processor: elements by demand, each at the outermost loop
// that its coordinates allow and once there; index arithmetic; reductions' steps. Where arguments
// come from and how memory is accessed is the processor's emitter's.
//
// Memory is raw pointers; booleans take a byte there and are i1 in code. No fast-math flag is ever
// set but `afn` on single calls, which chooses their formula: an op's formula gives the same bits
// in every kernel. 16-bit floats are storage types: formulas see f32, and every op's result is
// rounded.
#ifndef TRAINC_CODEGEN_KERNELEMITTER_H
#define TRAINC_CODEGEN_KERNELEMITTER_H

#include "Structure.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include <functional>
#include <map>

namespace trainc::codegen {

using Index = llvm::SmallVector<train::ElementIndex>;
using Values = llvm::SmallVector<mlir::Value>;

/// Which accesses of an input or result allow it to share a buffer.
struct BufferUse {
  bool used = false;
  /// Only the element of the current position of the space, of the kept axes, or, where columns of
  /// all rows are summed up, of the columns.
  bool onlySpace = true, onlyKept = true, onlyColumns = true;
  /// Of an input: last pass that reads it. Of a result: pass that writes it.
  unsigned pass = 0;
};

class KernelEmitter : public train::ElementBuilder {
public:
  // Loops and conditions. The body is emitted between open and close.
  mlir::scf::ForOp openLoop(mlir::Value lower, mlir::Value upper, mlir::Value step,
                            mlir::ValueRange init = {});
  /// Ends the innermost loop; returns its results.
  Values closeLoop(mlir::scf::ForOp loop, mlir::ValueRange yielded = {});
  /// Code where `condition` (i1) holds. Elements asked for inside are read inside, unless they were
  /// at hand before.
  void openIf(mlir::Value condition);
  void closeIf();

  // Evaluation.
  /// Element of `value`: scalar where the index is uniform, else lanes.
  mlir::Value evaluate(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);
  /// As evaluate, always lanes.
  mlir::Value evaluateLanes(mlir::Value value, llvm::ArrayRef<train::ElementIndex> index);
  void store(unsigned result, llvm::ArrayRef<train::ElementIndex> index, mlir::Value value);
  /// `index`: a position of the space.
  void store(const Store &place, llvm::ArrayRef<train::ElementIndex> index, mlir::Value value);
  /// Lanes of all that the structure stores at `spaceIndex`. Stores follow all loads: a result may
  /// take the place of an input.
  void storeResults();
  mlir::Value load(unsigned buffer, mlir::Type tensor, llvm::ArrayRef<train::ElementIndex> index);
  /// Splits a position in row-major order of `dims` into coordinates.
  Index delinearize(mlir::Value position, llvm::ArrayRef<train::DimAttr> dims);
  /// Position of a coordinate tuple in row-major order.
  train::ElementIndex linearize(llvm::ArrayRef<train::ElementIndex> index,
                                llvm::ArrayRef<train::DimAttr> dims) override;

  // Memory with an element type; offsets in elements.
  virtual mlir::Value loadFrom(mlir::Value pointer, mlir::Type element,
                               const train::ElementIndex &offset) = 0;
  virtual void storeTo(mlir::Value pointer, mlir::Type element, const train::ElementIndex &offset,
                       mlir::Value value) = 0;
  /// Pointer of an input or, from inputs on, of a result.
  virtual mlir::Value buffer(unsigned number) = 0;

  // Index arithmetic, at the outermost loop possible.
  mlir::Value constantIndex(int64_t value);
  mlir::Value addIndex(mlir::Value a, mlir::Value b);
  mlir::Value subIndex(mlir::Value a, mlir::Value b);
  mlir::Value mulIndex(mlir::Value a, mlir::Value b);
  mlir::Value minIndex(mlir::Value a, mlir::Value b);
  mlir::Value divIndex(mlir::Value a, mlir::Value b);
  mlir::Value remIndex(mlir::Value a, mlir::Value b);
  /// a < b, i1.
  mlir::Value lessIndex(mlir::Value a, mlir::Value b);
  mlir::Value selectIndex(mlir::Value condition, mlir::Value a, mlir::Value b);
  mlir::Value productOf(llvm::ArrayRef<train::DimAttr> dims);
  /// Whether an index scalar is a multiple of `factor` by the way it is made, or by assumption.
  bool isMultipleOf(mlir::Value value, int64_t factor);
  /// Code that is emitted from now on runs only where `value` is a multiple of `factor`; 1 ends it.
  void assumeMultiple(mlir::Value value, int64_t factor) { assumed[value] = factor; }

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
  train::ElementIndex div(const train::ElementIndex &a, int64_t divisor) override;
  bool hasFactor(const train::ElementIndex &a, int64_t factor) override {
    return !a.vector && isMultipleOf(a.base, factor);
  }
  train::ElementIndex dimIndex(train::DimAttr d) override { return {dim(d), 0, {}}; }
  mlir::Value lessThan(const train::ElementIndex &a, const train::ElementIndex &b) override;
  train::ElementIndex checkedIndex(mlir::Operation *op, mlir::Value data,
                                   train::DimAttr extent) override;
  mlir::Value asInteger(const train::ElementIndex &index) override;
  mlir::Value splat(mlir::TypedAttr value) override;
  mlir::Value splatValue(mlir::Value scalar) override;

  // Reductions run in f32 where the elements are 16-bit floats.
  /// The operand of a reduction at an index, mapped, in lanes.
  mlir::Value mappedOperand(mlir::Operation *reduction, llvm::ArrayRef<train::ElementIndex> index);
  mlir::Value combine(mlir::Operation *reduction, mlir::Value a, mlir::Value b);
  /// Neutral element of a reduction in `width` lanes.
  mlir::Value identity(mlir::Operation *reduction, unsigned width);
  /// Combines the lanes in a fixed tree.
  mlir::Value combineLanes(mlir::Operation *reduction, mlir::Value value);
  /// The reduction's result from what its steps have made.
  mlir::Value finishReduction(mlir::Operation *reduction, mlir::Value total);
  mlir::Value zero(mlir::Type element);
  /// Floats (scalar or lanes) as another float type; other values are left alone.
  mlir::Value convertFloat(mlir::Value value, mlir::Type element);

  void setLanes(unsigned count) { vectorLanes = currentLanes = count; }
  unsigned getLanes() const { return vectorLanes; }

  /// Current position, by which in-place use is recognised; set by the templates.
  Index spaceIndex, keptIndex;
  /// The same where what is made of sums down the columns is computed: when all rows are done, so
  /// that only what is read there matters.
  Index columnIndex;
  /// The position's number in row-major order of the space, where the template has it at hand.
  std::optional<train::ElementIndex> spaceOffset;
  unsigned pass = 0;
  /// Values that the template has at hand for this index, or null.
  std::function<mlir::Value(mlir::Value, llvm::ArrayRef<train::ElementIndex>)> resident;

  static bool same(llvm::ArrayRef<train::ElementIndex> a, llvm::ArrayRef<train::ElementIndex> b);
  bool hasFailed() const { return failed; }
  llvm::ArrayRef<BufferUse> getUses() const { return uses; }
  const Structure &structure;
  train::FusionOp fusion;

protected:
  /// `function` has the processor's ABI and an empty body. `dims` are the sizes passed at run time;
  /// sizes beyond them are appended.
  KernelEmitter(train::FusionOp fusion, const Structure &structure, mlir::LLVM::LLVMFuncOp function,
                llvm::SmallVectorImpl<train::DimAttr> &dims);

  /// The value of the size with this number, as index; emitted in the entry block.
  virtual mlir::Value makeDim(unsigned number) = 0;
  /// Emits that the processor remembers the first of `bad` (i1, scalar or lanes) indices in `data`.
  virtual void reportIndex(mlir::Value bad, mlir::Value data) = 0;
  /// Emits that the processor remembers whether there was a `bad` (i1, scalar or lanes) number.
  virtual void reportNumber(mlir::Value bad) = 0;
  /// x / y or x % y of index scalars that are not negative.
  virtual mlir::Value makeDivision(mlir::Value x, mlir::Value y, bool remainder);

  using Key = std::vector<intptr_t>;
  struct Scope {
    mlir::Block *block;
    mlir::Operation *op;
    std::map<Key, mlir::Value> memo;
    /// Whether reads may not move in front of it.
    bool guards = false;
  };
  /// What must hold for an element to be wanted. `tail`: lanes that the code may read and write;
  /// `active`: whether the thread's results count at all, though it may read. Null: all.
  struct Guard {
    mlir::Value scalar, lanes, tail, active;
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
  /// `bad` (i1, scalar or lanes) where the code around wants the element; other lanes may hold
  /// anything.
  mlir::Value whereWanted(mlir::Value bad);
  /// Pointer to elements `offset` (index, scalar or lanes) behind `pointer`.
  mlir::Value elementPointer(mlir::Value pointer, mlir::Type memory, mlir::Value offset);
  mlir::Value laneConstants(mlir::Type element, int64_t stride);
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

  /// Values that a reduction of the fusion goes into, and the loop inside which they exist even
  /// where no coordinate says so.
  unsigned workDepth = 0;
  llvm::DenseSet<mlir::Value> afterReduction;
  std::map<int64_t, mlir::Value> constants;
  llvm::DenseMap<train::DimAttr, mlir::Value> dimValues;
  llvm::DenseMap<mlir::Value, int64_t> assumed;
  llvm::SmallVector<BufferUse> uses;
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
/// Type that formulas compute in: f32 for 16-bit floats, else the element type.
mlir::Type computeType(mlir::Type element);

/// Adds the uses of another stage: a pair must be allowed by every one.
void joinUses(llvm::MutableArrayRef<BufferUse> all, llvm::ArrayRef<BufferUse> uses);
/// Pairs (input, result) that may share a buffer, from the uses in all emitted code.
llvm::SmallVector<std::pair<unsigned, unsigned>>
inPlacePairs(train::FusionOp fusion, const Structure &structure, llvm::ArrayRef<BufferUse> uses);

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_KERNELEMITTER_H
