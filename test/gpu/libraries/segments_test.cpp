// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fused attention over segments on the device against its definition in f64, cuDNN's and that of
// the runtime's own kernels: lengths of all sorts, groups of heads, strides, dropout, rows behind
// the last segment, and plans that several numbers of rows share.

#include "device.h"
#include "device/cuda/attention/own_attention.h"
#include "device/cuda/dnn/dnn.h"
#include "tests.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <limits>
#include <numeric>

namespace trainrt::cuda::test {

namespace {

struct Case {
  std::string name;
  std::vector<int64_t> lengths;
  int64_t longest = 0, rest = 5;
  int64_t heads = 2, kvHeads = 2, columns = 64;
  DType dtype = DType::BF16;
  bool causal = false, packed = false;
  double dropout = 0;
  AttentionBand band;

  int64_t used() const { return std::accumulate(lengths.begin(), lengths.end(), int64_t(0)); }
  int64_t rows() const { return used() + rest; }
  double scale() const { return float(1 / std::sqrt(double(columns))); }
  /// Of the columns from `begin` to before `end`, those that row `i` sees.
  int64_t first(int64_t i, int64_t begin) const { return std::max(begin, i - band.before); }
  int64_t last(int64_t i, int64_t end) const {
    return std::min(end, i + (causal ? 0 : band.after) + 1);
  }
};

/// Rows behind the operands' own, which nothing may depend on or write: a tile of the library.
constexpr int64_t guard = 256;

/// [rows, heads, columns], a row within one of q, k and v if it is packed. Behind the segments
/// there are NaNs in an input, and `mark` in a result.
struct Tensor {
  Tensor(Device &device, const Case &test, int64_t heads, bool input)
      : rows(test.rows()), used(test.used()), heads(heads), columns(test.columns),
        row(heads * columns * (test.packed ? 3 : 1)),
        array(device, test.dtype, size_t((rows + guard) * row),
              input ? std::numeric_limits<double>::quiet_NaN() : mark) {
    array.toDevice();
  }
  static constexpr double mark = 7;
  size_t at(int64_t t, int64_t h, int64_t c) const { return size_t(t * row + h * columns + c); }
  double &operator()(int64_t t, int64_t h, int64_t c) { return array.values[at(t, h, c)]; }
  void fill(std::mt19937 &random) {
    std::normal_distribution<double> normal;
    for (int64_t t = 0; t < used; ++t)
      for (int64_t h = 0; h < heads; ++h)
        for (int64_t c = 0; c < columns; ++c)
          (*this)(t, h, c) = normal(random);
    array.toDevice(); // rounds
    std::vector<double> rounded = array.fromDevice();
    array.values = rounded;
  }
  void strides(int64_t (&to)[3]) const { to[0] = rows * row, to[1] = columns, to[2] = row; }

  int64_t rows, used, heads, columns, row;
  Array array;
};

struct Problem {
  Problem(Device &device, const Case &test)
      : test(test), q(device, test, test.heads, true), k(device, test, test.kvHeads, true),
        v(device, test, test.kvHeads, true), dO(device, test, test.heads, true),
        o(device, test, test.heads, false), dQ(device, test, test.heads, false),
        dK(device, test, test.kvHeads, false), dV(device, test, test.kvHeads, false),
        stats(device, DType::F32, size_t(test.rows() * test.heads)), seed(device, DType::I64, 2),
        offsets(device, DType::I32, test.lengths.size() + 1) {
    std::mt19937 random(unsigned(test.rows() * 7 + test.columns));
    for (Tensor *tensor : {&q, &k, &v, &dO})
      tensor->fill(random);
    for (size_t g = 0; g < test.lengths.size(); ++g)
      offsets.values[g + 1] = offsets.values[g] + double(test.lengths[g]);
    offsets.toDevice();
    seed.values = {11, 5};
    seed.toDevice();
  }

