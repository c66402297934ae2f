// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shorthand for building train ops: infers result types, keeps one location. Trivial cases are
// folded (adding to null, multiplying by a splat one), so that gradients come out small.
#ifndef TRAINC_DIALECTS_TRAIN_TRAINBUILDER_H
#define TRAINC_DIALECTS_TRAIN_TRAINBUILDER_H

#include "dialects/Train/TrainDialect.h"

namespace trainc::train {

class TrainBuilder {
public:
  TrainBuilder(mlir::OpBuilder &builder, mlir::Location loc) : builder(builder), location(loc) {}

  mlir::OpBuilder &b() { return builder; }
  mlir::Location loc() const { return location; }
  mlir::MLIRContext *context() const { return builder.getContext(); }

  // Pointwise, on operands of one type.
  mlir::Value neg(mlir::Value x);
  mlir::Value abs(mlir::Value x);
  mlir::Value sign(mlir::Value x);
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value sqrt(mlir::Value x);
  mlir::Value rsqrt(mlir::Value x);
  mlir::Value reciprocal(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  mlir::Value sigmoid(mlir::Value x);
  mlir::Value relu(mlir::Value x);
  mlir::Value floor(mlir::Value x);
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value geluGrad(mlir::Value x, bool tanhForm);
  mlir::Value isNan(mlir::Value x);
  mlir::Value isInf(mlir::Value x);
  mlir::Value logicalNot(mlir::Value x);
  mlir::Value logicalAnd(mlir::Value x, mlir::Value y);
  mlir::Value logicalOr(mlir::Value x, mlir::Value y);
  mlir::Value add(mlir::Value x, mlir::Value y);
  mlir::Value sub(mlir::Value x, mlir::Value y);
  mlir::Value mul(mlir::Value x, mlir::Value y);
  mlir::Value div(mlir::Value x, mlir::Value y);
  mlir::Value max(mlir::Value x, mlir::Value y);
  mlir::Value min(mlir::Value x, mlir::Value y);
  mlir::Value pow(mlir::Value x, mlir::Value y);
  /// predicate: eq ne lt le gt ge
  mlir::Value compare(llvm::StringRef predicate, mlir::Value x, mlir::Value y);
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y);
  /// To the element type of `type` (a tensor or element type); returns x where it already has it.
  mlir::Value cast(mlir::Value x, mlir::Type type);
  mlir::Value bitcast(mlir::Value x, mlir::Type elementType);
  /// Running sum along one axis.
  mlir::Value cumsum(mlir::Value x, int64_t axis, bool exclusive = false, bool reverse = false);
  /// `x`, through which no gradient flows.
  mlir::Value detach(mlir::Value x);
  mlir::Value dropout(mlir::Value x, mlir::Value key, mlir::FloatAttr ratio);
  /// Philox key of i64 scalars and what is added for one user, such as the hash of a node's name.
  mlir::Value rngKey(mlir::Value seed, mlir::Value step, mlir::Value microBatch, mlir::Value rank,
                     uint64_t node);
  mlir::Value randomBits(mlir::Value key, llvm::ArrayRef<DimAttr> dims);

  // Constants. `full` takes any shape; integers and booleans are converted from `value`.
  mlir::Value full(llvm::ArrayRef<DimAttr> dims, mlir::Type elementType, double value);
  /// A constant of the type of `x`.
  mlir::Value scalarLike(mlir::Value x, double value);
  mlir::Value scalar(mlir::Type elementType, double value) { return full({}, elementType, value); }
  mlir::Value zeros(mlir::Type tensorType);
  mlir::Value iota(llvm::ArrayRef<DimAttr> dims, mlir::Type elementType, int64_t axis);
  mlir::Value constant(mlir::DenseElementsAttr value);
  /// A size expression as a rank-0 tensor (i64 or float).
  mlir::Value dim(DimAttr dim, mlir::Type elementType);

  // Shapes.
  /// Axis i of x becomes axis axes[i] of the result of shape `dims`.
  mlir::Value broadcast(mlir::Value x, llvm::ArrayRef<DimAttr> dims, llvm::ArrayRef<int64_t> axes);
  /// Puts back axes that a reduction dropped: x repeated along `reducedAxes` of `dims`.
  mlir::Value broadcastAlong(mlir::Value x, llvm::ArrayRef<DimAttr> dims,
                             llvm::ArrayRef<int64_t> reducedAxes);
  /// A rank-0 value repeated to the shape of `like`.
  mlir::Value splat(mlir::Value scalar, mlir::Value like);
  mlir::Value reshape(mlir::Value x, llvm::ArrayRef<DimAttr> dims);
  /// `x` as a value of its own.
  mlir::Value barrier(mlir::Value x);
  mlir::Value transpose(mlir::Value x, llvm::ArrayRef<int64_t> permutation);
  mlir::Value slice(mlir::Value x, llvm::ArrayRef<DimAttr> starts, llvm::ArrayRef<DimAttr> sizes,
                    llvm::ArrayRef<int64_t> steps = {});
  /// One axis only.
  mlir::Value sliceAxis(mlir::Value x, int64_t axis, DimAttr start, DimAttr size, int64_t step = 1);
  mlir::Value pad(mlir::Value x, double value, llvm::ArrayRef<DimAttr> low,
                  llvm::ArrayRef<DimAttr> dims);
  mlir::Value concat(mlir::ValueRange operands, int64_t axis);
  mlir::ResultRange split(mlir::Value x, int64_t axis, llvm::ArrayRef<DimAttr> sizes);
  mlir::Value gather(mlir::Value data, mlir::Value indices, int64_t axis);
  mlir::Value selectRows(mlir::Value data, mlir::Value index, mlir::Value inverse, int64_t axis);
  /// Numbers of type `result` from codes of 4 bits, the 16 numbers they stand for, and a scale for
  /// each block.
  mlir::Value dequantize(mlir::Value codes, mlir::Value table, mlir::Value scales, int64_t block,
                         mlir::Type result);
  /// `value`, a scalar, whose gradients for `of` are `gradients`.
  mlir::Value withGradient(mlir::Value value, mlir::ValueRange of, mlir::ValueRange gradients);
  mlir::Value gatherElements(mlir::Value data, mlir::Value indices, int64_t axis);
  mlir::Value scatterAdd(mlir::Value indices, mlir::Value updates, int64_t axis,
                         mlir::Type resultType, bool unique = false);

  // Reductions and matmuls. Reduced axes are dropped.
  mlir::Value reduce(ReduceKind kind, mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value sum(mlir::Value x, llvm::ArrayRef<int64_t> axes) {
    return reduce(ReduceKind::sum, x, axes);
  }
  mlir::Value mean(mlir::Value x, llvm::ArrayRef<int64_t> axes);
  mlir::Value sumAll(mlir::Value x);
  mlir::Value matmul(mlir::Value lhs, mlir::Value rhs, bool transposeLhs = false,
                     bool transposeRhs = false);

  DimAttr dimAttr(int64_t value) { return DimAttr::constant(context(), value); }

private:
  mlir::OpBuilder &builder;
  mlir::Location location;
};

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_TRAINBUILDER_H
