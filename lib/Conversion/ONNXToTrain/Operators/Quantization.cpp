// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Quantization: simulated, where values are rounded to those that the quantized model will have and
// the gradient passes where they are within its range; and weights of few bits, which are not
// trained.

#include "format/quant_format.h"
#include "lib/Conversion/ONNXToTrain/Compose.h"
#include "mlir/IR/BuiltinOps.h"
#include "trainc/Conversion/QuantizedWeights.h"
#include "llvm/Support/MathExtras.h"
#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// FakeQuant: x in steps of a scale from a zero point, and whether it is within the range.
static LogicalResult fakeQuant(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  // One scale, one zero point.
  for (int64_t i : {1, 2})
    if (c.element(i) != c.element(0) || !train::product(c.context(), c.dims(i)).isConstant(1))
      return c.fail(
          "its scale and zero point are not scalars of its input's type; only one of each "
          "for all channels is supported, as in ONNX Runtime");
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  auto scalar = [&](int64_t input) { return tb.splat(tb.reshape(c.tensor(input), {}), x); };
  Value scale = scalar(1), zero = scalar(2);
  Value low = tb.scalarLike(x, double(c.attr("quant_min", int64_t(0))));
  Value high = tb.scalarLike(x, double(c.attr("quant_max", int64_t(255))));
  Value steps = tb.div(x, scale);
  // Rounded to even, before the zero point, which is an integer.
  steps = tb.add(train::RoundOp::create(tb.b(), tb.loc(), x.getType(), steps), zero);
  Value inside = tb.logicalAnd(tb.compare("ge", steps, low), tb.compare("le", steps, high));
  // Steps beyond the range are cut off.
  Value y = tb.mul(tb.sub(tb.min(tb.max(steps, low), high), zero), scale);
  (void)c.set(inside, 1);
  // Where the mask is read, the graph has the gradient itself.
  if (!c.used(1)) {
    // x - x has the value 0, and the gradient of x.
    auto detached = [&](Value v) {
      return train::DetachOp::create(tb.b(), tb.loc(), v.getType(), v).getResult();
    };
    Value through = tb.select(inside, tb.sub(x, detached(x)), tb.scalarLike(x, 0));
    y = tb.add(detached(y), through);
  }
  return c.set(y);
}

/// dY where the mask (input 1) has what was within the range.
static LogicalResult fakeQuantGrad(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  if (!c.element(1).isInteger(1) || c.dims(1) != c.dims(0))
    return c.fail("its mask is not one boolean for each element");
  Value dy = c.tensor(0);
  // A straight-through estimate.
  return c.set(c.tb.select(c.tensor(1), dy, c.tb.scalarLike(dy, 0)));
}

//===- QuantizeLinear and DequantizeLinear --------------------------------===//

/// What numbers are made of codes in, before they are rounded.
/// Scales may be f16; their products are not.
static FloatType tableType(NodeContext &c, Type element) {
  return element.isF64() ? c.tb.b().getF64Type() : c.tb.b().getF32Type();
}

/// Says that weights are made of codes, which passes make anew for each use.
static void markQuantized(NodeContext &c) {
  assert(c.tb.b().getBlock() && "nodes are legalized in a function");
  Operation *module = c.tb.b().getBlock()->getParentOp()->getParentOfType<ModuleOp>();
  module->setAttr(kQuantizedWeightsAttr, c.tb.b().getUnitAttr());
}

/// Scales and zero points of one of these nodes for every element of its input 0.
struct Scaling {
  FloatType real;
  Value scale, zero; // of type `real`; zero is null where all are 0
};

