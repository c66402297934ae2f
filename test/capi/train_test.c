/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* train_test DIR [gpu]: a C11 host with a loop driven by callbacks on DIR/m.tpk: data, progress,
 * cancelling from another thread, the caller's allocator, and values kept in a place of the host's
 * own. */
#include "check.h"

#include <pthread.h>
#include <stdatomic.h>

enum { ROWS = 6 };

/* A host: gives batches, and counts what it is told. */
typedef struct {
  trainrt_session *session;
  float x[ROWS][3], y[ROWS];
  int64_t id[ROWS];
  trainrt_named_tensor inputs[3];
  trainrt_batch batch;
  int64_t ends_after;  /* `next` says so before this step; 0: never */
  int64_t breaks_at;   /* `next` gives -1 */
  int64_t bad_id_at;   /* a step with data that does not fit */
  int64_t stops_after; /* `done` says so */
  uint32_t flags;
  int64_t told; /* number of the last step that `done` was told of */
  int in_order;
  double losses[64];
  _Atomic int64_t progress;
} host;

static const int64_t x_shape[] = {ROWS, 3}, row_shape[] = {ROWS};

static int next(void *user, trainrt_next_step *step) {
  host *h = user;
  if (h->ends_after && step->step > h->ends_after)
    return 0;
  if (step->step == h->breaks_at)
    return -1;
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < 3; ++j)
      h->x[i][j] = (float)((i * 7 + j * 3 + step->step) % 5) - 2;
    h->y[i] = (float)((i + step->step) % 3);
    h->id[i] = i % 4;
  }
  if (step->step == h->bad_id_at)
    h->id[2] = 99;
  h->inputs[0] = (trainrt_named_tensor){"x", {h->x, TRAINRT_F32, 2, x_shape}};
  h->inputs[1] = (trainrt_named_tensor){"id", {h->id, TRAINRT_I64, 1, row_shape}};
  h->inputs[2] = (trainrt_named_tensor){"y", {h->y, TRAINRT_F32, 1, row_shape}};
  h->batch = (trainrt_batch){h->inputs, 3};
  step->batches = &h->batch;
  step->batch_count = 1;
  step->options->lr = 0.05 / (double)step->step;
  step->options->flags = h->flags;
  return 1;
}

static int done(void *user, const trainrt_step_result *result) {
  host *h = user;
  h->in_order &= result->step == h->told + 1;
  h->told = result->step;
  if (result->step <= 64)
    h->losses[result->step - 1] = result->loss;
  atomic_store(&h->progress, result->step);
  return result->step == h->stops_after;
}

static trainrt_session *create(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = NULL;
  CHECK_OK(trainrt_session_create(package, NULL, &session, &error));
  return session;
}

static trainrt_train_options loop_of(host *h) {
  trainrt_train_options options = trainrt_train_options_default();
  options.next = next;
  options.next_user = h;
  options.done = done;
  options.done_user = h;
  h->in_order = 1;
  return options;
}

static void same_values(trainrt_session *a, trainrt_session *b) {
  trainrt_error *error = NULL;
  trainrt_tensor left, right;
  CHECK_OK(trainrt_session_parameter(a, "w", &left, &error));
  CHECK_OK(trainrt_session_parameter(b, "w", &right, &error));
  CHECK(memcmp(left.data, right.data, 3 * sizeof(float)) == 0);
  CHECK(trainrt_session_step(a) == trainrt_session_step(b));
}

