/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception */
/*
 * Checkpoints: all that a session needs to go on, in a folder. Part of trainrt.h, which includes it
 * and whose rules hold here, too.
 */
#ifndef TRAINRT_CHECKPOINT_H
#define TRAINRT_CHECKPOINT_H

#include "trainrt/trainrt.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Writes `directory`/step-N/{parameters,optimizer}.safetensors and state.json, N =
 * `trainrt_session_step`: under a temporary name, synced, then renamed, so a crash leaves the old
 * ones whole. Then removes all but the newest `keep` up to N (0: keeps all). `data_position` is
 * JSON text that `trainrt_checkpoint_load` gives back; NULL: none. One process at a time saves into
 * a folder: others wait, and where one has claimed it, it is an IO_ERROR. Ranks (trainrt/ranks.h)
 * make this call together, all with a folder that is the same for all of them, and write a part
 * each; `keep` and `data_position` are those of rank 0. */
TRAINRT_API trainrt_status trainrt_checkpoint_save(trainrt_session *session, const char *directory,
                                                   uint32_t keep, const char *data_position,
                                                   trainrt_error **error);

enum {
  /* the folder may hold checkpoints of another run: they are removed once the session's first one
     there is whole */
  TRAINRT_CLAIM_OVERWRITE = 1
};

/* Since 1.2: keeps `directory`, which is made if it is absent, for this session until the session
 * is freed or claims another one. IO_ERROR names the process that has it. BAD_DATA: it holds
 * checkpoints of another run, which are all but those up to the one that this session has loaded
 * from there, and TRAINRT_CLAIM_OVERWRITE is not among `flags`. Of several ranks rank 0 takes it;
 * for others the call does nothing. */
TRAINRT_API trainrt_status trainrt_checkpoint_claim(trainrt_session *session, const char *directory,
                                                    uint32_t flags, trainrt_error **error);

typedef struct trainrt_checkpoint_info {
  size_t size;
  int64_t step;
  int64_t seed;
  const char *path;          /* of the step-N folder; valid until the next load or save */
  const char *data_position; /* JSON text; "null" without one; valid until the next load or save */
} trainrt_checkpoint_info;

static inline trainrt_checkpoint_info trainrt_checkpoint_info_default(void) {
  trainrt_checkpoint_info info;
  memset(&info, 0, sizeof info);
  info.size = sizeof info;
  return info;
}

/* Loads the newest valid checkpoint under `directory` (or `directory` itself if it is a step-N
 * folder): parameters, state, step and seed, so that the run continues bit for bit. Damaged ones
 * are skipped with a warning
 * (`trainrt_session_warnings`). NOT_FOUND: no valid one, with the reason of each. BAD_DATA: it is
 * of another model: its tensors are others, or it was trained with another graph (of which only
 * packages and checkpoints since 1.2 tell, see `any_model` of `trainrt_session_options`; packages
 * that are for inference only take it with a warning). `info` may be NULL. */
TRAINRT_API trainrt_status trainrt_checkpoint_load(trainrt_session *session, const char *directory,
                                                   trainrt_checkpoint_info *info,
                                                   trainrt_error **error);

#ifdef __cplusplus
}
#endif
#endif /* TRAINRT_CHECKPOINT_H */
