// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fused attention through the cuDNN plugin.

#include "device/cuda/dnn/plugin_plans.h"
#include "device/cuda/segments.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt::cuda {

namespace {

void copyStrides(int64_t (&to)[3], const int64_t (&from)[3]) { std::copy(from, from + 3, to); }

/// The call in the plugin's terms. Its bytes identify it, so what it does not use is 0.
TrainrtCudnnAttention translate(const AttentionCall &call) {
  TrainrtCudnnAttention out;
  std::memset(&out, 0, sizeof out);
  out.backward = call.backward;
  out.bf16 = call.dtype == DType::BF16;
  out.batch = call.batch;
  out.heads = call.heads;
  out.kvHeads = call.kvHeads;
  out.queryRows = call.queryRows;
  out.keyRows = call.keyRows;
  out.keyColumns = call.keyColumns;
  out.valueColumns = call.valueColumns;
  copyStrides(out.q, call.q);
  copyStrides(out.k, call.k);
  copyStrides(out.v, call.v);
  copyStrides(out.o, call.o);
  if (call.backward) {
    copyStrides(out.dO, call.dO);
    copyStrides(out.dQ, call.dQ);
    copyStrides(out.dK, call.dK);
    copyStrides(out.dV, call.dV);
  }
  if (call.hasBias) {
    std::copy(call.bias, call.bias + 4, out.bias);
    out.biasType = call.biasDtype == DType::F32 ? 1 : 2;
    out.biasGradient = call.biasGradient;
  }
  out.causal = call.causal;
  // What reaches over all rows is no window.
  auto reach = [&](int64_t columns) {
    return columns < (call.segments ? call.longest : call.keyRows) - 1 ? columns : int64_t(-1);
  };
  out.before = reach(call.band.before);
  out.after = call.causal ? -1 : reach(call.band.after);
  if (call.segments) {
    out.segmented = 1;
    out.batch = call.segments;
    out.statsHeads = call.statsHeads ? call.statsHeads : call.heads;
    // There is no backward of one row.
    out.queryRows = out.keyRows = std::max<int64_t>(call.longest, 2);
    for (auto *strides : {&out.q, &out.k, &out.v, &out.o, &out.dO, &out.dQ, &out.dK, &out.dV})
      (*strides)[0] = 0;
  }
  out.scale = call.scale;
  out.dropout = call.dropout;
  return out;
}

/// For messages: what a person may have to change, and no more.
std::string describe(const AttentionCall &call) {
  std::string text = std::string(call.backward ? "backward" : "forward") + ", " +
                     nameOf(call.dtype) + ", batch " + std::to_string(call.batch) + ", heads " +
                     std::to_string(call.heads);
  if (call.kvHeads != call.heads)
    text += " (" + std::to_string(call.kvHeads) + " of k and v)";
  text += ", rows " + std::to_string(call.queryRows) + " x " + std::to_string(call.keyRows) +
          ", columns " + std::to_string(call.keyColumns);
  if (call.valueColumns != call.keyColumns)
    text += " (" + std::to_string(call.valueColumns) + " of v)";
  if (call.segments)
    text += ", " + std::to_string(call.segments) + " segments of up to " +
            std::to_string(call.longest) + " rows";
  if (call.causal)
    text += ", causal";
  for (auto [name, columns] :
       {std::pair{"before", call.band.before}, {"after", call.causal ? 0 : call.band.after}})
    if (columns > 0 && columns < AttentionBand::all)
      text += ", " + std::to_string(columns) + " columns " + name + " a row's own";
  if (call.hasBias)
    text += std::string(", bias of ") + nameOf(call.biasDtype) +
            (call.biasGradient ? " with a gradient" : "");
  if (call.dropout > 0)
    text += ", dropout " + std::to_string(call.dropout);
  return text;
}

Status unsupported(const AttentionCall &call, const std::string &why) {
  return fail(Code::Unsupported, "cuDNN cannot do this attention (", describe(call), "): ", why,
              ". Compile without fused attention");
}

/// Limits that are known without asking the library.
Status check(const AttentionCall &call) {
  assert((!call.segments || call.batch == 1) && "segments lie in one row of the batch");
  if (call.dtype != DType::BF16 && call.dtype != DType::F16)
    return unsupported(call, "operands have to be bf16 or f16");
  if (call.hasBias && call.biasDtype != DType::F32 && call.biasDtype != call.dtype)
    return unsupported(call, "the bias has to be f32 or of the operands' type");
  if (call.biasGradient && call.biasDtype != call.dtype)
    return unsupported(call, "a bias with a gradient has to be of the operands' type");
  if (call.hasBias && call.bias[3] != 1 && call.keyRows != 1)
    return unsupported(call, "the bias of a row does not lie side by side");
  if (call.causal && call.queryRows > call.keyRows)
    return unsupported(call, "with a causal mask the first rows would see nothing");
  if (call.queryRows != call.keyRows && !call.causal && call.band != AttentionBand())
    return unsupported(call, "a window has as many rows as columns");
  if (call.segments &&
      (call.hasBias || call.batch != 1 || call.queryRows != call.keyRows || call.longest <= 0))
    return unsupported(call, "segments have no bias, no batch and as many rows as columns");
  // Columns are cleared in words of four bytes.
  if (call.segments && (call.keyColumns % 2 || call.valueColumns % 2))
    return unsupported(call, "with segments the columns have to be even in number");
  for (int64_t extent : {call.batch, call.heads, call.kvHeads, call.queryRows, call.keyRows,
                         call.keyColumns, call.valueColumns})
    if (extent <= 0)
      return unsupported(call, "a size is 0");
  return {};
}

/// Runs a plan of the plugin; of segments with their tables.
Status enqueueOn(const PluginPlan &plan, StreamHandle stream, const AttentionOperands &operands,
                 const SegmentTables &tables, DeviceAddress workspace) {
  auto pointer = PluginPlan::pointer;
  TrainrtCudnnOperands pointers = {pointer(operands.q),     pointer(operands.k),
                                   pointer(operands.v),     pointer(operands.o),
                                   pointer(operands.stats), pointer(operands.bias),
                                   pointer(operands.seed),  pointer(operands.dO),
                                   pointer(operands.dQ),    pointer(operands.dK),
                                   pointer(operands.dV),    pointer(operands.dBias),
                                   pointer(tables.lengths), {}};
  static_assert(std::size(pointers.starts) == numSegmentedOperands);
  std::transform(std::begin(tables.starts), std::end(tables.starts), pointers.starts, pointer);
  std::string why;
  if (plan.plugin.enqueue(plan.plan, stream, &pointers, pointer(workspace), sink(why)))
    return fail(Code::DeviceError, "cuDNN: ", why);
  return {};
}

/// A call with its plan. With segments its workspace begins with their tables, those of one part
/// after the other.
class Plan final : public AttentionPlan {
public:
  /// The plan is that of one of the parts.
  Plan(const AttentionCall &call, const AttentionParts &parts,
       std::shared_ptr<const PluginPlan> plan, const SegmentKernel *kernel)
      : call(call), parts(parts), plan(std::move(plan)), kernel(kernel) {
    if (kernel) {
      this->call.segments = parts.batch;
      tableBytes = SegmentKernel::tableBytes(this->call);
    }
    // Parts are of one size: the last one may repeat some of what the one before did, and
    // writes over it.
    lastBatch = (kernel ? call.segments : call.batch) - parts.batch;
  }

