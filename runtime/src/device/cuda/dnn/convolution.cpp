// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions through the cuDNN plugin.

#include "device/cuda/dnn/plugin_plans.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <sstream>

namespace trainrt::cuda {

namespace {

/// The call in the plugin's terms. Its bytes identify it, so what it does not use is 0. One axis is
/// the second of two.
TrainrtCudnnConvolution translate(const ConvolutionCall &call) {
  TrainrtCudnnConvolution out;
  std::memset(&out, 0, sizeof out);
  out.kind = int64_t(call.kind);
  out.dtype = call.dtype == DType::F32 ? 0 : call.dtype == DType::BF16 ? 1 : 2;
  out.tf32 = call.tf32;
  out.batch = call.batch;
  out.channels = call.channels;
  out.filters = call.filters;
  out.groups = call.groups;
  size_t to = 0;
  if (call.axes == 1) {
    out.positions[0] = out.taps[0] = out.windows[0] = out.strides[0] = out.dilations[0] = 1;
    to = 1;
  }
  for (size_t i = 0; i < call.axes; ++i, ++to) {
    out.positions[to] = call.positions[i];
    out.taps[to] = call.taps[i];
    out.windows[to] = call.windows[i];
    out.strides[to] = call.strides[i];
    out.dilations[to] = call.dilations[i];
    out.pads[to] = call.pads[i];
  }
  out.axes = int64_t(to);
  out.mostWorkspace = convolutionWorkspaceLimit;
  return out;
}

/// "8x64x56x56": extents, batch or filters first.
std::string extentsText(int64_t first, int64_t second, const int64_t *rest, size_t axes) {
  std::string text = std::to_string(first) + "x" + std::to_string(second);
  for (size_t i = 0; i < axes; ++i)
    text += "x" + std::to_string(rest[i]);
  return text;
}

/// For messages: what a person may have to change, and no more.
std::string describe(const ConvolutionCall &call) {
  using Kind = Convolution::Kind;
  std::string text = call.kind == Kind::Forward ? "forward, "
                     : call.kind == Kind::Data  ? "gradient for the input, "
                                                : "gradient for the filter, ";
  text += nameOf(call.dtype);
  text += ", input " + extentsText(call.batch, call.channels, call.positions, call.axes) +
          ", filter " +
          extentsText(call.filters, call.channels / call.groups, call.taps, call.axes);
  auto list = [&](const char *name, const int64_t *numbers, int64_t usual) {
    std::string all;
    bool isUsual = true;
    for (size_t i = 0; i < call.axes; ++i) {
      all += (i ? "x" : "") + std::to_string(numbers[i]);
      isUsual &= numbers[i] == usual;
    }
    if (!isUsual)
      text += std::string(", ") + name + " " + all;
  };
  list("stride", call.strides, 1);
  list("dilation", call.dilations, 1);
  list("pad", call.pads, 0);
  return text;
}

Status unsupported(const ConvolutionCall &call, const std::string &why) {
  return fail(Code::Unsupported, "cuDNN cannot do this convolution (", describe(call), "): ", why,
              ". Compile with --no-library-convolutions, which makes matmuls of convolutions");
}

/// Names the call among others.
std::string keyOf(const ConvolutionCall &call) {
  return describe(call) + (call.tf32 ? ", TF32" : "");
}

class Plan final : public ConvolutionPlan {
public:
  Plan(const ConvolutionCall &call, std::shared_ptr<const PluginPlan> plan)
      : call(call), plan(std::move(plan)) {}

