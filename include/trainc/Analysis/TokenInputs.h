// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which inputs hold tokens of sequences or labels of a loss, and what marks the places in them that
// are not real: padding, and labels that the loss ignores.
#ifndef TRAINC_ANALYSIS_TOKENINPUTS_H
#define TRAINC_ANALYSIS_TOKENINPUTS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace trainc {

/// On an input that holds token ids (i64): the id that pads, as --pad-token says.
inline constexpr llvm::StringLiteral kPadTokenAttr = "train.pad_token";
/// The same as the graph says (padding_idx of the embedding): weaker than a mask.
inline constexpr llvm::StringLiteral kPaddingIdxAttr = "train.padding_idx";
/// On an input that holds token ids: the name of the input that masks it, as --pad-token says.
inline constexpr llvm::StringLiteral kPadMaskAttr = "train.pad_mask";

enum class TokenRole {
  Embed, ///< ids that choose rows of a parameter of rank 2
  Label, ///< class targets of a loss that ignores one of them
};

struct TokenInput {
  /// Of the function.
  mlir::BlockArgument input;
  TokenRole role;
  /// What marks a place as not real: the ignored label, or the id that pads where one is known.
  std::optional<int64_t> padValue;
  /// Embed: the input of the same sizes that is 0 where there is padding; null where there is none.
  mlir::BlockArgument mask;
  /// Whether the mask decides where there is padding: not where --pad-token names an id.
  bool byMask = false;
  /// Where ops read it as ids or labels, maybe through casts, reshapes, slices and pads.
  llvm::SmallVector<mlir::OpOperand *> uses;

  bool knowsPadding() const { return byMask || padValue.has_value(); }
};

/// Those of `function`, in the order of its arguments; an input that is both ids and labels is
/// there twice. Of several inputs of ids with the same sizes (tokens, segments, positions) it is
/// the one with the longest table, and those that the user named: only tokens tell padding.
llvm::SmallVector<TokenInput> findTokenInputs(mlir::func::FuncOp function);

} // namespace trainc

#endif // TRAINC_ANALYSIS_TOKENINPUTS_H
