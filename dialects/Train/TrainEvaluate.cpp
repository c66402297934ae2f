// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reference evaluation of the ops that are neither pointwise nor reductions: plain loops in double,
// straight from each op's definition. Nothing here may share code with decompositions, gradients or
// code generation, whose tests compare with it.
#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Position of `index` in a row-major tensor of `shape`.
int64_t flatten(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    position = position * size + i;
  return position;
}

double &at(HostTensor &tensor, ArrayRef<int64_t> index) {
  return tensor.data[flatten(index, tensor.shape)];
}
double at(const HostTensor &tensor, ArrayRef<int64_t> index) {
  return tensor.data[flatten(index, tensor.shape)];
}

/// Calls `fn` with every index of `shape` in row-major order; stops when it fails.
LogicalResult forEachIndex(ArrayRef<int64_t> shape,
                           llvm::function_ref<LogicalResult(ArrayRef<int64_t>)> fn) {
  if (llvm::is_contained(shape, 0))
    return success();
  SmallVector<int64_t> index(shape.size(), 0);
  while (true) {
    if (failed(fn(index)))
      return failure();
    int64_t axis = int64_t(shape.size()) - 1;
    while (axis >= 0 && ++index[axis] == shape[axis])
      index[axis--] = 0;
    if (axis < 0)
      return success();
  }
}
void forEach(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> fn) {
  (void)forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    fn(index);
    return success();
  });
}

/// `index` with the coordinate of one axis replaced.
SmallVector<int64_t> withCoordinate(ArrayRef<int64_t> index, int64_t axis, int64_t value) {
  SmallVector<int64_t> result(index);
  result[axis] = value;
  return result;
}

/// An index out of data; negative ones count from the end.
FailureOr<int64_t> resolveIndex(double value, int64_t extent) {
  int64_t index = int64_t(value);
  if (index < 0)
    index += extent;
  if (index < 0 || index >= extent)
    return failure();
  return index;
}

FailureOr<SmallVector<int64_t>> evaluateDims(DimsAttr dims, const SymbolValues &symbols) {
  SmallVector<int64_t> result;
  for (DimAttr dim : dims.getDims()) {
    FailureOr<int64_t> value = symbols.evaluate(dim);
    if (failed(value))
      return failure();
    result.push_back(*value);
  }
  return result;
}

/// Calls `fn` with the positions of the elements of each row along `axis`.
void forEachRow(ArrayRef<int64_t> shape, int64_t axis,
                llvm::function_ref<void(ArrayRef<int64_t>)> fn) {
  SmallVector<int64_t> outer(shape);
  outer[axis] = 1;
  forEach(outer, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> positions;
    for (int64_t i = 0; i < shape[axis]; ++i)
      positions.push_back(flatten(withCoordinate(index, axis, i), shape));
    fn(positions);
  });
}

/// The largest element of a row (NaN wins), and the sum of e^(x - largest). Kept apart: largest +
/// log(sum) loses the sum where the row is masked by the type's minimum.
struct RowSum {
  double largest = -kInfinity, sum = 0;
  /// log(sum e^x); -inf for a row of -inf.
  double logSumExp() const { return largest == -kInfinity ? -kInfinity : largest + std::log(sum); }
};
RowSum sumRow(const HostTensor &x, ArrayRef<int64_t> positions) {
  RowSum row;
  for (int64_t p : positions)
    row.largest = trainc::train::detail::maximum(row.largest, x.data[p]);
  for (int64_t p : positions)
    row.sum += std::exp(x.data[p] - row.largest);
  return row;
}
} // namespace

//===----------------------------------------------------------------------===//
// Constants and element moves
//===----------------------------------------------------------------------===//

LogicalResult ConstantOp::evaluate(ArrayRef<HostTensor>, const SymbolValues &,
                                   MutableArrayRef<HostTensor> results) {
  auto values = getValue().tryGetValues<Attribute>();
  if (!values)
    return failure();
  results[0].data.clear();
  for (Attribute value : *values)
    results[0].data.push_back(detail::attrValue(value));
  return success();
}

