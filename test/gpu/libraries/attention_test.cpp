// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fused attention on the device against its definition in f64: masks, biases, groups of heads,
// strides, dropout (whose mask is read back through the device's own results), and the store of
// plans.

#include "attention_problem.h"
#include "device/cuda/attention/warpgroup_attention.h"
#include "device/cuda/attention/windowed_attention.h"
#include "tests.h"

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <thread>
#include <tuple>

namespace trainrt::cuda::test {

namespace {

using namespace attention;

/// Compares a tensor with the reference by the size of the error, in units of the type's roundoff:
/// of its root mean square and of its maximum.
void compare(const std::string &name, Tensor &tensor, const std::vector<double> &expected,
             double unit, double meanLimit, double maximumLimit, double terms = 0) {
  std::vector<double> found = tensor.array.fromDevice();
  double errors = 0, squares = 0, worst = 0, largest = 0;
  for (int64_t b = 0; b < tensor.batch; ++b)
    for (int64_t h = 0; h < tensor.heads; ++h)
      for (int64_t i = 0; i < tensor.rows; ++i)
        for (int64_t c = 0; c < tensor.columns; ++c) {
          size_t at = tensor.at(b, h, i, c);
          double error = std::fabs(found[at] - expected[at]);
          worst = error <= worst ? worst : error; // also takes NaN
          errors += error * error;
          squares += expected[at] * expected[at];
          largest = std::max(largest, std::fabs(expected[at]));
        }
  if (largest == 0) {
    check(worst <= maximumLimit * unit * terms, name,
          "error of " + std::to_string(worst) + " where terms of " + std::to_string(terms) +
              " at most cancel");
    return;
  }
  double mean = std::sqrt(errors / squares) / unit, maximum = worst / largest / unit;
  check(mean <= meanLimit && maximum <= maximumLimit, name,
        "error of " + std::to_string(mean) + " roundoffs (mean; limit " +
            std::to_string(meanLimit) + "), " + std::to_string(maximum) + " (maximum; limit " +
            std::to_string(maximumLimit) + ")");
}

/// The same of the bias's gradient, in which only one number in ten thousand may be a little
/// further off than the size of its terms allows.
void compareBias(const std::string &name, Array &array, const std::vector<double> &expected,
                 double unit) {
  std::vector<double> found = array.fromDevice();
  double errors = 0, squares = 0, worst = 0, largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    const double error = std::fabs(found[i] - expected[i]);
    worst = error <= worst ? worst : error; // also takes NaN
    errors += error * error;
    squares += expected[i] * expected[i];
    largest = std::max(largest, std::fabs(expected[i]));
  }
  const double mean = std::sqrt(errors / squares) / unit, maximum = worst / largest / unit;
  check(mean <= 4 && maximum <= 8, name,
        "error of " + std::to_string(mean) + " roundoffs (mean; limit 4), " +
            std::to_string(maximum) + " (maximum; limit 8)");
}

struct Plans {
  std::shared_ptr<const AttentionPlan> forward, backward;
  Status status;
};

Status enqueue(Device &device, const AttentionPlan &plan, const AttentionOperands &operands) {
  Scratch scratch(device, plan.workspaceBytes());
  return device.capture(
      [&] { return plan.enqueue(device.stream(), operands, scratch.workspace()); });
}

/// Dropout's mask, through values that are columns of the identity: o is then the probabilities.
std::vector<bool> dropoutMask(Device &device, Problem &problem, const Plans &plans) {
  const Case &test = problem.test;
  std::vector<bool> keep(size_t(test.batch * test.heads * test.queryRows * test.keyRows));
  std::vector<double> values = problem.v.array.values;
  size_t kept = 0, visible = 0;
  for (int64_t begin = 0; begin < test.keyRows; begin += test.columns) {
    std::fill(problem.v.array.values.begin(), problem.v.array.values.end(), 0);
    for (int64_t b = 0; b < test.batch; ++b)
      for (int64_t h = 0; h < test.kvHeads; ++h)
        for (int64_t c = 0; c < test.columns && begin + c < test.keyRows; ++c)
          problem.v(b, h, begin + c, c) = 1;
    problem.v.array.toDevice();
    if (!check(enqueue(device, *plans.forward, problem.operands()), test.name + ", mask"))
      break;
    std::vector<double> found = problem.o.array.fromDevice();
    for (int64_t b = 0; b < test.batch; ++b)
      for (int64_t h = 0; h < test.heads; ++h)
        for (int64_t i = 0; i < test.queryRows; ++i)
          for (int64_t c = 0; c < test.columns && begin + c < test.keyRows; ++c) {
            if (begin + c < test.first(i) || begin + c >= test.last(i))
              continue;
            if (problem.hides(b, begin + c))
              continue;
            bool here = found[problem.o.at(b, h, i, c)] != 0;
            keep[size_t(((b * test.heads + h) * test.queryRows + i) * test.keyRows + begin + c)] =
                here;
            kept += here;
            ++visible;
          }
  }
  problem.v.array.values = values;
  problem.v.array.toDevice();
  double share = double(kept) / double(visible), expected = 1 - test.dropout;
  double deviation = std::sqrt(expected * test.dropout / double(visible));
  check(std::fabs(share - expected) < 5 * deviation, test.name,
        "dropout kept " + std::to_string(share) + " of " + std::to_string(visible));
  return keep;
}

void run(Device &device, const Case &test, const Plans &plans) {
  if (!check(plans.status, test.name))
    return;
  Problem problem(device, test);
  problem.fill();
  AttentionOperands operands = problem.operands();
  std::vector<bool> keep;
  if (test.dropout > 0)
    keep = dropoutMask(device, problem, plans);
  Problem::Reference expected = problem.reference(keep);

  if (!check(enqueue(device, *plans.forward, operands), test.name + ", forward"))
    return;
  double unit = unitRoundoff(test.dtype);
  compare(test.name + ", o", problem.o, expected.o, unit, 2, 4);
  std::vector<double> stats = problem.stats.fromDevice();
  double worst = 0;
  for (size_t i = 0; i < stats.size(); ++i)
    worst = std::max(worst,
                     std::fabs(stats[i] - expected.stats[i]) / (1 + std::fabs(expected.stats[i])));
  check(worst < 1e-4, test.name + ", stats", "error of " + std::to_string(worst));

  if (!check(enqueue(device, *plans.backward, operands), test.name + ", backward"))
    return;
  compare(test.name + ", d_q", problem.dQ, expected.dQ, unit, 4, 8, expected.terms);
  compare(test.name + ", d_k", problem.dK, expected.dK, unit, 4, 8, expected.terms);
  compare(test.name + ", d_v", problem.dV, expected.dV, unit, 4, 8);
  if (test.biasGradient)
    compareBias(test.name + ", d_bias", problem.dBias, expected.dBias, unit);

  std::vector<std::vector<uint8_t>> bits;
  Array *outputs[] = {&problem.o.array,  &problem.stats,    &problem.dQ.array,
                      &problem.dK.array, &problem.dV.array, &problem.dBias};
  for (Array *array : outputs)
    bits.push_back(array->bits());
  bool same = true;
  for (int repeat = 0; repeat < 3; ++repeat) {
    if (!check(enqueue(device, *plans.forward, operands), test.name + ", again") ||
        !check(enqueue(device, *plans.backward, operands), test.name + ", again"))
      return;
    for (size_t i = 0; i < bits.size(); ++i)
      same &= outputs[i]->bits() == bits[i];
  }
  check(same, test.name, "other bits in a second run");
  if (test.dropout > 0)
    for (int64_t offset : {5, 6}) {
      problem.setSeed(offset == 5 ? 12 : 11, offset);
      if (check(enqueue(device, *plans.forward, operands), test.name + ", another seed"))
        check(problem.o.array.bits() != bits[0], test.name,
              "another seed or offset gave the same bits");
    }
}

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](const char *name) -> Case & {
    all.emplace_back();
    all.back().name = std::string("attention ") + name;
    return all.back();
  };
  for (int64_t columns : {32, 64, 128})
    for (bool causal : {false, true})
      for (DType dtype : {DType::BF16, DType::F16}) {
        Case &test =
            add(("columns " + std::to_string(columns) + (causal ? " causal " : " ") + nameOf(dtype))
                    .c_str());
        test.columns = columns, test.causal = causal, test.dtype = dtype;
        test.scale = 1 / std::sqrt(double(columns));
        test.queryRows = test.keyRows = 192;
      }
  for (int64_t rows : {2, 7, 77, 129, 250})
    for (bool causal : {false, true}) {
      Case &test = add((std::to_string(rows) + " rows" + (causal ? " causal" : "")).c_str());
      test.queryRows = test.keyRows = rows, test.causal = causal;
    }
  add("head major").strides = Strides::HeadMajor;
  add("packed").strides = Strides::Packed;
  {
    Case &test = add("packed causal");
    test.strides = Strides::Packed, test.causal = true;
  }
  for (bool causal : {false, true})
    for (int64_t rows : {1, 50}) {
      Case &test = add((std::to_string(rows) + " rows of 120" + (causal ? " causal" : "")).c_str());
      test.queryRows = rows, test.keyRows = 120, test.causal = causal;
    }
  for (bool causal : {false, true})
    for (int64_t kvHeads : {1, 2}) {
      Case &test =
          add(("6 heads on " + std::to_string(kvHeads) + (causal ? " causal" : "")).c_str());
      test.heads = 6, test.kvHeads = kvHeads, test.causal = causal;
    }
  const std::pair<Bias, const char *> biases[] = {{Bias::Full, "full bias"},
                                                  {Bias::Keys, "padding mask"},
                                                  {Bias::Rows, "bias of rows"},
                                                  {Bias::Heads, "bias of heads"}};
  for (auto [bias, name] : biases)
    for (DType type : {DType::BF16, DType::F32})
      for (int64_t rows : {128, 90}) {
        Case &test =
            add((std::string(name) + " " + nameOf(type) + " " + std::to_string(rows) + " rows")
                    .c_str());
        test.bias = bias, test.biasDtype = type;
        test.queryRows = test.keyRows = rows;
      }
  {
    Case &test = add("causal with bias");
    test.bias = Bias::Full, test.causal = true;
  }
  {
    Case &test = add("50 rows of 120 causal with bias");
    test.bias = Bias::Full, test.causal = true, test.queryRows = 50, test.keyRows = 120;
  }
  for (bool causal : {false, true})
    for (int64_t rows : {64, 128, 100}) {
      Case &test =
          add(("dropout " + std::to_string(rows) + " rows" + (causal ? " causal" : "")).c_str());
      test.dropout = 0.1, test.causal = causal;
      test.queryRows = test.keyRows = rows;
    }
  const std::tuple<int64_t, int64_t, bool> trained[] = {{128, 128, false}, {90, 90, false},
                                                        {50, 120, false},  {200, 70, false},
                                                        {192, 192, true},  {77, 77, true}};
  for (auto [bias, name] : {std::pair{Bias::Heads, "heads"}, {Bias::Full, "each sample"}})
    for (double dropout : {0.0, 0.1})
      for (auto [rows, keys, causal] : trained) {
        Case &test =
            add((std::string("gradient of a bias of ") + name + " " + std::to_string(rows) + " x " +
                 std::to_string(keys) + (causal ? " causal" : "") + (dropout > 0 ? " dropout" : ""))
                    .c_str());
        test.bias = bias, test.biasGradient = true;
        test.queryRows = rows, test.keyRows = keys, test.causal = causal, test.dropout = dropout;
        test.batch = 5;
        // As heads of one sample.
        if (bias == Bias::Full)
          test.batch = 1, test.heads = test.kvHeads = 15, test.strides = Strides::HeadMajor;
      }
  {
    // More blocks than multiprocessors, so that an order of sums by chance would show.
    Case &test = add("gradient of a bias, many samples");
    test.bias = Bias::Heads, test.biasGradient = true;
    test.batch = 24, test.heads = test.kvHeads = 4, test.queryRows = test.keyRows = 256;
  }
  {
    Case &test = add("gradient of a bias, f16");
    test.bias = Bias::Heads, test.dtype = test.biasDtype = DType::F16, test.biasGradient = true;
  }
  {
    Case &test = add("gradient of a bias, window");
    test.bias = Bias::Heads, test.biasGradient = true, test.band = {31, 8};
  }
  {
    Case &test = add("dropout with padding mask");
    test.dropout = 0.25, test.bias = Bias::Keys;
  }
  {
    Case &test = add("dropout with bias, causal");
    test.dropout = 0.5, test.bias = Bias::Heads, test.causal = true;
  }
  return all;
}