  AttentionCall call(bool backward) const {
    AttentionCall result;
    result.backward = backward;
    result.dtype = test.dtype;
    result.batch = 1, result.heads = test.heads, result.kvHeads = test.kvHeads;
    result.queryRows = result.keyRows = test.rows();
    result.keyColumns = result.valueColumns = test.columns;
    q.strides(result.q), k.strides(result.k), v.strides(result.v), o.strides(result.o);
    if (backward)
      dO.strides(result.dO), dQ.strides(result.dQ), dK.strides(result.dK), dV.strides(result.dV);
    result.scale = float(test.scale());
    result.dropout = float(test.dropout);
    result.causal = test.causal;
    result.band = test.band;
    result.segments = int64_t(test.lengths.size());
    result.longest = test.longest;
    return result;
  }
  AttentionOperands operands() const {
    AttentionOperands result;
    result.q = q.array.address(), result.k = k.array.address(), result.v = v.array.address();
    result.o = o.array.address(), result.stats = stats.address();
    result.seed = test.dropout > 0 ? seed.address() : 0;
    result.dO = dO.array.address(), result.dQ = dQ.array.address();
    result.dK = dK.array.address(), result.dV = dV.array.address();
    result.segments = offsets.address();
    return result;
  }

  struct Reference {
    std::vector<double> o, dQ, dK, dV;
    /// The largest that is added up in dQ and dK: where a row sees one column, they cancel.
    double terms = 0;
  };
  /// By definition; `keep`: dropout's mask by head, row and column of all rows, or empty.
  Reference reference(const std::vector<bool> &keep) {
    Reference result;
    result.o.resize(o.array.values.size());
    result.dQ.resize(dQ.array.values.size());
    result.dK.resize(dK.array.values.size());
    result.dV.resize(dV.array.values.size());
    const int64_t columns = test.columns, group = test.heads / test.kvHeads;
    const double kept = 1 / (1 - test.dropout);
    std::vector<double> p(size_t(test.rows())), dP(p.size());
    int64_t begin = 0;
    for (int64_t length : test.lengths) {
      const int64_t end = begin + length;
      for (int64_t h = 0; h < test.heads; ++h)
        for (int64_t i = begin; i < end; ++i) {
          const int64_t hk = h / group, visible = test.last(i, end), first = test.first(i, begin);
          double highest = -INFINITY, sum = 0, dot = 0;
          for (int64_t j = first; j < visible; ++j) {
            double score = 0;
            for (int64_t c = 0; c < columns; ++c)
              score += q(i, h, c) * k(j, hk, c);
            p[size_t(j)] = score *= test.scale();
            highest = std::max(highest, score);
          }
          for (int64_t j = first; j < visible; ++j)
            sum += p[size_t(j)] = std::exp(p[size_t(j)] - highest);
          for (int64_t j = first; j < visible; ++j) {
            const double weight = p[size_t(j)] /= sum;
            const double factor = keep.empty()                                            ? 1
                                  : keep[size_t((h * test.rows() + i) * test.rows() + j)] ? kept
                                                                                          : 0;
            double slope = 0;
            for (int64_t c = 0; c < columns; ++c) {
              result.o[o.at(i, h, c)] += weight * factor * v(j, hk, c);
              result.dV[dV.at(j, hk, c)] += weight * factor * dO(i, h, c);
              slope += dO(i, h, c) * v(j, hk, c);
            }
            dP[size_t(j)] = slope * factor;
            dot += weight * dP[size_t(j)];
          }
          for (int64_t j = first; j < visible; ++j) {
            const double dS = p[size_t(j)] * (dP[size_t(j)] - dot) * test.scale();
            const double term = std::fabs(p[size_t(j)] * dP[size_t(j)] * test.scale());
            for (int64_t c = 0; c < columns; ++c) {
              result.terms = std::max(
                  result.terms, term * std::max(std::fabs(k(j, hk, c)), std::fabs(q(i, h, c))));
              result.dQ[dQ.at(i, h, c)] += dS * k(j, hk, c);
              result.dK[dK.at(j, hk, c)] += dS * q(i, h, c);
            }
          }
        }
      begin = end;
    }
    return result;
  }

