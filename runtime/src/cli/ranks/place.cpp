// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The place of a process, and what follows from it.
#include "cli/ranks/place.h"

#include "cli/format.h"
#include "cli/ranks/launch.h"
#include "format/byte_text.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace trainrt::run {

namespace {

/// Each process of a machine has the next GPU, unless the launcher has left each of them its own
/// one.
int64_t gpuOf(int64_t localRank) {
  const char *visible = std::getenv("CUDA_VISIBLE_DEVICES");
  const bool isOne = visible && *visible && !std::strchr(visible, ',');
  return localRank >= 0 && isOne ? 0 : localRank;
}

} // namespace

/// What a person says comes first.
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
  trainrt_ranks_options found = trainrt_ranks_options_default();
  if (!place.coordinator.empty())
    found.coordinator = place.coordinator.c_str();
  const char *launcher = nullptr;
  ErrorSlot error;
  if (const trainrt_status status = trainrt_ranks_find(&found, &launcher, error))
    throw Failure(exitUsage, error.message(status));
  if (launcher) {
    place.rank = found.rank;
    place.world = found.world;
    place.local = found.local_world;
    place.localRank = found.local_rank;
    place.gpu = gpuOf(found.local_rank);
    place.source = launcher;
    place.coordinator = found.coordinator ? found.coordinator : "";
    return place;
  }
  if (!place.coordinator.empty())
    throw Failure(exitUsage,
                  "--coordinator needs --world N and --rank R, which no launcher has set "
                  "(torchrun, mpirun, srun)");
  return place;
}

/// torchrun has one command line for all starts, and a folder without checkpoints is none to resume
/// from, nor one with checkpoints to begin in.
void continueRestarted(const RankPlace &place, Options &options) {
  const char *text = std::getenv("TORCHELASTIC_RESTART_COUNT");
  const std::optional<int64_t> restarts = parseInteger(text ? text : "");
  if (place.source != "torchrun" || !restarts || *restarts < 1 || options.save.empty() ||
      !hasCheckpoint(options.save))
    return;
  options.resume = options.save;
  if (place.isFirst())
    std::fprintf(stderr,
                 "trainc-run: torchrun has begun the run again (restart %lld); it goes on from the "
                 "last checkpoint in %s\n",
                 static_cast<long long>(*restarts), options.save.c_str());
}

void checkGroups(const Options &options, int64_t world) {
  for (auto [each, name] : {std::pair(options.ranksPerNode, "--ranks-per-node"),
                            {options.shardWithin, "--shard-within"}}) {
    if (each && world == 1)
      throw Failure(exitUsage, std::string(name) +
                                   " needs several ranks: --ranks N, --emulate-world N, "
                                   "--coordinator or a launcher");
    if (each && world % each)
      throw Failure(exitUsage, std::string(name) + " " + std::to_string(each) +
                                   " is no divisor of the number of ranks, " +
                                   std::to_string(world));
  }
}

/// What is written is rank 0's, but for checkpoints, of which each rank writes a part; and what is
/// told, too, unless all are to speak. What decides on steps and checkpoints stays the same on all:
/// data, checkpoints that are read, --eval with --patience, the end.
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
  // Launchers that bind processes to cores have shared them out.
  const int64_t cores = std::thread::hardware_concurrency();
  if (!options.threads && place.local > 1 && cores == ::sysconf(_SC_NPROCESSORS_ONLN))
    options.threads = std::max<int64_t>(1, cores / place.local);
  if (place.isFirst())
    return;
  for (std::string *text :
       {&options.logDir, &options.summary, &options.predict, &options.exportPath,
        &options.mergeAdapter, &options.profile, &options.output})
    text->clear();
  if (options.allRanksSpeak)
    return;
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
  settings.ranks_per_node = int32_t(options.ranksPerNode);
  settings.shard_within = int32_t(options.shardWithin);
  settings.local_world = int32_t(place.local);
  settings.local_rank = int32_t(place.localRank);
  settings.join_seconds = int32_t(options.joinTimeout);
  settings.exchange_seconds = int32_t(options.exchangeTimeout);
  ErrorSlot error;
  const trainrt_status status = trainrt_ranks_join(&settings, &ranks, error);
  // What was asked for is the command line's.
  if (status == TRAINRT_INVALID_ARGUMENT)
    throw Failure(exitUsage, error.message(status));
  error.check(status);
  own = place.rank;
  count = place.world;
}

/// Other exceptions than Failures go through: then the ranks end by `fail`.
std::vector<std::string> JoinedRanks::together(const std::function<std::string()> &make) {
  assert(!isAlone());
  ByteWriter mine;
  try {
    const std::string made = make();
    mine.add(int32_t(exitSuccess));
    mine.add(made);
  } catch (const Failure &failure) {
    mine.add(int32_t(failure.code));
    mine.add(std::string(failure.what()));
  }
  const trainrt_bytes *all = nullptr;
  ErrorSlot error;
  error.check(trainrt_ranks_gather(ranks, mine.bytes.data(), mine.bytes.size(), &all, error));
  std::vector<std::string> result;
  for (int64_t rank = 0; rank < count; ++rank) {
    const std::string bytes(static_cast<const char *>(all[rank].data), all[rank].size);
    ByteReader reader(bytes);
    int32_t code = exitInternal;
    std::string text;
    reader.read(code);
    reader.read(text);
    // All come to the same: that of the lowest rank.
    if (code != exitSuccess)
      throw Failure(ExitCode(code), "rank " + std::to_string(rank) + ": " + text,
                    /*isShared=*/true);
    result.push_back(std::move(text));
  }
  return result;
}

/// Rank 0 is the measure. Who differs in several is told of the first by its name.
void requireAlike(JoinedRanks &ranks, const std::map<std::string, std::string> &facts) {
  const std::vector<std::string> all = ranks.together([&] {
    ByteWriter writer;
    for (const auto &[name, value] : facts) {
      writer.add(name);
      writer.add(value);
    }
    return writer.bytes;
  });
  std::map<std::string, std::string> first;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    std::map<std::string, std::string> others;
    for (ByteReader reader(all[rank]); !reader.isDone();) {
      std::string name;
      reader.read(name);
      reader.read(others[name]);
    }
    if (rank == 0)
      first = others;
    std::map<std::string, std::string> names = first;
    names.insert(others.begin(), others.end());
    auto text = [](const auto &of, const std::string &name) {
      const auto at = of.find(name);
      return at == of.end() ? "not given" : at->second.empty() ? "on" : at->second;
    };
    for (const auto &[name, ignored] : names)
      if (text(first, name) != text(others, name))
        throw Failure(exitInput,
                      "the ranks of a run have the same data and the same options, but " + name +
                          " is " + text(first, name) + " on rank 0 and " + text(others, name) +
                          " on rank " + std::to_string(rank),
                      /*isShared=*/true);
  }
}

} // namespace trainrt::run
