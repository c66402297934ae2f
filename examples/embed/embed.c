/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* Training inside a C program:
 *
 *   embed-c PACKAGE CHECKPOINTS LAST_STEP
 *
 * Opens the package, continues from the newest checkpoint if there is one, trains up to a step with
 * data from a callback, and evaluates. SIGINT ends it between two steps; what is done is saved, and
 * the next start goes on with the same bits. */
#include "moons.h"

#include <trainrt/trainrt.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program unless `status` is OK. The error by its address: which of two arguments is
 * evaluated first, the call that sets it or the error, is up to the compiler. */
static void check(trainrt_status status, trainrt_error **error) {
  if (status == TRAINRT_OK)
    return;
  fprintf(stderr, "embed: %s: %s\n", trainrt_status_name(status), trainrt_error_message(*error));
  exit(1);
}

/* The handler may only cancel, which is safe there: the loop then returns CANCELLED. */
static trainrt_session *to_cancel;
static void on_signal(int number) {
  (void)number;
  trainrt_session_cancel(to_cancel);
}

/* A batch whose arrays live as long as the program. */
typedef struct {
  float points[2 * MOONS_HELD_OUT];
  int64_t labels[MOONS_HELD_OUT];
  int64_t shape[2];
  trainrt_named_tensor inputs[2];
  trainrt_batch batch;
} data;

static void fill(data *d, uint64_t number, int count) {
  make_moons(number, count, d->points, d->labels);
  d->shape[0] = count;
  d->shape[1] = 2;
  d->inputs[0] = (trainrt_named_tensor){"points", {d->points, TRAINRT_F32, 2, d->shape}};
  d->inputs[1] = (trainrt_named_tensor){"labels", {d->labels, TRAINRT_I64, 1, d->shape}};
  d->batch = (trainrt_batch){d->inputs, 2};
}

/* The data of a step follows from its number: so a resumed run sees what it would have seen. */
static int next(void *user, trainrt_next_step *step) {
  data *d = user;
  fill(d, (uint64_t)step->step, MOONS_BATCH);
  step->batches = &d->batch;
  step->batch_count = 1;
  return 1;
}

static int done(void *user, const trainrt_step_result *result) {
  (void)user;
  if (result->step % 500 == 0) {
    printf("step %" PRId64 ": loss %.9g\n", result->step, result->loss);
    fflush(stdout);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc != 4) {
    fprintf(stderr, "usage: embed-c PACKAGE CHECKPOINTS LAST_STEP\n");
    return 2;
  }
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  check(trainrt_package_open(argv[1], &package, &error), &error);
  trainrt_session_options session_options = trainrt_session_options_default();
  session_options.threads = 1; /* leaves the other cores to the application */
  trainrt_session *session = NULL;
  check(trainrt_session_create(package, &session_options, &session, &error), &error);
  trainrt_package_free(package);

  trainrt_checkpoint_info resumed = trainrt_checkpoint_info_default();
  trainrt_status status = trainrt_checkpoint_load(session, argv[2], &resumed, &error);
  if (status == TRAINRT_OK)
    printf("resumed after step %" PRId64 "\n", resumed.step);
  else if (status != TRAINRT_NOT_FOUND) /* there is none yet */
    check(status, &error);
  else
    trainrt_error_free(error);
  error = NULL;

  to_cancel = session;
  signal(SIGINT, on_signal);
  static data training;
  trainrt_train_options loop = trainrt_train_options_default();
  loop.next = next;
  loop.next_user = &training;
  loop.done = done;
  loop.last_step = strtoll(argv[3], NULL, 10);
  status = trainrt_train(session, &loop, NULL, &error);
  signal(SIGINT, SIG_DFL);
  if (status != TRAINRT_CANCELLED)
    check(status, &error);
  else
    trainrt_error_free(error);
  error = NULL;
  check(trainrt_checkpoint_save(session, argv[2], 1, NULL, &error), &error);
  if (status == TRAINRT_CANCELLED)
    printf("interrupted and saved after step %" PRId64 "\n", trainrt_session_step(session));

  /* The loss on points that training has not seen. */
  static data held_out;
  fill(&held_out, 0, MOONS_HELD_OUT);
  trainrt_eval_result eval = trainrt_eval_result_default();
  check(trainrt_eval(session, &held_out.batch, NULL, &eval, &error), &error);

  /* Predictions need no labels. */
  held_out.batch.count = 1;
  trainrt_eval_options predict = trainrt_eval_options_default();
  predict.flags = TRAINRT_EVAL_FILL_MISSING;
  check(trainrt_eval(session, &held_out.batch, &predict, NULL, &error), &error);
  trainrt_tensor logits;
  check(trainrt_session_output(session, "logits", &logits, &error), &error);
  const float *values = logits.data;
  int right = 0;
  for (int i = 0; i < MOONS_HELD_OUT; ++i)
    right += (values[2 * i + 1] > values[2 * i]) == held_out.labels[i];
  printf("held out: loss %.9g, %d of %d right\n", eval.loss, right, MOONS_HELD_OUT);
  trainrt_session_free(session);
  return 0;
}
