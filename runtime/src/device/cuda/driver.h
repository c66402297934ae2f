// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The functions of the CUDA driver that the runtime uses, with their types, declared here so that
// no CUDA header is needed to build it; the library itself is loaded when a CUDA package first
// runs. Names and values are those of NVIDIA's documentation of the driver API.
#ifndef TRAINRT_DEVICE_CUDA_DRIVER_H
#define TRAINRT_DEVICE_CUDA_DRIVER_H

#include "format/status.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace trainrt::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st *;
using CUmodule = struct CUmod_st *;
using CUfunction = struct CUfunc_st *;
using CUstream = struct CUstream_st *;
using CUevent = struct CUevent_st *;
using CUgraph = struct CUgraph_st *;
using CUgraphExec = struct CUgraphExec_st *;
using CUgraphNode = struct CUgraphNode_st *;
using CUgraphConditionalHandle = unsigned long long;

enum : CUresult {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_NOT_READY = 600,
};

// Attributes, flags and options, by the names of the driver's enumerations.
enum : int {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 0,
  CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8,
  CU_JIT_ERROR_LOG_BUFFER = 5,
  CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6,
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_GRAPH_NODE_TYPE_CONDITIONAL = 13,
  CU_GRAPH_COND_TYPE_IF = 0,
  CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION = 6,
};
enum : unsigned {
  CU_STREAM_NON_BLOCKING = 1,
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_MEMORYTYPE_DEVICE = 2,
  CU_GRAPH_COND_ASSIGN_DEFAULT = 1,
  CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1,
  CU_STREAM_WAIT_VALUE_GEQ = 0, ///< of differences of 32 bits, with their sign
};

/// What another process opens memory by.
struct CUipcMemHandle {
  char reserved[64];
};
struct CUuuid {
  char bytes[16];
};

/// The default stream; null is the same one.
inline const CUstream CU_STREAM_LEGACY = reinterpret_cast<CUstream>(uintptr_t(1));

struct CUDA_CONDITIONAL_NODE_PARAMS {
  CUgraphConditionalHandle handle;
  int type;
  unsigned size;
  CUgraph *phGraph_out;
  CUcontext ctx;
};
struct CUgraphNodeParams {
  int type;
  int reserved0[3];
  union {
    long long reserved1[29];
    CUDA_CONDITIONAL_NODE_PARAMS conditional;
  };
  long long reserved2;
};

/// What a launch is allowed beside its grid: here only one thing.
struct CUlaunchAttribute {
  int id;
  char pad[4];
  union {
    char reserved[64];
    int programmaticStreamSerializationAllowed;
  } value;
};
struct CUlaunchConfig {
  unsigned gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes;
  CUstream hStream;
  CUlaunchAttribute *attrs;
  unsigned numAttrs;
};

