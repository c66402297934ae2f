// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a library needs beside an attention over segments: where each operand's segments begin, in
// elements, how long they are, and zeros in the rows behind the last one, which the library leaves
// as they are. One launch of a kernel of the runtime's own makes all of it, from the offsets in
// device memory.
#ifndef TRAINRT_DEVICE_CUDA_SEGMENTS_H
#define TRAINRT_DEVICE_CUDA_SEGMENTS_H

#include "device/cuda/driver.h"
#include "device/cuda/libraries.h"

namespace trainrt::cuda {

/// The operands with rows, in the order of `SegmentTables::starts`.
enum class SegmentedOperand { Q, K, V, O, Stats, DO, DQ, DK, DV };
inline constexpr size_t numSegmentedOperands = 9;

/// Addresses in a workspace: of the lengths, i32[segments], and of the beginnings by operand,
/// i64[segments + 1] in elements. Operands whose rows have one stride share a table.
struct SegmentTables {
  DeviceAddress lengths = 0;
  DeviceAddress starts[numSegmentedOperands] = {};
};

class SegmentKernel {
public:
  /// The context is current, here and when this is destroyed.
  static Status load(std::unique_ptr<SegmentKernel> &kernel);
  ~SegmentKernel();
  SegmentKernel(const SegmentKernel &) = delete;
  SegmentKernel &operator=(const SegmentKernel &) = delete;

  /// What the tables of a call take of its workspace, a multiple of 256.
  static uint64_t tableBytes(const AttentionCall &call);
  /// Enqueues the making of the tables at `memory` and, where the call has the last segments, the
  /// zeros.
  Status enqueue(StreamHandle stream, const AttentionCall &call, const AttentionOperands &operands,
                 DeviceAddress memory, bool clears, SegmentTables &tables) const;

private:
  explicit SegmentKernel(const Driver &driver) : driver(driver) {}
  const Driver &driver;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_SEGMENTS_H