std::vector<Case> windowCases() {
  std::vector<Case> all;
  for (bool causal : {false, true})
    for (auto [before, after] : {std::pair{0, 0}, {31, 8}, {64, 64}, {130, 0}})
      for (int64_t rows : {100, 384, 1001}) {
        auto window = [&](const char *what) -> Case & {
          Case test;
          test.name = "attention, window of " + std::to_string(before) + " and " +
                      std::to_string(after) + what + ", " + std::to_string(rows) + " rows" +
                      (causal ? " causal" : "");
          test.band = {before, after}, test.causal = causal;
          test.queryRows = test.keyRows = rows;
          return all.emplace_back(test);
        };
        window("").strides = rows == 1001 ? Strides::HeadMajor : Strides::RowMajor;
        window(" of 4 heads on 2").heads = 4;
        all.back().kvHeads = 2;
        if (rows == 1001) {
          window(" of 128 columns").columns = 128;
          all.back().dtype = DType::F16;
          window(" of 40 columns, packed").columns = 40;
          all.back().strides = Strides::Packed;
          continue;
        }
        window(" with bias").bias = Bias::Heads;
        window(" with dropout").dropout = 0.1;
      }
  return all;
}

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// Prepares everything in several threads.
std::vector<Plans> prepare(Device &device, Dnn &dnn, const std::vector<Case> &all) {
  std::vector<Plans> plans(all.size());
  std::vector<std::pair<AttentionCall, AttentionCall>> calls;
  for (const Case &test : all) {
    Problem problem(device, test);
    calls.emplace_back(problem.call(false), problem.call(true));
  }
  std::atomic<size_t> next{0};
  auto work = [&] {
    CurrentContext current(device.driver(), device.context());
    for (size_t i; (i = next++) < all.size();) {
      plans[i].status = dnn.prepare(calls[i].first, plans[i].forward);
      if (plans[i].status.ok())
        plans[i].status = dnn.prepare(calls[i].second, plans[i].backward);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < std::min(8u, std::max(1u, std::thread::hardware_concurrency())); ++i)
    threads.emplace_back(work);
  for (std::thread &thread : threads)
    thread.join();
  return plans;
}

void testRefusals(Device &device, Dnn &dnn) {
  auto refuses = [&](const Case &test, bool backward = false) {
    Problem problem(device, test);
    std::shared_ptr<const AttentionPlan> plan;
    Status status = dnn.prepare(problem.call(backward), plan);
    check(status.code() == Code::Unsupported, test.name, "not refused: " + status.message());
  };
  Case test;
  test.name = "attention of f32";
  test.dtype = DType::F32;
  refuses(test);
  test = Case();
  test.name = "attention whose first rows see nothing";
  test.queryRows = 130, test.causal = true;
  refuses(test);
  test = Case();
  test.name = "attention with 20 columns";
  test.columns = 20;
  refuses(test);
  test = Case();
  test.name = "attention with the gradient of a bias of f32";
  test.bias = Bias::Heads, test.biasDtype = DType::F32, test.biasGradient = true;
  refuses(test, true);
  test = Case();
  test.name = "attention of one row, backward";
  test.queryRows = test.keyRows = 1;
  refuses(test, true);
}

template <typename Library>
void timeAttention(Device &device, Library &library, const Case &test, bool forward = true) {
  Problem problem(device, test);
  problem.fill();
  double products = 4.0 *
                    double(test.batch * test.heads * test.queryRows * test.keyRows * test.columns) *
                    1e-12 * (test.causal ? 0.5 : 1);
  for (bool backward : {false, true}) {
    if (!backward && !forward)
      continue;
    std::shared_ptr<const AttentionPlan> plan;
    auto begin = std::chrono::steady_clock::now();
    if (!check(library.prepare(problem.call(backward), plan), test.name))
      return;
    double preparing = secondsSince(begin), seconds = 0;
    Scratch scratch(device, plan->workspaceBytes());
    if (!check(device.time(
                   [&] {
                     return plan->enqueue(device.stream(), problem.operands(), scratch.workspace());
                   },
                   seconds),
               test.name))
      return;
    std::printf("%-40s %8.1f us %6.1f TFLOP/s, workspace %7.1f MiB, plan in %.2f s\n",
                (test.name + (backward ? " backward" : " forward")).c_str(), seconds * 1e6,
                products * (backward ? 2.5 : 1) / seconds,
                double(plan->workspaceBytes()) / (1 << 20), preparing);
    std::fflush(stdout);
  }
}

} // namespace

