// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments and memory of a GPU kernel: buffers, vector access by alignment, the report of a bad
// index; and the signatures of its stages.
//
// Where a condition turns a load off, it reads a block of zeros instead: no branch.

#include "GpuEmitter.h"
#include "FlatForm.h"
#include "LowerToPTX.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include "trainc/Report/Reports.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Readable zeros: the widest vector there is.
static constexpr unsigned kZerosBytes = 128;
/// Every buffer has whole blocks of so many bytes.
static constexpr unsigned kWholeBytes = 256;
/// The widest access of a thread.
static constexpr unsigned kVectorBytes = 16;
/// Elements of an input that is copied to shared memory: a bank each.
static constexpr int64_t kMostTable = 32;
/// First word of memo keys, beyond those of every processor's.
static constexpr intptr_t kLanesBelow = 64;

GpuEmitter::GpuEmitter(FusionOp fusion, const Structure &structure, LLVM::LLVMFuncOp function,
                       SmallVectorImpl<DimAttr> &dims, const GpuStage &stage, bool hasTemporary)
    : KernelEmitter(fusion, structure, function, dims), blockThreads(stage.threads),
      blockCount(stage.blocks.getConstant()), firstDim(uses.size() + hasTemporary) {}

//===----------------------------------------------------------------------===//
// Arguments of the function
//===----------------------------------------------------------------------===//

/// Moved to the input's begin, where there is one; alignment stays what vectors need.
Value GpuEmitter::buffer(unsigned number) {
  Value pointer = entry->getArgument(number);
  auto starts = fusion->getAttrOfType<DimsAttr>(kStartsAttr);
  if (!starts || number >= starts.getDims().size() || starts.getDims()[number].isConstant(0))
    return pointer;
  Value &begin = begins[number];
  if (!begin) {
    Value start = dim(starts.getDims()[number]);
    OpBuilder::InsertionGuard restore(b);
    b.setInsertionPointAfter(start.getDefiningOp());
    auto unit = LLVM::LLVMArrayType::get(b.getI8Type(), kStartBytes);
    begin = elementPointer(pointer, unit, start);
  }
  return begin;
}

Value GpuEmitter::temporary(int64_t byteOffset) {
  assert(byteOffset % 16 == 0 && "parts are aligned as vectors are");
  Value base = entry->getArgument(uses.size());
  return byteOffset == 0 ? base : elementPointer(base, b.getI8Type(), constantIndex(byteOffset));
}

/// Dims stand between the buffers and the error slot.
/// Dims grow as they are asked for; the error slot stays the last argument.
void GpuEmitter::addDims(unsigned count) {
  while (entry->getNumArguments() < firstDim + count + 1)
    entry->insertArgument(entry->getNumArguments() - 1, b.getI64Type(), function.getLoc());
}

/// All sizes are 64 bits wide.
Value GpuEmitter::makeDim(unsigned number) {
  addDims(number + 1);
  return arith::IndexCastOp::create(b, location, b.getIndexType(),
                                    entry->getArgument(firstDim + number));
}

/// All stages of a kernel have the same arguments, whatever each has asked for.
void GpuEmitter::setArguments(unsigned dimCount) {
  addDims(dimCount);
  SmallVector<Type> types(entry->getArgumentTypes());
  function.setFunctionType(
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), types));
}

void GpuEmitter::finish() { LLVM::ReturnOp::create(b, location, ValueRange()); }

//===----------------------------------------------------------------------===//
// Where the thread is
//===----------------------------------------------------------------------===//

/// Read once, at the entry; known to be below the block's size.
Value GpuEmitter::thread() {
  if (!threadIndex)
    threadIndex = atEntry([&]() -> Value {
      Value number = NVVM::ThreadIdXOp::create(b, location, b.getI32Type());
      return arith::IndexCastUIOp::create(b, location, b.getIndexType(), number);
    });
  return threadIndex;
}

