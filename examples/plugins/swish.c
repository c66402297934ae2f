/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* y = x * sigmoid(beta * x), beta one for each channel (Ramachandran et al. 2017), and its
 * gradient. */
#include <trainrt/plugin.h>

TRAINRT_PLUGIN

static float sigmoid(float x) { return 1 / (1 + expf(-x)); }

TRAINRT_PLUGIN_EXPORT int swish(const trainrt_external_call *call) {
  const float *x = call->inputs[0].data, *beta = call->inputs[1].data;
  float *y = call->outputs[0].data;
  for (int64_t i = 0; i < call->outputs[0].elements; ++i)
    y[i] = x[i] * sigmoid(beta[i % call->inputs[1].elements] * x[i]);
  return 0;
}

TRAINRT_PLUGIN_EXPORT int swish_grad(const trainrt_external_call *call) {
  const float *x = call->inputs[0].data, *beta = call->inputs[1].data, *dy = call->inputs[2].data;
  float *dx = call->outputs[0].data, *dbeta = call->outputs[1].data;
  const int64_t channels = call->inputs[1].elements;
  for (int64_t c = 0; c < channels; ++c)
    dbeta[c] = 0;
  for (int64_t i = 0; i < call->outputs[0].elements; ++i) {
    const int64_t c = i % channels;
    const float s = sigmoid(beta[c] * x[i]), slope = x[i] * s * (1 - s);
    dx[i] = dy[i] * (s + beta[c] * slope);
    dbeta[c] += dy[i] * x[i] * slope;
  }
  return 0;
}
