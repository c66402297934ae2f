/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * Plug-ins: functions in C that a compiled model calls (docs/plugins.md). A plug-in is a shared
 * object, which links nothing of libtrainrt. One of its files says TRAINRT_PLUGIN once; each
 * function that its JSON names is
 *
 *   TRAINRT_PLUGIN_EXPORT int scale_rows(const trainrt_external_call *call) { ...; return 0; }
 *
 * It computes the outputs from the inputs, all of them row major and none over another, and gives
 * the same bits whenever it is given the same. It keeps no pointer, and may be called from several
 * threads at once, for different sessions. Anything but 0 ends the run with an error that names the
 * function and the node; so does a crash where the program is trainc-run.
 */
#ifndef TRAINRT_PLUGIN_H
#define TRAINRT_PLUGIN_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#define TRAINRT_PLUGIN_EXPORT extern "C" __attribute__((visibility("default")))
#else
#define TRAINRT_PLUGIN_EXPORT __attribute__((visibility("default")))
#endif

/* The version of this header's structs. */
#define TRAINRT_PLUGIN_ABI 1
/* Says of a shared object which version it was compiled for. */
#define TRAINRT_PLUGIN                                                                             \
  TRAINRT_PLUGIN_EXPORT const uint32_t trainrt_plugin_abi;                                         \
  const uint32_t trainrt_plugin_abi = TRAINRT_PLUGIN_ABI;

typedef struct trainrt_external_tensor {
  void *data; /* of a GPU's memory where the call has a stream; of inputs only to be read */
  trainrt_dtype dtype;
  int32_t rank;
  const int64_t *shape; /* `rank` extents */
  int64_t elements;     /* their product, which may be 0 */
} trainrt_external_tensor;

/* An attribute of the node, of the type that the JSON declares; they come in the order of their
 * names. */
typedef struct trainrt_external_attribute {
  const char *name;
  int64_t count;        /* of numbers; 1 for a single one */
  const int64_t *ints;  /* NULL: no integers */
  const double *floats; /* NULL: no floats */
  const char *text;     /* NULL: no string */
} trainrt_external_attribute;

typedef struct trainrt_external_call trainrt_external_call;
struct trainrt_external_call {
  uint32_t num_inputs, num_outputs, num_attributes, threads;
  const trainrt_external_tensor *inputs, *outputs;
  const trainrt_external_attribute *attributes;
  /* Where the function is one for a GPU: the CUstream that it enqueues all its work on, without
   * waiting for it and without allocating; the stream may be under capture. Else NULL. */
  void *stream;
  /* Room for a message that goes with an error, zero terminated. */
  char *message;
  size_t message_size;
  /* Without a stream: calls `body` for disjoint ranges [begin, end) that cover [0, count), each of
   * at least `grain` items but the last one, on the runtime's threads, and returns behind all. */
  void (*parallel_for)(const trainrt_external_call *call, int64_t count, int64_t grain,
                       void (*body)(void *context, int64_t begin, int64_t end), void *context);
  void *runtime; /* the runtime's own */
};

/* For programs that embed the runtime, since 1.6: which function of which plug-in the calling
 * thread is in, with the node; NULL: in none. May be called in a signal handler. */
TRAINRT_API const char *trainrt_running_plugin(void);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_PLUGIN_H */
