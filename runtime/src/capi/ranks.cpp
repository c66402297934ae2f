// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Ranks of the C API.

#include "trainrt/ranks.h"
#include "capi/internal.h"
#include "comm/launchers.h"
#include "comm/process_ranks.h"

#include <cassert>
#include <mutex>

using namespace trainrt;
using namespace trainrt::capi;

namespace {

/// Ranks that a caller's functions connect. What has failed once is not tried again.
class CallerRank final : public Communicator {
public:
  explicit CallerRank(const trainrt_communicator &caller)
      : Communicator(caller.rank, caller.world), caller(caller) {}

  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    assert(sent.size() == size_t(world()) && received.size() == sent.size());
    TRAINRT_TRY(failure());
    std::vector<const void *> from;
    std::vector<void *> to;
    std::vector<int64_t> fromBytes, toBytes;
    for (const Sent &piece : sent) {
      from.push_back(piece.data);
      fromBytes.push_back(piece.bytes);
    }
    for (const Received &piece : received) {
      to.push_back(piece.data);
      toBytes.push_back(piece.bytes);
    }
    const int result =
        caller.exchange(caller.user, from.data(), fromBytes.data(), to.data(), toBytes.data());
    if (!result)
      return {};
    std::lock_guard lock(mutex);
    return lost = fail(Code::RankLost, "rank ", rank(), ": the caller's exchange has failed with ",
                       result);
  }

  bool exchangesBeside() const override { return false; }

  void abort(const Status &why) override {
    if (caller.abort)
      caller.abort(caller.user, why.message().c_str());
  }

  Status failure() const override {
    std::lock_guard lock(mutex);
    return lost;
  }

private:
  const trainrt_communicator caller;
  mutable std::mutex mutex;
  Status lost;
};

} // namespace

extern "C" {

trainrt_status trainrt_ranks_join(const trainrt_ranks_options *options, trainrt_ranks **ranks,
                                  trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!options || !ranks)
      return nullArgument(options ? "ranks" : "options");
    trainrt_ranks_options given = trainrt_ranks_options_default();
    TRAINRT_TRY(readStruct(options, "options", given));
    if (!given.coordinator)
      return nullArgument("options->coordinator");
    for (auto [value, name] : {std::pair(given.join_seconds, "join_seconds"),
                               {given.silence_seconds, "silence_seconds"},
                               {given.exchange_seconds, "exchange_seconds"}})
      // In whole seconds: 0 would end the run at once.
      if (value < 1)
        return fail(Code::InvalidArgument, "options->", name, ": ", value, " is no time to wait");
    if (given.ranks_per_node < 0)
      return fail(Code::InvalidArgument, "options->ranks_per_node: ", given.ranks_per_node,
                  " is no number of ranks");
    ProcessRank which{given.rank,
                      given.world,
                      given.coordinator,
                      given.listening,
                      {},
                      given.vendor_sums != 0,
                      {"", given.ranks_per_node, given.local_world, given.local_rank},
                      given.shard_within};
    which.limits = {std::chrono::seconds(given.join_seconds),
                    std::chrono::seconds(given.silence_seconds),
                    std::chrono::seconds(given.exchange_seconds)};
    // Sessions share what it holds: they may outlive the handle.
    auto result = std::make_unique<trainrt_ranks>();
    TRAINRT_TRY(joinRanks(which, result->impl));
    *ranks = result.release();
    return {};
  });
}

trainrt_status trainrt_ranks_find(trainrt_ranks_options *options, const char **launcher,
                                  trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!options)
      return nullArgument("options");
    trainrt_ranks_options given = trainrt_ranks_options_default();
    TRAINRT_TRY(readStruct(options, "options", given));
    LaunchedRank found;
    found.coordinator = given.coordinator ? given.coordinator : "";
    TRAINRT_TRY(findLaunched(found));
    if (launcher)
      *launcher = found.launcher;
    if (!found.launcher)
      return {};
    static thread_local std::string coordinator;
    coordinator = found.coordinator;
    given.rank = int32_t(found.rank);
    given.world = int32_t(found.world);
    given.local_world = int32_t(found.local);
    given.local_rank = int32_t(found.localRank);
    given.coordinator = coordinator.empty() ? nullptr : coordinator.c_str();
    return writeStruct(given, "options", options);
  });
}

const char *trainrt_ranks_nodes(const trainrt_ranks *ranks) {
  return ranks ? ranks->impl->nodes.c_str() : "";
}

const char *trainrt_ranks_carrier(const trainrt_ranks *ranks) {
  return ranks ? ranks->impl->carrier.c_str() : "";
}

trainrt_status trainrt_ranks_create(const trainrt_communicator *communicator, trainrt_ranks **ranks,
                                    trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!communicator || !ranks)
      return nullArgument(communicator ? "ranks" : "communicator");
    trainrt_communicator given = trainrt_communicator_default();
    TRAINRT_TRY(readStruct(communicator, "communicator", given));
    if (!given.exchange)
      return nullArgument("communicator->exchange");
    TRAINRT_TRY(checkRank(given.rank, given.world));
    auto result = std::make_unique<trainrt_ranks>();
    result->impl = std::make_shared<CallerRank>(given);
    *ranks = result.release();
    return {};
  });
}

trainrt_status trainrt_ranks_gather(trainrt_ranks *ranks, const void *bytes, size_t size,
                                    const trainrt_bytes **all, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!ranks || !all || (size && !bytes))
      return nullArgument(!ranks ? "ranks" : !all ? "all" : "bytes");
    const std::string mine(static_cast<const char *>(bytes), size);
    TRAINRT_TRY(ranks->impl->gather(mine, ranks->gathered));
    ranks->views.clear();
    for (const std::string &text : ranks->gathered)
      ranks->views.push_back({text.data(), text.size()});
    *all = ranks->views.data();
    return {};
  });
}

void trainrt_ranks_refuse(trainrt_ranks *ranks, const char *why) {
  if (ranks)
    ranks->impl->notes.refusal =
        Status(Code::BadData, why ? shownLines(why) : "it has no batch for the step");
}

void trainrt_ranks_set_count(trainrt_ranks *ranks, int64_t count) {
  if (ranks)
    ranks->impl->notes.count = count;
}

int64_t trainrt_ranks_count(const trainrt_ranks *ranks) {
  return ranks ? ranks->impl->notes.total : -1;
}

void trainrt_ranks_abort(trainrt_ranks *ranks, const char *why) {
  if (ranks)
    ranks->impl->abort(Status(Code::RankLost, why ? why : "it has failed"));
}

void trainrt_ranks_free(trainrt_ranks *ranks) { delete ranks; }

} // extern "C"
