/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Kernels of the tests' tiny package, with the ABI of docs/design/package.md: a linear model with a
 * bias looked up in a table, squared error, momentum. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* Leaves a file where a test asks for one: loading a package's code runs it. */
__attribute__((constructor)) static void leaveTrace(void) {
  const char *path = getenv("TRAINRT_TEST_TRACE");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (file)
    fclose(file);
}

typedef struct {
  void *scratch;
  int64_t *error;
} context;

/* args: x [batch, 3], w [3], table [rows], id [batch], pred [batch]; dims: rows, node. Items: rows
 * of the batch. */
void forward(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
             const context *ctx) {
  const float *x = args[0], *w = args[1], *table = args[2];
  const int64_t *id = args[3];
  float *pred = args[4];
  float *products = ctx->scratch; /* shows that every thread has its own scratch */
  for (int64_t i = begin; i < end; ++i) {
    int64_t row = id[i];
    if (row == -100) {
      row = 0;
    } else if (row < 0 || row >= dims[0]) {
      if (!ctx->error[0]) {
        ctx->error[0] = 1;
        ctx->error[1] = i;
        ctx->error[2] = row;
      }
      row = 0;
    }
    for (int j = 0; j < 3; ++j)
      products[j] = x[i * 3 + j] * w[j];
    pred[i] = products[0] + products[1] + products[2] + table[row];
  }
}

/* args: pred, y, gpred, loss, nonfinite, grad_scale; dims: batch. One item. */
void loss_and_gradient(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                       const context *ctx) {
  const float *pred = args[0], *y = args[1], *scale = args[5];
  float *gpred = args[2], *loss = args[3];
  int32_t *nonfinite = args[4];
  (void)begin, (void)end, (void)ctx;
  double sum = 0;
  for (int64_t i = 0; i < dims[0]; ++i) {
    float d = pred[i] - y[i];
    sum += (double)d * d;
    gpred[i] = 2 * d / (float)dims[0] * *scale;
  }
  *loss = (float)(sum / (double)dims[0]);
  if (!isfinite(*loss))
    *nonfinite = 1;
}

/* args: pred, y, loss; dims: batch. One item. */
void loss_only(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
               const context *ctx) {
  const float *pred = args[0], *y = args[1];
  float *loss = args[2];
  (void)begin, (void)end, (void)ctx;
  double sum = 0;
  for (int64_t i = 0; i < dims[0]; ++i) {
    float d = pred[i] - y[i];
    sum += (double)d * d;
  }
  *loss = (float)(sum / (double)dims[0]);
}

/* args: w, exp_avg, gradient, nonfinite, lr. Items: elements. */
void update(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
            const context *ctx) {
  float *w = args[0], *m = args[1];
  const float *g = args[2], *lr = args[4];
  const int32_t *nonfinite = args[3];
  (void)dims;
  if (*nonfinite)
    return;
  for (int64_t i = begin; i < end; ++i) {
    float average = 0.5f * m[i] + g[i], updated = w[i] - *lr * average;
    if (isfinite(average) && isfinite(updated)) {
      m[i] = average;
      w[i] = updated;
    } else {
      ctx->error[3] = 1;
    }
  }
}
