// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strided views read the elements that the op's result has; index rules let through what the op can
// take and nothing else; prefixes are prefixes.
#include "Samples.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

namespace {
class Views : public properties::SampleTest {
protected:
  /// Element position of each index of `shape` under a layout.
  static std::vector<int64_t> positions(ArrayRef<int64_t> shape, int64_t offset,
                                        ArrayRef<int64_t> strides) {
    std::vector<int64_t> result{offset};
    for (auto [size, stride] : llvm::zip_equal(shape, strides)) {
      std::vector<int64_t> next;
      for (int64_t position : result)
        for (int64_t i = 0; i < size; ++i)
          next.push_back(position + i * stride);
      result = std::move(next);
    }
    return result;
  }

  /// Stores the operand with its axes in the order `storage` (outermost first) behind `offset`
  /// unused elements, and reads the result through the view. Returns whether there is one.
  bool check(Instance &instance, const HostTensor &expected, ArrayRef<int64_t> storage,
             int64_t offset) {
    const HostTensor &operand = instance.operands[0];
    SmallVector<DimAttr> dims = getDims(instance.op->getOperand(0));
    StridedLayout layout{DimAttr::constant(context.get(), offset), {}};
    SmallVector<int64_t> strides(dims.size());
    layout.strides.resize(dims.size());
    DimAttr stride = DimAttr::constant(context.get(), 1);
    for (int64_t axis : llvm::reverse(storage)) {
      layout.strides[axis] = stride;
      strides[axis] = *instance.symbols.evaluate(stride);
      stride = stride * dims[axis];
    }
    auto view = cast<StridedViewOpInterface>(instance.op).getStridedView(layout);
    if (!view)
      return false;
    std::vector<double> buffer(offset + operand.size(), 1e9);
    for (auto [element, position] :
         llvm::zip_equal(operand.data, positions(operand.shape, offset, strides)))
      buffer[position] = element;
    EXPECT_EQ(view->strides.size(), expected.shape.size());
    SmallVector<int64_t> resultStrides;
    for (DimAttr s : view->strides)
      resultStrides.push_back(*instance.symbols.evaluate(s));
    HostTensor actual = reference::makeTensor(expected.shape);
    int64_t resultOffset = *instance.symbols.evaluate(view->offset);
    for (auto [element, position] :
         llvm::zip_equal(actual.data, positions(expected.shape, resultOffset, resultStrides))) {
      EXPECT_TRUE(position >= 0 && position < int64_t(buffer.size())) << position;
      if (position >= 0 && position < int64_t(buffer.size()))
        element = buffer[position];
    }
    expectEqual(actual, expected, 0, "the view");
    return true;
  }
};
} // namespace

TEST_P(Views, readTheResult) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  if (!isa<StridedViewOpInterface>(instance.op))
    return;
  HostTensor expected = instance.evaluate()[0];
  SmallVector<int64_t> storage =
      llvm::to_vector(llvm::seq<int64_t>(0, instance.operands[0].shape.size()));
  EXPECT_TRUE(check(instance, expected, storage, 0)) << "a row-major buffer has no view";
  check(instance, expected, storage, 7);
  // Other orders may have none.
  std::reverse(storage.begin(), storage.end());
  check(instance, expected, storage, 5);
  if (storage.size() > 2) {
    std::rotate(storage.begin(), storage.begin() + 1, storage.end());
    check(instance, expected, storage, 3);
  }
}

TEST_P(Views, prefixesStartAtZero) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto slice = dyn_cast<SliceOpInterface>(instance.op);
  if (!slice || slice.getSlicedAxis() < 0 || !slice.isPrefix())
    return;
  int64_t extent = *instance.symbols.evaluate(slice.getSlicedExtent());
  HostTensor expected = properties::slice(instance.operands[0], slice.getSlicedAxis(), 0, extent);
  EXPECT_EQ(instance.evaluate()[0].data, expected.data);
}

TEST_P(Views, indexRulesAreTheOps) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto indexed = dyn_cast<IndexOperandOpInterface>(instance.op);
  if (!indexed)
    return;
  for (unsigned i = 0; i < instance.op->getNumOperands(); ++i) {
    auto rule = indexed.getIndexRule(i);
    if (!rule)
      continue;
    int64_t low = *instance.symbols.evaluate(rule->min),
            end = *instance.symbols.evaluate(rule->max);
    auto accepts = [&](double value) {
      SmallVector<HostTensor> operands(instance.operands);
      operands[i].data.back() = value;
      return succeeded(reference::evaluateOp(instance.op, operands, instance.symbols));
    };
    EXPECT_TRUE(accepts(double(low)));
    EXPECT_TRUE(accepts(double(end - 1)));
    for (int64_t outside : {low - 1, end, end + 1000})
      EXPECT_EQ(accepts(double(outside)), rule->except == outside) << outside;
    if (rule->except)
      EXPECT_TRUE(accepts(double(*rule->except)));
  }
}

TRAINC_FOR_EACH_SAMPLE(Views);
