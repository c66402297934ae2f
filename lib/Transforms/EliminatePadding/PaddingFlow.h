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
  /// Every sample has a token.
  bool someReal = false;
};

/// Analyses `function`, which holds no composites, with the argument numbers of the function it was
/// made from. `labels` are inputs (argument number) with the value that a loss ignores. `ids`: the
/// value that inputs of ids (argument number) are taken to hold in padding. On failure returns the
/// reason with the node.
std::string followPadding(mlir::func::FuncOp function, const PaddingMask &mask,
                          const llvm::DenseMap<unsigned, int64_t> &labels,
                          const llvm::DenseMap<unsigned, int64_t> &ids,
                          PaddingConditions &conditions);

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_PADDINGFLOW_H
