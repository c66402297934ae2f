// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of a kernel: buffers, loads that a mask may turn off, stores, indices that data holds.
//
// A load becomes a scalar load, a vector load or a gather by the stride of its lanes. Where a
// scalar condition turns a load off, it reads a block of zeros instead: no branch.

#include "KernelEmitter.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

Type memoryType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}
int64_t memoryBytes(Type element) {
  return element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
}

static LLVM::LLVMPointerType pointerType(OpBuilder &b) {
  return LLVM::LLVMPointerType::get(b.getContext());
}

//===----------------------------------------------------------------------===//
// Arguments of the function
//===----------------------------------------------------------------------===//

Value KernelEmitter::buffer(unsigned number) {
  if (!buffers[number])
    buffers[number] = atEntry([&]() -> Value {
      auto type = pointerType(b);
      Value slot = LLVM::GEPOp::create(b, location, type, type, entry->getArgument(0),
                                       ArrayRef<LLVM::GEPArg>{int32_t(number)});
      return LLVM::LoadOp::create(b, location, type, slot, 8);
    });
  return buffers[number];
}

Value KernelEmitter::dim(DimAttr size) {
  if (auto value = size.getConstant())
    return constantIndex(*value);
  Value &value = dimValues[size];
  if (value)
    return value;
  auto it = llvm::find(dims, size);
  unsigned number = it - dims.begin();
  if (it == dims.end())
    dims.push_back(size);
  value = atEntry([&]() -> Value {
    Value slot =
        LLVM::GEPOp::create(b, location, pointerType(b), b.getI64Type(), entry->getArgument(1),
                            ArrayRef<LLVM::GEPArg>{int32_t(number)});
    Value loaded = LLVM::LoadOp::create(b, location, b.getI64Type(), slot, 8);
    return arith::IndexCastOp::create(b, location, b.getIndexType(), loaded);
  });
  return value;
}

static Value contextField(OpBuilder &b, Location location, Value context, int32_t field) {
  auto type = LLVM::LLVMPointerType::get(b.getContext());
  Value slot = LLVM::GEPOp::create(b, location, type, type, context, ArrayRef<LLVM::GEPArg>{field});
  return LLVM::LoadOp::create(b, location, type, slot, 8);
}

Value KernelEmitter::scratch(Value byteOffset) {
  if (!scratchBase)
    scratchBase = atEntry([&] { return contextField(b, location, entry->getArgument(4), 0); });
  return elementPointer(scratchBase, b.getI8Type(), byteOffset);
}

Value KernelEmitter::elementPointer(Value pointer, Type memory, Value offset) {
  Type integer = b.getI64Type();
  Type result = pointerType(b);
  if (auto vector = dyn_cast<VectorType>(offset.getType())) {
    integer = VectorType::get(vector.getShape(), integer);
    result = VectorType::get(vector.getShape(), result);
  }
  Value cast = arith::IndexCastOp::create(b, location, integer, offset);
  return LLVM::GEPOp::create(b, location, result, memory, pointer, ValueRange{cast});
}

//===----------------------------------------------------------------------===//
// Offsets
//===----------------------------------------------------------------------===//

ElementIndex KernelEmitter::linearize(ArrayRef<ElementIndex> index, ArrayRef<DimAttr> sizes) {
  if (structure.flat && index.size() == 1)
    return index[0];
  std::optional<ElementIndex> offset;
  for (auto [coordinate, size] : llvm::zip_equal(index, sizes)) {
    if (size.isConstant(1))
      continue; // The only coordinate is 0.
    if (!offset) {
      offset = coordinate;
      continue;
    }
    if (offset->isUniform() && coordinate.isUniform()) {
      auto division = divisions.find(offset->base);
      if (division != divisions.end() && division->second.remainder == coordinate.base &&
          division->second.divisor == size) {
        offset = ElementIndex{division->second.dividend, 0, {}};
        continue;
      }
    }
    if (auto constant = size.getConstant())
      offset = mul(*offset, *constant);
    else if (offset->isUniform())
      offset = ElementIndex{mulIndex(offset->base, dim(size)), 0, {}};
    else
      offset = ElementIndex{{}, 0, mulIndex(asVector(*offset), toLanes(dim(size)))};
    offset = add(*offset, coordinate);
  }
  return offset ? *offset : constant(0);
}

