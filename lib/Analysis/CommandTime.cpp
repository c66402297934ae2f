// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A command takes what is longer of computing and of moving its bytes.

#include "lib/Analysis/CommandTime.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
class Estimator {
public:
  Estimator(const FunctionLifetimes &lifetimes, ArrayRef<int64_t> bytes, SymbolLookup symbols)
      : lifetimes(lifetimes), bytes(bytes), symbols(symbols) {}

  double operator()(Operation *command) {
    if (auto gemm = dyn_cast<plan::GemmOp>(command))
      return ofProduct(gemm);
    if (auto attention = dyn_cast<plan::AttentionOp>(command))
      return ofAttention(attention);
    if (auto copy = dyn_cast<plan::CopyOp>(command); copy && copy.isTransfer())
      return 0;
    return touched(command) / kGpuSpeed.bytes;
  }

  bool isKnown = true;

private:
  double value(DimAttr dim) {
    FailureOr<int64_t> number = dim.evaluate(symbols);
    isKnown &= succeeded(number);
    return succeeded(number) ? double(*number) : 0;
  }
  double product(DimsAttr dims) {
    double result = 1;
    for (DimAttr dim : dims.getDims())
      result *= value(dim);
    return result;
  }
  double touched(Operation *command) {
    llvm::SmallDenseSet<Value> seen;
    double sum = 0;
    for (Value operand : command->getOperands())
      if (seen.insert(operand).second)
        sum += double(bytes[lifetimes.index.lookup(operand)]);
    return sum;
  }
  static ProcessorSpeed speedOf(Type element, bool tf32) {
    return element.getIntOrFloatBitWidth() == 16 ? kGpuLowPrecisionSpeed
           : tf32                                ? kGpuTF32Speed
                                                 : kGpuSpeed;
  }

  /// Its operands may be parts of their buffers.
  double ofProduct(plan::GemmOp op) {
    ArrayRef<DimAttr> sizes = op.getSizes().getDims();
    const double batch = product(op.getBatch()), m = value(sizes[0]), n = value(sizes[1]),
                 k = value(sizes[2]);
    const double size = op.getElementType().getIntOrFloatBitWidth() / 8;
    const ProcessorSpeed speed = speedOf(op.getElementType(), op.getTf32());
    const double bytes = (m * k + k * n) * size + m * n * (op.getWide() ? 4 : size);
    return batch * std::max(2 * m * n * k / speed.flops, bytes / speed.bytes);
  }

  double ofAttention(plan::AttentionOp op) {
    ArrayRef<DimAttr> sizes = op.getSizes().getDims();
    double keys = value(sizes[4]);
    if (op.getSegmentSizes()) // a row meets those of its segment only
      keys = std::min(keys, value(op.getSegmentSizes()->getDims()[1]));
    const double scores = value(sizes[0]) * value(sizes[1]) * value(sizes[3]) * keys;
    double flops = 2 * scores * (value(sizes[5]) + value(sizes[6]));
    flops *= op.getDO() ? 2.5 : 1; // with the scores once more
    flops *= op.getCausal() ? 0.5 : 1;
    const ProcessorSpeed speed = speedOf(op.getElementType(), /*tf32=*/false);
    return std::max(flops / speed.flops, touched(op) / speed.bytes);
  }

  const FunctionLifetimes &lifetimes;
  ArrayRef<int64_t> bytes;
  SymbolLookup symbols;
};
} // namespace

FailureOr<SmallVector<double, 0>> trainc::estimateGpuSeconds(const FunctionLifetimes &lifetimes,
                                                             ArrayRef<int64_t> bytes,
                                                             SymbolLookup symbols) {
  Estimator estimate(lifetimes, bytes, symbols);
  SmallVector<double, 0> seconds;
  Operation *before = nullptr;
  for (Operation *command : lifetimes.commands) {
    // A further stage of a kernel finishes what little the one before has left.
    const bool isStage = before && isa<plan::LaunchOp>(before) && isa<plan::LaunchOp>(command) &&
                         before->getOperands() == command->getOperands();
    seconds.push_back(isStage ? 0 : estimate(command));
    before = command;
  }
  if (!estimate.isKnown)
    return failure();
  return seconds;
}