void testAttention(Device &device) {
  PlanFolder folder;
  std::vector<Case> all = cases(), windows = windowCases();
  all.insert(all.end(), windows.begin(), windows.end());
  std::vector<Plans> plans;
  std::unique_ptr<Cudnn> dnn;
  if (!check(Cudnn::load(dnn), "cuDNN"))
    return;
  auto begin = std::chrono::steady_clock::now();
  plans = prepare(device, *dnn, all);
  std::printf("%d attention plans built in %.1f s\n", dnn->counts().built, secondsSince(begin));
  for (size_t i = 0; i < all.size(); ++i)
    run(device, all[i], plans[i]);
  testRefusals(device, *dnn);
  check(dnn->counts().restored == 0, "a first start", "plans came from an empty store");

  std::unique_ptr<Cudnn> second;
  if (!check(Cudnn::load(second), "cuDNN again"))
    return;
  begin = std::chrono::steady_clock::now();
  plans = prepare(device, *second, all);
  std::printf("%d attention plans restored in %.1f s\n", second->counts().restored,
              secondsSince(begin));
  check(second->counts().restored == dnn->counts().built && second->counts().built == 0,
        "a second start",
        std::to_string(second->counts().built) + " plans were built, " +
            std::to_string(second->counts().restored) + " restored");
  // Restored plans compute the same; some of each sort are enough.
  for (size_t i = 0; i < all.size(); i += 5)
    run(device, all[i], plans[i]);

  setenv("TRAINRT_CACHE", "off", 1);
  check(planCacheFolder().empty(), "the store switched off");
}

