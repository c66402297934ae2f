// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/segment_attention.h: when they are used, loading and launching
// them.

#include "device/cuda/segment_attention.h"

#include "device/cuda/kernels/embedded_kernels.h"
#include "device/cuda/kernels/segment_attention_arguments.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace trainrt::cuda {

namespace {

/// Thread blocks a head for the rows behind the segments.
constexpr int32_t clearing = 8;
int64_t paddedRows(const AttentionCall &call) { return (call.longest + 15) / 16 * 16; }
/// For how many columns the kernel was made.
int64_t paddedColumns(const AttentionCall &call) { return call.keyColumns <= 64 ? 64 : 128; }
/// The kernels of many columns leave room for one block in a multiprocessor: long segments get more
/// warps.
unsigned threads(const AttentionCall &call) {
  return paddedColumns(call) > 64 && call.longest > 64 ? 256 : 128;
}
/// Two or four matrices, and two numbers a row.
int64_t sharedNeed(const AttentionCall &call, bool backward) {
  return paddedRows(call) * (paddedColumns(call) * 2 * (backward ? 4 : 2) + (backward ? 8 : 0));
}

/// Whether the kernels are quicker than cuDNN's, whose time is that of segments of the longest
/// one's length: always where they are short, else where the rows are few enough for that (measured
/// on an H200).
bool isQuicker(const AttentionCall &call) {
  const int64_t surely = paddedColumns(call) > 64 ? 64 : 192, perhaps = 256;
  return call.longest <= surely ||
         (call.longest <= perhaps && call.queryRows * 4 <= call.segments * call.longest * 3);
}

/// Nothing in it changes with a run. The kernel writes zeros behind the segments itself.
class Plan final : public AttentionPlan {
public:
  Plan(const Driver &driver, CUfunction function, const AttentionCall &call)
      : driver(driver), function(function), call(call) {}

  uint64_t workspaceBytes() const override { return 0; }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands, Workspace) const override {
    SegmentAttentionArguments args;
    auto matrices = [](DeviceAddress address, const int64_t (&strides)[3]) {
      return HeadMatrices{address, strides[2] * 2, strides[1] * 2};
    };
    args.q = matrices(operands.q, call.q);
    args.k = matrices(operands.k, call.k);
    args.v = matrices(operands.v, call.v);
    args.o = matrices(operands.o, call.o);
    if (call.backward) {
      args.dO = matrices(operands.dO, call.dO);
      args.dQ = matrices(operands.dQ, call.dQ);
      args.dK = matrices(operands.dK, call.dK);
      args.dV = matrices(operands.dV, call.dV);
    }
    // Operands that a call has not are 0, which is aligned.
    for (const HeadMatrices &each :
         {args.q, args.k, args.v, args.o, args.dO, args.dQ, args.dK, args.dV})
      if (each.address % 16)
        return fail(Code::Unsupported, "attention over segments needs operands that begin at "
                                       "multiples of 16 bytes. Compile without fused attention");
    args.stats = operands.stats;
    args.offsets = operands.segments;
    args.seed = operands.seed;
    args.segments = int32_t(call.segments);
    args.rows = int32_t(call.queryRows);
    args.longest = int32_t(paddedRows(call));
    args.heads = int32_t(call.heads);
    args.group = int32_t(call.heads / call.kvHeads);
    args.columns = int32_t(call.keyColumns);
    args.clearing = clearing;
    auto reach = [&](int64_t columns) { return int32_t(std::min<int64_t>(columns, args.longest)); };
    args.before = reach(call.band.before);
    args.after = call.causal ? 0 : reach(call.band.after);
    args.scale = call.scale;
    if (call.dropout > 0) {
      // The weights that stay make up for just those that are dropped.
      args.dropped = uint32_t(std::lround(double(call.dropout) * 65536));
      args.kept = float(65536 / (65536 - double(args.dropped)));
    }
    // Backward adds up the gradients of all heads that share a head of keys: one block does them.
    const int64_t heads = call.backward ? call.kvHeads : call.heads;
    void *parameters[] = {&args};
    return driver.check(driver.cuLaunchKernel(function, unsigned(heads),
                                              unsigned(call.segments + clearing), 1, threads(call),
                                              1, 1, unsigned(sharedNeed(call, call.backward)),
                                              static_cast<CUstream>(stream), parameters, nullptr),
                        "cannot start the runtime's kernel for attention over segments");
  }

private:
  const Driver &driver;
  CUfunction function;
  AttentionCall call;
};

} // namespace

