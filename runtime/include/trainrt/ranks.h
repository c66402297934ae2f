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
  int32_t local_world; /* since 1.5: ranks of this machine; 0: not known. trainrt_ranks_find */
  int32_t local_rank;  /* since 1.5: among them, which says the GPU; -1: not known */
  /* since 1.5: of each machine, a node, so many neighbours: on CPUs gradients are added up within a
     node and then go from node to node, in the same order. 0: as `local_world` and `local_rank` of
     all ranks say, else as hosts are called */
  int32_t ranks_per_node;
  /* since 1.5: so many neighbours share a replica of what `trainc --distribute zero1` to `zero3`
     has in shards, and each other group of as many has one, too; it divides `world`, and is the
     same on all ranks. On CPUs. 0: all share one */
  int32_t shard_within;
} trainrt_ranks_options;

static inline trainrt_ranks_options trainrt_ranks_options_default(void) {
  trainrt_ranks_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.world = 1;
  options.listening = -1;
  options.local_rank = -1;
  options.join_seconds = 60;
  options.silence_seconds = 5;
  options.exchange_seconds = 120;
  return options;
}

/* Waits for all ranks. RANK_LOST: some did not come, or the coordinator does not answer; NOT_FOUND:
 * the plugin that connects processes is not installed (on CPUs, of the first session);
 * INVALID_ARGUMENT: the ranks are no nodes of `ranks_per_node`, or do not agree on it. */
TRAINRT_API trainrt_status trainrt_ranks_join(const trainrt_ranks_options *options,
                                              trainrt_ranks **ranks, trainrt_error **error);

/* Since 1.5: sets `rank`, `world`, `local_world` and, where it is NULL, `coordinator` as the
 * launcher says that has started this process: torchrun, mpirun of Open MPI or srun of Slurm, by
 * their environment variables, in this order. `launcher`, which may be NULL, gets its name, or NULL
 * where there is none; then nothing else is set. Texts are valid until the thread's next call.
 * INVALID_ARGUMENT: the variables do not say all that is needed. */
TRAINRT_API trainrt_status trainrt_ranks_find(trainrt_ranks_options *options, const char **launcher,
                                              trainrt_error **error);

/* Since 1.5: how the ranks lie on nodes, for people; "" where all are of one. Valid as long as
 * `ranks`. */
TRAINRT_API const char *trainrt_ranks_nodes(const trainrt_ranks *ranks);

/* Since 1.5: what the ranks' GPUs exchange by, for people; "" on CPUs, with the sums of NCCL, and
 * where no session has been made yet. Valid as long as `ranks`, until the next session is made. */
TRAINRT_API const char *trainrt_ranks_carrier(const trainrt_ranks *ranks);

/* Since 1.5: a connection of the caller's own, in place of the library's. */
typedef struct trainrt_communicator {
  size_t size;
  void *user;
  int32_t rank, world;
  /* Sends `sent_bytes[r]` bytes at `sent[r]` to each rank r, this one included, and receives
     `received_bytes[r]` from it at `received[r]`; returns when all is there and `sent` is no longer
     needed. 0: done. Anything else: a rank is lost, and with it the run. Ranks make the same calls
     in the same order; they come on the threads that call the library. */
  int (*exchange)(void *user, const void *const *sent, const int64_t *sent_bytes,
                  void *const *received, const int64_t *received_bytes);
  /* Ends what other ranks wait for, which then fails with `why`; from any thread. NULL: they find
     it out by themselves. */
  void (*abort)(void *user, const char *why);
} trainrt_communicator;

static inline trainrt_communicator trainrt_communicator_default(void) {
  trainrt_communicator communicator;
  memset(&communicator, 0, sizeof communicator);
  communicator.size = sizeof communicator;
  communicator.world = 1;
  return communicator;
}

/* The communicator is copied; `user` outlives the ranks and their sessions. */
TRAINRT_API trainrt_status trainrt_ranks_create(const trainrt_communicator *communicator,
                                                trainrt_ranks **ranks, trainrt_error **error);

/* Since 1.5. */
typedef struct trainrt_bytes {
  const void *data;
  size_t size;
} trainrt_bytes;

/* Since 1.5: gives every rank the bytes of all, in `all`, by rank: `world` of them, valid until the
 * next call. Like a step it is a call that all ranks make, at the same place among their steps. */
TRAINRT_API trainrt_status trainrt_ranks_gather(trainrt_ranks *ranks, const void *bytes,
                                                size_t size, const trainrt_bytes **all,
                                                trainrt_error **error);

/* Since 1.5: this rank cannot make its next `trainrt_step`, which it calls nevertheless, with or
 * without batches: that step is BAD_DATA on all ranks, as "rank R: `why`", with nothing changed. */
TRAINRT_API void trainrt_ranks_refuse(trainrt_ranks *ranks, const char *why);
/* Since 1.5: a number of the caller's that goes along with the next step, for example its tokens,
 * and what it added up to over all ranks in the last one; -1: some rank has told none. */
TRAINRT_API void trainrt_ranks_set_count(trainrt_ranks *ranks, int64_t count);
TRAINRT_API int64_t trainrt_ranks_count(const trainrt_ranks *ranks);

/* Ends the run of all other ranks: their calls fail with RANK_LOST and `why`. From any thread. */
TRAINRT_API void trainrt_ranks_abort(trainrt_ranks *ranks, const char *why);
/* Leaves in order, once all sessions with these ranks have been freed. */
TRAINRT_API void trainrt_ranks_free(trainrt_ranks *ranks);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_RANKS_H */