void timeAttentions(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  if (!check(Cudnn::load(dnn), "cuDNN"))
    return;
  Case test;
  test.name = "attention 16x12x1024x64 causal";
  test.batch = 16, test.heads = test.kvHeads = 12, test.queryRows = test.keyRows = 1024;
  test.causal = true;
  timeAttention(device, *dnn, test);
  test.name = "attention 16x12x1024x64 causal dropout";
  test.dropout = 0.1;
  timeAttention(device, *dnn, test);
  test = Case();
  test.name = "attention 64x16x128x64";
  test.batch = 64, test.heads = test.kvHeads = 16;
  timeAttention(device, *dnn, test);
  test.name = "attention 64x16x128x64 dropout mask";
  test.dropout = 0.1, test.bias = Bias::Keys;
  timeAttention(device, *dnn, test);
  test = Case();
  test.name = "attention 16x12x512x64 dropout";
  test.batch = 16, test.heads = test.kvHeads = 12, test.queryRows = test.keyRows = 512;
  test.dropout = 0.1;
  timeAttention(device, *dnn, test);
  test.bias = Bias::Heads;
  for (bool gradient : {false, true}) {
    test.name = std::string("attention 16x12x512x64 dropout bias") + (gradient ? " gradient" : "");
    test.biasGradient = gradient;
    timeAttention(device, *dnn, test);
  }
  test.name = "attention 1x192x512x64 dropout bias gradient";
  test.batch = 1, test.heads = test.kvHeads = 192;
  test.strides = Strides::HeadMajor;
  timeAttention(device, *dnn, test);
  test.name = "attention 1x384x256x64 dropout bias gradient";
  test.heads = test.kvHeads = 384, test.queryRows = test.keyRows = 256;
  timeAttention(device, *dnn, test);
  test = Case();
  test.name = "attention 4x32/8x2048x64 causal";
  test.batch = 4, test.heads = 32, test.kvHeads = 8, test.queryRows = test.keyRows = 2048;
  test.causal = true;
  timeAttention(device, *dnn, test);
}