Value GpuEmitter::block() {
  if (!blockIndex)
    blockIndex = atEntry([&]() -> Value {
      Value number = NVVM::BlockIdXOp::create(b, location, b.getI32Type());
      return arith::IndexCastUIOp::create(b, location, b.getIndexType(), number);
    });
  return blockIndex;
}

/// The largest value, if it is known not to be negative and where its ends show. Depth limits the
/// search; no answer is safe.
std::optional<int64_t> GpuEmitter::upperBound(Value value, unsigned depth) {
  if (auto constant = getConstantIntValue(value))
    return *constant >= 0 ? constant : std::nullopt;
  if (value == threadIndex)
    return blockThreads - 1;
  // Blocks are counted in 31 bits.
  if (value == blockIndex)
    return blockCount.value_or(int64_t(1) << 31) - 1;
  if (auto known = bounds.find(value); known != bounds.end())
    return known->second;
  Operation *op = value.getDefiningOp();
  if (!op || depth > 8) {
    auto argument = dyn_cast<BlockArgument>(value);
    auto loop =
        argument ? dyn_cast_or_null<scf::ForOp>(argument.getOwner()->getParentOp()) : scf::ForOp();
    // A loop's counter is below its upper bound.
    return loop && argument == loop.getInductionVar() ? upperBound(loop.getUpperBound(), depth + 1)
                                                      : std::nullopt;
  }
  if (!isa<arith::AddIOp, arith::MulIOp, arith::MinSIOp>(op))
    return std::nullopt;
  auto x = upperBound(op->getOperand(0), depth + 1), y = upperBound(op->getOperand(1), depth + 1);
  // One bound is enough for a minimum.
  if (isa<arith::MinSIOp>(op) && (x || y))
    return x && y ? std::min(*x, *y) : x ? *x : *y;
  int64_t result;
  if (!x || !y ||
      (isa<arith::AddIOp>(op) ? __builtin_add_overflow(*x, *y, &result)
                              : __builtin_mul_overflow(*x, *y, &result)))
    return std::nullopt;
  return result;
}

/// 32 bits where both fit: the result is the same.
Value GpuEmitter::makeDivision(Value x, Value y, bool remainder) {
  constexpr int64_t largest = (int64_t(1) << 32) - 1;
  auto dividend = upperBound(x), divisor = upperBound(y);
  Value result;
  if (dividend && divisor && *dividend <= largest && *divisor <= largest) {
    // 64-bit division takes several times as long.
    Value narrowX = arith::IndexCastUIOp::create(b, location, b.getI32Type(), x);
    Value narrowY = arith::IndexCastUIOp::create(b, location, b.getI32Type(), y);
    Value narrow;
    if (remainder)
      narrow = arith::RemUIOp::create(b, location, narrowX, narrowY);
    else
      narrow = arith::DivUIOp::create(b, location, narrowX, narrowY);
    result = arith::IndexCastUIOp::create(b, location, b.getIndexType(), narrow);
  } else {
    result = KernelEmitter::makeDivision(x, y, remainder);
  }
  // Bounds of quotients and remainders are remembered: they are divided again.
  auto constant = getConstantIntValue(y);
  if (remainder && divisor && *divisor > 0)
    bounds[result] = dividend ? std::min(*dividend, *divisor - 1) : *divisor - 1;
  else if (!remainder && dividend && constant && *constant > 0)
    bounds[result] = *dividend / *constant;
  else if (dividend)
    bounds[result] = *dividend;
  return result;
}

