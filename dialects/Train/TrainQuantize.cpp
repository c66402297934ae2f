// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Numbers of codes: the verifier, the evaluator, and how an element is made of its code.

#include "dialects/Train/Diagnostics/Notes.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

/// Codes in a byte; 0 where the table has no such size.
static int64_t codesPerByte(DequantizeOp op) {
  const SmallVector<DimAttr> dims = getDims(op.getTable());
  if (dims.size() != 1)
    return 0;
  return dims[0].isConstant(16) ? 2 : dims[0].isConstant(256) ? 1 : 0;
}

static DimAttr roundedUp(DimAttr count, int64_t divisor) {
  auto constant = [&](int64_t value) { return DimAttr::constant(count.getContext(), value); };
  return floorDiv(count + constant(divisor - 1), constant(divisor));
}

LogicalResult DequantizeOp::verify() {
  if (getBlock() < 1)
    return emitOpError("expected a block of at least one element, got ") << getBlock();
  if (!getElementTypeOrSelf(getCodes().getType()).isInteger(8))
    return attachNotes(emitOpError("expected codes of type i8, got ") << getCodes().getType(),
                       {{"codes", getCodes()}});
  Type element = getElementTypeOrSelf(getResult().getType());
  if (element.getIntOrFloatBitWidth() < 32)
    return emitOpError("expected a result of f32 or f64, got ") << element;
  for (Value value : {getTable(), getScales()})
    if (getElementTypeOrSelf(value.getType()) != element)
      return attachNotes(emitOpError("expected a table and scales of ")
                             << element << ", got " << value.getType(),
                         {{value == getTable() ? "table" : "scales", value}});
  auto sized = [&](Value value, DimAttr size) { return getDims(value) == ArrayRef<DimAttr>(size); };
  DimAttr count = getNumElements(getResult().getType());
  const int64_t perByte = codesPerByte(*this);
  if (perByte == 0)
    return attachNotes(emitOpError("expected a table of 16 or 256 numbers, got ")
                           << getTable().getType(),
                       {{"table", getTable()}});
  if (!sized(getCodes(), roundedUp(count, perByte)))
    return attachNotes(emitOpError("expected ") << roundedUp(count, perByte).str()
                                                << " bytes of codes, got " << getCodes().getType(),
                       {{"codes", getCodes()}});
  if (!sized(getScales(), roundedUp(count, getBlock())))
    return attachNotes(emitOpError("expected ") << roundedUp(count, getBlock()).str()
                                                << " scales, got " << getScales().getType(),
                       {{"scales", getScales()}});
  return success();
}

AxisMap DequantizeOp::getAxisMap() {
  AxisMap map;
  SmallVector<int> axes;
  for (int64_t axis = 0; axis < getRank(getResult()); ++axis) {
    axes.push_back(axis);
    map.loops.push_back(LoopKind::Opaque);
  }
  map.operands.assign(3, SmallVector<int>{-1});
  map.results = {axes};
  return map;
}

LogicalResult DequantizeOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                     MutableArrayRef<HostTensor> results) {
  const int64_t perByte = codesPerByte(*this);
  for (auto [i, value] : llvm::enumerate(results[0].data)) {
    auto byte = uint8_t(int64_t(operands[0].data[i / perByte]));
    int code = perByte == 1 ? byte : i % 2 ? byte & 15 : byte >> 4;
    value = operands[1].data[code] * operands[2].data[i / getBlock()];
  }
  return success();
}

void DequantizeOp::buildVJP(TrainBuilder &, ArrayRef<Value>, ArrayRef<bool>,
                            MutableArrayRef<Value>) {}

/// The codes of lanes from `first` on, a multiple of their number: whole bytes, each read once.
static Value wholeCodes(ElementBuilder &eb, OpOperand &codes, const ElementIndex &first) {
  OpBuilder &b = eb.builder();
  Location loc = eb.loc();
  assert(eb.lanes() % 2 == 0 && eb.hasFactor(first, eb.lanes()) && "lanes are whole bytes");
  auto lanes = VectorType::get(int64_t(eb.lanes()), b.getI32Type());
  Value bytes = arith::ConstantOp::create(b, loc, b.getZeroAttr(lanes));
  SmallVector<int32_t> shifts;
  ElementIndex byte = eb.div({first.base, 0, {}}, 2);
  for (unsigned lane = 0; lane < eb.lanes(); lane += 2) {
    Value both = eb.element(codes, {eb.add(byte, eb.constant(lane / 2))});
    Value wide = arith::ExtUIOp::create(b, loc, lanes, both);
    wide = vector::ExtractOp::create(b, loc, wide, ArrayRef<int64_t>{0});
    for (unsigned half : {0, 1})
      bytes = vector::InsertOp::create(b, loc, wide, bytes, ArrayRef<int64_t>{lane + half});
    shifts.append({4, 0});
  }
  Value shift = arith::ConstantOp::create(b, loc, DenseElementsAttr::get(lanes, ArrayRef(shifts)));
  Value mask = eb.splat(b.getI32IntegerAttr(15));
  return arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, bytes, shift), mask);
}

/// The code of an element, wherever it is.
static Value codeAt(ElementBuilder &eb, OpOperand &codes, const ElementIndex &position,
                    int64_t perByte) {
  OpBuilder &b = eb.builder();
  Location loc = eb.loc();
  Type type = b.getI32Type();
  if (eb.lanes() > 1)
    type = VectorType::get(int64_t(eb.lanes()), type);
  Value byte = arith::ExtUIOp::create(b, loc, type, eb.element(codes, {eb.div(position, perByte)}));
  if (perByte == 1)
    return byte;
  Value place = arith::TruncIOp::create(b, loc, type, eb.asInteger(position));
  // The even one is in the high half.
  Value one = eb.splat(b.getI32IntegerAttr(1)), two = eb.splat(b.getI32IntegerAttr(2));
  Value odd = arith::AndIOp::create(b, loc, place, one);
  Value shift = arith::ShLIOp::create(b, loc, arith::XOrIOp::create(b, loc, odd, one), two);
  Value mask = eb.splat(b.getI32IntegerAttr(15));
  return arith::AndIOp::create(b, loc, arith::ShRUIOp::create(b, loc, byte, shift), mask);
}

Value DequantizeOp::buildElement(ElementBuilder &eb, unsigned, ArrayRef<ElementIndex> index) {
  OpBuilder &b = eb.builder();
  Location loc = eb.loc();
  const int64_t lanes = eb.lanes(), block = getBlock(), perByte = codesPerByte(*this);
  ElementIndex position = eb.linearize(index, getDims(getResult()));
  const bool whole = perByte == 2 && lanes > 1 && lanes % 2 == 0 && block % lanes == 0 &&
                     !position.vector && position.stride == 1 && eb.hasFactor(position, lanes);
  Value code = whole ? wholeCodes(eb, getCodesMutable(), position)
                     : codeAt(eb, getCodesMutable(), position, perByte);
  Type indexType = b.getIndexType();
  if (lanes > 1)
    indexType = VectorType::get(lanes, indexType);
  Value place = arith::IndexCastUIOp::create(b, loc, indexType, code);
  ElementIndex entry = lanes > 1 ? ElementIndex{{}, 0, place} : ElementIndex{place, 0, {}};
  Value number = eb.element(getTableMutable(), {entry});
  ElementIndex scaleIndex = eb.div(whole ? ElementIndex{position.base, 0, {}} : position, block);
  return arith::MulFOp::create(b, loc, number, eb.element(getScalesMutable(), {scaleIndex}));
}