namespace {

/// The gradients of those cases that `own` can compute (`takes`), after cuDNN's forward, or with
/// dropout its own.
template <typename Own, typename Takes>
void testGradients(Device &device, const std::vector<Case> &all, const Takes &takes) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  std::unique_ptr<Own> own;
  if (!check(Cudnn::load(dnn), "cuDNN") || !check(Own::load(own), "the runtime's own kernels"))
    return;
  std::vector<Case> taken;
  for (const Case &test : all)
    if (takes(*own, Problem(device, test).call(true)))
      taken.push_back(test);
  check(!taken.empty(), "gradients of attention", "none is the runtime's own");
  std::vector<Plans> plans = prepare(device, *dnn, taken);
  for (size_t i = 0; i < taken.size(); ++i) {
    taken[i].name = "own " + taken[i].name;
    if (plans[i].status.ok())
      plans[i].status = own->prepare(Problem(device, taken[i]).call(true), plans[i].backward);
    if (plans[i].status.ok() && taken[i].dropout > 0)
      plans[i].status = own->prepare(Problem(device, taken[i]).call(false), plans[i].forward);
    run(device, taken[i], plans[i]);
  }
}

} // namespace

void testWindows(Device &device) {
  testGradients<WindowedAttention>(
      device, windowCases(),
      [](const WindowedAttention &own, const AttentionCall &call) { return own.takes(call); });
}