  const Case &test;
  Tensor q, k, v, dO, o, dQ, dK, dV;
  Array stats, seed, offsets;
};

/// The errors within the segments, in units of the type's roundoff; zeros behind them; marks
/// everywhere else. The mean error.
double compare(const std::string &name, Tensor &tensor, const std::vector<double> &expected,
               double unit, double meanLimit, double maximumLimit, double terms = 0) {
  std::vector<double> found = tensor.array.fromDevice();
  double errors = 0, squares = 0, worst = 0, largest = 0;
  int64_t rest = 0, strayed = 0;
  for (int64_t t = 0; t < tensor.rows + guard; ++t)
    for (int64_t x = 0; x < tensor.row; ++x) {
      const size_t at = size_t(t * tensor.row + x);
      if (t >= tensor.rows || x >= tensor.heads * tensor.columns) {
        strayed += found[at] != Tensor::mark;
        continue;
      }
      if (t >= tensor.used) {
        rest += found[at] != 0;
        continue;
      }
      const double error = std::fabs(found[at] - expected[at]);
      worst = error <= worst ? worst : error; // also takes NaN
      errors += error * error;
      squares += expected[at] * expected[at];
      largest = std::max(largest, std::fabs(expected[at]));
    }
  double mean = 0;
  if (largest == 0) { // gradients of the scores of single rows
    check(worst <= std::max(1e-4, maximumLimit * unit * terms), name,
          "error of " + std::to_string(worst) + " where zeros are expected");
  } else {
    const double maximum = worst / largest / unit;
    mean = std::sqrt(errors / squares) / unit;
    check(mean <= meanLimit && maximum <= maximumLimit, name,
          "error of " + std::to_string(mean) + " roundoffs (mean; limit " +
              std::to_string(meanLimit) + "), " + std::to_string(maximum) + " (maximum; limit " +
              std::to_string(maximumLimit) + ")");
  }
  check(rest == 0, name, std::to_string(rest) + " elements behind the segments are not 0");
  check(strayed == 0, name, std::to_string(strayed) + " elements written outside of the result");
  return mean;
}

Status enqueue(Device &device, const AttentionPlan &plan, const AttentionOperands &operands) {
  Scratch scratch(device, plan.workspaceBytes());
  return device.capture(
      [&] { return plan.enqueue(device.stream(), operands, scratch.workspace()); });
}

/// Dropout's mask, through values that are columns of the identity: o is then the weights.
std::vector<bool> dropoutMask(Device &device, Problem &problem, const AttentionPlan &forward) {
  const Case &test = problem.test;
  const int64_t rows = test.rows();
  std::vector<bool> keep(size_t(test.heads * rows * rows));
  const std::vector<double> values = problem.v.array.values;
  size_t kept = 0, visible = 0;
  for (int64_t first = 0; first < test.longest; first += test.columns) {
    auto forEach = [&](auto body) { // (first row, end, key, column)
      int64_t begin = 0;
      for (int64_t length : test.lengths) {
        for (int64_t c = 0; c < test.columns && first + c < length; ++c)
          body(begin, begin + length, begin + first + c, c);
        begin += length;
      }
    };
    for (int64_t t = 0; t < test.used(); ++t)
      for (int64_t h = 0; h < test.kvHeads; ++h)
        for (int64_t c = 0; c < test.columns; ++c)
          problem.v(t, h, c) = 0;
    forEach([&](int64_t, int64_t, int64_t key, int64_t c) {
      for (int64_t h = 0; h < test.kvHeads; ++h)
        problem.v(key, h, c) = 1;
    });
    problem.v.array.toDevice();
    if (!check(enqueue(device, forward, problem.operands()), test.name + ", mask"))
      break;
    const std::vector<double> found = problem.o.array.fromDevice();
    forEach([&](int64_t begin, int64_t end, int64_t key, int64_t c) {
      for (int64_t h = 0; h < test.heads; ++h)
        for (int64_t i = begin; i < end; ++i) {
          if (key < test.first(i, begin) || key >= test.last(i, end))
            continue;
          const bool here = found[problem.o.at(i, h, c)] != 0;
          keep[size_t((h * rows + i) * rows + key)] = here;
          kept += here;
          ++visible;
        }
    });
  }
  problem.v.array.values = values;
  problem.v.array.toDevice();
  const double share = double(kept) / double(visible), expected = 1 - test.dropout;
  check(std::fabs(share - expected) < 5 * std::sqrt(expected * test.dropout / double(visible)),
        test.name, "dropout kept " + std::to_string(share) + " of " + std::to_string(visible));
  return keep;
}

/// The runtime's own kernels for what they take: with a long window the gradients only.
struct OwnOrDnn {
  OwnAttention &own;
  Cudnn &dnn;
  Status prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan) {
    return own.takes(call) ? own.prepare(call, plan) : dnn.prepare(call, plan);
  }
};

/// The mean errors of o and the gradients.
using Errors = std::array<double, 4>;

/// `Library`: cuDNN or the runtime's own kernels.
template <typename Library> Errors run(Device &device, Library &library, const Case &test) {
  Errors errors = {};
  Problem problem(device, test);
  std::shared_ptr<const AttentionPlan> forward, backward;
  if (!check(library.prepare(problem.call(false), forward), test.name) ||
      !check(library.prepare(problem.call(true), backward), test.name))
    return errors;
  std::vector<bool> keep;
  if (test.dropout > 0)
    keep = dropoutMask(device, problem, *forward);
  const Problem::Reference expected = problem.reference(keep);
  const AttentionOperands operands = problem.operands();
  const double unit = unitRoundoff(test.dtype);
  if (!check(enqueue(device, *forward, operands), test.name + ", forward"))
    return errors;
  errors[0] = compare(test.name + ", o", problem.o, expected.o, unit, 2, 4);
  if (!check(enqueue(device, *backward, operands), test.name + ", backward"))
    return errors;
  errors[1] = compare(test.name + ", d_q", problem.dQ, expected.dQ, unit, 4, 8, expected.terms);
  errors[2] = compare(test.name + ", d_k", problem.dK, expected.dK, unit, 4, 8, expected.terms);
  errors[3] = compare(test.name + ", d_v", problem.dV, expected.dV, unit, 4, 8);

  Array *outputs[] = {&problem.o.array, &problem.stats, &problem.dQ.array, &problem.dK.array,
                      &problem.dV.array};
  std::vector<std::vector<uint8_t>> bits;
  for (Array *array : outputs)
    bits.push_back(array->bits());
  bool same = true;
  for (int repeat = 0; repeat < 3; ++repeat) {
    if (!check(enqueue(device, *forward, operands), test.name + ", again") ||
        !check(enqueue(device, *backward, operands), test.name + ", again"))
      return errors;
    for (size_t i = 0; i < bits.size(); ++i)
      same &= outputs[i]->bits() == bits[i];
  }
  check(same, test.name, "other bits in a second run");
  return errors;
}

std::vector<Case> cases() {
  const std::vector<int64_t> mixed = {37, 1, 128, 0, 64, 5, 99, 2}, small = {7, 3, 0, 1, 12};
  std::vector<Case> all;
  auto add = [&](const std::string &name, const std::vector<int64_t> &lengths) -> Case & {
    Case test;
    test.name = "segments, " + name;
    test.lengths = lengths;
    test.longest = *std::max_element(lengths.begin(), lengths.end());
    all.push_back(test);
    return all.back();
  };
  for (int64_t columns : {32, 64, 128})
    for (bool causal : {false, true})
      for (DType dtype : {DType::BF16, DType::F16}) {
        Case &test =
            add(std::to_string(columns) + (causal ? " causal " : " ") + nameOf(dtype), mixed);
        test.columns = columns, test.causal = causal, test.dtype = dtype;
      }
  for (bool causal : {false, true}) {
    const std::string suffix = causal ? " causal" : "";
    {
      Case &test = add("4 heads on 2" + suffix, mixed);
      test.heads = 4, test.causal = causal;
    }
    {
      Case &test = add("6 heads on 1" + suffix, small);
      test.heads = 6, test.kvHeads = 1, test.causal = causal;
    }
    {
      Case &test = add("packed" + suffix, mixed);
      test.packed = true, test.causal = causal;
    }
    {
      Case &test = add("dropout" + suffix, mixed);
      test.dropout = 0.1, test.causal = causal;
    }
    {
      Case &test = add("dropout, 4 heads on 2" + suffix, small);
      test.dropout = 0.25, test.heads = 4, test.causal = causal, test.columns = 32;
    }
    add("long" + suffix, {300, 17, 513}).causal = causal;
    add("of 256" + suffix, {256, 17, 201}).causal = causal;
    add("no rest" + suffix, mixed).rest = 0;
    all.back().causal = causal;
    {
      Case &test = add("a longest that no segment has" + suffix, small);
      test.longest = 40, test.causal = causal, test.rest = 400;
    }
    for (auto [before, after] : {std::pair{0, 0}, {15, 3}, {64, 200}, {130, 0}}) {
      const std::string window = std::to_string(before) + " and " + std::to_string(after);
      for (bool isLong : {false, true}) {
        Case &test = add("window of " + window + (isLong ? ", long" : "") + suffix,
                         isLong ? std::vector<int64_t>{700, 300, 65, 0, 1} : mixed);
        test.band = {before, after}, test.causal = causal, test.heads = 4;
      }
      Case &test = add("window of " + window + ", dropout" + suffix, mixed);
      test.band = {before, after}, test.causal = causal, test.dropout = 0.1;
    }
    {
      // More gradients of scores than one call of cuDNN is to keep.
      Case &test = add("parts of segments" + suffix, {37, 200, 64, 0, 5});
      test.longest = 2048, test.heads = test.kvHeads = 8, test.causal = causal, test.rest = 300;
    }
    {
      Case &test = add("parts of heads" + suffix, {37, 300});
      test.longest = 8192, test.heads = 16, test.kvHeads = 4, test.causal = causal;
    }
    {
      Case &test = add("single rows" + suffix, {1, 1, 1});
      test.causal = causal;
    }
  }
  return all;
}

/// Seconds of a forward and a backward.
template <typename Library>
double timeOf(Device &device, Library &library, const AttentionCall (&both)[2],
              const AttentionOperands &operands, const std::string &name, double &total) {
  for (const AttentionCall &call : both) {
    std::shared_ptr<const AttentionPlan> plan;
    const auto begin = std::chrono::steady_clock::now();
    if (!check(library.prepare(call, plan), name))
      return 0;
    const std::chrono::duration<double> preparing = std::chrono::steady_clock::now() - begin;
    Scratch scratch(device, plan->workspaceBytes());
    double seconds = 0;
    constexpr int calls = 20; // in one graph
    auto enqueue = [&] {
      for (int i = 0; i < calls; ++i)
        TRAINRT_TRY(plan->enqueue(device.stream(), operands, scratch.workspace()));
      return Status();
    };
    if (!check(device.time(enqueue, seconds), name))
      return 0;
    seconds /= calls;
    std::printf("%-60s %8.1f us, workspace %7.1f MiB, plan in %.2f s\n",
                (name + (call.backward ? " backward" : " forward")).c_str(), seconds * 1e6,
                double(plan->workspaceBytes()) / (1 << 20), preparing.count());
    std::fflush(stdout);
    total += seconds;
  }
  return total;
}

} // namespace

