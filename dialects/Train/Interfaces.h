// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Types that the interfaces of the train dialect speak in.
#ifndef TRAINC_DIALECTS_TRAIN_INTERFACES_H
#define TRAINC_DIALECTS_TRAIN_INTERFACES_H

#include "dialects/Train/Dims.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/ADT/StringMap.h"

namespace trainc::train {

class TrainBuilder;

/// What runs over an axis. Positional: parallel, but the coordinate itself enters the value (iota,
/// dropout's counter), so only a selection that keeps coordinates commutes with the op.
enum class LoopKind { Parallel, Positional, Reduction, Opaque };

/// Axes of operands and results as loops. `operands[i][a]` is the loop of axis `a` of operand `i`,
/// or -1 where no loop runs over it (the axis has size 1, or any index may be read).
struct AxisMap {
  llvm::SmallVector<LoopKind> loops;
  llvm::SmallVector<llvm::SmallVector<int>> operands;
  llvm::SmallVector<llvm::SmallVector<int>> results;
};

/// The new size of a loop that is restricted.
struct LoopExtent {
  unsigned loop;
  DimAttr extent;
};

/// min <= value < max, or value == except.
struct IndexRule {
  DimAttr min, max;
  std::optional<int64_t> except;
};

/// Where an element is: offset + sum(index * stride), in elements of a buffer.
struct StridedLayout {
  DimAttr offset;
  llvm::SmallVector<DimAttr> strides;
};

/// constant + sum over axes of factor * coordinate, for every element of an integer tensor.
/// Booleans are 0 and 1.
struct AffineInteger {
  DimAttr constant;
  /// One an axis; 0 along axes of size 1.
  llvm::SmallVector<DimAttr> factors;

  /// The same everywhere.
  bool isUniform() const {
    return llvm::all_of(factors, [](DimAttr factor) { return factor.isConstant(0); });
  }
  /// The coordinate along one axis.
  bool isCoordinate(size_t axis) const {
    for (auto [i, factor] : llvm::enumerate(factors))
      if (!factor.isConstant(i == axis))
        return false;
    return constant.isConstant(0);
  }
};
/// That of an operand, where it is known.
using AffineLookup = llvm::function_ref<std::optional<AffineInteger>(mlir::Value)>;

/// Whether a value is worth computing twice.
enum class RecomputeClass { Free, Cheap, Costly, Never };

/// How an op takes part in kernels.
///   Pointwise, Access: inlined into any kernel;  Reduction: decides the kernel's template
///   View: no code at all (the buffer is read through other strides)
///   Library: a call (matmul);  Standalone: a kernel of its own (scatter, scan);  None: cannot be
///   compiled
enum class FusionRole { None, Pointwise, Access, Reduction, View, Library, Standalone };

/// One coordinate of an element, for all lanes of a vector: `base + lane * stride`, or, where that
/// does not hold, `vector` (a vector of index). `lanes` is 1 for scalar code.
struct ElementIndex {
  mlir::Value base;
  int64_t stride = 0;
  mlir::Value vector;
  bool isUniform() const { return !vector && stride == 0; }
};

/// Unit attribute that a code generator may put on the op that makes a vector coordinate of
/// buildScalar: the lanes are n, n + 1, n + 2, ... with n a multiple of 4. Formulas may use it,
/// never need it.
inline constexpr llvm::StringLiteral kAlignedLanesAttr = "train.aligned_lanes";

/// What buildElement works with; implemented by the code generator.
class ElementBuilder {
public:
  virtual ~ElementBuilder() = default;
  virtual mlir::OpBuilder &builder() = 0;
  virtual mlir::Location loc() = 0;
  /// Element of an operand (a scalar or a vector of lanes()).
  virtual mlir::Value element(mlir::OpOperand &operand, llvm::ArrayRef<ElementIndex> index) = 0;
  /// As element, but where `mask` (i1, scalar or lanes) is false nothing is read and `other` is the
  /// value.
  virtual mlir::Value elementIf(mlir::OpOperand &operand, llvm::ArrayRef<ElementIndex> index,
                                mlir::Value mask, mlir::Value other) = 0;
  virtual unsigned lanes() = 0;
  /// Size expression as an `index` scalar.
  virtual mlir::Value dim(DimAttr dim) = 0;
  virtual ElementIndex constant(int64_t value) = 0;
  virtual ElementIndex add(const ElementIndex &a, const ElementIndex &b) = 0;
  virtual ElementIndex sub(const ElementIndex &a, const ElementIndex &b) = 0;
  virtual ElementIndex mul(const ElementIndex &a, int64_t factor) = 0;
  /// floor(a / divisor), of an index that is not negative.
  virtual ElementIndex div(const ElementIndex &a, int64_t divisor) = 0;
  /// Whether an index, that of the first lane, is a multiple of `factor` by the way it is made.
  virtual bool hasFactor(const ElementIndex &a, int64_t factor) = 0;
  virtual ElementIndex dimIndex(DimAttr dim) = 0;
  /// Position of a coordinate tuple in row-major order.
  virtual ElementIndex linearize(llvm::ArrayRef<ElementIndex> index,
                                 llvm::ArrayRef<DimAttr> dims) = 0;
  /// a < b, i1 scalar (both uniform) or vector of lanes().
  virtual mlir::Value lessThan(const ElementIndex &a, const ElementIndex &b) = 0;
  /// An index that data holds (i32/i64 scalar or lanes). Negative ones count from `extent`; one out
  /// of range is reported at run time with the op's node, and 0 is used instead.
  virtual ElementIndex checkedIndex(mlir::Operation *op, mlir::Value data, DimAttr extent) = 0;
  /// The coordinate itself as i64, scalar or lanes.
  virtual mlir::Value asInteger(const ElementIndex &index) = 0;
  /// A scalar constant as scalar or lanes.
  virtual mlir::Value splat(mlir::TypedAttr value) = 0;
  /// A scalar value as scalar or lanes.
  virtual mlir::Value splatValue(mlir::Value scalar) = 0;
};

/// A tensor of the reference evaluator: row major; integers and booleans are exact doubles.
struct HostTensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> data;
  int64_t size() const {
    int64_t n = 1;
    for (int64_t d : shape)
      n *= d;
    return n;
  }
};

/// Where an element lies in another value of the same rank: at starts + steps * its index.
struct Subrange {
  llvm::SmallVector<DimAttr> starts;
  llvm::SmallVector<int64_t> steps;
};

/// Values of the size symbols in one evaluation.
struct SymbolValues {
  llvm::StringMap<int64_t> values;
  std::optional<int64_t> lookup(llvm::StringRef name) const {
    auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional<int64_t>(it->second);
  }
  /// Fails on an unknown symbol, a division by zero or an overflow.
  mlir::FailureOr<int64_t> evaluate(DimAttr dim) const {
    return dim.evaluate([this](llvm::StringRef name) { return lookup(name); });
  }
};

namespace detail {
mlir::Operation *defaultCloneRestricted(mlir::Operation *op, mlir::OpBuilder &builder,
                                        mlir::ValueRange operands,
                                        llvm::ArrayRef<LoopExtent> extents);
/// Number of elements of the largest result.
DimAttr elementCount(mlir::Operation *op);
/// Whether a value that lies like this is row major and begins where its buffer does.
bool isRowMajor(mlir::Value value, const StridedLayout &layout);
} // namespace detail
} // namespace trainc::train

#include "dialects/Train/TrainInterfaces.h.inc"

#endif // TRAINC_DIALECTS_TRAIN_INTERFACES_H
