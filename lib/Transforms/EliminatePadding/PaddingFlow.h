// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What padding can influence: follows the places of a batch that hold no token through a forward
// pass and finds out whether anything but these places ever depends on what they hold.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// Where there is no token: where `input` [samples, positions] holds `value`.
struct PaddingMask {
  mlir::BlockArgument input;
  int64_t value = 0;
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

/// For values whose axes [samples, positions] are tokens: whether zeros at padding serve as well as
/// what the function has there. Asked with the two axes.
class PaddingContents {
public:
  bool isReplaceable(mlir::Value value, llvm::ArrayRef<int64_t> axes) const;

private:
  friend class PaddingFlow;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<llvm::SmallVector<int64_t, 2>, 1>> replaceable;
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

private:
  struct Scratch;
  std::unique_ptr<Scratch> scratch;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H
