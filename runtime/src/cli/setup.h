// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// From options to a session that is ready to run, its weights and checkpoint loaded; and the
// signals that end a run in order.
#ifndef TRAINRT_CLI_SETUP_H
#define TRAINRT_CLI_SETUP_H

#include "cli/data/batch_order.h"
#include "cli/decisions.h"
#include "cli/density.h"
#include "cli/handles.h"
#include "cli/log/memory_stats.h"
#include "cli/options.h"
#include "cli/profile.h"
#include "cli/reporter.h"
#include "cli/watch.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace trainrt::run {

/// Where in the data a checkpoint was written, and with what.
struct DataState {
  BatchOrder::Position position;
  int64_t rows = 0, batchSize = 0, accumulate = 1, ranks = 1;
  bool shuffle = false;
  /// Of a sampler, else "": the position is one in its plan.
  std::string plan, planOptions;
  /// Of the data's values, and what the command line has said; both empty in checkpoints of before
  /// 1.2.
  std::string dataHash;
  Decisions decisions;
  std::optional<WatchState> watch{};

  std::string toJson() const;
  /// nullopt where `text` is no such JSON.
  static std::optional<DataState> fromJson(const std::string &text);
};

struct Session {
  SessionHandle handle;
  /// With --resume: what the checkpoint says about the data, if anything.
  std::optional<DataState> resumed;

  trainrt_session *get() const { return handle.get(); }
};

/// Throws Failure. `inference`: nothing will be trained. `ranks`, `profile`, `density` and `memory`
/// may be null. `told`: an earlier session of this run has said what this one has to say.
Session openSession(const Options &options, const Package &package, bool inference,
                    trainrt_ranks *ranks, Profile *profile, DensityLog *density, MemoryLog *memory,
                    bool told, Reporter &reporter);

/// Removes the checkpoints of a folder for whose steps it is said, and returns the steps of others.
std::vector<int64_t> removeCheckpoints(const std::string &folder,
                                       const std::function<bool(int64_t step)> &isRemoved);

/// Of --keep-best: what there is in the folder of the best checkpoints must be this run's. Those of
/// after the step that it goes on from come again. Throws Failure.
void claimBest(const Options &options, trainrt_session *session);

/// Passes the session's warnings on.
void reportWarnings(trainrt_session *session, Reporter &reporter);

/// From now on SIGINT, SIGTERM and SIGHUP only set a flag; a second one ends the process as usual.
/// A closed pipe and a file that becomes too large are errors of the write, not signals; a mapped
/// file that becomes shorter is one of input. A crash names the plug-in that it is in.
void catchSignals();
/// Takes the numbers of standard streams that are closed, for nothing: a file or a connection that
/// had one would get what is told.
void holdStandardStreams();
/// While one lives such a signal ends the process: ranks that wait for each other have nothing to
/// end in order. `tells`: with a message.
class EndsAtSignals {
public:
  explicit EndsAtSignals(bool tells);
  ~EndsAtSignals();
  EndsAtSignals(const EndsAtSignals &) = delete;
  EndsAtSignals &operator=(const EndsAtSignals &) = delete;
};
/// The name of the signal that came, or nullptr.
const char *interruption();

} // namespace trainrt::run

#endif // TRAINRT_CLI_SETUP_H
