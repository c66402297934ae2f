// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "device/cuda/staging.h"

#include "device/thread_pool.h"
#include "format/memory/arena_plan.h"
#include "io/convert.h"

#include <cstring>

namespace trainrt::cuda {

namespace {

/// Bytes that one thread copies into a pinned block faster than a pool would start.
constexpr int64_t copyGrain = 1 << 20;

/// From the caller's memory to the device, without the staging block.
bool goesDirectly(const Program &program, uint32_t input, const ArrayView &array) {
  return array.pinned && array.dtype == program.inputs[input].dtype;
}

} // namespace

/// Hypers first, then the inputs that the function reads, each aligned as buffers are.
StagingLayout layOutStaging(const Program &program, const ExecutionPlan &plan) {
  StagingLayout layout;
  for (const TensorDecl &hyper : program.hypers) {
    layout.hypers.push_back(layout.bytes);
    layout.bytes += padded(hyper.staticBytes, cudaPlanAlignment);
  }
  // Hypers are sent with every run, whatever the inputs are.
  layout.hyperBytes = layout.bytes;
  layout.inputs.resize(program.inputs.size());
  layout.staged.resize(program.inputs.size());
  for (size_t i = 0; i < plan.function->buffers.size(); ++i) {
    const Buffer &buffer = plan.function->buffers[i];
    // An input may have several buffers.
    if (buffer.space != Space::Input || layout.staged[buffer.index])
      continue;
    layout.staged[buffer.index] = true;
    layout.inputs[buffer.index] = layout.bytes;
    layout.bytes += padded(plan.bufferBytes[i], cudaPlanAlignment);
  }
  return layout;
}

/// `block` has the layout's size, and nothing reads it any more. Arrays that do not
/// go through the block are left out.
Status fillStaging(const Program &program, const StagingLayout &layout, const Device::Run &run,
                   ThreadPool &pool, unsigned char *block) {
  // The host's own copy: runs under way have theirs.
  for (size_t i = 0; i < program.hypers.size(); ++i)
    std::memcpy(block + layout.hypers[i], run.hypers[i].data(),
                size_t(program.hypers[i].staticBytes));
  if (!run.batch)
    return {};
  for (uint32_t input : run.plan.function->inputs) {
    const ArrayView &array = run.batch->arrays[input];
    // Copied within the device, or sent from where it is.
    if (!layout.staged[input] || array.onDevice || goesDirectly(program, input, array))
      continue;
    const DType dtype = program.inputs[input].dtype;
    unsigned char *to = block + layout.inputs[input];
    int64_t count, bytes;
    if (!countElements(array.shape.data(), array.shape.size(), count) ||
        !countBytes(dtype, array.shape.data(), array.shape.size(), bytes))
      return fail(Code::BadData, "input '", program.inputs[input].name, "' is too large");
    // Nothing to copy.
    if (!bytes)
      continue;
    // Left out by the caller, who allows for it.
    // A pool takes longer to start than small copies take.
    if (!array.data)
      std::memset(to, 0, size_t(bytes));
    else if (array.dtype != dtype)
      convertElements(array.data, array.dtype, to, dtype, count);
    else if (bytes <= copyGrain)
      std::memcpy(to, array.data, size_t(bytes));
    else
      pool.parallelFor(bytes, copyGrain,
                       [to, from = static_cast<const unsigned char *>(array.data)](
                           unsigned, int64_t begin, int64_t end) {
                         std::memcpy(to + begin, from + begin, size_t(end - begin));
                       });
  }
  return {};
}

/// What leaves the host: offsets into the staging block, and from where if not from there.
std::vector<StagingLayout::Part> partsToSend(const Program &program, const StagingLayout &layout,
                                             const Device::Run &run) {
  using Part = StagingLayout::Part;
  std::vector<Part> parts, inputs;
  bool isWhole = true;
  if (run.batch)
    for (uint32_t input : run.plan.function->inputs) {
      const ArrayView &array = run.batch->arrays[input];
      if (!layout.staged[input])
        continue;
      const bool direct = goesDirectly(program, input, array);
      // A single input that lies elsewhere cuts the piece.
      isWhole &= !direct && !array.onDevice;
      int64_t bytes = 0;
      if (!array.onDevice &&
          countBytes(program.inputs[input].dtype, array.shape.data(), array.shape.size(), bytes) &&
          bytes)
        inputs.push_back({layout.inputs[input], bytes, direct ? array.data : nullptr});
    }
  // All that lies in the pinned block in one piece: small copies cost more than their bytes.
  const int64_t first = isWhole ? layout.bytes : layout.hyperBytes;
  if (first)
    parts.push_back({0, first, nullptr});
  if (!isWhole)
    parts.insert(parts.end(), inputs.begin(), inputs.end());
  return parts;
}

Status PinnedBlocks::allocate(const Context &context, int64_t bytes, void *&memory) {
  PinnedMemory block;
  TRAINRT_TRY(block.allocate(context, bytes, "batches"));
  memory = block.data();
  std::lock_guard lock(mutex);
  // By its beginning, so that `contain` finds the block around an address.
  blocks.emplace(block.data(), std::move(block));
  return {};
}

void PinnedBlocks::release(void *memory) {
  std::lock_guard lock(mutex);
  blocks.erase(static_cast<const unsigned char *>(memory));
}

/// All of the bytes, in one block.
bool PinnedBlocks::contain(const void *data, int64_t bytes) const {
  std::lock_guard lock(mutex);
  const auto *begin = static_cast<const unsigned char *>(data);
  // The last block that begins at or before it.
  auto after = blocks.upper_bound(begin);
  if (after == blocks.begin())
    return false;
  const PinnedMemory &block = std::prev(after)->second;
  return begin + bytes <= block.data() + block.size();
}

} // namespace trainrt::cuda
