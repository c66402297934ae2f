// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reference evaluation of attention and its gradient: plain loops in double, straight from the
// definition. The gradient computes the weights anew and reads nothing of what was saved but the
// cotangent.
#include "dialects/Train/TrainDetail.h"
#include "dialects/Train/TrainDialect.h"
#include <cmath>
#include <limits>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// One attention: operands, and how scores come from them.
struct Problem {
  const HostTensor &q, &k, &v;
  const HostTensor *bias, *seed, *offsets, *positions;
  double scale, dropout;
  bool causal;
  std::optional<int64_t> before, after;

  int64_t batch() const { return q.shape[0]; }
  int64_t heads() const { return q.shape[1]; }
  int64_t rows() const { return q.shape[2]; }
  int64_t columns() const { return k.shape[2]; }
  int64_t depth() const { return q.shape[3]; }
  int64_t width() const { return v.shape[3]; }
  int64_t keyHead(int64_t head) const { return head / (heads() / k.shape[1]); }
  int64_t query(int64_t b, int64_t h, int64_t i) const {
    return ((b * heads() + h) * rows() + i) * depth();
  }
  int64_t key(int64_t b, int64_t h, int64_t j) const {
    return ((b * k.shape[1] + keyHead(h)) * columns() + j) * depth();
  }
  int64_t value(int64_t b, int64_t h, int64_t j) const {
    return ((b * k.shape[1] + keyHead(h)) * columns() + j) * width();
  }
  int64_t output(int64_t b, int64_t h, int64_t i) const {
    return ((b * heads() + h) * rows() + i) * width();
  }
  /// The segment of a row (and column), -1 behind the last one; the batch without segments.
  int64_t segment(int64_t b, int64_t i) const {
    if (!offsets)
      return b;
    for (int64_t g = 0; g + 1 < offsets->shape[0]; ++g)
      if (i >= int64_t(offsets->data[g]) && i < int64_t(offsets->data[g + 1]))
        return g;
    return -1;
  }
  /// The row's coordinates for random numbers.
  int64_t sample(int64_t b, int64_t i) const {
    return positions ? int64_t(positions->data[i]) : segment(b, i);
  }
  int64_t position(int64_t b, int64_t i) const {
    if (positions)
      return int64_t(positions->data[rows() + i]);
    return offsets ? i - int64_t(offsets->data[segment(b, i)]) : i;
  }
  /// Whether row i sees column j.
  bool sees(int64_t b, int64_t i, int64_t j) const {
    if (causal && j > i + columns() - rows())
      return false;
    if ((before && i - j > *before) || (after && j - i > *after))
      return false;
    return !offsets || (segment(b, i) >= 0 && segment(b, i) == segment(b, j));
  }
  int64_t stats(int64_t b, int64_t h, int64_t i) const { return (b * heads() + h) * rows() + i; }

  /// Softmax of row i of the scores; its log-sum-exp is returned. All 0 where the row is -inf.
  double weights(int64_t b, int64_t h, int64_t i, std::vector<double> &p) const {
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t j = 0; j < columns(); ++j) {
      double s = 0;
      for (int64_t d = 0; d < depth(); ++d)
        s += q.data[query(b, h, i) + d] * k.data[key(b, h, j) + d];
      s *= scale;
      if (bias) {
        auto in = [&](int axis, int64_t index) { return bias->shape[axis] == 1 ? 0 : index; };
        s += bias->data[((in(0, b) * bias->shape[1] + in(1, h)) * bias->shape[2] + in(2, i)) *
                            columns() +
                        j];
      }
      if (!sees(b, i, j))
        s = -std::numeric_limits<double>::infinity();
      p[j] = s;
      largest = trainc::train::detail::maximum(largest, s);
    }
    if (std::isinf(largest) && largest < 0) {
      std::fill(p.begin(), p.end(), 0.0);
      return largest;
    }
    for (double &s : p)
      sum += s = std::exp(s - largest);
    for (double &s : p)
      s /= sum;
    return largest + std::log(sum);
  }
  /// What dropout multiplies the weight of column j by.
  double kept(int64_t b, int64_t h, int64_t i, int64_t j) const {
    if (dropout == 0 || !sees(b, i, j))
      return 1;
    return trainc::train::detail::dropout(
        1, seed->data[0], {sample(b, i), h, position(b, i), position(b, j)}, dropout);
  }
};
} // namespace

/// The optional operands follow the first `fixed` ones.
template <typename OpTy>
static Problem makeProblem(OpTy op, ArrayRef<HostTensor> operands, unsigned fixed) {
  auto next = [&](Value operand) { return operand ? &operands[fixed++] : nullptr; };
  const HostTensor *bias = next(op.getBias()), *seed = next(op.getSeed()),
                   *offsets = next(op.getOffsets()), *positions = next(op.getPositions());
  return {operands[0],
          operands[1],
          operands[2],
          bias,
          seed,
          offsets,
          positions,
          op.getScale().convertToDouble(),
          op.getDropout().convertToDouble(),
          op.getCausal(),
          op.getBefore(),
          op.getAfter()};
}

LogicalResult AttentionOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                    MutableArrayRef<HostTensor> results) {
  Problem problem = makeProblem(*this, operands, 3);
  std::vector<double> p(problem.columns());
  for (int64_t b = 0; b < problem.batch(); ++b)
    for (int64_t h = 0; h < problem.heads(); ++h)
      for (int64_t i = 0; i < problem.rows(); ++i) {
        results[1].data[problem.stats(b, h, i)] = problem.weights(b, h, i, p);
        for (int64_t j = 0; j < problem.columns(); ++j)
          for (int64_t d = 0; d < problem.width(); ++d)
            results[0].data[problem.output(b, h, i) + d] +=
                p[j] * problem.kept(b, h, i, j) * problem.v.data[problem.value(b, h, j) + d];
      }
  return success();
}

LogicalResult AttentionGradOp::evaluate(ArrayRef<HostTensor> operands, const SymbolValues &,
                                        MutableArrayRef<HostTensor> results) {
  Problem problem = makeProblem(*this, operands, 6);
  const HostTensor &cotangent = operands[5];
  std::vector<double> p(problem.columns()), dp(problem.columns());
  for (int64_t b = 0; b < problem.batch(); ++b)
    for (int64_t h = 0; h < problem.heads(); ++h)
      for (int64_t i = 0; i < problem.rows(); ++i) {
        problem.weights(b, h, i, p);
        const double *g = &cotangent.data[problem.output(b, h, i)];
        double mean = 0;
        for (int64_t j = 0; j < problem.columns(); ++j) {
          int64_t value = problem.value(b, h, j);
          double kept = problem.kept(b, h, i, j), dot = 0;
          for (int64_t d = 0; d < problem.width(); ++d) {
            dot += g[d] * problem.v.data[value + d];
            results[2].data[value + d] += p[j] * kept * g[d];
          }
          dp[j] = dot * kept;
          mean += p[j] * dp[j];
        }
        for (int64_t j = 0; j < problem.columns(); ++j) {
          double ds = p[j] * (dp[j] - mean);
          if (getDbias())
            results[3].data[(h * problem.rows() + i) * problem.columns() + j] += ds;
          ds *= problem.scale;
          for (int64_t d = 0; d < problem.depth(); ++d) {
            int64_t query = problem.query(b, h, i) + d, key = problem.key(b, h, j) + d;
            results[0].data[query] += ds * problem.k.data[key];
            results[1].data[key] += ds * problem.q.data[query];
          }
        }
      }
  return success();
}
