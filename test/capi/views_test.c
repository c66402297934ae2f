/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* views_test DIR [gpu]: a C11 host that takes values of sessions on DIR/m.tpk as DLPack where they
 * lie, keeps them longer than the session, and on a (fake) GPU takes turns with its stream. */
#include "check.h"
#include "dlpack_structs.h"

#include <dlfcn.h>

enum { ROWS = 6, MORE = 500 };

static float x[MORE][3], y[MORE];
static int64_t id[MORE];

static trainrt_batch make_batch(trainrt_named_tensor inputs[3], int64_t (*shapes)[2],
                                int64_t rows) {
  for (int i = 0; i < rows; ++i) {
    for (int j = 0; j < 3; ++j)
      x[i][j] = (float)((i * 7 + j * 3) % 5) - 2;
    y[i] = (float)(i % 3);
    id[i] = i % 4;
  }
  (*shapes)[0] = rows;
  (*shapes)[1] = 3;
  inputs[0] = (trainrt_named_tensor){"x", {x, TRAINRT_F32, 2, *shapes}};
  inputs[1] = (trainrt_named_tensor){"id", {id, TRAINRT_I64, 1, *shapes}};
  inputs[2] = (trainrt_named_tensor){"y", {y, TRAINRT_F32, 1, *shapes}};
  return (trainrt_batch){inputs, 3};
}

/* The fake driver's functions, as another library of the process would call them. */
static struct {
  int (*create)(void **, unsigned);
  int (*destroy)(void *);
  int (*synchronize)(void *);
  int (*allocate)(unsigned long long *, size_t);
  int (*free)(unsigned long long);
  int (*copy)(unsigned long long, unsigned long long, size_t, void *);
} driver;

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  CHECK(found);
  memcpy(function, &found, sizeof found);
}

static void load_driver(void) {
  const char *path = getenv("TRAINRT_CUDA_DRIVER");
  void *library = path ? dlopen(path, RTLD_NOW) : NULL;
  CHECK(library);
  if (!library)
    exit(1);
  find(library, "cuStreamCreate", &driver.create);
  find(library, "cuStreamDestroy_v2", &driver.destroy);
  find(library, "cuStreamSynchronize", &driver.synchronize);
  find(library, "cuMemAlloc_v2", &driver.allocate);
  find(library, "cuMemFree_v2", &driver.free);
  find(library, "cuMemcpyDtoDAsync_v2", &driver.copy);
}

static trainrt_session *create(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = NULL;
  trainrt_session_options options = trainrt_session_options_default();
  options.threads = 1;
  CHECK_OK(trainrt_session_create(package, &options, &session, &error));
  return session;
}

static struct DLManagedTensor *take(trainrt_session *session, trainrt_value which, const char *name,
                                    void *stream) {
  trainrt_error *error = NULL;
  struct DLManagedTensor *managed = NULL;
  CHECK_OK(trainrt_session_export(session, which, name, stream, &managed, &error));
  return managed;
}

static void give_back(struct DLManagedTensor *managed) { managed->deleter(managed); }

