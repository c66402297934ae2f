// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin libtrainrt-cudnn.so: fused attention as graphs of cuDNN. The only translation unit
// that includes cudnn_frontend, and the only one of the runtime that catches exceptions of a
// library.

#include "device/cuda/cudnn_plugin.h"

#include <cudnn_frontend.h>

#include <algorithm>
#include <array>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace cudnn_frontend {
// The headers look every function of cuDNN up in this library.
void *cudnn_dlhandle = nullptr;
} // namespace cudnn_frontend

namespace fe = cudnn_frontend;

struct TrainrtCudnnPlan {
  TrainrtCudnnAttention attention;
  std::shared_ptr<fe::graph::Graph> graph;
  int64_t workspaceBytes = 0;
};

namespace {

using Tensor = std::shared_ptr<fe::graph::Tensor_attributes>;

/// The names under which a graph's tensors get their addresses.
/// The beginnings of segments follow `Starts`, in the order of TrainrtCudnnOperands.
enum Uid : int64_t {
  Q = 1,
  K,
  V,
  O,
  Stats,
  Bias,
  Seed,
  Offset,
  DO,
  DQ,
  DK,
  DV,
  QueryLengths,
  KeyLengths,
  Starts
};

/// The place among the beginnings of segments.
/// q, k, v, o, stats, dO, dQ, dK, dV: bias, seed and offset, which lie between them, have no
/// segments.
int64_t startsOf(Uid uid) {
  switch (uid) {
  case Q:
  case K:
  case V:
  case O:
  case Stats:
    return uid - Q;
  default:
    return uid - DO + 5;
  }
}

/// Older versions copy lengths from host memory while they enqueue, for sequences that are no
/// multiple of 128: that cannot be captured.
constexpr int64_t oldestVersion = 91600;

int failed(TrainrtCudnnSink error, const std::string &message) {
  error.write(error.to, message.data(), message.size());
  return 1;
}

/// Runs `body`, which returns cudnn_frontend's errors; exceptions end here.
template <typename Body> int guarded(TrainrtCudnnSink error, Body body) {
  try {
    fe::error_t status = body();
    return status.is_good() ? 0 : failed(error, status.get_message());
  } catch (const std::exception &exception) {
    return failed(error, exception.what());
  } catch (...) {
    return failed(error, "an unknown exception");
  }
}

/// cuDNN's handles: one is used by one thread at a time and belongs to a device. They live as long
/// as the process.
class Handles {
public:
  /// Gives the handle back at the end of a scope, however that ends.
  class Lease {
  public:
    ~Lease() {
      if (handle)
        owner->give(device, handle);
    }
    cudnnHandle_t handle = nullptr;

  private:
    friend class Handles;
    Handles *owner = nullptr;
    int device = 0;
  };

  /// Of the device that is current. cuDNN is not called under the mutex.
  fe::error_t take(Lease &lease) {
    lease.owner = this;
    if (fe::detail::cuda_get_device(&lease.device) != cudaSuccess)
      return {fe::error_code_t::CUDA_API_FAILED, "there is no current CUDA device"};
    {
      std::lock_guard<std::mutex> lock(mutex);
      std::vector<cudnnHandle_t> &free = handles[lease.device];
      if (!free.empty()) {
        lease.handle = free.back();
        free.pop_back();
        return {};
      }
    }
    cudnnStatus_t status = fe::detail::create_handle(&lease.handle);
    if (status != CUDNN_STATUS_SUCCESS) {
      lease.handle = nullptr;
      return {fe::error_code_t::HANDLE_ERROR,
              std::string("cudnnCreate: ") + fe::detail::get_error_string(status)};
    }
    return {};
  }

private:
  void give(int device, cudnnHandle_t handle) {
    std::lock_guard<std::mutex> lock(mutex);
    handles[device].push_back(handle);
  }

  std::mutex mutex;
  std::map<int, std::vector<cudnnHandle_t>> handles;
};

Handles &handles() {
  // Never destroyed: cuDNN may be gone when the destructors of this library run.
  static Handles &all = *new Handles;
  return all;
}

/// A description of a tensor; an axis of extent 1 gets a stride that cuDNN can read a layout from.
fe::graph::Tensor_attributes describe(const char *name, Uid uid, std::vector<int64_t> extents,
                                      std::vector<int64_t> strides) {
  for (size_t i = 0; i < extents.size(); ++i) {
    if (extents[i] != 1)
      continue;
    strides[i] = 1;
    if (i + 1 < extents.size())
      for (size_t j = 0; j < extents.size(); ++j)
        if (extents[j] != 1)
          strides[i] = std::max(strides[i], strides[j] * extents[j]);
  }
  return fe::graph::Tensor_attributes().set_name(name).set_uid(uid).set_dim(extents).set_stride(
      strides);
}

/// Writes the graph of a call, which outlives it. Tensors have numbers; their addresses come with
/// each run.
class Builder {
public:
  Builder(const TrainrtCudnnAttention &attention, fe::graph::Graph &graph)
      : call(attention), graph(graph) {
    graph.set_io_data_type(call.bf16 ? fe::DataType_t::BFLOAT16 : fe::DataType_t::HALF)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
  }

