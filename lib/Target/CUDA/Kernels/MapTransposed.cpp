// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Tiles of inputs that lie across the results: their shape, patches in registers, and tiles in
// shared memory.

#include "MapTransposed.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

constexpr int64_t kThreads = 128;
/// Blocks that fill the machine; smaller problems get smaller patches.
constexpr int64_t kManyBlocks = 264;
/// Axes that are shorter are read as they come: neighbouring elements share sectors anyway.
constexpr int64_t kShortest = 32;
/// Matrices that are smaller are read by one block in any order.
constexpr int64_t kSmallest = 4096;
/// Bytes of the staged inputs for each position of the space, at most.
constexpr int64_t kStagedBytes = 16;
/// Registers of a patch, and the cost of its formulas: code that does not grow without bound.
constexpr int64_t kPatchRegisters = 64, kPatchCost = 1024;
/// A thread's part of a sector, at least: four threads side by side have a whole one.
constexpr int64_t kVectorBytes = 8;

} // namespace

//===----------------------------------------------------------------------===//
// Shape
//===----------------------------------------------------------------------===//

/// The axis other than the results' along which most of what is read lies; -1: none.
static int64_t chooseAcross(ArrayRef<InputAccess> accesses, const Structure &s) {
  SmallVector<int64_t> bytes(s.space.size());
  for (const InputAccess &access : accesses)
    if (access.isFull && access.inner != s.vectorAxis)
      bytes[access.inner] += access.bytes;
  auto most = llvm::max_element(bytes);
  return *most == 0 ? -1 : most - bytes.begin();
}

/// The longest vector of at most `lanes` elements that divides the axis where its size is known.
static int64_t dividing(DimAttr axis, int64_t lanes) {
  if (auto size = axis.getConstant())
    while (*size % lanes != 0)
      lanes /= 2;
  return lanes;
}

/// Null where no input lies across the results, or where the matrix is too small to matter.
std::optional<TransposedShape> TransposedShape::choose(FusionOp fusion, const Structure &s) {
  if (s.kind != Template::Pointwise || s.flat || s.vectorAxis < 0)
    return std::nullopt;
  SmallVector<InputAccess> accesses = findAccesses(fusion, s);
  TransposedShape shape;
  shape.across = chooseAcross(accesses, s);
  shape.along = s.vectorAxis;
  if (shape.across < 0)
    return std::nullopt;
  DimAttr across = s.space[shape.across], along = s.space[shape.along];
  auto isShort = [](DimAttr size) { return size.getConstant().value_or(kShortest) < kShortest; };
  if (isShort(across) || isShort(along) ||
      (across * along).getConstant().value_or(kSmallest) < kSmallest)
    return std::nullopt;

  int64_t narrowest = 16, bytes = 0;
  // The large ones first; the others' strides cost as much.
  std::stable_partition(accesses.begin(), accesses.end(),
                        [](const InputAccess &access) { return access.isFull; });
  for (const InputAccess &access : accesses) {
    if (access.inner != shape.across || !llvm::is_contained(access.axes, shape.along) ||
        bytes + access.bytes > kStagedBytes)
      continue;
    shape.staged.push_back(access);
    bytes += access.bytes;
    // Booleans and bytes go along with whatever is wider.
    narrowest = std::min(narrowest, std::max<int64_t>(access.bytes, 2));
  }
  shape.patchAcross = 16 / narrowest;
  shape.patchAlong = chooseLanes(fusion, s, DimAttr::constant(fusion.getContext(), 16));
  auto size = product(fusion.getContext(), s.space).getConstant();
  auto isTooMuch = [&] {
    int64_t elements = shape.patchAcross * shape.patchAlong;
    return (size && *size < elements * kThreads * kManyBlocks) ||
           elements * bytes / 4 > kPatchRegisters || elements * std::max(1u, s.cost) > kPatchCost;
  };
  while (isTooMuch() && std::max(shape.patchAcross, shape.patchAlong) > 4)
    (shape.patchAcross > shape.patchAlong ? shape.patchAcross : shape.patchAlong) /= 2;
  int64_t wholeAcross = dividing(across, shape.patchAcross),
          wholeAlong = dividing(along, shape.patchAlong),
          stored = getElementBytes(getElementTypeOrSelf(fusion.getResultTypes().front()));
  // Patches in registers need whole vectors both ways; otherwise tiles go through shared memory.
  shape.hasPatches = wholeAcross * narrowest >= kVectorBytes && wholeAlong > 1 &&
                     (wholeAlong == shape.patchAlong || wholeAlong * stored >= kVectorBytes);
  if (shape.hasPatches) {
    shape.patchAcross = wholeAcross;
    shape.patchAlong = wholeAlong;
  }

  // As many threads along as the tile needs, the others across.
  shape.threadsAlong = 16;
  auto knownAcross = across.getConstant(), knownAlong = along.getConstant();
  while (knownAlong && shape.threadsAlong / 2 * shape.patchAlong >= *knownAlong)
    shape.threadsAlong /= 2;
  while (knownAcross && kThreads / (shape.threadsAlong * 2) * shape.patchAcross >= *knownAcross)
    shape.threadsAlong *= 2;
  shape.threadsAcross = kThreads / shape.threadsAlong;
  return shape;
}

