/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* A C11 host: opens DIR/m.tpk (pred = x . w + table[id]), trains, evaluates, saves, resumes, and
 * makes every kind of mistake. */
#include "check.h"
#include "dlpack_structs.h"
#include "trainrt/data.h"

enum { ROWS = 8 };
static float x[ROWS][3], y[ROWS];
static int64_t id[ROWS];
static const int64_t x_shape[] = {ROWS, 3}, row_shape[] = {ROWS};

static void make_batch(trainrt_named_tensor inputs[3]) {
  for (int i = 0; i < ROWS; ++i) {
    for (int j = 0; j < 3; ++j)
      x[i][j] = (float)((i * 7 + j * 3) % 5) - 2;
    y[i] = (float)(i % 3);
    id[i] = i % 4;
  }
  inputs[0] = (trainrt_named_tensor){"x", {x, TRAINRT_F32, 2, x_shape}};
  inputs[1] = (trainrt_named_tensor){"id", {id, TRAINRT_I64, 1, row_shape}};
  inputs[2] = (trainrt_named_tensor){"y", {y, TRAINRT_F32, 1, row_shape}};
}

static void introspection(const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_package_info info = trainrt_package_info_default();
  CHECK_OK(trainrt_package_get_info(package, &info, &error));
  CHECK(strcmp(info.loss, "loss") == 0 && strcmp(info.optimizer, "sgd") == 0);
  CHECK(info.can_train && info.can_accumulate && info.can_eval && info.lr == 0.1);
  CHECK(isnan(info.clip_norm) && strcmp(info.batch_symbol, "batch") == 0);
  CHECK(info.batch_symbol_index == 0 && trainrt_package_symbol_count(package) == 1);
  CHECK(strstr(trainrt_package_manifest(package), "\"checksums\""));

  trainrt_symbol symbol;
  CHECK_OK(trainrt_package_symbol(package, 0, &symbol, &error));
  CHECK(symbol.max == 1000 && strcmp(symbol.input, "x") == 0 && symbol.axis == 0);
  CHECK_ERROR(trainrt_package_symbol(package, 1, &symbol, &error), TRAINRT_INVALID_ARGUMENT, "1");
  int64_t rows = 0;
  CHECK_OK(trainrt_package_symbol_value(package, 0, 16, &rows, &error));
  CHECK(rows == 16);
  CHECK_ERROR(trainrt_package_symbol_value(package, 1, 16, &rows, &error), TRAINRT_INVALID_ARGUMENT,
              "there is no symbol 1 of an axis");

  CHECK(trainrt_package_tensor_count(package, TRAINRT_INPUT) == 3);
  CHECK(trainrt_package_tensor_count(package, TRAINRT_OUTPUT) == 2);
  CHECK(trainrt_package_tensor_count(package, TRAINRT_PARAMETER) == 2);
  CHECK(trainrt_package_tensor_count(package, TRAINRT_STATE) == 2);
  CHECK(trainrt_package_tensor_count(package, (trainrt_kind)9) == 0);
  trainrt_tensor_info tensor = trainrt_tensor_info_default();
  CHECK_OK(trainrt_package_tensor(package, TRAINRT_INPUT, 0, &tensor, &error));
  CHECK(tensor.rank == 2 && tensor.dims[0].value == -1 && tensor.dims[0].symbol == 0);
  CHECK(strcmp(tensor.dims[0].text, "batch") == 0 && tensor.dims[1].value == 3);
  CHECK(tensor.flags == (TRAINRT_FLAG_USED_IN_TRAIN | TRAINRT_FLAG_USED_IN_EVAL));
  CHECK_OK(trainrt_package_tensor(package, TRAINRT_PARAMETER, 1, &tensor, &error));
  CHECK(tensor.flags == 0 && strcmp(tensor.weights_file, "weights.raw") == 0);
  CHECK(tensor.weights_offset == 12 && tensor.weights_length == 16);
  CHECK_OK(trainrt_package_tensor(package, TRAINRT_OUTPUT, 0, &tensor, &error));
  CHECK(tensor.flags & TRAINRT_FLAG_LOSS);
  size_t index = 7;
  CHECK_OK(trainrt_package_find(package, TRAINRT_OUTPUT, "pred", &index, &error));
  CHECK(index == 1);
  CHECK_ERROR(trainrt_package_find(package, TRAINRT_OUTPUT, "prod", &index, &error),
              TRAINRT_NOT_FOUND, "did you mean 'pred'?");

  trainrt_memory memory = trainrt_memory_default();
  trainrt_symbol_value value = {"batch", 100};
  CHECK_OK(trainrt_package_memory(package, &value, 1, 1, 2, &memory, &error));
  CHECK(memory.arena >= 800 && memory.gradients == 0);
  /* 64 bytes a thread for kernels, and whole pages for the matmul. */
  CHECK(memory.scratch > 128 && (memory.scratch - 128) % 4096 == 0);
  CHECK(memory.total == memory.parameters + memory.state + memory.gradients + memory.arena +
                            memory.inputs + memory.outputs + memory.scratch);
  CHECK_ERROR(trainrt_package_memory(package, NULL, 0, 1, 1, &memory, &error),
              TRAINRT_INVALID_ARGUMENT, "symbol 'batch' needs a value");
  value.value = 2000;
  CHECK_ERROR(trainrt_package_memory(package, &value, 1, 1, 1, &memory, &error),
              TRAINRT_INVALID_ARGUMENT, "above the maximum 1000");
}

