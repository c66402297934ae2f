// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Two blocks, used in turn: while one is on the bus, the host fills or empties the other.

#include "device/cuda/transfers.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt::cuda {

/// With the first transfer: many sessions have none.
Status Transfers::prepare() {
  for (Slot &slot : slots) {
    if (slot.memory.data())
      continue;
    TRAINRT_TRY(slot.done.create(context, CU_EVENT_DISABLE_TIMING));
    TRAINRT_TRY(slot.memory.allocate(context, chunk, "transfers"));
  }
  return {};
}

void Transfers::release() {
  views.clear();
  for (Slot &slot : slots)
    slot = {};
}

/// The slot is the host's again afterwards.
Status Transfers::await(Slot &slot) {
  if (!slot.busy)
    return {};
  slot.busy = false;
  return context.driver().check(context.driver().cuEventSynchronize(slot.done.get()),
                                "a transfer failed");
}

/// `source` is called on this thread, for one range after the other, and not afterwards. The copies
/// themselves may still be under way.
Status Transfers::upload(DeviceAddress to, int64_t bytes, const Device::Source &source,
                         CUstream stream) {
  TRAINRT_TRY(prepare());
  for (int64_t begin = 0; begin < bytes; begin += chunk) {
    Slot &slot = slots[next++ % 2];
    // What went through this block two chunks ago has left it.
    TRAINRT_TRY(await(slot));
    const int64_t end = std::min(bytes, begin + chunk);
    source(slot.memory.data(), begin, end);
    const Driver &driver = context.driver();
    TRAINRT_TRY(driver.check(driver.cuMemcpyHtoDAsync(to + DeviceAddress(begin), slot.memory.data(),
                                                      size_t(end - begin), stream),
                             "cannot copy values to the GPU"));
    // Behind the copy: who awaits the slot awaits it.
    TRAINRT_TRY(driver.check(driver.cuEventRecord(slot.done.get(), stream), "cannot record"));
    slot.busy = true;
  }
  return {};
}

/// The bytes are there when it returns: it waits for what is on the stream before them.
Status Transfers::download(DeviceAddress from, int64_t bytes, unsigned char *to, CUstream stream) {
  TRAINRT_TRY(prepare());
  const Driver &driver = context.driver();
  // Chunk i + 1 is on the bus while chunk i is copied out of its block.
  // One more round, in which the last chunk is copied out.
  const int64_t count = (bytes + chunk - 1) / chunk;
  auto sizeOfChunk = [&](int64_t i) { return std::min(bytes - i * chunk, chunk); };
  for (int64_t i = 0; i <= count; ++i) {
    if (i < count) {
      Slot &slot = slots[i % 2];
      TRAINRT_TRY(await(slot));
      TRAINRT_TRY(
          driver.check(driver.cuMemcpyDtoHAsync(slot.memory.data(), from + DeviceAddress(i * chunk),
                                                size_t(sizeOfChunk(i)), stream),
                       "cannot copy values from the GPU"));
      TRAINRT_TRY(driver.check(driver.cuEventRecord(slot.done.get(), stream), "cannot record"));
      slot.busy = true;
    }
    if (i > 0) {
      Slot &slot = slots[(i - 1) % 2];
      assert(slot.busy && "the chunk before is on its way");
      TRAINRT_TRY(await(slot));
      const unsigned char *block = slot.memory.data();
      unsigned char *target = to + (i - 1) * chunk;
      pool.parallelFor(sizeOfChunk(i - 1), 1 << 20, [=](unsigned, int64_t first, int64_t last) {
        std::memcpy(target + first, block + first, size_t(last - first));
      });
    }
  }
  return {};
}

Status Transfers::view(DeviceAddress from, int64_t bytes, CUstream stream, const void *&host) {
  // Known until something runs or is written.
  auto known = views.find(from);
  // A longer view serves a shorter one.
  if (known != views.end() && known->second.bytes >= bytes) {
    host = known->second.memory.data();
    return {};
  }
  View view{{}, bytes};
  // Pageable: it is read by the host only.
  TRAINRT_TRY(
      view.memory.allocate({}, std::max<int64_t>(bytes, 1), "host's copy of values", false));
  TRAINRT_TRY(download(from, bytes, view.memory.data(), stream));
  host = view.memory.data();
  views[from] = std::move(view);
  return {};
}

} // namespace trainrt::cuda
