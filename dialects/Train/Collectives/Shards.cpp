// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of shards follow from the world, their places from the rank.

#include "dialects/Train/Collectives/Shards.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace trainc::train;

std::optional<StringRef> trainc::train::declareRunSymbols(ModuleOp module) {
  OpBuilder builder = OpBuilder::atBlockBegin(module.getBody());
  if (module.lookupSymbol(kShardsName))
    return kShardsName;
  for (StringRef name : {kWorldSymbol, kRankSymbol}) {
    if (module.lookupSymbol(name))
      return name;
    // A rank is below the world, of which there may be any.
    SymbolOp::create(builder, module.getLoc(), builder.getStringAttr(name),
                     builder.getI64IntegerAttr(name == kWorldSymbol), IntegerAttr(),
                     builder.getI64IntegerAttr(1), StringAttr(), IntegerAttr(), IntegerAttr(),
                     CountKindAttr::get(module.getContext(), CountKind::elements))
        ->setAttr(kRunAttr, builder.getUnitAttr());
  }
  return std::nullopt;
}

bool trainc::train::isOfRun(SymbolOp symbol) { return symbol->hasAttr(kRunAttr); }

bool trainc::train::hasRunSymbols(ModuleOp module) {
  for (; module; module = module->getParentOfType<ModuleOp>()) {
    auto isRun = [&](StringRef name) {
      auto symbol = module.lookupSymbol<SymbolOp>(name);
      return symbol && isOfRun(symbol);
    };
    if (isRun(kWorldSymbol) && isRun(kRankSymbol))
      return true;
  }
  return false;
}

/// The largest divisor of the tensor's size between these, or the largest, with a last block that
/// is not full.
static constexpr int64_t kLargestBlock = 256, kSmallestBlock = 64;
/// Elements that ranks do not cut, as many whole blocks as are not more than these: few enough for
/// equal shards, and enough for whole pages in files and memory.
static constexpr int64_t kUnit = 4096;

int64_t trainc::train::chooseBlock(int64_t elements) {
  assert(elements >= kUnit && "smaller tensors have no blocks");
  for (int64_t block = kLargestBlock; block >= kSmallestBlock; --block)
    if (elements % block == 0)
      return block;
  return kLargestBlock;
}

Shard trainc::train::chooseShard(RankedTensorType whole) {
  const int64_t block = chooseBlock(*getNumElements(whole).getConstant());
  return {whole, kUnit / block * block};
}

SmallVector<DimAttr, 2> trainc::train::getShardDims(const Shard &shard) {
  const int64_t block = chooseBlock(*getNumElements(shard.of).getConstant());
  auto constant = [&](int64_t value) { return DimAttr::constant(shard.of.getContext(), value); };
  return {shard.units() * constant(shard.unit / block), constant(block)};
}

DimAttr Shard::units() const {
  MLIRContext *context = of.getContext();
  const int64_t all = llvm::divideCeil(*getNumElements(of).getConstant(), unit);
  DimAttr world = DimAttr::symbol(context, kWorldSymbol);
  return floorDiv(world + DimAttr::constant(context, all - 1), world);
}

DimAttr Shard::elements() const { return units() * DimAttr::constant(of.getContext(), unit); }

DictionaryAttr Shard::toAttr() const {
  Builder builder(of.getContext());
  return builder.getDictionaryAttr({builder.getNamedAttr("of", TypeAttr::get(of)),
                                    builder.getNamedAttr("unit", builder.getI64IntegerAttr(unit))});
}

std::optional<Shard> trainc::train::getShard(func::FuncOp function, unsigned argument) {
  auto attr = function.getArgAttrOfType<DictionaryAttr>(argument, kShardAttr);
  if (!attr)
    return std::nullopt;
  return Shard{cast<RankedTensorType>(attr.getAs<TypeAttr>("of").getValue()),
               attr.getAs<IntegerAttr>("unit").getInt()};
}

/// By rows of the last axis where they fill the tensor: then a kernel asks once a row whether there
/// is one.
Value trainc::train::takeShard(TrainBuilder &tb, Value whole, const Shard &shard,
                               ArrayRef<DimAttr> dims) {
  const int64_t elements = *getNumElements(shard.of).getConstant();
  const int64_t columns = *dims.back().getConstant();
  assert(shard.unit % columns == 0 && "a unit has whole rows");
  DimAttr column = tb.dimAttr(columns), world = DimAttr::symbol(tb.context(), kWorldSymbol),
          rank = DimAttr::symbol(tb.context(), kRankSymbol);
  DimAttr rows = shard.units() * tb.dimAttr(shard.unit / columns);
  const int64_t wholeRows = llvm::divideCeil(elements, columns);
  if (elements % columns)
    whole = tb.pad(tb.reshape(whole, {tb.dimAttr(elements)}), 0, {tb.dimAttr(0)},
                   {tb.dimAttr(wholeRows * columns)});
  whole = tb.reshape(whole, {tb.dimAttr(wholeRows), column});
  whole = tb.pad(whole, 0, {tb.dimAttr(0), tb.dimAttr(0)}, {world * rows, column});
  return tb.reshape(tb.sliceAxis(whole, 0, rank * rows, rows), dims);
}
