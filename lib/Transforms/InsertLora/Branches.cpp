// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a branch computes is PEFT's, also where dropout meets DoRA.

#include "lib/Transforms/InsertLora/Branches.h"

#include "dialects/Train/Philox.h"
#include "dialects/Train/RowMoves.h"
#include "mlir/IR/IRMapping.h"
#include "trainc/Transforms/Support/StepBuilder.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Trained, and initialized by a rule instead of values from the model's file.
BlockArgument BranchBuilder::addParameter(ArrayRef<int64_t> shape, Type element, const Twine &name,
                                          ArrayRef<NamedAttribute> init, Location loc) {
  Builder b(forward.getContext());
  return addArgument(forward, "parameter", name.str(), shape, element, loc,
                     {b.getNamedAttr(kTrainableAttr, b.getUnitAttr()),
                      b.getNamedAttr(kInitAttr, b.getDictionaryAttr(init))});
}

void BranchBuilder::addParameters(LoraModule &module) {
  Builder b(forward.getContext());
  // Adapters train in f32 at least: small updates would be lost in 16 bits.
  Type element = getElementTypeOrSelf(module.weight.getType());
  if (element.getIntOrFloatBitWidth() < 32)
    element = b.getF32Type();
  int64_t in = *module.in().getConstant(), out = *module.out().getConstant();
  Location loc = module.firstOp()->getLoc();
  auto rule = [&](StringRef name, double number) {
    return b.getNamedAttr(name, b.getF64FloatAttr(number));
  };
  // PEFT's initialization: embeddings begin with A zero, linear layers with B zero; either way the
  // branch adds nothing at first.
  if (module.isEmbedding()) {
    module.a = addParameter({module.rank, in}, element, module.path + ".lora_embedding_A",
                            rule("constant", 0), loc);
    module.b = addParameter({out, module.rank}, element, module.path + ".lora_embedding_B",
                            rule("normal", 1), loc);
  } else {
    module.a = addParameter({module.rank, in}, element, module.path + ".lora_A.weight",
                            rule("uniform", 1 / std::sqrt(double(in))), loc);
    module.b = addParameter({out, module.rank}, element, module.path + ".lora_B.weight",
                            rule("constant", 0), loc);
  }
  if (!dora)
    return;
  // B A is zero at the beginning, so that these are the norms of the whole.
  module.magnitude = addParameter(
      {out}, element, module.path + ".lora_magnitude_vector",
      {b.getNamedAttr("norms_of",
                      b.getStringAttr(getArgName(forward, module.weight.getArgNumber()))),
       b.getNamedAttr("axis", b.getI64IntegerAttr(module.outAxis))},
      loc);
}

/// Arguments of the step that random numbers follow from; those that the function lacks are added.
/// The user's name makes keys of different modules differ.
Value BranchBuilder::key(TrainBuilder &tb, StringRef user) {
  SmallVector<Value> values;
  for (StringRef name : {"seed", "step", "micro_batch", "rank"}) {
    auto known = llvm::find_if(forward.getArguments(), [&](BlockArgument argument) {
      const unsigned number = argument.getArgNumber();
      return getArgRole(forward, number) == "hyper" && getArgName(forward, number) == name;
    });
    values.push_back(known != forward.getArguments().end()
                         ? Value(*known)
                         : addArgument(forward, "hyper", name, {}, tb.b().getI64Type(), tb.loc()));
  }
  return tb.rngKey(values[0], values[1], values[2], values[3], philox::hashName(user));
}

/// `number`: which read of the module this is; each has dropout of its own.
Value BranchBuilder::dropped(TrainBuilder &tb, const LoraModule &module, Value input,
                             size_t number) {
  if (!(dropout > 0))
    return input;
  // Before rows are put together, so that an element keeps its sample and its position.
  Value whole = input;
  if (keepsColumns(input.getDefiningOp()))
    whole = input.getDefiningOp()->getOperand(0);
  std::string user = module.path + ".lora_dropout";
  // The first has the module's name alone, so that a model with one read keeps its bits when others
  // are added.
  if (number)
    user += "." + std::to_string(number);
  whole = tb.dropout(whole, key(tb, user), tb.b().getF64FloatAttr(dropout));
  return tb.reshape(whole, getDims(input));
}

/// rows [..., k] times the transpose of a matrix [n, k].
static Value matmul(TrainBuilder &tb, Value rows, Value matrix) {
  SmallVector<DimAttr> dims = getDims(rows);
  DimAttr columns = dims.back();
  dims.pop_back();
  Value flat = tb.reshape(rows, {product(tb.context(), dims), columns});
  Value result = tb.matmul(flat, matrix, false, true);
  dims.push_back(getDim(matrix, 0));
  return tb.reshape(result, dims);
}

/// B is the smallest, and is rounded after it is scaled.
/// Scaling B touches the fewest numbers.
static Value scaledB(TrainBuilder &tb, const LoraModule &module) {
  return tb.mul(module.b, tb.scalarLike(module.b, module.scale));
}

