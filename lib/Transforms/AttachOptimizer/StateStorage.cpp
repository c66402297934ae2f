// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading and storing optimizer state in narrow types, in ops that fuse with the update.

#include "lib/Transforms/AttachOptimizer/StateStorage.h"

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/Philox.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Parameters with fewer elements keep f32: they take next to nothing, and biases and the scales of
/// norms matter more than others.
static constexpr int64_t kFewElements = 4096;
/// The largest codes.
static constexpr double kSigned = 127, kUnsigned = 255;

std::optional<StateFormat> trainc::parseStateFormat(StringRef name) {
  return llvm::StringSwitch<std::optional<StateFormat>>(name)
      .Case("", StateFormat::Parameter)
      .Case("fp32", StateFormat::F32)
      .Case("bf16", StateFormat::BF16)
      .Case("int8", StateFormat::Int8)
      .Default(std::nullopt);
}

StateStorage::StateStorage(StateFormat format, Type parameter, bool isSharded)
    : format(format), parameterDims(getDims(parameter)), dims(parameterDims),
      argumentType(parameter) {
  MLIRContext *context = parameter.getContext();
  std::optional<int64_t> known = getNumElements(parameter).getConstant();
  // 0 where the size is symbolic, so that 8 bits fall back to f32.
  elements = padded = known.value_or(0);
  if (format == StateFormat::Int8 && elements < kFewElements)
    this->format = StateFormat::F32;
  Type f32 = Float32Type::get(context);
  // An f64 parameter keeps its precision.
  Type wide = getElementTypeOrSelf(parameter).isF64() ? getElementTypeOrSelf(parameter) : f32;
  int64_t block = 0;
  if (this->format == StateFormat::Int8 || isSharded) {
    block = chooseBlock(elements);
    padded = llvm::alignTo(elements, block);
    dims = {DimAttr::constant(context, padded / block), DimAttr::constant(context, block)};
  }
  switch (this->format) {
  case StateFormat::Parameter:
    parts = {{"", parameter}};
    break;
  case StateFormat::F32:
    parts = {{"", withElementType(parameter, wide)}};
    break;
  case StateFormat::BF16:
    parts = {{"", withElementType(parameter, BFloat16Type::get(context))}};
    break;
  case StateFormat::Int8:
    parts = {{"", getTensorType(dims, IntegerType::get(context, 8))},
             {".absmax", getTensorType({dims[0]}, f32)}};
    break;
  }
  if (isSharded)
    cut(block);
}

/// Tensors of an element for each of the parameter's, and those of an element a block.
void StateStorage::cut(int64_t block) {
  shard = chooseShard(cast<RankedTensorType>(argumentType));
  const int64_t rows = shard->unit / block;
  dims.assign(getShardDims(*shard));
  for (Part &part : parts) {
    const bool isOfBlocks = part.suffix == ".absmax";
    part.shard = train::Shard{cast<RankedTensorType>(part.type), isOfBlocks ? rows : shard->unit};
    part.type = getTensorType(isOfBlocks ? ArrayRef<DimAttr>(dims).take_front() : dims,
                              getElementTypeOrSelf(part.type));
  }
  // What arrives is arranged already, and leaves as it is.
  parameterDims = dims;
  argumentType = getTensorType(dims, getElementTypeOrSelf(argumentType));
}

SmallVector<Value>
StateStorage::sumOverRanks(TrainBuilder &tb,
                           ArrayRef<std::pair<const StateStorage *, Value>> tensors) {
  SmallVector<Value> rows;
  SmallVector<Type> all;
  SmallVector<int64_t> units;
  for (const auto &[storage, x] : tensors) {
    assert(storage->shard && "one rank has the sum alone");
    rows.push_back(tb.sum(x, {1}));
    // As many as there are in the tensor, however the ranks share them.
    const int64_t columns = *storage->dims[1].getConstant();
    all.push_back(getTensorType({tb.dimAttr(storage->padded / columns)}, getElementType(x)));
    units.push_back(storage->shard->unit / columns);
  }
  return llvm::map_to_vector(buildAllGather(tb.b(), tb.loc(), rows, all, units),
                             [&](Value sums) { return tb.sumAll(sums); });
}

/// To blocks: zeros behind the last element, which stay zeros (0 updates of 0).
Value StateStorage::arrange(TrainBuilder &tb, Value x) const {
  if (!shard && padded != elements)
    x = tb.pad(tb.reshape(x, {tb.dimAttr(elements)}), 0, {tb.dimAttr(0)}, {tb.dimAttr(padded)});
  return tb.reshape(x, dims);
}

Value StateStorage::restore(TrainBuilder &tb, Value x) const {
  if (!shard && padded != elements)
    x = tb.slice(tb.reshape(x, {tb.dimAttr(padded)}), {tb.dimAttr(0)}, {tb.dimAttr(elements)});
  return tb.reshape(x, parameterDims);
}

/// One word of 32 bits an element, of which each state takes half.
Value StateStorage::drawBits(TrainBuilder &tb, Value seed, Value step, StringRef parameter) const {
  // The same on every rank: they round alike. No node of the graph has this name.
  Value zero = tb.scalarLike(seed, 0);
  uint64_t node = philox::hashName((parameter + "/state").str());
  Value key = tb.rngKey(seed, step, zero, zero, node);
  if (!shard)
    return tb.randomBits(key, dims);
  // Those of the elements' places in the whole tensor.
  DimAttr world = DimAttr::symbol(tb.context(), kWorldSymbol),
          rank = DimAttr::symbol(tb.context(), kRankSymbol);
  return tb.sliceAxis(tb.randomBits(key, {world * dims[0], dims[1]}), 0, rank * dims[0], dims[0]);
}

