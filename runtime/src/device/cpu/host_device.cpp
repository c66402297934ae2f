// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs on the host: addresses are resolved, the executor does the rest, at once.

#include "device/cpu/host_device.h"
#include "device/cpu/gemm.h"
#include "io/convert.h"
#include "plan/command_info.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>

namespace trainrt {

HostDevice::HostDevice(std::shared_ptr<const Package> package,
                       std::shared_ptr<const KernelLibrary> kernels,
                       std::shared_ptr<const ExternalFunctions> externals,
                       const DeviceOptions &options, AddressOf addressOf)
    : Device(std::move(package), options.threads, std::move(addressOf)),
      kernels(std::move(kernels)), externals(std::move(externals)), allocator(options.allocator),
      observer(options.observer), ranks(options.ranks), executor(*pool) {
  staging.resize(this->package->program().inputs.size());
  if (const Gemm *matmul = typicalMatmul();
      matmul && matmul->dtype == DType::BF16 && !multipliesBF16())
    remark = std::string("matmuls of bf16 are emulated in f32, ") + describeBF16() +
             ": they are no quicker than those of fp32";
}

Status HostDevice::allocateHost(int64_t bytes, void *&memory) {
  Memory block;
  TRAINRT_TRY(block.allocate(allocator, bytes, "batches", false));
  memory = block.data();
  std::lock_guard lock(hostMutex);
  hostBlocks.emplace(memory, std::move(block));
  return {};
}

void HostDevice::releaseHost(void *memory) {
  std::lock_guard lock(hostMutex);
  hostBlocks.erase(memory);
}

Status HostDevice::allocateBytes(int64_t bytes, const char *what, bool zeroed,
                                 std::shared_ptr<unsigned char> &data) {
  auto memory = std::make_shared<Memory>();
  TRAINRT_TRY(memory->allocate(allocator, bytes, what, zeroed));
  data = {memory, memory->data()};
  // Aliases the shared pointer: the bytes live as long as the Memory object that frees them.
  return {};
}

/// On the host one piece is enough: devices with memory of their own ask the source for several.
Status HostDevice::write(void *to, int64_t bytes, const Source &source) {
  if (bytes)
    source(static_cast<unsigned char *>(to), 0, bytes);
  return {};
}

Status HostDevice::copy(void *to, const void *from, int64_t bytes) {
  if (bytes)
    std::memcpy(to, from, size_t(bytes));
  return {};
}

Status HostDevice::clear(void *to, int64_t bytes) {
  auto *begin = static_cast<unsigned char *>(to);
  pool->parallelFor(bytes, 1 << 18, [begin](unsigned, int64_t first, int64_t end) {
    std::memset(begin + first, 0, size_t(end - first));
  });
  return {};
}

Status HostDevice::view(const void *from, int64_t, const void *&host) {
  host = from;
  return {};
}

/// The arena keeps the most that any plan has needed. The lower bound told is that of the plan that
/// made it so large.
Status HostDevice::prepare(const ExecutionPlan &plan) {
  if (plan.arenaBytes >= arena.size())
    arenaLowerBound = plan.arenaLowerBound;
  if (plan.arenaBytes > arena.size())
    TRAINRT_TRY(allocate(plan.arenaBytes, "activations", false, arena));
  if (plan.outputBytes > outputBlock.size())
    TRAINRT_TRY(allocate(plan.outputBytes, "outputs", false, outputBlock));
  return {};
}

Status HostDevice::stageInput(uint32_t input, const ArrayView &array, const void *&data) {
  const TensorDecl &decl = package->program().inputs[input];
  // No copy: the caller's array stays valid until the step has run, which is before enqueue
  // returns.
  if (array.data && array.dtype == decl.dtype) {
    data = array.data;
    return {};
  }
  int64_t count, bytes;
  if (!countElements(array.shape.data(), array.shape.size(), count) ||
      !countBytes(decl.dtype, array.shape.data(), array.shape.size(), bytes))
    return fail(Code::BadData, "input '", decl.name, "' is too large");
  DeviceMemory &memory = staging[input];
  if (bytes > memory.size())
    TRAINRT_TRY(allocate(bytes, "inputs", false, memory));
  data = memory.data();
  // An input that no array is given for reads as zeros.
  if (array.data)
    convertElements(array.data, array.dtype, memory.data(), decl.dtype, count);
  else if (bytes)
    std::memset(memory.data(), 0, size_t(bytes));
  return {};
}

Status HostDevice::enqueue(Run &run, Ticket &ticket) {
  const Program &program = package->program();
  const ExecutionPlan &plan = run.plan;
  const Function &function = *plan.function;
  assert(plan.bufferOffsets.size() == function.buffers.size() &&
         "the plan is that of the function");
  // Inputs that this function does not read stay null: no buffer of it names them.
  std::vector<const void *> inputs(program.inputs.size());
  if (run.batch)
    for (uint32_t input : function.inputs)
      TRAINRT_TRY(stageInput(input, run.batch->arrays[input], inputs[input]));

  Executor::Run work{kernels.get(), {}, std::move(run.stop), observer, run.alone ? nullptr : ranks};
  work.program = &program;
  work.externals = externals.get();
  // Addresses are made anew for each run: inputs, hyper-parameters and outputs may have moved since
  // the last one.
  for (size_t i = 0; i < function.buffers.size(); ++i) {
    const Buffer &buffer = function.buffers[i];
    const void *address = nullptr;
    switch (buffer.space) {
    case Space::Arena:
      address = arena.data() + plan.bufferOffsets[i];
      break;
    case Space::Parameter:
    case Space::State:
    case Space::Gradient:
    case Space::Derived:
      address = addressOf(buffer.space, buffer.index);
      break;
    case Space::Input:
      address = inputs[buffer.index];
      break;
    case Space::Hyper:
      address = run.hypers[buffer.index].data();
      break;
    case Space::Constant:
      address = program.constants[buffer.index].data.data();
      break;
    case Space::Output:
      address = outputBlock.data() + plan.bufferOffsets[i];
      break;
    case Space::Host:
      assert(false && "readProgram refuses it where the device's memory is the host's");
      break;
    }
    work.buffers.push_back(const_cast<void *>(address));
  }
  run.began = true;
  // What an earlier run left must not be told for this one when it fails.
  last = {};
  ticket = 0;
  Executor::Reports reports;
  try {
    TRAINRT_TRY(executor.run(plan, work, allocator, reports));
  } catch (const std::bad_alloc &) {
    throw; // the scratch of kernels has been asked for already: a few bytes are missing
  } catch (const std::exception &error) {
    return Status(Code::Internal, std::string("function '") + function.name + "': " + error.what());
  }
  if (reports.failed)
    return reports.why.within(exchangeText(program, function, *reports.failed));
  if (reports.refused)
    return reports.why;
  if (reports.badIndex)
    return badIndex(*reports.badIndex, reports.position, reports.value);
  last.numbers = std::move(reports.numbers);

  // Loss and norm are told in f64 whatever type the graph has. An output without an element has no
  // value: it keeps what `last` starts with.
  for (const ExecutionPlan::Output &output : plan.outputs) {
    DType dtype = program.outputs[output.index].dtype;
    if (!isFloat(dtype) || output.bytes < int64_t(sizeOf(dtype)))
      continue;
    for (auto [index, to] : {std::pair(package->lossOutput(), &last.loss),
                             {package->gradNormOutput(), &last.gradNorm}})
      if (int32_t(output.index) == index)
        convertElements(outputBlock.data() + output.offset, dtype, to, DType::F64, 1);
  }
  // The step itself leaves in this state whether a gradient was not finite.
  for (const Buffer &buffer : function.buffers)
    if (buffer.space == Space::State && int32_t(buffer.index) == package->nonfiniteState()) {
      int32_t flag;
      std::memcpy(&flag, addressOf(buffer.space, buffer.index), 4);
      last.nonfinite = flag != 0;
    }
  return {};
}

Status HostDevice::repeat(Ticket &) {
  assert(false && "runs are given ahead to devices only whose `runsAhead` says so");
  return {};
}

/// Everything has run in enqueue; there is one ticket.
Status HostDevice::wait(Ticket, Result &result) {
  result = last;
  return {};
}

Status HostDevice::measureCopySpeed(double &bytesPerSecond) {
  // Beyond the caches.
  constexpr int64_t bytes = int64_t(128) << 20;
  DeviceMemory from, to;
  TRAINRT_TRY(allocate(bytes, "measurement of the copy speed", true, from));
  TRAINRT_TRY(allocate(bytes, "measurement of the copy speed", true, to));
  bytesPerSecond = 0;
  // The best of five: the first touches the pages, others may be disturbed.
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pool->parallelFor(bytes, 1 << 20, [&](unsigned, int64_t begin, int64_t end) {
      std::memcpy(to.data() + begin, from.data() + begin, size_t(end - begin));
    });
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    // Read once and written once, hence twice the bytes.
    bytesPerSecond = std::max(bytesPerSecond, 2 * double(bytes) / seconds.count());
  }
  return {};
}