static void mistakes(trainrt_session *session) {
  trainrt_error *error = NULL;
  struct DLManagedTensor *managed = NULL;
  CHECK_ERROR(trainrt_session_export(NULL, TRAINRT_VALUE_PARAMETER, "w", NULL, &managed, &error),
              TRAINRT_INVALID_ARGUMENT, "argument 'session' is NULL");
  CHECK_ERROR(trainrt_session_export(session, TRAINRT_VALUE_PARAMETER, "w", NULL, NULL, &error),
              TRAINRT_INVALID_ARGUMENT, "argument 'managed' is NULL");
  CHECK_ERROR(trainrt_session_export(session, (trainrt_value)4, "w", NULL, &managed, &error),
              TRAINRT_INVALID_ARGUMENT, "which: 4 is no kind of value");
  CHECK_ERROR(
      trainrt_session_export(session, TRAINRT_VALUE_PARAMETER, "ww", NULL, &managed, &error),
      TRAINRT_NOT_FOUND, "'w'");
  CHECK_ERROR(trainrt_session_export(session, TRAINRT_VALUE_GRADIENT, "w", NULL, &managed, &error),
              TRAINRT_NOT_FOUND, "no gradients have been computed yet");
  CHECK_ERROR(trainrt_session_export(session, TRAINRT_VALUE_OUTPUT, "pred", NULL, &managed, &error),
              TRAINRT_NOT_FOUND, "was not computed by the last call");
  CHECK_ERROR(trainrt_session_wait_stream(NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "argument 'session' is NULL");
  CHECK_ERROR(trainrt_session_signal_stream(NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "argument 'session' is NULL");
  CHECK(!managed && trainrt_session_stream(NULL) == NULL);
  const char *reason = NULL;
  CHECK(trainrt_session_input_copies(NULL, &reason) == 0 && reason && !*reason);
  CHECK(trainrt_session_input_copies(session, NULL) == 0);
}

/* What is seen through views is what the host's functions give, and stays in its place. */
static void views(const trainrt_package *package, int gpu) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  mistakes(session);
  CHECK((trainrt_session_stream(session) != NULL) == gpu);
  trainrt_named_tensor inputs[3];
  int64_t shapes[2];
  trainrt_batch batch = make_batch(inputs, &shapes, ROWS), twice[] = {batch, batch};

  void *stream = NULL;
  if (gpu)
    driver.create(&stream, 0);
  struct DLManagedTensor *w = take(session, TRAINRT_VALUE_PARAMETER, "w", stream),
                         *again = take(session, TRAINRT_VALUE_PARAMETER, "w", TRAINRT_NO_STREAM);
  CHECK(w->tensor.data == again->tensor.data);
  give_back(again);
  CHECK(w->tensor.device_type == (gpu ? 2 : 1) && w->tensor.device_id == 0);
  CHECK(w->tensor.ndim == 1 && w->tensor.shape[0] == 3 && w->tensor.dtype.bits == 32);

  CHECK_OK(trainrt_step(session, twice, 2, NULL, NULL, &error));
  struct DLManagedTensor *m = take(session, TRAINRT_VALUE_STATE, "w/exp_avg", stream),
                         *g = take(session, TRAINRT_VALUE_GRADIENT, "w", stream);
  CHECK_OK(trainrt_eval(session, &batch, NULL, NULL, &error));
  struct DLManagedTensor *pred = take(session, TRAINRT_VALUE_OUTPUT, "pred", stream);
  CHECK(pred->tensor.shape[0] == ROWS);
  CHECK_OK(trainrt_session_signal_stream(session, stream, &error));
  if (gpu)
    driver.synchronize(stream);
  trainrt_tensor host;
  CHECK_OK(trainrt_session_parameter(session, "w", &host, &error));
  CHECK(memcmp(host.data, w->tensor.data, 3 * sizeof(float)) == 0);
  CHECK_OK(trainrt_session_state(session, "w/exp_avg", &host, &error));
  CHECK(memcmp(host.data, m->tensor.data, 3 * sizeof(float)) == 0);
  CHECK_OK(trainrt_session_gradient(session, "w", &host, &error));
  CHECK(memcmp(host.data, g->tensor.data, 3 * sizeof(float)) == 0);
  CHECK_OK(trainrt_session_output(session, "pred", &host, &error));
  CHECK(memcmp(host.data, pred->tensor.data, ROWS * sizeof(float)) == 0);

  /* A view of a parameter may be written to. */
  ((float *)w->tensor.data)[0] = 8;
  CHECK_OK(trainrt_session_wait_stream(session, stream, &error));
  CHECK_OK(trainrt_session_parameter(session, "w", &host, &error));
  CHECK(((float *)host.data)[0] == 8);

  /* Larger outputs get a block of their own, the session goes, the values stay. */
  float before[ROWS], value[3];
  memcpy(before, pred->tensor.data, sizeof before);
  memcpy(value, w->tensor.data, sizeof value);
  batch = make_batch(inputs, &shapes, MORE);
  CHECK_OK(trainrt_eval(session, &batch, NULL, NULL, &error));
  struct DLManagedTensor *larger = take(session, TRAINRT_VALUE_OUTPUT, "pred", stream);
  CHECK(larger->tensor.data != pred->tensor.data && larger->tensor.shape[0] == MORE);
  CHECK(memcmp(before, pred->tensor.data, sizeof before) == 0);
  if (gpu)
    driver.synchronize(stream);
  trainrt_session_free(session);
  CHECK(memcmp(before, pred->tensor.data, sizeof before) == 0);
  CHECK(memcmp(value, w->tensor.data, sizeof value) == 0);
  CHECK(((float *)larger->tensor.data)[MORE - 1] == ((float *)larger->tensor.data)[MORE - 1]);
  CHECK(((float *)m->tensor.data)[0] != 0 && ((float *)g->tensor.data)[0] != 0);
  struct DLManagedTensor *all[] = {w, m, g, pred, larger};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i)
    give_back(all[i]);
  if (gpu)
    driver.destroy(stream);
}