static void no_memory(void *user, void *memory, size_t bytes) {
  (void)user, (void)memory, (void)bytes;
}

static void mistakes(const char *directory, const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_package *none = NULL;
  CHECK_ERROR(trainrt_package_open("/no/such.tpk", &none, &error), TRAINRT_NOT_FOUND,
              "/no/such.tpk");
  CHECK_ERROR(trainrt_package_open(NULL, &none, &error), TRAINRT_INVALID_ARGUMENT,
              "'path' is NULL");
  CHECK_ERROR(trainrt_package_open(directory, &none, &error), TRAINRT_IO_ERROR, "regular file");
  CHECK(trainrt_package_open("/no/such.tpk", &none, NULL) == TRAINRT_NOT_FOUND && !none);
  trainrt_package_free(NULL);
  trainrt_session_free(NULL);
  trainrt_file_free(NULL);
  trainrt_error_free(NULL);
  CHECK(trainrt_error_status(NULL) == TRAINRT_OK);
  CHECK(strcmp(trainrt_status_name((trainrt_status)99), "unknown") == 0);

  trainrt_session *session = NULL;
  CHECK_ERROR(trainrt_session_create(NULL, NULL, &session, &error), TRAINRT_INVALID_ARGUMENT,
              "package");
  trainrt_session_options options = trainrt_session_options_default();
  options.size = 4000;
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_INVALID_ARGUMENT,
              "options->size is 4000; this library knows up to ");
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_INVALID_ARGUMENT,
              " bytes (set it with the *_default() function, or use a newer library)");
  options = trainrt_session_options_default();
  options.allocator.deallocate = no_memory;
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_INVALID_ARGUMENT,
              "options->allocator needs both of its functions");
  CHECK_ERROR(trainrt_package_open_signed("m.tpk", "", &none, &error), TRAINRT_INVALID_ARGUMENT,
              "key is empty");
  options = trainrt_session_options_default();
  options.weights = TRAINRT_WEIGHTS_FILE;
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_INVALID_ARGUMENT,
              "weights_path");
  options.weights_path = "/no/such.safetensors";
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_NOT_FOUND,
              "/no/such.safetensors");
  options.weights = (trainrt_weights)17;
  CHECK_ERROR(trainrt_session_create(package, &options, &session, &error), TRAINRT_INVALID_ARGUMENT,
              "17");

  options = trainrt_session_options_default();
  options.threads = 1;
  CHECK_OK(trainrt_session_create(package, &options, &session, &error));
  trainrt_named_tensor inputs[3];
  make_batch(inputs);
  trainrt_batch batch = {inputs, 3};
  trainrt_step_result result = trainrt_step_result_default();
  CHECK_ERROR(trainrt_step(session, &batch, 0, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "at least one batch");
  CHECK_ERROR(trainrt_step(NULL, &batch, 1, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "session");
  inputs[1].name = NULL;
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "input 1 of the batch has no name");
  make_batch(inputs);
  inputs[0].tensor.data = NULL;
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "data is NULL");
  make_batch(inputs);
  inputs[0].tensor.rank = -1;
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "rank");
  make_batch(inputs);
  id[3] = 40;
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, &result, &error), TRAINRT_BAD_DATA,
              "value 40 at [3]");
  make_batch(inputs);
  batch.count = 2;
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, &result, &error), TRAINRT_BAD_DATA, "'y'");
  batch.count = 3;
  result.size = 3;
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, &result, &error), TRAINRT_INVALID_ARGUMENT,
              " bytes (set it with the *_default() function)");
  trainrt_step_options step_options = trainrt_step_options_default();
  step_options.flags = 64;
  CHECK_ERROR(trainrt_step(session, &batch, 1, &step_options, NULL, &error),
              TRAINRT_INVALID_ARGUMENT, "flags");
  CHECK_ERROR(trainrt_session_set_count(session, "labelled", 8, &error), TRAINRT_NOT_FOUND,
              "'labelled'");
  CHECK_ERROR(trainrt_session_set_count(session, "batch", 8, &error), TRAINRT_INVALID_ARGUMENT,
              "is no count");
  CHECK_ERROR(trainrt_session_set_count(session, NULL, 8, &error), TRAINRT_INVALID_ARGUMENT,
              "symbol");
  trainrt_plan_info plans = trainrt_plan_info_default();
  CHECK_OK(trainrt_session_plans(session, &plans, &error));
  CHECK(plans.plans == 0 && plans.batches == 0 && plans.declined_count == 0 && !*plans.declined);
  plans.size = 1;
  CHECK_ERROR(trainrt_session_plans(session, &plans, &error), TRAINRT_INVALID_ARGUMENT,
              "info->size is 1; this library knows up to ");
  trainrt_tensor tensor;
  CHECK_ERROR(trainrt_session_parameter(session, "ww", &tensor, &error), TRAINRT_NOT_FOUND, "'w'");
  CHECK_ERROR(trainrt_session_output(session, "pred", &tensor, &error), TRAINRT_NOT_FOUND,
              "not computed");
  CHECK_ERROR(trainrt_session_gradient(session, "w", &tensor, &error), TRAINRT_NOT_FOUND, "yet");
  CHECK_ERROR(trainrt_checkpoint_load(session, "/no/such", NULL, &error), TRAINRT_NOT_FOUND,
              "/no/such");
  CHECK_ERROR(trainrt_checkpoint_save(session, directory, 0, "{", &error), TRAINRT_INVALID_ARGUMENT,
              "JSON");
  trainrt_session_cancel(session);
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, NULL, &error), TRAINRT_CANCELLED, "cancelled");
  CHECK(trainrt_session_step(session) == 0);
  x[0][0] = INFINITY;
  result = trainrt_step_result_default();
  CHECK_ERROR(trainrt_step(session, &batch, 1, NULL, &result, &error), TRAINRT_NONFINITE,
              "not finite");
  CHECK(result.nonfinite == 1);
  trainrt_session_free(session);
}

