// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// keepsZeroRows promises that a row of zeros in some operands gives a row of zeros, whatever the
// other operands hold, and that it adds nothing where rows are summed up. Every op that it says so
// of is evaluated with such rows.
#include "lib/Transforms/Support/ZeroRows.h"
#include "Samples.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

namespace {
int64_t axisOf(ArrayRef<int> axes, unsigned loop) {
  auto it = llvm::find(axes, int(loop));
  return it == axes.end() ? -1 : it - axes.begin();
}

/// Sets the elements at index 0 of one axis to 0.
void clearFirst(HostTensor &tensor, int64_t axis) {
  int64_t inner = 1;
  for (int64_t a = axis + 1; a < int64_t(tensor.shape.size()); ++a)
    inner *= tensor.shape[a];
  for (auto [i, x] : llvm::enumerate(tensor.data))
    if ((int64_t(i) / inner) % tensor.shape[axis] == 0)
      x = 0;
}

class ZeroRows : public properties::SampleTest {
protected:
  /// The op without the first row along `loop`.
  SmallVector<HostTensor> evaluateRest(Instance &instance, ArrayRef<HostTensor> operands,
                                       const AxisMap &map, unsigned loop, int64_t size) {
    DimAttr extent = DimAttr::constant(context.get(), size - 1);
    Block block;
    SmallVector<HostTensor> parts;
    for (auto [operand, tensor, axes] :
         llvm::zip_equal(instance.op->getOperands(), operands, map.operands)) {
      SmallVector<DimAttr> dims = getDims(operand);
      int64_t axis = axisOf(axes, loop);
      parts.push_back(axis < 0 ? tensor : properties::slice(tensor, axis, 1, size - 1));
      if (axis >= 0)
        dims[axis] = extent;
      block.addArgument(getTensorType(dims, getElementType(operand)), instance.op->getLoc());
    }
    OpBuilder builder(context.get());
    builder.setInsertionPointToEnd(&block);
    Operation *clone =
        cast<AxisMapOpInterface>(instance.op)
            .cloneRestricted(builder, block.getArguments(), LoopExtent{loop, extent});
    auto results = reference::evaluateOp(clone, parts, instance.symbols);
    clone->dropAllReferences();
    EXPECT_TRUE(succeeded(results));
    return succeeded(results) ? *results : SmallVector<HostTensor>();
  }

  void check(Instance &instance, const AxisMap &map, unsigned loop, ArrayRef<bool> zeros) {
    SmallVector<HostTensor> operands(instance.operands);
    int64_t size = 0;
    for (auto [operand, axes, zero] : llvm::zip_equal(operands, map.operands, zeros))
      if (zero) {
        size = operand.shape[axisOf(axes, loop)];
        clearFirst(operand, axisOf(axes, loop));
      }
    auto whole = reference::evaluateOp(instance.op, operands, instance.symbols);
    ASSERT_TRUE(succeeded(whole));
    if (map.loops[loop] == LoopKind::Reduction) {
      if (size < 2)
        return;
      SmallVector<HostTensor> rest = evaluateRest(instance, operands, map, loop, size);
      ASSERT_EQ(rest.size(), whole->size());
      for (auto [expected, actual] : llvm::zip_equal(*whole, rest))
        expectEqual(actual, expected, 1e-12, "without the row of zeros");
      return;
    }
    for (auto [result, axes] : llvm::zip_equal(*whole, map.results)) {
      int64_t axis = axisOf(axes, loop);
      if (axis < 0)
        continue;
      HostTensor row = properties::slice(result, axis, 0, 1), none = row;
      for (double &x : none.data)
        x = 0;
      expectEqual(row, none, 0, "the row of zeros");
    }
  }
};
} // namespace

