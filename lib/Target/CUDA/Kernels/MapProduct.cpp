// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls whose right factor is computed in the kernel, for up to 64 rows. A block makes some
// columns of the result; its warps share the sum, and add what they have one after the other, so
// that the order is always the same. Where that makes too few blocks, several share the sum, and a
// second stage adds their parts. In tensor cores the right factor stands on the left: its columns
// fill the 16 rows of an `mma.m16n8k16` (PTX ISA, "Matrix Fragments for mma.m16n8k16"), and the
// rows of the left factor its 8 columns. Which positions of the summed axis a thread has in a
// fragment is free, as long as both factors agree: it takes neighbouring ones, which lie together
// in memory.

#include "Tiles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

constexpr int64_t kWarps = kTileThreads / kWarp;
/// Rows of the left factor in a fragment, and most fragments of a block.
constexpr int64_t kRows = 8, kMostRowTiles = 8;
/// Columns of the result in a fragment.
constexpr int64_t kColumns = 16;
/// Elements that a thread reads at once along the summed axis.
constexpr int64_t kLanes = 8;
/// Blocks that occupy the machine, and parts of a sum at most.
constexpr int64_t kEnoughBlocks = 264, kMostParts = 8;
/// Elements between rows of the sums in shared memory beside the columns: other banks.
constexpr int64_t kPadding = 8;

/// Sizes that do not fit are refused by checkProduct before anything is made of them.
struct ProductShape {
  explicit ProductShape(const Structure &s)
      : op(cast<ContractionOpInterface>(s.standalone)), transposed(op.getTransposeRhs()),
        rows(s.space[0]), inner(op.getInnerDim().getConstant().value_or(0)),
        columns(s.space[1].getConstant().value_or(0)), tiles(transposed ? 2 : 4) {
    rowTiles = llvm::divideCeil(int64_t(op.getStreamedRows().value_or(0)), kRows);
    while (tiles > 1 && columns % (tiles * kColumns) != 0)
      tiles /= 2;
    // A part is at least one step of each warp.
    const int64_t most = std::min(kMostParts, inner / (step() * kWarps));
    parts =
        std::clamp<int64_t>(llvm::divideCeil(kEnoughBlocks, std::max<int64_t>(1, columnBlocks())),
                            1, std::max<int64_t>(1, most));
  }
  /// Of the summed axis that a warp does at once: 16 elements of each of the four threads that
  /// share a column, or 8 of each of those that share a row of the right factor.
  int64_t step() const { return 4 * kLanes * (transposed ? 2 : 1); }
  int64_t blockColumns() const { return tiles * kColumns; }
  int64_t blockRows() const { return rowTiles * kRows; }
  int64_t columnBlocks() const { return columns / blockColumns(); }

  ContractionOpInterface op;
  bool transposed;
  DimAttr rows;
  int64_t inner, columns;
  /// Fragments of a warp along the columns and the rows.
  int64_t tiles, rowTiles;
  /// Blocks that share a sum.
  int64_t parts = 1;
};

class ProductMap {
public:
  explicit ProductMap(GpuKernel &kernel)
      : s(kernel.structure), op(s.standalone), shape(s), e(kernel.nextStage()), b(e.builder()),
        element(getElementType(op->getResult(0))) {}

  void makeParts();
  void addParts();

private:
  void place();
  Values multiply();
  /// Fragments of the right factor, [column tile][step] of four words, at a position of the summed
  /// axis.
  using Fragments = SmallVector<SmallVector<Values>>;
  Fragments rightOfRows(Value position);
  Fragments rightOfColumns(Value position);
  void addUp(ValueRange sums);
  void store();
  /// Sums of eight columns: to the result, with what is added.
  void finish(Value sum, Value row, Value column);
  /// Where those of a part are in the temporary buffer.
  ElementIndex inPart(Value number, Value row, Value column) {
    Value place = e.addIndex(e.mulIndex(number, e.dim(shape.rows)), row);
    return {e.addIndex(times(shape.columns, place), column), 1, {}};
  }