void testSegments(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn, second;
  if (!check(Cudnn::load(dnn), "cuDNN"))
    return;
  std::unique_ptr<OwnAttention> own;
  if (!check(OwnAttention::load(own), "the runtime's own kernels"))
    return;
  const std::vector<Case> all = cases();
  for (Case test : all) {
    const Errors library = run(device, *dnn, test);
    if (!own->takes(Problem(device, test).call(true)))
      continue;
    test.name = "own " + test.name;
    OwnOrDnn both = {*own, *dnn};
    const Errors kernel = run(device, both, test);
    std::printf("%-44s errors", test.name.c_str());
    for (size_t i = 0; i < kernel.size(); ++i) {
      std::printf(" %.3f (cuDNN %.3f)", kernel[i], library[i]);
      check(kernel[i] <= 1.2 * library[i] + 0.01, test.name, "less accurate than cuDNN");
    }
    std::printf("\n");
  }
  for (int64_t columns : {8, 40, 96, 120}) {
    Case test = all.front();
    test.name = "own segments, " + std::to_string(columns) + " columns";
    test.columns = columns;
    run(device, *own, test);
  }

  // Of all that is known only on the device nothing is in a plan, nor is the number of rows.
  const int built = dnn->counts().built;
  Case other = all.front();
  other.name = "segments of other lengths";
  other.lengths = {128, 3, 77, 128, 0, 0, 1, 30};
  other.rest = 40;
  run(device, *dnn, other);
  check(dnn->counts().built == built, other.name, "they needed a plan of their own");

  if (!check(Cudnn::load(second), "cuDNN again"))
    return;
  for (size_t i = 0; i < all.size(); i += 6)
    run(device, *second, all[i]);
  check(second->counts().built == 0 && second->counts().restored > 0, "segments, a second start",
        std::to_string(second->counts().built) + " plans were built, " +
            std::to_string(second->counts().restored) + " restored");
}