/// Blocks are counted as placeTile takes them apart.
void TransposedShape::plan(FusionOp fusion, const Structure &s, GpuPlan &plan) const {
  DimAttr blocks = ceilDim(s.space[across], tileAcross()) * ceilDim(s.space[along], tileAlong());
  for (auto [axis, size] : llvm::enumerate(s.space))
    if (int64_t(axis) != across && int64_t(axis) != along)
      blocks = blocks * size;
  plan.lanes = patchAlong;
  plan.unroll = patchAcross;
  plan.stages = {{"", blocks, kThreads}};
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

namespace {

class TransposedMap {
public:
  TransposedMap(GpuKernel &kernel, const TransposedShape &shape)
      : e(kernel.nextStage()), s(kernel.structure), shape(shape) {}

  void run();

private:
  void placeTile();
  void patches();
  void elements();
  void stageElements(Value beginAlong, ArrayRef<Value> arrays);
  void useElements(Value beginAlong, ArrayRef<Value> arrays);

  /// The current tile's outer coordinates with these on its axes.
  Index indexAt(const ElementIndex &across, const ElementIndex &along) const {
    Index index = outer;
    index[shape.across] = across;
    index[shape.along] = along;
    return index;
  }
  static Index inputIndex(const InputAccess &access, const Index &index) {
    Index result;
    for (int64_t axis : access.axes)
      result.push_back(index[axis]);
    return result;
  }
  Value input(const InputAccess &access) { return e.fusion.getBody().getArgument(access.argument); }
  Type inputElement(const InputAccess &access) { return getElementType(input(access)); }
  Values results(const Index &index, const Values &staged);
  void store(const Index &index, const Values &values);

  GpuEmitter &e;
  const Structure &s;
  const TransposedShape &shape;
  /// Coordinates of the tile on the other axes, and where it begins on its own.
  Index outer;
  Value firstAcross, firstAlong;
};

} // namespace

/// From the block's number: along first, then across, then the other axes.
void TransposedMap::placeTile() {
  auto tiles = [&](int64_t axis, int64_t tile) {
    Value size = e.addIndex(e.dim(s.space[axis]), e.constantIndex(tile - 1));
    return e.divIndex(size, e.constantIndex(tile));
  };
  Value acrossTiles = tiles(shape.across, shape.tileAcross());
  Value alongTiles = tiles(shape.along, shape.tileAlong());
  Value rest = e.divIndex(e.block(), alongTiles);
  firstAlong = e.mulIndex(e.remIndex(e.block(), alongTiles), e.constantIndex(shape.tileAlong()));
  SmallVector<DimAttr> outerSizes(s.space);
  outerSizes[shape.across] = outerSizes[shape.along] = DimAttr::constant(e.fusion.getContext(), 1);
  Value acrossTile = rest;
  outer.assign(s.space.size(), e.constant(0));
  if (!llvm::all_of(outerSizes, [](DimAttr size) { return size.isConstant(1); })) {
    acrossTile = e.remIndex(rest, acrossTiles);
    outer = e.delinearize(e.divIndex(rest, acrossTiles), outerSizes);
  }
  firstAcross = e.mulIndex(acrossTile, e.constantIndex(shape.tileAcross()));
}

/// What is stored at `index`, where the staged inputs have these values.
Values TransposedMap::results(const Index &index, const Values &staged) {
  e.spaceIndex = index;
  e.resident = [&](Value value, ArrayRef<ElementIndex> at) -> Value {
    for (auto [access, known] : llvm::zip_equal(shape.staged, staged))
      if (value == input(access) && KernelEmitter::same(at, inputIndex(access, index)))
        return known;
    return {};
  };
  Values values;
  for (const Store &place : s.stores)
    values.push_back(e.evaluateLanes(place.value, index));
  e.resident = nullptr;
  e.spaceIndex.clear();
  return values;
}

void TransposedMap::store(const Index &index, const Values &values) {
  for (auto [place, value] : llvm::zip_equal(s.stores, values))
    e.store(place, index, value);
}

/// Each thread's patch, in registers.
void TransposedMap::patches() {
  // Side by side in a warp: a line of the results, a good part of one of the inputs.
  int64_t warpAlong = std::min<int64_t>(8, shape.threadsAlong);
  warpAlong = std::max(warpAlong, kWarp / shape.threadsAcross);
  int64_t warpAcross = kWarp / warpAlong, warpsAlong = shape.threadsAlong / warpAlong;
  Value warp = e.divIndex(e.thread(), e.constantIndex(kWarp)),
        lane = e.remIndex(e.thread(), e.constantIndex(kWarp));
  auto place = [&](Value first, Value number, int64_t width, Value inWarp, int64_t patch) {
    Value thread = e.addIndex(e.mulIndex(number, e.constantIndex(width)), inWarp);
    return e.addIndex(first, e.mulIndex(thread, e.constantIndex(patch)));
  };
  Value along = place(firstAlong, e.remIndex(warp, e.constantIndex(warpsAlong)), warpAlong,
                      e.remIndex(lane, e.constantIndex(warpAlong)), shape.patchAlong);
  Value across = place(firstAcross, e.divIndex(warp, e.constantIndex(warpsAlong)), warpAcross,
                       e.divIndex(lane, e.constantIndex(warpAlong)), shape.patchAcross);
  // Axes that are multiples of the tile need no condition.
  unsigned conditions = 0;
  auto guard = [&](Value begin, int64_t axis, int64_t tile) {
    auto size = s.space[axis].getConstant();
    if (size && *size % tile == 0)
      return;
    e.openIf(e.lessIndex(begin, e.dim(s.space[axis])));
    ++conditions;
  };
  guard(across, shape.across, shape.tileAcross());
  guard(along, shape.along, shape.tileAlong());

  e.setLanes(shape.patchAcross);
  SmallVector<Values> columns(shape.staged.size());
  for (auto [access, vectors] : llvm::zip_equal(shape.staged, columns))
    for (int64_t i = 0; i < shape.patchAlong; ++i) {
      Index index = indexAt({across, 1, {}}, {e.addIndex(along, e.constantIndex(i)), 0, {}});
      vectors.push_back(e.evaluateLanes(input(access), inputIndex(access, index)));
    }

  e.setLanes(shape.patchAlong);
  OpBuilder &b = e.builder();
  // Columns of the patch are turned into rows in registers.
  auto row = [&](ArrayRef<Value> vectors, int64_t j) -> Value {
    Values elements;
    for (Value vector : vectors)
      elements.push_back(vector::ExtractOp::create(b, e.loc(), vector, ArrayRef<int64_t>{j}));
    auto type = VectorType::get(shape.patchAlong, elements.front().getType());
    return vector::FromElementsOp::create(b, e.loc(), type, elements);
  };
  // Loads of what is read directly are in flight for a few rows.
  int64_t together = std::clamp<int64_t>(32 / shape.patchAlong, 1, shape.patchAcross);
  for (int64_t first = 0; first < shape.patchAcross; first += together) {
    SmallVector<Index> indices;
    SmallVector<Values> values;
    for (int64_t j = first; j < first + together; ++j) {
      Values staged;
      for (const Values &vectors : columns)
        staged.push_back(row(vectors, j));
      ElementIndex position{e.addIndex(across, e.constantIndex(j)), 0, {}};
      indices.push_back(indexAt(position, {along, 1, {}}));
      values.push_back(results(indices.back(), staged));
    }
    for (auto [index, list] : llvm::zip_equal(indices, values))
      store(index, list);
  }
  for (; conditions > 0; --conditions)
    e.closeIf();
}

/// Elements between rows of a tile in shared memory: an odd number of banks.
static int64_t tilePitch(int64_t width, int64_t bytes) {
  return width + std::max<int64_t>(1, 4 / bytes);
}

/// Reads a part of the tile in the inputs' order.
void TransposedMap::stageElements(Value beginAlong, ArrayRef<Value> arrays) {
  int64_t width = shape.tileAcross(), count = width * shape.tileAlong() / 2 / kThreads;
  int64_t unroll = std::min<int64_t>(8, count);
  auto loop = e.openLoop(e.constantIndex(0), e.constantIndex(count / unroll), e.constantIndex(1));
  Value one = e.constantIndex(1);
  Value lastAcross = e.subIndex(e.dim(s.space[shape.across]), one),
        lastAlong = e.subIndex(e.dim(s.space[shape.along]), one);
  Value round = e.mulIndex(loop.getInductionVar(), e.constantIndex(unroll * kThreads));
  SmallVector<Values> loaded;
  Values rows, columns;
  for (int64_t i = 0; i < unroll; ++i) {
    Value number = e.addIndex(e.addIndex(round, e.thread()), e.constantIndex(i * kThreads));
    columns.push_back(e.remIndex(number, e.constantIndex(width)));
    rows.push_back(e.divIndex(number, e.constantIndex(width)));
    // What lies behind the end is read and never used.
    ElementIndex across{e.minIndex(e.addIndex(firstAcross, columns.back()), lastAcross), 0, {}};
    ElementIndex along{e.minIndex(e.addIndex(beginAlong, rows.back()), lastAlong), 0, {}};
    Index index = indexAt(across, along);
    Values &values = loaded.emplace_back();
    for (const InputAccess &access : shape.staged)
      values.push_back(e.evaluate(input(access), inputIndex(access, index)));
  }
  for (auto [values, row, column] : llvm::zip_equal(loaded, rows, columns))
    for (auto [access, array, value] : llvm::zip_equal(shape.staged, arrays, values)) {
      Value pitch = e.constantIndex(tilePitch(width, access.bytes));
      Value place = e.addIndex(e.mulIndex(row, pitch), column);
      e.storeTo(array, inputElement(access), {place, 0, {}}, value);
    }
  e.closeLoop(loop);
}

/// Computes and writes a part of the tile in the results' order.
void TransposedMap::useElements(Value beginAlong, ArrayRef<Value> arrays) {
  int64_t width = shape.tileAlong() / 2, count = width * shape.tileAcross() / kThreads;
  int64_t unroll = std::min<int64_t>(4, count);
  auto loop = e.openLoop(e.constantIndex(0), e.constantIndex(count / unroll), e.constantIndex(1));
  Value one = e.constantIndex(1);
  Value sizeAcross = e.dim(s.space[shape.across]), sizeAlong = e.dim(s.space[shape.along]);
  Value round = e.mulIndex(loop.getInductionVar(), e.constantIndex(unroll * kThreads));
  SmallVector<Index> indices;
  SmallVector<Values> values;
  Values active;
  for (int64_t i = 0; i < unroll; ++i) {
    Value number = e.addIndex(e.addIndex(round, e.thread()), e.constantIndex(i * kThreads));
    Value row = e.remIndex(number, e.constantIndex(width)),
          column = e.divIndex(number, e.constantIndex(width));
    Values staged;
    for (auto [access, array] : llvm::zip_equal(shape.staged, arrays)) {
      Value pitch = e.constantIndex(tilePitch(shape.tileAcross(), access.bytes));
      Value place = e.addIndex(e.mulIndex(row, pitch), column);
      staged.push_back(e.loadFrom(array, inputElement(access), {place, 0, {}}));
    }
    Value across = e.addIndex(firstAcross, column), along = e.addIndex(beginAlong, row);
    active.push_back(arith::AndIOp::create(e.builder(), e.loc(), e.lessIndex(across, sizeAcross),
                                           e.lessIndex(along, sizeAlong)));
    e.setActive(active.back());
    // Beyond the end the last element is computed once more, of whatever the tile has there.
    across = e.minIndex(across, e.subIndex(sizeAcross, one));
    along = e.minIndex(along, e.subIndex(sizeAlong, one));
    indices.push_back(indexAt({across, 0, {}}, {along, 0, {}}));
    values.push_back(results(indices.back(), staged));
  }
  e.setActive({});
  for (auto [index, list, condition] : llvm::zip_equal(indices, values, active)) {
    e.openIf(condition);
    store(index, list);
    e.closeIf();
  }
  e.closeLoop(loop);
}

/// The tile in two parts, one after the other, through shared memory.
void TransposedMap::elements() {
  e.setLanes(1);
  int64_t width = shape.tileAlong() / 2;
  Values arrays;
  for (const InputAccess &access : shape.staged)
    arrays.push_back(
        e.shared(inputElement(access), width * tilePitch(shape.tileAcross(), access.bytes)));
  auto loop = e.openLoop(e.constantIndex(0), e.constantIndex(2), e.constantIndex(1));
  Value part = e.mulIndex(loop.getInductionVar(), e.constantIndex(width));
  Value begin = e.addIndex(firstAlong, part);
  stageElements(begin, arrays);
  e.syncBlock();
  useElements(begin, arrays);
  // Before the arrays are written again.
  e.syncBlock();
  e.closeLoop(loop);
}

void TransposedMap::run() {
  placeTile();
  DimAttr acrossSize = s.space[shape.across], alongSize = s.space[shape.along];
  if (!shape.hasPatches) {
    elements();
  } else if (acrossSize.getConstant() && alongSize.getConstant()) {
    patches();
  } else {
    // Both forms are in the code; which one runs depends on the sizes of the batch.
    Value rest = e.addIndex(e.remIndex(e.dim(acrossSize), e.constantIndex(shape.patchAcross)),
                            e.remIndex(e.dim(alongSize), e.constantIndex(shape.patchAlong)));
    auto assume = [&](bool whole) {
      // Both may be the same size; the longer vector is a multiple of the shorter.
      bool same = acrossSize == alongSize;
      int64_t both = std::max(shape.patchAcross, shape.patchAlong);
      assert(both % std::min(shape.patchAcross, shape.patchAlong) == 0 && "powers of two");
      if (!acrossSize.getConstant())
        e.assumeMultiple(e.dim(acrossSize), !whole ? 1 : same ? both : shape.patchAcross);
      if (!alongSize.getConstant())
        e.assumeMultiple(e.dim(alongSize), !whole ? 1 : same ? both : shape.patchAlong);
    };
    e.openIf(e.lessIndex(rest, e.constantIndex(1)));
    assume(true);
    patches();
    assume(false);
    e.closeIf();

    e.openIf(e.lessIndex(e.constantIndex(0), rest));
    elements();
    e.closeIf();
  }
  e.finish();
}

void mapTransposed(GpuKernel &kernel, const TransposedShape &shape) {
  TransposedMap(kernel, shape).run();
}

} // namespace trainc::codegen
