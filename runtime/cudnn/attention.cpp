// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fused attention as graphs of cuDNN.

#include "plugin.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace trainrt::cudnn {

namespace {

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
  DBias,
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
    if (call.biasGradient) {
      const std::vector<int64_t> extents = biasExtents();
      Tensor dBias = graph.tensor(biasAttributes(
          "d_bias", DBias,
          {extents[1] * extents[2] * extents[3], extents[2] * extents[3], extents[3], 1}));
      dBias->set_output(true);
      options.set_dbias(dBias);
    }
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

  /// Batches and heads are repeated where their extent is 1. Rows are not: the gradients would be
  /// wrong (seen with 9.19). They are all there, in one place.
  std::vector<int64_t> biasExtents() const {
    return {call.bias[0] ? call.batch : 1, call.bias[1] ? call.heads : 1, call.queryRows,
            call.keyRows};
  }
  fe::graph::Tensor_attributes biasAttributes(const char *name, Uid uid,
                                              const std::vector<int64_t> &strides) {
    fe::graph::Tensor_attributes bias = describe(name, uid, biasExtents(), strides);
    if (call.biasType == 1)
      bias.set_data_type(fe::DataType_t::FLOAT);
    return bias;
  }

  /// The same of both directions: backward has to see the mask and the dropout of forward.
  template <typename Options> void setOptions(Options &options) {
    options.set_attn_scale(float(call.scale));
    if (call.segmented)
      options.set_padding_mask(true)
          .set_seq_len_q(lengths("rows of q", QueryLengths))
          .set_seq_len_kv(lengths("rows of k", KeyLengths));
    if (call.biasType)
      options.set_bias(graph.tensor(biasAttributes(
          "bias", Bias, std::vector<int64_t>(std::begin(call.bias), std::end(call.bias)))));
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

} // namespace

int buildAttention(const TrainrtCudnnAttention *attention, TrainrtCudnnPlan **plan,
                   TrainrtCudnnSink error) {
  return makePlan(plan, error, [&](TrainrtCudnnPlan &made, cudnnHandle_t handle) {
    // A copy: the graph is built from it, and runs look at it.
    made.attention = *attention;
    Builder(made.attention, *made.graph).build();
    return made.graph->build(handle, {fe::HeurMode_t::A});
  });
}

int restoreAttention(const TrainrtCudnnAttention *attention, const void *stored, size_t size,
                     TrainrtCudnnPlan **plan, TrainrtCudnnSink error) {
  return makePlan(plan, error, [&](TrainrtCudnnPlan &made, cudnnHandle_t handle) {
    made.attention = *attention;
    return readStored(made, handle, stored, size);
  });
}

int enqueueAttention(const TrainrtCudnnPlan *plan, void *stream,
                     const TrainrtCudnnOperands *operands, void *workspace,
                     TrainrtCudnnSink error) {
  return guarded(error, [&]() -> fe::error_t {
    Handles::Lease lease;
    if (fe::error_t taken = takeFor(stream, lease); taken.is_bad())
      return taken;
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
      if (call.biasGradient)
        addresses[DBias] = operands->dBias;
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

} // namespace trainrt::cudnn
