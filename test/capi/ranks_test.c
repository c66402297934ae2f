/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
#define _POSIX_C_SOURCE 200112L /* setenv */
/* ranks_test DIR: a C11 host that is a rank, the only one of its run, of DIR/m.tpk, and misuses
 * what there is for ranks. */
#include "check.h"
#include "trainrt/ranks.h"

static void is_a_rank(trainrt_package *package) {
  trainrt_error *error = NULL;
  trainrt_ranks *ranks = NULL;
  trainrt_ranks_options options = trainrt_ranks_options_default();
  CHECK(options.world == 1 && options.silence_seconds == 5 && options.listening == -1);
  CHECK_ERROR(trainrt_ranks_join(NULL, &ranks, &error), TRAINRT_INVALID_ARGUMENT, "options");
  CHECK_ERROR(trainrt_ranks_join(&options, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "options->coordinator");
  options.coordinator = "nowhere";
  CHECK_ERROR(trainrt_ranks_join(&options, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "coordinator 'nowhere' is no HOST:PORT");
  options.coordinator = "127.0.0.1:1";
  options.join_seconds = 0;
  CHECK_ERROR(trainrt_ranks_join(&options, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "options->join_seconds: 0 is no time to wait");
  options.join_seconds = 60;
  options.ranks_per_node = -1;
  CHECK_ERROR(trainrt_ranks_join(&options, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "options->ranks_per_node: -1 is no number of ranks");
  options.ranks_per_node = 0;
  options.rank = 1;
  CHECK_ERROR(trainrt_ranks_join(&options, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "rank 1 is none of 1");
  options.rank = 0;
  trainrt_ranks_abort(NULL, "nothing");
  trainrt_ranks_free(NULL);

  trainrt_session_options settings = trainrt_session_options_default();
  trainrt_session *session = NULL;
  settings.emulate_world = 2;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error), TRAINRT_UNSUPPORTED,
              "the package is for one rank, not for 2");
  settings.emulate_world = 3;
  settings.shard_within = 2;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error),
              TRAINRT_INVALID_ARGUMENT,
              "3 ranks cannot share replicas of the model by 2 each: shard_within is a divisor");
  settings.shard_within = 0;
  settings.ranks_per_node = 2;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error),
              TRAINRT_INVALID_ARGUMENT, "3 ranks are no nodes of 2 each");
  settings.ranks_per_node = 0;
  settings.emulate_world = -1;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error),
              TRAINRT_INVALID_ARGUMENT, "-1 ranks cannot be emulated");

  /* A port that is free; another program may be quicker. */
  char at[32];
  trainrt_status status = TRAINRT_RANK_LOST;
  for (int port = 23417; port < 23517 && status == TRAINRT_RANK_LOST; ++port) {
    snprintf(at, sizeof at, "127.0.0.1:%d", port);
    options.coordinator = at;
    trainrt_error_free(error);
    error = NULL;
    status = trainrt_ranks_join(&options, &ranks, &error);
  }
  CHECK_OK(status);
  CHECK(!strcmp(trainrt_ranks_nodes(ranks), "") && !strcmp(trainrt_ranks_nodes(NULL), ""));
  CHECK(!strcmp(trainrt_ranks_carrier(ranks), "") && !strcmp(trainrt_ranks_carrier(NULL), ""));
  settings.ranks_per_node = 2;
  settings.emulate_world = 0;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error),
              TRAINRT_INVALID_ARGUMENT,
              "options->ranks_per_node and shard_within need emulate_world");
  settings.ranks_per_node = 0;
  settings.emulate_world = -1;
  settings.ranks = ranks;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error),
              TRAINRT_INVALID_ARGUMENT,
              "options->ranks and emulate_world exclude each other: a process is one rank");
  settings.emulate_world = 0;
  CHECK_OK(trainrt_session_create(package, &settings, &session, &error));
  trainrt_session_free(session);
  trainrt_ranks_abort(ranks, "the host has had enough");
  trainrt_ranks_free(ranks);
}

/* Of a package for ranks on GPUs, without any: what they exchange in. */
static void needs_memory(const char *folder) {
  char path[512];
  snprintf(path, sizeof path, "%s/gpu-ranks.tpk", folder);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  trainrt_memory one = trainrt_memory_default(), two = trainrt_memory_default();
  trainrt_symbol_value symbols[2] = {{"batch", 4}, {"world", 1}};
  CHECK_OK(trainrt_package_memory(package, symbols, 2, 2, 1, &one, &error));
  symbols[1].value = 2;
  CHECK_OK(trainrt_package_memory(package, symbols, 2, 2, 1, &two, &error));
  CHECK(two.scratch == one.scratch + 256); /* a few floats of the other */
  symbols[1].value = 0;
  CHECK_ERROR(trainrt_package_memory(package, symbols, 2, 2, 1, &two, &error),
              TRAINRT_INVALID_ARGUMENT, "symbol 'world': 0 is no number of ranks");
  trainrt_session_options settings = trainrt_session_options_default();
  trainrt_session *session = NULL;
  settings.emulate_world = 2;
  settings.shard_within = 1;
  CHECK_ERROR(trainrt_session_create(package, &settings, &session, &error), TRAINRT_UNSUPPORTED,
              "there is nothing that only 1 of 2 ranks could share (--shard-within)");
  trainrt_package_free(package);
}

