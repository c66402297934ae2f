// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which algorithm of a matrix product is the quickest, by timing each as a step runs it: captured,
// over all places of the step in turn.
#ifndef TRAINRT_CUDA_GEMM_TUNING_H
#define TRAINRT_CUDA_GEMM_TUNING_H

#include "core/tuning.h"
#include "cuda/commands.h"
#include "cuda/context.h"
#include "cuda/libraries.h"

#include <memory>
#include <string>
#include <vector>

namespace trainrt::cuda {

/// A matrix product, and the places that it is made at in a step. All of them are overwritten.
struct Product {
  std::string key; ///< of its plans: products with one key differ in their factors at most
  GemmCall call;
  std::vector<GemmOperands> uses;
};

/// Most bytes of a buffer that products write and whose values outlast the step.
int64_t lastingBytes(const Commands &commands, const ExecutionPlan &plan);
/// Adds the products of a prepared plan. What they write to such buffers goes to `spare`, which has
/// that many bytes.
void addProducts(const Commands &commands, const ExecutionPlan &plan, DeviceAddress spare,
                 std::vector<Product> &products);

/// How a product did.
struct TunedProduct {
  std::string algorithm;        ///< of the quickest, for Blas::choose
  double before = 0, after = 0; ///< seconds of one
  size_t candidates = 0;
  bool changed = false;
};

class GemmTuner {
public:
  /// `stream` runs the work, `captureStream` only captures it.
  GemmTuner(const Context &context, Blas &blas, CUstream stream, CUstream captureStream,
            Workspace workspace)
      : context(context), driver(context.driver()), blas(blas), stream(stream),
        captureStream(captureStream), workspace(workspace) {}
  Status start();
  /// Seconds of one, with the algorithm that is used so far.
  Status measure(const Product &product, double &seconds);
  /// Compares all algorithms. `seconds`: as `measure` said.
  Status tune(const Product &product, double seconds, TunedProduct &result);

  /// The products, the most expensive ones first, until `limit` seconds have passed.
  Status tune(const std::vector<Product> &products, double limit, TuningResult &result);

private:
  class Candidate;
  Status capture(const Product &product, Candidate &candidate, size_t launches);
  Status time(Candidate &candidate);

  const Context &context;
  const Driver &driver;
  Blas &blas;
  CUstream stream, captureStream;
  Workspace workspace;
  Event begin, end;
};

} // namespace trainrt::cuda

#endif // TRAINRT_CUDA_GEMM_TUNING_H