void testSegmentWindows(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  std::unique_ptr<OwnAttention> own;
  if (!check(Cudnn::load(dnn), "cuDNN") ||
      !check(OwnAttention::load(own), "the runtime's own kernels"))
    return;
  for (Case test : cases())
    if (test.longest > 256 && own->takes(Problem(device, test).call(true))) {
      test.name = "own " + test.name;
      OwnOrDnn both = {*own, *dnn};
      run(device, both, test);
    }
}

void timeSegments(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  if (!check(Cudnn::load(dnn), "cuDNN"))
    return;
  std::unique_ptr<SegmentAttention> own;
  if (!check(SegmentAttention::load(own), "the runtime's own kernels"))
    return;
  // A batch whose rows are 30 % full, packed and with a padding mask.
  Case test;
  test.heads = test.kvHeads = 16;
  test.longest = 128;
  std::mt19937 random(3);
  for (int i = 0; i < 64; ++i)
    test.lengths.push_back(i == 0 ? 128 : 8 + int64_t(random() % 61));
  Case dense = test;
  dense.lengths.assign(64, 128);
  dense.rest = 0;
  Problem packed(device, test), padded(device, dense);
  Array bias(device, DType::BF16, 64 * 128);
  for (size_t b = 0; b < 64; ++b)
    for (size_t j = 0; j < 128; ++j)
      bias.values[b * 128 + j] = int64_t(j) < test.lengths[b] ? 0 : -3.3895313892515355e38;
  bias.toDevice();
  for (double dropout : {0.0, 0.1}) {
    const std::string suffix = dropout > 0 ? " dropout" : "";
    AttentionCall calls[2] = {packed.call(false), packed.call(true)};
    AttentionOperands operands = packed.operands();
    operands.seed = packed.seed.address();
    double seconds[2] = {};
    for (AttentionCall &call : calls)
      call.dropout = float(dropout);
    timeOf(device, *dnn, calls, operands,
           "64 segments, " + std::to_string(test.used()) + " rows, 16x64" + suffix, seconds[0]);
    double ownSeconds = 0;
    timeOf(device, *own, calls, operands, "own kernels, the same" + suffix, ownSeconds);
    AttentionCall plain[2] = {padded.call(false), padded.call(true)};
    operands = padded.operands();
    operands.seed = padded.seed.address();
    operands.bias = bias.address();
    for (AttentionCall &call : plain) {
      call.segments = call.longest = 0;
      call.batch = 64, call.queryRows = call.keyRows = 128;
      for (auto *strides :
           {&call.q, &call.k, &call.v, &call.o, &call.dO, &call.dQ, &call.dK, &call.dV})
        (*strides)[0] = 128 * (*strides)[2];
      call.hasBias = true;
      call.biasDtype = DType::BF16;
      call.bias[0] = 128, call.bias[3] = 1;
      call.dropout = float(dropout);
    }
    timeOf(device, *dnn, plain, operands, "64x128 with a padding mask, 16x64" + suffix, seconds[1]);
    std::printf("%-60s %8.1f us, own %.1f us, against %.1f us\n",
                ("forward and backward" + suffix).c_str(), seconds[0] * 1e6, ownSeconds * 1e6,
                seconds[1] * 1e6);
  }
  // Full segments, of which cuDNN's tiles are full.
  for (int64_t columns : {64, 128})
    for (int64_t longest : {64, 128, 192})
      for (bool causal : {false, true}) {
        Case full;
        full.heads = full.kvHeads = 16, full.columns = columns, full.causal = causal;
        full.longest = longest;
        full.lengths.assign(size_t(8192 / longest), longest);
        Problem problem(device, full);
        const AttentionCall calls[2] = {problem.call(false), problem.call(true)};
        const std::string name = std::to_string(full.lengths.size()) + " segments of " +
                                 std::to_string(longest) + ", 16x" + std::to_string(columns) +
                                 (causal ? " causal" : "");
        double library = 0, kernel = 0;
        timeOf(device, *dnn, calls, problem.operands(), name, library);
        if (own->takes(calls[1]))
          timeOf(device, *own, calls, problem.operands(), "own " + name, kernel);
        std::printf("%-60s %8.1f us, own %.1f us\n", name.c_str(), library * 1e6, kernel * 1e6);
      }
}

} // namespace trainrt::cuda::test
