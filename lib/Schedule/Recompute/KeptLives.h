// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers of a model over which values are passed on (skips of a U-Net, maps of a pyramid): cuts at
// places with several values, all of which are kept.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_KEPTLIVES_H
#define TRAINC_SCHEDULE_RECOMPUTE_KEPTLIVES_H

#include "lib/Schedule/Recompute/Layers.h"

namespace trainc {

/// Activations that lie in memory, from where they are made to where the forward pass reads them
/// last, and whether the backward pass reads them. What readers make again (moved elements, tensors
/// normalized by statistics, widening casts) is its source.
class KeptLives {
public:
  /// `ops`: of the forward pass, with arithmetic, in program order.
  KeptLives(const StepGraph &graph, llvm::ArrayRef<mlir::Operation *> ops);

  /// The cut with which the least is held: the bytes of all values alive at its places, each once,
  /// and of the most that the backward pass reads between two of them. The best of all cuts by
  /// dynamic programming, as a value is alive at consecutive places (as Feng and Huang, "Optimal
  /// Gradient Checkpoint Search for Arbitrary Computation Graphs", CVPR 2021, split a graph, here
  /// with values instead of vertices to keep). What is behind the last place is no layer: the
  /// backward pass begins with it. None where nothing is gained.
  std::vector<Layer> cut() const;

  /// Bytes by that measure, each symbol taken as 256.
  double guessHeld(llvm::ArrayRef<Layer> layers) const;

private:
  struct Life {
    mlir::Value value;
    /// Where it is made and read last, and from where on it has to be kept itself: while what one
    /// elementwise op makes it of is alive, that does.
    int first, last, needed;
    double bytes;
    bool kept;
  };
  struct Place {
    int position;
    /// Of the values alive there, the latest needed first.
    llvm::SmallVector<const Life *> alive;
  };
  /// The values in memory that `value` is read from.
  llvm::ArrayRef<mlir::Value> sourcesOf(mlir::Value value);
  bool isKept(mlir::Value value) const;
  void findNeeded();
  std::vector<Place> findPlaces() const;
  /// With at most `most` bytes between two places: the bytes at all places, and the place before
  /// each one; nothing where there is no such cut.
  double findPath(llvm::ArrayRef<Place> places, double most, std::vector<int> &path) const;

  const StepGraph &graph;
  llvm::ArrayRef<mlir::Operation *> ops;
  std::vector<Life> lives;
  llvm::DenseMap<mlir::Value, size_t> index;
  llvm::DenseMap<mlir::Value, llvm::SmallVector<mlir::Value, 2>> sources;
  llvm::DenseMap<mlir::Operation *, int> positions;
  /// Of what the backward pass reads of the first ops.
  std::vector<double> keptBefore;
};

} // namespace trainc

#endif // TRAINC_SCHEDULE_RECOMPUTE_KEPTLIVES_H
