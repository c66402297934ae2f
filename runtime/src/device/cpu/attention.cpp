// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention's driver. A work item is a head of a segment (backward: the heads that share keys, so
// that one thread adds up their gradients); it goes through the segment's rows in blocks, whose
// scores stay in the thread's cache: a matmul, the rows' weights, a matmul. Of the columns it takes
// those that some row of the block sees.
#include "device/cpu/attention.h"

#include "device/cpu/attention_kernels.h"
#include "device/cpu/choose_kernels.h"
#include "device/cpu/gemm.h"
#include "device/thread_pool.h"
#include "format/memory/working_memory.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <vector>

namespace trainrt {

namespace {

constexpr int64_t blockRows = attentionBlockRows;

/// The positions of a segment's rows.
struct Positions {
  int64_t least = 0, most = 0;
  bool consecutive = true;
  /// So far apart that most words between them would be for nothing.
  bool sparse = false;

  /// Of counters, four words each, from the first position's to the last one's.
  int64_t blocks() const { return most / 4 - least / 4 + 1; }
};

/// A matmul's operand: where it begins, strides of its rows and columns.
struct Operand {
  const float *data;
  int64_t row, column;
};

/// From `begin` to before `end`.
struct Columns {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
};

/// What both directions have in common: segments, scores, dropout's words.
class Driver {
public:
  Driver(const AttentionArgs &args, ThreadPool &pool, const AttentionKernels &kernels,
         int64_t matrices)
      : args(args), pool(pool), kernels(kernels),
        stride(attentionRowStride(attentionBlockColumns(args.longest, args.band), attentionLanes)),
        matrixFloats(blockRows * stride) {
    assert(args.longest > 0 && args.heads % args.keyHeads == 0 && "readProgram checks both");
    if (args.dropout > 0)
      findPositions();
    workerFloats = matrices * matrixFloats + wordsRoom + (wordsRoom ? stride : 0);
    memory = static_cast<float *>(pool.shared(1, size_t(workerFloats * pool.size() * 4)));
    // As trainc's philox::dropoutThreshold: words below ratio * 2^32 are dropped.
    const double scaled = args.dropout * 4294967296.0;
    threshold = uint32_t(std::min(std::ceil(scaled), 4294967295.0));
  }

  int64_t begin(int64_t segment) const { return args.offsets[segment]; }
  int64_t length(int64_t segment) const {
    return args.offsets[segment + 1] - args.offsets[segment];
  }
  int64_t used() const { return args.offsets[args.segments]; }
  /// The columns that some of `rows` rows from `row` on of a segment of `length` rows see.
  Columns visible(int64_t row, int64_t rows, int64_t length) const {
    return {args.band.first(row), args.band.end(row + rows - 1, length)};
  }
  /// The same of one row, from a multiple of the lanes within those of its block on, and how many
  /// of them at the front it does not see.
  struct Row {
    Columns columns;
    int64_t hidden;
  };
  Row visibleInBlock(int64_t row, const Columns &block, int64_t length) const {
    const Columns columns = visible(row, 1, length);
    const int64_t hidden = (columns.begin - block.begin) % attentionLanes;
    return {{columns.begin - hidden, columns.end}, hidden};
  }
  float *matrix(unsigned worker, int64_t index) const {
    return memory + worker * workerFloats + index * matrixFloats;
  }
  int64_t rowStride() const { return stride; }

  /// c = alpha * a * b + beta * c
  void product(int64_t m, int64_t n, int64_t k, Operand a, Operand b, float *c, int64_t rowOfC,
               float alpha, float beta) const {
    GemmArgs call = {a.data,   b.data,  c,        m,      n,   k, a.row,
                     a.column, b.row,   b.column, rowOfC, 1,   0, nullptr,
                     nullptr,  nullptr, nullptr,  alpha,  beta};
    gemmF32(call, pool);
  }

  /// The mask of some columns of row `row` of a segment, valid until the worker's next call.
  AttentionMask mask(unsigned worker, int64_t segment, int64_t head, int64_t row,
                     const Columns &columns) const;

  /// Calls body(worker, segment, head) for all heads of all segments.
  template <typename Body> void forItems(int64_t heads, const Body &body) const {
    int64_t work = 0, busy = 1;
    for (int64_t g = 0; g < args.segments; ++g) {
      work += length(g) * args.band.width(1, length(g)) * (args.depth + args.width) * args.heads;
      busy += length(g) > 0;
    }
    // Segments without rows, of which there may be many behind the others, cost nothing.
    const int64_t items = args.segments * heads, each = work / (busy * heads);
    const int64_t grain = std::max<int64_t>(1, parallelWork / std::max<int64_t>(1, each));
    pool.parallelFor(items, grain, [&](unsigned worker, int64_t first, int64_t end) {
      for (int64_t item = first; item < end; ++item)
        if (length(item / heads))
          body(worker, item / heads, item % heads);
    });
  }

private:
  int64_t position(int64_t segment, int64_t row) const {
    return args.positions ? uint32_t(args.positions[args.rows + begin(segment) + row]) : row;
  }
  int64_t sample(int64_t segment) const {
    return args.positions ? uint32_t(args.positions[begin(segment)]) : segment;
  }
  void findPositions();

