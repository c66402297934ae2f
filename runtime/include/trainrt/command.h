/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* What is told of a command that has run. Included by trainrt.h. */
#ifndef TRAINRT_COMMAND_H
#define TRAINRT_COMMAND_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Since 1.1: a command of one of the package's functions, which has run. */
typedef struct trainrt_command {
  size_t size;
  const char *function; /* "step", "micro", "update", "eval", "init"; "ranks": between these */
  size_t index;         /* within the function, as `trainc-translate --dump-package` numbers them */
  const char *name;     /* of the kernel; "gemm bf16 64x768x768" and the like for the others */
  const char *const *nodes; /* of the ONNX graph, that it computes */
  size_t node_count;
  double start_milliseconds, milliseconds; /* since the function began; its own */
  uint64_t bytes, sent_bytes; /* that it must move at least, each once; to other ranks (1.4) */
  double waited_milliseconds; /* of an exchange, what others waited for it (1.5) */
  /* since 1.5: "matmul", "attention", "convolution", "row", "column", "pointwise", "scatter",
     "scan", "optimizer", "copy", "exchange" or "other" */
  const char *class_name;
  uint64_t flops; /* floating-point operations of matmuls, attention and convolutions */
  /* of matmuls and attention the type, "bf16", and numbers that say what is computed: "m", "n",
     "k", ...; of others "" and none */
  const char *type;
  const char *const *shape_names;
  const int64_t *shape;
  size_t shape_count;
} trainrt_command;

/* `command` is valid during the call only. */
typedef void (*trainrt_command_done)(void *user, const trainrt_command *command);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_COMMAND_H */
