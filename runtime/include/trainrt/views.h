/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A session's values where they lie, for other libraries of the process, and turns with their
 * streams. Included by trainrt.h. */
#ifndef TRAINRT_VIEWS_H
#define TRAINRT_VIEWS_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since 1.3: kinds of values of a session. */
typedef enum trainrt_value {
  TRAINRT_VALUE_PARAMETER = 0,
  TRAINRT_VALUE_STATE = 1,
  TRAINRT_VALUE_GRADIENT = 2, /* under the parameter's name */
  TRAINRT_VALUE_OUTPUT = 3,
  TRAINRT_VALUE_INT_ = 0x7fffffff
} trainrt_value;

/* No stream, where NULL is the default one. */
#define TRAINRT_NO_STREAM ((void *)(intptr_t)-1)

/* Since 1.3: a value where it lies, in host memory or the session's GPU's, as DLPack; what the
 * functions of trainrt.h say of names, types, shapes and NOT_FOUND holds, and a quantized parameter
 * is its codes, here as there (decoded: trainrt_session_merged_parameter).
 *
 * The tensor owns a share of the memory, which stays until `(*managed)->deleter` is called (by any
 * thread), also after `trainrt_session_free` and where a later batch needs a larger block of
 * outputs; the session's allocator must work until then. A share keeps the whole block: all
 * parameters, all state, all gradients, or all outputs of a run.
 *
 * The values are those of now until the session changes them: parameters and state by a step, a
 * checkpoint that is loaded, or a value that is set; gradients by `trainrt_gradients` and by steps
 * of several micro-batches; outputs by the next step, evaluation, or tuning. Values that must stay
 * are to be copied. The caller may write to parameters and state between calls, as
 * `trainrt_session_set_parameter` would; a package that keeps weights in 16 bits between steps
 * (`trainc --keep-rounded-weights`) then rounds all of them anew in front of each step, once a
 * parameter has been exported. A frozen parameter that is mapped from a file, read-only,
 * is a copy (and so is none of this).
 *
 * GPU: `stream` is the consumer's, of that GPU: its work from now on sees the values, as after
 * `trainrt_session_signal_stream`; TRAINRT_NO_STREAM: the caller sees to that. Nothing is waited
 * for, not even a step of TRAINRT_STEP_LAG: its error is told where its result is. */
TRAINRT_API trainrt_status trainrt_session_export(trainrt_session *session, trainrt_value which,
                                                  const char *name, void *stream,
                                                  struct DLManagedTensor **managed,
                                                  trainrt_error **error);

/* Since 1.3, GPU: the CUstream that the session's work is on; NULL on the CPU. */
TRAINRT_API void *trainrt_session_stream(const trainrt_session *session);
/* Since 1.3, GPU: puts the session's stream in order with another one of its GPU, without a wait of
 * the host. A CUstream (or cudaStream_t); NULL and 1 are the legacy default stream, 2 the calling
 * thread's. Nothing to do on the CPU, and for the session's own stream.
 *
 * wait: what the session does from now on sees what is on `stream` by now (inputs, values to be
 * set, writes to exported values; views of values by the host end).
 *
 * signal: what is enqueued on `stream` from now on sees what the session has done, and comes after
 * what it has read. */
TRAINRT_API trainrt_status trainrt_session_wait_stream(trainrt_session *session, void *stream,
                                                       trainrt_error **error);
TRAINRT_API trainrt_status trainrt_session_signal_stream(trainrt_session *session, void *stream,
                                                         trainrt_error **error);

/* Since 1.5, GPU: how many inputs that lay in its memory were copied there so far, in place of
 * being read where they are; `*reason` (which may be NULL) becomes why the last one was: static
 * text, "" without any. 0 on the CPU, and for NULL.
 *
 * Steps read an input where it is if its address is a multiple of 256 and one of the last few
 * batches of the same shapes had it, too: a loop whose batches take turns with up to eight sets of
 * addresses, as those of allocators that keep freed memory do, copies the first of each only. What
 * is copied always: the session's own memory (an exported value as an input), the inputs of a step
 * behind one with TRAINRT_STEP_LAG and TRAINRT_STEP_ALLOW_NONFINITE, and those of sessions that run
 * commands one by one (`synchronous`, `command_done`, `check_numerics`). */
TRAINRT_API uint64_t trainrt_session_input_copies(const trainrt_session *session,
                                                  const char **reason);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_VIEWS_H */
