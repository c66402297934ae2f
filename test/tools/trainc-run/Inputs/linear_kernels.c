// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of the hand-made package of make_package.py, in the package's kernel ABI: a linear
// model with a bias per class, loss mean((x w + b[ids] - y)^2), SGD with momentum 0.9.
#include <math.h>
#include <stdint.h>

typedef struct {
  void *scratch;
  int64_t *error;
} context;

enum { features = 3, classes = 5 };

static double predict(const float *x, int64_t id, const float *w, const float *b) {
  double value = b[id];
  for (int j = 0; j < features; ++j)
    value += (double)x[j] * w[j];
  return value;
}

/// x, ids, y, w, b, loss, pred; dims: batch
void linear_eval(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                 const context *ctx) {
  const float *x = args[0], *y = args[2], *w = args[3], *b = args[4];
  const int64_t *ids = args[1];
  float *loss = args[5], *pred = args[6];
  double sum = 0;
  for (int64_t i = 0; i < dims[0]; ++i) {
    double value = predict(x + i * features, ids[i], w, b);
    pred[i] = (float)value;
    sum += (value - y[i]) * (value - y[i]);
  }
  *loss = (float)(sum / (double)dims[0]);
}

/// x, ids, y, w, b, gw, gb, grad_scale, nonfinite, loss; dims: batch. Adds into gw and gb.
void linear_micro(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                  const context *ctx) {
  const float *x = args[0], *y = args[2], *w = args[3], *b = args[4];
  const int64_t *ids = args[1];
  float *gw = args[5], *gb = args[6], *loss = args[9];
  double scale = *(float *)args[7] * 2 / (double)dims[0], sum = 0;
  for (int64_t i = 0; i < dims[0]; ++i) {
    double error = predict(x + i * features, ids[i], w, b) - y[i];
    sum += error * error;
    for (int j = 0; j < features; ++j)
      gw[j] += (float)(scale * error * x[i * features + j]);
    gb[ids[i]] += (float)(scale * error);
  }
  *loss = (float)(sum / (double)dims[0]);
  if (!isfinite(*loss))
    *(int32_t *)args[8] = 1;
}

/// w, b, mw, mb, gw, gb, lr, nonfinite
void linear_update(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                   const context *ctx) {
  float *values[2] = {args[0], args[1]}, *momenta[2] = {args[2], args[3]};
  float *gradients[2] = {args[4], args[5]}, lr = *(float *)args[6];
  const int sizes[2] = {features, classes};
  if (*(int32_t *)args[7])
    return;
  for (int p = 0; p < 2; ++p)
    for (int i = 0; i < sizes[p]; ++i) {
      momenta[p][i] = 0.9f * momenta[p][i] + gradients[p][i];
      values[p][i] -= lr * momenta[p][i];
    }
}

/// x, ids, y, w, b, mw, mb, lr, nonfinite, loss; dims: batch. linear_micro and linear_update in
/// one.
void linear_step(void *const *args, const int64_t *dims, int64_t begin, int64_t end,
                 const context *ctx) {
  float gw[features] = {0}, gb[classes] = {0}, one = 1;
  void *micro[] = {args[0], args[1], args[2], args[3], args[4], gw, gb, &one, args[8], args[9]};
  linear_micro(micro, dims, 0, 1, ctx);
  void *update[] = {args[3], args[4], args[5], args[6], gw, gb, args[7], args[8]};
  linear_update(update, dims, 0, 1, ctx);
}
