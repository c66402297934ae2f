// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values that PyTorch has in a 16-bit type: behind convolutions as its autocast does, in a model
// whose parameters are of that type everywhere.
#ifndef TRAINC_TRANSFORMS_MIXEDPRECISION_CARRIEDTYPES_H
#define TRAINC_TRANSFORMS_MIXEDPRECISION_CARRIEDTYPES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/SmallBitVector.h"

namespace trainc {

/// A walk in program order over a function in which casts stand around the ops that run in the low
/// type.
class CarriedTypes {
public:
  /// `parameters`: they are of the low type, too, and with them what is made of them.
  CarriedTypes(mlir::func::FuncOp function, mlir::FloatType low, bool parameters);

  /// Whether PyTorch has it in the low type, and a convolution is among what it is made of, or
  /// parameters are of that type.
  bool isCarried(mlir::Value value) const;
  /// Whether a pointwise op or a concatenation brings several of these together in it.
  bool joins(mlir::Value value) const;

private:
  /// What a value is, in autocast's eyes. The order is that of `meet`: of several operands, the
  /// last one decides.
  enum class Kind {
    /// The same number everywhere, no float, or statistics of samples in a model of the low type:
    /// what any type goes with.
    Neutral,
    /// Of one axis, made of parameters alone, as biases and scales are.
    Parameter,
    /// Of one axis, made of sums over data: statistics of a batch.
    Statistic,
    /// The result of an op that ran in the low type.
    Product,
    /// Of 16 bits.
    Narrow,
    /// Of 16 bits, by statistics of the batch: batch normalisation, whose scales are a part of it.
    Normalised,
    /// Of f32.
    Wide,
  };
  struct Precision {
    Kind kind = Kind::Wide;
    /// Of what rounding is wanted.
    bool carries = false;
    bool joined = false;
    /// The one axis along which a Parameter or Statistic differs.
    int64_t axis = 0;
    /// Axes of windows' taps.
    llvm::SmallBitVector taps;

    bool isVector() const { return kind == Kind::Parameter || kind == Kind::Statistic; }
    bool isNarrow() const {
      return kind == Kind::Product || kind == Kind::Narrow || kind == Kind::Normalised;
    }
  };

  Precision lookup(mlir::Value value) const;
  Precision ofArgument(mlir::func::FuncOp function, mlir::BlockArgument argument) const;
  Precision ofResult(mlir::OpResult result) const;
  bool isMadeOfNeutral(mlir::Operation *op) const;
  Precision ofVector(mlir::OpResult result) const;
  Precision ofReduction(mlir::OpResult result) const;
  Precision ofMove(mlir::OpResult result) const;
  Precision ofOperands(mlir::OpResult result) const;

  mlir::FloatType low;
  bool parameters;
  llvm::DenseMap<mlir::Value, Precision> known;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_MIXEDPRECISION_CARRIEDTYPES_H
