// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ops of several ranks.
#ifndef TRAINC_DIALECTS_TRAIN_COLLECTIVES_COLLECTIVES_H
#define TRAINC_DIALECTS_TRAIN_COLLECTIVES_COLLECTIVES_H

#include "dialects/Train/TrainBuilder.h"
#include "dialects/Train/TrainDialect.h"

namespace trainc::train::detail {
/// Every element of a result may depend on all of all operands.
AxisMap collectiveAxisMap(mlir::Operation *op);
/// Of one rank among one: the results are the operands, with zeros behind them or without those.
llvm::LogicalResult evaluateAlone(llvm::ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                                  llvm::MutableArrayRef<HostTensor> results);
} // namespace trainc::train::detail

namespace trainc::train {
/// Of a call that all ranks make together.
template <typename Op>
class CollectiveCall : public mlir::OpTrait::TraitBase<Op, CollectiveCall> {};
/// Of one that adds up, from narrower numbers, too.
template <typename Op> class SumOverRanks : public mlir::OpTrait::TraitBase<Op, SumOverRanks> {};
/// On such a call (unit): it is made for the other ranks alone, so that it stays without readers.
inline constexpr llvm::StringLiteral kForOthersAttr = "train.for_others";
/// On one that adds up gradients, or stands behind these: its number among such of its function, by
/// which the same call of other functions is found. Equal ones must not become one.
inline constexpr llvm::StringLiteral kBucketAttr = "train.bucket";
/// On an all-reduce of one number (unit): it decides whether a step is made, so that a rank that
/// has met a bad index has 1 for it.
inline constexpr llvm::StringLiteral kVerdictAttr = "train.verdict";
/// On a function (text): ranks may run another one at the same time that has the same, a function's
/// name, so that all of these have the same collectives, in the order of the program.
inline constexpr llvm::StringLiteral kInStepAttr = "train.in_step";
/// On @exchange (unit): it takes accumulators and makes sums in their place, with the last
/// micro-batch of a step.
inline constexpr llvm::StringLiteral kWithLastAttr = "train.with_last";

/// Whether it adds up numbers that are narrower than the sums, which are elsewhere then.
bool widensOverRanks(mlir::Operation *op);
/// What ranks add up to `value` in its place, if all that is done with it is that; else null: also
/// where the sum is of another type.
mlir::Value getSumOverRanks(mlir::Value value);
/// What `value` is the sum over all ranks of, in its place; null: it is none.
mlir::Value getSummedOverRanks(mlir::Value value);
} // namespace trainc::train

#define GET_OP_CLASSES
#include "dialects/Train/TrainCollectives.h.inc"

namespace trainc::train {
/// How many ranks share a replica of what is in shards, which are all of a run unless it says
/// fewer: a symbol of every run, which no input tells.
inline constexpr llvm::StringLiteral kWorldSymbol = "world";
DimAttr getWorld(mlir::MLIRContext *context);
/// How many ranks a run has: for costs alone, so that no program depends on it and no size is
/// called so.
inline constexpr llvm::StringLiteral kAllRanksSymbol = "<all ranks>";
DimAttr getAllRanks(mlir::MLIRContext *context);

/// The sums of these values over all ranks, which have one element type.
llvm::SmallVector<mlir::Value> buildAllReduce(mlir::OpBuilder &builder, mlir::Location loc,
                                              mlir::ValueRange values);
/// Whether `condition`, an i1, holds on one of the ranks: their number is exact. `isVerdict`: or
/// one has met a bad index (kVerdictAttr).
mlir::Value buildHoldsOnAnyRank(TrainBuilder &tb, mlir::Value condition, bool isVerdict = false);
/// The same sum of some of its operands, for which others of the same sizes may stand.
mlir::Operation *buildSumOfSome(mlir::OpBuilder &builder, mlir::Operation *sum,
                                llvm::ArrayRef<unsigned> which, mlir::ValueRange operands);
/// The rank's shards of these sums, as `types` of as many elements each.
llvm::SmallVector<mlir::Value> buildReduceScatter(mlir::OpBuilder &builder, mlir::Location loc,
                                                  mlir::ValueRange values, mlir::TypeRange types,
                                                  llvm::ArrayRef<int64_t> units);
/// The tensors of these types whose shards these values are.
llvm::SmallVector<mlir::Value> buildAllGather(mlir::OpBuilder &builder, mlir::Location loc,
                                              mlir::ValueRange values, mlir::TypeRange types,
                                              llvm::ArrayRef<int64_t> units);
} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_COLLECTIVES_COLLECTIVES_H
