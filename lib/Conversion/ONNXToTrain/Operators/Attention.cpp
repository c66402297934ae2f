// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention, written out: scaled scores, cap, masks, softmax, matmul. Rows without any key give
// zeros, as in PyTorch, from which such nodes are exported. And the rotation of queries and keys by
// their positions.

#include "lib/Conversion/ONNXToTrain/Handlers.h"
#include "lib/Conversion/ONNXToTrain/Sizes/SizeHints.h"

#include <cmath>

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

/// [batch, seq, heads * size] -> [batch, heads, seq, size]; rank 4 stays. Null with a reason.
static Value splitHeads(NodeContext &c, int64_t input, StringRef headsName) {
  Value x = c.tensor(input);
  // A tensor of rank 4 has its heads already; the attribute counts only for rank 3.
  if (c.rank(input) == 4)
    return x;
  int64_t heads = c.attr(headsName, int64_t(0));
  Dims dims = c.dims(input);
  DimAttr size =
      dims.size() == 3 && heads > 0 ? train::divideExactly(dims[2], c.dim(heads)) : DimAttr();
  if (!size) {
    // Handlers give one reason and return nothing: whoever called them reports it with the node.
    (void)c.fail("its inputs need rank 4, or rank 3 and the numbers of heads");
    return {};
  }
  x = c.tb.reshape(x, {dims[0], dims[1], c.dim(heads), size});
  return c.tb.transpose(x, {0, 2, 1, 3});
}

/// Every head of keys or values, repeated for the query heads that share it. Null with a reason.
static Value repeatHeads(NodeContext &c, Value x, DimAttr heads) {
  Dims dims = train::getDims(x);
  if (dims[1] == heads)
    return x;
  DimAttr group = train::divideExactly(heads, dims[1]);
  if (!group) {
    (void)c.fail("its query heads are no multiple of its key heads");
    return {};
  }
  // [batch, key heads, group, seq, size]: query heads of a group are neighbours.
  x = c.tb.broadcast(x, {dims[0], dims[1], group, dims[2], dims[3]}, {0, 1, 3, 4});
  return c.tb.reshape(x, {dims[0], heads, dims[2], dims[3]});
}

namespace {

/// Scores [batch, heads, query rows, key rows] and what shuts positions off from them.
class Scores {
public:
  /// `past` is what lies before the first query, 0 without a cache.
  Scores(NodeContext &c, Value scores, DimAttr past) : c(c), tb(c.tb), x(scores), past(past) {}

  /// Tanh that keeps scores within +-cap.
  void cap() {
    double limit = c.attr("softcap", 0.0);
    if (limit > 0)
      x = tb.mul(tb.tanh(tb.div(x, like(limit))), like(limit));
  }

  /// Input 3: booleans say what is seen, floats are added. It may end before the last key.
  bool mask() {
    if (!c.has(3))
      return true;
    Dims dims = train::getDims(x), own = c.dims(3);
    Value mask = c.tensor(3);
    bool boolean = c.element(3).isInteger(1);
    // Keys behind the mask's end are not seen.
    if (!own.empty() && own.back() != dims.back() && !own.back().isConstant(1)) {
      own.back() = dims.back();
      Dims low(own.size(), c.dim(0));
      mask = tb.pad(mask, boolean ? 0 : -INFINITY, low, own);
    }
    std::optional<Dims> common = c.broadcastDims({dims, own});
    if (!common)
      return false;
    if (*common != dims) {
      (void)c.fail("its mask does not fit the scores");
      return false;
    }
    mask = c.broadcastTo(mask, dims);
    // A mask may leave a row without any key.
    guarded = true;
    if (boolean)
      shutWhereNot(mask);
    else if (c.element(3) == c.element(0))
      x = tb.add(x, mask);
    else
      (void)c.fail("its mask is neither boolean nor of the type of its query");
    return boolean || c.element(3) == c.element(0);
  }

  /// A query sees the past, and keys up to its own position.
  void causal() {
    if (!c.attr("is_causal", int64_t(0)))
      return;
    // Query i stands behind the past, whose keys it sees all.
    Value row = position(2), column = position(3);
    if (!past.isConstant(0))
      row = tb.add(row, tb.splat(tb.dim(past, tb.b().getI64Type()), row));
    shutWhereNot(tb.compare("le", column, row));
  }