/// Every function as a pointer under its documented name. (X: name, exported symbol, parameters.)
#define TRAINRT_CUDA_FUNCTIONS(X)                                                                  \
  X(cuInit, cuInit, (unsigned flags))                                                              \
  X(cuDriverGetVersion, cuDriverGetVersion, (int *version))                                        \
  X(cuGetErrorName, cuGetErrorName, (CUresult error, const char **text))                           \
  X(cuGetErrorString, cuGetErrorString, (CUresult error, const char **text))                       \
  X(cuDeviceGetCount, cuDeviceGetCount, (int *count))                                              \
  X(cuDeviceGet, cuDeviceGet, (CUdevice * device, int ordinal))                                    \
  X(cuDeviceGetName, cuDeviceGetName, (char *name, int length, CUdevice device))                   \
  X(cuDeviceGetAttribute, cuDeviceGetAttribute, (int *value, int attribute, CUdevice device))      \
  X(cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain, (CUcontext * context, CUdevice device))    \
  X(cuDevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2, (CUdevice device))                    \
  X(cuCtxPushCurrent, cuCtxPushCurrent_v2, (CUcontext context))                                    \
  X(cuCtxPopCurrent, cuCtxPopCurrent_v2, (CUcontext * context))                                    \
  X(cuCtxGetDevice, cuCtxGetDevice, (CUdevice * device))                                           \
  X(cuMemGetInfo, cuMemGetInfo_v2, (size_t *free, size_t *total))                                  \
  X(cuMemAlloc, cuMemAlloc_v2, (CUdeviceptr * memory, size_t bytes))                               \
  X(cuMemFree, cuMemFree_v2, (CUdeviceptr memory))                                                 \
  X(cuMemGetAddressRange, cuMemGetAddressRange_v2,                                                 \
    (CUdeviceptr * base, size_t *bytes, CUdeviceptr memory))                                       \
  X(cuMemHostAlloc, cuMemHostAlloc, (void **memory, size_t bytes, unsigned flags))                 \
  X(cuMemFreeHost, cuMemFreeHost, (void *memory))                                                  \
  X(cuMemcpyHtoDAsync, cuMemcpyHtoDAsync_v2,                                                       \
    (CUdeviceptr to, const void *from, size_t bytes, CUstream stream))                             \
  X(cuMemcpyDtoHAsync, cuMemcpyDtoHAsync_v2,                                                       \
    (void *to, CUdeviceptr from, size_t bytes, CUstream stream))                                   \
  X(cuMemcpyDtoDAsync, cuMemcpyDtoDAsync_v2,                                                       \
    (CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream))                             \
  X(cuMemsetD8Async, cuMemsetD8Async,                                                              \
    (CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream))                          \
  X(cuDeviceGetUuid, cuDeviceGetUuid_v2, (CUuuid * uuid, CUdevice device))                         \
  X(cuIpcGetMemHandle, cuIpcGetMemHandle, (CUipcMemHandle * handle, CUdeviceptr memory))           \
  X(cuIpcOpenMemHandle, cuIpcOpenMemHandle_v2,                                                     \
    (CUdeviceptr * memory, CUipcMemHandle handle, unsigned flags))                                 \
  X(cuIpcCloseMemHandle, cuIpcCloseMemHandle, (CUdeviceptr memory))                                \
  X(cuStreamWaitValue32, cuStreamWaitValue32_v2,                                                   \
    (CUstream stream, CUdeviceptr at, unsigned value, unsigned flags))                             \
  X(cuPointerGetAttributes, cuPointerGetAttributes,                                                \
    (unsigned count, int *attributes, void **values, CUdeviceptr where))                           \
  X(cuCtxGetStreamPriorityRange, cuCtxGetStreamPriorityRange, (int *least, int *greatest))         \
  X(cuStreamCreate, cuStreamCreate, (CUstream * stream, unsigned flags))                           \
  X(cuStreamCreateWithPriority, cuStreamCreateWithPriority,                                        \
    (CUstream * stream, unsigned flags, int priority))                                             \
  X(cuStreamDestroy, cuStreamDestroy_v2, (CUstream stream))                                        \
  X(cuStreamSynchronize, cuStreamSynchronize, (CUstream stream))                                   \
  X(cuStreamBeginCapture, cuStreamBeginCapture_v2, (CUstream stream, int mode))                    \
  X(cuStreamEndCapture, cuStreamEndCapture, (CUstream stream, CUgraph * graph))                    \
  X(cuGraphInstantiate, cuGraphInstantiateWithFlags,                                               \
    (CUgraphExec * executable, CUgraph graph, unsigned long long flags))                           \
  X(cuGraphCreate, cuGraphCreate, (CUgraph * graph, unsigned flags))                               \
  X(cuGraphConditionalHandleCreate, cuGraphConditionalHandleCreate,                                \
    (CUgraphConditionalHandle * handle, CUgraph graph, CUcontext context, unsigned initial,        \
     unsigned flags))                                                                              \
  X(cuGraphAddNode, cuGraphAddNode_v2,                                                             \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, const void *edges,        \
     size_t count, CUgraphNodeParams *parameters))                                                 \
  X(cuGraphAddChildGraphNode, cuGraphAddChildGraphNode,                                            \
    (CUgraphNode * node, CUgraph graph, const CUgraphNode *dependencies, size_t count,             \
     CUgraph child))                                                                               \
  X(cuGraphDestroy, cuGraphDestroy, (CUgraph graph))                                               \
  X(cuGraphExecDestroy, cuGraphExecDestroy, (CUgraphExec executable))                              \
  X(cuGraphUpload, cuGraphUpload, (CUgraphExec executable, CUstream stream))                       \
  X(cuGraphLaunch, cuGraphLaunch, (CUgraphExec executable, CUstream stream))                       \
  X(cuEventCreate, cuEventCreate, (CUevent * event, unsigned flags))                               \
  X(cuEventDestroy, cuEventDestroy_v2, (CUevent event))                                            \
  X(cuStreamWaitEvent, cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))        \
  X(cuEventRecord, cuEventRecord, (CUevent event, CUstream stream))                                \
  X(cuEventQuery, cuEventQuery, (CUevent event))                                                   \
  X(cuEventSynchronize, cuEventSynchronize, (CUevent event))                                       \
  X(cuEventElapsedTime, cuEventElapsedTime, (float *milliseconds, CUevent start, CUevent end))     \
  X(cuModuleLoadDataEx, cuModuleLoadDataEx,                                                        \
    (CUmodule * module, const void *image, unsigned count, int *options, void **values))           \
  X(cuModuleUnload, cuModuleUnload, (CUmodule module))                                             \
  X(cuModuleGetFunction, cuModuleGetFunction,                                                      \
    (CUfunction * function, CUmodule module, const char *name))                                    \
  X(cuFuncGetAttribute, cuFuncGetAttribute, (int *value, int attribute, CUfunction function))      \
  X(cuFuncSetAttribute, cuFuncSetAttribute, (CUfunction function, int attribute, int value))       \
  X(cuLaunchKernel, cuLaunchKernel,                                                                \
    (CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ, unsigned blockX,         \
     unsigned blockY, unsigned blockZ, unsigned sharedBytes, CUstream stream, void **parameters,   \
     void **extra))                                                                                \
  X(cuLaunchKernelEx, cuLaunchKernelEx,                                                            \
    (const CUlaunchConfig *config, CUfunction function, void **parameters, void **extra))

