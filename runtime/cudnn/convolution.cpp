// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions and their gradients as graphs of cuDNN, channels last.

#include "plugin.h"

#include <string>
#include <unordered_map>

namespace trainrt::cudnn {

namespace {

/// The names under which a graph's tensors get their addresses.
enum Uid : int64_t { Input = 1, Filter, Output };
/// As TrainrtCudnnConvolution has them.
enum Kind : int64_t { Forward, Data, FilterGradient };

/// cuDNN names the channels second, wherever they lie: here behind the positions.
fe::graph::Tensor_attributes describe(const char *name, Uid uid, int64_t first, int64_t channels,
                                      const int64_t *rest, int64_t axes) {
  std::vector<int64_t> extents = {first, channels}, strides(size_t(axes) + 2, 1);
  extents.insert(extents.end(), rest, rest + axes);
  int64_t stride = channels;
  for (size_t i = extents.size(); i-- > 2; stride *= extents[i])
    strides[i] = stride;
  strides[0] = stride;
  return fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim(extents).set_stride(
      strides);
}

/// Writes the graph of a call. The two that are read are tensors of it; the third is its result.
class Builder {
public:
  Builder(const TrainrtCudnnConvolution &call, fe::graph::Graph &graph) : call(call), graph(graph) {
    const fe::DataType_t types[] = {fe::DataType_t::FLOAT, fe::DataType_t::BFLOAT16,
                                    fe::DataType_t::HALF};
    graph.set_io_data_type(types[call.dtype])
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  void build() {
    const auto input =
        describe("input", Input, call.batch, call.channels, call.positions, call.axes);
    const auto filter =
        describe("filter", Filter, call.filters, call.channels / call.groups, call.taps, call.axes);
    const auto output =
        describe("output", Output, call.batch, call.filters, call.windows, call.axes);
    switch (call.kind) {
    case Forward:
      return finish(graph.conv_fprop(graph.tensor(input), graph.tensor(filter),
                                     options<fe::graph::Conv_fprop_attributes>()),
                    output);
    case Data:
      return finish(graph.conv_dgrad(graph.tensor(output), graph.tensor(filter),
                                     options<fe::graph::Conv_dgrad_attributes>()),
                    input);
    default:
      return finish(graph.conv_wgrad(graph.tensor(output), graph.tensor(input),
                                     options<fe::graph::Conv_wgrad_attributes>()),
                    filter);
    }
  }

private:
  std::vector<int64_t> list(const int64_t *numbers) const {
    return std::vector<int64_t>(numbers, numbers + call.axes);
  }
  template <typename Options> Options options() const {
    Options options;
    options.set_name("convolution")
        .set_padding(list(call.pads))
        .set_stride(list(call.strides))
        .set_dilation(list(call.dilations));
    return options;
  }
  static void finish(Tensor result, const fe::graph::Tensor_attributes &described) {
    result->set_output(true)
        .set_uid(described.get_uid())
        .set_dim(described.get_dim())
        .set_stride(described.get_stride());
  }

  const TrainrtCudnnConvolution &call;
  fe::graph::Graph &graph;
};

/// Up to the list of algorithms, of which those are left that add in one order, in f32, the
/// products themselves: no transformed ones, whose roundoff is larger, and of f32 only where the
/// call says so products of fewer bits.
fe::error_t findAlgorithms(const TrainrtCudnnConvolution &call, fe::graph::Graph &graph,
                           cudnnHandle_t handle) {
  using Note = fe::NumericalNote_t;
  Builder(call, graph).build();
  if (fe::error_t valid = graph.validate(); valid.is_bad())
    return valid;
  if (fe::error_t built = graph.build_operation_graph(handle); built.is_bad())
    return built;
  if (fe::error_t found =
          graph.create_execution_plans({fe::HeurMode_t::A, fe::HeurMode_t::FALLBACK});
      found.is_bad())
    return found;
  std::vector<Note> refused = {Note::NONDETERMINISTIC,
                               Note::DOWN_CONVERT_INPUTS,
                               Note::FFT,
                               Note::REDUCED_PRECISION_REDUCTION,
                               Note::WINOGRAD,
                               Note::WINOGRAD_TILE_4x4,
                               Note::WINOGRAD_TILE_6x6,
                               Note::WINOGRAD_TILE_13x13};
  const bool isF32 = call.dtype == 0;
  if (isF32 && !call.tf32)
    refused.push_back(Note::TENSOR_CORE);
  graph.deselect_numeric_notes(refused).deselect_workspace_greater_than(call.mostWorkspace);
  return {};
}

/// Calls `fn(index, name)` for each algorithm until it returns true.
template <typename Fn> fe::error_t forEachAlgorithm(fe::graph::Graph &graph, Fn fn) {
  const int64_t count = graph.get_execution_plan_count();
  for (int64_t i = 0; i < count; ++i) {
    std::string name;
    if (fe::error_t named = graph.get_plan_name_at_index(i, name); named.is_bad())
      return named;
    if (fn(i, name))
      return {};
  }
  return {};
}

/// The first one of this name, or of any, that can be built.
fe::error_t buildAlgorithm(fe::graph::Graph &graph, const std::string &algorithm) {
  fe::error_t last = {fe::error_code_t::GRAPH_NOT_SUPPORTED,
                      algorithm.empty()
                          ? "it has no algorithm that gives the same bits in every run"
                          : "it has not the algorithm '" + algorithm + "' that tuning chose"};
  bool isBuilt = false;
  fe::error_t named = forEachAlgorithm(graph, [&](int64_t i, const std::string &name) {
    if (!algorithm.empty() && name != algorithm)
      return false;
    fe::error_t built = graph.build_plan_at_index(i);
    isBuilt = built.is_good();
    if (!isBuilt && built.get_message() != "Deselecting execution plan")
      last = built;
    return isBuilt;
  });
  return named.is_bad() || isBuilt ? named : last;
}

} // namespace

int convolutionAlgorithms(const TrainrtCudnnConvolution *convolution, TrainrtCudnnSink names,
                          TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    Handles::Lease lease;
    if (fe::error_t taken = handles().take(lease); taken.is_bad())
      return taken;
    fe::graph::Graph graph;
    if (fe::error_t found = findAlgorithms(*convolution, graph, lease.handle); found.is_bad())
      return found;
    return forEachAlgorithm(graph, [&](int64_t, const std::string &name) {
      names.write(names.to, (name + "\n").data(), name.size() + 1);
      return false;
    });
  });
}