  /// Input 6: how many keys of each sample are no padding.
  bool padding() {
    if (!c.has(6))
      return true;
    Dims dims = train::getDims(x);
    if (!c.needInteger(6) || c.rank(6) != 1 || c.dims(6)[0] != dims[0]) {
      (void)c.fail("it needs one number of keys a sample");
      return false;
    }
    // And so may a sample without any key.
    guarded = true;
    Value keys = tb.broadcast(tb.cast(c.tensor(6), tb.b().getI64Type()), dims, {0});
    shutWhereNot(tb.compare("lt", position(3), keys));
    return true;
  }

  /// Along the keys. Guarded rows, all of whose scores are -inf, become zeros instead of NaN.
  Value weights(Type precision) {
    Value wide = tb.cast(x, precision);
    wide = train::SoftmaxOp::create(tb.b(), tb.loc(), wide.getType(), wide, 3, guarded);
    return tb.cast(wide, x.getType());
  }

  Value get() { return x; }

private:
  /// One -inf for all that shuts positions off.
  Value like(double value) { return tb.scalarLike(x, value); }
  Value position(int64_t axis) { return tb.iota(train::getDims(x), tb.b().getI64Type(), axis); }
  void shutWhereNot(Value open) {
    if (!shut)
      shut = like(-INFINITY);
    x = tb.select(open, x, shut);
  }

  NodeContext &c;
  TrainBuilder &tb;
  Value x, shut;
  DimAttr past;
  bool guarded = false;
};

} // namespace

/// Keys or values of earlier steps before those of this one.
static Value withPast(NodeContext &c, int64_t input, Value x) {
  if (!c.has(input))
    return x;
  Dims dims = train::getDims(x), past = c.dims(input);
  if (past.size() == 4 && c.element(input) == c.element(0) && past[0] == dims[0] &&
      past[1] == dims[1] && past[3] == dims[3])
    return c.tb.concat({c.tensor(input), x}, 2);
  (void)c.fail("its past keys or values do not fit");
  return {};
}

static LogicalResult attention(NodeContext &c) {
  if (!c.needFloat(0) || c.element(1) != c.element(0) || c.element(2) != c.element(0))
    return c.fail("it needs floats of one type");
  TrainBuilder &tb = c.tb;
  Value q = splitHeads(c, 0, "q_num_heads");
  Value k = q ? splitHeads(c, 1, "kv_num_heads") : Value();
  Value v = k ? splitHeads(c, 2, "kv_num_heads") : Value();
  k = v ? withPast(c, 4, k) : Value();
  v = k ? withPast(c, 5, v) : Value();
  if (!v)
    return failure();
  // What the next step gets as its past, before heads are repeated.
  (void)c.set(k, 1);
  (void)c.set(v, 2);
  Dims query = train::getDims(q);
  k = repeatHeads(c, k, query[1]);
  v = k ? repeatHeads(c, v, query[1]) : Value();
  if (!v)
    return failure();
  Dims key = train::getDims(k), value = train::getDims(v);
  // Batches, head sizes and numbers of keys agree; heads of keys and values were made so above.
  if (key[0] != query[0] || key[3] != query[3] || value[0] != query[0] || value[2] != key[2])
    return c.fail("the sizes of its query, key and value do not fit");
  double scale = c.attr("scale", 0.0);
  if (scale == 0) {
    auto size = query[3].getConstant();
    if (!size || *size <= 0)
      return c.fail("without a scale its head size has to be static" + fixHint({query[3]}));
    scale = 1 / std::sqrt(double(*size));
  }
  // The root of the scale on both sides, as ONNX has it: products stay in the range of 16-bit
  // types.
  double root = std::sqrt(scale);
  Type precision = c.element(0);
  if (c.rawAttr("softmax_precision"))
    precision = c.elementType(c.attr("softmax_precision", int64_t(0)));
  if (!precision || !isa<FloatType>(precision))
    return c.fail("its softmax_precision is not a supported float");
  Scores scores(
      c,
      tb.matmul(tb.mul(q, tb.scalarLike(q, root)), tb.mul(k, tb.scalarLike(k, root)), false, true),
      c.has(4) ? c.dims(4)[2] : c.dim(0));
  // Later stages are chosen by the order of the enumeration, not by that in which they are
  // computed.
  Value stages[4]; // what qk_matmul_output_mode chooses from
  stages[0] = scores.get();
  scores.cap();
  stages[1] = scores.get();
  if (!scores.mask())
    return failure();
  scores.causal();
  if (!scores.padding())
    return failure();
  stages[2] = scores.get();
  Value weights = stages[3] = scores.weights(precision);
  int64_t mode = c.attr("qk_matmul_output_mode", int64_t(0));
  (void)c.set(stages[mode], 3);
  Value y = tb.matmul(weights, v);
  // Back to the rank that came in.
  if (c.rank(0) == 3)
    y = tb.reshape(tb.transpose(y, {0, 2, 1, 3}), {query[0], query[2], query[1] * value[3]});
  return c.set(y);
}