  /// Forward makes the statistics that backward reads.
  void build() {
    Tensor q = input("q", Q, call.q, call.heads, call.queryRows, call.keyColumns);
    Tensor k = input("k", K, call.k, call.kvHeads, call.keyRows, call.keyColumns);
    Tensor v = input("v", V, call.v, call.kvHeads, call.keyRows, call.valueColumns);
    if (!call.backward) {
      auto options = fe::graph::SDPA_attributes().set_name("attention").set_generate_stats(true);
      setOptions(options);
      auto [o, stats] = graph.sdpa(q, k, v, options);
      output(o, "o", O, call.o, call.heads, call.queryRows, call.valueColumns);
      fe::graph::Tensor_attributes described = statsAttributes();
      stats->set_output(true)
          .set_uid(Stats)
          .set_data_type(described.get_data_type())
          .set_dim(described.get_dim())
          .set_stride(described.get_stride());
      if (call.segmented)
        stats->set_ragged_offset(described.get_ragged_offset());
      return;
    }
    Tensor o = input("o", O, call.o, call.heads, call.queryRows, call.valueColumns);
    Tensor dO = input("d_o", DO, call.dO, call.heads, call.queryRows, call.valueColumns);
    Tensor stats = graph.tensor(statsAttributes());
    // Else the order in which gradients are added would be that in which blocks end.
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention")
                       .set_deterministic_algorithm(true);
    setOptions(options);
    auto [dQ, dK, dV] = graph.sdpa_backward(q, k, v, o, dO, stats, options);
    output(dQ, "d_q", DQ, call.dQ, call.heads, call.queryRows, call.keyColumns);
    output(dK, "d_k", DK, call.dK, call.kvHeads, call.keyRows, call.keyColumns);
    output(dV, "d_v", DV, call.dV, call.kvHeads, call.keyRows, call.valueColumns);
  }

private:
  fe::graph::Tensor_attributes operand(const char *name, Uid uid, const int64_t (&strides)[3],
                                       int64_t heads, int64_t rows, int64_t columns) {
    if (!call.segmented)
      return describe(name, uid, {call.batch, heads, rows, columns},
                      {strides[0], strides[1], strides[2], 1});
    // Segments begin where they are said to; the stride of the batch is that of segments of equal
    // length.
    fe::graph::Tensor_attributes described =
        describe(name, uid, {call.batch, heads, rows, columns},
                 {rows * strides[2], strides[1], strides[2], 1});
    described.set_ragged_offset(starts(uid));
    return described;
  }
  /// Where the segments of an operand begin.
  Tensor starts(Uid uid) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name("starts " + std::to_string(startsOf(uid)))
                            .set_uid(Starts + startsOf(uid))
                            .set_data_type(fe::DataType_t::INT64)
                            .set_dim({call.batch + 1, 1, 1, 1})
                            .set_stride({1, 1, 1, 1}));
  }
  Tensor lengths(const char *name, Uid uid) {
    return graph.tensor(fe::graph::Tensor_attributes()
                            .set_name(name)
                            .set_uid(uid)
                            .set_data_type(fe::DataType_t::INT32)
                            .set_dim({call.batch, 1, 1, 1})
                            .set_stride({1, 1, 1, 1}));
  }
  Tensor input(const char *name, Uid uid, const int64_t (&strides)[3], int64_t heads, int64_t rows,
               int64_t columns) {
    return graph.tensor(operand(name, uid, strides, heads, rows, columns));
  }
  void output(Tensor &tensor, const char *name, Uid uid, const int64_t (&strides)[3], int64_t heads,
              int64_t rows, int64_t columns) {
    fe::graph::Tensor_attributes described = operand(name, uid, strides, heads, rows, columns);
    tensor->set_output(true)
        .set_uid(uid)
        .set_dim(described.get_dim())
        .set_stride(described.get_stride());
    if (call.segmented)
      tensor->set_ragged_offset(described.get_ragged_offset());
  }
  /// A number of f32 for each row and head. With segments the heads of a row lie side by side: all
  /// heads of the matrix, of which the call may have a part only.
  fe::graph::Tensor_attributes statsAttributes() {
    int64_t rows = call.queryRows, heads = call.heads;
    auto attributes = fe::graph::Tensor_attributes()
                          .set_name("stats")
                          .set_uid(Stats)
                          .set_data_type(fe::DataType_t::FLOAT)
                          .set_dim({call.batch, heads, rows, 1});
    if (call.segmented)
      attributes.set_stride({call.statsHeads * rows, 1, call.statsHeads, 1})
          .set_ragged_offset(starts(Stats));
    else
      attributes.set_stride({heads * rows, rows, 1, 1});
    return attributes;
  }

  /// The same of both directions: backward has to see the mask and the dropout of forward.
  template <typename Options> void setOptions(Options &options) {
    options.set_attn_scale(float(call.scale));
    if (call.segmented)
      options.set_padding_mask(true)
          .set_seq_len_q(lengths("rows of q", QueryLengths))
          .set_seq_len_kv(lengths("rows of k", KeyLengths));
    if (call.biasType) {
      std::vector<int64_t> extents = {call.batch, call.heads, call.queryRows, call.keyRows};
      std::vector<int64_t> strides(std::begin(call.bias), std::end(call.bias));
      // Batches and heads are repeated where their extent is 1. Rows are not: the gradients would
      // be wrong (seen with 9.19). They are all there, in one place.
      for (size_t i : {0, 1})
        if (strides[i] == 0)
          extents[i] = 1;
      fe::graph::Tensor_attributes bias = describe("bias", Bias, extents, strides);
      if (call.biasType == 1)
        bias.set_data_type(fe::DataType_t::FLOAT);
      options.set_bias(graph.tensor(bias));
    }
    if (call.dropout > 0) {
      auto scalar = [&](const char *name, Uid uid) {
        return graph.tensor(fe::graph::Tensor_attributes()
                                .set_name(name)
                                .set_uid(uid)
                                .set_data_type(fe::DataType_t::INT64)
                                .set_dim({1, 1, 1, 1})
                                .set_stride({1, 1, 1, 1}));
      };
      options.set_dropout(float(call.dropout), scalar("seed", Seed), scalar("offset", Offset));
    }
    if (call.causal) {
      // Row i sees columns up to i + shift. With a bias or dropout cuDNN takes no mask that is
      // aligned at the bottom right, but it takes the same one as a band.
      int64_t shift = call.keyRows - call.queryRows;
      bool band = shift == 0 || call.biasType || call.dropout > 0;
      options.set_diagonal_alignment(band ? fe::DiagonalAlignment_t::TOP_LEFT
                                          : fe::DiagonalAlignment_t::BOTTOM_RIGHT);
      options.set_diagonal_band_right_bound(band ? int(shift) : 0);
    } else if (call.before >= 0 || call.after >= 0) {
      options.set_diagonal_alignment(fe::DiagonalAlignment_t::TOP_LEFT);
      if (call.after >= 0)
        options.set_diagonal_band_right_bound(int(call.after));
    }
    // The row's own column counts.
    if (call.before >= 0)
      options.set_diagonal_band_left_bound(int(call.before + 1));
  }

  const TrainrtCudnnAttention &call;
  fe::graph::Graph &graph;
};

