// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `raise-choices`: finds products with chosen matrices, and says where vectors lie when
// they are sorted. A place is a count of those before with the same choice, which needs no
// comparison of any two.

#include "lib/Transforms/RaiseChoices/RaiseChoices.h"

#include "dialects/Train/TrainBuilder.h"
#include "lib/Transforms/Support/PackedRows.h"
#include "lib/Transforms/Support/ZeroRows.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/DeadOps.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_RAISECHOICESPASS
#include "lib/Transforms/RaiseChoices/RaiseChoices.h.inc"
} // namespace trainc

namespace {
/// Of each vector the number of its matrix.
struct Choice {
  Value table, numbers;
};

/// Where the vectors lie.
struct Blocks {
  PackedRows rows;
  /// [matrices] The matrix of each of the blocks behind the first ones, which are in order.
  Value numbers;
  /// Vectors of a block.
  DimAttr length;
};

/// A product of vectors with matrices that they choose.
struct Chosen {
  Choice choice;
  Value vectors;
  /// The axis of a matrix that is summed up: 1 or 2.
  int64_t summed;
  int64_t matrices;
};
} // namespace

/// The numbers of matrices that `chosen` was gathered by, in the shape of its axes before theirs,
/// and their table; null where it was not, or is read elsewhere. What moves whole matrices moves
/// their numbers as well: the rows that labels select are selected of all tokens' matrices.
static Value findNumbers(TrainBuilder &tb, Value chosen, Value &table) {
  Operation *def = chosen.getDefiningOp();
  if (!def || !chosen.hasOneUse() || getRank(chosen) < 3)
    return {};
  const SmallVector<DimAttr> dims = getDims(chosen);
  const ArrayRef<DimAttr> places = ArrayRef(dims).drop_back(2);
  if (auto gather = dyn_cast<GatherOp>(def)) {
    table = gather.getData();
    return gather.getAxis() == 0 && getRank(table) == 3 ? gather.getIndices() : Value();
  }
  if (auto gather = dyn_cast<GatherNdOp>(def)) {
    table = gather.getData();
    const bool choosesMatrices = gather.getBatchDims() == 0 && getRank(table) == 3 &&
                                 getDims(gather.getIndices()).back().isConstant(1);
    return choosesMatrices ? tb.reshape(gather.getIndices(), places) : Value();
  }
  if (auto reshape = dyn_cast<ReshapeOp>(def)) {
    const SmallVector<DimAttr> from = getDims(reshape.getOperand());
    if (from.size() < 3 || ArrayRef(from).take_back(2) != ArrayRef(dims).take_back(2))
      return {};
    Value numbers = findNumbers(tb, reshape.getOperand(), table);
    return numbers ? tb.reshape(numbers, places) : Value();
  }
  auto rows = dyn_cast<SelectRowsOp>(def);
  // A matrix of zeros is none of the table.
  if (!rows || int64_t(rows.getAxis()) >= int64_t(places.size()) || mayFillRows(rows))
    return {};
  Value numbers = findNumbers(tb, rows.getData(), table);
  return numbers ? tb.selectRows(numbers, rows.getIndex(), rows.getInverse(), rows.getAxis())
                 : Value();
}

static std::optional<Choice> getChoice(TrainBuilder &tb, Value chosen) {
  Choice choice;
  choice.numbers = findNumbers(tb, chosen, choice.table);
  return choice.numbers ? std::optional(choice) : std::nullopt;
}

/// With blocks of an equal share, all matrices together need no more than as many again: what does
/// not fit into the first block of a matrix leaves room in those of others.
static Blocks buildBlocks(TrainBuilder &tb, Value numbers, DimAttr matrices) {
  Type i32 = tb.b().getI32Type();
  const DimAttr vectors = getDim(numbers, 0), one = tb.dimAttr(1);
  Blocks blocks;
  blocks.length = floorDiv(vectors + matrices - one, matrices);
  auto sizeLike = [&](DimAttr size, Value like) { return tb.splat(tb.dim(size, i32), like); };
  // A number out of range ends the run here.
  Value own = tb.gather(tb.iota({matrices}, i32, 0), numbers, 0);
  const SmallVector<DimAttr> grid = {matrices, vectors};
  Value matrix = tb.iota(grid, i32, 0);
  Value chosen = tb.compare("eq", tb.broadcast(own, grid, {1}), matrix);
  Value ones = tb.cast(chosen, i32), place = tb.cumsum(ones, 1, /*exclusive=*/true);
  Value counts = tb.sum(ones, {1}), none = tb.scalarLike(counts, 0);
  Value last = tb.max(tb.sub(counts, tb.scalarLike(counts, 1)), none);
  Value more = tb.div(last, sizeLike(blocks.length, last));
  Value first = tb.cumsum(more, 0, /*exclusive=*/true);
  Value length = sizeLike(blocks.length, place);
  Value inFirst = tb.add(tb.mul(matrix, length), place);
  Value behind = tb.add(tb.mul(tb.broadcast(first, grid, {0}), length), place);
  behind = tb.add(behind, sizeLike((matrices - one) * blocks.length, behind));
  Value slot = tb.select(tb.compare("lt", place, length), inFirst, behind);
  slot = tb.sum(tb.select(chosen, slot, tb.scalarLike(slot, 0)), {0});
  blocks.rows = placeRows(tb, slot, tb.dimAttr(2) * matrices * blocks.length);
  // As many as end before it. Blocks that nothing is in have the last one.
  const SmallVector<DimAttr> pairs = {matrices, matrices};
  Value end = tb.broadcast(tb.add(first, more), pairs, {1});
  Value passed = tb.cast(tb.compare("le", end, tb.iota(pairs, i32, 0)), i32);
  Value number = tb.sum(passed, {1});
  blocks.numbers = tb.min(number, sizeLike(matrices - one, number));
  return blocks;
}

