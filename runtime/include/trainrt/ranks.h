/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * Processes that train one package together, each with a session of its own: ranks. Since 1.4. An
 * addition to trainrt.h, whose rules hold here, too.
 *
 * Every rank calls `trainrt_ranks_join`, makes a session with `trainrt_session_options.ranks`, and
 * makes the same calls of `trainrt_step`, each with its own micro-batches (none is allowed where
 * another rank has some): the step is that of all of them. What one cannot do is an error on all,
 * which names the rank, before anything is changed. Losses, norms, parameters and state are the
 * same on all ranks, and, bit for bit, those of one session that gets all micro-batches in the
 * order of ranks, where each rank has one of them. Checkpoints are saved by all ranks together,
 * too, and read by each. Everything else is done by each rank alone.
 */
#ifndef TRAINRT_RANKS_H
#define TRAINRT_RANKS_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct trainrt_ranks_options {
  size_t size;
  int32_t rank;             /* of this process, from 0 */
  int32_t world;            /* how many there are */
  const char *coordinator;  /* "HOST:PORT", where rank 0 listens and all others call */
  int32_t listening;        /* of rank 0: a socket that listens there already; -1: it opens one */
  int32_t join_seconds;     /* how long ranks are waited for at the beginning (default 60) */
  int32_t silence_seconds;  /* without a word from a rank it is lost (default 5) */
  int32_t exchange_seconds; /* how long an exchange may take, a slow rank's step included (120) */
  int32_t vendor_sums; /* 1: gradients are added up by NCCL itself, not in the order of ranks: on
                          GPUs only, and no other run has the same bits (default 0) */
} trainrt_ranks_options;

static inline trainrt_ranks_options trainrt_ranks_options_default(void) {
  trainrt_ranks_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.world = 1;
  options.listening = -1;
  options.join_seconds = 60;
  options.silence_seconds = 5;
  options.exchange_seconds = 120;
  return options;
}

/* Waits for all ranks. RANK_LOST: some did not come, or the coordinator does not answer; NOT_FOUND:
 * the plugin that connects processes is not installed (on CPUs, of the first session). */
TRAINRT_API trainrt_status trainrt_ranks_join(const trainrt_ranks_options *options,
                                              trainrt_ranks **ranks, trainrt_error **error);
/* Ends the run of all other ranks: their calls fail with RANK_LOST and `why`. From any thread. */
TRAINRT_API void trainrt_ranks_abort(trainrt_ranks *ranks, const char *why);
/* Leaves in order, once all sessions with these ranks have been freed. */
TRAINRT_API void trainrt_ranks_free(trainrt_ranks *ranks);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_RANKS_H */
