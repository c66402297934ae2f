// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Arguments and memory of a CPU kernel: buffers, loads that a mask may turn off, stores, the report
// of a bad index.
//
// A load becomes a scalar load, a vector load or a gather by the stride of its lanes. Where a
// scalar condition turns a load off, it reads a block of zeros instead: no branch.

#include "CpuEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

static LLVM::LLVMPointerType pointerType(OpBuilder &b) {
  return LLVM::LLVMPointerType::get(b.getContext());
}

//===----------------------------------------------------------------------===//
// Arguments of the function
//===----------------------------------------------------------------------===//

/// Once, at the entry: the table of buffers does not change while the kernel runs.
Value CpuEmitter::loadBuffer(unsigned number) {
  return atEntry([&]() -> Value {
    auto type = pointerType(b);
    Value slot = LLVM::GEPOp::create(b, location, type, type, entry->getArgument(0),
                                     ArrayRef<LLVM::GEPArg>{int32_t(number)});
    return LLVM::LoadOp::create(b, location, type, slot, 8);
  });
}

Value CpuEmitter::buffer(unsigned number) {
  if (!buffers[number])
    buffers[number] = loadBuffer(number);
  return buffers[number];
}

/// Behind the inputs and results.
Value CpuEmitter::temporary(DimAttr byteOffset) {
  if (!temporaryBase)
    temporaryBase = loadBuffer(buffers.size());
  return elementPointer(temporaryBase, b.getI8Type(), dim(byteOffset));
}

Value CpuEmitter::makeDim(unsigned number) {
  Value slot = LLVM::GEPOp::create(b, location, pointerType(b), b.getI64Type(),
                                   entry->getArgument(1), ArrayRef<LLVM::GEPArg>{int32_t(number)});
  Value loaded = LLVM::LoadOp::create(b, location, b.getI64Type(), slot, 8);
  return arith::IndexCastOp::create(b, location, b.getIndexType(), loaded);
}

/// Fields of KernelContext: 0 the scratch, 1 the error slot.
static Value contextField(OpBuilder &b, Location location, Value context, int32_t field) {
  auto type = LLVM::LLVMPointerType::get(b.getContext());
  Value slot = LLVM::GEPOp::create(b, location, type, type, context, ArrayRef<LLVM::GEPArg>{field});
  return LLVM::LoadOp::create(b, location, type, slot, 8);
}

/// The worker's own memory, as large as the launch asks for.
Value CpuEmitter::scratch(Value byteOffset) {
  if (!scratchBase)
    scratchBase = atEntry([&] { return contextField(b, location, entry->getArgument(4), 0); });
  return elementPointer(scratchBase, b.getI8Type(), byteOffset);
}

//===----------------------------------------------------------------------===//
// Work items
//===----------------------------------------------------------------------===//

/// The loop over the work items that the caller gives to this call.
Value CpuEmitter::openItems() {
  auto bound = [&](unsigned argument) {
    return arith::IndexCastOp::create(b, location, b.getIndexType(), entry->getArgument(argument))
        .getResult();
  };
  Value begin = bound(2), end = bound(3);
  return openLoop(begin, end, constantIndex(1)).getInductionVar();
}

void CpuEmitter::closeItems() {
  while (scopes.size() > 1)
    closeLoop(cast<scf::ForOp>(scopes.back().op));
  LLVM::ReturnOp::create(b, location, ValueRange());
}