  uint64_t workspaceBytes() const override { return tableBytes + plan->workspaceBytes(); }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands,
                 Workspace workspace) const override {
    if (workspace.bytes < workspaceBytes())
      return fail(Code::Internal, "an attention needs ", workspaceBytes(),
                  " bytes of workspace and got ", workspace.bytes);
    for (int64_t number = 0; number < parts.batches; ++number) {
      // The last part clears what is behind the segments.
      const int64_t batch = std::min(number * parts.batch, lastBatch);
      SegmentTables tables;
      if (kernel) {
        AttentionOperands some = operands;
        some.segments += DeviceAddress(batch * 4);
        TRAINRT_TRY(kernel->enqueue(stream, call, some, workspace.address,
                                    /*clears=*/number + 1 == parts.batches, tables));
      }
      for (int64_t head = 0; head < parts.heads; ++head)
        TRAINRT_TRY(enqueueOn(*plan, stream, part(operands, batch, head), tables,
                              workspace.address + tableBytes));
    }
    return {};
  }

private:
  /// The operands from a sample and the first head of a part on; where segments begin is in tables.
  AttentionOperands part(const AttentionOperands &all, int64_t batch, int64_t headPart) const {
    if (kernel)
      batch = 0;
    const int64_t head = headPart * (call.heads / parts.heads);
    const int64_t kvHead = headPart * (call.kvHeads / parts.heads);
    const int64_t bytes = int64_t(sizeOf(call.dtype));
    AttentionOperands some = all;
    auto move = [&](DeviceAddress &address, const int64_t *strides, int64_t first, int64_t size) {
      if (address)
        address += DeviceAddress((batch * strides[0] + first * strides[1]) * size);
    };
    move(some.q, call.q, head, bytes);
    move(some.o, call.o, head, bytes);
    move(some.dO, call.dO, head, bytes);
    move(some.dQ, call.dQ, head, bytes);
    move(some.k, call.k, kvHead, bytes);
    move(some.v, call.v, kvHead, bytes);
    move(some.dK, call.dK, kvHead, bytes);
    move(some.dV, call.dV, kvHead, bytes);
    move(some.bias, call.bias, head, int64_t(sizeOf(call.biasDtype)));
    // Row major, of one sample, as there are parts of heads.
    const int64_t dBias[2] = {0, call.bias[1] ? call.queryRows * call.keyRows : 0};
    move(some.dBias, dBias, head, int64_t(sizeOf(call.biasDtype)));
    // Statistics are f32. With segments the heads of a row lie side by side.
    const int64_t stats[2] = {call.heads * call.queryRows, kernel ? 1 : call.queryRows};
    move(some.stats, stats, head, 4);
    return some;
  }