/// Lanes below a limit: one 32-bit comparison each, where the numbers are small enough.
Value GpuEmitter::lessThan(const ElementIndex &x, const ElementIndex &y) {
  constexpr int64_t largest = std::numeric_limits<int32_t>::max();
  if (lanes() == 1 || x.vector || y.vector || x.stride != 1 || y.stride != 0)
    return KernelEmitter::lessThan(x, y);
  auto left = upperBound(x.base), right = upperBound(y.base);
  if (!left || !right || *left > largest || *right > largest)
    return KernelEmitter::lessThan(x, y);
  auto word = [](Value value) { return reinterpret_cast<intptr_t>(value.getAsOpaquePointer()); };
  return once(std::max(depthOf(x.base), depthOf(y.base)),
              {kLanesBelow, word(x.base), word(y.base), lanes()}, [&] {
                Type i32 = b.getI32Type();
                auto type = VectorType::get(int64_t(lanes()), i32);
                Value from = arith::IndexCastOp::create(b, location, i32, x.base);
                Value to = arith::IndexCastOp::create(b, location, i32, y.base);
                Value count = arith::SubIOp::create(b, location, to, from);
                Value zero = arith::ConstantIntOp::create(b, location, 0, 32);
                Value counts = vector::BroadcastOp::create(b, location, type, count);
                auto below = arith::CmpIPredicate::slt;
                Value mask =
                    arith::CmpIOp::create(b, location, below, laneConstants(i32, 1), counts);
                firstLanes[mask] = arith::CmpIOp::create(b, location, below, zero, count);
                return mask;
              });
}

/// The first lane tells for all where lanes are wanted in ascending order.
Value GpuEmitter::anyOf(Value mask) {
  Value first = firstLanes.lookup(mask);
  return first ? first : anyLane(mask);
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

Value GpuEmitter::guardedPointer(Value pointer, Value condition) {
  if (!condition)
    return pointer;
  if (!zerosBase)
    zerosBase = makeGlobal("_zeros", kGlobalSpace, kZerosBytes, /*zeros=*/true);
  return LLVM::SelectOp::create(b, location, condition, pointer, zerosBase);
}

/// Names are the function's with a suffix, so that they differ in the module.
Value GpuEmitter::makeGlobal(const Twine &suffix, unsigned space, int64_t bytes, bool zeros) {
  auto module = function->getParentOfType<ModuleOp>();
  OpBuilder builder(function);
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), bytes);
  auto global = LLVM::GlobalOp::create(builder, module.getLoc(), type, /*isConstant=*/zeros,
                                       LLVM::Linkage::Internal, (function.getName() + suffix).str(),
                                       Attribute(), /*alignment=*/128, space);
  // Erased with a kernel that fails.
  globals.push_back(global);
  if (zeros) {
    builder.createBlock(&global.getInitializerRegion());
    Value zero = LLVM::ZeroOp::create(builder, module.getLoc(), type);
    LLVM::ReturnOp::create(builder, module.getLoc(), zero);
  }
  // The address is the same everywhere in the kernel.
  return atEntry([&]() -> Value {
    auto pointer = LLVM::LLVMPointerType::get(b.getContext(), space);
    return LLVM::AddressOfOp::create(b, location, pointer, global.getSymName());
  });
}

/// Of the block; contents are undefined until threads have written them.
Value GpuEmitter::shared(Type element, int64_t count) {
  return makeGlobal("_shared" + Twine(sharedArrays++), kSharedSpace,
                    count * getElementBytes(element),
                    /*zeros=*/false);
}

Value GpuEmitter::laneOf(Value vector, unsigned lane) {
  if (!isa<VectorType>(vector.getType()))
    return vector;
  return vector::ExtractOp::create(b, location, vector, ArrayRef<int64_t>{lane});
}

/// In bytes: the largest power of two of elements that the offset is a multiple of.
unsigned GpuEmitter::alignmentOf(Value offset, int64_t elementBytes, int64_t elements) {
  for (; elements > 1; elements /= 2)
    if (isMultipleOf(offset, elements))
      return elements * elementBytes;
  return elementBytes;
}

