// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a value holds at the positions of tokens, and where two of its axes are at the same token.
#ifndef TRAINC_TRANSFORMS_ELIMINATEPADDING_TOKENELEMENTS_H
#define TRAINC_TRANSFORMS_ELIMINATEPADDING_TOKENELEMENTS_H

#include "lib/Transforms/EliminatePadding/Content.h"
#include "lib/Transforms/EliminatePadding/PaddingFlow.h"
#include "lib/Transforms/EliminatePadding/TokenAxes.h"
#include "trainc/Analysis/AffineIntegers.h"
#include <map>

namespace trainc {

/// Follows an element backwards to those that it is made of. Coordinates are told by labels: axes
/// with the same label are at the same place, so that what both read there is the same element and
/// cancels where two are compared or subtracted.
class TokenElements {
public:
  /// `contents`: of all elements of a value, where it is known.
  TokenElements(const PaddingMask &mask, const llvm::DenseMap<mlir::Value, Content> &contents)
      : mask(mask), contents(contents) {}

  /// What `value` holds where `axes` are at a token of the sample, whatever the other coordinates;
  /// with `row`, where that axis is at the same token. Nothing if the axes cannot be told apart.
  std::optional<train::Range> get(mlir::Value value, const TokenAxes &axes,
                                  std::optional<int64_t> row);

private:
  using Labels = llvm::SmallVector<int, 4>;
  /// `offset`, above an element that is known by a number, if that is not -1.
  struct Element {
    int base = -1;
    train::Range offset;
  };

  Element visit(mlir::Value value, const Labels &labels);
  Element compute(mlir::Value value, const Labels &labels);
  Element computePointwise(mlir::Operation *op, const Labels &labels);
  std::optional<Element> computeAffine(mlir::Value value, const Labels &labels);
  std::optional<Element> computeConstant(mlir::Value value, const Labels &labels);
  std::optional<Labels> throughMove(mlir::Operation *op, const Labels &labels);
  Labels throughReshape(mlir::Value from, mlir::Value to, const Labels &labels);
  Labels split(int label, llvm::ArrayRef<train::DimAttr> dims);
  int merge(llvm::ArrayRef<int> labels, llvm::ArrayRef<train::DimAttr> dims);
  /// An element that is only known to be itself.
  Element opaque(mlir::Value value, const Labels &labels, const train::Range &range);
  train::Range rangeOf(const Element &element) const;
  train::Range contentOf(mlir::Value value) const;

  PaddingMask mask;
  const llvm::DenseMap<mlir::Value, Content> &contents;
  AffineIntegers affine;
  /// What the mask holds at a token.
  train::Range token;
  std::map<std::pair<void *, std::vector<int>>, Element> known;
  std::map<std::pair<void *, std::vector<int>>, int> bases;
  std::vector<train::Range> baseRanges;
  /// Axes that were merged into one, and what one was split into.
  struct Parts {
    Labels labels;
    llvm::SmallVector<train::DimAttr> dims;
  };
  std::map<int, Parts> merged;
  int numLabels = 0;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ELIMINATEPADDING_TOKENELEMENTS_H
