/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/* data_test DIR: a C11 host that asks DIR/tokens.tpk what in its data is real, is told of the
 * density of its steps, of DIR/rows.tpk how long rows are, and shares such rows with other ranks.
 */
#include "check.h"
#include "trainrt/data.h"

enum { ROWS = 6 };

/* What the host was told of, and what it costs. */
typedef struct {
  int told;
  int64_t valid[8], steps[8];
  trainrt_token_role roles[8];
  int64_t first_rows[ROWS];
  int phases;
} host;

static void density_done(void *user, const trainrt_density *density) {
  host *h = user;
  CHECK(density->size == sizeof *density && !strcmp(density->input, "id") && !density->mask);
  CHECK(density->total == ROWS && density->rows == ROWS);
  h->valid[h->told] = density->valid;
  h->steps[h->told] = density->step;
  h->roles[h->told] = density->role;
  for (int i = 0; i < ROWS && density->role == TRAINRT_EMBED; ++i)
    h->first_rows[i] = density->valid_by_row[i];
  ++h->told;
}

static void memory_done(void *user, const trainrt_phase_memory *memory) {
  host *h = user;
  CHECK(memory->size == sizeof *memory);
  if (memory->step > 1)
    return;
  CHECK(
      !strcmp(memory->phase, h->phases ? "post_step" : "pre_step")); /* the package has no marks */
  CHECK(memory->allocated && memory->allocated <= memory->peak && memory->peak <= memory->cached);
  ++h->phases;
}

static void describes_and_tells(const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/tokens.tpk", folder);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  CHECK(trainrt_package_token_input_count(package) == 2);
  CHECK(trainrt_package_token_input_count(NULL) == 0);
  trainrt_token_input input = trainrt_token_input_default();
  CHECK_OK(trainrt_package_token_input(package, 0, &input, &error));
  CHECK(!strcmp(input.input, "id") && input.role == TRAINRT_EMBED && input.pad == 2 && !input.mask);
  CHECK_OK(trainrt_package_token_input(package, 1, &input, &error));
  CHECK(input.role == TRAINRT_LABEL && input.pad == -100);
  CHECK_ERROR(trainrt_package_token_input(package, 2, &input, &error), TRAINRT_INVALID_ARGUMENT,
              "there is no input of tokens 2");

  host h = {0};
  trainrt_session_options options = trainrt_session_options_default();
  options.density = density_done;
  options.density_user = &h;
  options.memory = memory_done;
  options.memory_user = &h;
  trainrt_session *session = NULL;
  CHECK_OK(trainrt_session_create(package, &options, &session, &error));
  float x[ROWS][3] = {{0}}, y[ROWS] = {0};
  int64_t id[ROWS] = {2, 1, 2, 0, 3, 2};
  const int64_t x_shape[] = {ROWS, 3}, row_shape[] = {ROWS};
  trainrt_named_tensor inputs[] = {{"x", {x, TRAINRT_F32, 2, x_shape}},
                                   {"id", {id, TRAINRT_I64, 1, row_shape}},
                                   {"y", {y, TRAINRT_F32, 1, row_shape}}};
  trainrt_batch batch = {inputs, 3};
  CHECK_OK(trainrt_step(session, &batch, 1, NULL, NULL, &error));
  CHECK(h.told == 2 && h.valid[0] == 3 && h.steps[0] == 1 && h.roles[0] == TRAINRT_EMBED);
  CHECK(h.valid[1] == ROWS && h.roles[1] == TRAINRT_LABEL);
  CHECK(h.phases == 2);
  CHECK(h.first_rows[0] == 0 && h.first_rows[1] == 1 && h.first_rows[5] == 0);
  CHECK_OK(trainrt_step(session, &batch, 1, NULL, NULL, &error));
  CHECK(h.told == 4 && h.steps[2] == 2);
  trainrt_eval_result result = trainrt_eval_result_default();
  CHECK_OK(trainrt_eval(session, &batch, NULL, &result, &error));
  CHECK(h.told == 4);

  int64_t lengths[ROWS];
  CHECK_ERROR(trainrt_package_row_lengths(package, &batch, NULL, lengths, ROWS, &error),
              TRAINRT_NOT_FOUND, "the model has no input of rows");
  CHECK_ERROR(trainrt_package_row_lengths(package, &batch, "batch", lengths, ROWS, &error),
              TRAINRT_NOT_FOUND, "no input with the size 'batch'");
  CHECK_ERROR(trainrt_package_row_lengths(package, &batch, "none", lengths, ROWS, &error),
              TRAINRT_INVALID_ARGUMENT, "there is no symbol 'none'");

  int64_t real = -1, all = -1;
  CHECK_OK(trainrt_package_count_real(package, &batch, TRAINRT_EMBED, &real, &all, &error));
  CHECK(real == 3 && all == ROWS);
  y[1] = -100;
  CHECK_OK(trainrt_package_count_real(package, &batch, TRAINRT_LABEL, &real, &all, &error));
  CHECK(all == ROWS && real <= ROWS);
  trainrt_batch first = {inputs, 1};
  CHECK_OK(trainrt_package_count_real(package, &first, TRAINRT_EMBED, &real, &all, &error));
  CHECK(real == 0 && all == 0);
  CHECK_ERROR(trainrt_package_count_real(package, &batch, TRAINRT_EMBED, NULL, &all, &error),
              TRAINRT_INVALID_ARGUMENT, "real");
  trainrt_session_free(session);
  trainrt_package_free(package);
}