/* What a rank alone exchanges with itself; `user` counts, and fails from the tenth call on. */
static int exchange(void *user, const void *const *sent, const int64_t *sent_bytes,
                    void *const *received, const int64_t *received_bytes) {
  if (++*(int *)user >= 10)
    return 7;
  if (sent_bytes[0] != received_bytes[0])
    return 1;
  if (sent_bytes[0])
    memcpy(received[0], sent[0], (size_t)sent_bytes[0]);
  return 0;
}

static void connects_by_itself(void) {
  trainrt_error *error = NULL;
  trainrt_ranks *ranks = NULL;
  int calls = 0;
  trainrt_communicator communicator = trainrt_communicator_default();
  CHECK_ERROR(trainrt_ranks_create(NULL, &ranks, &error), TRAINRT_INVALID_ARGUMENT, "communicator");
  CHECK_ERROR(trainrt_ranks_create(&communicator, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "communicator->exchange");
  communicator.exchange = exchange;
  communicator.user = &calls;
  communicator.rank = 1;
  CHECK_ERROR(trainrt_ranks_create(&communicator, &ranks, &error), TRAINRT_INVALID_ARGUMENT,
              "rank 1 is none of 1");
  communicator.rank = 0;
  CHECK_OK(trainrt_ranks_create(&communicator, &ranks, &error));
  const trainrt_bytes *all = NULL;
  CHECK_OK(trainrt_ranks_gather(ranks, "abc", 3, &all, &error));
  CHECK(all[0].size == 3 && !memcmp(all[0].data, "abc", 3));
  CHECK_OK(trainrt_ranks_gather(ranks, NULL, 0, &all, &error));
  CHECK(all[0].size == 0);
  CHECK_ERROR(trainrt_ranks_gather(ranks, NULL, 1, &all, &error), TRAINRT_INVALID_ARGUMENT,
              "bytes");
  calls = 9;
  for (int i = 0; i < 2; ++i) /* a lost rank stays lost, and the caller is not asked again */
    CHECK_ERROR(trainrt_ranks_gather(ranks, "", 0, &all, &error), TRAINRT_RANK_LOST,
                "rank 0: the caller's exchange has failed with 7");
  CHECK(calls == 10);
  trainrt_ranks_abort(ranks, "nobody has asked to be told");
  trainrt_ranks_refuse(NULL, "nothing");
  trainrt_ranks_set_count(NULL, 1);
  CHECK(trainrt_ranks_count(NULL) == -1 && trainrt_ranks_count(ranks) == -1);
  trainrt_ranks_free(ranks);
}

static void finds_its_launcher(void) {
  trainrt_error *error = NULL;
  const char *launcher = "none";
  trainrt_ranks_options options = trainrt_ranks_options_default();
  CHECK_ERROR(trainrt_ranks_find(NULL, &launcher, &error), TRAINRT_INVALID_ARGUMENT, "options");
  CHECK_OK(trainrt_ranks_find(&options, &launcher, &error));
  CHECK(launcher == NULL && options.world == 1 && options.coordinator == NULL);
  setenv("RANK", "1", 1);
  CHECK_OK(trainrt_ranks_find(&options, &launcher, &error));
  CHECK(launcher == NULL);
  setenv("WORLD_SIZE", "3", 1);
  CHECK_ERROR(trainrt_ranks_find(&options, &launcher, &error), TRAINRT_INVALID_ARGUMENT,
              "torchrun does not say where rank 0 is (MASTER_ADDR and MASTER_PORT)");
  setenv("MASTER_ADDR", "here", 1);
  setenv("MASTER_PORT", "20", 1);
  setenv("LOCAL_WORLD_SIZE", "2", 1);
  CHECK_OK(trainrt_ranks_find(&options, &launcher, &error));
  CHECK(!strcmp(launcher, "torchrun") && options.rank == 1 && options.world == 3);
  CHECK(options.local_rank == -1);
  setenv("LOCAL_RANK", "1", 1);
  CHECK_OK(trainrt_ranks_find(&options, &launcher, &error));
  CHECK(options.local_rank == 1 && options.local_world == 2 &&
        !strcmp(options.coordinator, "here:20"));
  setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1); /* whose store has the port */
  options.coordinator = NULL;
  CHECK_OK(trainrt_ranks_find(&options, NULL, &error));
  CHECK(!strcmp(options.coordinator, "here:21"));
  options.coordinator = "there:5";
  CHECK_OK(trainrt_ranks_find(&options, NULL, &error));
  CHECK(!strcmp(options.coordinator, "there:5"));
  setenv("RANK", "x", 1);
  CHECK_ERROR(trainrt_ranks_find(&options, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "torchrun has set RANK to 'x', which is no number of a rank");
  setenv("RANK", "3", 1);
  CHECK_ERROR(trainrt_ranks_find(&options, NULL, &error), TRAINRT_INVALID_ARGUMENT,
              "torchrun has made this process rank 3 of 3");
}

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  CHECK(!strcmp(trainrt_status_name(TRAINRT_RANK_LOST), "rank_lost"));
  char path[512];
  snprintf(path, sizeof path, "%s/m.tpk", argv[1]);
  trainrt_error *error = NULL;
  trainrt_package *package = NULL;
  CHECK_OK(trainrt_package_open(path, &package, &error));
  trainrt_package_info info = trainrt_package_info_default();
  CHECK_OK(trainrt_package_get_info(package, &info, &error));
  CHECK(info.distribute == NULL);
  is_a_rank(package);
  needs_memory(argv[1]);
  connects_by_itself();
  finds_its_launcher();
  trainrt_package_free(package);
  if (!failures)
    printf("ok\n");
  return failures != 0;
}