void testWarpgroups(Device &device) {
  std::vector<Case> all = cases(), windows = windowCases();
  all.insert(all.end(), windows.begin(), windows.end());
  for (int64_t columns : {64, 80, 128})
    for (bool causal : {false, true}) {
      Case test;
      test.name = "attention 2 x 8 heads on 2, 777 rows of " + std::to_string(columns) +
                  (causal ? " causal" : "");
      test.heads = 8, test.kvHeads = 2, test.columns = columns, test.causal = causal;
      test.queryRows = test.keyRows = 777, test.scale = 1 / std::sqrt(double(columns));
      all.push_back(test);
      if (columns > 64)
        continue;
      test.name += " dropout", test.dropout = 0.1;
      all.push_back(test);
      test.name += ", window", test.band = {200, 130};
      all.push_back(test);
    }
  testGradients<WarpgroupAttention>(device, all,
                                    [](const WarpgroupAttention &own, const AttentionCall &call) {
                                      return own.canCompute(call);
                                    });
}

void timeWarpgroups(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  std::unique_ptr<WarpgroupAttention> own;
  if (!check(Cudnn::load(dnn), "cuDNN") ||
      !check(WarpgroupAttention::load(own), "the runtime's own kernels"))
    return;
  auto time = [&](const char *name, int64_t batch, int64_t heads, int64_t kvHeads, int64_t rows,
                  int64_t columns, bool causal, AttentionBand band = {}, double dropout = 0) {
    Case test;
    test.name = name, test.dropout = dropout;
    test.batch = batch, test.heads = heads, test.kvHeads = kvHeads, test.columns = columns;
    test.queryRows = test.keyRows = rows, test.band = band, test.causal = causal;
    timeAttention(device, *dnn, test);
    test.name = "own " + test.name;
    if (own->canCompute(Problem(device, test).call(true)))
      timeAttention(device, *own, test, /*forward=*/dropout > 0);
  };
  time("Llama-1B 4x32/8x2048x64 causal", 4, 32, 8, 2048, 64, true);
  time("Qwen3-0.6B 4x16/8x2048x128 causal", 4, 16, 8, 2048, 128, true);
  time("GPT-2 16x12x1024x64 causal", 16, 12, 12, 1024, 64, true);
  time("GPT-2 16x12x1024x64 causal dropout", 16, 12, 12, 1024, 64, true, {}, 0.1);
  time("Gemma 2x8/4x4096x128 causal", 2, 8, 4, 4096, 128, true);
  time("Gemma 2x8/4x4096x128, 1023 causal", 2, 8, 4, 4096, 128, true, {1023, 0});
  time("ViT 64x12x197x64", 64, 12, 12, 197, 64, false);
  time("Whisper 8x12x1500x64", 8, 12, 12, 1500, 64, false);
  time("BERT 16x12x512x64", 16, 12, 12, 512, 64, false);
  time("BERT 16x12x512x64 dropout", 16, 12, 12, 512, 64, false, {}, 0.1);
  time("BERT 64x12x128x64 dropout", 64, 12, 12, 128, 64, false, {}, 0.1);
  time("RoBERTa 16x16x512x64 dropout", 16, 16, 16, 512, 64, false, {}, 0.1);
  time("ViT 64x12x197x64 dropout", 64, 12, 12, 197, 64, false, {}, 0.1);
  time("1x16x16384x64 causal", 1, 16, 16, 16384, 64, true);
  time("1x16x16384x128 causal", 1, 16, 16, 16384, 128, true);
}

