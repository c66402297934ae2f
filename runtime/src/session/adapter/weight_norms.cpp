// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each norm is summed in one order, so that threads change no bit.

#include "session/adapter/weight_norms.h"
#include "session/adapter/model_weight.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace trainrt {

namespace {

/// Elements that are read at once.
constexpr int64_t piece = 4096;

/// Calls visit(j, element) for the elements [begin, end).
/// In ascending order.
template <typename Visit>
void visitElements(const ModelWeight &weight, int64_t begin, int64_t end, Visit visit) {
  double values[piece];
  for (int64_t first = begin; first < end; first += piece) {
    const int64_t last = std::min(end, first + piece);
    weight.read(first, last, values);
    for (int64_t j = first; j < last; ++j)
      visit(j - begin, values[j - first]);
  }
}

} // namespace

Status storeNorms(Session &session, size_t index) {
  const Manifest::Init &init = *session.package().parameter(index).init;
  const size_t matrix = findParameter(session, init.matrix);
  if (ShardRange own; session.holdsShard(Session::Value::Parameter, matrix, own))
    return fail(Code::Unsupported, "parameter '",
                session.package().program().parameters[index].name, "' begins as the norms of '",
                init.matrix,
                "', of which each rank holds a part; compile with --distribute zero2, or let each "
                "rank hold all (--shard-within 1)");
  ModelWeight weight;
  TRAINRT_TRY(weight.open(session, matrix));
  assert(weight.shape().size() == 2 && "norms are of matrices: the manifest's are checked");
  const int64_t rows = weight.shape()[0], columns = weight.shape()[1];
  // In f64: squares of f16 elements would overflow in their own type.
  std::vector<double> norms(size_t(weight.shape()[size_t(init.axis)]));
  ThreadPool &pool = session.threadPool();
  // A row for itself, by one thread.
  if (init.axis == 0)
    pool.parallelFor(rows, 1, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        visitElements(weight, i * columns, (i + 1) * columns,
                      [&](int64_t, double element) { norms[size_t(i)] += element * element; });
    });
  else
    // Columns of a thread, row after row.
    pool.parallelFor(columns, 64, [&](unsigned, int64_t begin, int64_t end) {
      for (int64_t i = 0; i < rows; ++i)
        visitElements(
            weight, i * columns + begin, i * columns + end,
            [&](int64_t j, double element) { norms[size_t(begin + j)] += element * element; });
    });
  for (double &norm : norms)
    norm = std::sqrt(norm);
  const TensorDecl &decl = session.package().program().parameters[index];
  std::vector<unsigned char> bytes(norms.size() * sizeOf(decl.dtype));
  storeRounded(norms, decl.dtype, bytes.data());
  // As if it had been given: rounded to the parameter's type.
  return session.setParameter(index,
                              {bytes.data(), decl.dtype, decl.staticShape, int64_t(bytes.size())});
}

} // namespace trainrt
