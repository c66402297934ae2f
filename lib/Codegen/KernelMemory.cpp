// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory of a kernel, as far as the processor does not matter: sizes, offsets, which accesses allow
// work in place, indices that data holds.

#include "trainc/Codegen/KernelEmitter.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Booleans are bytes in memory.
Type memoryType(Type element) {
  return element.isInteger(1) ? IntegerType::get(element.getContext(), 8) : element;
}

Type computeType(Type element) {
  bool narrow = isa<FloatType>(element) && element.getIntOrFloatBitWidth() < 32;
  return narrow ? Type(Float32Type::get(element.getContext())) : element;
}

/// A size that is no constant is an argument of the kernel; its number is that of its first use.
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
  value = atEntry([&] { return makeDim(number); });
  return value;
}

/// For lanes a vector of pointers.
Value KernelEmitter::elementPointer(Value pointer, Type memory, Value offset) {
  Type integer = b.getI64Type();
  Type result = pointer.getType();
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

/// Row-major, with what is known put to use: a flat space, the space's own offset, and quotients
/// that were made by `delinearize`: axes that came of one number are one axis again.
ElementIndex KernelEmitter::linearize(ArrayRef<ElementIndex> index, ArrayRef<DimAttr> sizes) {
  if (structure.flat && index.size() == 1)
    return index[0];
  if (spaceOffset && sizes == ArrayRef<DimAttr>(structure.space) && same(index, spaceIndex))
    return *spaceOffset;
  assert(index.size() == sizes.size() && "a coordinate for each axis");
  std::optional<ElementIndex> offset;
  for (size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis].isConstant(1))
      continue; // The only coordinate is 0.
    ElementIndex coordinate = index[axis];
    DimAttr size = sizes[axis];
    for (size_t next = axis + 1; next < sizes.size() && coordinate.isUniform(); ++next) {
      if (sizes[next].isConstant(1))
        continue;
      auto division = divisions.find(coordinate.base);
      if (!index[next].isUniform() || division == divisions.end() ||
          division->second.remainder != index[next].base || division->second.divisor != sizes[next])
        break;
      coordinate = ElementIndex{division->second.dividend, 0, {}};
      size = size * sizes[next];
      axis = next;
    }
    if (!offset) {
      offset = coordinate;
      continue;
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

/// Collects, for inPlacePairs, where and in which pass each buffer is read.
void KernelEmitter::noteRead(unsigned argument, ArrayRef<ElementIndex> index) {
  BufferUse &use = uses[argument];
  SmallVector<DimAttr> sizes = getDims(fusion.getBody().getArgument(argument));
  use.onlySpace &= sizes == structure.space && same(index, spaceIndex);
  SmallVector<DimAttr> keptSizes;
  for (int64_t axis : structure.kept)
    keptSizes.push_back(structure.space[axis]);
  use.onlyKept &= sizes == keptSizes && same(index, keptIndex);
  if (!columnIndex.empty())
    use.onlyColumns &= sizes.size() == columnIndex.size() && same(index, columnIndex);
  use.used = true;
  use.pass = std::max(use.pass, pass);
}

//===----------------------------------------------------------------------===//
// Loads and stores
//===----------------------------------------------------------------------===//

/// The offset is remembered with the value, for reports of bad indices.
Value KernelEmitter::load(unsigned number, Type tensor, ArrayRef<ElementIndex> index) {
  ElementIndex offset = linearize(index, getDims(tensor));
  Value value = loadFrom(buffer(number), getElementTypeOrSelf(tensor), offset);
  loadedFrom[value] = offset;
  return value;
}

/// Element for element: partial sums have buffers of their own.
void KernelEmitter::store(unsigned result, ArrayRef<ElementIndex> index, Value value) {
  Type tensor = fusion.getResult(result).getType();
  unsigned number = fusion.getInputs().size() + result;
  uses[number].used = true;
  uses[number].pass = pass;
  storeTo(buffer(number), getElementTypeOrSelf(tensor), linearize(index, getDims(tensor)), value);
}

/// A part of a joined result lies behind those before it.
void KernelEmitter::store(const Store &place, ArrayRef<ElementIndex> index, Value value) {
  assert((place.starts.empty() || place.starts.size() == index.size()) && "a start for each axis");
  Index shifted(index);
  for (auto [coordinate, start] : llvm::zip(shifted, place.starts))
    if (!start.isConstant(0))
      coordinate = add(coordinate, dimIndex(start));
  store(place.result, shifted, value);
}

//===----------------------------------------------------------------------===//
// What the runtime is told of
//===----------------------------------------------------------------------===//

/// Lanes beyond the end, or behind a guard that does not hold, hold anything: what is bad there is
/// not told.
Value KernelEmitter::whereWanted(Value bad) {
  if (isa<VectorType>(bad.getType())) {
    bad = conjunction(bad, conjunction(guard.tail, guard.lanes));
    bad = conjunction(bad, guard.scalar);
  } else {
    bad = conjunction(bad, guard.scalar);
    if (guard.lanes)
      bad = conjunction(bad, anyLane(guard.lanes));
  }
  return conjunction(bad, guard.active);
}

/// Whether an op's negative indices count from the end, as ONNX has it, unless a rule forbids them.
static bool countsFromEnd(Operation *op) {
  auto model = dyn_cast<IndexOperandOpInterface>(op);
  return !model || llvm::none_of(llvm::seq(op->getNumOperands()), [&](unsigned operand) {
    std::optional<IndexRule> rule = model.getIndexRule(operand);
    return rule && rule->min == DimAttr::constant(op->getContext(), 0);
  });
}

/// An index out of range is told, and 0 is used in its place: the kernel goes on without reading
/// elsewhere.
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
  Value wrapped = raw;
  if (countsFromEnd(op)) {
    Value negative = arith::CmpIOp::create(b, location, Predicate::slt, raw, nothing);
    Value fromEnd = arith::AddIOp::create(b, location, raw, limit);
    wrapped = arith::SelectOp::create(b, location, negative, fromEnd, raw);
  }
  // Unsigned: one comparison for both ends.
  Value outside = arith::CmpIOp::create(b, location, Predicate::uge, wrapped, limit);
  Value safe = arith::SelectOp::create(b, location, outside, nothing, wrapped);
  reportIndex(whereWanted(outside), data);
  if (isVector)
    return {{}, 0, safe};
  return {safe, 0, {}};
}

} // namespace trainc::codegen