//===- Rotary positions ---------------------------------------------------===//

/// Su et al. 2021: pairs of elements of every head are rotated by an angle that depends on the
/// position. A pair is two neighbours, or the same place in both halves.
static LogicalResult rotaryEmbedding(NodeContext &c) {
  if (!c.needFloat(0) || c.element(1) != c.element(0) || c.element(2) != c.element(0))
    return c.fail("it needs floats of one type");
  TrainBuilder &tb = c.tb;
  Value x = c.tensor(0);
  Dims dims = c.dims(0);
  int64_t heads = c.attr("num_heads", int64_t(0));
  // To [batch, sequence, heads, size].
  if (dims.size() == 4) {
    x = tb.transpose(x, {0, 2, 1, 3});
  } else {
    DimAttr size =
        dims.size() == 3 && heads > 0 ? train::divideExactly(dims[2], c.dim(heads)) : DimAttr();
    if (!size)
      return c.fail("its input needs rank 4, or rank 3 and num_heads");
    x = tb.reshape(x, {dims[0], dims[1], c.dim(heads), size});
  }
  Dims whole = train::getDims(x);
  // The default, 0, rotates heads as wholes.
  int64_t given = c.attr("rotary_embedding_dim", int64_t(0));
  DimAttr rotated = given > 0 ? c.dim(given) : whole[3];
  DimAttr half = train::divideExactly(rotated, c.dim(2));
  if (!half || !c.state.bounds.atMost(rotated, whole[3]))
    return c.fail("it rotates '" + rotated.str() + "' elements of heads of size '" +
                  whole[3].str() + "'");
  // One angle for each pair, the same for all heads of a position.
  Dims pairs = {whole[0], whole[1], whole[2], half}, angles = {whole[0], whole[1], half};
  auto angle = [&](int64_t input) -> Value {
    Value cache = c.tensor(input);
    // Without positions the caches are those of this sequence already.
    if (c.has(3))
      cache = tb.gather(cache, c.tensor(3), 0);
    if (train::getDims(cache) == angles)
      return tb.broadcast(cache, pairs, {0, 1, 3});
    (void)c.fail("the shape of its caches does not fit");
    return {};
  };
  if (c.has(3) && (!c.needInteger(3) || c.rank(3) != 2))
    return c.fail("its position ids need integers of rank 2");
  Value cosine = angle(1), sine = cosine ? angle(2) : Value();
  if (!sine)
    return failure();
  // Which elements are a pair differs between models: weights made for one do not fit the other.
  bool neighbours = c.attr("interleaved", int64_t(0));
  auto part = [&](int64_t which) {
    return neighbours ? tb.sliceAxis(x, 3, c.dim(which), half, 2)
                      : tb.sliceAxis(x, 3, which ? half : c.dim(0), half);
  };
  Value a = part(0), b = part(1);
  Value real = tb.sub(tb.mul(cosine, a), tb.mul(sine, b));
  Value imaginary = tb.add(tb.mul(sine, a), tb.mul(cosine, b));
  Value y;
  // A column each, side by side.
  if (neighbours) {
    Dims column = pairs, joined = whole;
    column.push_back(c.dim(1));
    joined[3] = rotated;
    y = tb.concat({tb.reshape(real, column), tb.reshape(imaginary, column)}, 4);
    y = tb.reshape(y, joined);
  } else {
    y = tb.concat({real, imaginary}, 3);
  }
  // What is not rotated stays behind.
  if (rotated != whole[3])
    y = tb.concat({y, tb.sliceAxis(x, 3, rotated, whole[3] - rotated)}, 3);
  return c.set(dims.size() == 4 ? tb.transpose(y, {0, 2, 1, 3}) : tb.reshape(y, dims));
}

void registerAttention(HandlerTable &table) {
  table.add("Attention", attention, 3, 23);
  table.add("RotaryEmbedding", rotaryEmbedding, 3, 23);
}

} // namespace trainc::legalize
