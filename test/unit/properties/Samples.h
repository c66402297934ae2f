// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sample instances of every op of the train dialect, written as text, with operands to evaluate
// them on. The property tests run over all of them; a registered op without samples is a failure.
#ifndef TRAINC_TEST_PROPERTIES_SAMPLES_H
#define TRAINC_TEST_PROPERTIES_SAMPLES_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "trainc/Reference/Reference.h"
#include "gtest/gtest.h"
#include <random>

namespace trainc::properties {

/// One way to write an op.
struct Sample {
  const char *op;
  /// Arguments of a function around the op: "%x: tensor<2x3xf64>, ...".
  const char *arguments;
  /// The op, and before it what it needs; it is the last one.
  const char *body;
  /// How to fill each argument, separated by spaces:
  ///   n     normally distributed           p      in [0.5, 2)          u     in [0.1, 0.9)
  ///   i:a:b integers in [a, b)             b      booleans             k     a dropout key
  ///   m     normal, some elements -inf     r      normal, the first row of the last axis -inf
  ///   =V    the value V
  const char *fills;
  /// For gtest: a distinct name.
  std::string name() const;
};

/// All samples, of the train dialect and of the test dialect (which proves that the tests ask
/// interfaces).
llvm::ArrayRef<Sample> getSamples();

/// A parsed sample: `@sample(arguments)` around the op.
struct Instance {
  /// Parses in `context`; op is null if it is not valid. Symbols are batch = 2, seq = 3 if not
  /// given.
  Instance(mlir::MLIRContext &context, const Sample &sample,
           const train::SymbolValues *sizes = nullptr);
  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp function;
  mlir::Operation *op = nullptr;
  llvm::SmallVector<train::HostTensor> arguments;
  /// Values of the op's operands for these arguments.
  llvm::SmallVector<train::HostTensor> operands;
  train::SymbolValues symbols;

  /// Results of the op, by the reference evaluator.
  llvm::SmallVector<train::HostTensor> evaluate();
  /// Evaluates ops that were added to the function: makes `values` its results.
  mlir::FailureOr<llvm::SmallVector<train::HostTensor>> evaluate(mlir::ValueRange values);
};

/// A context with what the samples need.
std::unique_ptr<mlir::MLIRContext> makeContext();

/// Fails the test where shapes differ or an element differs by more than `tolerance` times
/// max(1, |expected|). NaN equals NaN, infinities equal themselves.
void expectEqual(const train::HostTensor &actual, const train::HostTensor &expected,
                 double tolerance, llvm::StringRef what);

/// The part [start, start + extent) along one axis.
train::HostTensor slice(const train::HostTensor &tensor, int64_t axis, int64_t start,
                        int64_t extent);

/// A tensor of this shape and element type, filled as Sample::fills describes.
train::HostTensor fill(llvm::ArrayRef<int64_t> shape, llvm::StringRef how, std::mt19937_64 &random);

/// A test that runs once a sample.
class SampleTest : public ::testing::TestWithParam<unsigned> {
protected:
  const Sample &sample() const { return getSamples()[GetParam()]; }
  std::unique_ptr<mlir::MLIRContext> context = makeContext();
};

/// Name of a parameter of SampleTest, for INSTANTIATE_TEST_SUITE_P.
std::string sampleName(const ::testing::TestParamInfo<unsigned> &info);

#define TRAINC_FOR_EACH_SAMPLE(test)                                                               \
  INSTANTIATE_TEST_SUITE_P(                                                                        \
      Ops, test, ::testing::Range(0u, unsigned(trainc::properties::getSamples().size())),          \
      trainc::properties::sampleName)

} // namespace trainc::properties

#endif // TRAINC_TEST_PROPERTIES_SAMPLES_H
