// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and their gradients on the device against their definition in f64: strides, pads,
// dilation, groups, one to three axes, positions that no window reaches, the same bits in every run
// and from a stored plan. What a ResNet's take.

#include "device.h"
#include "device/cuda/dnn/dnn.h"
#include "tests.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace trainrt::cuda::test {

namespace {

using Kind = Convolution::Kind;
constexpr const char *kindNames[] = {"forward", "input's gradient", "filter's gradient"};

struct Axis {
  int64_t positions, taps, stride = 1, dilation = 1, pad = 0;
  int64_t windows() const { return (positions + 2 * pad - (taps - 1) * dilation - 1) / stride + 1; }
};

struct Case {
  std::string name;
  int64_t batch, channels, filters, groups;
  std::vector<Axis> axes;
};

ConvolutionCall callOf(const Case &test, Kind kind, DType dtype, bool tf32 = false) {
  ConvolutionCall call;
  call.kind = kind, call.dtype = dtype, call.tf32 = tf32;
  call.batch = test.batch, call.channels = test.channels;
  call.filters = test.filters, call.groups = test.groups;
  call.axes = test.axes.size();
  for (size_t i = 0; i < call.axes; ++i) {
    const Axis &axis = test.axes[i];
    call.positions[i] = axis.positions, call.taps[i] = axis.taps;
    call.windows[i] = axis.windows(), call.strides[i] = axis.stride;
    call.dilations[i] = axis.dilation, call.pads[i] = axis.pad;
  }
  return call;
}

/// All with three axes, those that are not there of one position.
std::array<Axis, 3> paddedAxes(const Case &test) {
  std::array<Axis, 3> axes;
  axes.fill({1, 1});
  std::copy(test.axes.begin(), test.axes.end(), axes.end() - int64_t(test.axes.size()));
  return axes;
}

struct Sizes {
  size_t input = 1, filter = 1, output = 1;
  explicit Sizes(const Case &test)
      : input(size_t(test.batch * test.channels)),
        filter(size_t(test.filters * (test.channels / test.groups))),
        output(size_t(test.batch * test.filters)) {
    for (const Axis &axis : test.axes) {
      input *= size_t(axis.positions);
      filter *= size_t(axis.taps);
      output *= size_t(axis.windows());
    }
  }
};

/// Calls `fn` with the places of each product's three elements.
template <typename Fn> void forEachProduct(const Case &test, Fn fn) {
  const auto [d, h, w] = paddedAxes(test);
  const int64_t channels = test.channels / test.groups, filters = test.filters / test.groups;
  auto at = [](const Axis &axis, int64_t window, int64_t tap) {
    return window * axis.stride + tap * axis.dilation - axis.pad;
  };
  auto isIn = [](const Axis &axis, int64_t i) { return i >= 0 && i < axis.positions; };
  int64_t output = 0;
  for (int64_t n = 0; n < test.batch; ++n)
    for (int64_t od = 0; od < d.windows(); ++od)
      for (int64_t oh = 0; oh < h.windows(); ++oh)
        for (int64_t ow = 0; ow < w.windows(); ++ow)
          for (int64_t k = 0; k < test.filters; ++k, ++output) {
            int64_t filter = k * d.taps * h.taps * w.taps * channels;
            for (int64_t td = 0; td < d.taps; ++td)
              for (int64_t th = 0; th < h.taps; ++th)
                for (int64_t tw = 0; tw < w.taps; ++tw, filter += channels) {
                  const int64_t id = at(d, od, td), ih = at(h, oh, th), iw = at(w, ow, tw);
                  if (!isIn(d, id) || !isIn(h, ih) || !isIn(w, iw))
                    continue;
                  const int64_t input =
                      (((n * d.positions + id) * h.positions + ih) * w.positions + iw) *
                          test.channels +
                      k / filters * channels;
                  for (int64_t c = 0; c < channels; ++c)
                    fn(size_t(input + c), size_t(filter + c), size_t(output));
                }
          }
}

Status enqueue(Device &device, const ConvolutionPlan &plan, const ConvolutionOperands &operands) {
  Scratch scratch(device, plan.workspaceBytes());
  return device.capture(
      [&] { return plan.enqueue(device.stream(), operands, scratch.workspace()); });
}

/// The size of the error by that of the result, in roundoffs of what is stored and of the sums: of
/// the root mean square and of the maximum.
void compare(const std::string &name, const std::vector<double> &found,
             const std::vector<double> &expected, double unit, double terms) {
  double errors = 0, squares = 0, worst = 0, largest = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    const double error = std::fabs(found[i] - expected[i]);
    worst = error <= worst ? worst : error; // also takes NaN
    errors += error * error;
    squares += expected[i] * expected[i];
    largest = std::max(largest, std::fabs(expected[i]));
  }
  // Partial sums are rounded to f32: by less than the result is in 16 bits.
  const double sums = std::sqrt(terms) * 0x1p-24;
  const double mean = std::sqrt(errors / squares), maximum = worst / largest;
  check(mean <= unit + sums && maximum <= 2 * (unit + sums), name,
        "error of " + std::to_string(mean / unit) + " roundoffs (mean), " +
            std::to_string(maximum / unit) + " (maximum), of up to " +
            std::to_string(int64_t(terms)) + " terms");
}