LogicalResult DimOp::evaluate(ArrayRef<HostTensor>, const SymbolValues &symbols,
                              MutableArrayRef<HostTensor> results) {
  FailureOr<int64_t> value = symbols.evaluate(getValue());
  if (failed(value))
    return failure();
  results[0].data.assign(1, double(*value));
  return success();
}

LogicalResult BroadcastOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                    MutableArrayRef<HostTensor> results) {
  forEach(results[0].shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source;
    for (int64_t axis : getAxes())
      source.push_back(index[axis]);
    at(results[0], index) = at(operands[0], source);
  });
  return success();
}

LogicalResult ReshapeOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                  MutableArrayRef<HostTensor> results) {
  if (operands[0].size() != results[0].size())
    return failure();
  results[0].data = operands[0].data;
  return success();
}

LogicalResult BarrierOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                  MutableArrayRef<HostTensor> results) {
  results[0].data = operands[0].data;
  return success();
}

LogicalResult TransposeOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                    MutableArrayRef<HostTensor> results) {
  forEach(results[0].shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source(index.size());
    for (auto [axis, from] : llvm::enumerate(getPermutation()))
      source[from] = index[axis];
    at(results[0], index) = at(operands[0], source);
  });
  return success();
}

LogicalResult SliceOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                                MutableArrayRef<HostTensor> results) {
  auto starts = evaluateDims(getStarts(), symbols);
  if (failed(starts))
    return failure();
  return forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    SmallVector<int64_t> source;
    for (auto [axis, i] : llvm::enumerate(index)) {
      source.push_back((*starts)[axis] + i * getSteps()[axis]);
      if (source.back() < 0 || source.back() >= operands[0].shape[axis])
        return failure();
    }
    at(results[0], index) = at(operands[0], source);
    return success();
  });
}

LogicalResult PadOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &symbols,
                              MutableArrayRef<HostTensor> results) {
  auto low = evaluateDims(getLow(), symbols);
  if (failed(low))
    return failure();
  double value = detail::attrValue(getValue());
  forEach(results[0].shape, [&](ArrayRef<int64_t> index) {
    SmallVector<int64_t> source;
    bool inside = true;
    for (auto [axis, i] : llvm::enumerate(index)) {
      source.push_back(i - (*low)[axis]);
      inside &= source.back() >= 0 && source.back() < operands[0].shape[axis];
    }
    at(results[0], index) = inside ? at(operands[0], source) : value;
  });
  return success();
}

LogicalResult ConcatOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                 MutableArrayRef<HostTensor> results) {
  int64_t axis = getAxis(), begin = 0;
  for (const HostTensor &operand : operands) {
    forEach(operand.shape, [&](ArrayRef<int64_t> index) {
      at(results[0], withCoordinate(index, axis, begin + index[axis])) = at(operand, index);
    });
    begin += operand.shape[axis];
  }
  return success(begin == results[0].shape[axis]);
}

LogicalResult SplitOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                MutableArrayRef<HostTensor> results) {
  int64_t axis = getAxis(), begin = 0;
  for (HostTensor &result : results) {
    if (begin + result.shape[axis] > operands[0].shape[axis])
      return failure();
    forEach(result.shape, [&](ArrayRef<int64_t> index) {
      at(result, index) = at(operands[0], withCoordinate(index, axis, begin + index[axis]));
    });
    begin += result.shape[axis];
  }
  return success();
}

LogicalResult GatherOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                 MutableArrayRef<HostTensor> results) {
  const HostTensor &data = operands[0], &indices = operands[1];
  int64_t axis = getAxis(), indexRank = indices.shape.size();
  return forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    auto row = resolveIndex(at(indices, index.slice(axis, indexRank)), data.shape[axis]);
    if (failed(row))
      return failure();
    SmallVector<int64_t> source(index.take_front(axis));
    source.push_back(*row);
    llvm::append_range(source, index.drop_front(axis + indexRank));
    at(results[0], index) = at(data, source);
    return success();
  });
}