/// Which lanes are below `count`; in 32 bits, since that is what masked instructions compare.
Value CpuEmitter::tailMask(Value count) {
  if (vectorLanes == 1)
    return {};
  // Behind the kinds of keys that the base has.
  constexpr intptr_t tailKey = -1;
  return once(depthOf(count),
              {tailKey, reinterpret_cast<intptr_t>(count.getAsOpaquePointer()), vectorLanes}, [&] {
                Value small = arith::IndexCastOp::create(b, location, b.getI32Type(), count);
                auto type = VectorType::get(int64_t(vectorLanes), b.getI32Type());
                Value limit = vector::BroadcastOp::create(b, location, type, small);
                return arith::CmpIOp::create(b, location, arith::CmpIPredicate::slt,
                                             laneConstants(b.getI32Type(), 1), limit)
                    .getResult();
              });
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

/// What moves between registers and memory: bf16 as its bits, which x86 has no instructions for.
static Type bitsType(Type element) {
  return element.isBF16() ? IntegerType::get(element.getContext(), 16) : memoryType(element);
}
static Value bitcastTo(OpBuilder &b, Location loc, Value x, Type element) {
  Type type = element;
  if (auto vector = dyn_cast<VectorType>(x.getType()))
    type = VectorType::get(vector.getShape(), element);
  return arith::BitcastOp::create(b, loc, type, x);
}

/// Zeros are as wide as the widest load, so that a guarded one may be read whole.
Value CpuEmitter::guardedPointer(Value pointer, Value condition) {
  if (!condition)
    return pointer;
  if (!zerosBase)
    zerosBase = atEntry([&]() -> Value {
      return LLVM::AddressOfOp::create(b, location, pointerType(b), kZerosName);
    });
  return LLVM::SelectOp::create(b, location, condition, pointer, zerosBase);
}

/// Two vector loads and a shuffle cost a fraction of a gather. The second load ends with the last
/// element that is wanted, which may be the buffer's last one.
Value CpuEmitter::loadEverySecond(Value pointer, Type memory, Value base, Value mask) {
  const int64_t lanes = vectorLanes, half = lanes / 2;
  assert(lanes % 2 == 0 && "each load has half of the lanes");
  auto type = VectorType::get(lanes, memory);
  const unsigned alignment = getElementBytes(memory);
  Value parts[2];
  for (int64_t part : {0, 1}) {
    Value start = part ? addIndex(base, constantIndex(lanes - 1)) : base;
    Value address = guardedPointer(elementPointer(pointer, memory, start), guard.scalar);
    if (!mask) {
      parts[part] = LLVM::LoadOp::create(b, location, type, address, alignment);
      continue;
    }
    // What lies between wanted elements is masked: they may be at the buffer's ends.
    SmallVector<int64_t> apart(lanes, lanes);
    for (int64_t lane = 0; lane < half; ++lane)
      apart[2 * lane + part] = lane + part * half;
    auto no = DenseElementsAttr::get(cast<ShapedType>(mask.getType()), false);
    Value wanted = vector::ShuffleOp::create(b, location, mask,
                                             arith::ConstantOp::create(b, location, no), apart);
    Value zeros = arith::ConstantOp::create(b, location, cast<TypedAttr>(b.getZeroAttr(type)));
    parts[part] = LLVM::MaskedLoadOp::create(b, location, type, address, wanted, zeros,
                                             b.getI32IntegerAttr(alignment), UnitAttr());
  }
  SmallVector<int64_t> order;
  for (int64_t lane = 0; lane < lanes; ++lane)
    order.push_back(lane < half ? 2 * lane : 2 * lane + 1);
  return vector::ShuffleOp::create(b, location, parts[0], parts[1], order);
}

Value CpuEmitter::loadFrom(Value pointer, Type element, const ElementIndex &offset) {
  Type memory = bitsType(element);
  unsigned alignment = getElementBytes(element);
  Value loaded;
  // One value for all lanes: read if any lane wants it.
  if (vectorLanes == 1 || offset.isUniform()) {
    Value condition = guard.scalar;
    if (guard.lanes)
      condition = conjunction(condition, anyLane(guard.lanes));
    Value address = guardedPointer(elementPointer(pointer, memory, offset.base), condition);
    loaded = LLVM::LoadOp::create(b, location, memory, address, alignment);
  } else {
    auto type = VectorType::get(int64_t(vectorLanes), memory);
    Value mask = conjunction(guard.tail, guard.lanes);
    auto zeros = [&]() -> Value {
      return arith::ConstantOp::create(b, location, cast<TypedAttr>(b.getZeroAttr(type)));
    };
    // Neighbours: a vector load. Lanes beyond the end are masked, as they may be outside of the
    // buffer.
    if (!offset.vector && offset.stride == 1) {
      Value address = guardedPointer(elementPointer(pointer, memory, offset.base), guard.scalar);
      if (mask)
        loaded = LLVM::MaskedLoadOp::create(b, location, type, address, mask, zeros(),
                                            b.getI32IntegerAttr(alignment), UnitAttr());
      else
        loaded = LLVM::LoadOp::create(b, location, type, address, alignment);
    } else if (!offset.vector && offset.stride == 2 && alignment >= 4) {
      loaded = loadEverySecond(pointer, memory, offset.base, mask);
    } else {
      // Anything else is a gather, whose mask must not be missing.
      if (guard.scalar)
        mask = conjunction(mask, toLanes(guard.scalar));
      if (!mask)
        mask = arith::ConstantOp::create(
            b, location,
            DenseElementsAttr::get(VectorType::get(int64_t(vectorLanes), b.getI1Type()), true));
      Value addresses = elementPointer(pointer, memory, asVector(offset));
      loaded = LLVM::masked_gather::create(b, location, type, addresses, mask, ValueRange{zeros()},
                                           b.getI32IntegerAttr(alignment));
    }
  }
  // Any nonzero byte is true.
  if (element.isInteger(1)) {
    Value none =
        arith::ConstantOp::create(b, location, cast<TypedAttr>(b.getZeroAttr(loaded.getType())));
    loaded = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ne, loaded, none);
  }
  return element.isBF16() ? bitcastTo(b, location, loaded, element) : loaded;
}

