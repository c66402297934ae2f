// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The mask of an attention, taken apart: which columns a row sees as a list of conditions that all
// must hold, each at the shape that it depends on, and floats that are added to the scores.
#ifndef TRAINC_TRANSFORMS_ATTENTIONMASK_H
#define TRAINC_TRANSFORMS_ATTENTIONMASK_H

#include "dialects/Train/TrainBuilder.h"

namespace trainc {

/// A value at the coordinates (batch, head, row, column) of the scores: `axes[a]` is the coordinate
/// that axis `a` runs along, -1 where the axis has size 1.
struct CoordinateView {
  mlir::Value value;
  llvm::SmallVector<int> axes;
};

/// A float that is added to the scores, times a number.
struct ScoreBias {
  CoordinateView view;
  double factor = 1;
};

struct AffineDistance;

class AttentionMask {
public:
  /// Adding a score to a number below this gives the number, in f32.
  static constexpr double kAbsorbing = -1e30;

  /// `dims`: sizes of the scores' four coordinates.
  explicit AttentionMask(llvm::ArrayRef<train::DimAttr> dims) : dims(dims) {}

  /// A column is visible where `condition` (or its negation) holds. `masked` is what the scores are
  /// elsewhere. False if that is no large negative number.
  bool addCondition(CoordinateView condition, bool negated, double masked);
  /// The same of a number that is far below scores, but does not absorb them: what it masks has no
  /// weight in rows that see something.
  bool addWeakCondition(CoordinateView condition, bool negated, double masked);
  /// Takes weak conditions for others, where every row is known to see something.
  void useWeakConditions();
  /// A float, times `factor`, is added to the scores.
  void addBias(CoordinateView bias, double factor = 1);

  /// Leaves out what is known of all rows and columns that matter: `known` gives the number that a
  /// value holds there.
  void assume(llvm::function_ref<std::optional<double>(mlir::Value)> known);

  /// Leaves out that row and column have the same element of `input` [batch, positions]; false if
  /// the mask does not say so.
  bool takeSameElement(mlir::Value input);

  /// A value [batch, positions] whose elements at row and column have to be equal; null if the mask
  /// has no such condition.
  mlir::Value findSameElement() const;
  /// Takes conditions on how far the column's element of `input` [batch, positions] is from that of
  /// the row for bounds on columns; for inputs whose elements go up by one from column to column.
  void takeDistances(mlir::Value input);

  /// The row of the same number is the last column that is seen.
  bool isCausal() const { return causal || after == 0; }
  /// How many columns before and after its own a row sees; null: all, or those of a causal mask.
  std::optional<int64_t> getBefore() const { return before; }
  std::optional<int64_t> getAfter() const { return isCausal() ? std::nullopt : after; }
  bool hasWindow() const { return getBefore() || getAfter(); }
  bool isEmpty() const { return conditions.empty() && biases.empty(); }
  /// Whether there may be rows that see no column.
  bool mayHideRows() const { return !conditions.empty() || (!biases.empty() && !finiteBiases); }
  /// Whether rows that see nothing may have the model's own value of this kind: all -inf, or all
  /// the least float.
  bool mayBeInfinite() const { return infinite || (!biases.empty() && !finiteBiases); }
  bool isFinite() const { return finite; }
  llvm::ArrayRef<ScoreBias> getBiases() const { return biases; }
  /// What is added to the scores is known to be far above what hides a column.
  void assumeFiniteBiases() { finiteBiases = true; }
  bool hasFiniteBiases() const { return finiteBiases && !biases.empty(); }

  /// What is added to the scores besides the causal mask, in f32, no less than `least`: a value of
  /// four axes, the first three of size 1 where it does not depend on them.
  mlir::Value buildBias(train::TrainBuilder &tb, double least) const;
  /// Rows that see no column: [batch or 1, heads or 1, rows or 1].
  mlir::Value buildDeadRows(train::TrainBuilder &tb) const;

private:
  struct Condition {
    CoordinateView view;
    bool negated;
  };
  /// As a bias it stands in `biases`, too.
  struct WeakCondition {
    Condition condition;
    mlir::Value bias;
  };
  void add(CoordinateView view, bool negated);
  /// Takes a condition for bounds on columns, if it says nothing else. `input`: elements that stand
  /// for coordinates, or null.
  bool takeBounds(const CoordinateView &view, bool negated, mlir::Value input);
  bool takeBound(const AffineDistance &distance, bool ofCoordinates);
  /// Sizes of the coordinates that the mask depends on, 1 for the others.
  /// `ofDeadRows`: of what may hide columns, bounds among it.
  llvm::SmallVector<train::DimAttr> getDims(bool ofDeadRows) const;
  mlir::Value buildConditions(train::TrainBuilder &tb, llvm::ArrayRef<train::DimAttr> shape) const;
  mlir::Value buildSum(train::TrainBuilder &tb, llvm::ArrayRef<train::DimAttr> shape,
                       double least) const;

  llvm::SmallVector<train::DimAttr> dims;
  llvm::SmallVector<Condition> conditions;
  llvm::SmallVector<WeakCondition> weak;
  llvm::SmallVector<ScoreBias> biases;
  bool causal = false, infinite = false, finite = false, finiteBiases = false;
  std::optional<int64_t> before, after;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_ATTENTIONMASK_H