struct Driver {
#define TRAINRT_CUDA_DECLARE(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  TRAINRT_CUDA_FUNCTIONS(TRAINRT_CUDA_DECLARE)
#undef TRAINRT_CUDA_DECLARE

  /// Loads and initializes libcuda.so.1, or what TRAINRT_CUDA_DRIVER names, once (a
  /// failure is tried again). DeviceError where there is none, or no device.
  static Status load(const Driver *&driver);

  /// DeviceError (OutOfMemory for that) with the driver's name and words for `result`; `what` says
  /// what could not be done: "cannot copy the batch".
  Status check(CUresult result, const char *what) const {
    return result == CUDA_SUCCESS ? Status() : error(result, what);
  }
  Status error(CUresult result, const std::string &what) const;
  /// "CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was encountered)"
  std::string describe(CUresult result) const;
};

/// Makes a context current while it lives, and leaves the caller's as it was.
class CurrentContext {
public:
  CurrentContext(const Driver &driver, CUcontext context) : driver(driver) {
    pushed = driver.cuCtxPushCurrent(context) == CUDA_SUCCESS;
  }
  ~CurrentContext() {
    CUcontext ignored;
    if (pushed)
      driver.cuCtxPopCurrent(&ignored);
  }
  CurrentContext(const CurrentContext &) = delete;
  CurrentContext &operator=(const CurrentContext &) = delete;

private:
  const Driver &driver;
  bool pushed;
};

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_DRIVER_H