void run(Device &device, Cudnn &dnn, const Case &test, DType dtype, bool tf32) {
  const Sizes sizes(test);
  Array input(device, dtype, sizes.input), filter(device, dtype, sizes.filter),
      output(device, dtype, sizes.output);
  std::mt19937 random(unsigned(sizes.input * 3 + sizes.output));
  std::vector<double> values[3];
  Array *const arrays[] = {&output, &input, &filter}; // by what a kind makes
  for (Array *array : arrays)
    array->fill(random);
  const ConvolutionOperands operands = {input.address(), filter.address(), output.address()};
  for (Kind kind : {Kind::Forward, Kind::Data, Kind::Filter}) {
    const std::string name =
        test.name + ", " + nameOf(dtype) + (tf32 ? " in TF32, " : ", ") + kindNames[size_t(kind)];
    std::shared_ptr<const ConvolutionPlan> plan;
    if (!check(dnn.prepare(callOf(test, kind, dtype, tf32), plan), name))
      continue;
    check(plan->workspaceBytes() <= uint64_t(convolutionWorkspaceLimit), name, "workspace");
    Array &result = *arrays[size_t(kind)];
    std::vector<double> expected(result.values.size()), terms(result.values.size());
    const std::vector<double> &x = input.values, &f = filter.values, &y = output.values;
    forEachProduct(test, [&](size_t i, size_t j, size_t o) {
      const size_t at = kind == Kind::Forward ? o : kind == Kind::Data ? i : j;
      expected[at] += kind == Kind::Forward ? x[i] * f[j]
                      : kind == Kind::Data  ? y[o] * f[j]
                                            : x[i] * y[o];
      ++terms[at];
    });
    const std::vector<double> kept = result.values;
    std::vector<uint8_t> bits;
    for (int repeat = 0; repeat < 3; ++repeat) {
      // All elements are written, also those that no window reaches.
      result.values.assign(kept.size(), NAN);
      for (Array *array : arrays)
        array->toDevice();
      if (!check(enqueue(device, *plan, operands), name))
        break;
      if (repeat == 0) {
        const double unit = tf32 ? 0x1p-11 : dtype == DType::F32 ? 0x1p-24 : unitRoundoff(dtype);
        compare(name, result.fromDevice(), expected, unit,
                *std::max_element(terms.begin(), terms.end()));
        bits = result.bits();
      } else {
        check(result.bits() == bits, name, "other bits in run " + std::to_string(repeat));
      }
    }
    result.values = kept;
  }
}