/// A copy of a small input in shared memory, for lanes that read at places of their own: from
/// global memory each would be an access.
Value GpuEmitter::tableOf(Value pointer, Type element) {
  auto argument = dyn_cast<BlockArgument>(pointer);
  if (!argument || argument.getOwner() != entry ||
      argument.getArgNumber() >= fusion.getInputs().size())
    return pointer;
  Value input = fusion.getInputs()[argument.getArgNumber()];
  auto count = getNumElements(input.getType()).getConstant();
  // One element a thread: no loop to fill it.
  if (!count || *count > kMostTable || *count > blockThreads)
    return pointer;
  Value &table = tables[pointer];
  if (!table) {
    Type memory = memoryType(element);
    Value copy = shared(element, *count);
    Value number = thread();
    // Behind both the address and the thread's number, before any reader.
    OpBuilder::InsertionGuard restore(b);
    Operation *address = copy.getDefiningOp(), *other = number.getDefiningOp();
    b.setInsertionPointAfter(address->isBeforeInBlock(other) ? other : address);
    Value last = arith::ConstantIndexOp::create(b, location, *count - 1);
    // Threads beyond the end copy the last element again: no branch before the barrier.
    Value place = arith::MinUIOp::create(b, location, number, last);
    Value from = elementPointer(pointer, memory, place), to = elementPointer(copy, memory, place);
    const unsigned bytes = getElementBytes(element);
    LLVM::StoreOp::create(b, location, LLVM::LoadOp::create(b, location, memory, from, bytes), to,
                          bytes);
    syncBlock();
    table = copy;
  }
  return table;
}

/// Offset of a lane, in elements.
Value GpuEmitter::laneOffset(const ElementIndex &offset, unsigned lane) {
  if (offset.vector)
    return laneOf(offset.vector, lane);
  return addIndex(offset.base, constantIndex(offset.stride * lane));
}

Value GpuEmitter::loadFrom(Value pointer, Type element, const ElementIndex &offset) {
  Type memory = memoryType(element);
  unsigned bytes = getElementBytes(element);
  Value loaded;
  if (vectorLanes == 1 || offset.isUniform()) {
    // Off, it reads zeros.
    Value condition = guard.scalar;
    if (guard.lanes)
      condition = conjunction(condition, anyOf(guard.lanes));
    Value address = guardedPointer(elementPointer(pointer, memory, offset.base), condition);
    // Neighbours in a buffer that are read one by one may become one access.
    const bool isBuffer = isa<BlockArgument>(pointer);
    loaded =
        LLVM::LoadOp::create(b, location, memory, address,
                             alignmentOf(offset.base, bytes, isBuffer ? kVectorBytes / bytes : 1));
  } else {
    // A load that a condition turns off reads zeros, which are in global memory.
    if (offset.vector && !guard.lanes && !guard.scalar)
      pointer = tableOf(pointer, element);
    auto type = VectorType::get(int64_t(vectorLanes), memory);
    // Neighbours, all wanted or none.
    if (!offset.vector && offset.stride == 1 && !guard.lanes) {
      Value address = guardedPointer(elementPointer(pointer, memory, offset.base), guard.scalar);
      loaded = LLVM::LoadOp::create(b, location, type, address, alignmentOf(offset.base, bytes));
    } else if (!offset.vector && offset.stride == 1 &&
               alignmentOf(offset.base, bytes) == vectorLanes * bytes &&
               vectorLanes * bytes <= kWholeBytes) {
      // Lanes that are off may lie behind the buffer, but not behind what is allocated for it.
      // What is there goes nowhere.
      Value condition = conjunction(guard.scalar, anyOf(guard.lanes));
      Value address = guardedPointer(elementPointer(pointer, memory, offset.base), condition);
      loaded = LLVM::LoadOp::create(b, location, type, address, vectorLanes * bytes);
    } else {
      Values elements;
      for (unsigned lane = 0; lane < vectorLanes; ++lane) {
        // Lane by lane, each with its own condition.
        Value condition = guard.scalar;
        if (guard.lanes)
          condition = conjunction(condition, laneOf(guard.lanes, lane));
        Value address = elementPointer(pointer, memory, laneOffset(offset, lane));
        address = guardedPointer(address, condition);
        elements.push_back(LLVM::LoadOp::create(b, location, memory, address, bytes));
      }
      loaded = vector::FromElementsOp::create(b, location, type, elements);
    }
  }
  if (element.isInteger(1)) {
    Value none =
        arith::ConstantOp::create(b, location, cast<TypedAttr>(b.getZeroAttr(loaded.getType())));
    loaded = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ne, loaded, none);
  }
  return loaded;
}

