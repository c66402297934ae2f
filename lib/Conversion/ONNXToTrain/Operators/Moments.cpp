// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "Moments.h"

using namespace mlir;
using trainc::train::TrainBuilder;

namespace trainc::legalize {

Type sumType(Type element) {
  return element.getIntOrFloatBitWidth() < 32 ? Type(Float32Type::get(element.getContext()))
                                              : element;
}

Moments momentsOf(TrainBuilder &tb, Value x, Value sample, ArrayRef<int64_t> axes,
                  llvm::function_ref<Value(Value)> together) {
  auto meanOf = [&](Value value) {
    Value mean = tb.mean(value, axes);
    return together ? together(mean) : mean;
  };
  Value shift = tb.detach(meanOf(sample));
  Value differences = tb.sub(x, tb.broadcastAlong(shift, train::getDims(x), axes));
  Value offset = meanOf(differences);
  Value square = meanOf(tb.mul(differences, differences));
  return {shift, offset, tb.relu(tb.sub(square, tb.mul(offset, offset)))};
}

Value normalise(TrainBuilder &tb, Value x, const Moments &moments, ArrayRef<int64_t> axes,
                double epsilon, Value scale, Value bias) {
  auto repeat = [&](Value value) { return tb.broadcastAlong(value, train::getDims(x), axes); };
  // Inside of the root, so that it is never 0.
  Value deviation = tb.add(moments.variance, tb.scalarLike(moments.variance, epsilon));
  Value factor = tb.mul(tb.rsqrt(deviation), scale);
  Value constant = tb.sub(bias, tb.mul(moments.offset, factor));
  Value differences = tb.sub(x, repeat(moments.shift));
  return tb.add(tb.mul(differences, repeat(factor)), repeat(constant));
}

} // namespace trainc::legalize
