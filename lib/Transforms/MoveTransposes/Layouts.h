// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ops of a function are computed with their axes in another order, so that the fewest bytes
// are transposed.
#ifndef TRAINC_TRANSFORMS_MOVETRANSPOSES_LAYOUTS_H
#define TRAINC_TRANSFORMS_MOVETRANSPOSES_LAYOUTS_H

#include "dialects/Train/Reorder/Reorder.h"
#include "lib/Transforms/MoveTransposes/MinCut.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace trainc {

using Order = llvm::SmallVector<int64_t>;

/// How a value is had of another one, that no op only permutes: its axis i is axis order[i] of the
/// root.
struct Source {
  mlir::Value root;
  Order order;
};

/// A transpose that there has to be: `reader` needs the root in an order in which it is not.
struct LeftTranspose {
  mlir::Value root;
  mlir::Operation *reader;
  double bytes;
};

class Layouts {
public:
  /// Of a function of one block.
  explicit Layouts(mlir::func::FuncOp function);

  /// Decides; whether that leaves fewer bytes to transpose than there are.
  bool choose();

  Source sourceOf(mlir::Value value) const;
  /// The orders of an op's operands and results, where they are others than the op has.
  const train::AxisOrders *ordersOf(mlir::Operation *op) const;
  /// Whether a value is made of so much less that it is computed in each order that is needed,
  /// instead of being transposed.
  bool isMadeOfLess(mlir::Value root) const;
  /// Whether an op has been found to fit in another order, whatever was decided.
  bool couldMove(mlir::Operation *op) const { return nodes.contains(op); }

  /// By what was decided. Bytes with each symbol as 256.
  llvm::SmallVector<LeftTranspose> findLeft() const;
  double bytesBefore() const { return before; }
  double bytesLeft() const;

private:
  /// A reader of a root. `operand`: none where it is in a region of the op.
  struct Use {
    mlir::Operation *reader;
    std::optional<unsigned> operand;
    Order path;
  };
  /// An op that can have its axes in another order, and which.
  struct Node {
    train::AxisOrders orders;
    MinCut::Node inCut = 0;
    /// Whether it is on the source's side of the cut where it does not move.
    bool isFlipped = false;
    bool isMoved = false;
  };
  /// An order in which a root is read by `reader`, or by something that does not move. `onSource`:
  /// while the reader is on that side.
  struct Demand {
    Order order;
    std::optional<MinCut::Node> reader;
    bool onSource = false;
  };

  void findSources(mlir::Block &block);
  /// Candidates: from every transpose as far as ops can be computed in the orders that make it
  /// vanish.
  void findNodes();
  /// The root as if it were in an order: for the op that makes it and those that read it.
  void spread(mlir::Value root, llvm::ArrayRef<int64_t> order);
  void propose(mlir::Operation *op, unsigned value, llvm::ArrayRef<int64_t> order);

  /// The orders in which a reader needs a root where the reader stays and where it moves.
  std::pair<Order, Order> ordersRead(const Use &use, mlir::Value root) const;
  bool isReadInEither(const Use &use, mlir::Value root) const;
  /// Puts the node on the side of the cut on which it agrees with its neighbours.
  void chooseSides();
  llvm::SmallVector<Demand> demandsOf(mlir::Value root) const;
  void addCosts(MinCut &cut, mlir::Value root) const;
  void addCost(MinCut &cut, llvm::ArrayRef<Demand> demands, std::optional<MinCut::Node> maker,
               bool isSoOnSink, bool isSoOnSource, double bytes) const;
  /// Whether a call reads the root, as it is in an order, without a copy.
  static bool isReadAnyway(const Use &use, mlir::Value root, llvm::ArrayRef<int64_t> order);
  /// The order in which a root would be if the op that makes it moved.
  Order movedOrderOf(mlir::Value root) const;
  /// The order in which a root is, by what was decided.
  Order orderOf(mlir::Value root) const;
  double bytesToTranspose(mlir::Value root) const;

  mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, Source> sources;
  /// All transposes, in order.
  llvm::SmallVector<mlir::Value> permuted;
  llvm::MapVector<mlir::Value, llvm::SmallVector<Use>> uses;
  llvm::MapVector<mlir::Operation *, Node> nodes;
  llvm::SmallVector<mlir::Operation *> worklist;
  /// Of roots, where transposing them costs less than their own bytes.
  llvm::DenseMap<mlir::Value, double> ofLess;
  double before = 0;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_MOVETRANSPOSES_LAYOUTS_H
