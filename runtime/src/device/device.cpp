// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all devices share.

#include "device/device.h"

#include <utility>

namespace trainrt {

DeviceMemory &DeviceMemory::operator=(DeviceMemory &&other) noexcept {
  // Swaps: what this held is released by the other's destructor, when nothing can fail any more.
  std::swap(device, other.device);
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  return *this;
}

void DeviceMemory::release() {
  // By the device that gave it, which outlives all of its memory.
  if (bytes)
    device->releaseBytes(bytes.get(), length);
  bytes.reset();
  length = 0;
}

Device::Device(std::shared_ptr<const Package> package, unsigned threads, AddressOf addressOf)
    : package(std::move(package)), pool(std::make_unique<ThreadPool>(threads)),
      addressOf(std::move(addressOf)) {}

Status Device::allocate(int64_t bytes, const char *what, bool zeroed, DeviceMemory &memory) {
  // Before the new block is asked for: both at once may not fit.
  memory.release();
  if (bytes <= 0)
    return {};
  TRAINRT_TRY(allocateBytes(bytes, what, zeroed, memory.bytes));
  memory.device = this;
  memory.length = bytes;
  return {};
}

Status Device::tune(const std::vector<const ExecutionPlan *> &, double, TuningResult &) {
  return fail(Code::Unsupported, "there is nothing to tune: only packages for a GPU have choices "
                                 "that are made by timing; compile with --target cuda");
}

Status Device::badIndex(const Command &command, int64_t position, int64_t value) const {
  const std::vector<std::string> &nodes = package->program().nodes;
  // An index that the kernel computed itself has no position in memory.
  return fail(Code::BadData,
              command.nodes.empty() ? std::string("an unknown node")
                                    : "node '" + nodes[command.nodes.front()] + "'",
              ": index ", value,
              position < 0 ? "" : " at position " + std::to_string(position) + " of its indices",
              " is out of range");
}

const Gemm *Device::typicalMatmul() const {
  const Gemm *found = nullptr;
  // The narrowest type, since matmuls of most of the step's work have it; the first one of these.
  for (const Function &function : package->program().functions)
    for (const Command &command : function.commands)
      if (const auto *gemm = std::get_if<Gemm>(&command.op))
        if (!found || sizeOf(gemm->dtype) < sizeOf(found->dtype))
          found = gemm;
  return found;
}

} // namespace trainrt
