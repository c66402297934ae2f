// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A cuBLASLt for the fake driver: f32, column major, no epilogues. It proposes five algorithms, of
// which the third is the quickest that may be used; the fourth adds into its result in no fixed
// order, and the fifth does not run. FAKE_CUBLASLT_VERSION is its version, FAKE_CUBLASLT_LOG a file
// that gets a line with the algorithm of every call.

#include "device/cuda/cublaslt_api.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>

using namespace trainrt::cuda::lt;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Matrix {
  uint64_t rows, columns;
  int64_t ld;
};
struct Op {
  int32_t transposeA = Op_N, transposeB = Op_N;
};

constexpr double milliseconds[] = {3, 5, 1, 0.1, 0.1};
constexpr int unordered = 3, refused = 4;

using Enqueue = void (*)(void *stream, double milliseconds, const std::function<void()> *work);
Enqueue enqueue() {
  static const Enqueue found = reinterpret_cast<Enqueue>(
      dlsym(dlopen(std::getenv("TRAINRT_CUDA_DRIVER"), RTLD_NOW), "fakeCudaEnqueue"));
  return found;
}

} // namespace

EXPORT size_t cublasLtGetVersion() {
  const char *version = std::getenv("FAKE_CUBLASLT_VERSION");
  return version ? size_t(std::atol(version)) : 130100;
}
EXPORT const char *cublasLtGetStatusName(Status) { return "CUBLAS_STATUS_FAKE"; }
EXPORT Status cublasLtCreate(Handle *handle) {
  *handle = new int;
  return statusSuccess;
}
EXPORT Status cublasLtDestroy(Handle handle) {
  delete static_cast<int *>(handle);
  return statusSuccess;
}
EXPORT Status cublasLtMatmulDescCreate(MatmulDesc *desc, int, int) {
  *desc = new Op;
  return statusSuccess;
}
EXPORT Status cublasLtMatmulDescDestroy(MatmulDesc desc) {
  delete static_cast<Op *>(desc);
  return statusSuccess;
}
EXPORT Status cublasLtMatmulDescSetAttribute(MatmulDesc desc, int attribute, const void *value,
                                             size_t) {
  Op &op = *static_cast<Op *>(desc);
  if (attribute == Desc_TransA || attribute == Desc_TransB)
    std::memcpy(attribute == Desc_TransA ? &op.transposeA : &op.transposeB, value, 4);
  return statusSuccess;
}
EXPORT Status cublasLtMatrixLayoutCreate(MatrixLayout *layout, int, uint64_t rows, uint64_t columns,
                                         int64_t ld) {
  *layout = new Matrix{rows, columns, ld};
  return statusSuccess;
}
EXPORT Status cublasLtMatrixLayoutDestroy(MatrixLayout layout) {
  delete static_cast<Matrix *>(layout);
  return statusSuccess;
}
EXPORT Status cublasLtMatrixLayoutSetAttribute(MatrixLayout, int, const void *, size_t) {
  return statusSuccess;
}
EXPORT Status cublasLtMatmulPreferenceCreate(Preference *preference) {
  *preference = new int;
  return statusSuccess;
}
EXPORT Status cublasLtMatmulPreferenceDestroy(Preference preference) {
  delete static_cast<int *>(preference);
  return statusSuccess;
}
EXPORT Status cublasLtMatmulPreferenceSetAttribute(Preference, int, const void *, size_t) {
  return statusSuccess;
}
EXPORT Status cublasLtMatmulAlgoGetHeuristic(Handle, MatmulDesc, MatrixLayout, MatrixLayout,
                                             MatrixLayout, MatrixLayout, Preference, int requested,
                                             HeuristicResult *results, int *returned) {
  for (*returned = 0; *returned < 5 && *returned < requested; ++*returned) {
    results[*returned] = {};
    results[*returned].algo.data[0] = uint64_t(*returned);
  }
  return statusSuccess;
}
EXPORT Status cublasLtMatmulAlgoCheck(Handle, MatmulDesc, MatrixLayout, MatrixLayout, MatrixLayout,
                                      MatrixLayout, const Algo *algo, HeuristicResult *result) {
  *result = {};
  result->algo = *algo;
  return algo->data[0] < 5 ? statusSuccess : statusNotSupported;
}
EXPORT Status cublasLtMatmulAlgoConfigGetAttribute(const Algo *algo, int, void *value, size_t,
                                                   size_t *written) {
  const uint32_t inPlace = 1;
  *static_cast<uint32_t *>(value) = algo->data[0] == unordered ? inPlace : uint32_t(Reduction_None);
  *written = 4;
  return statusSuccess;
}
EXPORT Status cublasLtMatmul(Handle, MatmulDesc desc, const void *alpha, const void *a,
                             MatrixLayout layoutA, const void *b, MatrixLayout layoutB,
                             const void *beta, const void *c, MatrixLayout, void *d,
                             MatrixLayout layoutD, const Algo *algo, void *, size_t, void *stream) {
  const Op op = *static_cast<Op *>(desc);
  const Matrix x = *static_cast<Matrix *>(layoutA), y = *static_cast<Matrix *>(layoutB),
               to = *static_cast<Matrix *>(layoutD);
  const float scale = *static_cast<const float *>(alpha), add = *static_cast<const float *>(beta);
  const uint64_t which = algo->data[0], k = op.transposeA == Op_T ? x.rows : x.columns;
  if (which == refused)
    return statusNotSupported;
  if (const char *path = std::getenv("FAKE_CUBLASLT_LOG"))
    if (std::FILE *log = std::fopen(path, "a")) {
      std::fprintf(log, "%d\n", int(which));
      std::fclose(log);
    }
  const std::function<void()> work = [=] {
    auto at = [](const void *data, const Matrix &m, bool transposed, uint64_t i, uint64_t j) {
      return static_cast<const float *>(
          data)[transposed ? j + i * uint64_t(m.ld) : i + j * uint64_t(m.ld)];
    };
    for (uint64_t j = 0; j < to.columns; ++j)
      for (uint64_t i = 0; i < to.rows; ++i) {
        float sum = 0;
        for (uint64_t l = 0; l < k; ++l)
          sum += at(a, x, op.transposeA == Op_T, i, l) * at(b, y, op.transposeB == Op_T, l, j);
        float *result = static_cast<float *>(d) + i + j * uint64_t(to.ld);
        const float before =
            add != 0 ? static_cast<const float *>(c)[i + j * uint64_t(to.ld)] : 0.0f;
        *result = scale * sum + add * before;
      }
  };
  enqueue()(stream, milliseconds[which], &work);
  return statusSuccess;
}
