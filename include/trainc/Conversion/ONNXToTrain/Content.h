// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small tensors whose elements are known while compiling: numbers, or for integers size
// expressions. Shape arithmetic lives here and never becomes an op.

#ifndef TRAINC_CONVERSION_ONNXTOTRAIN_CONTENT_H
#define TRAINC_CONVERSION_ONNXTOTRAIN_CONTENT_H

#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "trainc/Conversion/ONNXToTrain/Bounds.h"

namespace trainc::legalize {

/// Tensors with more elements are not evaluated element by element.
inline constexpr int64_t kMaxContent = 1024;

/// One element: an integer or boolean as a size expression, or a real number.
struct Scalar {
  DimAttr dim;
  double real = 0;
};

struct Content {
  mlir::Type element;
  llvm::SmallVector<int64_t> shape;
  llvm::SmallVector<Scalar> values; // row major

  bool isReal() const { return mlir::isa<mlir::FloatType>(element); }
  int64_t rank() const { return shape.size(); }
  /// All elements as constants; nullopt if one is symbolic or they are reals.
  std::optional<llvm::SmallVector<int64_t>> constants() const;
  /// All elements as size expressions; nullopt if they are reals.
  std::optional<llvm::SmallVector<DimAttr>> dims() const;
};

/// The elements of a constant, if there are at most kMaxContent.
std::optional<Content> contentOf(mlir::DenseElementsAttr value);
/// A one-dimensional i64 content.
Content makeSizes(mlir::MLIRContext *context, llvm::ArrayRef<DimAttr> dims);
Content makeScalar(mlir::Type element, Scalar value);

/// Elementwise operators by ONNX name; nullopt where the result is not known while compiling.
std::optional<Content> evaluate(llvm::StringRef op, llvm::ArrayRef<const Content *> operands,
                                mlir::Type resultElement, const Bounds &bounds);
std::optional<Content> castContent(const Content &x, mlir::Type element);

/// Emits the content as train ops.
mlir::Value materialize(train::TrainBuilder &tb, const Content &content);
/// A constant tensor: `full` where all elements are equal.
mlir::Value materialize(train::TrainBuilder &tb, mlir::DenseElementsAttr value);

/// Sizes grow as they are computed from each other, without end where a file wants that: those of
/// models have a few names. Whether one has more than this, those inside of functions among them.
inline constexpr size_t kLongestSize = 1024;
bool isTooLong(DimAttr size);

/// Whether the train dialect has tensors of this element type.
bool isComputed(mlir::Type element);

/// The signed type that holds every value of an unsigned one, which stands for it; the type itself
/// where it is not unsigned, null where there is none.
mlir::Type carrierOf(mlir::Type element);
mlir::DenseElementsAttr toCarrier(mlir::DenseElementsAttr value);
/// The width of an unsigned type, else 0.
unsigned unsignedBitsOf(mlir::Type element);

/// The nearest value of a float type.
double roundTo(mlir::Type element, double value);

} // namespace trainc::legalize

#endif // TRAINC_CONVERSION_ONNXTOTRAIN_CONTENT_H