static void loop(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_step_result result = trainrt_step_result_default();

  /* The reference: one call a step. */
  trainrt_session *by_hand = create(package);
  host h = {.session = by_hand};
  double losses[9];
  for (int64_t i = 1; i <= 9; ++i) {
    trainrt_step_options step = trainrt_step_options_default();
    trainrt_next_step given = {sizeof given, i, NULL, 0, &step};
    CHECK(next(&h, &given) == 1);
    CHECK_OK(trainrt_step(by_hand, given.batches, 1, &step, &result, &error));
    losses[i - 1] = result.loss;
  }

  /* All ways to end, one after the other, and with lag: the same bits. */
  for (uint32_t flags = 0; flags <= TRAINRT_STEP_LAG; flags += TRAINRT_STEP_LAG) {
    trainrt_session *session = create(package);
    host g = {.session = session, .stops_after = 2, .flags = flags};
    trainrt_train_options options = loop_of(&g);
    CHECK_OK(trainrt_train(session, &options, &result, &error));
    CHECK(g.told == (flags ? 3 : 2) && result.step == g.told);
    g.ends_after = 4;
    CHECK_OK(trainrt_train(session, &options, &result, &error));
    CHECK(g.told == 4 && result.step == 4 && trainrt_session_step(session) == 4);
    g.ends_after = 0;
    g.breaks_at = 6;
    CHECK_ERROR(trainrt_train(session, &options, &result, &error), TRAINRT_CANCELLED,
                "the callback 'next' cancelled the training");
    CHECK(g.told == 5 && result.step == 5 && trainrt_session_step(session) == 5);
    g.breaks_at = 0;
    g.bad_id_at = 7;
    result = trainrt_step_result_default();
    CHECK_ERROR(trainrt_train(session, &options, &result, &error), TRAINRT_BAD_DATA, "99");
    CHECK(g.told == 6 && result.step == 6 && trainrt_session_step(session) == 6);
    g.bad_id_at = 0;
    options.last_step = 9;
    CHECK_OK(trainrt_train(session, &options, &result, &error));
    CHECK(g.told == 9 && g.in_order && result.loss == losses[8]);
    CHECK(memcmp(g.losses, losses, sizeof losses) == 0);
    CHECK_OK(trainrt_train(session, &options, &result, &error));
    CHECK(result.step == 0 && g.told == 9);
    same_values(session, by_hand);
    trainrt_session_free(session);
  }

  host g = {.session = by_hand};
  trainrt_train_options options = loop_of(&g);
  options.last_step = -1;
  CHECK_ERROR(trainrt_train(by_hand, &options, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "options->last_step: -1 is no number of a step");
  options = loop_of(&g);
  options.next = NULL;
  CHECK_ERROR(trainrt_train(by_hand, &options, NULL, &error), TRAINRT_INVALID_ARGUMENT, "next");
  CHECK_ERROR(trainrt_train(by_hand, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT, "options");
  CHECK_ERROR(trainrt_train(NULL, &options, NULL, &error), TRAINRT_INVALID_ARGUMENT, "session");
  trainrt_session_free(by_hand);
}

static void *cancel_after_three(void *user) {
  host *h = user;
  while (atomic_load(&h->progress) < 3)
    ;
  trainrt_session_cancel(h->session);
  return NULL;
}

static void cancelled_from_another_thread(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  host h = {.session = session};
  trainrt_train_options options = loop_of(&h);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, cancel_after_three, &h) == 0);
  CHECK_ERROR(trainrt_train(session, &options, NULL, &error), TRAINRT_CANCELLED, "cancelled");
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK(h.told >= 3 && trainrt_session_step(session) == h.told);
  /* Nothing is lost: it goes on, and is as if nothing had happened. */
  options.last_step = h.told + 2;
  CHECK_OK(trainrt_train(session, &options, NULL, &error));
  trainrt_session *other = create(package);
  host g = {.session = other};
  trainrt_train_options straight = loop_of(&g);
  straight.last_step = options.last_step;
  CHECK_OK(trainrt_train(other, &straight, NULL, &error));
  same_values(session, other);
  trainrt_session_free(session);
  trainrt_session_free(other);
}

static void *step_once(void *user) {
  host *h = user;
  trainrt_error *error = NULL;
  CHECK_OK(trainrt_step(h->session, &h->batch, 1, NULL, NULL, &error));
  return NULL;
}

