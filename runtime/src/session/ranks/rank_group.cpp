// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rank 0 runs on the caller's thread, so that its callbacks do.

#include "session/ranks/rank_group.h"
#include "comm/process_ranks.h"
#include "comm/thread_ranks.h"
#include "session/estimate.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <thread>

namespace trainrt {

/// Ranks of one process, at most: each has its memory.
static constexpr int mostRanks = 64;

/// All sessions share the package, and the threads: an equal part each, one at least. Behind an
/// error there is no group, but there may be a `first`.
Status RankGroup::create(std::shared_ptr<const Package> package, const SessionOptions &options,
                         int world, std::unique_ptr<Session> &first,
                         std::unique_ptr<RankGroup> &group, RankGroups groups) {
  if (world < 1 || world > mostRanks)
    return fail(Code::InvalidArgument, world, " ranks cannot be emulated: there may be 1 to ",
                mostRanks);
  if (groups.perNode < 0 || (groups.perNode && world % groups.perNode))
    return fail(Code::InvalidArgument, world, " ranks are no nodes of ", groups.perNode, " each");
  TRAINRT_TRY(checkReplicas(groups.perReplica, world));
  std::unique_ptr<RankGroup> result(new RankGroup());
  for (std::unique_ptr<Communicator> &rank : createThreadRanks(world, groups))
    result->ranks.push_back(std::move(rank));
  SessionOptions own = options;
  const unsigned threads = options.threads ? options.threads : availableCores();
  // They compute at the same time.
  own.threads = std::max(1u, threads / unsigned(world));
  own.ranks = result->ranks[0];
  TRAINRT_TRY(Session::create(package, own, first));
  // What is told is told once.
  own.progress = nullptr;
  own.commandDone = nullptr;
  own.density = nullptr;
  own.memory = nullptr;
  for (int rank = 1; rank < world; ++rank) {
    own.ranks = result->ranks[size_t(rank)];
    TRAINRT_TRY(Session::create(package, own, result->others.emplace_back()));
  }
  std::vector<Session *> sessions = {first.get()};
  for (const std::unique_ptr<Session> &other : result->others)
    sessions.push_back(other.get());
  first->setRanksHere(std::move(sessions));
  group = std::move(result);
  return {};
}

/// Costs nothing where nothing was changed. What the first one has no value for stays as it is on
/// the others. Behind an error `followed` is the old one: the next step does it again.
Status RankGroup::follow(Session &first) {
  if (first.revision() == followed)
    return {};
  const Program &program = first.package().program();
  for (std::unique_ptr<Session> &other : others) {
    for (size_t i = 0; i < program.parameters.size(); ++i) {
      ArrayView from, to;
      // Of what is in shards each has got its own.
      if (!first.hasParameter(i) || (world() > 1 && program.parameters[i].shardUnit))
        continue;
      TRAINRT_TRY(first.parameter(i, from));
      if (other->hasParameter(i)) {
        TRAINRT_TRY(other->parameter(i, to));
        // Frozen ones are most often the same file.
        if (from.data == to.data || !from.bytes ||
            std::memcmp(from.data, to.data, size_t(from.bytes)) == 0)
          continue;
      }
      TRAINRT_TRY(other->setParameter(i, from));
    }
    for (size_t i = 0; first.hasState() && i < program.state.size(); ++i) {
      ArrayView from;
      if (program.state[i].shardUnit)
        continue;
      TRAINRT_TRY(first.state(i, from));
      TRAINRT_TRY(other->setState(i, from));
    }
    other->restored(first.stepCount(), first.seed());
  }
  followed = first.revision();
  return {};
}

/// The other ranks' threads end with the call.
template <typename Body> Status RankGroup::together(Session &first, const Body &body) {
  TRAINRT_TRY(follow(first));
  std::vector<Status> statuses(others.size() + 1);
  auto run = [&](size_t rank) {
    try {
      statuses[rank] = body(rank, rank ? *others[rank - 1] : first);
    } catch (const std::exception &error) {
      // The others wait for this rank: they are told.
      statuses[rank] = Status(Code::Internal, error.what());
      ranks[rank]->abort(statuses[rank]);
    }
  };
  std::vector<std::thread> threads;
  for (size_t rank = 1; rank < statuses.size(); ++rank)
    threads.emplace_back(run, rank);
  run(0);
  for (std::thread &thread : threads)
    thread.join();
  return statuses[0];
}

/// The batches are views, of which copies cost little. Other calls are the first session's alone:
/// with `lag` the result is told later, but no step is left for whose end all ranks would have to
/// come.
Status RankGroup::step(Session &first, const std::vector<Batch> &batches,
                       const StepOptions &options, StepResult &result) {
  if (first.hasFailed(options))
    return first.finish(result);
  // Each rank takes batches that lie side by side, in the order of the ranks.
  const size_t share = batches.size() / size_t(world()), more = batches.size() % size_t(world());
  bool isLast = false;
  auto make = [&](StepResult &made) {
    const Status status = together(first, [&](size_t rank, Session &session) {
      const size_t begin = rank * share + std::min(rank, more);
      const size_t end = begin + share + (rank < more);
      const std::vector<Batch> own(batches.begin() + std::ptrdiff_t(begin),
                                   batches.begin() + std::ptrdiff_t(end));
      StepOptions settings = options;
      settings.lag = false;
      if (options.weights)
        settings.weights += begin;
      StepResult ignored;
      return session.step(own, settings, rank ? ignored : made);
    });
    isLast = made.last;
    return status;
  };
  const Status status = first.told(options, make, result);
  result.last = isLast;
  return status;
}

/// The others' outputs are those of the first one.
Status RankGroup::eval(Session &first, const Batch &batch, bool fillMissing, double &loss) {
  if (!first.sharesParameters())
    return first.eval(batch, fillMissing, loss);
  return together(first, [&](size_t rank, Session &session) {
    double ignored;
    return session.eval(batch, fillMissing, rank ? ignored : loss);
  });
}

Status RankGroup::save(Session &first, const std::string &directory, unsigned keep,
                       const std::string &dataPosition, CheckpointInfo &info,
                       CheckpointClaim *claim) {
  return together(first, [&](size_t rank, Session &session) {
    CheckpointInfo ignored;
    return saveCheckpoint(session, directory, keep, dataPosition, rank ? ignored : info,
                          rank ? nullptr : claim);
  });
}

} // namespace trainrt