  /// Two elements as a fragment's word has them.
  /// Words hold a pair of 16-bit elements, the lower position in the low half; the instruction
  /// takes bf16 as i32.
  Value pack(Value low, unsigned lowLane, Value high, unsigned highLane) {
    unsigned lanes = cast<VectorType>(low.getType()).getNumElements();
    Value pair = vector::ShuffleOp::create(b, e.loc(), low, high,
                                           ArrayRef<int64_t>{lowLane, lanes + highLane});
    if (element.isF16())
      return pair;
    pair = vector::BitCastOp::create(b, e.loc(), VectorType::get(1, b.getI32Type()), pair);
    return vector::ExtractOp::create(b, e.loc(), pair, ArrayRef<int64_t>{0});
  }
  Value word(Value lanes, unsigned number) {
    return pack(lanes, 2 * number, lanes, 2 * number + 1);
  }
  Value times(int64_t factor, Value x) { return e.mulIndex(x, e.constantIndex(factor)); }
  Value plus(Value x, int64_t y) { return e.addIndex(x, e.constantIndex(y)); }

  const Structure &s;
  Operation *op;
  ProductShape shape;
  GpuEmitter &e;
  OpBuilder &b;
  Type element;
  /// The thread's warp, and its place in a fragment: one of eight, and of four.
  Value warp, group, part;
  /// The block's first column, and which part of the sums it makes.
  Value firstColumn, sumPart;
  /// The block's sums, in shared memory.
  Value array;
};

} // namespace

/// What the plan and the map below take for granted.
LogicalResult checkProduct(const Structure &s) {
  ProductShape shape(s);
  Type element = getElementType(s.standalone->getResult(0));
  const int64_t innerTile = 2 * 4 * kLanes, columnTile = 2 * kColumns;
  if (!element.isF16() && !element.isBF16())
    return s.standalone->emitOpError("has no kernel for numbers of type ") << element;
  if (shape.inner == 0 || shape.inner % innerTile != 0 || shape.columns == 0 ||
      shape.columns % columnTile != 0)
    return s.standalone->emitOpError("has no kernel for these sizes: ")
           << innerTile << " has to divide what is summed over, and " << columnTile
           << " the columns";
  if (shape.rowTiles > kMostRowTiles)
    return s.standalone->emitOpError("has no kernel for more than ")
           << kMostRowTiles * kRows << " rows";
  return success();
}

void planProduct(FusionOp fusion, const Structure &s, GpuPlan &plan) {
  ProductShape shape(s);
  auto constant = [&](int64_t value) { return DimAttr::constant(fusion.getContext(), value); };
  assert(shape.columns % shape.blockColumns() == 0 && "checkProduct has asked");
  DimAttr blocks = constant(shape.columnBlocks() * shape.parts);
  if (shape.parts == 1) {
    plan.stages = {{"", blocks, kTileThreads}};
    return;
  }
  // Sums of a part are f32, and are rounded once, by the second stage.
  DimAttr elements = shape.rows * constant(shape.columns);
  plan.stages = {{"_parts", blocks, kTileThreads},
                 {"_sum", ceilDim(elements, kTileThreads * kLanes), kTileThreads}};
  plan.temporaryBytes = elements * constant(shape.parts * 4);
}

/// Eight groups of four threads each, as the fragments are laid out.
void ProductMap::place() {
  Value lane = e.remIndex(e.thread(), e.constantIndex(kWarp));
  warp = e.divIndex(e.thread(), e.constantIndex(kWarp));
  group = e.divIndex(lane, e.constantIndex(4));
  part = e.remIndex(lane, e.constantIndex(4));
  Value parts = e.constantIndex(shape.parts);
  sumPart = e.remIndex(e.block(), parts);
  firstColumn = times(shape.blockColumns(), e.divIndex(e.block(), parts));
}

ProductMap::Fragments ProductMap::rightOfRows(Value position) {
  Fragments fragments(shape.tiles);
  e.setLanes(kLanes);
  // A thread takes 16 neighbouring positions, as two vectors.
  Value begin = e.addIndex(position, times(2 * kLanes, part));
  for (int64_t tile = 0; tile < shape.tiles; ++tile) {
    Value lanes[2][2];
    for (int64_t half : {0, 1}) {
      Value column = e.addIndex(plus(firstColumn, tile * kColumns + half * 8), group);
      for (int64_t vector : {0, 1})
        lanes[half][vector] = e.evaluateLanes(
            shape.op.getRhs(), {{column, 0, {}}, {plus(begin, vector * kLanes), 1, {}}});
    }
    for (unsigned vector : {0, 1})
      for (unsigned pair : {0, 2})
        fragments[tile].push_back({word(lanes[0][vector], pair), word(lanes[1][vector], pair),
                                   word(lanes[0][vector], pair + 1),
                                   word(lanes[1][vector], pair + 1)});
  }
  return fragments;
}