/// What follows low [..., rank] in a branch.
static Value fromLow(TrainBuilder &tb, const LoraModule &module, Value low) {
  return matmul(tb, low, tb.cast(scaledB(tb, module), low.getType()));
}

/// magnitude / ||W + scale B A|| of each of the n vectors, the norm a constant to gradients. With V
/// the vectors of W, ||V + B A||^2 = ||V||^2 + 2 <V A^T, B> + <B (A A^T), B>: no other matrix of
/// W's size is made.
static Value factors(TrainBuilder &tb, const LoraModule &module) {
  Type element = module.magnitude.getType();
  Value weight = module.weight, b = scaledB(tb, module);
  // Norms are summed in the magnitude's type, whatever the weight is stored in.
  Value exact = tb.cast(weight, element);
  Value squares = tb.sum(tb.mul(exact, exact), {int64_t(module.inAxis)});
  Value along = tb.matmul(weight, tb.cast(module.a, weight.getType()), module.outAxis == 1, true);
  Value mixed = tb.sum(tb.mul(tb.cast(along, element), b), {1});
  Value square = tb.matmul(b, tb.matmul(module.a, module.a, false, true));
  Value low = tb.sum(tb.mul(square, b), {1});
  Value norm = tb.sqrt(tb.add(tb.add(squares, tb.add(mixed, mixed)), low));
  // As DoRA defines it: the gradient passes by the norm.
  norm = tb.detach(norm);
  return tb.div(module.magnitude, norm);
}

/// value [..., n] times factor [n], in the factor's type.
static Value timesFactor(TrainBuilder &tb, Value value, Value factor) {
  Value exact = tb.cast(value, factor.getType());
  return tb.mul(exact, tb.broadcast(factor, getDims(value), {getRank(value) - 1}));
}

/// Makes readers of `result` read `value` in its place.
static void replaceReaders(ArrayRef<OpOperand *> readers, Value value) {
  for (OpOperand *reader : readers)
    reader->set(value);
}

/// Taken before the branch reads the result itself.
static SmallVector<OpOperand *> readersOf(Value result) {
  return llvm::to_vector(llvm::make_pointer_range(result.getUses()));
}

/// All readers of the projection read the sum with the branch. `factor`: DoRA's, null without.
void BranchBuilder::insertAt(const LoraModule &module, const Projection &projection, size_t number,
                             Value factor) {
  Operation *op = projection.op;
  Value result = op->getResult(0);
  const SmallVector<OpOperand *> readers = readersOf(result);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  TrainBuilder tb(builder, op->getLoc());
  Value input = dropped(tb, module, projection.input->get(), number);
  Value low = matmul(tb, input, tb.cast(module.a, result.getType()));
  Value branch = fromLow(tb, module, low);
  if (!factor)
    return replaceReaders(readers, tb.add(result, branch));
  // Without dropout one matmul serves: factor * (W x + B A x).
  if (!(dropout > 0))
    return replaceReaders(
        readers, tb.cast(timesFactor(tb, tb.add(result, branch), factor), result.getType()));
  // PEFT drops from what the weight is scaled for, not from what it was before: a second matmul.
  IRMapping mapping;
  mapping.map(projection.input->get(), input);
  Value again = builder.clone(*op, mapping)->getResult(0);
  Value more =
      tb.sub(timesFactor(tb, tb.add(again, branch), factor), tb.cast(again, factor.getType()));
  replaceReaders(readers,
                 tb.cast(tb.add(tb.cast(result, factor.getType()), more), result.getType()));
}

void BranchBuilder::insertAt(const LoraModule &module, const Embedding &embedding, Value factor) {
  Value result = embedding.result;
  const SmallVector<OpOperand *> readers = readersOf(result);
  OpBuilder builder(embedding.op->getContext());
  builder.setInsertionPointAfterValue(result);
  TrainBuilder tb(builder, embedding.op->getLoc());
  // A's columns are the table's rows.
  Value low = tb.gather(tb.transpose(module.a, {1, 0}), embedding.indices, 0);
  // torch's padding_idx: no gradient reaches these rows.
  if (embedding.isPadding) {
    auto leading = llvm::to_vector(llvm::seq<int64_t>(getRank(embedding.indices)));
    Value detached = tb.detach(low);
    low = tb.select(tb.broadcast(embedding.isPadding, getDims(low), leading), detached, low);
  }
  Value whole = tb.add(result, fromLow(tb, module, tb.cast(low, result.getType())));
  if (factor)
    whole = tb.cast(timesFactor(tb, whole, factor), result.getType());
  replaceReaders(readers, whole);
}

/// Arguments first, then the factor (once for each module), then each place where the module is
/// read.
void BranchBuilder::insert(LoraModule &module) {
  addParameters(module);
  Value factor;
  if (dora) {
    OpBuilder builder(module.firstOp());
    TrainBuilder tb(builder, module.firstOp()->getLoc());
    factor = factors(tb, module);
  }
  for (auto [number, projection] : llvm::enumerate(module.projections))
    insertAt(module, projection, number, factor);
  for (const Embedding &embedding : module.embeddings)
    insertAt(module, embedding, factor);
}