/// One for all elements, for each index of an axis, or for each block along it; nullopt with a
/// reason.
static std::optional<Scaling> scalingOf(NodeContext &c) {
  TrainBuilder &tb = c.tb;
  // Input 0 is what is (de)quantized, input 1 the scale.
  const Dims &dims = c.dims(0), &given = c.dims(1);
  int64_t block = c.attr("block_size", int64_t(0));
  std::optional<int64_t> axis;
  if (!c.needFloat(1))
    return std::nullopt;
  // One number needs no axis, whatever the attribute says.
  bool one = train::product(c.context(), given).isConstant(1);
  if (!one || block != 0) {
    axis = c.axis(c.attr("axis", int64_t(1)), dims.size());
    if (!axis)
      return std::nullopt;
  }
  // The last block may be shorter.
  Dims blocks = dims;
  if (block > 0 && axis)
    blocks[*axis] = train::floorDiv(dims[*axis] + c.dim(block - 1), c.dim(block));
  if (block < 0 || (block > 0 ? given != blocks : !one && given != Dims{dims[*axis]})) {
    (void)c.fail("its scale is neither one number, nor one for each index of its axis, nor one for "
                 "each of its blocks");
    return std::nullopt;
  }
  // Both or neither have an axis.
  if (c.has(2) && (one && block == 0 ? !train::product(c.context(), c.dims(2)).isConstant(1)
                                     : c.dims(2) != given)) {
    (void)c.fail("its zero point has another shape than its scale");
    return std::nullopt;
  }
  Scaling result{tableType(c, c.element(1)), {}, {}};
  auto spread = [&](int64_t input) -> Value {
    Value x = tb.cast(c.tensor(input), result.real);
    // Scales are no parameters of the training.
    x = train::DetachOp::create(tb.b(), tb.loc(), x.getType(), x);
    if (block > 0) {
      // The block that each index of the axis is in.
      Value number = tb.iota({dims[*axis]}, tb.b().getI64Type(), 0);
      return tb.gather(x, tb.div(number, tb.scalarLike(number, double(block))), *axis);
    }
    return one ? tb.broadcast(tb.reshape(x, {}), dims, {}) : tb.broadcast(x, dims, {*axis});
  };
  result.scale = spread(1);
  // Absent is 0.
  if (c.has(2))
    result.zero = spread(2);
  return result;
}

/// x in steps of the scale, from the zero point; not yet cut off at the type's bounds.
static Value stepsOf(TrainBuilder &tb, Value x, const Scaling &scaling) {
  // In f32 or f64, whatever the type of x is.
  x = tb.div(tb.cast(x, scaling.real), scaling.scale);
  x = train::RoundOp::create(tb.b(), tb.loc(), x.getType(), x);
  return scaling.zero ? tb.add(x, scaling.zero) : x;
}

/// The smallest and the largest code of a type of 8 or 16 bits.
static std::pair<double, double> codeBounds(Type carrier, unsigned unsignedBits) {
  if (unsignedBits)
    return {0, std::ldexp(1.0, int(unsignedBits)) - 1};
  // Carriers of signed codes have their width.
  double half = std::ldexp(1.0, int(carrier.getIntOrFloatBitWidth()) - 1);
  return {-half, half - 1};
}

static LogicalResult quantizeLinear(NodeContext &c) {
  if (!c.needFloat(0))
    return failure();
  int64_t dtype = c.attr("output_dtype", int64_t(0));
  // The zero point's type is the codes'; without one the attribute's, else uint8.
  Type element = c.has(2) ? c.element(2) : c.elementType(dtype ? dtype : 2);
  unsigned bits = c.has(2) ? c.in(2).unsignedBits : NodeContext::unsignedBits(dtype ? dtype : 2);
  if (!element || !element.isInteger() || (bits ? bits : element.getIntOrFloatBitWidth()) > 16 ||
      element.isInteger(1))
    return c.fail("its codes are not integers of 8 or 16 bits");
  std::optional<Scaling> scaling = scalingOf(c);
  if (!scaling)
    return failure();
  TrainBuilder &tb = c.tb;
  Value steps = stepsOf(tb, c.tensor(0), *scaling);
  auto [low, high] = codeBounds(element, bits);
  // Saturated, not wrapped.
  steps = tb.min(tb.max(steps, tb.scalarLike(steps, low)), tb.scalarLike(steps, high));
  (void)c.set(tb.cast(steps, element));
  // Within the bounds already: nothing to wrap.
  c.state.valueOf(c.op.getOutputs()[0]).unsignedBits = bits;
  return success();
}