ProductMap::Fragments ProductMap::rightOfColumns(Value position) {
  const int64_t width = 2 * shape.tiles;
  e.setLanes(width);
  // A thread takes eight rows of neighbouring columns; a word pairs two rows of one column.
  Value begin = e.addIndex(position, times(kLanes, part));
  Value column = e.addIndex(firstColumn, times(width, group));
  Values rows;
  for (int64_t row = 0; row < kLanes; ++row)
    rows.push_back(
        e.evaluateLanes(shape.op.getRhs(), {{plus(begin, row), 0, {}}, {column, 1, {}}}));
  Fragments fragments(shape.tiles);
  for (unsigned tile = 0; tile < shape.tiles; ++tile)
    for (unsigned first : {0, 4}) {
      Values words;
      for (unsigned row : {first, first + 2})
        for (unsigned half : {0u, 1u})
          words.push_back(pack(rows[row], 2 * tile + half, rows[row + 1], 2 * tile + half));
      fragments[tile].push_back(words);
    }
  return fragments;
}

/// What the warp adds to each sum of the block: [column tile][row tile] of four.
Values ProductMap::multiply() {
  Type f32 = b.getF32Type();
  Value zero = arith::ConstantOp::create(b, e.loc(), b.getF32FloatAttr(0));
  Values sums(shape.tiles * shape.rowTiles * 4, zero);
  Value last = e.subIndex(e.dim(shape.rows), e.constantIndex(1));
  auto type = LLVM::LLVMStructType::getLiteral(b.getContext(), {f32, f32, f32, f32});
  const auto kind = element.isF16() ? NVVM::MMATypes::f16 : NVVM::MMATypes::bf16;
  // Steps go round among the warps of all blocks that share the sum: which warp has which follows
  // from the shape alone.
  auto loop = e.openLoop(e.addIndex(times(kWarps, sumPart), warp),
                         e.constantIndex(shape.inner / shape.step()),
                         e.constantIndex(kWarps * shape.parts), sums);
  sums.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  Value position = times(shape.step(), loop.getInductionVar());
  Fragments right = shape.transposed ? rightOfRows(position) : rightOfColumns(position);
  e.setLanes(kLanes);
  const int64_t vectors = shape.transposed ? 2 : 1;
  Value begin = e.addIndex(position, times(vectors * kLanes, part));
  for (int64_t rowTile = 0; rowTile < shape.rowTiles; ++rowTile) {
    // Rows behind the last one repeat it, and are not stored.
    Value row = e.minIndex(plus(group, rowTile * kRows), last);
    Values lanes;
    for (int64_t vector = 0; vector < vectors; ++vector)
      lanes.push_back(e.evaluateLanes(shape.op.getLhs(),
                                      {{row, 0, {}}, {plus(begin, vector * kLanes), 1, {}}}));
    for (int64_t tile = 0; tile < shape.tiles; ++tile) {
      MutableArrayRef<Value> sum =
          MutableArrayRef<Value>(sums).slice((tile * shape.rowTiles + rowTile) * 4, 4);
      for (auto [step, words] : llvm::enumerate(right[tile])) {
        Value from = lanes[step / 2];
        const unsigned pair = step % 2 * 2;
        Value result = NVVM::MmaOp::create(
            b, e.loc(), type, words, {word(from, pair), word(from, pair + 1)}, sum, {16, 8, 16},
            std::nullopt, std::nullopt, std::array{kind, kind},
            std::array{NVVM::MMALayout::row, NVVM::MMALayout::col});
        for (unsigned i = 0; i < 4; ++i)
          sum[i] = LLVM::ExtractValueOp::create(b, e.loc(), result, ArrayRef<int64_t>{i});
      }
    }
  }
  return e.closeLoop(loop, sums);
}