/// Stores have no mask on a GPU: callers store inside of an `if`.
void GpuEmitter::storeTo(Value pointer, Type element, const ElementIndex &offset, Value value) {
  Type memory = memoryType(element);
  unsigned bytes = getElementBytes(element);
  bool vector = vectorLanes > 1 && !offset.isUniform();
  if (vector)
    value = toLanes(value);
  if (element.isInteger(1)) {
    Type wide = memory;
    if (auto type = dyn_cast<VectorType>(value.getType()))
      wide = VectorType::get(type.getShape(), memory);
    value = arith::ExtUIOp::create(b, location, wide, value);
  }
  if (!vector) {
    LLVM::StoreOp::create(b, location, value, elementPointer(pointer, memory, offset.base), bytes);
  } else if (!offset.vector && offset.stride == 1) {
    LLVM::StoreOp::create(b, location, value, elementPointer(pointer, memory, offset.base),
                          alignmentOf(offset.base, bytes));
  } else {
    for (unsigned lane = 0; lane < vectorLanes; ++lane)
      LLVM::StoreOp::create(b, location, laneOf(value, lane),
                            elementPointer(pointer, memory, laneOffset(offset, lane)), bytes);
  }
}

void GpuEmitter::reportNumber(Value bad) {
  /// In the error slot, beside the bad index.
  OpBuilder::InsertionGuard restore(b);
  Value error = entry->getArgument(entry->getNumArguments() - 1);
  auto branch = scf::IfOp::create(b, location, anyLane(bad), /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  // All store the same, so it does not matter which is the last.
  Value slot = LLVM::GEPOp::create(b, location, error.getType(), b.getI64Type(), error,
                                   ArrayRef<LLVM::GEPArg>{3});
  auto store =
      LLVM::StoreOp::create(b, location, arith::ConstantIntOp::create(b, location, 1, 64), slot, 8);
  store->setAttr(kReportsAttr, b.getUnitAttr());
}

void GpuEmitter::reportIndex(Value bad, Value data) {
  /// The first thread to come takes the slot: any bad index will do for the message, the run ends.
  OpBuilder::InsertionGuard restore(b);
  Value error = entry->getArgument(entry->getNumArguments() - 1);
  auto loaded = loadedFrom.find(data);
  auto outer = scf::IfOp::create(b, location, anyLane(bad), /*withElseRegion=*/false);
  b.setInsertionPointToStart(outer.thenBlock());
  Type i64 = b.getI64Type();
  auto number = [&](int64_t value) -> Value {
    return arith::ConstantIntOp::create(b, location, value, 64);
  };
  Value order = number(0), one = number(1);
  // Relaxed: nothing is read because of it.
  auto exchange =
      LLVM::AtomicCmpXchgOp::create(b, location, error, order, one, LLVM::AtomicOrdering::monotonic,
                                    LLVM::AtomicOrdering::monotonic);
  Value first = LLVM::ExtractValueOp::create(b, location, exchange, ArrayRef<int64_t>{1});
  auto inner = scf::IfOp::create(b, location, first, /*withElseRegion=*/false);
  b.setInsertionPointToStart(inner.thenBlock());
  // The first bad lane, by selects: a lane by number would take local memory.
  unsigned lanes = isa<VectorType>(data.getType()) ? vectorLanes : 1;
  Value value = laneOf(data, lanes - 1), lane = number(lanes - 1);
  for (unsigned i = lanes - 1; i-- > 0;) {
    Value isBad = laneOf(bad, i);
    value = arith::SelectOp::create(b, location, isBad, laneOf(data, i), value);
    lane = arith::SelectOp::create(b, location, isBad, number(i), lane);
  }
  if (value.getType() != i64)
    value = arith::ExtSIOp::create(b, location, i64, value);
  // Where the index came from memory, its position in the tensor says which input element it is.
  Value place = number(-1);
  if (loaded != loadedFrom.end() && !loaded->second.vector) {
    place = arith::MulIOp::create(b, location, lane, number(loaded->second.stride));
    Value base = arith::IndexCastOp::create(b, location, i64, loaded->second.base);
    place = arith::AddIOp::create(b, location, base, place);
  }
  auto slot = [&](int32_t index) {
    return LLVM::GEPOp::create(b, location, error.getType(), i64, error,
                               ArrayRef<LLVM::GEPArg>{index})
        .getResult();
  };
  LLVM::StoreOp::create(b, location, place, slot(1), 8);
  LLVM::StoreOp::create(b, location, value, slot(2), 8);
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

/// Those that are one behind the other on the way to a step's end. For a wait loads of what never
/// changes are given up, for lack of which sums over everything and scatters spill registers.
static bool mayWait(Mapping mapping) {
  return mapping == Mapping::Pointwise || mapping == Mapping::Row || mapping == Mapping::Column;
}

/// Stages are separate launches: memory that one writes, the next one sees.
GpuEmitter &GpuKernel::nextStage() {
  const GpuStage &stage = plan.stages[stages.size()];
  OpBuilder b = OpBuilder::atBlockEnd(module.getBody());
  // No dims yet: they are added when they are asked for.
  auto pointer = LLVM::LLVMPointerType::get(b.getContext(), kGlobalSpace);
  bool hasTemporary = bool(plan.temporaryBytes);
  SmallVector<Type> arguments(fusion.getInputs().size() + fusion.getNumResults() + hasTemporary + 1,
                              pointer);
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()), arguments);
  auto function = LLVM::LLVMFuncOp::create(b, fusion.getLoc(), (name + stage.suffix).str(), type);
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(), b.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getMaxntidAttrName(),
                    b.getDenseI32ArrayAttr({int32_t(stage.threads)}));
  if (mayWait(plan.mapping))
    function.setPassthroughAttr(b.getStrArrayAttr({kMayWaitAttribute}));
  functions.push_back(function);
  stages.push_back(
      std::make_unique<GpuEmitter>(fusion, structure, function, dims, stage, hasTemporary));
  return *stages.back();
}

