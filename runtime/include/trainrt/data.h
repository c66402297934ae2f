/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * Rows of different lengths (docs/data.md): what in which inputs is real, how long rows are by
 * that, and batches of similar rows for one rank or several. As in trainrt.h, whose rules hold
 * here, too.
 */
#ifndef TRAINRT_DATA_H
#define TRAINRT_DATA_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Since 1.1: an input of which the package knows what in it is real (docs/data.md); one that is ids
 * and labels at once is two of these. */
typedef struct trainrt_token_input {
  size_t size;
  const char *input;
  trainrt_token_role role;
  int64_t pad;      /* elements equal to it are not real */
  const char *mask; /* not NULL: those are, where this input is 0; `pad` says nothing then */
} trainrt_token_input;

static inline trainrt_token_input trainrt_token_input_default(void) {
  trainrt_token_input input;
  memset(&input, 0, sizeof input);
  input.size = sizeof input;
  return input;
}

TRAINRT_API size_t trainrt_package_token_input_count(const trainrt_package *package);
TRAINRT_API trainrt_status trainrt_package_token_input(const trainrt_package *package, size_t index,
                                                       trainrt_token_input *input,
                                                       trainrt_error **error);

/* Since 1.1: how long each row of these arrays is: up to its last token that is no padding, and its
 * last label that is not ignored. Arrays are given as a batch: inputs by name, axis 0 runs over the
 * rows; only those that tell are read. `symbol`: the size whose length is meant (the last axis of
 * those inputs); NULL: the largest of all. `lengths` has `rows` entries. NOT_FOUND: the package
 * knows of no padding. */
TRAINRT_API trainrt_status trainrt_package_row_lengths(const trainrt_package *package,
                                                       const trainrt_batch *arrays,
                                                       const char *symbol, int64_t *lengths,
                                                       size_t rows, trainrt_error **error);

/* Since 1.4: how much of these arrays is real: of all inputs that hold tokens, or labels, of which
 * the package knows it. Arrays are given as a batch. Both numbers are 0 where nothing tells. */
TRAINRT_API trainrt_status trainrt_package_count_real(const trainrt_package *package,
                                                      const trainrt_batch *arrays,
                                                      trainrt_token_role role, int64_t *real,
                                                      int64_t *all, trainrt_error **error);

/* Since 1.1: which rows form which batch of which rank (docs/data.md). Plans are functions of the
 * options and the epoch, so that ranks agree without talking: all have the same number of batches,
 * the n-th of all have the same number of rows, and work that is as equal as neighbours in a
 * sorted group are. */
typedef struct trainrt_sampler trainrt_sampler;

/* What row `row` costs: finite, not negative. Called once for each row. */
typedef double (*trainrt_complexity)(void *user, int64_t row);

typedef struct trainrt_sampler_options {
  size_t size;
  int64_t rows;           /* must be set */
  const int64_t *lengths; /* of every row, copied; NULL: all 1 */
  /* to sort and to balance by; NULL: the length */
  trainrt_complexity complexity;
  void *complexity_user;
  int64_t batch_size;       /* rows of a batch, at most; 0: no limit */
  int64_t tokens_per_batch; /* rows x longest of a batch, at most; 0: no limit */
  int64_t length_multiple;  /* that the longest is rounded up to, 1 or more */
  /* rows that are sorted together; 0: 50 batches for each rank; 1: rows stay in order */
  int64_t group;
  int32_t shuffle; /* 1: another order every epoch, made of `seed` and the epoch */
  int64_t seed;
  int32_t rank, world;
  /* rows that the ranks cannot share evenly, at the end of the epoch's order: 0: as many of its
     beginning are given again as are missing; 1: they are left out */
  int32_t drop_tail;
  int32_t full_batches; /* 1: every batch has `batch_size` rows, for which the tail counts, too */
  /* since 1.5: so many batches of about equal cost follow each other, from the first one of an
     epoch on: those of a step of several ranks or micro-batches; 0 or 1: they come one by one */
  int64_t together;
} trainrt_sampler_options;

static inline trainrt_sampler_options trainrt_sampler_options_default(void) {
  trainrt_sampler_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.length_multiple = 1;
  options.world = 1;
  return options;
}

/* BAD_DATA names a row that is longer than a batch or costs no finite amount. */
TRAINRT_API trainrt_status trainrt_sampler_create(const trainrt_sampler_options *options,
                                                  trainrt_sampler **sampler, trainrt_error **error);
/* NULL is allowed. */
TRAINRT_API void trainrt_sampler_free(trainrt_sampler *sampler);
/* The rows of this rank's next batch, at least one; epochs follow each other without end. Valid
 * until the next call. */
TRAINRT_API trainrt_status trainrt_sampler_next(trainrt_sampler *sampler, const int64_t **rows,
                                                size_t *count, trainrt_error **error);
/* Batches of this rank in epoch `epoch`, from 0; -1 on bad arguments. */
TRAINRT_API int64_t trainrt_sampler_batches(trainrt_sampler *sampler, int64_t epoch);
/* The next batch is number `batch`, from 0, of `epoch`: what a checkpoint has to keep, for all
 * ranks the same. */
TRAINRT_API trainrt_status trainrt_sampler_position(const trainrt_sampler *sampler, int64_t *epoch,
                                                    int64_t *batch, trainrt_error **error);
TRAINRT_API trainrt_status trainrt_sampler_seek(trainrt_sampler *sampler, int64_t epoch,
                                                int64_t batch, trainrt_error **error);
/* The batch with most in it, rows x longest, of the first epoch, over all ranks: where rows are
 * sorted it is the first. */
TRAINRT_API trainrt_status trainrt_sampler_largest(trainrt_sampler *sampler, int64_t *rows,
                                                   int64_t *length, trainrt_error **error);
/* Of everything that decides on plans, and not of the rank: a position means the same where it is
 * equal. */
TRAINRT_API uint64_t trainrt_sampler_hash(const trainrt_sampler *sampler);

/* Since 1.2: what the session's device can still give: of a GPU what its driver says, else of the
 * system and the process's control groups without swapping. UNSUPPORTED: that is not known. */
TRAINRT_API trainrt_status trainrt_session_free_memory(const trainrt_session *session,
                                                       uint64_t *bytes, trainrt_error **error);

#ifdef __cplusplus
}
#endif

#endif /* TRAINRT_DATA_H */