/// (x - zero point) * scale. Behind a QuantizeLinear the gradient passes where that did not cut
/// off, as that of PyTorch's fake quantization does.
static LogicalResult dequantizeLinear(NodeContext &c) {
  if (!c.needInteger(0))
    return failure();
  std::optional<Scaling> scaling = scalingOf(c);
  if (!scaling)
    return failure();
  TrainBuilder &tb = c.tb;
  // Codes are exact in f32: they have 16 bits at most.
  Value y = tb.cast(c.tensor(0), scaling->real);
  if (scaling->zero)
    y = tb.sub(y, scaling->zero);
  y = tb.mul(y, scaling->scale);
  // The pair is a fake quantization.
  auto source = c.op.getInputs()[0].getDefiningOp<onnx::NodeOp>();
  if (source && source.getOpType() == "QuantizeLinear" && source.getDomain().empty()) {
    Value x = tb.cast(c.state.tensorOf(c.state.valueOf(source.getInputs()[0])), scaling->real);
    // Once more from x: codes no longer tell what was cut off.
    Value steps = stepsOf(tb, x, *scaling);
    auto [low, high] = codeBounds(c.element(0), c.in(0).unsignedBits);
    Value inside = tb.logicalAnd(tb.compare("ge", steps, tb.scalarLike(steps, low)),
                                 tb.compare("le", steps, tb.scalarLike(steps, high)));
    // Value of y, gradient of x.
    Value fixed = train::DetachOp::create(tb.b(), tb.loc(), x.getType(), x);
    y = tb.add(y, tb.select(inside, tb.sub(x, fixed), tb.scalarLike(x, 0)));
  } else {
    // Codes that come from elsewhere are weights.
    markQuantized(c);
  }
  int64_t dtype = c.attr("output_dtype", int64_t(0));
  Type element = dtype ? c.elementType(dtype) : c.element(1);
  if (!isa_and_nonnull<FloatType>(element))
    return c.fail("its output_dtype is no float");
  return c.set(tb.cast(y, element));
}

//===- Weights of few bits ------------------------------------------------===//

/// MatMulBnb4: A times the transpose of a weight [N, K], or with transB = 0 times the weight
/// itself, whose codes lie two a byte, the first in the high half, with one factor for each block
/// of them.
static LogicalResult matmulBnb4(NodeContext &c) {
  int64_t rows = c.attr("N", int64_t(0)), columns = c.attr("K", int64_t(0));
  int64_t block = c.attr("block_size", int64_t(0)), kind = c.attr("quant_type", int64_t(-1));
  // Products of both axes stay far from overflow.
  constexpr int64_t most = 1 << 24; // of either axis
  if (rows < 1 || columns < 1 || rows > most || columns > most || block < 1 || block > most)
    return c.fail("its N, K or block_size is missing or out of range");
  if (kind != 0 && kind != 1)
    return c.fail("its quant_type is neither 0 (FP4) nor 1 (NF4)");
  // The last byte and the last block may be partly used.
  int64_t count = rows * columns, bytes = (count + 1) / 2, blocks = (count + block - 1) / block;
  if (!c.needFloat(0) || !c.needInteger(1))
    return failure();
  // Absent means 1.
  bool transposed = c.attr("transB", int64_t(1));
  if (c.rank(0) < 1 || c.dims(0).back() != c.dim(transposed ? columns : rows) ||
      c.dims(1) != Dims{c.dim(bytes)} || c.in(1).unsignedBits != 8 ||
      c.dims(2) != Dims{c.dim(blocks)} || c.element(2) != c.element(0))
    return c.fail("its N, K and block_size say that it has rows of " +
                  Twine(transposed ? columns : rows) + ", " + Twine(bytes) +
                  " bytes of codes (uint8) and " + Twine(blocks) +
                  " factors of the rows' type: its inputs are others");
  TrainBuilder &tb = c.tb;
  Type real = tableType(c, c.element(0));
  SmallVector<Attribute> numbers;
  for (float number :
       // The values are the runtime's: trainc's own quantization has the same.
       trainrt::codeValues(kind == 0 ? trainrt::QuantFormat::FP4 : trainrt::QuantFormat::NF4))
    numbers.push_back(tb.b().getFloatAttr(real, number));
  Value table = tb.constant(DenseElementsAttr::get(RankedTensorType::get({16}, real), numbers));
  // Bytes keep their bits as i8, two codes each.
  Value weight =
      tb.dequantize(tb.cast(c.tensor(1), tb.b().getI8Type()), table, tb.cast(c.tensor(2), real),
                    block, train::getTensorType({c.dim(rows), c.dim(columns)}, real));
  weight = tb.cast(weight, c.element(0));
  markQuantized(c);
  if (transposed)
    weight = tb.transpose(weight, {1, 0});
  // The matmul is MatMul's, with all that passes know of it.
  FailureOr<LegalValue *> y = applyOperator(c, "MatMul", {&c.in(0), &asInput(c, weight)});
  return failed(y) ? failure() : c.alias(**y);
}