LogicalResult SelectRowsOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                     MutableArrayRef<HostTensor> results) {
  return forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    SmallVector<int64_t> source(index);
    int64_t &row = source[getAxis()];
    row = int64_t(operands[1].data[row]);
    if (row >= operands[0].shape[getAxis()])
      return failure();
    at(results[0], index) = row < 0 ? 0 : at(operands[0], source);
    return success();
  });
}

LogicalResult GatherElementsOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                         MutableArrayRef<HostTensor> results) {
  int64_t axis = getAxis();
  return forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    auto position = resolveIndex(at(operands[1], index), operands[0].shape[axis]);
    if (failed(position))
      return failure();
    at(results[0], index) = at(operands[0], withCoordinate(index, axis, *position));
    return success();
  });
}

LogicalResult GatherNdOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                   MutableArrayRef<HostTensor> results) {
  const HostTensor &data = operands[0], &indices = operands[1];
  int64_t batch = getBatchDims(), tuple = indices.shape.back();
  int64_t addressed = int64_t(indices.shape.size()) - 1;
  return forEachIndex(results[0].shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    SmallVector<int64_t> where(index.take_front(addressed)), source(index.take_front(batch));
    where.push_back(0);
    for (int64_t i = 0; i < tuple; ++i) {
      where.back() = i;
      auto coordinate = resolveIndex(at(indices, where), data.shape[batch + i]);
      if (failed(coordinate))
        return failure();
      source.push_back(*coordinate);
    }
    llvm::append_range(source, index.drop_front(addressed));
    at(results[0], index) = at(data, source);
    return success();
  });
}

LogicalResult ScatterAddOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                     MutableArrayRef<HostTensor> results) {
  const HostTensor &indices = operands[0], &updates = operands[1];
  HostTensor &result = results[0];
  int64_t axis = getAxis(), indexRank = indices.shape.size();
  std::fill(result.data.begin(), result.data.end(), 0.0);
  return forEachIndex(updates.shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    double chosen = at(indices, index.slice(axis, indexRank));
    if (getUnique() && chosen < 0)
      return success();
    auto row = resolveIndex(chosen, result.shape[axis]);
    if (failed(row))
      return failure();
    SmallVector<int64_t> target(index.take_front(axis));
    target.push_back(*row);
    llvm::append_range(target, index.drop_front(axis + indexRank));
    at(result, target) += at(updates, index);
    return success();
  });
}

LogicalResult ScatterElementsAddOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                             MutableArrayRef<HostTensor> results) {
  HostTensor &result = results[0];
  int64_t axis = getAxis();
  std::fill(result.data.begin(), result.data.end(), 0.0);
  return forEachIndex(operands[1].shape, [&](ArrayRef<int64_t> index) -> LogicalResult {
    auto position = resolveIndex(at(operands[0], index), result.shape[axis]);
    if (failed(position))
      return failure();
    at(result, withCoordinate(index, axis, *position)) += at(operands[1], index);
    return success();
  });
}

LogicalResult CumsumOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                 MutableArrayRef<HostTensor> results) {
  forEachRow(operands[0].shape, getAxis(), [&](ArrayRef<int64_t> row) {
    SmallVector<int64_t> order(row);
    if (getReverse())
      std::reverse(order.begin(), order.end());
    double sum = 0;
    for (int64_t p : order) {
      double next = sum + operands[0].data[p];
      results[0].data[p] = getExclusive() ? sum : next;
      sum = next;
    }
  });
  return success();
}

//===----------------------------------------------------------------------===//
// Matmuls and composites
//===----------------------------------------------------------------------===//

