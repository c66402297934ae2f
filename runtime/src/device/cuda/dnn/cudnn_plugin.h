/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The interface between libtrainrt and its plugin libtrainrt-cudnn.so. cuDNN's graphs are built
 * with cudnn_frontend, C++ headers that throw and that take longer to compile than the whole
 * runtime: they stay behind this C interface, in a library that is loaded only for packages with
 * fused attention or convolutions.
 */
#ifndef TRAINRT_DEVICE_CUDA_CUDNN_PLUGIN_H
#define TRAINRT_DEVICE_CUDA_CUDNN_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of this file; both sides compare it. */
#define TRAINRT_CUDNN_PLUGIN_ABI 5
/* The plugin's only symbol, a TrainrtCudnnEntry. */
#define TRAINRT_CUDNN_PLUGIN_ENTRY "trainrt_cudnn_plugin"

/* One fused attention. `before` and `after` (-1: all): how many columns before and after its own a
 * row sees, where there are as many as rows; `causal` is besides. The other fields are those of
 * trainrt::cuda::AttentionCall. Only numbers of 8 bytes, no padding: the bytes of a description
 * identify it. Where it is `segmented`, `batch` is the number of segments, the rows are those of
 * the longest one, strides of the batch mean nothing, and the statistics have rows of `statsHeads`
 * heads, of which those of the call are some. */
typedef struct TrainrtCudnnAttention {
  int64_t backward;
  int64_t bf16; /* else f16 */
  int64_t batch, heads, kvHeads, queryRows, keyRows, keyColumns, valueColumns;
  int64_t q[3], k[3], v[3], o[3], dO[3], dQ[3], dK[3], dV[3];
  int64_t bias[4];
  int64_t biasType;     /* 0: none, 1: f32, 2: the operands' type */
  int64_t biasGradient; /* backward: dBias, row major, of the bias's type and size */
  int64_t causal, before, after, segmented, statsHeads;
  double scale, dropout;
} TrainrtCudnnAttention;

typedef struct TrainrtCudnnOperands {
  void *q, *k, *v, *o, *stats, *bias, *seed, *dO, *dQ, *dK, *dV, *dBias;
  /* Of segments: i32[batch], and for each operand i64[batch + 1], where they begin in it, in
   * elements. Those of the stats, [rows, heads], come after that of o. */
  void *lengths, *starts[9];
} TrainrtCudnnOperands;

/* One convolution. Fields are those of trainrt::cuda::ConvolutionCall, with two or three axes; only
 * numbers of 8 bytes, as above, and what it does not use is 0. */
typedef struct TrainrtCudnnConvolution {
  int64_t kind;  /* 0: forward, 1: the gradient for the input, 2: for the filter */
  int64_t dtype; /* 0: f32, 1: bf16, 2: f16 */
  int64_t tf32;
  int64_t batch, channels, filters, groups, axes;
  int64_t positions[3], taps[3], windows[3], strides[3], dilations[3], pads[3];
  int64_t mostWorkspace; /* bytes that it may ask for */
} TrainrtCudnnConvolution;

typedef struct TrainrtCudnnConvolutionOperands {
  void *input, *filter, *output;
} TrainrtCudnnConvolutionOperands;

typedef struct TrainrtCudnnPlan TrainrtCudnnPlan;

/* Receives bytes: a message of an error, or a stored plan. */
typedef struct TrainrtCudnnSink {
  void (*write)(void *to, const void *bytes, size_t size);
  void *to;
} TrainrtCudnnSink;

/* Functions return 0, or write a message to `error` and return something else. `open` comes first;
 * the others may be called by several threads at once, with the device's primary context current.
 */
typedef struct TrainrtCudnnPlugin {
  uint64_t abi;
  /* The versions of cudnn_frontend and of cuDNN's headers, for keys of stored plans. */
  const char *version;
  /* The library as dlopen gave it, and the path of libcudart. */
  int (*open)(void *cudnn, const char *cudart, int64_t *cudnnVersion, TrainrtCudnnSink error);
  /* Builds a plan (0.5 to 1 s). */
  int (*build)(const TrainrtCudnnAttention *attention, TrainrtCudnnPlan **plan,
               TrainrtCudnnSink error);
  /* A plan from what `store` wrote (some milliseconds). */
  int (*restore)(const TrainrtCudnnAttention *attention, const void *stored, size_t size,
                 TrainrtCudnnPlan **plan, TrainrtCudnnSink error);
  int (*store)(const TrainrtCudnnPlan *plan, TrainrtCudnnSink stored, TrainrtCudnnSink error);
  uint64_t (*workspaceBytes)(const TrainrtCudnnPlan *plan);
  /* Only enqueues work on `stream`. */
  int (*enqueue)(const TrainrtCudnnPlan *plan, void *stream, const TrainrtCudnnOperands *operands,
                 void *workspace, TrainrtCudnnSink error);
  void (*destroy)(TrainrtCudnnPlan *plan);
  /* Names of the algorithms of a convolution that give the same bits in every run, a line each, the
   * library's own choice first. */
  int (*convolutionAlgorithms)(const TrainrtCudnnConvolution *convolution, TrainrtCudnnSink names,
                               TrainrtCudnnSink error);
  /* As `build` and `restore`; `algorithm` "": the first that can be built. */
  int (*buildConvolution)(const TrainrtCudnnConvolution *convolution, const char *algorithm,
                          TrainrtCudnnPlan **plan, TrainrtCudnnSink error);
  int (*restoreConvolution)(const void *stored, size_t size, TrainrtCudnnPlan **plan,
                            TrainrtCudnnSink error);
  int (*enqueueConvolution)(const TrainrtCudnnPlan *plan, void *stream,
                            const TrainrtCudnnConvolutionOperands *operands, void *workspace,
                            TrainrtCudnnSink error);
} TrainrtCudnnPlugin;

typedef const TrainrtCudnnPlugin *(*TrainrtCudnnEntry)(void);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_DEVICE_CUDA_CUDNN_PLUGIN_H */
