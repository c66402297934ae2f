// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Cases of attention: their operands on the device and what comes of them by its definition in f64.
#ifndef TRAINRT_TEST_GPU_LIBRARIES_ATTENTION_PROBLEM_H
#define TRAINRT_TEST_GPU_LIBRARIES_ATTENTION_PROBLEM_H

#include "device.h"
#include "device/cuda/dnn/dnn.h"

#include <cmath>

namespace trainrt::cuda::test::attention {

enum class Bias { None, Full, Keys, Rows, Heads };
enum class Strides { HeadMajor, RowMajor, Packed };

struct Case {
  std::string name;
  int64_t batch = 2, heads = 3, kvHeads = 3, queryRows = 128, keyRows = 128, columns = 64;
  DType dtype = DType::BF16;
  bool causal = false;
  Bias bias = Bias::None;
  DType biasDtype = DType::BF16;
  bool biasGradient = false;
  double dropout = 0;
  Strides strides = Strides::RowMajor;
  double scale = 0.125;
  AttentionBand band;

  /// The columns that row `i` sees, from the first to before the last.
  int64_t first(int64_t i) const { return std::max<int64_t>(i - band.before, 0); }
  int64_t last(int64_t i) const {
    return causal ? std::min(keyRows, i + keyRows - queryRows + 1)
                  : std::min(keyRows, i + band.after + 1);
  }
};

/// A tensor [batch, heads, rows, columns] somewhere in an array.
struct Tensor {
  Tensor(Device &device, const Case &test, int64_t heads, int64_t rows)
      : batch(test.batch), heads(heads), rows(rows), columns(test.columns),
        array(device, test.dtype, size_t(setStrides(test.strides))) {}

  int64_t setStrides(Strides kind) {
    int64_t row = heads * columns * (kind == Strides::Packed ? 3 : 1);
    if (kind == Strides::HeadMajor)
      stride[0] = heads * rows * columns, stride[1] = rows * columns, stride[2] = columns;
    else
      stride[0] = rows * row, stride[1] = columns, stride[2] = row;
    return stride[0] * batch;
  }
  size_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return size_t(b * stride[0] + h * stride[1] + i * stride[2] + j);
  }
  double &operator()(int64_t b, int64_t h, int64_t i, int64_t j) {
    return array.values[at(b, h, i, j)];
  }

  int64_t batch, heads, rows, columns;
  int64_t stride[3] = {};
  Array array;
};

/// The operands and the reference's results of a case.
struct Problem {
  Problem(Device &device, const Case &test)
      : device(device), test(test), q(device, test, test.heads, test.queryRows),
        k(device, test, test.kvHeads, test.keyRows), v(device, test, test.kvHeads, test.keyRows),
        o(device, test, test.heads, test.queryRows), dO(device, test, test.heads, test.queryRows),
        dQ(device, test, test.heads, test.queryRows), dK(device, test, test.kvHeads, test.keyRows),
        dV(device, test, test.kvHeads, test.keyRows),
        stats(device, DType::F32, size_t(test.batch * test.heads * test.queryRows)),
        seed(device, DType::I64, 2), bias(device, test.biasDtype, size_t(biasSize())),
        dBias(device, test.biasDtype, size_t(biasSize())) {}

  /// Whether padding hides the key from all queries.
  bool hides(int64_t b, int64_t key) const {
    return test.bias == Bias::Keys && bias.values[size_t(b * test.keyRows + key)] < -60000;
  }
  int64_t biasSize() {
    int64_t rows = test.queryRows, keys = test.keyRows, heads = test.heads;
    switch (test.bias) {
    case Bias::None:
      return 1;
    case Bias::Full:
      biasStride[0] = heads * rows * keys, biasStride[1] = rows * keys, biasStride[2] = keys;
      biasStride[3] = 1;
      return test.batch * heads * rows * keys;
    case Bias::Keys:
      biasStride[0] = keys, biasStride[3] = 1;
      return test.batch * keys;
    case Bias::Rows:
      biasStride[2] = keys, biasStride[3] = 1;
      return rows * keys;
    case Bias::Heads:
      biasStride[1] = rows * keys, biasStride[2] = keys, biasStride[3] = 1;
      return heads * rows * keys;
    }
    return 1;
  }

  size_t biasAt(int64_t b, int64_t h, int64_t i, int64_t j) const {
    return size_t(b * biasStride[0] + h * biasStride[1] + i * biasStride[2] + j * biasStride[3]);
  }

  AttentionCall call(bool backward) const {
    AttentionCall result;
    result.backward = backward;
    result.dtype = test.dtype;
    result.batch = test.batch, result.heads = test.heads, result.kvHeads = test.kvHeads;
    result.queryRows = test.queryRows, result.keyRows = test.keyRows;
    result.keyColumns = result.valueColumns = test.columns;
    auto copy = [](int64_t (&to)[3], const Tensor &from) {
      std::copy(from.stride, from.stride + 3, to);
    };
    copy(result.q, q), copy(result.k, k), copy(result.v, v), copy(result.o, o);
    if (backward)
      copy(result.dO, dO), copy(result.dQ, dQ), copy(result.dK, dK), copy(result.dV, dV);
    result.hasBias = test.bias != Bias::None;
    result.biasDtype = test.biasDtype;
    if (result.hasBias)
      std::copy(biasStride, biasStride + 4, result.bias);
    result.biasGradient = backward && test.biasGradient;
    result.scale = float(test.scale);
    result.dropout = float(test.dropout);
    result.causal = test.causal;
    result.band = test.band;
    return result;
  }

