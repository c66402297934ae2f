// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A parallel loop promises that the op on a part of its operands gives that part of its results.
// Every op that names one is cut along it and compared.
#include "Samples.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;
using trainc::properties::expectEqual;
using trainc::properties::Instance;

namespace {
/// Axis of a value that runs along `loop`; -1 if none.
int64_t axisOf(ArrayRef<int> axes, unsigned loop) {
  auto it = llvm::find(axes, int(loop));
  return it == axes.end() ? -1 : it - axes.begin();
}

class AxisMaps : public properties::SampleTest {
protected:
  /// Evaluates the op on operands cut to [start, start + extent) along `loop`.
  void checkPart(Instance &instance, ArrayRef<HostTensor> whole, const AxisMap &map, unsigned loop,
                 int64_t start, int64_t extent) {
    std::string what = "loop " + std::to_string(loop) + " from " + std::to_string(start) + ", " +
                       std::to_string(extent) + " long";
    DimAttr size = DimAttr::constant(context.get(), extent);
    Block block;
    SmallVector<HostTensor> parts;
    Location loc = instance.op->getLoc();
    for (auto [operand, tensor, axes] :
         llvm::zip_equal(instance.op->getOperands(), instance.operands, map.operands)) {
      SmallVector<DimAttr> dims = getDims(operand);
      int64_t axis = axisOf(axes, loop);
      parts.push_back(axis < 0 ? tensor : properties::slice(tensor, axis, start, extent));
      if (axis >= 0)
        dims[axis] = size;
      block.addArgument(getTensorType(dims, getElementType(operand)), loc);
    }
    OpBuilder builder(context.get());
    builder.setInsertionPointToEnd(&block);
    Operation *clone =
        cast<AxisMapOpInterface>(instance.op)
            .cloneRestricted(builder, block.getArguments(), LoopExtent{unsigned(loop), size});
    ASSERT_TRUE(clone) << what;
    ASSERT_EQ(clone->getNumResults(), whole.size()) << what;
    EXPECT_TRUE(succeeded(verify(clone))) << what;
    auto results = reference::evaluateOp(clone, parts, instance.symbols);
    ASSERT_TRUE(succeeded(results)) << what;
    for (auto [result, tensor, axes] : llvm::zip_equal(*results, whole, map.results)) {
      int64_t axis = axisOf(axes, loop);
      expectEqual(result, axis < 0 ? tensor : properties::slice(tensor, axis, start, extent), 1e-12,
                  what);
    }
    clone->dropAllReferences();
  }
};
} // namespace

TEST_P(AxisMaps, partsOfOperandsGivePartsOfResults) {
  Instance instance(*context, sample());
  ASSERT_TRUE(instance.op);
  auto mapped = dyn_cast<AxisMapOpInterface>(instance.op);
  if (!mapped)
    return;
  AxisMap map = mapped.getAxisMap();
  SmallVector<HostTensor> whole = instance.evaluate();
  ASSERT_EQ(map.operands.size(), instance.operands.size());
  ASSERT_EQ(map.results.size(), whole.size());

  // Sizes of the loops, the same wherever they run.
  SmallVector<int64_t> sizes(map.loops.size(), -1);
  auto learn = [&](ArrayRef<int> axes, const HostTensor &tensor) {
    ASSERT_EQ(axes.size(), tensor.shape.size());
    for (auto [loop, size] : llvm::zip_equal(axes, tensor.shape)) {
      ASSERT_LT(loop, int(map.loops.size()));
      if (loop < 0 || map.loops[loop] == LoopKind::Opaque)
        continue;
      EXPECT_TRUE(sizes[loop] < 0 || sizes[loop] == size) << "loop " << loop;
      sizes[loop] = size;
    }
  };
  for (auto [axes, tensor] : llvm::zip_equal(map.operands, instance.operands))
    learn(axes, tensor);
  for (auto [axes, tensor] : llvm::zip_equal(map.results, whole))
    learn(axes, tensor);

  for (auto [loop, kind] : llvm::enumerate(map.loops)) {
    if (kind == LoopKind::Reduction) {
      for (ArrayRef<int> axes : map.results)
        EXPECT_EQ(axisOf(axes, loop), -1) << "a result runs along the reduced loop " << loop;
      continue;
    }
    if ((kind != LoopKind::Parallel && kind != LoopKind::Positional) || sizes[loop] < 2)
      continue;
    // Along a positional loop only a prefix stands for its part of the whole.
    checkPart(instance, whole, map, loop, 0, 1);
    if (kind == LoopKind::Parallel)
      checkPart(instance, whole, map, loop, 1, sizes[loop] - 1);
  }
}

TRAINC_FOR_EACH_SAMPLE(AxisMaps);