static void training(const char *directory, const trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_session *session = NULL;
  CHECK_OK(trainrt_session_create(package, NULL, &session, &error));
  trainrt_named_tensor inputs[3];
  make_batch(inputs);
  trainrt_batch batches[2] = {{inputs, 3}, {inputs, 3}};
  trainrt_step_result result = trainrt_step_result_default();
  double first = 0;
  for (int i = 0; i < 10; ++i) {
    CHECK_OK(trainrt_step(session, batches, i % 2 + 1, NULL, &result, &error));
    if (i == 0)
      first = result.loss;
  }
  CHECK(result.step == 10 && result.loss < first && result.peak_bytes > 0);
  CHECK(trainrt_session_step(session) == 10);
  CHECK_OK(trainrt_gradients(session, batches, 1, NULL, &result, &error));
  trainrt_tensor gradient, w;
  CHECK_OK(trainrt_session_gradient(session, "w", &gradient, &error));
  CHECK(gradient.rank == 1 && gradient.shape[0] == 3 && gradient.dtype == TRAINRT_F32);
  trainrt_memory memory = trainrt_memory_default();
  CHECK_OK(trainrt_session_memory(session, &memory, &error));
  CHECK(memory.total == result.peak_bytes && memory.gradients > 0);

  char path[4096];
  snprintf(path, sizeof path, "%s/checkpoints", directory);
  CHECK_OK(trainrt_checkpoint_save(session, path, 2, "{\"row\": 80}", &error));
  CHECK_OK(trainrt_step(session, batches, 1, NULL, &result, &error));
  CHECK_OK(trainrt_session_parameter(session, "w", &w, &error));
  float through[3];
  memcpy(through, w.data, sizeof through);

  trainrt_session_options options = trainrt_session_options_default();
  options.weights = TRAINRT_WEIGHTS_NONE;
  trainrt_session *resumed = NULL;
  CHECK_OK(trainrt_session_create(package, &options, &resumed, &error));
  CHECK_ERROR(trainrt_step(resumed, batches, 1, NULL, NULL, &error), TRAINRT_MISSING_WEIGHTS,
              "'w'");
  /* The folder is another run's until its checkpoint has been loaded, and one session's then. */
  CHECK_ERROR(trainrt_checkpoint_claim(resumed, path, 0, &error), TRAINRT_BAD_DATA, "step-10");
  CHECK_ERROR(trainrt_checkpoint_claim(resumed, path, 8, &error), TRAINRT_INVALID_ARGUMENT,
              "flags: 8 has unknown bits");
  trainrt_checkpoint_info info = trainrt_checkpoint_info_default();
  CHECK_OK(trainrt_checkpoint_load(resumed, path, &info, &error));
  CHECK_OK(trainrt_checkpoint_claim(resumed, path, 0, &error));
  CHECK_ERROR(trainrt_checkpoint_claim(session, path, TRAINRT_CLAIM_OVERWRITE, &error),
              TRAINRT_IO_ERROR, "is in use: process ");
  CHECK_ERROR(trainrt_checkpoint_save(session, path, 0, NULL, &error), TRAINRT_IO_ERROR,
              "is in use: process ");
  uint64_t free_bytes = 0;
  CHECK_OK(trainrt_session_free_memory(session, &free_bytes, &error));
  CHECK(free_bytes > 1 << 20);
  CHECK(info.step == 10 && strcmp(info.data_position, "{\"row\":80}") == 0);
  CHECK_OK(trainrt_step(resumed, batches, 1, NULL, &result, &error));
  CHECK_OK(trainrt_session_parameter(resumed, "w", &w, &error));
  CHECK(memcmp(through, w.data, sizeof through) == 0);

  float values[3] = {1, 2, 3};
  const int64_t shape[] = {3};
  trainrt_tensor value = {values, TRAINRT_F32, 1, shape};
  CHECK_OK(trainrt_session_set_parameter(resumed, "w", &value, &error));
  CHECK_OK(trainrt_session_set_state(resumed, "w/exp_avg", &value, &error));
  CHECK_OK(trainrt_session_state(resumed, "w/exp_avg", &w, &error));
  CHECK(memcmp(values, w.data, sizeof values) == 0);

  trainrt_eval_result eval = trainrt_eval_result_default();
  CHECK_OK(trainrt_eval(resumed, &batches[0], NULL, &eval, &error));
  trainrt_tensor pred;
  CHECK_OK(trainrt_session_output(resumed, "pred", &pred, &error));
  CHECK(pred.rank == 1 && pred.shape[0] == ROWS);
  float expected = x[5][0] + 2 * x[5][1] + 3 * x[5][2] + 0.25f;
  CHECK(fabsf(((float *)pred.data)[5] - expected) < 1e-5f);

  snprintf(path, sizeof path, "%s/out.safetensors", directory);
  trainrt_named_tensor named = {"pred", pred}, twice[] = {named, named};
  CHECK_ERROR(trainrt_file_write(path, twice, 2, &error), TRAINRT_INVALID_ARGUMENT,
              "tensor 'pred' is given twice");
  CHECK_OK(trainrt_file_write(path, &named, 1, &error));
  trainrt_file *file = NULL;
  CHECK_OK(trainrt_file_open(path, &file, &error));
  CHECK(trainrt_file_count(file) == 1 && strcmp(trainrt_file_name(file, 0), "pred") == 0);
  CHECK(trainrt_file_name(file, 1) == NULL);
  trainrt_tensor read;
  CHECK_OK(trainrt_file_tensor(file, 0, &read, &error));
  CHECK(memcmp(read.data, pred.data, ROWS * sizeof(float)) == 0);
  CHECK_ERROR(trainrt_file_tensor(file, 1, &read, &error), TRAINRT_INVALID_ARGUMENT,
              "there is no array 1");
  trainrt_file_free(file);
  trainrt_session_free(resumed);
  trainrt_session_free(session);
}