  AttentionOperands operands() const {
    AttentionOperands result;
    result.q = q.array.address(), result.k = k.array.address(), result.v = v.array.address();
    result.o = o.array.address(), result.stats = stats.address();
    result.bias = test.bias == Bias::None ? 0 : bias.address();
    result.seed = test.dropout > 0 ? seed.address() : 0;
    result.dO = dO.array.address(), result.dQ = dQ.array.address();
    result.dK = dK.array.address(), result.dV = dV.array.address();
    result.dBias = test.biasGradient ? dBias.address() : 0;
    return result;
  }

  void fill() {
    std::mt19937 random(unsigned(test.queryRows * 7 + test.columns));
    for (Tensor *tensor : {&q, &k, &v, &dO}) {
      tensor->array.fill(random);
      tensor->array.toDevice();
    }
    if (test.bias == Bias::Keys) {
      // As exported models mask padding: the lowest value on the last third of the keys.
      double lowest = test.biasDtype == DType::F16 ? -65504 : -3.3895313892515355e38;
      for (int64_t b = 0; b < test.batch; ++b)
        for (int64_t j = 0; j < test.keyRows; ++j)
          bias.values[size_t(b * test.keyRows + j)] =
              j < test.keyRows - (b + 1) * test.keyRows / 3 ? 0 : lowest;
    } else if (test.bias != Bias::None) {
      bias.fill(random);
    }
    bias.toDevice();
    setSeed(11, 5);
  }

  void setSeed(int64_t key, int64_t offset) {
    seed.values = {double(key), double(offset)};
    seed.toDevice();
  }

  /// o, stats and the gradients by definition; `keep` is dropout's mask or empty.
  struct Reference {
    std::vector<double> o, stats, dQ, dK, dV, dBias;
    /// The largest that is added up in dQ and dK: where a row sees one column, they cancel.
    double terms = 0;
  };
  Reference reference(const std::vector<bool> &keep) {
    Reference result;
    result.o.resize(o.array.values.size());
    result.stats.resize(stats.values.size());
    result.dQ.resize(dQ.array.values.size());
    result.dK.resize(dK.array.values.size());
    result.dV.resize(dV.array.values.size());
    result.dBias.resize(dBias.values.size());
    int64_t keys = test.keyRows, columns = test.columns, group = test.heads / test.kvHeads;
    double kept = 1 / (1 - test.dropout);
    std::vector<double> p(static_cast<size_t>(keys)), dP(p.size());
    for (int64_t b = 0; b < test.batch; ++b)
      for (int64_t h = 0; h < test.heads; ++h)
        for (int64_t i = 0; i < test.queryRows; ++i) {
          int64_t hk = h / group;
          const int64_t first = test.first(i), visible = test.last(i);
          double highest = -INFINITY, sum = 0, dot = 0;
          for (int64_t j = first; j < visible; ++j) {
            double score = 0;
            for (int64_t c = 0; c < columns; ++c)
              score += q(b, h, i, c) * k(b, hk, j, c);
            score *= test.scale;
            if (test.bias != Bias::None)
              score += bias.values[biasAt(b, h, i, j)];
            p[size_t(j)] = score;
            highest = std::max(highest, score);
          }
          for (int64_t j = first; j < visible; ++j)
            sum += p[size_t(j)] = std::exp(p[size_t(j)] - highest);
          size_t row = size_t((b * test.heads + h) * test.queryRows + i);
          result.stats[row] = highest + std::log(sum);
          for (int64_t j = first; j < visible; ++j) {
            double &probability = p[size_t(j)];
            probability /= sum;
            double factor = keep.empty() ? 1 : keep[row * size_t(keys) + size_t(j)] ? kept : 0;
            double slope = 0;
            for (int64_t c = 0; c < columns; ++c) {
              result.o[o.at(b, h, i, c)] += probability * factor * v(b, hk, j, c);
              result.dV[dV.at(b, hk, j, c)] += probability * factor * dO(b, h, i, c);
              slope += dO(b, h, i, c) * v(b, hk, j, c);
            }
            dP[size_t(j)] = slope * factor;
            dot += probability * dP[size_t(j)];
          }
          for (int64_t j = first; j < visible; ++j) {
            double dS = p[size_t(j)] * (dP[size_t(j)] - dot) * test.scale;
            if (test.biasGradient)
              result.dBias[biasAt(b, h, i, j)] += dS / test.scale;
            const double term = std::fabs(p[size_t(j)] * dP[size_t(j)] * test.scale);
            for (int64_t c = 0; c < columns; ++c) {
              result.terms = std::max(result.terms, term * std::max(std::fabs(k(b, hk, j, c)),
                                                                    std::fabs(q(b, h, i, c))));
              result.dQ[dQ.at(b, h, i, c)] += dS * k(b, hk, j, c);
              result.dK[dK.at(b, hk, j, c)] += dS * q(b, h, i, c);
            }
          }
        }
    return result;
  }

  Device &device;
  const Case &test;
  Tensor q, k, v, o, dO, dQ, dK, dV;
  Array stats, seed;
  int64_t biasStride[4] = {};
  Array bias, dBias;
};

} // namespace trainrt::cuda::test::attention

#endif // TRAINRT_TEST_GPU_LIBRARIES_ATTENTION_PROBLEM_H