/// Element `index` of a batched matmul.
static double productElement(const HostTensor &lhs, bool transposeLhs, const HostTensor &rhs,
                             bool transposeRhs, ArrayRef<int64_t> index) {
  size_t rank = lhs.shape.size();
  int64_t inner = lhs.shape[rank - (transposeLhs ? 2 : 1)];
  SmallVector<int64_t> left(index), right(index);
  int64_t m = index[rank - 2], n = index[rank - 1];
  double sum = 0;
  for (int64_t k = 0; k < inner; ++k) {
    left[rank - 2] = transposeLhs ? k : m;
    left[rank - 1] = transposeLhs ? m : k;
    right[rank - 2] = transposeRhs ? n : k;
    right[rank - 1] = transposeRhs ? k : n;
    sum += at(lhs, left) * at(rhs, right);
  }
  return sum;
}

LogicalResult MatmulOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                 MutableArrayRef<HostTensor> results) {
  auto gelu = [](double x) {
    return 0.5 * x * (1 + std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  };
  forEach(results[0].shape, [&](ArrayRef<int64_t> index) {
    double p =
        productElement(operands[0], getTransposeLhs(), operands[1], getTransposeRhs(), index);
    double &result = at(results[0], index);
    if (!getEpilogue()) {
      result = p + (getAddend() ? at(operands[2], index) : 0.0);
      return;
    }
    switch (*getEpilogue()) {
    case Epilogue::bias:
      result = p + operands[2].data[index[1]];
      break;
    case Epilogue::gelu_aux_bias:
      p += operands[2].data[index[1]];
      [[fallthrough]];
    case Epilogue::gelu_aux:
      result = gelu(p);
      at(results[1], index) = p;
      break;
    case Epilogue::dgelu:
    case Epilogue::dgelu_bgrad:
      result = p * trainc::train::detail::geluGrad(at(operands[2], index), /*tanh=*/true);
      if (getEpilogue() == Epilogue::dgelu_bgrad)
        results[1].data[index[1]] += result;
    }
  });
  return success();
}

LogicalResult SoftmaxOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                  MutableArrayRef<HostTensor> results) {
  const HostTensor &x = operands[0];
  forEachRow(x.shape, getAxis(), [&](ArrayRef<int64_t> row) {
    auto [largest, sum] = sumRow(x, row);
    bool masked = largest == -kInfinity;
    for (int64_t p : row)
      results[0].data[p] = masked && getGuarded() ? 0.0 : std::exp(x.data[p] - largest) / sum;
  });
  return success();
}

LogicalResult LogSoftmaxOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                     MutableArrayRef<HostTensor> results) {
  const HostTensor &x = operands[0];
  forEachRow(x.shape, getAxis(), [&](ArrayRef<int64_t> row) {
    auto [largest, sum] = sumRow(x, row);
    for (int64_t p : row)
      results[0].data[p] = x.data[p] - largest - std::log(sum);
  });
  return success();
}

LogicalResult LayerNormOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                    MutableArrayRef<HostTensor> results) {
  const HostTensor &x = operands[0], &scale = operands[1];
  int64_t width = scale.size(), rows = width ? x.size() / width : 0;
  double epsilon = getEpsilon().convertToDouble();
  for (int64_t row = 0; row < rows; ++row) {
    const double *in = &x.data[row * width];
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < width; ++i)
      mean += in[i] / double(width);
    for (int64_t i = 0; i < width; ++i)
      variance += (in[i] - mean) * (in[i] - mean) / double(width);
    double rstd = 1 / std::sqrt(variance + epsilon);
    results[1].data[row] = mean;
    results[2].data[row] = rstd;
    for (int64_t i = 0; i < width; ++i)
      results[0].data[row * width + i] =
          (in[i] - mean) * rstd * scale.data[i] + (getBias() ? operands[2].data[i] : 0.0);
  }
  return success();
}

