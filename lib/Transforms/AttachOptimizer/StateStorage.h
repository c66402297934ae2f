// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How optimizer state lies in memory between two updates: as it is, in bf16, or in 8 bits a number
// with a scale for each block. An optimizer's formulas see f32; whoever attaches one loads its
// state before them and stores it behind them, which kernels then do in passing.
//
// Both 16 and 8 bits are rounded stochastically: up with the probability with which the mean is the
// number itself. To the nearest, an average of squares with a decay of 0.999 would not move at all,
// as its changes are smaller than half of what separates two numbers of such a type. The random
// bits are Philox's, of seed, step, the parameter's name and the element.
//
// 8 bits are signs and magnitudes that follow a power, which makes steps small where numbers are
// small, as the tree of Dettmers et al. 2021 ("8-bit optimizers via block-wise quantization",
// arXiv 2110.02861) does, but with a root in place of a search. With `m` the largest magnitude of
// the block, the code c stands for
//   m * c * |c| / 127^2    c = -127 ... 127
//   m * (c / 255)^4        c = 0 ... 255, of state that is never negative, stored as c - 128
// so that the root of a second moment has the steps of a first moment. Such state is rounded to 0
// only if it is 0: it is divided by.
#ifndef TRAINC_TRANSFORMS_ATTACHOPTIMIZER_STATESTORAGE_H
#define TRAINC_TRANSFORMS_ATTACHOPTIMIZER_STATESTORAGE_H

#include "dialects/Train/Collectives/Shards.h"
#include "dialects/Train/Optimizer.h"

namespace trainc {

enum class StateFormat {
  /// The parameter's own type.
  Parameter,
  /// f32, and f64 for parameters of f64.
  F32,
  BF16,
  /// Parameters with few elements have F32.
  Int8
};

/// By its name on the command line: fp32, bf16, int8, or "" for the parameter's own type.
std::optional<StateFormat> parseStateFormat(llvm::StringRef name);

/// The storage of the state of one parameter, or of a rank's shard of it.
class StateStorage {
public:
  StateStorage(StateFormat format, mlir::Type parameter, bool isSharded);

  /// A tensor that a state lies in; the suffix is that of its name.
  struct Part {
    llvm::StringRef suffix;
    mlir::Type type;
    /// Where `type` is that of a shard.
    std::optional<train::Shard> shard = {};
  };
  llvm::ArrayRef<Part> getParts() const { return parts; }
  /// The shard of the parameter that is updated here; none: all of it.
  const std::optional<train::Shard> &getShard() const { return shard; }
  /// The type that parameter, or shard, and gradient come in.
  mlir::Type getArgumentType() const { return argumentType; }
  /// Of each tensor, a rank's shard in the shape that its update is computed in, the sum over all
  /// ranks: of rows first, then of these in their order, so that its bits do not depend on how many
  /// ranks there are. Those of all tensors travel together.
  static llvm::SmallVector<mlir::Value>
  sumOverRanks(train::TrainBuilder &tb,
               llvm::ArrayRef<std::pair<const StateStorage *, mlir::Value>> tensors);
  /// Whether `store` wants random bits.
  bool isRounded() const { return format == StateFormat::BF16 || format == StateFormat::Int8; }

  /// `x`, of the parameter's shape, in the shape that the update is computed in.
  mlir::Value arrange(train::TrainBuilder &tb, mlir::Value x) const;
  /// And back.
  mlir::Value restore(train::TrainBuilder &tb, mlir::Value x) const;
  /// Random bits for `store`, of the hyper-parameters seed and step and the parameter's name.
  mlir::Value drawBits(train::TrainBuilder &tb, mlir::Value seed, mlir::Value step,
                       llvm::StringRef parameter) const;
  /// The state that lies in `stored`.
  mlir::Value load(train::TrainBuilder &tb, mlir::ValueRange stored,
                   const train::OptimizerState &state) const;
  /// What is to lie there for `x`, in place of `old`. States of one parameter share bits: `number`
  /// is that of this one, 0 or 1.
  llvm::SmallVector<mlir::Value> store(train::TrainBuilder &tb, mlir::Value x, mlir::ValueRange old,
                                       const train::OptimizerState &state, mlir::Value bits,
                                       unsigned number) const;

private:
  /// Makes the types those of a rank's shards, of blocks of so many elements.
  void cut(int64_t block);
  /// Sixteen of the bits as a number from 0 to 65535.
  mlir::Value half(train::TrainBuilder &tb, mlir::Value bits, unsigned number) const;

  StateFormat format;
  llvm::SmallVector<train::DimAttr> parameterDims, dims;
  /// Elements of the parameter, and of its blocks where the last one is not full.
  int64_t elements = 0, padded = 0;
  llvm::SmallVector<Part, 2> parts;
  std::optional<train::Shard> shard;
  mlir::Type argumentType;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ATTACHOPTIMIZER_STATESTORAGE_H