  /// Of segments those of a part.
  AttentionCall call;
  const AttentionParts parts;
  std::shared_ptr<const PluginPlan> plan;
  const SegmentKernel *kernel;
  uint64_t tableBytes = 0;
  /// Where the last part begins.
  int64_t lastBatch;
};

/// With a description whose bytes identify the call.
PlanRequest requestOf(const AttentionCall &call) {
  const TrainrtCudnnAttention attention = translate(call);
  return {"attention", std::string(reinterpret_cast<const char *>(&attention), sizeof attention),
          [attention](const TrainrtCudnnPlugin &plugin, TrainrtCudnnPlan *&plan,
                      TrainrtCudnnSink why) { return plugin.build(&attention, &plan, why); },
          [attention](const TrainrtCudnnPlugin &plugin, const void *stored, size_t size,
                      TrainrtCudnnPlan *&plan, TrainrtCudnnSink why) {
            return plugin.restore(&attention, stored, size, &plan, why);
          },
          [call](const std::string &why) { return unsupported(call, why); }};
}

} // namespace

/// The library gets one part of the call, all of which are alike; the plan goes through them.
Status Cudnn::prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan) {
  TRAINRT_TRY(check(call));
  const SegmentKernel *kernel = nullptr;
  if (call.segments) {
    std::lock_guard<std::mutex> lock(impl->mutex);
    if (!impl->segmentKernel)
      TRAINRT_TRY(SegmentKernel::load(impl->segmentKernel));
    kernel = impl->segmentKernel.get();
  }
  const AttentionParts parts = attentionParts(sizesOf(call));
  AttentionCall part = call;
  if (call.segments) {
    part.segments = parts.batch;
    part.statsHeads = call.heads;
  } else {
    part.batch = parts.batch;
  }
  part.heads /= parts.heads;
  part.kvHeads /= parts.heads;
  std::shared_ptr<const PluginPlan> found;
  TRAINRT_TRY(impl->find(requestOf(part), found));
  plan = std::make_shared<Plan>(call, parts, std::move(found), kernel);
  return {};
}

} // namespace trainrt::cuda
