// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Symbols of a run, and shards: the part of a tensor that one rank holds
// (docs/design/distribute.md).
#ifndef TRAINC_DIALECTS_TRAIN_COLLECTIVES_SHARDS_H
#define TRAINC_DIALECTS_TRAIN_COLLECTIVES_SHARDS_H

#include "dialects/Train/Collectives/Collectives.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc::train {

/// On a symbol (unit): no batch has it but the run, from its first step to its last.
inline constexpr llvm::StringLiteral kRunAttr = "train.run";
/// Beside kWorldSymbol, on which sizes may depend: which of those ranks this is. Only starts may
/// depend on it.
inline constexpr llvm::StringLiteral kRankSymbol = "rank";

/// What sizes in a report call as many ranks as share a replica, where these are not all.
inline constexpr llvm::StringLiteral kShardsName = "shards";

/// Declares both, in front of all functions; or returns a name of the ranks that a size of the
/// model has already.
std::optional<llvm::StringRef> declareRunSymbols(mlir::ModuleOp module);
bool isOfRun(SymbolOp symbol);
/// Whether this module or one around it declares both.
bool hasRunSymbols(mlir::ModuleOp module);

/// On an argument that is a rank's shard of a tensor: {of = the whole tensor's type, unit = how
/// many elements of it are never cut}.
inline constexpr llvm::StringLiteral kShardAttr = "train.shard";

/// How a tensor is cut: rank r has the r-th of equal parts of its elements, each a number of whole
/// units; behind the tensor's end there are zeros.
struct Shard {
  mlir::RankedTensorType of;
  int64_t unit = 0;

  /// Units of a rank, an expression over the world.
  DimAttr units() const;
  /// Elements of a rank.
  DimAttr elements() const;
  mlir::DictionaryAttr toAttr() const;
};

/// Elements of a block of a tensor with so many (4096 at least): those that share a scale where
/// optimizer state is stored in 8 bits. Deterministic in the size alone: a checkpoint's blocks are
/// those of any package of the same parameter.
int64_t chooseBlock(int64_t elements);
/// How ranks cut a parameter, its gradient and its state, with 4096 elements at least.
Shard chooseShard(mlir::RankedTensorType whole);
/// The dims that such a shard comes in: rows of a block.
llvm::SmallVector<DimAttr, 2> getShardDims(const Shard &shard);

/// Of an argument of a function; none where it is whole.
std::optional<Shard> getShard(mlir::func::FuncOp function, unsigned argument);

/// This rank's shard of `whole`, in a shape of as many elements, of which the last axis divides the
/// unit.
mlir::Value takeShard(TrainBuilder &tb, mlir::Value whole, const Shard &shard,
                      llvm::ArrayRef<DimAttr> dims);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_COLLECTIVES_SHARDS_H
