// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inputs that graphs read in the caller's memory. A captured graph has its addresses for good,
// those within library calls as well, so it is another graph for other addresses. Programs that
// allocate anew for each batch get the same few addresses again and again: those are worth graphs.
#ifndef TRAINRT_DEVICE_CUDA_DIRECT_INPUTS_H
#define TRAINRT_DEVICE_CUDA_DIRECT_INPUTS_H

#include "device/cuda/libraries.h"

#include <algorithm>
#include <array>
#include <vector>

namespace trainrt::cuda {

/// By index in Program::inputs; 0: in the staging block. All are, if it is empty.
using InputAddresses = std::vector<DeviceAddress>;

/// Of a plan: which addresses are worth making a graph, which takes the host as long as hundreds of
/// copies do.
class RecurringAddresses {
public:
  /// So many sets of addresses are remembered. Batches that take turns with no more of them find
  /// their graphs: each of them is needed for both sides of the staging blocks.
  static constexpr size_t window = 8, mostGraphs = 2 * window;

  /// Whether a graph is to be made for these addresses, of which there is none: they were used
  /// lately, and so were graphs made before, as far as they are more than the first few.
  bool isWorthAGraph(const InputAddresses &addresses) {
    if (std::find(recent.begin(), recent.end(), addresses) == recent.end()) {
      recent[next++ % window] = addresses;
      return false;
    }
    if (credit < 1)
      return false;
    credit -= 1;
    return true;
  }
  /// A graph has been used again.
  void used() { credit = std::min(credit + 1.0 / usesOfAGraph, double(mostGraphs)); }

private:
  static constexpr int usesOfAGraph = 64;
  std::array<InputAddresses, window> recent;
  size_t next = 0;
  double credit = double(mostGraphs);
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_DIRECT_INPUTS_H
