// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints: DIR/step-N with parameters.safetensors, optimizer.safetensors and state.json. A
// folder appears under its name when all of it is on disk; a damaged one is recognized by its
// checksums.
#ifndef TRAINRT_SESSION_CHECKPOINT_H
#define TRAINRT_SESSION_CHECKPOINT_H

#include "io/folder_lock.h"
#include "session/session.h"

#include <string>
#include <vector>

namespace trainrt {

struct CheckpointInfo {
  int64_t step = 0, seed = 0;
  std::string path;         ///< of the step-N folder
  std::string dataPosition; ///< JSON text
};

/// A folder that one run saves into, and no other.
struct CheckpointClaim {
  FolderLock lock;
  /// Folders of another run's checkpoints, which go once the first of this run is whole.
  std::vector<std::string> foreign;
};

/// Takes `directory` for the run that `session` is in; `loaded` is the checkpoint that it goes on
/// from, if any. BadData where it holds checkpoints of another run, unless they may be overwritten;
/// IoError where another process has it. May add to the session's warnings. Of several ranks only
/// rank 0 takes it.
Status claimCheckpoints(Session &session, const std::string &directory, bool overwrite,
                        const CheckpointInfo &loaded, CheckpointClaim &claim);

/// `dataPosition`: JSON text, or empty. Of the run's checkpoints, removes all but the newest `keep`
/// (0: none) and the newest whose values are finite; warns where those of this one are not. Without
/// a claim on the folder, waits for others that are saving there. All ranks of a run call this
/// together, each with its name of a folder that all of them see, and write a part each; `keep`,
/// `dataPosition` and `claim` are rank 0's, warnings too.
Status saveCheckpoint(Session &session, const std::string &directory, unsigned keep,
                      const std::string &dataPosition, CheckpointInfo &info,
                      CheckpointClaim *claim = nullptr);

/// The newest valid one in `directory`, or `directory` itself. Reasons for skipping others are
/// appended to the session's warnings. The session is unchanged unless it succeeds.
Status loadCheckpoint(Session &session, const std::string &directory, CheckpointInfo &info);

} // namespace trainrt

#endif // TRAINRT_SESSION_CHECKPOINT_H
