// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which of the runtime's kernels for attention a device can run, and their arguments.

#include "device/cuda/kernels/attention_kernels.h"
#include "device/cuda/kernels/embedded_kernels.h"

#include <algorithm>
#include <climits>
#include <cmath>

namespace trainrt::cuda {

AttentionKernels::~AttentionKernels() {
  for (auto &[name, kernel] : kernels)
    if (kernel.module)
      driver.cuModuleUnload(kernel.module);
}

Status AttentionKernels::ask(int &major, int &minor) {
  CUdevice device = 0;
  TRAINRT_TRY(driver.check(driver.cuCtxGetDevice(&device), "cannot find the current GPU"));
  for (auto [value, attribute] : {std::pair{&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR},
                                  {&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR},
                                  {&numMultiprocessors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT},
                                  {&shared, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN}})
    TRAINRT_TRY(driver.check(driver.cuDeviceGetAttribute(value, attribute, device),
                             "cannot ask for the properties of the GPU"));
  return {};
}

void AttentionKernels::add(std::initializer_list<const char *> jobs) {
  for (const char *job : jobs)
    for (const char *type : {"BF16", "F16"})
      for (const char *columns : {"64", "128"})
        if (std::string name = std::string(job) + "_" + type + "_" + columns; hasEmbedded(name))
          kernels[name];
}

Status AttentionKernels::load(std::initializer_list<const char *> jobs) {
  int major = 0, minor = 0;
  TRAINRT_TRY(ask(major, minor));
  if (major >= 8)
    add(jobs);
  return {};
}

Status AttentionKernels::loadWarpgroups(std::initializer_list<const char *> jobs) {
  int major = 0, minor = 0;
  TRAINRT_TRY(ask(major, minor));
  if (major == 9 && minor == 0)
    add(jobs);
  return {};
}

bool AttentionKernels::canCompute(const AttentionCall &call) {
  return !call.hasBias && call.queryRows == call.keyRows && call.queryRows <= INT_MAX &&
         (call.dtype == DType::BF16 || call.dtype == DType::F16) &&
         call.keyColumns == call.valueColumns && call.keyColumns % 8 == 0 &&
         call.keyColumns <= 128 && call.kvHeads > 0 && call.heads % call.kvHeads == 0 &&
         call.heads <= INT_MAX;
}

bool AttentionKernels::isAligned(const AttentionCall &call) {
  return std::ranges::all_of(
      std::initializer_list<const int64_t *>{call.q, call.k, call.v, call.o, call.dO, call.dQ,
                                             call.dK, call.dV},
      [&](const int64_t *strides) {
        return (call.segments || strides[0] % 8 == 0) && strides[1] % 8 == 0 && strides[2] % 8 == 0;
      });
}

bool AttentionKernels::isAligned(const AttentionOperands &operands) {
  return std::ranges::all_of(
      std::initializer_list<DeviceAddress>{operands.q, operands.k, operands.v, operands.o,
                                           operands.dO, operands.dQ, operands.dK, operands.dV},
      [](DeviceAddress address) { return address % 16 == 0; });
}

AttentionArguments AttentionKernels::arguments(const AttentionCall &call,
                                               const AttentionOperands &operands) {
  AttentionArguments args;
  // In bytes. All segments lie in one sample.
  auto matrices = [&](DeviceAddress address, const int64_t (&strides)[3]) {
    return HeadMatrices{address, strides[2] * 2, strides[1] * 2,
                        call.segments ? 0 : strides[0] * 2};
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
  args.stats = operands.stats;
  args.offsets = operands.segments;
  args.seed = operands.seed;
  args.segments = int32_t(call.segments ? call.segments : call.batch);
  args.rows = int32_t(call.queryRows);
  args.longest = int32_t(((call.segments ? call.longest : call.queryRows) + 15) / 16 * 16);
  args.heads = int32_t(call.heads);
  args.group = int32_t(call.heads / call.kvHeads);
  args.columns = int32_t(call.keyColumns);
  auto reach = [&](int64_t columns) { return int32_t(std::min<int64_t>(columns, args.longest)); };
  args.before = reach(call.band.before);
  args.after = call.causal ? 0 : reach(call.band.after);
  args.scale = call.scale;
  if (call.dropout > 0) {
    // The weights that stay make up for just those that are dropped.
    args.dropped = uint32_t(std::lround(double(call.dropout) * 65536));
    args.kept = float(65536 / (65536 - double(args.dropped)));
  }
  return args;
}

/// It is loaded once, whoever asks first.
Status AttentionKernels::find(const char *job, const AttentionCall &call, CUfunction &function) {
  const std::string name = std::string(job) + (call.dtype == DType::BF16 ? "_BF16_" : "_F16_") +
                           std::to_string(paddedColumns(call));
  Kernel &kernel = kernels.find(name)->second;
  std::lock_guard lock(kernel.mutex);
  if (!kernel.function)
    TRAINRT_TRY(load(name, kernel));
  function = kernel.function;
  return {};
}

/// Under the kernel's mutex. Where it fails the next call goes on with what there is.
Status AttentionKernels::load(const std::string &name, Kernel &kernel) const {
  const std::string what = "cannot load the runtime's kernel for attention (" + name + ")";
  if (!kernel.module)
    TRAINRT_TRY(loadEmbedded(driver, name, what, kernel.module));
  CUfunction function = nullptr;
  TRAINRT_TRY(driver.check(
      driver.cuModuleGetFunction(&function, kernel.module, "trainrt_attention"), what.c_str()));
  // This also makes the driver load what it would else load at the first launch, which must not be
  // while a graph is captured.
  TRAINRT_TRY(driver.check(
      driver.cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared),
      what.c_str()));
  kernel.function = function;
  return {};
}

} // namespace trainrt::cuda