/* While a step runs, another thread may not use its session, but may cancel and check. */
static void *use_too(void *user) {
  host *h = user;
  trainrt_error *error = NULL;
  trainrt_tensor tensor;
  const char *text = "another thread is using the session: a session is for one thread at a time";
  CHECK_ERROR(trainrt_step(h->session, &h->batch, 1, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              text);
  CHECK_ERROR(trainrt_eval(h->session, &h->batch, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              text);
  CHECK_ERROR(trainrt_session_parameter(h->session, "w", &tensor, &error), TRAINRT_INVALID_ARGUMENT,
              text);
  CHECK_ERROR(trainrt_checkpoint_save(h->session, "never", 0, NULL, &error),
              TRAINRT_INVALID_ARGUMENT, text);
  CHECK_OK(trainrt_session_check(h->session, &h->batch, 1, &error));
  return NULL;
}

/* What several threads do to one session at once: as long as the steps' thread is busy. */
typedef struct {
  host *host;
  const char *folder;
  int kind;
} intruder;
enum { STEPS_AT_ONCE = 200 };
static _Atomic int stepping;
static _Atomic int64_t intruded, stepped;

/* Done, or refused with the reason. */
static void done_or_refused(trainrt_status status, trainrt_error *error) {
  if (status != TRAINRT_OK)
    CHECK(status == TRAINRT_INVALID_ARGUMENT &&
          strstr(trainrt_error_message(error), "another thread"));
  trainrt_error_free(error);
}

static void *intrude(void *user) {
  const intruder *i = user;
  trainrt_session *session = i->host->session;
  while (atomic_load(&stepping)) {
    trainrt_error *error = NULL;
    trainrt_status status = TRAINRT_OK;
    trainrt_tensor tensor;
    trainrt_memory memory = trainrt_memory_default();
    switch (i->kind) {
    case 0:
      trainrt_session_cancel(session);
      break;
    case 1:
      status = trainrt_checkpoint_save(session, i->folder, 1, NULL, &error);
      break;
    case 2:
      status = trainrt_step(session, &i->host->batch, 1, NULL, NULL, &error);
      if (status == TRAINRT_OK)
        atomic_fetch_add(&stepped, 1);
      if (status == TRAINRT_CANCELLED)
        status = TRAINRT_OK;
      break;
    case 3:
      status = trainrt_session_memory(session, &memory, &error);
      break;
    case 4:
      status = trainrt_session_parameter(session, "w", &tensor, &error);
      break;
    default:
      status = trainrt_session_check(session, &i->host->batch, 1, &error);
    }
    done_or_refused(status, error);
    atomic_fetch_add(&intruded, 1);
  }
  return NULL;
}

/* Only one is in at a time, nothing is torn, and the steps are as many as were made. */
static void many_threads_at_once(const trainrt_package *package, const char *folder) {
  enum { MANY = 6 };
  trainrt_step_options step = trainrt_step_options_default();
  trainrt_next_step given = {sizeof given, 1, NULL, 0, &step};
  host h = {.session = create(package)};
  CHECK(next(&h, &given) == 1);
  intruder who[MANY];
  pthread_t threads[MANY];
  atomic_store(&stepping, 1);
  for (int i = 0; i < MANY; ++i) {
    who[i] = (intruder){&h, folder, i};
    CHECK(pthread_create(&threads[i], NULL, intrude, &who[i]) == 0);
  }
  for (int i = 0; i < STEPS_AT_ONCE || atomic_load(&intruded) < STEPS_AT_ONCE; ++i) {
    trainrt_error *error = NULL;
    trainrt_status status = trainrt_step(h.session, &h.batch, 1, NULL, NULL, &error);
    if (status == TRAINRT_OK)
      atomic_fetch_add(&stepped, 1);
    if (status == TRAINRT_CANCELLED)
      status = TRAINRT_OK;
    done_or_refused(status, error);
  }
  atomic_store(&stepping, 0);
  for (int i = 0; i < MANY; ++i)
    CHECK(pthread_join(threads[i], NULL) == 0);
  const int64_t steps = trainrt_session_step(h.session);
  CHECK(steps == atomic_load(&stepped));
  trainrt_session *other = create(package);
  trainrt_error *error = NULL;
  for (int64_t i = 0; i < steps; ++i)
    CHECK_OK(trainrt_step(other, &h.batch, 1, NULL, NULL, &error));
  same_values(h.session, other);
  trainrt_session_free(h.session);
  trainrt_session_free(other);
}

/* In the middle of a loop, between its steps, the session is the loop's. */
static void *step_between(void *user) {
  host *h = user;
  trainrt_error *error = NULL;
  CHECK_ERROR(trainrt_step(h->session, &h->batch, 1, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "another thread");
  return NULL;
}

static int next_and_meet(void *user, trainrt_next_step *step) {
  pthread_t thread;
  const int result = next(user, step);
  CHECK(pthread_create(&thread, NULL, step_between, user) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  return result;
}

static void nobody_steps_between(const trainrt_package *package) {
  trainrt_error *error = NULL;
  host h = {.session = create(package)};
  trainrt_train_options options = loop_of(&h);
  options.next = next_and_meet;
  options.last_step = 2;
  CHECK_OK(trainrt_train(h.session, &options, NULL, &error));
  CHECK(trainrt_session_step(h.session) == 2);
  trainrt_session_free(h.session);
}

static int meet_another_thread(void *user, int64_t before, int64_t total) {
  host *h = user;
  if (before != 0 || atomic_load(&h->progress) || total < 1)
    return 0;
  atomic_store(&h->progress, 1);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, use_too, h) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  /* A callback is on the thread that is in the call. */
  trainrt_memory memory = trainrt_memory_default();
  trainrt_error *error = NULL;
  CHECK_OK(trainrt_session_memory(h->session, &memory, &error));
  return 0;
}

static void one_thread_at_a_time(const trainrt_package *package) {
  trainrt_error *error = NULL;
  host h = {0};
  trainrt_step_options step = trainrt_step_options_default();
  trainrt_next_step given = {sizeof given, 1, NULL, 0, &step};
  trainrt_session_options options = trainrt_session_options_default();
  options.progress = meet_another_thread;
  options.progress_user = &h;
  CHECK_OK(trainrt_session_create(package, &options, &h.session, &error));
  CHECK(next(&h, &given) == 1);
  CHECK_OK(trainrt_step(h.session, &h.batch, 1, NULL, NULL, &error));
  CHECK(atomic_load(&h.progress) == 1);
  /* One behind the other they may. */
  pthread_t thread;
  trainrt_session_free(h.session);
  h.session = create(package);
  CHECK(pthread_create(&thread, NULL, step_once, &h) == 0);
  CHECK(pthread_join(thread, NULL) == 0);
  CHECK_OK(trainrt_step(h.session, &h.batch, 1, NULL, NULL, &error));
  CHECK(trainrt_session_step(h.session) == 2);
  trainrt_session_free(h.session);
}

/* Evaluates and saves in the middle of the loop. */
typedef struct {
  host host;
  const char *folder;
} saver;

static int evaluate_and_save(void *user, const trainrt_step_result *result) {
  saver *s = user;
  trainrt_error *error = NULL;
  trainrt_eval_result eval = trainrt_eval_result_default();
  CHECK_OK(trainrt_eval(s->host.session, &s->host.batch, NULL, &eval, &error));
  CHECK(isfinite(eval.loss));
  if (result->step == 3)
    CHECK_OK(trainrt_checkpoint_save(s->host.session, s->folder, 1, NULL, &error));
  return 0;
}

static void saving_within(const trainrt_package *package, const char *folder) {
  trainrt_error *error = NULL;
  saver s = {.host = {.session = create(package)}, .folder = folder};
  trainrt_train_options options = loop_of(&s.host);
  options.done = evaluate_and_save;
  options.done_user = &s;
  options.last_step = 5;
  CHECK_OK(trainrt_train(s.host.session, &options, NULL, &error));
  trainrt_session *resumed = create(package);
  trainrt_checkpoint_info info = trainrt_checkpoint_info_default();
  CHECK_OK(trainrt_checkpoint_load(resumed, folder, &info, &error));
  CHECK(info.step == 3);
  host h = {.session = resumed, .told = 3};
  trainrt_train_options more = loop_of(&h);
  more.last_step = 5;
  CHECK_OK(trainrt_train(resumed, &more, NULL, &error));
  CHECK(h.in_order && h.told == 5);
  same_values(s.host.session, resumed);
  trainrt_session_free(resumed);
  trainrt_session_free(s.host.session);
}

/* All values by name into a session that has none. */
static void values_of_its_own(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *first = create(package);
  host h = {.session = first};
  trainrt_train_options options = loop_of(&h);
  options.last_step = 4;
  CHECK_OK(trainrt_train(first, &options, NULL, &error));
  trainrt_session_options bare = trainrt_session_options_default();
  bare.weights = TRAINRT_WEIGHTS_NONE;
  trainrt_session *second = NULL;
  CHECK_OK(trainrt_session_create(package, &bare, &second, &error));
  CHECK_ERROR(trainrt_session_set_step(second, 4, &error), TRAINRT_MISSING_WEIGHTS, "'w'");
  for (int kind = TRAINRT_PARAMETER; kind <= TRAINRT_STATE; ++kind)
    for (size_t i = 0; i < trainrt_package_tensor_count(package, (trainrt_kind)kind); ++i) {
      trainrt_tensor_info info = trainrt_tensor_info_default();
      trainrt_tensor value;
      CHECK_OK(trainrt_package_tensor(package, (trainrt_kind)kind, i, &info, &error));
      if (kind == TRAINRT_PARAMETER) {
        CHECK_OK(trainrt_session_parameter(first, info.name, &value, &error));
        CHECK_OK(trainrt_session_set_parameter(second, info.name, &value, &error));
      } else {
        CHECK_OK(trainrt_session_state(first, info.name, &value, &error));
        CHECK_OK(trainrt_session_set_state(second, info.name, &value, &error));
      }
    }
  CHECK_OK(trainrt_session_set_step(second, 4, &error));
  CHECK_ERROR(trainrt_session_set_step(second, -1, &error), TRAINRT_INVALID_ARGUMENT, "-1");
  CHECK(trainrt_session_step(second) == 4);
  host g = {.session = second, .told = 4};
  trainrt_train_options more = loop_of(&g);
  options.last_step = more.last_step = 7;
  CHECK_OK(trainrt_train(first, &options, NULL, &error));
  CHECK_OK(trainrt_train(second, &more, NULL, &error));
  CHECK(g.losses[6] == h.losses[6]);
  same_values(first, second);
  trainrt_session_free(first);
  trainrt_session_free(second);
}

typedef struct {
  size_t held, most, limit;
  int misaligned;
} pool;

static void *pool_allocate(void *user, size_t bytes, size_t alignment) {
  pool *p = user;
  if (p->held + bytes > p->limit)
    return NULL;
  void *memory = aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  p->misaligned |= (uintptr_t)memory % alignment != 0;
  p->held += bytes;
  p->most = p->held > p->most ? p->held : p->most;
  return memory;
}

static void pool_deallocate(void *user, void *memory, size_t bytes) {
  ((pool *)user)->held -= bytes;
  free(memory);
}

static void memory_of_the_caller(const trainrt_package *package) {
  trainrt_error *error = NULL;
  pool p = {.limit = SIZE_MAX};
  trainrt_session_options options = trainrt_session_options_default();
  options.allocator = (trainrt_allocator){&p, pool_allocate, pool_deallocate};
  options.threads = 2;
  trainrt_session *session = NULL;
  CHECK_OK(trainrt_session_create(package, &options, &session, &error));
  CHECK(trainrt_session_threads(session) == 2);
  host h = {.session = session};
  trainrt_train_options loop = loop_of(&h);
  loop.last_step = 3;
  CHECK_OK(trainrt_train(session, &loop, NULL, &error));
  trainrt_memory memory = trainrt_memory_default();
  CHECK_OK(trainrt_session_memory(session, &memory, &error));
  CHECK(p.held >= memory.parameters + memory.state + memory.arena && !p.misaligned);
  trainrt_session_free(session);
  CHECK(p.held == 0);
  p.limit = 100;
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_OUT_OF_MEMORY,
              "");
  CHECK(p.held == 0);
}

static int stop_second_command(void *user, int64_t done_commands, int64_t total) {
  *(int64_t *)user = total;
  return done_commands >= 1;
}

static void progress_cancels(const trainrt_package *package) {
  trainrt_error *error = NULL;
  int64_t total = 0;
  trainrt_session_options options = trainrt_session_options_default();
  options.progress = stop_second_command;
  options.progress_user = &total;
  trainrt_session *session = NULL;
  CHECK_OK(trainrt_session_create(package, &options, &session, &error));
  host h = {.session = session};
  trainrt_step_options step = trainrt_step_options_default();
  trainrt_next_step given = {sizeof given, 1, NULL, 0, &step};
  CHECK(next(&h, &given) == 1);
  CHECK_ERROR(trainrt_eval(session, given.batches, NULL, NULL, &error), TRAINRT_CANCELLED, "");
  CHECK(total > 1);
  trainrt_session_free(session);
}

/* Losses may be finite where gradients times such a factor are not. */
static void factors_have_to_be_finite(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = NULL;
  CHECK_OK(trainrt_session_create(package, NULL, &session, &error));
  host h = {.session = session};
  trainrt_step_options step = trainrt_step_options_default();
  trainrt_next_step given = {sizeof given, 1, NULL, 0, &step};
  CHECK(next(&h, &given) == 1);
  const double factors[] = {(double)NAN, (double)INFINITY, 1e300};
  for (int i = 0; i < 3; ++i) {
    step.weights = &factors[i];
    CHECK_ERROR(trainrt_step(session, given.batches, 1, &step, NULL, &error),
                TRAINRT_INVALID_ARGUMENT, "weights[0]");
  }
  step.weights = NULL;
  CHECK_OK(trainrt_step(session, given.batches, 1, &step, NULL, &error));
  CHECK(trainrt_session_step(session) == 1);
  trainrt_session_free(session);
}

/* Two micro-batches, one of them of a part of the rows. */
static double loss_of_two(trainrt_session *session, trainrt_step_options *step, int64_t rows) {
  trainrt_error *error = NULL;
  host h = {.session = session};
  trainrt_next_step given = {sizeof given, 1, NULL, 0, step};
  CHECK(next(&h, &given) == 1);
  const int64_t x_part[] = {rows, 3}, row_part[] = {rows};
  trainrt_named_tensor part[] = {h.inputs[0], h.inputs[1], h.inputs[2]};
  part[0].tensor.shape = x_part;
  part[1].tensor.shape = part[2].tensor.shape = row_part;
  const trainrt_batch both[] = {h.batch, {part, 3}};
  trainrt_step_result result = trainrt_step_result_default();
  CHECK_OK(trainrt_gradients(session, both, 2, step, &result, &error));
  return result.loss;
}

/* What micro-batches count for: the same in all ways where they are equal, else as it is said. */
static void micro_batches_are_weighted(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  trainrt_step_options step = trainrt_step_options_default();
  CHECK(step.accumulate_by == TRAINRT_BY_LOSS);
  const double whole = loss_of_two(session, &step, ROWS);
  step.accumulate_by = TRAINRT_BY_ROWS;
  CHECK(loss_of_two(session, &step, ROWS) == whole);
  const double by_rows = loss_of_two(session, &step, 1);
  const double weights[] = {(double)ROWS / (ROWS + 1), 1.0 / (ROWS + 1)};
  step.weights = weights;
  CHECK(fabs(loss_of_two(session, &step, 1) - by_rows) < 1e-6);
  step.weights = NULL;
  step.accumulate_by = TRAINRT_BY_MEAN;
  const double mean = loss_of_two(session, &step, 1);
  CHECK(fabs(mean - by_rows) > 1e-6);
  /* A program of before 1.4 gets what it always got. */
  step.accumulate_by = TRAINRT_BY_ROWS;
  step.size = offsetof(trainrt_step_options, accumulate_by);
  CHECK(loss_of_two(session, &step, 1) == mean);
  step.size = sizeof step;
  step.accumulate_by = (trainrt_accumulate_by)9;
  host h = {.session = session};
  trainrt_next_step given = {sizeof given, 1, NULL, 0, &step};
  CHECK(next(&h, &given) == 1);
  CHECK_ERROR(trainrt_step(session, given.batches, 1, &step, NULL, &error),
              TRAINRT_INVALID_ARGUMENT, "options->accumulate_by: 9 is unknown");
  step.accumulate_by = TRAINRT_BY_TOKENS;
  const trainrt_batch both[] = {h.batch, h.batch};
  CHECK_ERROR(
      trainrt_step(session, both, 2, &step, NULL, &error), TRAINRT_UNSUPPORTED,
      "micro-batches cannot be weighted by tokens: the loss is no quotient of sums over rows");
  trainrt_session_free(session);
}

static void speed_of_a_device(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  double speed = 0;
  trainrt_status status = trainrt_session_matmul_speed(session, &speed, &error);
  CHECK(status == TRAINRT_OK ? speed > 0 : status == TRAINRT_UNSUPPORTED);
  if (status)
    CHECK(strstr(trainrt_error_message(error), "the package multiplies no matrices"));
  trainrt_error_free(error);
  CHECK_ERROR(trainrt_session_matmul_speed(session, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "flops_per_second");
  trainrt_session_free(session);
}

int main(int argc, char **argv) {
  if (argc != 2 && argc != 3)
    return 2;
  const int on_gpu = argc == 3;
  char path[4096], folder[4096], at_once[4096];
  snprintf(path, sizeof path, "%s/m.tpk", argv[1]);
  snprintf(folder, sizeof folder, "%s/within", argv[1]);
  snprintf(at_once, sizeof at_once, "%s/at-once", argv[1]);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  loop(package);
  cancelled_from_another_thread(package);
  one_thread_at_a_time(package);
  many_threads_at_once(package, at_once);
  nobody_steps_between(package);
  saving_within(package, folder);
  values_of_its_own(package);
  if (!on_gpu) /* whose memory is the driver's */
    memory_of_the_caller(package);
  progress_cancels(package);
  factors_have_to_be_finite(package);
  micro_batches_are_weighted(package);
  speed_of_a_device(package);
  trainrt_package_free(package);
  printf("%d checks failed\n", failures);
  return failures != 0;
}
