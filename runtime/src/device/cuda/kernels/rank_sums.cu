// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of the sums over ranks; parameters are all of eight bytes.

#include "device/cuda/kernels/rank_sums.h"

#define TRAINRT_RANK_SUMS(name, type)                                                              \
  extern "C" __attribute__((global)) void name(type *pieces, int64_t stride, int64_t count,        \
                                               int64_t world) {                                    \
    const int64_t threads = __nvvm_read_ptx_sreg_ntid_x();                                         \
    trainrt::cuda::device::addRanks(pieces, stride, count, world,                                  \
                                    __nvvm_read_ptx_sreg_ctaid_x() * threads +                     \
                                        __nvvm_read_ptx_sreg_tid_x(),                              \
                                    __nvvm_read_ptx_sreg_nctaid_x() * threads);                    \
  }
TRAINRT_RANK_SUMS(trainrt_rank_sums_f32, float)
TRAINRT_RANK_SUMS(trainrt_rank_sums_f64, double)
