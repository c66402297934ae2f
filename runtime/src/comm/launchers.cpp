// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The variables that launchers set.

#include "comm/launchers.h"
#include "format/hash.h"

#include <charconv>
#include <cstdlib>

namespace trainrt {

namespace {

std::string variable(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

bool parseNumber(const std::string &text, int64_t &value) {
  const char *const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && at == end && value >= 0;
}

/// A port that all processes of a job find for themselves.
/// Of the job's name, into 20000 to 39999. Two jobs of one machine may hit the same port; a
/// coordinator that is given then helps.
int64_t portOf(const std::string &job) {
  return 20000 + int64_t(fnv1a64(job.data(), job.size()) % 20000);
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

/// Names of the variables that hold the number of the process and how many there are, also on this
/// machine, where one says it (`local`: how many).
struct Launcher {
  const char *name, *rank, *world, *localRank, *local;
  /// "HOST:PORT", or "" where the variables do not say it.
  std::string (*coordinator)(int64_t world);
  const char *wanted; ///< the variables that would
};

const Launcher launchers[] = {
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
     [](int64_t) -> std::string {
       const std::string host = variable("MASTER_ADDR");
       int64_t port = 0;
       // Its own store listens at MASTER_PORT.
       const int64_t more = variable("TORCHELASTIC_USE_AGENT_STORE").empty() ? 0 : 1;
       return host.empty() || !parseNumber(variable("MASTER_PORT"), port)
                  ? ""
                  : host + ":" + std::to_string(port + more);
     },
     "MASTER_ADDR and MASTER_PORT"},
    {"mpirun (Open MPI)", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE",
     [](int64_t world) -> std::string {
       // On one machine.
       const bool isLocal = variable("OMPI_COMM_WORLD_LOCAL_SIZE") == std::to_string(world);
       std::string job = variable("PMIX_NAMESPACE");
       if (job.empty())
         job = variable("OMPI_MCA_ess_base_jobid");
       return isLocal && !job.empty() ? "127.0.0.1:" + std::to_string(portOf(job)) : "";
     },
     "PMIX_NAMESPACE, on one machine"},
    // In a batch script, outside of any srun, there is a SLURM_PROCID and a SLURM_NTASKS, too, but
    // one process.
    {"srun (Slurm)", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr,
     [](int64_t) -> std::string {
       std::string nodes = variable("SLURM_STEP_NODELIST");
       if (nodes.empty())
         nodes = variable("SLURM_JOB_NODELIST");
       const std::string job = variable("SLURM_JOB_ID") + "." + variable("SLURM_STEP_ID");
       return nodes.empty() ? "" : firstNode(nodes) + ":" + std::to_string(portOf(job));
     },
     "SLURM_STEP_NODELIST"},
};

} // namespace

/// A launcher counts only where it has set both variables, so that a RANK left over from something
/// else does no harm. The first one counts: what is started by another has set its own inside.
Status findLaunched(LaunchedRank &result) {
  for (const Launcher &launcher : launchers) {
    if (variable(launcher.rank).empty() || variable(launcher.world).empty())
      continue;
    result.launcher = launcher.name;
    for (auto [name, value] : {std::pair(launcher.rank, &result.rank),
                               {launcher.world, &result.world},
                               {launcher.localRank, &result.localRank}})
      // That on the machine need not be told.
      if ((value != &result.localRank || !variable(name).empty()) &&
          !parseNumber(variable(name), *value))
        return fail(Code::InvalidArgument, launcher.name, " has set ", name, " to '",
                    shown(variable(name)), "', which is no number of a rank");
    if (result.world < 1 || result.rank >= result.world)
      return fail(Code::InvalidArgument, launcher.name, " has made this process rank ", result.rank,
                  " of ", result.world);
    if (launcher.local && !parseNumber(variable(launcher.local), result.local))
      result.local = 0;
    if (result.coordinator.empty())
      result.coordinator = launcher.coordinator(result.world);
    if (result.coordinator.empty() && result.world > 1)
      return fail(Code::InvalidArgument, launcher.name, " does not say where rank 0 is (",
                  launcher.wanted, "); name a coordinator, HOST:PORT");
    return {};
  }
  return {};
}

} // namespace trainrt
