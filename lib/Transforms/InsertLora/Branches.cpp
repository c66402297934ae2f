// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a branch computes is PEFT's, also where dropout meets DoRA.

#include "lib/Transforms/InsertLora/Branches.h"

#include "dialects/Train/Philox.h"
#include "dialects/Train/RowIdioms.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

BlockArgument BranchBuilder::addParameter(ArrayRef<int64_t> shape, Type element, const Twine &name,
                                          NamedAttribute init, Location loc) {
  Builder b(forward.getContext());
  return addArgument(forward, "parameter", name.str(), shape, element, loc,
                     {b.getNamedAttr(kTrainableAttr, b.getUnitAttr()),
                      b.getNamedAttr(kInitAttr, b.getDictionaryAttr(init))});
}

void BranchBuilder::addParameters(LoraModule &module) {
  Builder b(forward.getContext());
  Type element = getElementTypeOrSelf(module.weight.getType());
  if (element.getIntOrFloatBitWidth() < 32)
    element = b.getF32Type();
  int64_t in = *module.in().getConstant(), out = *module.out().getConstant();
  Location loc = module.firstOp()->getLoc();
  auto rule = [&](StringRef name, double number) {
    return b.getNamedAttr(name, b.getF64FloatAttr(number));
  };
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
}

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

Value BranchBuilder::dropped(TrainBuilder &tb, const LoraModule &module, Value input,
                             size_t number) {
  if (!(dropout > 0))
    return input;
  // Before rows are put together, so that an element keeps its sample and its position.
  Value whole = input;
  if (keepsColumns(input.getDefiningOp()))
    whole = input.getDefiningOp()->getOperand(0);
  std::string user = module.path + ".lora_dropout";
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

/// What follows low [..., rank] in a branch. B is the smallest, and is rounded after it is scaled.
static Value fromLow(TrainBuilder &tb, const LoraModule &module, Value low) {
  Value scaled = tb.mul(module.b, tb.scalarLike(module.b, module.scale));
  return matmul(tb, low, tb.cast(scaled, low.getType()));
}

void BranchBuilder::insertAt(const LoraModule &module, const Projection &projection, size_t number,
                             Value factor) {
  Operation *op = projection.op;
  Value result = op->getResult(0);
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  TrainBuilder tb(builder, op->getLoc());
  Value input = dropped(tb, module, projection.input->get(), number);
  Value low = matmul(tb, input, tb.cast(module.a, result.getType()));
  Value branch = fromLow(tb, module, low);
  Value sum = tb.add(result, branch);
  result.replaceAllUsesExcept(sum, sum.getDefiningOp());
}

void BranchBuilder::insertAt(const LoraModule &module, const Embedding &embedding, Value factor) {
  Value result = embedding.result;
  OpBuilder builder(embedding.op->getContext());
  builder.setInsertionPointAfterValue(result);
  TrainBuilder tb(builder, embedding.op->getLoc());
  Value low = tb.gather(tb.transpose(module.a, {1, 0}), embedding.indices, 0);
  if (embedding.isPadding) {
    auto leading = llvm::to_vector(llvm::seq<int64_t>(getRank(embedding.indices)));
    Value detached = DetachOp::create(builder, tb.loc(), low.getType(), low);
    low = tb.select(tb.broadcast(embedding.isPadding, getDims(low), leading), detached, low);
  }
  Value branch = fromLow(tb, module, tb.cast(low, result.getType()));
  Value sum = tb.add(result, branch);
  result.replaceAllUsesExcept(sum, sum.getDefiningOp());
}

void BranchBuilder::insert(LoraModule &module) {
  addParameters(module);
  Value factor;
  for (auto [number, projection] : llvm::enumerate(module.projections))
    insertAt(module, projection, number, factor);
  for (const Embedding &embedding : module.embeddings)
    insertAt(module, embedding, factor);
}