/* A frozen parameter lies in a file that is mapped for reading: its tensor may be written to, and
 * is the caller's own. */
static void frozen(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  trainrt_tensor host;
  CHECK_OK(trainrt_session_parameter(session, "table", &host, &error));
  struct DLManagedTensor *table = take(session, TRAINRT_VALUE_PARAMETER, "table", NULL);
  CHECK(table->tensor.data != host.data);
  CHECK(memcmp(table->tensor.data, host.data, 4 * sizeof(float)) == 0);
  ((float *)table->tensor.data)[1] = 9;
  CHECK(((float *)host.data)[1] == 0.25f);
  trainrt_session_free(session);
  CHECK(((float *)table->tensor.data)[1] == 9);
  give_back(table);
}

/* Values that are set from the GPU's memory, in the order of both streams. */
static void from_device(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  void *stream = NULL;
  unsigned long long source = 0, array = 0, zeros = 0;
  driver.create(&stream, 0);
  driver.allocate(&source, 3 * sizeof(float));
  driver.allocate(&array, 3 * sizeof(float));
  driver.allocate(&zeros, 3 * sizeof(float));
  memset((void *)(uintptr_t)zeros, 0, 3 * sizeof(float));
  const float values[] = {4, 5, 6};
  memcpy((void *)(uintptr_t)source, values, sizeof values);
  const int64_t shape[] = {3};
  trainrt_tensor value = {(void *)(uintptr_t)array, TRAINRT_F32, 1, shape}, host;

  CHECK_OK(trainrt_session_set_state(
      session, "w/exp_avg", &(trainrt_tensor){(void *)values, TRAINRT_F32, 1, shape}, &error));
  /* The array gets its values only when somebody waits for `stream`. */
  driver.copy(array, source, sizeof values, stream);
  CHECK_OK(trainrt_session_wait_stream(session, stream, &error));
  CHECK_OK(trainrt_session_set_parameter(session, "w", &value, &error));
  CHECK_OK(trainrt_session_set_state(session, "w/exp_avg", &value, &error));
  CHECK(*(float *)(uintptr_t)array != 4); /* nobody has */
  /* Other values come behind the session's reads. */
  CHECK_OK(trainrt_session_signal_stream(session, stream, &error));
  driver.copy(array, zeros, sizeof values, stream);
  driver.synchronize(stream);
  CHECK(*(float *)(uintptr_t)array == 0);
  CHECK_OK(trainrt_session_parameter(session, "w", &host, &error));
  CHECK(memcmp(host.data, values, sizeof values) == 0);
  CHECK_OK(trainrt_session_state(session, "w/exp_avg", &host, &error));
  CHECK(memcmp(host.data, values, sizeof values) == 0);
  /* Inputs are read where they lie: nothing converts them there. */
  trainrt_named_tensor inputs[3];
  int64_t shapes[2];
  trainrt_batch batch = make_batch(inputs, &shapes, 1);
  inputs[2].tensor = (trainrt_tensor){(void *)(uintptr_t)array, TRAINRT_F16, 1, shapes};
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, NULL, &error), TRAINRT_BAD_DATA,
              "input 'y': an array in GPU memory must be float32, got float16");
  /* The session's own stream, and the default one under both of its names. */
  CHECK_OK(trainrt_session_wait_stream(session, trainrt_session_stream(session), &error));
  CHECK_OK(trainrt_session_signal_stream(session, NULL, &error));
  CHECK_OK(trainrt_session_signal_stream(session, (void *)1, &error));

  trainrt_session_free(session);
  driver.synchronize(stream);
  driver.destroy(stream);
  driver.free(array);
  driver.free(source);
  driver.free(zeros);
}

