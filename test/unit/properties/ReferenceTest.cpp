// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The reference evaluator on whole functions: symbols from shapes, integers that wrap, errors.
#include "Samples.h"
#include "mlir/Parser/Parser.h"
#include <limits>

using namespace mlir;
using namespace trainc;
using trainc::train::HostTensor;

namespace {
class Reference : public ::testing::Test {
protected:
  func::FuncOp parse(StringRef text) {
    module = parseSourceString<ModuleOp>(text, context.get());
    return module ? *module->getOps<func::FuncOp>().begin() : func::FuncOp();
  }
  HostTensor tensor(ArrayRef<int64_t> shape, std::vector<double> data) {
    HostTensor result = reference::makeTensor(shape);
    result.data = std::move(data);
    return result;
  }
  std::unique_ptr<MLIRContext> context = properties::makeContext();
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(Reference, bindsSymbolsFromShapes) {
  auto function = parse(R"(
    func.func @f(%x: tensor<?x2xf32, #train.dims<batch, 2>>) -> (tensor<2xf32>, tensor<i64>) {
      %0 = train.reduce sum %x axes = [0] : tensor<?x2xf32, #train.dims<batch, 2>> -> tensor<2xf32>
      %1 = train.dim <3 * batch> : tensor<i64>
      return %0, %1 : tensor<2xf32>, tensor<i64>
    })");
  ASSERT_TRUE(function);
  auto results = reference::evaluate(function, {tensor({3, 2}, {1, 2, 3, 4, 5, 6})});
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].data, (std::vector<double>{9, 12}));
  EXPECT_EQ((*results)[1].data, (std::vector<double>{9}));
}

TEST_F(Reference, integersWrap) {
  auto function = parse(R"(
    func.func @f(%x: tensor<2xi8>) -> tensor<2xi8> {
      %0 = train.add %x, %x : tensor<2xi8>
      return %0 : tensor<2xi8>
    })");
  ASSERT_TRUE(function);
  auto results = reference::evaluate(function, {tensor({2}, {100, -100})});
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].data, (std::vector<double>{-56, 56}));
}

TEST_F(Reference, maskedRows) {
  double infinity = std::numeric_limits<double>::infinity();
  auto function = parse(R"(
    func.func @f(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<3x2xf32>) {
      %0 = train.softmax %x axis = 1 guarded : tensor<3x2xf32>
      %1 = train.softmax %x axis = 1 : tensor<3x2xf32>
      return %0, %1 : tensor<3x2xf32>, tensor<3x2xf32>
    })");
  ASSERT_TRUE(function);
  double lowest = -3.4028234663852886e38;
  auto results = reference::evaluate(
      function, {tensor({3, 2}, {-infinity, -infinity, lowest, lowest, 0, -infinity})});
  ASSERT_TRUE(succeeded(results));
  EXPECT_EQ((*results)[0].data, (std::vector<double>{0, 0, 0.5, 0.5, 1, 0}));
  EXPECT_TRUE(std::isnan((*results)[1].data[0]));
  EXPECT_EQ((*results)[1].data[2], 0.5);
}

TEST_F(Reference, reportsWhatDoesNotFit) {
  std::string message;
  ScopedDiagnosticHandler handler(context.get(),
                                  [&](Diagnostic &diagnostic) { message = diagnostic.str(); });
  auto function = parse(R"(
    func.func @f(%d: tensor<2xf32>, %i: tensor<?xi64, #train.dims<n>>) -> tensor<?xf32, #train.dims<n>> {
      %0 = train.gather %d, %i axis = 0 : tensor<2xf32>, tensor<?xi64, #train.dims<n>> -> tensor<?xf32, #train.dims<n>>
      return %0 : tensor<?xf32, #train.dims<n>>
    })");
  ASSERT_TRUE(function);
  EXPECT_TRUE(failed(reference::evaluate(function, {})));
  EXPECT_NE(message.find("got 0 arguments, expected 2"), std::string::npos) << message;
  EXPECT_TRUE(failed(reference::evaluate(function, {tensor({3}, {1, 2, 3}), tensor({1}, {0})})));
  EXPECT_NE(message.find("the shape of argument 0 does not fit"), std::string::npos) << message;
  EXPECT_TRUE(failed(reference::evaluate(function, {tensor({2}, {1, 2}), tensor({1}, {5})})));
  EXPECT_NE(message.find("reference evaluation failed"), std::string::npos) << message;
}

TEST_F(Reference, constantsRoundToTheirType) {
  auto type = RankedTensorType::get({2}, Float32Type::get(context.get()));
  auto attribute = reference::toAttribute(type, tensor({2}, {0.1, 1e300}));
  ASSERT_TRUE(attribute);
  auto values = llvm::to_vector(attribute.getValues<float>());
  EXPECT_EQ(values[0], 0.1f);
  EXPECT_EQ(values[1], std::numeric_limits<float>::infinity());
  auto integers = RankedTensorType::get({1}, IntegerType::get(context.get(), 64));
  EXPECT_FALSE(reference::toAttribute(integers, tensor({1}, {1e17})));
}
