/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A plug-in of the tests: the gradient of the tiny model's w, x^T g, as a function and as a kernel
 * of the fake GPU; and what fails. */
#include "trainrt/plugin.h"

#include <stdio.h>
#include <string.h>

TRAINRT_PLUGIN

typedef struct {
  const float *x, *g;
  float *result;
  int64_t rows;
  double factor;
} work;

/* Columns [begin, end); as a matmul, each is rounded once. */
static void columns(void *context, int64_t begin, int64_t end) {
  const work *w = context;
  for (int64_t j = begin; j < end; ++j) {
    float sum = 0;
    for (int64_t i = 0; i < w->rows; ++i)
      sum += w->x[i * 3 + j] * w->g[i];
    w->result[j] = sum * (float)w->factor;
  }
}

TRAINRT_PLUGIN_EXPORT int weight_gradient(const trainrt_external_call *call) {
  const trainrt_external_tensor *x = &call->inputs[0], *result = &call->outputs[0];
  /* All that a call says has to be as the package has it. */
  if (call->num_inputs != 2 || call->num_outputs != 1 || call->num_attributes != 3 ||
      call->stream || x->dtype != TRAINRT_F32 || x->rank != 2 || x->shape[1] != 3 ||
      x->elements != 3 * x->shape[0] || strcmp(call->attributes[0].name, "factor") ||
      call->attributes[0].count != 1 || call->attributes[1].count != 2 ||
      call->attributes[1].ints[1] != -4 || strcmp(call->attributes[2].text, "sum"))
    return 1;
  work w = {x->data, call->inputs[1].data, result->data, x->shape[0],
            call->attributes[0].floats[0]};
  call->parallel_for(call, 3, 1, columns, &w);
  return 0;
}

TRAINRT_PLUGIN_EXPORT int refuses(const trainrt_external_call *call) {
  snprintf(call->message, call->message_size, "%s",
           call->stream ? "on a stream" : "no such weights");
  return 7;
}

/* args: x, g, result; rows, 1.0 as a float. */
TRAINRT_PLUGIN_EXPORT const int gradient_kernel_parameters;
const int gradient_kernel_parameters = 5;
TRAINRT_PLUGIN_EXPORT void gradient_kernel(const uint64_t *parameters, unsigned blocks,
                                           unsigned threads) {
  float factor;
  memcpy(&factor, &parameters[4], sizeof factor);
  work w = {(const float *)parameters[0], (const float *)parameters[1], (float *)parameters[2],
            (int64_t)parameters[3], factor};
  columns(&w, 0, blocks == 3 && threads == 32 ? 3 : 0);
}