static void dlpack(void) {
  trainrt_error *error = NULL;
  float values[6] = {1, 2, 3, 4, 5, 6};
  const int64_t shape[] = {2, 3};
  trainrt_tensor tensor = {values, TRAINRT_F32, 2, shape}, back;
  CHECK(trainrt_tensor_elements(&tensor) == 6);
  CHECK(trainrt_dtype_size(TRAINRT_BF16) == 2 &&
        strcmp(trainrt_dtype_name(TRAINRT_BOOL), "bool8") == 0);
  struct DLManagedTensor *managed = NULL;
  CHECK_OK(trainrt_tensor_to_dlpack(&tensor, &managed, &error));
  CHECK(managed->tensor.data == values && managed->tensor.dtype.bits == 32);
  CHECK_OK(trainrt_tensor_from_dlpack(managed, &back, &error));
  CHECK(back.data == values && back.rank == 2 && back.shape[1] == 3 && back.dtype == TRAINRT_F32);
  int64_t strides[] = {1, 2};
  managed->tensor.strides = strides;
  CHECK_ERROR(trainrt_tensor_from_dlpack(managed, &back, &error), TRAINRT_INVALID_ARGUMENT,
              "DLPack tensor: it is not dense row-major; make it contiguous first");
  managed->tensor.strides = NULL;
  managed->tensor.dtype.bits = 24;
  CHECK_ERROR(trainrt_tensor_from_dlpack(managed, &back, &error), TRAINRT_INVALID_ARGUMENT,
              "DLPack tensor: element type (code 2, 24 bits) is not supported");
  managed->tensor.dtype.bits = 32;
  managed->tensor.ndim = -1;
  CHECK_ERROR(trainrt_tensor_from_dlpack(managed, &back, &error), TRAINRT_INVALID_ARGUMENT,
              "DLPack tensor: it has no shape");
  managed->tensor.ndim = 2;
  managed->tensor.device_type = 2;
  CHECK_ERROR(trainrt_tensor_from_dlpack(managed, &back, &error), TRAINRT_INVALID_ARGUMENT,
              "DLPack tensor: it is on device type 2; copy it to the CPU first");
  int32_t gpu = 0;
  managed->tensor.device_id = 3;
  CHECK_OK(trainrt_tensor_from_dlpack_device(managed, &back, &gpu, &error));
  CHECK(back.data == values && gpu == 3);
  managed->tensor.device_type = 1;
  CHECK_OK(trainrt_tensor_from_dlpack_device(managed, &back, &gpu, &error));
  CHECK(gpu == -1);
  managed->tensor.device_type = 7;
  CHECK_ERROR(trainrt_tensor_from_dlpack_device(managed, &back, &gpu, &error),
              TRAINRT_INVALID_ARGUMENT, "neither a CPU nor a CUDA GPU");
  managed->deleter(managed);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  CHECK(trainrt_version() == TRAINRT_VERSION);
  char path[4096];
  snprintf(path, sizeof path, "%s/m.tpk", argv[1]);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  introspection(package);
  mistakes(argv[1], package);
  training(argv[1], package);
  dlpack();
  trainrt_package_free(package);
  printf("%d checks failed\n", failures);
  return failures != 0;
}