int open(void *cudnn, const char *cudart, int64_t *version, TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    fe::cudnn_dlhandle = cudnn;
    // How cudnn_frontend is told which libcudart to load; a person's own setting stays.
    setenv("CUDNN_FRONTEND_CUDART_LIB_NAME", cudart, 0);
    *version = int64_t(fe::detail::get_backend_version());
    if (*version < oldestVersion)
      return {fe::error_code_t::GRAPH_NOT_SUPPORTED,
              "cuDNN " + std::to_string(*version) + " is too old: 9.16 or newer is needed"};
    return {};
  });
}

/// A plan whose graph `prepare` has made ready for a handle.
/// `plan` is set where it succeeds, and is the caller's.
template <typename Prepare>
int makePlan(const TrainrtCudnnAttention *attention, TrainrtCudnnPlan **plan,
             TrainrtCudnnSink error, Prepare prepare) {
  auto made = std::make_unique<TrainrtCudnnPlan>();
  int status = guarded(error, [&]() -> fe::error_t {
    Handles::Lease lease;
    if (fe::error_t taken = handles().take(lease); taken.is_bad())
      return taken;
    // A copy: the graph is built from it, and runs look at it.
    made->attention = *attention;
    made->graph = std::make_shared<fe::graph::Graph>();
    if (fe::error_t prepared = prepare(*made, lease.handle); prepared.is_bad())
      return prepared;
    return made->graph->get_workspace_size(made->workspaceBytes);
  });
  if (!status)
    *plan = made.release();
  return status;
}

