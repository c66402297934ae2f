// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention between tokens that were put back into their rectangle for it (`eliminate-padding`):
// whether it can run on the packed tokens, with a segment for each sample.
#ifndef TRAINC_TRANSFORMS_TOKENSEGMENTS_H
#define TRAINC_TRANSFORMS_TOKENSEGMENTS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

class TokenSegments {
public:
  /// For q, k and v [samples, heads, positions, depth] and the result of the second product;
  /// nothing where one of them is not of packed tokens.
  static std::optional<TokenSegments> find(mlir::Value q, mlir::Value k, mlir::Value v,
                                           mlir::Value result);

  /// Of a value that masks are made of: the number it holds wherever a token meets a token, if it
  /// is the same everywhere.
  std::optional<double> valueAtTokens(mlir::Value value) const;

  /// [samples, heads, positions, depth] -> [1, heads, tokens, depth]
  mlir::Value pack(train::TrainBuilder &tb, mlir::Value value) const;
  /// [1, heads, tokens, depth] -> [samples, heads, positions, depth], zeros at padding
  mlir::Value unpack(train::TrainBuilder &tb, mlir::Value value) const;
  /// Where each sample's tokens begin, and where the last ends: i32 [samples + 1].
  mlir::Value buildOffsets(train::TrainBuilder &tb) const;
  /// Where each token was in its sample: i32 [tokens].
  mlir::Value buildPositions(train::TrainBuilder &tb) const;
  train::DimAttr getLongest() const { return positions; }

private:
  /// See PackedRows.
  mlir::Value rows, rowsOrNone, slots;
  train::DimAttr samples, positions;
  /// The input that masks, and the number that marks padding in it.
  mlir::BlockArgument mask;
  double padding = 0;
  /// Whether the mask is 1 at tokens.
  bool binary = false;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_TOKENSEGMENTS_H
