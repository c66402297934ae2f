// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a matmul with arbitrary strides becomes calls of a BLAS: matrices with one unit
// stride, transposes, leading dimensions, one strided batch axis, and loops over what is left. Pure
// arithmetic on shapes.
#ifndef TRAINRT_DEVICE_CUDA_BLAS_LAYOUT_H
#define TRAINRT_DEVICE_CUDA_BLAS_LAYOUT_H

#include "device/cuda/libraries.h"

namespace trainrt::cuda {

/// A batch axis: its extent, and the elements from one matrix to the next.
struct BatchAxis {
  int64_t extent = 1, a = 0, b = 0, c = 0;
};

/// D[rows, columns] = op(X) * op(Y), all of them column-major, `batch.extent` times. X is the
/// call's A and Y its B, or the other way round if `swapped` (then D is the call's C transposed,
/// which is how a row-major C looks to a column-major BLAS).
struct GemmLayout {
  bool swapped = false;
  int64_t rows = 0, columns = 0, k = 0;
  bool transposeX = false, transposeY = false;
  int64_t ldX = 1, ldY = 1, ldD = 1;
  BatchAxis batch;
  /// One call for each combination.
  std::vector<BatchAxis> loops;
};

/// Batch axes are joined where the strides allow it, and folded into m or n where the other operand
/// is the same for all of them, so that most matmuls are one call. Which axis goes where depends
/// on extents and strides only. With an epilogue D's rows are C's axis n, along which a bias lies.
/// Unsupported if an operand has no unit stride on its matrix axes, or elements of C overlap. m, n
/// and batch extents are positive.
Status layoutGemm(const GemmCall &call, GemmLayout &layout);

} // namespace trainrt::cuda

#endif // TRAINRT_DEVICE_CUDA_BLAS_LAYOUT_H