int build(const TrainrtCudnnAttention *attention, TrainrtCudnnPlan **plan, TrainrtCudnnSink error) {
  return makePlan(attention, plan, error, [](TrainrtCudnnPlan &made, cudnnHandle_t handle) {
    Builder(made.attention, *made.graph).build();
    return made.graph->build(handle, {fe::HeurMode_t::A});
  });
}

/// The caller has checked that `store` wrote it for an equal call, with the same versions and
/// device.
int restore(const TrainrtCudnnAttention *attention, const void *stored, size_t size,
            TrainrtCudnnPlan **plan, TrainrtCudnnSink error) {
  const uint8_t *bytes = static_cast<const uint8_t *>(stored);
  const std::vector<uint8_t> data(bytes, bytes + size);
  return makePlan(attention, plan, error, [&](TrainrtCudnnPlan &made, cudnnHandle_t handle) {
    return made.graph->deserialize(handle, data, /*enforce_precompiled=*/true,
                                   /*run_warmup=*/false);
  });
}

int store(const TrainrtCudnnPlan *plan, TrainrtCudnnSink stored, TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    std::vector<uint8_t> data;
    if (fe::error_t written = plan->graph->serialize(data, /*serialize_structure=*/false);
        written.is_bad())
      return written;
    stored.write(stored.to, data.data(), data.size());
    return {};
  });
}

uint64_t workspaceBytes(const TrainrtCudnnPlan *plan) { return uint64_t(plan->workspaceBytes); }

int enqueue(const TrainrtCudnnPlan *plan, void *stream, const TrainrtCudnnOperands *operands,
            void *workspace, TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    Handles::Lease lease;
    if (fe::error_t taken = handles().take(lease); taken.is_bad())
      return taken;
    cudnnStatus_t status = fe::detail::set_stream(lease.handle, static_cast<cudaStream_t>(stream));
    if (status != CUDNN_STATUS_SUCCESS)
      return {fe::error_code_t::HANDLE_ERROR,
              std::string("cudnnSetStream: ") + fe::detail::get_error_string(status)};
    const TrainrtCudnnAttention &call = plan->attention;
    std::unordered_map<int64_t, void *> addresses = {{Q, operands->q},
                                                     {K, operands->k},
                                                     {V, operands->v},
                                                     {O, operands->o},
                                                     {Stats, operands->stats}};
    if (call.biasType)
      addresses[Bias] = operands->bias;
    if (call.dropout > 0) {
      addresses[Seed] = operands->seed;
      // Two numbers beside each other.
      addresses[Offset] = static_cast<int64_t *>(operands->seed) + 1;
    }
    if (call.backward) {
      addresses[DO] = operands->dO;
      addresses[DQ] = operands->dQ;
      addresses[DK] = operands->dK;
      addresses[DV] = operands->dV;
    }
    if (call.segmented) {
      // Segments have as many keys as queries.
      addresses[QueryLengths] = addresses[KeyLengths] = operands->lengths;
      for (int64_t i = 0; i < (call.backward ? 9 : 5); ++i)
        addresses[Starts + i] = operands->starts[i];
    }
    return plan->graph->execute(lease.handle, addresses, workspace);
  });
}

void destroy(TrainrtCudnnPlan *plan) { delete plan; }

#define TRAINRT_TEXT_(value) #value
#define TRAINRT_TEXT(value) TRAINRT_TEXT_(value)
constexpr TrainrtCudnnPlugin plugin = {
    TRAINRT_CUDNN_PLUGIN_ABI,
    "cudnn_frontend " TRAINRT_TEXT(CUDNN_FRONTEND_MAJOR_VERSION) "." TRAINRT_TEXT(CUDNN_FRONTEND_MINOR_VERSION) "." TRAINRT_TEXT(
        CUDNN_FRONTEND_PATCH_VERSION) " with headers of " TRAINRT_TEXT(CUDNN_MAJOR) "." TRAINRT_TEXT(CUDNN_MINOR) "." TRAINRT_TEXT(CUDNN_PATCHLEVEL),
    open,
    build,
    restore,
    store,
    workspaceBytes,
    enqueue,
    destroy};

} // namespace

extern "C" __attribute__((visibility("default"))) const TrainrtCudnnPlugin *trainrt_cudnn_plugin() {
  return &plugin;
}
