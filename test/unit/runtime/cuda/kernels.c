/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* The tiny package's kernels for the fake GPU: the arguments in the order of docs/design/cuda.md
 * around the CPU's. */
#define forward cpu_forward
#define loss_and_gradient cpu_loss_and_gradient
#define loss_only cpu_loss_only
#define update cpu_update
#include "../kernels.c"
#undef forward
#undef loss_and_gradient
#undef loss_only
#undef update

#include <string.h>

/* As trainc marks kernels that wait for those in front of them. */
const char trainc_waits_forward = 0, trainc_waits_loss_and_gradient = 0, trainc_waits_update = 0;

#define KERNEL_AS(kernel, name, numArgs, numDims)                                                  \
  const int kernel##_parameters = (numArgs) + (numDims) + 1;                                       \
  void kernel(const uint64_t *parameters, unsigned blocks, unsigned threads) {                     \
    char scratch[64];                                                                              \
    void *args[numArgs];                                                                           \
    int64_t dims[(numDims) + 1];                                                                   \
    context ctx = {scratch, (int64_t *)parameters[(numArgs) + (numDims)]};                         \
    memcpy(args, parameters, sizeof args);                                                         \
    memcpy(dims, parameters + (numArgs), 8 * (numDims));                                           \
    cpu_##name(args, dims, 0, (int64_t)blocks * threads, &ctx);                                    \
  }
#define KERNEL(name, numArgs, numDims) KERNEL_AS(name, name, numArgs, numDims)

KERNEL(forward, 5, 2)
KERNEL(loss_and_gradient, 6, 1)
KERNEL(loss_only, 3, 1)
KERNEL(update, 5, 0)
/* Variants, which the fake driver takes to be quicker. */
KERNEL_AS(forward_fast, forward, 5, 2)
KERNEL_AS(update_fast, update, 5, 0)

/* args: x, gpred, gradient; dims: batch. gradient += x^T gpred. */
static void cpu_gradient(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                         const context *ctx) {
  const float *x = args[0], *g = args[1];
  float *gradient = args[2];
  (void)begin, (void)end, (void)ctx;
  /* As of a matmul, the sum of a micro-batch is rounded before it is added. */
  for (int j = 0; j < 3; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < dims[0]; ++i)
      sum += x[i * 3 + j] * g[i];
    gradient[j] += sum;
  }
}
KERNEL(gradient, 3, 1)