  std::string key() const override { return keyOf(call); }
  uint64_t workspaceBytes() const override { return plan->workspaceBytes(); }
  Status enqueue(StreamHandle stream, const ConvolutionOperands &operands,
                 Workspace workspace) const override {
    if (workspace.bytes < workspaceBytes())
      return fail(Code::Internal, "a convolution needs ", workspaceBytes(),
                  " bytes of workspace and got ", workspace.bytes);
    auto pointer = PluginPlan::pointer;
    const TrainrtCudnnConvolutionOperands pointers = {
        pointer(operands.input), pointer(operands.filter), pointer(operands.output)};
    std::string why;
    if (plan->plugin.enqueueConvolution(plan->plan, stream, &pointers, pointer(workspace.address),
                                        sink(why)))
      return fail(Code::DeviceError, "cuDNN: ", why);
    return {};
  }

private:
  const ConvolutionCall call;
  std::shared_ptr<const PluginPlan> plan;
};

/// With a description whose bytes identify the call.
PlanRequest requestOf(const ConvolutionCall &call, const std::string &algorithm) {
  const TrainrtCudnnConvolution convolution = translate(call);
  return {"convolution",
          std::string(reinterpret_cast<const char *>(&convolution), sizeof convolution) + algorithm,
          [convolution, algorithm](const TrainrtCudnnPlugin &plugin, TrainrtCudnnPlan *&plan,
                                   TrainrtCudnnSink why) {
            return plugin.buildConvolution(&convolution, algorithm.c_str(), &plan, why);
          },
          [](const TrainrtCudnnPlugin &plugin, const void *stored, size_t size,
             TrainrtCudnnPlan *&plan,
             TrainrtCudnnSink why) { return plugin.restoreConvolution(stored, size, &plan, why); },
          [call](const std::string &why) { return unsupported(call, why); }};
}

} // namespace

/// Another build may have chosen kernels that this one has not.
Status Cudnn::prepare(const ConvolutionCall &call, std::shared_ptr<const ConvolutionPlan> &plan) {
  const std::string key = keyOf(call);
  std::string algorithm = impl->algorithmOf(key);
  if (impl->depthwise->takes(call) &&
      (algorithm.empty() ? Depthwise::isQuicker(call) : algorithm == Depthwise::algorithm))
    return impl->depthwise->prepare(call, key, plan);
  if (algorithm == Depthwise::algorithm)
    algorithm.clear();
  std::shared_ptr<const PluginPlan> found;
  TRAINRT_TRY(impl->find(requestOf(call, algorithm), found));
  plan = std::make_shared<Plan>(call, std::move(found));
  return {};
}

/// None of them is stored: most are timed once.
Status Cudnn::alternatives(const ConvolutionCall &call, size_t count,
                           std::vector<Algorithm> &found) {
  const TrainrtCudnnConvolution convolution = translate(call);
  std::string lines, why;
  if (impl->plugin->convolutionAlgorithms(&convolution, sink(lines), sink(why)))
    return unsupported(call, why);
  // The tuned one, then those of the library in its order; the runtime's own are the first or the
  // second of these.
  const std::string key = keyOf(call);
  const bool hasOwn = impl->depthwise->takes(call);
  if (hasOwn)
    lines.insert(Depthwise::isQuicker(call) ? 0 : std::min(lines.size(), lines.find('\n') + 1),
                 std::string(Depthwise::algorithm) + "\n");
  lines = impl->algorithmOf(key) + "\n" + lines;
  std::set<std::string> seen = {""};
  std::istringstream stream(lines);
  for (std::string name; found.size() < count && std::getline(stream, name);) {
    TrainrtCudnnPlan *plan = nullptr;
    std::string ignored;
    if (!seen.insert(name).second)
      continue;
    if (hasOwn && name == Depthwise::algorithm) {
      TRAINRT_TRY(impl->depthwise->prepare(call, key, found.emplace_back(name, nullptr).plan));
      continue;
    }
    if (impl->plugin->buildConvolution(&convolution, name.c_str(), &plan, sink(ignored)))
      continue;
    found.push_back(
        {name, std::make_shared<Plan>(call, std::make_shared<PluginPlan>(*impl->plugin, plan))});
  }
  return {};
}

std::string Cudnn::machine() const { return "convolutions, " + impl->identity; }

/// Plans that were made before keep their algorithms.
void Cudnn::choose(const Choices &choices) {
  std::lock_guard<std::mutex> lock(impl->mutex);
  for (const auto &[key, algorithm] : choices)
    impl->tuned[key] = algorithm;
}

} // namespace trainrt::cuda
