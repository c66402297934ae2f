// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What padding can influence: follows the places of a batch that hold no token through a forward
// pass and finds out whether anything but these places ever depends on what they hold.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H

#include "dialects/Train/Ranges/Ranges.h"
#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {
struct ElementaryCopy;

/// Where there is no token: where `input` [samples, positions] holds `value`.
struct PaddingMask {
  mlir::BlockArgument input;
  int64_t value = 0;
  /// What it holds at tokens, one of these.
  llvm::SmallVector<train::Range, 2> tokens;
  /// Another input that holds 1 at tokens; or null.
  mlir::BlockArgument beside = {};

  /// Holds this or 1, or 0 where that is 1.
  static PaddingMask binary(mlir::BlockArgument input, int64_t value);
  /// Holds this or a number above it.
  static PaddingMask above(mlir::BlockArgument input, int64_t value);
  static PaddingMask other(mlir::BlockArgument input, int64_t value);
};

/// What must hold of a batch, besides the mask, for its padding to have no influence.
struct PaddingConditions {
  /// input[sample, position + shift] holds `value` wherever there is no token at `position`.
  struct Fixed {
    unsigned input;
    int64_t shift, value;
    bool operator==(const Fixed &other) const = default;
  };
  llvm::SmallVector<Fixed> fixed;
  /// There is a token at this position of every sample; -1 is the last.
  llvm::SmallVector<int64_t> real;
  /// Every sample has something else in `input` than `value` somewhere.
  struct Some {
    unsigned input;
    int64_t value;
    bool operator==(const Some &other) const = default;
  };
  llvm::SmallVector<Some> some;
};

/// What an input of a function holds at padding (argument numbers).
struct PaddingInputs {
  PaddingMask mask;
  /// Labels hold the value that a loss ignores.
  llvm::DenseMap<unsigned, int64_t> labels;
  /// Ids that are taken to hold this one; all other inputs hold anything.
  llvm::DenseMap<unsigned, int64_t> ids;
};

/// What values hold at padding whose axes [samples, positions] are tokens. Asked with the two axes.
class PaddingContents {
public:
  /// Whether nothing relies on what a value has there but ops of a variant, for which it may be
  /// computed of tokens only.
  bool isPackable(mlir::Value value, llvm::ArrayRef<int64_t> axes) const;
  /// Whether 0 is among the numbers that the proof was made for.
  bool holdsZero(mlir::Value value, llvm::ArrayRef<int64_t> axes) const;

private:
  friend class PaddingFlow;
  struct Known {
    llvm::SmallVector<int64_t, 2> axes;
    bool isPackable, holdsZero;
  };
  const Known *find(mlir::Value value, llvm::ArrayRef<int64_t> axes) const;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<Known, 1>> known;
};

/// Answers questions about the padding of a function, which it takes apart once.
class PaddingFlow {
public:
  explicit PaddingFlow(mlir::func::FuncOp function);
  ~PaddingFlow();
  /// Why padding has an influence, with the node; empty if it has none under the conditions that
  /// are collected.
  std::string follow(const PaddingInputs &inputs, PaddingConditions &conditions) const;
  PaddingContents findContents(const PaddingInputs &inputs) const;

  /// A value of the function that has zeros at padding in place of what was there, and the axes of
  /// its tokens.
  struct Filled {
    mlir::Value value;
    llvm::SmallVector<int64_t, 2> axes;
  };
  struct Zeros {
    llvm::ArrayRef<Filled> filled;
    /// Selections of rows that are all of tokens.
    llvm::ArrayRef<mlir::Value> tokenRows;
    /// Positions of every sample that hold a token; -1 is the last.
    llvm::ArrayRef<int64_t> real;
  };
  /// Why zeros there make an infinity or NaN, in a result or in a gradient, that padding's own
  /// contents did not make, with the node; empty if they never do.
  std::string findHazard(const PaddingInputs &inputs, const Zeros &zeros) const;

private:
  std::unique_ptr<ElementaryCopy> scratch;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H