/// Only tails mask stores: a result is stored for every element.
void CpuEmitter::storeTo(Value pointer, Type element, const ElementIndex &offset, Value value) {
  Type memory = bitsType(element);
  unsigned alignment = getElementBytes(element);
  if (vectorLanes > 1 && !offset.isUniform())
    value = toLanes(value);
  if (element.isBF16())
    value = bitcastTo(b, location, value, memory);
  if (element.isInteger(1)) {
    Type wide = memory;
    if (auto vector = dyn_cast<VectorType>(value.getType()))
      wide = VectorType::get(vector.getShape(), memory);
    value = arith::ExtUIOp::create(b, location, wide, value);
  }
  Value address = elementPointer(pointer, memory, offset.base);
  if (guard.tail && isa<VectorType>(value.getType()))
    LLVM::MaskedStoreOp::create(b, location, value, address, guard.tail,
                                b.getI32IntegerAttr(alignment));
  else
    LLVM::StoreOp::create(b, location, value, address, alignment);
}

//===----------------------------------------------------------------------===//
// What the runtime is told of
//===----------------------------------------------------------------------===//

Value CpuEmitter::errors() {
  if (!errorBase)
    errorBase = atEntry([&] { return contextField(b, location, entry->getArgument(4), 1); });
  return errorBase;
}

/// Set by any lane and never cleared here: the runtime looks at it when the launch is done.
void CpuEmitter::reportNumber(Value bad) {
  OpBuilder::InsertionGuard restore(b);
  Type i64 = b.getI64Type();
  Value slot =
      LLVM::GEPOp::create(b, location, pointerType(b), i64, errors(), ArrayRef<LLVM::GEPArg>{3});
  auto branch = scf::IfOp::create(b, location, anyLane(bad), /*withElseRegion=*/false);
  b.setInsertionPointToStart(branch.thenBlock());
  LLVM::StoreOp::create(b, location, arith::ConstantIntOp::create(b, location, 1, 64), slot, 8);
}

/// The first bad index of the worker stays: later ones are not looked at.
void CpuEmitter::reportIndex(Value bad, Value data) {
  OpBuilder::InsertionGuard restore(b);
  auto loaded = loadedFrom.find(data);
  Value any = anyLane(bad);
  Value error = errors();
  auto outer = scf::IfOp::create(b, location, any, /*withElseRegion=*/false);
  b.setInsertionPointToStart(outer.thenBlock());
  Type i64 = b.getI64Type();
  Value code = LLVM::LoadOp::create(b, location, i64, error, 8);
  Value none = arith::ConstantIntOp::create(b, location, 0, 64);
  // Within one worker's chunk positions ascend, so the first is the lowest.
  Value first = arith::CmpIOp::create(b, location, arith::CmpIPredicate::eq, code, none);
  auto inner = scf::IfOp::create(b, location, first, /*withElseRegion=*/false);
  b.setInsertionPointToStart(inner.thenBlock());
  Value lane = arith::ConstantIndexOp::create(b, location, 0), value = data;
  if (isa<VectorType>(data.getType())) {
    // The first bad lane: the smallest number among them.
    Type i32 = b.getI32Type();
    auto type = VectorType::get(int64_t(vectorLanes), i32);
    Value last = arith::ConstantOp::create(
        b, location, DenseElementsAttr::get(type, b.getI32IntegerAttr(vectorLanes - 1)));
    Value numbers = arith::SelectOp::create(b, location, bad, laneConstants(i32, 1), last);
    Value smallest =
        vector::ReductionOp::create(b, location, vector::CombiningKind::MINUI, numbers);
    lane = arith::IndexCastOp::create(b, location, b.getIndexType(), smallest);
    value = vector::ExtractOp::create(b, location, data, lane);
  }
  if (value.getType() != i64)
    value = arith::ExtSIOp::create(b, location, i64, value);
  // Where the index came from memory, its position in the tensor says which input element it is.
  Value place = arith::ConstantIntOp::create(b, location, -1, 64);
  // A gathered index has no single position.
  if (loaded != loadedFrom.end() && !loaded->second.vector) {
    Value stride = arith::ConstantIndexOp::create(b, location, loaded->second.stride);
    Value offset = arith::MulIOp::create(b, location, lane, stride);
    offset = arith::AddIOp::create(b, location, loaded->second.base, offset);
    place = arith::IndexCastOp::create(b, location, i64, offset);
  }
  auto slot = [&](int32_t number) {
    return LLVM::GEPOp::create(b, location, pointerType(b), i64, error,
                               ArrayRef<LLVM::GEPArg>{number})
        .getResult();
  };
  LLVM::StoreOp::create(b, location, value, slot(2), 8);
  LLVM::StoreOp::create(b, location, place, slot(1), 8);
  // The runtime knows which command runs; anything but 0 says that it failed.
  LLVM::StoreOp::create(b, location, arith::ConstantIntOp::create(b, location, 1, 64), error, 8);
}

} // namespace trainc::codegen