void timeWindows(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  std::unique_ptr<WindowedAttention> own;
  std::unique_ptr<WarpgroupAttention> warpgroups;
  if (!check(Cudnn::load(dnn), "cuDNN") ||
      !check(WindowedAttention::load(own), "the runtime's own kernels") ||
      !check(WarpgroupAttention::load(warpgroups), "those for warpgroups"))
    return;
  auto time = [&](const char *name, int64_t batch, int64_t heads, int64_t kvHeads, int64_t rows,
                  int64_t columns, AttentionBand band, bool causal) {
    Case test;
    test.name = name;
    test.batch = batch, test.heads = heads, test.kvHeads = kvHeads, test.columns = columns;
    test.queryRows = test.keyRows = rows, test.band = band, test.causal = causal;
    timeAttention(device, *dnn, test);
    const AttentionCall call = Problem(device, test).call(true);
    test.name = std::string("own ") + name;
    if (own->takes(call))
      timeAttention(device, *own, test, /*forward=*/false);
    test.name = std::string("warpgroups' ") + name;
    if (warpgroups->canCompute(call))
      timeAttention(device, *warpgroups, test, /*forward=*/false);
  };
  time("16x12x1024x64, 64 and 64", 16, 12, 12, 1024, 64, {64, 64}, false);
  time("16x12x384x64, 64 and 64", 16, 12, 12, 384, 64, {64, 64}, false);
  time("2x12x8192x64, 64 and 64", 2, 12, 12, 8192, 64, {64, 64}, false);
  time("2x16x2048x128, 511 causal", 2, 16, 16, 2048, 128, {511, 0}, true);
  time("2x16/4x2048x128, 255 causal", 2, 16, 4, 2048, 128, {255, 0}, true);
  time("2x16/4x2048x64, 960 causal", 2, 16, 4, 2048, 64, {960, 0}, true);
  time("1x32/8x8192x128, 4032 causal", 1, 32, 8, 8192, 128, {4032, 0}, true);
}

} // namespace trainrt::cuda::test
