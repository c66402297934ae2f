// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Checkpoints: DIR/step-N with parameters.safetensors, optimizer.safetensors and state.json. A
// folder appears under its name when all of it is on disk; a damaged one is recognized by its
// checksums.
#ifndef TRAINRT_CORE_CHECKPOINT_H
#define TRAINRT_CORE_CHECKPOINT_H

#include "core/session.h"

#include <string>

namespace trainrt {

struct CheckpointInfo {
  int64_t step = 0, seed = 0;
  std::string path;         ///< of the step-N folder
  std::string dataPosition; ///< JSON text
};

/// `dataPosition`: JSON text, or empty. Removes all but the newest `keep` (0: none).
Status saveCheckpoint(Session &session, const std::string &directory, unsigned keep,
                      const std::string &dataPosition, CheckpointInfo &info);

/// The newest valid one in `directory`, or `directory` itself. Reasons for skipping others are
/// appended to the session's warnings. The session is unchanged unless it succeeds.
Status loadCheckpoint(Session &session, const std::string &directory, CheckpointInfo &info);

} // namespace trainrt

#endif // TRAINRT_CORE_CHECKPOINT_H