Status SegmentAttention::load(std::unique_ptr<SegmentAttention> &attention) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<SegmentAttention> made(new SegmentAttention(*driver));
  CUdevice device = 0;
  int major = 0;
  TRAINRT_TRY(driver->check(driver->cuCtxGetDevice(&device), "cannot find the current GPU"));
  for (auto [value, attribute] :
       {std::pair{&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
        {&made->sharedBytes, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN}})
    TRAINRT_TRY(driver->check(driver->cuDeviceGetAttribute(value, attribute, device),
                              "cannot ask for the properties of the GPU"));
  if (major >= 8)
    for (const char *direction : {"forward", "backward"})
      for (const char *type : {"BF16", "F16"})
        for (const char *columns : {"64", "128"})
          if (std::string name = std::string(direction) + "_" + type + "_" + columns;
              hasEmbedded(name))
            made->kernels[name];
  attention = std::move(made);
  return {};
}

SegmentAttention::~SegmentAttention() {
  for (auto &[name, kernel] : kernels)
    if (kernel.module)
      driver.cuModuleUnload(kernel.module);
}

/// All that the kernels take for granted but alignment. The memory of backward counts for forward,
/// too, so that both directions of a step go the same way.
bool SegmentAttention::takes(const AttentionCall &call) const {
  return !kernels.empty() && call.segments > 0 && !call.hasBias && call.batch == 1 &&
         call.queryRows == call.keyRows && call.queryRows <= INT_MAX &&
         (call.dtype == DType::BF16 || call.dtype == DType::F16) &&
         call.keyColumns == call.valueColumns && call.keyColumns % 8 == 0 &&
         call.keyColumns <= 128 && call.longest > 0 && isQuicker(call) &&
         sharedNeed(call, true) <= sharedBytes && call.kvHeads > 0 &&
         call.heads % call.kvHeads == 0 && call.heads <= INT_MAX &&
         call.segments + clearing <= 65535;
}

/// `takes` has said yes, so the kernel exists. It is loaded once, whoever asks first.
Status SegmentAttention::prepare(const AttentionCall &call,
                                 std::shared_ptr<const AttentionPlan> &plan) {
  auto aligned = [](const int64_t (&strides)[3]) {
    return strides[1] % 8 == 0 && strides[2] % 8 == 0;
  };
  for (auto *strides : {&call.q, &call.k, &call.v, &call.o, &call.dO, &call.dQ, &call.dK, &call.dV})
    if (!aligned(*strides))
      return fail(Code::Unsupported, "attention over segments needs rows and heads that begin at "
                                     "multiples of 8 columns. Compile without fused attention");
  const std::string name = std::string(call.backward ? "backward_" : "forward_") +
                           (call.dtype == DType::BF16 ? "BF16_" : "F16_") +
                           std::to_string(paddedColumns(call));
  Kernel &kernel = kernels.find(name)->second;
  {
    std::lock_guard lock(kernel.mutex);
    if (!kernel.function)
      TRAINRT_TRY(load(name, kernel));
  }
  plan = std::make_shared<Plan>(driver, kernel.function, call);
  return {};
}

/// Under the kernel's mutex. Where it fails the next call goes on with what there is.
Status SegmentAttention::load(const std::string &name, Kernel &kernel) const {
  const std::string what =
      "cannot load the runtime's kernel for attention over segments (" + name + ")";
  if (!kernel.module)
    TRAINRT_TRY(loadEmbedded(driver, name, what, kernel.module));
  CUfunction function = nullptr;
  TRAINRT_TRY(driver.check(
      driver.cuModuleGetFunction(&function, kernel.module, "trainrt_attention"), what.c_str()));
  // This also makes the driver load what it would else load at the first launch, which must not be
  // while a graph is captured.
  TRAINRT_TRY(
      driver.check(driver.cuFuncSetAttribute(
                       function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, sharedBytes),
                   what.c_str()));
  kernel.function = function;
  return {};
}

} // namespace trainrt::cuda