/// The first `count` codes of each row of bytes, the first of a byte in its lowest bits. Every code
/// is read where it is: a kernel that needs some of them has no other tensor to make.
static Value unpackCodes(NodeContext &c, Value bytes, int64_t bits, int64_t count, Type real) {
  TrainBuilder &tb = c.tb;
  const int64_t perByte = 8 / bits;
  assert(8 % bits == 0 && "codes do not cross bytes");
  Value place = tb.iota({c.dim(count)}, tb.b().getI64Type(), 0);
  // Which byte, and below which code of it.
  Value byte = tb.div(place, tb.scalarLike(place, double(perByte)));
  Value codes = tb.cast(tb.gather(bytes, byte, 1), real);
  if (perByte == 1)
    return codes;
  // Shifts to the right as products with powers of two: exact in f32.
  SmallVector<Attribute> factors;
  for (int64_t i = 0; i < perByte; ++i)
    factors.push_back(tb.b().getFloatAttr(real, std::ldexp(1.0, int(-bits * i))));
  Value shift =
      tb.constant(DenseElementsAttr::get(RankedTensorType::get({perByte}, real), factors));
  shift = tb.gather(shift, tb.sub(place, tb.mul(byte, tb.scalarLike(byte, double(perByte)))), 0);
  codes = tb.floor(tb.mul(codes, tb.broadcast(shift, train::getDims(codes), {1})));
  auto scaled = [&](Value x, int64_t power) {
    return tb.mul(x, tb.scalarLike(x, std::ldexp(1.0, int(power))));
  };
  // Without the codes above it.
  return tb.sub(codes, scaled(tb.floor(scaled(codes, -bits)), bits));
}