static void measures_rows(const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/rows.tpk", folder);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  float x[2][3] = {{1, 0, 0}, {1, 1, 0}};
  const int64_t shape[] = {2, 3};
  trainrt_named_tensor inputs[] = {{"x", {x, TRAINRT_F32, 2, shape}}};
  trainrt_batch batch = {inputs, 1};
  int64_t lengths[3] = {0};
  CHECK_OK(trainrt_package_row_lengths(package, &batch, NULL, lengths, 2, &error));
  CHECK(lengths[0] == 1 && lengths[1] == 2);
  CHECK_ERROR(trainrt_package_row_lengths(package, &batch, NULL, lengths, 3, &error),
              TRAINRT_BAD_DATA, "the arrays have 2 rows, not 3");
  trainrt_package_free(package);
}

static double squared(void *user, int64_t row) {
  const int64_t *lengths = user;
  return (double)(lengths[row] * lengths[row]);
}

static void shares_rows(void) {
  trainrt_error *error = NULL;
  enum { N = 50, WORLD = 3 };
  int64_t lengths[N];
  for (int i = 0; i < N; ++i)
    lengths[i] = 1 + (i * 37) % 29;
  trainrt_sampler *ranks[WORLD];
  for (int rank = 0; rank < WORLD; ++rank) {
    trainrt_sampler_options options = trainrt_sampler_options_default();
    options.rows = N;
    options.lengths = lengths;
    options.complexity = squared;
    options.complexity_user = lengths;
    options.tokens_per_batch = 64;
    options.shuffle = 1;
    options.seed = 7;
    options.rank = rank;
    options.world = WORLD;
    CHECK_OK(trainrt_sampler_create(&options, &ranks[rank], &error));
    CHECK(trainrt_sampler_hash(ranks[rank]) == trainrt_sampler_hash(ranks[0]));
  }
  int seen[N] = {0};
  const int64_t batches = trainrt_sampler_batches(ranks[0], 0);
  for (int64_t batch = 0; batch < batches; ++batch) {
    size_t rows_of_first = 0;
    for (int rank = 0; rank < WORLD; ++rank) {
      int64_t epoch = -1, at = -1, longest = 0;
      CHECK_OK(trainrt_sampler_position(ranks[rank], &epoch, &at, &error));
      CHECK(epoch == 0 && at == batch);
      const int64_t *rows = NULL;
      size_t count = 0;
      CHECK_OK(trainrt_sampler_next(ranks[rank], &rows, &count, &error));
      rows_of_first = rank ? rows_of_first : count;
      CHECK(count == rows_of_first);
      for (size_t i = 0; i < count; ++i) {
        ++seen[rows[i]];
        longest = lengths[rows[i]] > longest ? lengths[rows[i]] : longest;
      }
      CHECK((int64_t)count * longest <= 64);
    }
  }
  int missing = 0, twice = 0;
  for (int i = 0; i < N; ++i) {
    missing += seen[i] == 0;
    twice += seen[i] == 2;
  }
  CHECK(missing == 0 && twice == 1); /* 50 rows are 51 for three */

  /* From a position of one rank on, all go on. */
  int64_t before[N], rows_before = 0, epoch, batch;
  CHECK_OK(trainrt_sampler_position(ranks[1], &epoch, &batch, &error));
  CHECK(epoch == 1 && batch == 0);
  const int64_t *rows = NULL;
  size_t count = 0;
  CHECK_OK(trainrt_sampler_next(ranks[1], &rows, &count, &error));
  CHECK_OK(trainrt_sampler_next(ranks[1], &rows, &count, &error));
  memcpy(before, rows, count * sizeof *rows);
  rows_before = (int64_t)count;
  CHECK_OK(trainrt_sampler_seek(ranks[1], 1, 1, &error));
  CHECK_OK(trainrt_sampler_next(ranks[1], &rows, &count, &error));
  CHECK((int64_t)count == rows_before && !memcmp(before, rows, count * sizeof *rows));
  int64_t most_rows = 0, most_length = 0;
  CHECK_OK(trainrt_sampler_largest(ranks[0], &most_rows, &most_length, &error));
  CHECK(most_rows * most_length <= 64 && most_rows * most_length > 48);

  CHECK(trainrt_sampler_batches(ranks[0], -1) == -1 && trainrt_sampler_batches(NULL, 0) == -1);
  CHECK_ERROR(trainrt_sampler_seek(ranks[0], 0, -1, &error), TRAINRT_INVALID_ARGUMENT,
              "there is no batch -1 of epoch 0");
  CHECK_ERROR(trainrt_sampler_next(NULL, &rows, &count, &error), TRAINRT_INVALID_ARGUMENT,
              "argument 'sampler' is NULL");
  for (int rank = 0; rank < WORLD; ++rank)
    trainrt_sampler_free(ranks[rank]);
  trainrt_sampler_free(NULL);

  trainrt_sampler_options options = trainrt_sampler_options_default();
  trainrt_sampler *sampler = NULL;
  CHECK_ERROR(trainrt_sampler_create(&options, &sampler, &error), TRAINRT_INVALID_ARGUMENT,
              "rows: 0");
  options.rows = 4;
  options.lengths = lengths;
  options.tokens_per_batch = 20;
  CHECK_ERROR(trainrt_sampler_create(&options, &sampler, &error), TRAINRT_BAD_DATA,
              "row 3 needs 25 token positions, more than the 20 of a batch");
  CHECK(!sampler);
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  describes_and_tells(argv[1]);
  measures_rows(argv[1]);
  shares_rows();
  printf("%d failures\n", failures);
  return failures != 0;
}
