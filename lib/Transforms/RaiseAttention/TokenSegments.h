// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Attention between tokens that were put back into their rectangle for it (`eliminate-padding`):
// whether it can run on the packed tokens, with a segment for each sample, or for each document
// where samples hold several.
#ifndef TRAINC_TRANSFORMS_TOKENSEGMENTS_H
#define TRAINC_TRANSFORMS_TOKENSEGMENTS_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

class TokenSegments {
public:
  /// For q, k and v [samples, heads, positions, depth] and the result of the second matmul;
  /// nothing where one of them is not of packed tokens.
  static std::optional<TokenSegments> find(mlir::Value q, mlir::Value k, mlir::Value v,
                                           mlir::Value result);

  /// The same of documents in a row that the numbers [samples, positions] tell apart, which count
  /// the sequences of an input of positions: all places hold tokens. Nothing where the sizes are
  /// others or are not counted.
  static std::optional<TokenSegments> ofSequences(mlir::Value q, mlir::Value k, mlir::Value numbers,
                                                  mlir::BlockArgument positions);

  /// The same of whole rows, each a segment of its own.
  static TokenSegments ofRows(mlir::Value q);

  /// Whether rows and columns are tokens of two sequences, one of them at least packed.
  static bool joinsSequences(mlir::Value q, mlir::Value k);

  /// Of a value that masks are made of: the number it holds wherever a token meets a token, if it
  /// is the same everywhere.
  std::optional<double> valueAtTokens(mlir::Value value) const;

  /// Whether all places hold tokens: packing is a view.
  bool isWhole() const { return !slots; }
  /// [samples, heads, positions, depth] -> [1, heads, tokens, depth]
  mlir::Value pack(train::TrainBuilder &tb, mlir::Value value) const;
  /// [1, heads, tokens, depth] -> [samples, heads, positions, depth], zeros at padding
  mlir::Value unpack(train::TrainBuilder &tb, mlir::Value value) const;
  /// The input of the documents' numbers, where the runtime checks that each is in one piece; else
  /// null.
  mlir::Value getDocuments() const { return documents ? mlir::Value(mask) : mlir::Value(); }
  /// Segments are documents from now on.
  void splitDocuments() { split = true; }
  bool areDocuments() const { return split; }
  /// Whether tokens of a segment are as far apart as they were in the rectangle.
  bool keepDistances() const { return isWhole() || unbroken; }
  /// Where each segment's tokens begin, and where the last ends: i32 [segments + 1].
  mlir::Value buildOffsets(train::TrainBuilder &tb) const;
  /// Which sample each token was in, and where in it: i32 [2, tokens].
  mlir::Value buildPositions(train::TrainBuilder &tb) const;
  train::DimAttr getLongest() const { return split ? longestDocument : positions; }

private:
  mlir::Value replayViews(train::TrainBuilder &tb, mlir::Value value) const;
  mlir::Value buildRows(train::TrainBuilder &tb) const;
  mlir::Value buildLengths(train::TrainBuilder &tb) const;
  mlir::Value buildDocumentLengths(train::TrainBuilder &tb) const;

  /// See PackedRows; null where all places hold tokens.
  mlir::Value rows, rowsOrNone, slots;
  /// What tells documents apart: the mask, or numbers of sequences.
  mlir::Value numbers;
  train::DimAttr samples, positions;
  /// The input that masks, and the number that marks padding in it.
  mlir::BlockArgument mask;
  double padding = 0;
  /// Whether it is 0 or 1, and at tokens what padding is not.
  bool binary = false;
  /// Whether it is above `padding` at tokens.
  bool above = false;
  /// Whether there is no padding within a segment.
  bool unbroken = false;
  /// Another input that is 1 wherever this one is not `padding`.
  mlir::BlockArgument ones;
  /// Whether it numbers documents; how many there are, and how long.
  bool documents = false, split = false;
  train::DimAttr numDocuments, longestDocument;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_TOKENSEGMENTS_H