/// MatMulNBits: A times the transpose of a weight [N, K] of codes, in blocks along K with a factor
/// and a zero point each; every row begins a block.
static LogicalResult matmulNBits(NodeContext &c) {
  int64_t rows = c.attr("N", int64_t(0)), columns = c.attr("K", int64_t(0));
  int64_t block = c.attr("block_size", int64_t(0)), bits = c.attr("bits", int64_t(4));
  constexpr int64_t most = 1 << 24; // of either axis
  if (rows < 1 || columns < 1 || rows > most || columns > most)
    return c.fail("its N or K is missing or out of range");
  if (bits != 2 && bits != 4 && bits != 8)
    return c.fail("its bits are " + Twine(bits) +
                  "; 2, 4 and 8 are supported: quantize the model with one of these");
  // Rows of blocks are whole bytes then.
  if (block < 16 || block > most || !llvm::isPowerOf2_64(block))
    return c.fail("its block_size is " + Twine(block) + ", not a power of two from 16 on");
  // How coarsely A may be rounded: it is not rounded at all.
  // Accuracy levels allow a kernel to be coarser.
  if (!c.needFloat(0) || !c.needInteger(1))
    return failure();
  int64_t blocks = llvm::divideCeil(columns, block), bytes = block * bits / 8;
  // Zero points of a row are padded to whole bytes.
  int64_t packed = llvm::divideCeil(blocks * bits, 8);
  // Exporters write both shapes.
  auto isTable = [&](int64_t input, int64_t width) {
    return c.dims(input) == Dims{c.dim(rows), c.dim(width)} ||
           c.dims(input) == Dims{c.dim(rows * width)};
  };
  if (c.rank(0) < 1 || c.dims(0).back() != c.dim(columns) ||
      c.dims(1) != Dims{c.dim(rows), c.dim(blocks), c.dim(bytes)} || c.in(1).unsignedBits != 8 ||
      !isTable(2, blocks) || c.element(2) != c.element(0))
    return c.fail("its N, K, bits and block_size say that it has rows of " + Twine(columns) +
                  ", codes [" + Twine(rows) + ", " + Twine(blocks) + ", " + Twine(bytes) +
                  "] (uint8) and " + Twine(rows * blocks) +
                  " factors of the rows' type: its inputs are others");
  // Codes like the weights, or reals.
  bool packedZeros = c.has(3) && c.in(3).unsignedBits == 8;
  if (c.has(3) &&
      !(packedZeros ? isTable(3, packed) : c.element(3) == c.element(0) && isTable(3, blocks)))
    return c.fail("its zero points are neither [" + Twine(rows) + ", " + Twine(packed) +
                  "] (uint8) nor [" + Twine(rows) + ", " + Twine(blocks) + "] of the rows' type");
  if (c.has(4) && (c.dims(4) != Dims{c.dim(columns)} || !c.needInteger(4)))
    return c.fail("its g_idx is not one integer for each of " + Twine(columns) + " columns");
  if (c.has(5) && (c.dims(5) != Dims{c.dim(rows)} || c.element(5) != c.element(0)))
    return c.fail("its bias is not one number of the rows' type for each of " + Twine(rows) +
                  " results");

  TrainBuilder &tb = c.tb;
  Type real = tableType(c, c.element(0));
  // Of a number for each block, that of each column.
  // Blocks along K, or in any order.
  Value group;
  if (c.has(4)) {
    group = c.tensor(4);
  } else {
    group = tb.iota({c.dim(columns)}, tb.b().getI64Type(), 0);
    group = tb.div(group, tb.scalarLike(group, double(block)));
  }
  auto table = [&](int64_t input, int64_t width) {
    return tb.reshape(c.tensor(input), {c.dim(rows), c.dim(width)});
  };
  // Tables are fixed: weights of codes are not trained.
  auto spread = [&](Value x) {
    x = tb.cast(x, real);
    x = train::DetachOp::create(tb.b(), tb.loc(), x.getType(), x);
    return tb.gather(x, group, 1);
  };
  Value codes = unpackCodes(c, table(1, blocks * bytes), bits, columns, real), zeros;
  if (packedZeros)
    zeros = spread(unpackCodes(c, table(3, packed), bits, blocks, real));
  else if (c.has(3))
    zeros = spread(table(3, blocks));
  else
    // The middle of the codes.
    zeros = tb.scalarLike(codes, std::ldexp(1.0, int(bits - 1)));
  // In f32, then rounded once to the type of the matmul.
  Value weight = tb.cast(tb.mul(tb.sub(codes, zeros), spread(table(2, blocks))), c.element(0));
  markQuantized(c);
  weight = tb.transpose(weight, {1, 0});
  FailureOr<LegalValue *> y = applyOperator(c, "MatMul", {&c.in(0), &asInput(c, weight)});
  if (succeeded(y) && c.has(5))
    y = applyOperator(c, "Add", {*y, &c.in(5)});
  return failed(y) ? failure() : c.alias(**y);
}

void registerQuantization(HandlerTable &table) {
  table.add("com.microsoft::FakeQuant", fakeQuant, 3, 1);
  table.entries["com.microsoft::FakeQuant"].settings = {1, 2};
  table.add("com.microsoft::FakeQuantGrad", fakeQuantGrad, 2, 1);
  table.add("QuantizeLinear", quantizeLinear, 2, 10);
  table.entries["QuantizeLinear"].settings = {1};
  table.entries["QuantizeLinear"].typedAs = -1;
  table.add("DequantizeLinear", dequantizeLinear, 2, 10);
  table.entries["DequantizeLinear"].settings = {1};
  table.entries["DequantizeLinear"].typedAs = -1;
  table.describe({"DequantizeLinear"}, HandlerTable::kIntegers);
  table.describe({"QuantizeLinear"}, HandlerTable::kReals, false);
  table.add("com.microsoft::MatMulBnb4", matmulBnb4, 3, 1);
  table.entries["com.microsoft::MatMulBnb4"].settings = {2};
  table.add("com.microsoft::MatMulNBits", matmulNBits, 3, 1);
  table.entries["com.microsoft::MatMulNBits"].settings = {2, 3};
}

} // namespace trainc::legalize
