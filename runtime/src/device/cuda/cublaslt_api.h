// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The part of cuBLASLt's C interface that is used here, declared so that building needs no CUDA.
// The values are those of cublasLt.h, cublas_api.h and library_types.h of CUDA 12 and 13, which are
// a stable ABI.
#ifndef TRAINRT_DEVICE_CUDA_CUBLASLT_API_H
#define TRAINRT_DEVICE_CUDA_CUBLASLT_API_H

#include <cstddef>
#include <cstdint>

namespace trainrt::cuda::lt {

using Status = int;
inline constexpr Status statusSuccess = 0;
inline constexpr Status statusNotSupported = 15;

using Handle = void *;
using MatmulDesc = void *;
using MatrixLayout = void *;
using Preference = void *;

struct Algo {
  uint64_t data[8];
};
struct HeuristicResult {
  Algo algo;
  size_t workspaceSize;
  Status state;
  float wavesCount;
  int reserved[4];
};

enum DataType { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 };
enum ComputeType { Compute_32F = 68, Compute_64F = 70, Compute_32F_FastTF32 = 77 };
enum Operation : int32_t { Op_N = 0, Op_T = 1 };
enum LayoutAttribute { Layout_BatchCount = 5, Layout_StridedBatchOffset = 6 };
enum DescAttribute {
  Desc_TransA = 3,
  Desc_TransB = 4,
  Desc_Epilogue = 7,
  Desc_BiasPointer = 8,
  Desc_AuxPointer = 11,
  Desc_AuxLd = 12,
  Desc_AuxBatchStride = 13,
};
enum PreferenceAttribute {
  Pref_MaxWorkspaceBytes = 1,
  Pref_ReductionSchemeMask = 3,
  Pref_MinAlignmentA = 5,
  Pref_MinAlignmentB = 6,
  Pref_MinAlignmentC = 7,
  Pref_MinAlignmentD = 8,
};
enum AlgoAttribute { Config_ReductionScheme = 3 };
enum ReductionScheme : uint32_t { Reduction_None = 0, Reduction_ComputeType = 2 };
enum Epilogue : int32_t {
  Epilogue_Default = 1,
  Epilogue_Bias = 4,
  Epilogue_GeluAux = 32 | 128,
  Epilogue_GeluAuxBias = 32 | 128 | 4,
  Epilogue_DGelu = 64 | 128,
  Epilogue_DGeluBGrad = 64 | 128 | 16,
};

/// The functions, by the names that they have in the library without "cublasLt".
struct Api {
  size_t (*GetVersion)();
  const char *(*GetStatusName)(Status);
  Status (*Create)(Handle *);
  Status (*Destroy)(Handle);
  Status (*MatmulDescCreate)(MatmulDesc *, int computeType, int scaleType);
  Status (*MatmulDescDestroy)(MatmulDesc);
  Status (*MatmulDescSetAttribute)(MatmulDesc, int attribute, const void *, size_t);
  Status (*MatrixLayoutCreate)(MatrixLayout *, int type, uint64_t rows, uint64_t columns,
                               int64_t ld);
  Status (*MatrixLayoutDestroy)(MatrixLayout);
  Status (*MatrixLayoutSetAttribute)(MatrixLayout, int attribute, const void *, size_t);
  Status (*MatmulPreferenceCreate)(Preference *);
  Status (*MatmulPreferenceDestroy)(Preference);
  Status (*MatmulPreferenceSetAttribute)(Preference, int attribute, const void *, size_t);
  Status (*MatmulAlgoGetHeuristic)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b,
                                   MatrixLayout c, MatrixLayout d, Preference, int requested,
                                   HeuristicResult *, int *returned);
  Status (*MatmulAlgoCheck)(Handle, MatmulDesc, MatrixLayout a, MatrixLayout b, MatrixLayout c,
                            MatrixLayout d, const Algo *, HeuristicResult *);
  Status (*MatmulAlgoConfigGetAttribute)(const Algo *, int attribute, void *, size_t,
                                         size_t *written);
  Status (*Matmul)(Handle, MatmulDesc, const void *alpha, const void *a, MatrixLayout,
                   const void *b, MatrixLayout, const void *beta, const void *c, MatrixLayout,
                   void *d, MatrixLayout, const Algo *, void *workspace, size_t workspaceBytes,
                   void *stream);
};

} // namespace trainrt::cuda::lt

#endif // TRAINRT_DEVICE_CUDA_CUBLASLT_API_H
