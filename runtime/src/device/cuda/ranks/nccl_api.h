// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of NCCL's C interface that is used here, declared so that building needs no CUDA. The
// values are those of nccl.h, from 2.18 on, where they have not changed since.
#ifndef TRAINRT_DEVICE_CUDA_RANKS_NCCL_API_H
#define TRAINRT_DEVICE_CUDA_RANKS_NCCL_API_H

#include <climits>
#include <cstddef>

namespace trainrt::cuda::nccl {

using Result = int;
enum : Result { success = 0, remoteError = 6 };
enum DataType : int { Int8 = 0, Float32 = 7, Float64 = 8 };
enum ReduceOp : int { Sum = 0 };

using Comm = struct ncclComm *;
struct UniqueId {
  char bytes[128];
};

/// As of 2.18: newer libraries have more members, and take as many as `size` says. INT_MIN: as the
/// library likes it.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = INT_MIN, cgaClusterSize = INT_MIN, minCTAs = INT_MIN, maxCTAs = INT_MIN;
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

/// Every function as a pointer under its name without "nccl". (X: result, name, parameters.)
#define TRAINRT_NCCL_FUNCTIONS(X)                                                                  \
  X(Result, GetVersion, (int *version))                                                            \
  X(const char *, GetErrorString, (Result result))                                                 \
  X(const char *, GetLastError, (Comm comm))                                                       \
  X(Result, GetUniqueId, (UniqueId * id))                                                          \
  X(Result, CommInitRankConfig, (Comm * comm, int ranks, UniqueId id, int rank, Config *config))   \
  X(Result, CommFinalize, (Comm comm))                                                             \
  X(Result, CommDestroy, (Comm comm))                                                              \
  X(Result, CommAbort, (Comm comm))                                                                \
  X(Result, CommGetAsyncError, (Comm comm, Result * state))                                        \
  X(Result, GroupStart, ())                                                                        \
  X(Result, GroupEnd, ())                                                                          \
  X(Result, Send,                                                                                  \
    (const void *from, size_t count, DataType type, int peer, Comm comm, void *stream))            \
  X(Result, Recv, (void *to, size_t count, DataType type, int peer, Comm comm, void *stream))      \
  X(Result, AllReduce,                                                                             \
    (const void *from, void *to, size_t count, DataType type, ReduceOp op, Comm comm,              \
     void *stream))                                                                                \
  X(Result, ReduceScatter,                                                                         \
    (const void *from, void *to, size_t countOfEach, DataType type, ReduceOp op, Comm comm,        \
     void *stream))

struct Api {
#define TRAINRT_NCCL_DECLARE(result, name, parameters) result(*name) parameters = nullptr;
  TRAINRT_NCCL_FUNCTIONS(TRAINRT_NCCL_DECLARE)
#undef TRAINRT_NCCL_DECLARE
};

} // namespace trainrt::cuda::nccl

#endif // TRAINRT_DEVICE_CUDA_RANKS_NCCL_API_H