static std::optional<Chosen> getChosen(TrainBuilder &tb, MatmulOp product) {
  for (bool isLeft : {true, false}) {
    std::optional<Choice> choice = getChoice(tb, isLeft ? product.getLhs() : product.getRhs());
    if (!choice)
      continue;
    Value vectors = isLeft ? product.getRhs() : product.getLhs();
    // Along one axis a vector has one element.
    const bool isColumn =
        isLeft != (isLeft ? product.getTransposeRhs() : product.getTransposeLhs());
    const bool sumsRows =
        isLeft != (isLeft ? product.getTransposeLhs() : product.getTransposeRhs());
    std::optional<int64_t> matrices = getDim(choice->table, 0).getConstant();
    if (matrices && *matrices > 1 && getDim(vectors, isColumn ? 2 : 1).isConstant(1))
      return Chosen{*choice, vectors, sumsRows ? 2 : 1, *matrices};
  }
  return std::nullopt;
}

/// The result of the product, [vectors, width].
static Value multiply(TrainBuilder &tb, const Chosen &chosen) {
  Value table = chosen.choice.table;
  const DimAttr matrices = tb.dimAttr(chosen.matrices), count = getDim(chosen.choice.numbers, 0);
  const DimAttr depth = getDim(table, chosen.summed), width = getDim(table, 3 - chosen.summed);
  const Blocks blocks = buildBlocks(tb, chosen.choice.numbers, matrices);
  const DimAttr half = matrices * blocks.length;
  Value packed = blocks.rows.pack(tb, tb.reshape(chosen.vectors, {count, depth}), 0);
  auto part = [&](DimAttr start, Value factors) {
    Value rows = tb.sliceAxis(packed, 0, start, half);
    rows = tb.matmul(tb.reshape(rows, {matrices, blocks.length, depth}), factors,
                     /*transposeLhs=*/false, /*transposeRhs=*/chosen.summed == 2);
    return tb.reshape(rows, {half, width});
  };
  Value first = part(tb.dimAttr(0), table);
  Value others = part(half, tb.gather(table, blocks.numbers, 0));
  return blocks.rows.unpack(tb, tb.concat({first, others}, 0), 0);
}

namespace {
struct RaiseChoicesPass : trainc::impl::RaiseChoicesPassBase<RaiseChoicesPass> {
  remark::RemarkOpts options(StringRef name) {
    return remark::RemarkOpts::name(name)
        .category("raise-choices")
        .function(getOperation().getName());
  }

  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    getOperation().walk([&](MatmulOp product) {
      if (product.isPlain() && getRank(product.getResult()) == 3)
        products.push_back(product);
    });
    for (MatmulOp product : products) {
      OpBuilder builder(product);
      TrainBuilder tb(builder, product.getLoc());
      std::optional<Chosen> chosen = getChosen(tb, product);
      if (!chosen)
        continue;
      std::optional<int64_t> vectors = getDim(chosen->choice.numbers, 0).getConstant();
      if (vectors && *vectors <= 2 * chosen->matrices) {
        remark::missed(product.getLoc(), options("NotSorted"))
            << remark::add("{0} has a copy of a matrix for each vector", describeOp(product))
            << remark::reason("there are {0} vectors for {1} matrices", *vectors, chosen->matrices);
        continue;
      }
      remark::passed(product.getLoc(), options("Sorted"))
          << remark::add("{0} has {1} copies of matrices, one for each block of vectors",
                         describeOp(product), chosen->matrices);
      Value result = tb.reshape(multiply(tb, *chosen), getDims(product.getResult()));
      product.getResult().replaceAllUsesWith(result);
    }
    eraseDeadOps(getOperation().getBody().front());
  }
};
} // namespace