Value StateStorage::half(TrainBuilder &tb, Value bits, unsigned number) const {
  assert(number < 2 && "a word has two halves");
  // An arithmetic shift; what it leaves above is cut off.
  // Division by a power of two of a multiple of it is exact, and keeps the sign.
  if (number == 1)
    bits = tb.div(tb.logicalAnd(bits, tb.scalarLike(bits, -65536)), tb.scalarLike(bits, 65536));
  return tb.logicalAnd(bits, tb.scalarLike(bits, 65535));
}

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

/// Adds the random bits to those that are cut off.
static Value roundToBF16(TrainBuilder &tb, Value x, Value random) {
  // Carries into the bits that stay with a probability of what is cut off: the mean is x.
  Value bits = tb.add(tb.bitcast(x, tb.b().getI32Type()), random);
  bits = tb.logicalAnd(bits, tb.scalarLike(bits, -65536));
  Value cut = tb.bitcast(bits, tb.b().getF32Type());
  // The sum could make a number of a NaN.
  return tb.cast(tb.select(tb.isNan(x), x, cut), tb.b().getBF16Type());
}

//===----------------------------------------------------------------------===//
// 8 bits
//===----------------------------------------------------------------------===//

/// The largest code whose number is at most `x`, a multiple of the smallest number above zero, and
/// perhaps the next one, so that the mean is x.
/// x is at most the largest code's number; at it fraction is 0, so that no code beyond is taken.
static Value roundToCode(TrainBuilder &tb, Value x, Value random, bool nonNegative) {
  auto number = [&](Value code) {
    Value square = tb.mul(code, code);
    return nonNegative ? tb.mul(square, square) : square;
  };
  Value one = tb.scalarLike(x, 1), zero = tb.scalarLike(x, 0), root = tb.sqrt(x);
  Value code = tb.floor(nonNegative ? tb.sqrt(root) : root);
  Value next = tb.add(code, one), below = number(code);
  Value fraction = tb.div(tb.sub(x, below), tb.sub(number(next), below));
  // 16 random bits.
  Value uniform = tb.mul(tb.cast(random, x.getType()), tb.scalarLike(x, 0x1p-16));
  code = tb.select(tb.compare("lt", uniform, fraction), next, code);
  // A second moment above 0 must not become 0: the update divides by its root.
  if (nonNegative)
    code = tb.select(tb.compare("gt", x, zero), tb.max(code, one), code);
  return code;
}

/// Codes have more resolution near 0: the number is the square (signed) or the fourth power (second
/// moments, whose root is taken again).
Value StateStorage::load(TrainBuilder &tb, ValueRange stored, const OptimizerState &state) const {
  if (format == StateFormat::BF16)
    return tb.cast(stored[0], tb.b().getF32Type());
  if (format != StateFormat::Int8)
    return stored[0];
  Value code = tb.cast(stored[0], tb.b().getF32Type()), scale = stored[1];
  double largest = state.nonNegative ? std::pow(kUnsigned, 4) : std::pow(kSigned, 2);
  scale = tb.broadcast(tb.mul(scale, tb.scalarLike(scale, 1 / largest)), dims, {0});
  if (!state.nonNegative)
    return tb.mul(tb.mul(code, tb.abs(code)), scale);
  // Stored as i8, whose range is shifted by 128.
  code = tb.add(code, tb.scalarLike(code, 128));
  Value square = tb.mul(code, code);
  return tb.mul(tb.mul(square, square), scale);
}

SmallVector<Value> StateStorage::store(TrainBuilder &tb, Value x, ValueRange old,
                                       const OptimizerState &state, Value bits,
                                       unsigned number) const {
  if (!isRounded())
    return {tb.cast(x, parts[0].type)};
  x = tb.cast(x, tb.b().getF32Type());
  Value random = half(tb, bits, number);
  if (format == StateFormat::BF16)
    return {roundToBF16(tb, x, random)};
  // Of each block by itself.
  Value magnitude = tb.abs(x), largest = tb.reduce(ReduceKind::max, magnitude, {1});
  Value zero = tb.scalarLike(largest, 0);
  // A block of zeros; one with a NaN has it as its scale, which is then not taken.
  Value divisor = tb.select(tb.compare("gt", largest, zero), largest, tb.scalarLike(largest, 1));
  double top = state.nonNegative ? std::pow(kUnsigned, 4) : std::pow(kSigned, 2);
  Value scaled = tb.mul(tb.div(magnitude, tb.broadcast(divisor, dims, {0})), tb.scalarLike(x, top));
  Value code = roundToCode(tb, scaled, random, state.nonNegative);
  if (state.nonNegative)
    code = tb.sub(code, tb.scalarLike(code, 128));
  else
    code = tb.select(tb.compare("lt", x, tb.scalarLike(x, 0)), tb.neg(code), code);
  // The codes of a scale that is not finite, whose difference is NaN, stay with the old one.
  code = tb.cast(code, tb.b().getI8Type());
  Value bad = tb.isNan(tb.sub(largest, largest));
  return {tb.select(tb.broadcast(bad, dims, {0}), old[0], code), largest};
}