/// What is to be known of all stages together: arguments, in-place pairs, aliasing. Nothing is left
/// of a kernel that failed.
std::optional<SmallVector<std::pair<unsigned, unsigned>>> GpuKernel::finish() {
  SmallVector<BufferUse> uses(fusion.getInputs().size() + fusion.getNumResults());
  bool failed = false;
  for (auto [emitter, function] : llvm::zip_equal(stages, functions)) {
    emitter->setArguments(dims.size());
    failed |= emitter->hasFailed() || mlir::failed(verify(function));
    joinUses(uses, emitter->getUses());
  }
  if (failed) {
    for (auto [emitter, function] : llvm::zip_equal(stages, functions)) {
      emitter->eraseGlobals();
      function.erase();
    }
    return std::nullopt;
  }
  auto pairs = inPlacePairs(fusion, structure, uses);
  // What no pair may put into one buffer does not overlap with anything that is written.
  // Not marked where a result may lie over an input.
  unsigned inputs = fusion.getInputs().size();
  llvm::SmallDenseSet<unsigned> shared;
  for (auto [input, result] : pairs) {
    shared.insert(input);
    shared.insert(inputs + result);
  }
  for (LLVM::LLVMFuncOp function : functions)
    for (unsigned number = 0, e = function.getNumArguments(); number < e; ++number) {
      if (!isa<LLVM::LLVMPointerType>(function.getArgument(number).getType()))
        continue;
      auto unit = UnitAttr::get(function.getContext());
      if (!shared.contains(number))
        function.setArgAttr(number, LLVM::LLVMDialect::getNoAliasAttrName(), unit);
      if (number < inputs)
        function.setArgAttr(number, LLVM::LLVMDialect::getReadonlyAttrName(), unit);
    }
  return pairs;
}

} // namespace trainc::codegen
