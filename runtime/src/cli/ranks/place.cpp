// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The variables that launchers set.
#include "cli/ranks/place.h"

#include "cli/format.h"
#include "cli/ranks/launch.h"

#include <cstdlib>

namespace trainrt::run {

namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The variable is set: callers have asked.
int64_t number(const char *name, const std::string &source) {
  const std::optional<int64_t> value = parseInteger(variable(name));
  if (!value || *value < 0)
    throw Failure(exitUsage, source + " has set " + name + " to '" + variable(name) +
                                 "', which is no number of a rank");
  return *value;
}

/// A port that all processes of a job find for themselves.
/// FNV-1a of the job's name, into 20000 to 39999. Two jobs of one machine may hit the same port;
/// --coordinator then helps.
int64_t portOf(const std::string &job) {
  uint64_t hash = 1469598103934665603u;
  for (unsigned char c : job)
    hash = (hash ^ c) * 1099511628211u;
  return 20000 + int64_t(hash % 20000);
}

/// The first of "node[3-5,9],other".
/// A bracket behind the first comma belongs to another node. In brackets the first number ends at
/// '-', ',' or ']'.
std::string firstNode(const std::string &list) {
  const size_t bracket = list.find('['), comma = list.find(',');
  if (bracket == std::string::npos || comma < bracket)
    return list.substr(0, comma);
  return list.substr(0, bracket) +
         list.substr(bracket + 1, list.find_first_of("-,]", bracket + 1) - bracket - 1);
}

/// Names of the variables that hold the number of the process and how many there are.
struct Launcher {
  const char *name, *rank, *world, *local;
  /// "HOST:PORT", or "" where --coordinator has to say it.
  std::string (*coordinator)(int64_t world);
};

const Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK",
     [](int64_t) -> std::string {
       const std::string host = variable("MASTER_ADDR");
       const std::optional<int64_t> port = parseInteger(variable("MASTER_PORT"));
       // Its own store listens at MASTER_PORT.
       const int64_t more = variable("TORCHELASTIC_USE_AGENT_STORE").empty() ? 0 : 1;
       return host.empty() || !port ? "" : host + ":" + std::to_string(*port + more);
     }},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK",
     [](int64_t world) -> std::string {
       // On one machine.
       const bool isLocal = variable("OMPI_COMM_WORLD_LOCAL_SIZE") == std::to_string(world);
       std::string job = variable("PMIX_NAMESPACE");
       if (job.empty())
         job = variable("OMPI_MCA_ess_base_jobid");
       return isLocal && !job.empty() ? "127.0.0.1:" + std::to_string(portOf(job)) : "";
     }},
    {"srun (Slurm)", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID",
     [](int64_t) -> std::string {
       std::string nodes = variable("SLURM_STEP_NODELIST");
       if (nodes.empty())
         nodes = variable("SLURM_JOB_NODELIST");
       const std::string job = variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID");
       return nodes.empty() ? "" : firstNode(nodes) + ":" + std::to_string(portOf(job));
     }},
};

/// Each process of a machine has the next GPU, unless the launcher has left each of them its own
/// one.
int64_t gpuOf(const Launcher &launcher) {
  const std::string visible = variable("CUDA_VISIBLE_DEVICES");
  if (variable(launcher.local).empty())
    return -1;
  const bool isOne = !visible.empty() && visible.find(',') == std::string::npos;
  return isOne ? 0 : number(launcher.local, launcher.name);
}

} // namespace

/// What a person says comes first. A launcher counts only where it has set both variables, so that
/// a RANK left over from something else does no harm.
RankPlace findPlace(const Options &options) {
  RankPlace place;
  place.coordinator = options.coordinator;
  if (options.given.count("--coordinator") && options.given.count("--world")) {
    place.rank = options.rank;
    place.world = options.world;
    place.source = "the command line";
    place.gpu = options.localRank;
    if (place.rank == 0)
      place.listening = inheritedSocket();
    return place;
  }
  for (const Launcher &launcher : launchers) {
    if (variable(launcher.rank).empty() || variable(launcher.world).empty())
      continue;
    place.rank = number(launcher.rank, launcher.name);
    place.world = number(launcher.world, launcher.name);
    place.source = launcher.name;
    place.gpu = gpuOf(launcher);
    if (place.world < 1 || place.rank >= place.world)
      throw Failure(exitUsage, place.source + " has made this process rank " +
                                   std::to_string(place.rank) + " of " +
                                   std::to_string(place.world));
    if (place.coordinator.empty())
      place.coordinator = launcher.coordinator(place.world);
    if (place.coordinator.empty() && !place.isAlone())
      throw Failure(exitUsage, place.source + " does not say where rank 0 is; --coordinator "
                                              "HOST:PORT does");
    return place;
  }
  if (!place.coordinator.empty())
    throw Failure(exitUsage,
                  "--coordinator needs --world N and --rank R, which no launcher has set "
                  "(torchrun, mpirun, srun)");
  return place;
}

/// What is written or told is rank 0's, but for checkpoints, of which each rank writes a part. What
/// decides on steps and checkpoints stays the same on all: data, --eval with --patience, the end.
void applyPlace(const RankPlace &place, Options &options) {
  if (place.gpu >= 0 && !options.given.count("--device"))
    options.device = place.gpu;
  if (place.isAlone())
    return;
  options.share = place.world;
  options.ownRank = place.rank;
  // Steps are shared out, not the data: a position in it means the same in any world.
  options.rank = 0;
  options.world = 1;
  if (place.speaks())
    return;
  for (std::string *text :
       {&options.logDir, &options.summary, &options.predict, &options.exportPath,
        &options.mergeAdapter, &options.profile, &options.output})
    text->clear();
  options.density.reset();
  options.outputs.clear();
  options.memoryStats = options.json = options.measurePeak = false;
  options.peakFlops.reset();
  options.logLevel = LogLevel::error;
}

/// Once. Returns when all ranks are there, or throws when their time is up.
void JoinedRanks::join(const RankPlace &place, const Options &options) {
  trainrt_ranks_options settings = trainrt_ranks_options_default();
  settings.rank = int32_t(place.rank);
  settings.world = int32_t(place.world);
  settings.coordinator = place.coordinator.c_str();
  settings.listening = place.listening;
  settings.vendor_sums = options.reduce == "nccl";
  settings.join_seconds = int32_t(options.joinTimeout);
  settings.exchange_seconds = int32_t(options.exchangeTimeout);
  ErrorSlot error;
  error.check(trainrt_ranks_join(&settings, &ranks, error));
}

} // namespace trainrt::run
