// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of the stored weight are independent, so that threads change no bit.

#include "session/adapter/lora_merge.h"
#include "session/adapter/model_weight.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <numeric>

namespace trainrt {

namespace {

/// Columns that one thread takes at least, for the norms of columns.
constexpr int64_t columnGrain = 64;

/// A parameter's elements.
/// In f64: products are summed in it and rounded once, at the end.
Status read(const Session &session, const std::string &name, std::vector<double> &values) {
  ModelWeight weight;
  TRAINRT_TRY(weight.open(session, findParameter(session, name)));
  int64_t count = 0;
  (void)countElements(weight.shape().data(), weight.shape().size(), count);
  values.resize(size_t(count));
  weight.read(0, count, values.data());
  return {};
}

/// So that both factors are read along rows.
std::vector<double> transposed(const std::vector<double> &matrix, int64_t rows, int64_t columns) {
  std::vector<double> result(matrix.size());
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      result[size_t(j * rows + i)] = matrix[size_t(i * columns + j)];
  return result;
}

/// W + left right, by segments of a row of W [rows, columns].
struct Sum {
  ModelWeight weight;
  int64_t rows = 0, columns = 0, rank = 0;
  std::vector<double> left, right; ///< [rows, rank] with the scale, [rank, columns]

  /// The elements [begin, end) of a row.
  void segment(int64_t row, int64_t begin, int64_t end, double *to) const {
    weight.read(row * columns + begin, row * columns + end, to);
    // Ranks in ascending order: one order for each element, whatever the segment is.
    for (int64_t q = 0; q < rank; ++q) {
      const double factor = left[size_t(row * rank + q)];
      const double *from = &right[size_t(q * columns + begin)];
      for (int64_t j = 0; j < end - begin; ++j)
        to[j] += factor * from[j];
    }
  }
};

/// DoRA's factors of the columns, where each is the weights of one output.
/// sqrt of the sum of squares of each column, from the first row to the last.
std::vector<double> columnFactors(const Sum &sum, const std::vector<double> &magnitude,
                                  ThreadPool &pool) {
  std::vector<double> factors(magnitude.size());
  pool.parallelFor(sum.columns, columnGrain, [&](unsigned, int64_t begin, int64_t end) {
    // Columns of a thread, all rows: no sums are shared between threads.
    std::vector<double> row(size_t(end - begin)), squares(size_t(end - begin));
    for (int64_t i = 0; i < sum.rows; ++i) {
      sum.segment(i, begin, end, row.data());
      for (size_t j = 0; j < row.size(); ++j)
        squares[j] += row[j] * row[j];
    }
    for (size_t j = 0; j < row.size(); ++j)
      factors[size_t(begin) + j] = magnitude[size_t(begin) + j] / std::sqrt(squares[j]);
  });
  return factors;
}

} // namespace

Status decodeParameter(Session &session, size_t index, OwnedArray &decoded) {
  ModelWeight weight;
  TRAINRT_TRY(weight.open(session, index));
  decoded.dtype = weight.dtype();
  decoded.shape = weight.shape();
  assert(int64_t(session.package().program().parameters.size()) > int64_t(index) && "a parameter");
  int64_t count = 0;
  const auto size = int64_t(sizeOf(decoded.dtype));
  (void)countElements(decoded.shape.data(), decoded.shape.size(), count);
  decoded.bytes.resize(size_t(count * size));
  // Pieces that fit into a thread's cache.
  session.threadPool().parallelFor(count, 4096, [&](unsigned, int64_t begin, int64_t end) {
    std::vector<double> values(size_t(std::min<int64_t>(end - begin, 4096)));
    for (; begin < end; begin += int64_t(values.size())) {
      values.resize(size_t(std::min<int64_t>(end - begin, 4096)));
      weight.read(begin, begin + int64_t(values.size()), values.data());
      storeRounded(values, decoded.dtype, decoded.bytes.data() + begin * size);
    }
  });
  return {};
}

/// In the shape and type of the base's own values, which may be stored quantized.
Status mergeAdapter(Session &session, const Lora::Module &module, OwnedArray &merged) {
  std::vector<double> a, b, magnitude;
  TRAINRT_TRY(read(session, module.a, a));
  TRAINRT_TRY(read(session, module.b, b));
  if (!module.magnitude.empty())
    TRAINRT_TRY(read(session, module.magnitude, magnitude));
  Sum sum;
  TRAINRT_TRY(sum.weight.open(session, findParameter(session, module.weight)));
  // A is [rank, k], B is [n, rank]; W is [n, k], or [k, n] where the layer's product has it the
  // other way.
  const int64_t k = int64_t(a.size()) / module.rank, n = int64_t(b.size()) / module.rank;
  sum.rows = n;
  sum.columns = k;
  sum.rank = module.rank;
  if (module.isTransposed()) {
    std::swap(sum.rows, sum.columns);
    sum.left = transposed(a, module.rank, k);
    sum.right = transposed(b, n, module.rank);
  } else {
    sum.left = std::move(b);
    sum.right = std::move(a);
  }
  // The scale goes into one factor, once.
  for (double &factor : sum.left)
    factor *= module.scale;
  assert(sum.weight.shape() == std::vector<int64_t>({sum.rows, sum.columns}) &&
         "shapes are checked when the package is opened");

  merged.dtype = sum.weight.dtype();
  merged.shape = sum.weight.shape();
  ThreadPool &pool = session.threadPool();
  std::vector<double> factors;
  // Magnitudes are of outputs: rows of W, or columns of a transposed one.
  if (!magnitude.empty() && module.isTransposed())
    factors = columnFactors(sum, magnitude, pool);
  const int64_t rowBytes = sum.columns * int64_t(sizeOf(merged.dtype));
  merged.bytes.resize(size_t(sum.rows * rowBytes));
  pool.parallelFor(sum.rows, 1, [&](unsigned, int64_t begin, int64_t end) {
    std::vector<double> row(size_t(sum.columns));
    for (int64_t i = begin; i < end; ++i) {
      sum.segment(i, 0, sum.columns, row.data());
      if (!factors.empty()) {
        for (size_t j = 0; j < row.size(); ++j)
          row[j] *= factors[j];
      } else if (!magnitude.empty()) {
        // The norm of the sum, as DoRA defines it, not of the base.
        const double norm = std::sqrt(std::inner_product(row.begin(), row.end(), row.begin(), 0.0));
        for (double &element : row)
          element *= magnitude[size_t(i)] / norm;
      }
      storeRounded(row, merged.dtype, merged.bytes.data() + i * rowBytes);
    }
  });
  return {};
}

Status mergedParameter(Session &session, size_t index, OwnedArray &held, ArrayView &array) {
  const Manifest::Tensor &entry = session.package().parameter(index);
  // At most one: the manifest's modules have different weights.
  const std::optional<Lora> &lora = session.package().manifest().lora;
  const Lora::Module *module = nullptr;
  for (size_t i = 0; lora && i < lora->modules.size(); ++i)
    if (lora->modules[i].weight == entry.name)
      module = &lora->modules[i];
  // As it is, without a copy.
  if (!module && !entry.quantized)
    return session.parameter(index, array);
  TRAINRT_TRY(module ? mergeAdapter(session, *module, held)
                     : decodeParameter(session, index, held));
  array = {held.bytes.data(), held.dtype, held.shape, int64_t(held.bytes.size())};
  return {};
}

} // namespace trainrt
