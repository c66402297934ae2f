/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * The interface between libtrainrt and its plugin libtrainrt-gloo.so, which carries bytes between
 * processes with Gloo. It is a library of its own, loaded where ranks are processes, so that the
 * runtime depends on nothing that one process does not need.
 */
#ifndef TRAINRT_COMM_GLOO_PLUGIN_H
#define TRAINRT_COMM_GLOO_PLUGIN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Changes with every change of this file; both sides compare it. */
#define TRAINRT_GLOO_PLUGIN_ABI 1
/* The plugin's only symbol, a TrainrtGlooEntry. */
#define TRAINRT_GLOO_PLUGIN_ENTRY "trainrt_gloo_plugin"

typedef struct TrainrtGlooGroup TrainrtGlooGroup;

/* Receives bytes: the message of an error, or a value. */
typedef struct TrainrtGlooSink {
  void (*write)(void *to, const void *bytes, size_t size);
  void *to;
} TrainrtGlooSink;

/* Where ranks leave each other their addresses. Both return 0, or something else where the run has
 * ended; `get` waits until some rank has set the key. */
typedef struct TrainrtGlooStore {
  void *user;
  int (*set)(void *user, const char *key, const void *bytes, size_t size);
  int (*get)(void *user, const char *key, TrainrtGlooSink value);
} TrainrtGlooStore;

/* Functions return 0, or write a message to `error` and return something else. */
typedef struct TrainrtGlooPlugin {
  uint64_t abi;
  /* Connects this rank with all others; `address`: by which they reach it. */
  int (*open)(int rank, int world, const char *address, const TrainrtGlooStore *store,
              int64_t limit_milliseconds, TrainrtGlooGroup **group, TrainrtGlooSink error);
  /* Communicator::exchange. */
  int (*exchange)(TrainrtGlooGroup *group, const void *const *sent, const int64_t *sent_bytes,
                  void *const *received, const int64_t *received_bytes, TrainrtGlooSink error);
  /* Any thread: what waits, and all further calls, fail. */
  void (*abort)(TrainrtGlooGroup *group);
  void (*close)(TrainrtGlooGroup *group);
} TrainrtGlooPlugin;

typedef const TrainrtGlooPlugin *(*TrainrtGlooEntry)(void);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_COMM_GLOO_PLUGIN_H */