TEST_P(ZeroRows, stayZeroOrAddNothing) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto mapped = dyn_cast<AxisMapOpInterface>(instance.op);
  if (!mapped)
    return;
  AxisMap map = mapped.getAxisMap();
  for (auto [loop, kind] : llvm::enumerate(map.loops)) {
    if (kind != LoopKind::Parallel && kind != LoopKind::Reduction)
      continue;
    // Each operand that runs along the loop alone, and all of them.
    SmallVector<bool> runs;
    for (auto [operand, axes] : llvm::zip_equal(instance.op->getOperands(), map.operands))
      runs.push_back(axisOf(axes, loop) >= 0 && isa<FloatType>(getElementType(operand)));
    SmallVector<SmallVector<bool>> masks = {runs};
    for (size_t i = 0; i < runs.size(); ++i)
      if (runs[i]) {
        masks.emplace_back(runs.size(), false);
        masks.back()[i] = true;
      }
    for (ArrayRef<bool> zeros : masks)
      if (llvm::is_contained(zeros, true) && keepsZeroRows(instance.op, zeros))
        check(instance, map, loop, zeros);
  }
}

TRAINC_FOR_EACH_SAMPLE(ZeroRows);

namespace {
class ZeroRowClaims : public ::testing::Test {
protected:
  bool keeps(const char *body, ArrayRef<bool> zeros) {
    std::string op = StringRef(body).take_until([](char c) { return c == ' '; }).str();
    properties::Sample sample = {op.c_str(), "%x: tensor<3x4xf32>, %y: tensor<3x4xf32>", body,
                                 "n n"};
    Instance instance(*context, sample);
    EXPECT_TRUE(instance.op) << body;
    return instance.op && keepsZeroRows(instance.op, zeros);
  }
  std::unique_ptr<MLIRContext> context = properties::makeContext();
};
} // namespace

TEST_F(ZeroRowClaims, areMadeOfWhatIsLinear) {
  EXPECT_TRUE(keeps("train.mul %x, %y : tensor<3x4xf32>", {true, false}));
  EXPECT_TRUE(keeps("train.div %x, %y : tensor<3x4xf32>", {true, false}));
  EXPECT_TRUE(keeps("train.sub %x, %y : tensor<3x4xf32>", {true, true}));
  EXPECT_TRUE(keeps("train.reduce sum %x axes = [0] : tensor<3x4xf32> -> tensor<4xf32>", {true}));
  EXPECT_TRUE(
      keeps("train.matmul %x, %y transposed : tensor<3x4xf32>, tensor<3x4xf32> -> tensor<3x3xf32>",
            {false, true}));
}

TEST_F(ZeroRowClaims, areNotMadeOfOthers) {
  EXPECT_FALSE(keeps("train.sub %x, %y : tensor<3x4xf32>", {true, false}));
  EXPECT_FALSE(keeps("train.div %x, %y : tensor<3x4xf32>", {false, true}));
  EXPECT_FALSE(keeps("train.exp %x : tensor<3x4xf32>", {true}));
  EXPECT_FALSE(keeps("train.max %x, %y : tensor<3x4xf32>", {true, false}));
  EXPECT_FALSE(keeps("train.softmax %x axis = 1 : tensor<3x4xf32>", {true}));
  EXPECT_FALSE(keeps("train.reduce max %x axes = [0] : tensor<3x4xf32> -> tensor<4xf32>", {true}));
  EXPECT_FALSE(keeps(
      "train.pad %x value = 1.0 : f32 low = <0, 1> : tensor<3x4xf32> -> tensor<3x6xf32>", {true}));
}

TEST(NeverNegative, countsSizesFromTheLeast) {
  std::unique_ptr<MLIRContext> context = properties::makeContext();
  auto module = parseSourceString<ModuleOp>(
      "train.symbol @m min 4 input \"x\" axis 0\nfunc.func @f() { return }", context.get());
  ASSERT_TRUE(module);
  Operation *op = *module->getOps<func::FuncOp>().begin();
  DimAttr n = DimAttr::symbol(context.get(), "n"), m = DimAttr::symbol(context.get(), "m");
  auto number = [&](int64_t value) { return DimAttr::constant(context.get(), value); };
  EXPECT_TRUE(isNeverNegative(n - number(1), op));
  EXPECT_TRUE(isNeverNegative(n * m - number(4), op));
  EXPECT_TRUE(isNeverNegative(m - number(3), op));
  EXPECT_TRUE(isNeverNegative(number(0), op));
  EXPECT_FALSE(isNeverNegative(n - number(2), op));
  EXPECT_FALSE(isNeverNegative(m - number(5), op));
  EXPECT_FALSE(isNeverNegative(n - m, op));
}