/* An input in the GPU's memory is read where it lies once its address has come before. */
static void in_place(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package), *reference = create(package);
  trainrt_named_tensor inputs[3], resident[3];
  int64_t shapes[2];
  trainrt_batch batch = make_batch(inputs, &shapes, ROWS), there = {resident, 3};
  unsigned long long memory = 0;
  driver.allocate(&memory, ROWS * sizeof *x);
  memcpy((void *)(uintptr_t)memory, x, ROWS * sizeof *x);
  memcpy(resident, inputs, sizeof inputs);
  resident[0].tensor.data = (void *)(uintptr_t)memory;
  trainrt_step_result a = trainrt_step_result_default(), b = a;
  const char *reason = NULL;
  for (int i = 0; i < 5; ++i) {
    CHECK_OK(trainrt_step(session, &there, 1, NULL, &a, &error));
    CHECK_OK(trainrt_step(reference, &batch, 1, NULL, &b, &error));
    CHECK(a.loss == b.loss);
    CHECK(trainrt_session_input_copies(session, &reason) == 1);
  }
  CHECK(strcmp(reason, "no batch of late had its address") == 0);
  resident[0].tensor.data = (char *)resident[0].tensor.data + sizeof *x;
  shapes[0] = ROWS - 1;
  CHECK_OK(trainrt_step(session, &there, 1, NULL, &a, &error));
  CHECK(trainrt_session_input_copies(session, &reason) == 2);
  CHECK(strcmp(reason, "its address is not a multiple of 256") == 0);
  trainrt_session_free(session);
  trainrt_session_free(reference);
  driver.free(memory);
}

/* The error of a lagged step is that of the call that returns its result, not of a view. */
static void lagged(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = create(package);
  trainrt_named_tensor inputs[3];
  int64_t shapes[2];
  trainrt_batch batch = make_batch(inputs, &shapes, ROWS);
  y[2] = INFINITY;
  trainrt_step_options options = trainrt_step_options_default();
  options.flags = TRAINRT_STEP_LAG;
  trainrt_step_result result = trainrt_step_result_default();
  CHECK_OK(trainrt_step(session, &batch, 1, &options, &result, &error));
  CHECK(result.step == 0);
  give_back(take(session, TRAINRT_VALUE_PARAMETER, "w", NULL));
  CHECK_ERROR(trainrt_session_finish(session, &result, &error), TRAINRT_NONFINITE, "not finite");
  trainrt_session_free(session);
}

int main(int argc, char **argv) {
  const int gpu = argc == 3 && strcmp(argv[2], "gpu") == 0;
  if (argc != 2 && !gpu)
    return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/m.tpk", argv[1]);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  if (gpu)
    load_driver();
  views(package, gpu);
  lagged(package);
  if (gpu) {
    from_device(package);
    in_place(package);
  } else {
    frozen(package);
  }
  trainrt_package_free(package);
  printf("%d checks failed\n", failures);
  return failures != 0;
}
