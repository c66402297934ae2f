// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reference evaluation of convolutions: plain loops in double, from the definition. Shares nothing
// with the parts.

#include "dialects/Train/Convolution/Convolution.h"
#include <functional>
#include <numeric>

using namespace mlir;
using namespace trainc::train;

/// Goes to the next index of this shape, row major; false behind the last one.
static bool advance(SmallVectorImpl<int64_t> &index, ArrayRef<int64_t> shape) {
  for (size_t axis = shape.size(); axis-- > 0; index[axis] = 0)
    if (++index[axis] < shape[axis])
      return true;
  return false;
}

/// Calls `fn` with the positions of each product's three elements in input, filter and output.
static LogicalResult forEachProduct(ConvolutionOpInterface op, ArrayRef<int64_t> input,
                                    ArrayRef<int64_t> filter, ArrayRef<int64_t> output,
                                    const SymbolValues &symbols,
                                    llvm::function_ref<void(int64_t, int64_t, int64_t)> fn) {
  SmallVector<int64_t> low;
  for (DimAttr dim : op.getLow().getDims()) {
    FailureOr<int64_t> value = symbols.evaluate(dim);
    if (failed(value))
      return failure();
    low.push_back(*value);
  }
  if (llvm::is_contained(output, 0) || llvm::is_contained(filter, 0))
    return success();
  size_t last = input.size() - 1;
  int64_t groupFilters = filter[0] / int64_t(op.getGroups());
  SmallVector<int64_t> window(output.size(), 0);
  ArrayRef<int64_t> ofOneFilter = filter.drop_front();
  bool more = true;
  for (int64_t to = 0; more; ++to, more = advance(window, output)) {
    int64_t k = window[last];
    int64_t from = std::accumulate(ofOneFilter.begin(), ofOneFilter.end(), k, std::multiplies<>());
    SmallVector<int64_t> tap(ofOneFilter.size(), 0);
    bool moreTaps = true;
    for (; moreTaps; ++from, moreTaps = advance(tap, ofOneFilter)) {
      int64_t position = window[0];
      bool isInput = true;
      for (size_t axis = 1; axis < last; ++axis) {
        int64_t at = window[axis] * op.getStrides()[axis - 1] +
                     tap[axis - 1] * op.getDilations()[axis - 1] - low[axis - 1];
        isInput &= at >= 0 && at < input[axis];
        position = position * input[axis] + at;
      }
      int64_t channel = k / groupFilters * filter[last] + tap.back();
      if (isInput)
        fn(position * input[last] + channel, from, to);
    }
  }
  return success();
}

LogicalResult ConvOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                               MutableArrayRef<HostTensor> results) {
  return forEachProduct(*this, operands[0].shape, operands[1].shape, results[0].shape, symbols,
                        [&](int64_t input, int64_t filter, int64_t output) {
                          results[0].data[output] +=
                              operands[0].data[input] * operands[1].data[filter];
                        });
}

LogicalResult ConvDataGradOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                                       MutableArrayRef<HostTensor> results) {
  return forEachProduct(*this, results[0].shape, operands[1].shape, operands[0].shape, symbols,
                        [&](int64_t input, int64_t filter, int64_t output) {
                          results[0].data[input] +=
                              operands[0].data[output] * operands[1].data[filter];
                        });
}

LogicalResult ConvFilterGradOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                                         MutableArrayRef<HostTensor> results) {
  return forEachProduct(*this, operands[0].shape, results[0].shape, operands[1].shape, symbols,
                        [&](int64_t input, int64_t filter, int64_t output) {
                          results[0].data[filter] +=
                              operands[0].data[input] * operands[1].data[output];
                        });
}