  const AttentionArgs &args;
  ThreadPool &pool;
  const AttentionKernels &kernels;
  const int64_t stride, matrixFloats;
  std::vector<Positions> positions; ///< by segment, where there is dropout
  int64_t wordsRoom = 0, workerFloats = 0;
  float *memory = nullptr;
  uint32_t threshold = 0;
};

void Driver::findPositions() {
  int64_t blocks = 1;
  positions.resize(size_t(args.segments));
  for (int64_t g = 0; g < args.segments; ++g) {
    Positions &found = positions[size_t(g)];
    for (int64_t t = 0, n = length(g); t < n; ++t) {
      const int64_t at = position(g, t);
      found.least = t ? std::min(found.least, at) : at;
      found.most = t ? std::max(found.most, at) : at;
      found.consecutive &= at == position(g, 0) + t;
    }
    found.sparse = found.blocks() > 4 * length(g) + 16;
    if (!found.sparse)
      blocks = std::max(blocks, found.blocks());
  }
  wordsRoom = attentionWords(blocks, attentionLanes);
}

AttentionMask Driver::mask(unsigned worker, int64_t segment, int64_t head, int64_t row,
                           const Columns &columns) const {
  if (!(args.dropout > 0))
    return {};
  const Positions &found = positions[size_t(segment)];
  // Words of the positions between the first and the last one, and those of the columns.
  uint32_t *all =
      reinterpret_cast<uint32_t *>(memory + (worker + 1) * workerFloats) - stride - wordsRoom;
  uint32_t *chosen = all + wordsRoom;
  auto random = [&](int64_t block, int64_t blocks) {
    kernels.random(all, uint32_t(block), roundUp(blocks, 16), uint32_t(position(segment, row)),
                   uint32_t(head), uint32_t(sample(segment)), uint64_t(args.seed[0]));
  };
  AttentionMask result;
  result.threshold = threshold;
  result.factor = float(1 / (1 - args.dropout));
  if (found.consecutive) {
    const int64_t begin = found.least + columns.begin, end = found.least + columns.end;
    random(begin / 4, (end - 1) / 4 - begin / 4 + 1);
    result.words = all + begin % 4;
    return result;
  }
  const int64_t first = found.least / 4;
  if (!found.sparse)
    random(first, found.blocks());
  for (int64_t j = columns.begin; j < columns.end; ++j) {
    const int64_t at = position(segment, j);
    if (found.sparse)
      random(at / 4, 1);
    chosen[j - columns.begin] = all[found.sparse ? at % 4 : at - 4 * first];
  }
  result.words = chosen;
  return result;
}

/// Zeros in a row of a block before `columns` and from the next multiple of the lanes behind them
/// on.
void clearAround(float *row, const Columns &columns, const Columns &block) {
  const int64_t begin = columns.begin - block.begin,
                end = begin + roundUp(columns.size(), attentionLanes);
  std::memset(row, 0, size_t(begin) * sizeof(float));
  if (end < block.size())
    std::memset(row + end, 0, size_t(block.size() - end) * sizeof(float));
}

/// Of the heads [firstHead, endHead).
void clearRows(const AttentionMatrix<float> &matrix, int64_t firstHead, int64_t endHead,
               int64_t begin, int64_t end, int64_t columns) {
  for (int64_t t = begin; t < end; ++t)
    for (int64_t h = firstHead; h < endHead; ++h)
      std::memset(matrix.at(h, t), 0, size_t(columns) * sizeof(float));
}

/// The first offset that is wrong, or -1.
int64_t findWrongOffset(const AttentionArgs &args) {
  for (int64_t g = 0; g <= args.segments; ++g) {
    const int64_t at = args.offsets[g], before = g ? args.offsets[g - 1] : 0;
    if (at < before || at > args.rows || at - before > args.longest || (g == 0 && at != 0))
      return g;
  }
  return -1;
}

} // namespace

int64_t attentionForwardF32(const AttentionForward &args, ThreadPool &pool,
                            const AttentionKernels &kernels) {
  if (const int64_t wrong = findWrongOffset(args); wrong >= 0)
    return wrong;
  const Driver driver(args, pool, kernels, 1);
  const int64_t group = args.heads / args.keyHeads, stride = driver.rowStride();
  driver.forItems(args.heads, [&](unsigned worker, int64_t segment, int64_t h) {
    const int64_t begin = driver.begin(segment), length = driver.length(segment), kh = h / group;
    float *s = driver.matrix(worker, 0);
    for (int64_t row = 0; row < length; row += blockRows) {
      const int64_t rows = std::min(blockRows, length - row);
      const Columns block = driver.visible(row, rows, length);
      driver.product(rows, block.size(), args.depth, {args.q.at(h, begin + row), args.q.row, 1},
                     {args.k.at(kh, begin + block.begin), 1, args.k.row}, s, stride, args.scale, 0);
      for (int64_t i = 0; i < rows; ++i) {
        const auto [columns, hidden] = driver.visibleInBlock(row + i, block, length);
        float *at = s + i * stride + (columns.begin - block.begin);
        std::fill(at, at + hidden, -std::numeric_limits<float>::infinity());
        const float stats =
            kernels.weights(at, columns.size(), driver.mask(worker, segment, h, row + i, columns));
        if (args.stats)
          args.stats[(begin + row + i) * args.heads + h] = stats;
        clearAround(s + i * stride, columns, block);
      }
      driver.product(rows, args.width, block.size(), {s, stride, 1},
                     {args.v.at(kh, begin + block.begin), args.v.row, 1}, args.o.at(h, begin + row),
                     args.o.row, 1, 0);
    }
  });
  clearRows(args.o, 0, args.heads, driver.used(), args.rows, args.width);
  if (args.stats)
    std::fill(args.stats + driver.used() * args.heads, args.stats + args.rows * args.heads, 0.0f);
  return -1;
}

int64_t attentionBackwardF32(const AttentionBackward &args, ThreadPool &pool,
                             const AttentionKernels &kernels) {
  if (const int64_t wrong = findWrongOffset(args); wrong >= 0)
    return wrong;
  const Driver driver(args, pool, kernels, 2);
  const int64_t group = args.heads / args.keyHeads, stride = driver.rowStride();
  driver.forItems(args.keyHeads, [&](unsigned worker, int64_t segment, int64_t kh) {
    const int64_t begin = driver.begin(segment), length = driver.length(segment);
    float *s = driver.matrix(worker, 0), *d = driver.matrix(worker, 1);
    bool first = true;
    for (int64_t h = kh * group; h < (kh + 1) * group; ++h)
      for (int64_t row = 0; row < length; row += blockRows) {
        const int64_t rows = std::min(blockRows, length - row), t = begin + row;
        const Columns block = driver.visible(row, rows, length);
        const int64_t columns = block.size(), from = begin + block.begin;
        const Operand q = {args.q.at(h, t), args.q.row, 1}, dO = {args.dO.at(h, t), args.dO.row, 1},
                      k = {args.k.at(kh, from), args.k.row, 1};
        driver.product(rows, columns, args.depth, q, {k.data, 1, k.row}, s, stride, args.scale, 0);
        driver.product(rows, columns, args.width, dO, {args.v.at(kh, from), 1, args.v.row}, d,
                       stride, 1, 0);
        for (int64_t i = 0; i < rows; ++i) {
          const auto [seen, hidden] = driver.visibleInBlock(row + i, block, length);
          const int64_t offset = i * stride + (seen.begin - block.begin);
          std::fill(s + offset, s + offset + hidden, -std::numeric_limits<float>::infinity());
          std::fill(d + offset, d + offset + hidden, 0.0f);
          kernels.gradient(s + offset, d + offset, seen.size(),
                           args.stats[(t + i) * args.heads + h], args.scale,
                           driver.mask(worker, segment, h, row + i, seen));
          clearAround(s + i * stride, seen, block);
          clearAround(d + i * stride, seen, block);
        }
        if (first && columns < length) {
          clearRows(args.dK, kh, kh + 1, begin, begin + length, args.depth);
          clearRows(args.dV, kh, kh + 1, begin, begin + length, args.width);
        }
        const float beta = first && columns == length ? 0 : 1;
        first = false;
        driver.product(rows, args.depth, columns, {d, stride, 1}, k, args.dQ.at(h, t), args.dQ.row,
                       1, 0);
        driver.product(columns, args.depth, rows, {d, 1, stride}, q, args.dK.at(kh, from),
                       args.dK.row, 1, beta);
        driver.product(columns, args.width, rows, {s, 1, stride}, dO, args.dV.at(kh, from),
                       args.dV.row, 1, beta);
      }
  });
  clearRows(args.dQ, 0, args.heads, driver.used(), args.rows, args.depth);
  clearRows(args.dK, 0, args.keyHeads, driver.used(), args.rows, args.depth);
  clearRows(args.dV, 0, args.keyHeads, driver.used(), args.rows, args.width);
  return -1;
}

static const AttentionKernels &chosenKernels() {
  static const AttentionKernels *const kernels =
      chooseKernels(attentionKernelsAvx512(), attentionKernelsAvx2(), attentionKernelsNeon());
  return *kernels;
}

int64_t attentionForwardF32(const AttentionForward &args, ThreadPool &pool) {
  return attentionForwardF32(args, pool, chosenKernels());
}
int64_t attentionBackwardF32(const AttentionBackward &args, ThreadPool &pool) {
  return attentionBackwardF32(args, pool, chosenKernels());
}

} // namespace trainrt