std::vector<Case> cases() {
  return {
      {"3x3", 2, 16, 32, 1, {{14, 3, 1, 1, 1}, {14, 3, 1, 1, 1}}},
      {"3x3, odd sizes", 3, 5, 7, 1, {{9, 3, 1, 1, 1}, {11, 3, 1, 1, 1}}},
      {"3x3, stride 2", 2, 16, 24, 1, {{15, 3, 2, 1, 1}, {14, 3, 2, 1, 1}}},
      {"7x7 of an image, stride 2", 2, 3, 64, 1, {{33, 7, 2, 1, 3}, {32, 7, 2, 1, 3}}},
      {"1x1, stride 2", 2, 32, 16, 1, {{14, 1, 2}, {15, 1, 2}}},
      {"1x1, stride 3, a pad", 2, 8, 8, 1, {{10, 1, 3, 1, 1}, {10, 1, 3, 1, 1}}},
      {"no pads, a rest", 2, 8, 8, 1, {{12, 4, 3}, {13, 4, 3}}},
      {"pads of one axis", 2, 8, 8, 1, {{12, 5, 1, 1, 2}, {10, 1}}},
      {"dilated", 2, 8, 16, 1, {{16, 3, 1, 2, 2}, {16, 3, 1, 3, 3}}},
      {"dilated, stride 2", 2, 8, 16, 1, {{17, 3, 2, 2, 2}, {17, 3, 2, 2, 2}}},
      {"groups", 2, 16, 32, 4, {{10, 3, 1, 1, 1}, {10, 3, 1, 1, 1}}},
      {"32 groups of 4", 2, 128, 128, 32, {{7, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},
      {"groups, stride 2, odd", 2, 6, 9, 3, {{11, 3, 2, 1, 1}, {9, 3, 2, 1, 1}}},
      {"a filter a channel, 3x3", 2, 20, 20, 20, {{19, 3, 1, 1, 1}, {14, 3, 1, 1, 1}}},
      {"a filter a channel, 5x5", 2, 144, 144, 144, {{9, 5, 1, 1, 2}, {40, 5, 1, 1, 4}}},
      {"a filter a channel, 7x7", 3, 96, 96, 96, {{30, 7, 1, 1, 3}, {15, 7, 1, 1, 3}}},
      {"a filter a channel, stride 2", 2, 16, 16, 16, {{14, 3, 2, 1, 1}, {14, 3, 2, 1, 1}}},
      {"two filters a channel", 2, 8, 16, 8, {{9, 3, 1, 1, 1}, {9, 3, 1, 1, 1}}},
      {"one axis", 3, 12, 20, 1, {{50, 5, 1, 1, 2}}},
      {"one axis, stride 2, dilated", 2, 16, 16, 1, {{41, 3, 2, 4, 4}}},
      {"one axis, groups", 2, 16, 16, 4, {{30, 3, 1, 1, 1}}},
      {"three axes", 2, 8, 16, 1, {{6, 3, 1, 1, 1}, {8, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},
      {"three axes, stride 2", 2, 4, 8, 1, {{7, 3, 2, 1, 1}, {8, 3, 2, 1, 1}, {9, 3, 2, 1, 1}}},
      {"three axes, groups", 1, 8, 8, 2, {{5, 3, 1, 1, 1}, {5, 1}, {6, 3, 1, 1, 1}}},
      {"one position", 4, 16, 16, 1, {{1, 3, 1, 1, 1}, {1, 3, 1, 1, 1}}},
      {"one sample, one channel", 1, 1, 8, 1, {{20, 5, 1, 1, 2}, {20, 5, 1, 1, 2}}},
      {"one filter", 2, 8, 1, 1, {{12, 3, 1, 1, 1}, {12, 3, 1, 1, 1}}},
      {"many channels", 2, 256, 128, 1, {{7, 3, 1, 1, 1}, {7, 3, 1, 1, 1}}},
  };
}

/// A second process finds the plans of the first.
void testStore(Device &device) {
  PlanFolder folder;
  const Case test = cases().front();
  std::vector<uint8_t> bits[2];
  for (int again : {0, 1}) {
    std::unique_ptr<Cudnn> dnn;
    if (!check(Cudnn::load(dnn), "cuDNN"))
      return;
    const Sizes sizes(test);
    Array input(device, DType::BF16, sizes.input), filter(device, DType::BF16, sizes.filter),
        output(device, DType::BF16, sizes.output);
    std::mt19937 random(7);
    for (Array *array : {&input, &filter, &output}) {
      array->fill(random);
      array->toDevice();
    }
    std::shared_ptr<const ConvolutionPlan> plan;
    if (!check(dnn->prepare(callOf(test, Kind::Forward, DType::BF16), plan), "store") ||
        !check(enqueue(device, *plan, {input.address(), filter.address(), output.address()}),
               "store"))
      return;
    check(dnn->counts().restored == again && dnn->counts().built == 1 - again, "store",
          std::to_string(dnn->counts().restored) + " plans restored");
    bits[again] = output.bits();
  }
  check(bits[0] == bits[1], "store", "other bits with a stored plan");
}

/// Of ResNet-50 on images of 224 x 224, with how many of each there are.
struct Layer {
  int64_t channels, filters, positions, taps, stride, count;
};
constexpr Layer resnet50[] = {
    {3, 64, 224, 7, 2, 1},    {64, 64, 56, 3, 1, 3},     {128, 128, 56, 3, 2, 1},
    {128, 128, 28, 3, 1, 3},  {256, 256, 28, 3, 2, 1},   {256, 256, 14, 3, 1, 5},
    {512, 512, 14, 3, 2, 1},  {512, 512, 7, 3, 1, 2},    {256, 512, 56, 1, 2, 1},
    {512, 1024, 28, 1, 2, 1}, {1024, 2048, 14, 1, 2, 1},
};

} // namespace

void testConvolutions(Device &device) {
  {
    PlanFolder folder;
    std::unique_ptr<Cudnn> dnn;
    if (!check(Cudnn::load(dnn), "cuDNN"))
      return;
    for (const Case &test : cases())
      for (DType dtype : {DType::F32, DType::BF16, DType::F16}) {
        run(device, *dnn, test, dtype, false);
        if (dtype == DType::F32)
          run(device, *dnn, test, dtype, true);
      }
  }
  testStore(device);
}

void timeConvolutions(Device &device) {
  PlanFolder folder;
  std::unique_ptr<Cudnn> dnn;
  if (!check(Cudnn::load(dnn), "cuDNN"))
    return;
  std::printf("convolutions of ResNet-50, 256 images, bf16\n%-26s", "");
  for (const char *kind : kindNames)
    std::printf(" %28s", kind);
  std::printf("\n");
  double all = 0;
  for (const Layer &layer : resnet50) {
    const Axis axis = {layer.positions, layer.taps, layer.stride, 1, layer.taps / 2};
    const Case test = {"", 256, layer.channels, layer.filters, 1, {axis, axis}};
    const Sizes sizes(test);
    Scratch input(device, sizes.input * 2), filter(device, sizes.filter * 2),
        output(device, sizes.output * 2);
    const ConvolutionOperands operands = {input.workspace().address, filter.workspace().address,
                                          output.workspace().address};
    const std::string name = std::to_string(layer.channels) + " " +
                             std::to_string(layer.positions) + " by " +
                             std::to_string(layer.filters) + " " + std::to_string(layer.taps) +
                             " / " + std::to_string(layer.stride);
    std::printf("%2lld x %-21s", (long long)layer.count, name.c_str());
    const double work = 2.0 * double(sizes.output) * double(sizes.filter / size_t(layer.filters));
    for (Kind kind : {Kind::Forward, Kind::Data, Kind::Filter}) {
      std::shared_ptr<const ConvolutionPlan> plan;
      double seconds = 0;
      if (!check(dnn->prepare(callOf(test, kind, DType::BF16), plan), name))
        continue;
      Scratch scratch(device, plan->workspaceBytes());
      auto enqueueIt = [&] {
        return plan->enqueue(device.stream(), operands, scratch.workspace());
      };
      if (!check(device.time(enqueueIt, seconds), name))
        continue;
      std::printf(" %9.1f us %4.0f TF %4.0f MiB", seconds * 1e6, work / seconds * 1e-12,
                  double(plan->workspaceBytes()) / (1 << 20));
      std::fflush(stdout);
      all += seconds * double(layer.count);
    }
    std::printf("\n");
  }
  std::printf("together %.2f ms\n", all * 1e3);
}

} // namespace trainrt::cuda::test
