// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// C++17 over trainrt/ranks.h, header only: processes that train one package together.
//
//   trainrt::Ranks ranks;               // as torchrun, mpirun or srun say; alone without them
//   trainrt::Session session(package, ranks.options());
//   session.step(ranks.rank() ? second : first);   // the step of all, each with its own batches
//
// Ranks outlive their sessions. All make the same calls in the same order; what one cannot do is
// the same exception on all, and one that is lost ends the others' calls (TRAINRT_RANK_LOST).
#ifndef TRAINRT_RANKS_HPP
#define TRAINRT_RANKS_HPP

#include "trainrt/ranks.h"
#include "trainrt/trainrt.hpp"

namespace trainrt {

/// Can be moved where no session of it is. Destroyed by an exception it ends the others' run, which
/// would wait; else it leaves in order.
class Ranks {
public:
  /// This process as its launcher says, connected to the others. `given`: what a launcher does not
  /// say, such as limits of time, or the coordinator under mpirun on several machines.
  explicit Ranks(trainrt_ranks_options given = trainrt_ranks_options_default()) {
    detail::Call call;
    const char *name = nullptr;
    call.check(trainrt_ranks_find(&given, &name, call));
    launchedBy = name ? name : "";
    localRank_ = given.local_rank;
    if (name)
      join(given);
  }
  /// Rank `rank` of `world`, whoever has started it; `coordinator`: "HOST:PORT" of rank 0.
  Ranks(int rank, int world, const std::string &coordinator,
        trainrt_ranks_options given = trainrt_ranks_options_default()) {
    given.rank = rank;
    given.world = world;
    given.coordinator = coordinator.c_str();
    localRank_ = given.local_rank;
    join(given);
  }
  /// Over a connection of the caller's own, which `communicator.user` keeps.
  explicit Ranks(const trainrt_communicator &communicator) {
    detail::Call call;
    trainrt_ranks *created = nullptr;
    call.check(trainrt_ranks_create(&communicator, &created, call));
    take(created, communicator.rank, communicator.world);
  }

  ~Ranks() {
    if (get() && std::uncaught_exceptions() > exceptions)
      abort("it has ended with an exception");
  }
  Ranks(Ranks &&) = default;
  Ranks &operator=(Ranks &&) = default;

  int rank() const { return rank_; }
  int world() const { return world_; }
  /// Among those of this machine, which says the GPU (SessionOptions::c.device); -1: not known.
  int localRank() const { return localRank_; }
  /// "torchrun", "mpirun" or "srun"; "": none has started this process.
  const std::string &launcher() const { return launchedBy; }

  /// `options` for a session of these ranks.
  SessionOptions options(SessionOptions options = {}) const {
    options.c.ranks = get();
    return options;
  }
  /// The bytes of all ranks, by rank; a call that all make, between two steps.
  std::vector<std::string> gather(std::string_view bytes) {
    if (!get())
      return {std::string(bytes)};
    detail::Call call;
    const trainrt_bytes *all = nullptr;
    call.check(trainrt_ranks_gather(get(), bytes.data(), bytes.size(), &all, call));
    std::vector<std::string> list;
    for (int i = 0; i < world_; ++i)
      list.emplace_back(static_cast<const char *>(all[i].data), all[i].size);
    return list;
  }
  /// This rank cannot make its next step, which it calls nevertheless, with or without batches.
  void refuse(const std::string &why) { trainrt_ranks_refuse(get(), why.c_str()); }
  /// Goes along with the next step; `count` is what it added up to in the last one.
  void setCount(int64_t count) { trainrt_ranks_set_count(get(), count); }
  int64_t count() const { return trainrt_ranks_count(get()); }
  /// Ends the run of all other ranks. From any thread.
  void abort(const std::string &why) { trainrt_ranks_abort(get(), why.c_str()); }
  /// Null where this process is alone.
  trainrt_ranks *get() const { return handle.get(); }

private:
  struct Free {
    void operator()(trainrt_ranks *ranks) const { trainrt_ranks_free(ranks); }
  };

  void join(const trainrt_ranks_options &options) {
    detail::Call call;
    trainrt_ranks *joined = nullptr;
    call.check(trainrt_ranks_join(&options, &joined, call));
    take(joined, options.rank, options.world);
  }
  void take(trainrt_ranks *ranks, int rank, int world) {
    handle.reset(ranks);
    rank_ = rank;
    world_ = world;
  }

  std::unique_ptr<trainrt_ranks, Free> handle;
  int rank_ = 0, world_ = 1, localRank_ = -1;
  int exceptions = std::uncaught_exceptions();
  std::string launchedBy;
};

} // namespace trainrt

#endif // TRAINRT_RANKS_HPP
