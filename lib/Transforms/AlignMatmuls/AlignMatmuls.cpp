// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `align-matmuls`: pad, multiply, slice.

#include "lib/Transforms/AlignMatmuls/AlignMatmuls.h"

#include "dialects/Train/Convolution/Convolution.h"
#include "dialects/Train/TrainBuilder.h"
#include "mlir/IR/Remarks.h"
#include "trainc/Support/Location.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace trainc {
#define GEN_PASS_DEF_ALIGNMATMULSPASS
#include "lib/Transforms/AlignMatmuls/AlignMatmuls.h.inc"
} // namespace trainc

namespace {

/// Where two extents are below this, the matmul takes no time worth a kernel.
constexpr int64_t kSmallest = 64;

/// The extent to pad to, beside another one of the matmul; the extent itself where it is fine or
/// not known.
DimAttr aligned(DimAttr extent, DimAttr other) {
  std::optional<int64_t> value = extent.getConstant();
  // Not known, or both too small.
  if (!value || std::max(*value, other.getConstant().value_or(0)) < kSmallest)
    return extent;
  // Tensor cores read 8 elements of 16 bits at once; larger extents gain by whole tiles of 64.
  int64_t multiple = *value < 1024 ? 8 : 64;
  if (*value % 8 == 0)
    return extent;
  return DimAttr::constant(extent.getContext(), (*value + multiple - 1) / multiple * multiple);
}

/// Zeros behind: what they add to sums is 0, and rows and columns made of them are cut off again.
Value padTo(TrainBuilder &tb, Value value, int64_t axis, DimAttr extent) {
  SmallVector<DimAttr> dims = getDims(value);
  if (dims[axis] == extent)
    return value;
  dims[axis] = extent;
  SmallVector<DimAttr> low(dims.size(), DimAttr::constant(tb.context(), 0));
  return tb.pad(value, 0, low, dims);
}

remark::RemarkOpts options(StringRef name) {
  return remark::RemarkOpts::name(name).category("align-matmuls");
}

/// Extents that are the contiguous axis of an operand matter: an uneven one takes the library's
/// slow kernels. k is padded in both operands, so that the sums are the same but for added zeros.
void align(ContractionOpInterface op) {
  Value lhs = op.getLhs(), rhs = op.getRhs();
  SmallVector<DimAttr> dims = getDims(op->getResult(0));
  int64_t rank = dims.size();
  int64_t inner = op.getTransposeLhs() ? rank - 2 : rank - 1;
  DimAttr k = getDims(lhs)[inner], m = dims[rank - 2], n = dims[rank - 1];
  // Rows are not contiguous in the result: they matter where the lhs is transposed.
  DimAttr newM = op.getTransposeLhs() ? aligned(m, n) : m, newN = aligned(n, k);
  DimAttr newK = !op.getTransposeLhs() || op.getTransposeRhs() ? aligned(k, n) : k;
  if (newM == m && newN == n && newK == k) {
    auto isUneven = [](DimAttr extent) { return extent.getConstant().value_or(0) % 8 != 0; };
    if ((op.getTransposeLhs() && isUneven(m)) || isUneven(n) || isUneven(k))
      remark::missed(op->getLoc(), options("NotPadded"))
          << remark::add("{0}: m, n, k {1}, {2}, {3} stay, not all multiples of 8", describeOp(op),
                         m.str(), n.str(), k.str())
          << remark::reason("it is too small for a copy to pay, or what is uneven is read along "
                            "no row")
          << remark::suggest("choose sizes that are multiples of 8 in the model");
    return;
  }
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  lhs = padTo(tb, padTo(tb, lhs, inner, newK), op.getTransposeLhs() ? rank - 1 : rank - 2, newM);
  int64_t rhsInner = op.getTransposeRhs() ? rank - 1 : rank - 2;
  int64_t rhsColumns = op.getTransposeRhs() ? rank - 2 : rank - 1;
  rhs = padTo(tb, padTo(tb, rhs, rhsInner, newK), rhsColumns, newN);
  Value product = tb.matmul(lhs, rhs, op.getTransposeLhs(), op.getTransposeRhs());
  SmallVector<DimAttr> starts(rank, DimAttr::constant(op->getContext(), 0));
  Value result = product;
  // Only k was padded: the result has its shape already.
  if (product.getType() != op->getResult(0).getType())
    result = tb.slice(product, starts, dims);
  remark::passed(op->getLoc(), options("Padded"))
      << remark::add("{0}: m, n, k {1}, {2}, {3} padded to {4}, {5}, {6}", describeOp(op), m.str(),
                     n.str(), k.str(), newM.str(), newN.str(), newK.str());
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

/// Channels and filters lie side by side: those of a library's call, which reads 8 of 16 bits at
/// once. Those of groups would have to be padded within each.
void alignConvolution(ConvolutionOpInterface op) {
  auto roundUp = [](DimAttr extent) {
    std::optional<int64_t> value = extent.getConstant();
    return value ? DimAttr::constant(extent.getContext(), (*value + 7) / 8 * 8) : extent;
  };
  const SmallVector<DimAttr> filter = getDims(op.getFilter());
  const DimAttr filters = roundUp(filter.front()), channels = roundUp(filter.back());
  if (op.getGroups() != 1 || (filters == filter.front() && channels == filter.back()))
    return;
  OpBuilder builder(op);
  TrainBuilder tb(builder, op->getLoc());
  const SmallVector<DimAttr> wanted = getDims(op->getResult(0));
  auto padded = cast<ConvolutionOpInterface>(op->clone());
  // Which of the three the result and the operands are: two may be one value.
  enum Role { Input, Filter, Output };
  Value result = padded->getResult(0);
  const std::array<Role, 3> roles = result == padded.getInput() ? std::array{Input, Output, Filter}
                                    : result == padded.getFilter()
                                        ? std::array{Filter, Input, Output}
                                        : std::array{Output, Input, Filter};
  auto dimsOf = [&](Value value, Role role) {
    SmallVector<DimAttr> dims = getDims(value);
    dims.back() = role == Output ? filters : channels;
    if (role == Filter)
      dims.front() = filters;
    return dims;
  };
  result.setType(getTensorType(dimsOf(result, roles[0]), getElementType(result)));
  for (OpOperand &operand : padded->getOpOperands())
    if (auto dims = dimsOf(operand.get(), roles[1 + operand.getOperandNumber()]);
        dims != getDims(operand.get()))
      operand.set(tb.pad(operand.get(), 0, SmallVector<DimAttr>(dims.size(), tb.dimAttr(0)), dims));
  builder.insert(padded);
  if (result.getType() != op->getResult(0).getType())
    result = tb.slice(result, SmallVector<DimAttr>(wanted.size(), tb.dimAttr(0)), wanted);
  remark::passed(op->getLoc(), options("Padded"))
      << remark::add("{0}: channels, filters {1}, {2} padded to {3}, {4}", describeOp(op),
                     filter.back().str(), filter.front().str(), channels.str(), filters.str());
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
}

struct AlignMatmulsPass : trainc::impl::AlignMatmulsPassBase<AlignMatmulsPass> {
  using AlignMatmulsPassBase::AlignMatmulsPassBase;

  void runOnOperation() override {
    SmallVector<ContractionOpInterface> ops;
    getOperation()->walk([&](ContractionOpInterface op) {
      // Matmuls with an addend or an epilogue would have to pad these as well.
      if (op.isPlain() && getElementType(op->getResult(0)).getIntOrFloatBitWidth() == 16)
        ops.push_back(op);
    });
    // Collected first: new matmuls are not looked at again.
    llvm::for_each(ops, align);
    SmallVector<ConvolutionOpInterface> convolutions;
    getOperation()->walk([&](ConvolutionOpInterface op) {
      if (isLibraryCall(op) && getElementType(op->getResult(0)).getIntOrFloatBitWidth() == 16)
        convolutions.push_back(op);
    });
    llvm::for_each(convolutions, alignConvolution);
  }
};
} // namespace