/// The warps' sums in shared memory, one warp after the other.
void ProductMap::addUp(ValueRange sums) {
  Type f32 = b.getF32Type();
  const int64_t pitch = shape.blockColumns() + kPadding;
  array = e.shared(f32, shape.blockRows() * pitch);
  auto round = e.openLoop(e.constantIndex(0), e.constantIndex(kWarps), e.constantIndex(1));
  // The barrier also keeps a warp from reading before the one before it has stored.
  e.syncBlock();
  Value number = round.getInductionVar();
  Value mine = arith::CmpIOp::create(b, e.loc(), arith::CmpIPredicate::eq, warp, number);
  Value isFirst =
      arith::CmpIOp::create(b, e.loc(), arith::CmpIPredicate::eq, number, e.constantIndex(0));
  e.openIf(mine);
  for (int64_t tile = 0; tile < shape.tiles; ++tile)
    for (int64_t rowTile = 0; rowTile < shape.rowTiles; ++rowTile)
      for (int64_t i = 0; i < 4; ++i) {
        // Rows of the fragment are columns of the result.
        const int64_t half = i / 2;
        Value column = shape.transposed ? plus(group, tile * kColumns + half * 8)
                                        : plus(times(2 * shape.tiles, group), 2 * tile + half);
        Value row = plus(times(2, part), rowTile * kRows + i % 2);
        ElementIndex at{e.addIndex(times(pitch, row), column), 0, {}};
        Value sum = sums[(tile * shape.rowTiles + rowTile) * 4 + i];
        Value before = e.loadFrom(array, f32, at);
        Value added = arith::AddFOp::create(b, e.loc(), before, sum);
        e.storeTo(array, f32, at, arith::SelectOp::create(b, e.loc(), isFirst, sum, added));
      }
  e.closeIf();
  e.closeLoop(round);
  e.syncBlock();
}

void ProductMap::store() {
  Type f32 = b.getF32Type();
  e.setLanes(kLanes);
  const int64_t pitch = shape.blockColumns() + kPadding, vectors = shape.blockColumns() / kLanes;
  // One vector of eight columns a thread and round.
  auto loop = e.openLoop(e.thread(), e.constantIndex(shape.blockRows() * vectors),
                         e.constantIndex(kTileThreads));
  Value number = loop.getInductionVar();
  Value row = e.divIndex(number, e.constantIndex(vectors));
  Value localColumn = times(kLanes, e.remIndex(number, e.constantIndex(vectors)));
  e.openIf(e.lessIndex(row, e.dim(shape.rows)));
  Value sum = e.loadFrom(array, f32, {e.addIndex(times(pitch, row), localColumn), 1, {}});
  Value column = e.addIndex(firstColumn, localColumn);
  if (shape.parts == 1)
    finish(sum, row, column);
  else
    e.storeTo(e.temporary(), f32, inPart(sumPart, row, column), sum);
  e.closeIf();
  e.closeLoop(loop);
}

void ProductMap::finish(Value sum, Value row, Value column) {
  e.spaceIndex = {{row, 0, {}}, {column, 1, {}}};
  // The addend is added to the whole sum, before it is rounded.
  if (Value addend = shape.op.getAddend())
    sum = arith::AddFOp::create(
        b, e.loc(), sum, e.convertFloat(e.evaluateLanes(addend, e.spaceIndex), b.getF32Type()));
  e.store(0, e.spaceIndex, e.convertFloat(sum, element));
}

void ProductMap::makeParts() {
  place();
  addUp(multiply());
  store();
  e.finish();
}

/// In the order of the parts.
void ProductMap::addParts() {
  e.setLanes(kLanes);
  Value vector = e.addIndex(times(kTileThreads, e.block()), e.thread());
  Value vectors = e.constantIndex(shape.columns / kLanes);
  Value row = e.divIndex(vector, vectors), column = times(kLanes, e.remIndex(vector, vectors));
  e.openIf(e.lessIndex(row, e.dim(shape.rows)));
  Value sum;
  for (int64_t part = 0; part < shape.parts; ++part) {
    Value value =
        e.loadFrom(e.temporary(), b.getF32Type(), inPart(e.constantIndex(part), row, column));
    sum = sum ? arith::AddFOp::create(b, e.loc(), sum, value).getResult() : value;
  }
  finish(sum, row, column);
  e.closeIf();
  e.finish();
}

void mapProduct(GpuKernel &kernel) {
  ProductMap(kernel).makeParts();
  // The second stage exists only where planProduct has split the sum.
  if (kernel.plan.stages.size() > 1)
    ProductMap(kernel).addParts();
}

} // namespace trainc::codegen
