// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the sums over ranks: blocks have a range for each of the grid's rows. And one block
// that looks at the error slots of a run.

#include "device/cuda/kernels/rank_sums.h"

#define TRAINRT_RANK_SUMS(name, type)                                                              \
  extern "C" __attribute__((global)) void name(const trainrt::cuda::RankSumsArguments args) {      \
    const int64_t threads = __nvvm_read_ptx_sreg_ntid_x();                                         \
    const auto &range = args.ranges[__nvvm_read_ptx_sreg_ctaid_y()];                               \
    trainrt::cuda::device::addRanks(                                                               \
        reinterpret_cast<const type *>(args.pieces), args.stride, args.world, args.rank,           \
        reinterpret_cast<const type *>(range.own), reinterpret_cast<type *>(range.sums),           \
        range.begin, range.elements,                                                               \
        __nvvm_read_ptx_sreg_ctaid_x() * threads + __nvvm_read_ptx_sreg_tid_x(),                   \
        __nvvm_read_ptx_sreg_nctaid_x() * threads);                                                \
  }
TRAINRT_RANK_SUMS(trainrt_rank_sums_f32, float)
TRAINRT_RANK_SUMS(trainrt_rank_sums_f64, double)

#define TRAINRT_NARROW_SUMS(name, type)                                                            \
  extern "C" __attribute__((global)) void trainrt_rank_sums_##name(                                \
      const trainrt::cuda::RankSumsArguments args) {                                               \
    const int64_t threads = __nvvm_read_ptx_sreg_ntid_x();                                         \
    trainrt::cuda::device::addNarrowRanks<trainrt::type>(                                          \
        args, args.ranges[__nvvm_read_ptx_sreg_ctaid_y()],                                         \
        __nvvm_read_ptx_sreg_ctaid_x() * threads + __nvvm_read_ptx_sreg_tid_x(),                   \
        __nvvm_read_ptx_sreg_nctaid_x() * threads);                                                \
  }                                                                                                \
  extern "C" __attribute__((global)) void trainrt_widen_##name(                                    \
      const trainrt::cuda::RankSumsArguments args) {                                               \
    const int64_t threads = __nvvm_read_ptx_sreg_ntid_x();                                         \
    trainrt::cuda::device::widenRange<trainrt::type>(args.ranges[__nvvm_read_ptx_sreg_ctaid_y()],  \
                                                     __nvvm_read_ptx_sreg_ctaid_x() * threads +    \
                                                         __nvvm_read_ptx_sreg_tid_x(),             \
                                                     __nvvm_read_ptx_sreg_nctaid_x() * threads);   \
  }
TRAINRT_NARROW_SUMS(bf16, BFloat16)
TRAINRT_NARROW_SUMS(f16, Float16)

extern "C" __attribute__((global)) void
trainrt_verdict(const trainrt::cuda::VerdictArguments args) {
  trainrt::cuda::device::judge(reinterpret_cast<const int64_t *>(args.slots), args.count,
                               reinterpret_cast<float *>(args.verdict),
                               __nvvm_read_ptx_sreg_tid_x(), __nvvm_read_ptx_sreg_ntid_x());
}
