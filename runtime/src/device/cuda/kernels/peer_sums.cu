// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of sums and copies in other GPUs' memory. They wait for nothing: waits are the
// stream's, which can be ended.

#include "device/cuda/kernels/peer_sums.h"

namespace {

#define TRAINRT_DEVICE __attribute__((device, always_inline)) inline
TRAINRT_DEVICE uint32_t acquire(uint64_t flag) {
  uint32_t value;
  asm volatile("ld.acquire.sys.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
  return value;
}
TRAINRT_DEVICE void release(uint64_t flag, uint32_t value) {
  asm volatile("st.release.sys.u32 [%0], %1;" ::"l"(flag), "r"(value) : "memory");
}
TRAINRT_DEVICE uint32_t countUp(uint64_t counter) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  return before;
}
TRAINRT_DEVICE void fence() { asm volatile("fence.acq_rel.sys;" ::: "memory"); }
TRAINRT_DEVICE void barrier() { asm volatile("bar.sync 0;" ::: "memory"); }

template <typename Type> TRAINRT_DEVICE void run(const trainrt::cuda::PeerSumsArguments &args) {
  const uint32_t thread = __nvvm_read_ptx_sreg_tid_x(), threads = __nvvm_read_ptx_sreg_ntid_x();
  // The stream has seen the flags; what was written before them is seen by whoever reads them here.
  for (uint32_t i = thread; i < uint32_t(args.numFlags); i += threads)
    acquire(args.flags + 4 * i);
  barrier();
  if (acquire(args.ended))
    return;
  trainrt::cuda::device::combineRanges<Type>(args, __nvvm_read_ptx_sreg_ctaid_x(), thread, threads);
  fence();
  barrier();
  if (thread || countUp(args.done) + 1 != uint32_t(args.blocks))
    return;
  // The last block: what all of them wrote is told.
  release(args.done, 0);
  fence();
  for (int32_t i = 0; i < args.numSignals; ++i)
    release(args.signals[i], uint32_t(args.turn));
}

} // namespace

// One block of 1024 threads has a multiprocessor's registers: for more blocks, or fewer threads
// without the 1, ptxas would save registers and wait for the first numbers before it asks for the
// next.
#define TRAINRT_PEER_KERNEL(name, type)                                                            \
  extern "C" __attribute__((global, launch_bounds(1024, 1))) void name(                            \
      const trainrt::cuda::PeerSumsArguments args) {                                               \
    run<trainrt::cuda::device::type>(args);                                                        \
  }
TRAINRT_PEER_KERNEL(trainrt_peer_sums_f32, PeerF32)
TRAINRT_PEER_KERNEL(trainrt_peer_sums_f64, PeerF64)
TRAINRT_PEER_KERNEL(trainrt_peer_sums_bf16, PeerBF16)
TRAINRT_PEER_KERNEL(trainrt_peer_sums_f16, PeerF16)
TRAINRT_PEER_KERNEL(trainrt_peer_copy, PeerBytes)