Status HostDevice::measureMatmulSpeed(double &flopsPerSecond) {
  constexpr int64_t size = 1024;
  // Only to refuse packages for which the number means nothing; the size measured is always the
  // same.
  if (!typicalMatmul())
    return Status(Code::Unsupported, "the package multiplies no matrices");
  // A quarter, or of bf16 two of them: half of the memory is not read then.
  const bool bf16 = typicalMatmul()->dtype == DType::BF16;
  std::vector<float> a(size * size, std::bit_cast<float>(0x3e803e80u)), b = a, c(size * size);
  const GemmArgs args{a.data(), b.data(), c.data(), size, size, size, size,
                      1,        size,     1,        size, 1,    0,    nullptr,
                      nullptr,  nullptr,  nullptr,  1,    0,    bf16};
  // Another program may have the cores for a while: until nothing gets better, half a second at
  // most.
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  const Clock::time_point begin = Clock::now();
  flopsPerSecond = 0;
  for (int unchanged = 0; unchanged < 5 && Seconds(Clock::now() - begin).count() < 0.5;) {
    const Clock::time_point start = Clock::now();
    (bf16 ? gemmBF16 : gemmF32)(args, *pool, nullptr);
    const double speed = 2.0 * size * size * size / Seconds(Clock::now() - start).count();
    unchanged = speed > 1.02 * flopsPerSecond ? 0 : unchanged + 1;
    flopsPerSecond = std::max(flopsPerSecond, speed);
  }
  return {};
}

void HostDevice::addMemory(MemoryUse &use) const {
  use.arena += arena.size();
  use.arenaLowerBound = arenaLowerBound;
  for (const DeviceMemory &memory : staging)
    use.inputs += memory.size();
  use.outputs += outputBlock.size();
  use.scratch += executor.scratchBytes();
  for (const Constant &constant : package->program().constants)
    use.mapped += int64_t(constant.data.size());
}

} // namespace trainrt