LogicalResult CrossEntropyOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                       MutableArrayRef<HostTensor> results) {
  const HostTensor &logits = operands[0], &labels = operands[1];
  int64_t classes = logits.shape.back();
  for (int64_t row = 0; row < labels.size(); ++row) {
    SmallVector<int64_t> positions;
    for (int64_t c = 0; c < classes; ++c)
      positions.push_back(row * classes + c);
    RowSum rowSum = sumRow(logits, positions);
    results[1].data[row] = rowSum.logSumExp();
    double label = labels.data[row];
    std::optional<int64_t> ignored = getIgnoreIndex();
    if (ignored && label == double(*ignored)) {
      results[0].data[row] = 0;
      continue;
    }
    if (label < 0 || label >= double(classes))
      return failure();
    double chosen = logits.data[positions[int64_t(label)]];
    results[0].data[row] = rowSum.largest - chosen + std::log(rowSum.sum);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Optimizers, as torch.optim computes a single tensor's update
//===----------------------------------------------------------------------===//

LogicalResult SgdOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                              MutableArrayRef<HostTensor> results) {
  bool hasVelocity = bool(getVelocity());
  const HostTensor *scalars = &operands[hasVelocity ? 3 : 2];
  double lr = scalars[0].data[0], decay = scalars[1].data[0], step = scalars[2].data[0];
  double momentum = getMomentum().convertToDouble();
  for (int64_t i = 0; i < operands[0].size(); ++i) {
    double p = operands[0].data[i], g = operands[1].data[i] + decay * p;
    if (hasVelocity) {
      double v = operands[2].data[i];
      if (momentum != 0) {
        v = step == 1 ? g : momentum * v + g;
        g = getNesterov() ? g + momentum * v : v;
      }
      results[1].data[i] = v;
    }
    results[0].data[i] = p - lr * g;
  }
  return success();
}

LogicalResult AdamOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                               MutableArrayRef<HostTensor> results) {
  double lr = operands[4].data[0], decay = operands[5].data[0], step = operands[6].data[0];
  double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  double epsilon = getEpsilon().convertToDouble();
  double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  for (int64_t i = 0; i < operands[0].size(); ++i) {
    double p = operands[0].data[i], g = operands[1].data[i];
    if (getDecoupled())
      p *= 1 - lr * decay;
    else
      g += decay * p;
    double m = beta1 * operands[2].data[i] + (1 - beta1) * g;
    double v = beta2 * operands[3].data[i] + (1 - beta2) * g * g;
    results[0].data[i] = p - lr * (m / correction1) / (std::sqrt(v / correction2) + epsilon);
    results[1].data[i] = m;
    results[2].data[i] = v;
  }
  return success();
}

LogicalResult LambOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                               MutableArrayRef<HostTensor> results) {
  double lr = operands[4].data[0], decay = operands[5].data[0], step = operands[6].data[0];
  double beta1 = getBeta1().convertToDouble(), beta2 = getBeta2().convertToDouble();
  double epsilon = getEpsilon().convertToDouble();
  double correction1 = 1 - std::pow(beta1, step), correction2 = 1 - std::pow(beta2, step);
  int64_t size = operands[0].size();
  std::vector<double> direction(size);
  double parameterNorm = 0, directionNorm = 0;
  for (int64_t i = 0; i < size; ++i) {
    double p = operands[0].data[i], g = operands[1].data[i];
    double m = beta1 * operands[2].data[i] + (1 - beta1) * g;
    double v = beta2 * operands[3].data[i] + (1 - beta2) * g * g;
    results[1].data[i] = m;
    results[2].data[i] = v;
    direction[i] = (m / correction1) / (std::sqrt(v / correction2) + epsilon) + decay * p;
    parameterNorm += p * p;
    directionNorm += direction[i] * direction[i];
  }
  double ratio =
      parameterNorm > 0 && directionNorm > 0 ? std::sqrt(parameterNorm / directionNorm) : 1;
  for (int64_t i = 0; i < size; ++i)
    results[0].data[i] = operands[0].data[i] - lr * ratio * direction[i];
  return success();
}
