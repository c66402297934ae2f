// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cuDNN plugin for the fake driver: convolutions of f32 with two axes, from their definition. Of
// its three algorithms the second cannot be built, and the third is the quickest.
// FAKE_CUDNN_REFUSES: it can build none. FAKE_CUDNN_LOG: a file that gets a line with the algorithm
// of each plan that is built.

#include "device/cuda/dnn/cudnn_plugin.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <string>

struct TrainrtCudnnPlan {
  TrainrtCudnnConvolution call;
  double milliseconds;
};

namespace {

using Enqueue = void (*)(void *stream, double milliseconds, const std::function<void()> *work);
Enqueue enqueueFunction() {
  static const Enqueue found = reinterpret_cast<Enqueue>(
      dlsym(dlopen(std::getenv("TRAINRT_CUDA_DRIVER"), RTLD_NOW), "fakeCudaEnqueue"));
  return found;
}

int write(TrainrtCudnnSink sink, const std::string &text, int result) {
  sink.write(sink.to, text.data(), text.size());
  return result;
}

void compute(const TrainrtCudnnConvolution &c, const TrainrtCudnnConvolutionOperands &operands) {
  float *const input = static_cast<float *>(operands.input),
               *const filter = static_cast<float *>(operands.filter),
               *const output = static_cast<float *>(operands.output);
  const int64_t channels = c.channels / c.groups, filters = c.filters / c.groups;
  const int64_t sizes[] = {c.batch * c.windows[0] * c.windows[1] * c.filters,
                           c.batch * c.positions[0] * c.positions[1] * c.channels,
                           c.filters * c.taps[0] * c.taps[1] * channels};
  float *const results[] = {output, input, filter};
  std::memset(results[c.kind], 0, size_t(sizes[c.kind]) * 4);
  int64_t to = 0;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t oh = 0; oh < c.windows[0]; ++oh)
      for (int64_t ow = 0; ow < c.windows[1]; ++ow)
        for (int64_t k = 0; k < c.filters; ++k, ++to) {
          int64_t tap = k * c.taps[0] * c.taps[1] * channels;
          for (int64_t th = 0; th < c.taps[0]; ++th)
            for (int64_t tw = 0; tw < c.taps[1]; ++tw, tap += channels) {
              const int64_t h = oh * c.strides[0] + th * c.dilations[0] - c.pads[0],
                            w = ow * c.strides[1] + tw * c.dilations[1] - c.pads[1];
              if (h < 0 || h >= c.positions[0] || w < 0 || w >= c.positions[1])
                continue;
              const int64_t at = ((n * c.positions[0] + h) * c.positions[1] + w) * c.channels +
                                 k / filters * channels;
              for (int64_t i = 0; i < channels; ++i) {
                float &x = input[at + i], &f = filter[tap + i], &y = output[to];
                (c.kind == 0   ? y
                 : c.kind == 1 ? x
                               : f) += c.kind == 0   ? x * f
                                       : c.kind == 1 ? y * f
                                                     : x * y;
              }
            }
        }
}

int open(void *, const char *, int64_t *version, TrainrtCudnnSink) {
  *version = 91900;
  return 0;
}
int buildAttention(const TrainrtCudnnAttention *, TrainrtCudnnPlan **, TrainrtCudnnSink error) {
  return write(error, "no attention", 1);
}
int restoreAttention(const TrainrtCudnnAttention *, const void *, size_t, TrainrtCudnnPlan **,
                     TrainrtCudnnSink error) {
  return write(error, "no attention", 1);
}
int store(const TrainrtCudnnPlan *plan, TrainrtCudnnSink stored, TrainrtCudnnSink) {
  stored.write(stored.to, plan, sizeof *plan);
  return 0;
}
uint64_t workspaceBytes(const TrainrtCudnnPlan *) { return 512; }
int enqueueAttention(const TrainrtCudnnPlan *, void *, const TrainrtCudnnOperands *, void *,
                     TrainrtCudnnSink error) {
  return write(error, "no attention", 1);
}
void destroy(TrainrtCudnnPlan *plan) { delete plan; }

int algorithms(const TrainrtCudnnConvolution *, TrainrtCudnnSink names, TrainrtCudnnSink) {
  return write(names, "slow_k1=0\nbroken\nslow_k1=0\nquick_k1=2\n", 0);
}
int build(const TrainrtCudnnConvolution *convolution, const char *algorithm,
          TrainrtCudnnPlan **plan, TrainrtCudnnSink error) {
  const std::string name = *algorithm ? algorithm : "slow_k1=0";
  if (std::getenv("FAKE_CUDNN_REFUSES"))
    return write(error, "no engine", 1);
  if (name != "slow_k1=0" && name != "quick_k1=2")
    return write(error, "no algorithm '" + name + "'", 1);
  if (const char *path = std::getenv("FAKE_CUDNN_LOG"))
    if (std::FILE *log = std::fopen(path, "a")) {
      std::fprintf(log, "%s\n", name.c_str());
      std::fclose(log);
    }
  *plan = new TrainrtCudnnPlan{*convolution, name == "slow_k1=0" ? 3.0 : 1.0};
  return 0;
}
int restore(const void *stored, size_t size, TrainrtCudnnPlan **plan, TrainrtCudnnSink error) {
  if (size != sizeof(TrainrtCudnnPlan))
    return write(error, "damaged", 1);
  *plan = new TrainrtCudnnPlan;
  std::memcpy(*plan, stored, size);
  return 0;
}
int enqueue(const TrainrtCudnnPlan *plan, void *stream,
            const TrainrtCudnnConvolutionOperands *operands, void *, TrainrtCudnnSink) {
  const std::function<void()> work = [call = plan->call, operands = *operands] {
    compute(call, operands);
  };
  enqueueFunction()(stream, plan->milliseconds, &work);
  return 0;
}

constexpr TrainrtCudnnPlugin plugin = {TRAINRT_CUDNN_PLUGIN_ABI,
                                       "fake",
                                       open,
                                       buildAttention,
                                       restoreAttention,
                                       store,
                                       workspaceBytes,
                                       enqueueAttention,
                                       destroy,
                                       algorithms,
                                       build,
                                       restore,
                                       enqueue};

} // namespace

extern "C" __attribute__((visibility("default"))) const TrainrtCudnnPlugin *trainrt_cudnn_plugin() {
  return &plugin;
}
