/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
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
  CHECK(two.scratch == one.scratch + 512); /* a few floats, twice */
  symbols[1].value = 0;
  CHECK_ERROR(trainrt_package_memory(package, symbols, 2, 2, 1, &two, &error),
              TRAINRT_INVALID_ARGUMENT, "symbol 'world': 0 is no number of ranks");
  trainrt_package_free(package);
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
  trainrt_package_free(package);
  if (!failures)
    printf("ok\n");
  return failures != 0;
}