void KernelEmitter::noteRead(unsigned argument, ArrayRef<ElementIndex> index) {
  BufferUse &use = uses[argument];
  SmallVector<DimAttr> sizes = getDims(fusion.getBody().getArgument(argument));
  use.onlySpace &= sizes == structure.space && same(index, spaceIndex);
  SmallVector<DimAttr> keptSizes;
  for (int64_t axis : structure.kept)
    keptSizes.push_back(structure.space[axis]);
  use.onlyKept &= sizes == keptSizes && same(index, keptIndex);
  use.used = true;
  use.pass = std::max(use.pass, pass);
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

Value KernelEmitter::guardedPointer(Value pointer, Value condition) {
  if (!condition)
    return pointer;
  if (!zerosBase)
    zerosBase = atEntry([&]() -> Value {
      return LLVM::AddressOfOp::create(b, location, pointerType(b), kZerosName);
    });
  return LLVM::SelectOp::create(b, location, condition, pointer, zerosBase);
}

Value KernelEmitter::loadFrom(Value pointer, Type element, const ElementIndex &offset) {
  Type memory = memoryType(element);
  unsigned alignment = memoryBytes(element);
  Value loaded;
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
    if (!offset.vector && offset.stride == 1) {
      Value address = guardedPointer(elementPointer(pointer, memory, offset.base), guard.scalar);
      if (mask)
        loaded = LLVM::MaskedLoadOp::create(b, location, type, address, mask, zeros(),
                                            b.getI32IntegerAttr(alignment), UnitAttr());
      else
        loaded = LLVM::LoadOp::create(b, location, type, address, alignment);
    } else {
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
  if (element.isInteger(1)) {
    Value none =
        arith::ConstantOp::create(b, location, cast<TypedAttr>(b.getZeroAttr(loaded.getType())));
    loaded = arith::CmpIOp::create(b, location, arith::CmpIPredicate::ne, loaded, none);
  }
  return loaded;
}

void KernelEmitter::storeTo(Value pointer, Type element, const ElementIndex &offset, Value value) {
  Type memory = memoryType(element);
  unsigned alignment = memoryBytes(element);
  if (vectorLanes > 1 && !offset.isUniform())
    value = toLanes(value);
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

Value KernelEmitter::load(unsigned number, Type tensor, ArrayRef<ElementIndex> index) {
  ElementIndex offset = linearize(index, getDims(tensor));
  Value value = loadFrom(buffer(number), getElementTypeOrSelf(tensor), offset);
  loadedFrom[value] = offset;
  return value;
}

void KernelEmitter::store(unsigned result, ArrayRef<ElementIndex> index, Value value) {
  Type tensor = fusion.getResult(result).getType();
  unsigned number = fusion.getInputs().size() + result;
  uses[number].used = true;
  uses[number].pass = pass;
  storeTo(buffer(number), getElementTypeOrSelf(tensor), linearize(index, getDims(tensor)), value);
}

//===----------------------------------------------------------------------===//
// Indices that data holds
//===----------------------------------------------------------------------===//

void KernelEmitter::reportIndex(Value bad, Value data) {
  OpBuilder::InsertionGuard restore(b);
  auto loaded = loadedFrom.find(data);
  Value any = anyLane(bad);
  if (!errorBase)
    errorBase = atEntry([&] { return contextField(b, location, entry->getArgument(4), 1); });
  auto outer = scf::IfOp::create(b, location, any, /*withElseRegion=*/false);
  b.setInsertionPointToStart(outer.thenBlock());
  Type i64 = b.getI64Type();
  Value code = LLVM::LoadOp::create(b, location, i64, errorBase, 8);
  Value none = arith::ConstantIntOp::create(b, location, 0, 64);
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
  if (loaded != loadedFrom.end() && !loaded->second.vector) {
    Value stride = arith::ConstantIndexOp::create(b, location, loaded->second.stride);
    Value offset = arith::MulIOp::create(b, location, lane, stride);
    offset = arith::AddIOp::create(b, location, loaded->second.base, offset);
    place = arith::IndexCastOp::create(b, location, i64, offset);
  }
  auto slot = [&](int32_t number) {
    return LLVM::GEPOp::create(b, location, pointerType(b), i64, errorBase,
                               ArrayRef<LLVM::GEPArg>{number})
        .getResult();
  };
  LLVM::StoreOp::create(b, location, value, slot(2), 8);
  LLVM::StoreOp::create(b, location, place, slot(1), 8);
  // The runtime knows which command runs; anything but 0 says that it failed.
  LLVM::StoreOp::create(b, location, arith::ConstantIntOp::create(b, location, 1, 64), errorBase,
                        8);
}

ElementIndex KernelEmitter::checkedIndex(Operation *op, Value data, DimAttr extent) {
  if (auto source = splatSource.find(data); source != splatSource.end())
    data = source->second;
  bool isVector = isa<VectorType>(data.getType());
  Type index = b.getIndexType();
  if (isVector)
    index = VectorType::get(int64_t(vectorLanes), index);
  Value limit = dim(extent), nothing = constantIndex(0);
  if (isVector) {
    limit = toLanes(limit);
    nothing = toLanes(nothing);
  }
  using Predicate = arith::CmpIPredicate;
  Value raw = arith::IndexCastOp::create(b, location, index, data);
  Value negative = arith::CmpIOp::create(b, location, Predicate::slt, raw, nothing);
  Value fromEnd = arith::AddIOp::create(b, location, raw, limit);
  Value wrapped = arith::SelectOp::create(b, location, negative, fromEnd, raw);
  Value outside = arith::CmpIOp::create(b, location, Predicate::uge, wrapped, limit);
  Value safe = arith::SelectOp::create(b, location, outside, nothing, wrapped);
  // Lanes that the code around does not want may hold anything.
  Value bad = outside;
  if (isVector) {
    bad = conjunction(bad, conjunction(guard.tail, guard.lanes));
    bad = conjunction(bad, guard.scalar);
  } else {
    bad = conjunction(bad, guard.scalar);
    if (guard.lanes)
      bad = conjunction(bad, anyLane(guard.lanes));
  }
  reportIndex(bad, data);
  if (isVector)
    return {{}, 0, safe};
  return {safe, 0, {}};
}

} // namespace trainc::codegen
