/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * How fast a session's device is, measured now, and which algorithms are the quickest on it. As in
 * trainrt.h, whose rules hold here, too.
 */
#ifndef TRAINRT_SPEED_H
#define TRAINRT_SPEED_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since 1.1: how fast the session's device copies within its own memory, measured now: bytes read
 * and written in a second, beyond the caches. What kernels can be held against. */
TRAINRT_API trainrt_status trainrt_session_copy_speed(trainrt_session *session,
                                                      double *bytes_per_second,
                                                      trainrt_error **error);

/* Since 1.4: how fast it multiplies matrices of the type that the package's matmuls have, in
 * operations a second: the best of some matmuls of large square matrices. What a step's `flops`
 * can be held against. */
TRAINRT_API trainrt_status trainrt_session_matmul_speed(trainrt_session *session,
                                                        double *flops_per_second,
                                                        trainrt_error **error);

/* Since 1.1: what `trainrt_session_tune` has found. */
typedef struct trainrt_tune_result {
  size_t size;
  size_t choices; /* different matmuls and kernels of a step with something to choose */
  size_t reached; /* of these, those that there was time for */
  size_t changed; /* of these, those that another way is quicker for */
  /* of all that they are used for in a step, one after the other, before and after */
  double before_milliseconds;
  double after_milliseconds;
  /* a line for each, the most expensive first; valid until the session's next tuning */
  const char *report;
} trainrt_tune_result;

static inline trainrt_tune_result trainrt_tune_result_default(void) {
  trainrt_tune_result result;
  memset(&result, 0, sizeof result);
  result.size = sizeof result;
  return result;
}

/* Since 1.1, GPU: times the algorithms of the matmuls that a step over these micro-batches makes
 * (only their shapes matter), and kernels that were compiled in several ways, the most expensive
 * first, for about `seconds`. Writes a package to `path` with the quickest chosen, for this GPU and
 * version of cuBLASLt. They may add in another order: bits of its own, the same in every run.
 * Outputs are lost, no other value changes. UNSUPPORTED: there is nothing to choose. */
TRAINRT_API trainrt_status trainrt_session_tune(trainrt_session *session,
                                                const trainrt_batch *batches, size_t batch_count,
                                                double seconds, const char *path,
                                                trainrt_tune_result *result, trainrt_error **error);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_SPEED_H */