int buildConvolution(const TrainrtCudnnConvolution *convolution, const char *algorithm,
                     TrainrtCudnnPlan **plan, TrainrtCudnnSink error) {
  return makePlan(plan, error, [&](TrainrtCudnnPlan &made, cudnnHandle_t handle) -> fe::error_t {
    if (fe::error_t found = findAlgorithms(*convolution, *made.graph, handle); found.is_bad())
      return found;
    return buildAlgorithm(*made.graph, algorithm);
  });
}

int restoreConvolution(const void *stored, size_t size, TrainrtCudnnPlan **plan,
                       TrainrtCudnnSink error) {
  return makePlan(plan, error, [&](TrainrtCudnnPlan &made, cudnnHandle_t handle) {
    return readStored(made, handle, stored, size);
  });
}

int enqueueConvolution(const TrainrtCudnnPlan *plan, void *stream,
                       const TrainrtCudnnConvolutionOperands *operands, void *workspace,
                       TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    Handles::Lease lease;
    if (fe::error_t taken = takeFor(stream, lease); taken.is_bad())
      return taken;
    std::unordered_map<int64_t, void *> addresses = {
        {Input, operands->input}, {Filter, operands->filter}, {Output, operands->output}};
    return plan->graph->execute(lease.handle, addresses, workspace);
  });
}

} // namespace trainrt::cudnn
