// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An NCCL for the fake driver: what a group sends is taken when the streams of all ranks have come
// to it, and nobody goes on before that. Its own sums begin with the last rank, so that they have
// other bits than sums in the order of ranks.

#include "fake_nccl.h"
#include "device/cuda/ranks/nccl_api.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

using namespace trainrt::cuda::nccl;

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr Result systemError = 2, invalidUsage = 5;

struct Piece {
  void *address;
  size_t bytes;
  int peer;
};
/// What a rank puts into a group.
struct Op {
  std::vector<Piece> sends, receives, sums;
  std::vector<char *>
      scattered; ///< of the sums, where the rank's part of one goes; null: all of it
  DataType type = Int8;
  bool arrived = false, taken = false;
  std::vector<std::vector<char>> results; ///< of the sums
};
/// The communicators of one id.
struct Clique {
  int world = 0, joined = 0;
  bool lost = false; ///< one of them has been aborted: its memory may be gone
  std::map<int, std::vector<std::shared_ptr<Op>>> groups; ///< by their numbers and ranks
};

FakeNccl state{22700, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
/// Taken within the driver's, never around it.
std::mutex mutex;
std::map<int, std::shared_ptr<Clique>> cliques;
thread_local Comm grouped = nullptr;
thread_local std::shared_ptr<Op> group;
thread_local void *groupStream = nullptr;

using EnqueueWhen = void (*)(void *, const std::function<bool()> *, const std::function<void()> *);
void enqueue(void *stream, const std::function<bool()> &ready, const std::function<void()> &work) {
  static const EnqueueWhen found = reinterpret_cast<EnqueueWhen>(
      dlsym(dlopen(std::getenv("TRAINRT_CUDA_DRIVER"), RTLD_NOW), "fakeCudaEnqueueWhen"));
  found(stream, &ready, &work);
}

template <typename T> void addUp(const std::vector<std::shared_ptr<Op>> &all, size_t i, char *to) {
  T *sums = reinterpret_cast<T *>(to);
  for (size_t rank = all.size(); rank-- > 0;)
    for (size_t j = 0; j < all[rank]->sums[i].bytes / sizeof(T); ++j)
      sums[j] += static_cast<const T *>(all[rank]->sums[i].address)[j];
}

/// The k-th piece from a rank is the k-th that it sends to this one.
void take(const std::vector<std::shared_ptr<Op>> &all, int rank) {
  Op &mine = *all[size_t(rank)];
  std::map<int, size_t> next;
  for (const Piece &piece : mine.receives) {
    const std::vector<Piece> &sends = all[size_t(piece.peer)]->sends;
    size_t &at = next[piece.peer];
    while (at < sends.size() && sends[at].peer != rank)
      ++at;
    if (at == sends.size() || sends[at].bytes != piece.bytes)
      std::abort(); // the real one would hang
    std::memcpy(piece.address, sends[at++].address, piece.bytes);
  }
  for (size_t i = 0; i < mine.sums.size(); ++i) {
    mine.results.emplace_back(mine.sums[i].bytes);
    if (mine.type == Float64)
      addUp<double>(all, i, mine.results.back().data());
    else
      addUp<float>(all, i, mine.results.back().data());
  }
}

} // namespace

struct trainrt::cuda::nccl::ncclComm {
  std::shared_ptr<Clique> clique;
  int rank = 0, groups = 0;
};

namespace {
/// Communicators by what outlives them: enqueued work asks.
std::map<const ncclComm *, bool> ended;
} // namespace

EXPORT FakeNccl *fakeNccl() { return &state; }

EXPORT Result ncclGetVersion(int *version) {
  *version = state.version;
  return success;
}
EXPORT const char *ncclGetErrorString(Result result) {
  return result == remoteError    ? "remote process exited or there was a network error"
         : result == invalidUsage ? "invalid usage"
                                  : "unhandled system error";
}
EXPORT const char *ncclGetLastError(Comm) { return "in the words of the fake NCCL"; }
EXPORT Result ncclGetUniqueId(UniqueId *id) {
  static int last = 0;
  std::lock_guard lock(mutex);
  ++last;
  std::memcpy(id->bytes, &last, sizeof last);
  return success;
}
EXPORT Result ncclCommInitRankConfig(Comm *comm, int ranks, UniqueId id, int rank, Config *config) {
  if (state.refuses || config->blocking != 1 || config->magic != 0xcafebeef)
    return invalidUsage;
  std::unique_lock lock(mutex);
  int number = 0;
  std::memcpy(&number, id.bytes, sizeof number);
  std::shared_ptr<Clique> &clique = cliques[number];
  if (!clique)
    clique = std::make_shared<Clique>();
  clique->world = ranks;
  state.mostCTAs = config->maxCTAs;
  ++clique->joined;
  *comm = new ncclComm{clique, rank};
  ended[*comm] = false;
  // Waits for the others, or for ever.
  const auto begun = clique;
  while (begun->joined < begun->world || state.hangs) {
    lock.unlock();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    lock.lock();
  }
  return success;
}
EXPORT Result ncclCommGetAsyncError(Comm comm, Result *result) {
  std::lock_guard lock(mutex);
  *result = state.failingGroup && comm->groups >= state.failingGroup ? remoteError : success;
  return success;
}
EXPORT Result ncclCommFinalize(Comm) {
  std::lock_guard lock(mutex);
  ++state.finalized;
  return success;
}
EXPORT Result ncclCommDestroy(Comm comm) {
  std::lock_guard lock(mutex);
  ++state.destroyed;
  ended.erase(comm);
  delete comm;
  return success;
}
/// Enqueued work refers to it: it stays.
EXPORT Result ncclCommAbort(Comm comm) {
  std::lock_guard lock(mutex);
  ++state.aborted;
  ended[comm] = comm->clique->lost = true;
  return success;
}

EXPORT Result ncclGroupStart() {
  group = std::make_shared<Op>();
  grouped = nullptr;
  return success;
}
static Result add(std::vector<Piece> Op::*list, Piece piece, Comm comm, void *stream) {
  grouped = comm;
  groupStream = stream;
  ((*group).*list).push_back(piece);
  ++state.pieces;
  return success;
}
EXPORT Result ncclSend(const void *from, size_t count, DataType, int peer, Comm comm,
                       void *stream) {
  return add(&Op::sends, {const_cast<void *>(from), count, peer}, comm, stream);
}
EXPORT Result ncclRecv(void *to, size_t count, DataType, int peer, Comm comm, void *stream) {
  return add(&Op::receives, {to, count, peer}, comm, stream);
}
static Result addSum(const void *from, void *part, size_t count, DataType type, Comm comm,
                     void *stream) {
  group->type = type;
  group->scattered.push_back(static_cast<char *>(part));
  ++state.sums;
  return add(&Op::sums, {const_cast<void *>(from), count * (type == Float64 ? 8 : 4), 0}, comm,
             stream);
}
EXPORT Result ncclAllReduce(const void *from, void *to, size_t count, DataType type, ReduceOp op,
                            Comm comm, void *stream) {
  return from != to || op != Sum ? systemError : addSum(from, nullptr, count, type, comm, stream);
}
EXPORT Result ncclReduceScatter(const void *from, void *to, size_t countOfEach, DataType type,
                                ReduceOp op, Comm comm, void *stream) {
  return from == to || op != Sum
             ? systemError
             : addSum(from, to, countOfEach * size_t(comm->clique->world), type, comm, stream);
}
EXPORT Result ncclGroupEnd() {
  const Comm comm = grouped;
  if (!comm)
    return success;
  const std::shared_ptr<Clique> clique = comm->clique;
  const std::shared_ptr<Op> op = group;
  const int rank = comm->rank;
  int number = 0;
  {
    std::lock_guard lock(mutex);
    ++state.groups;
    number = ++comm->groups;
    auto &all = clique->groups[number];
    all.resize(size_t(clique->world));
    all[size_t(rank)] = op;
  }
  auto all = [=](bool Op::*done) -> bool {
    std::lock_guard lock(mutex);
    if (ended[comm])
      return true;
    if (number == state.stuckGroup || (state.failingGroup && number >= state.failingGroup))
      return false;
    for (const std::shared_ptr<Op> &other : clique->groups[number])
      if (!other || !((*other).*done))
        return false;
    return true;
  };
  enqueue(
      groupStream, [] { return true; },
      [=] {
        std::lock_guard lock(mutex);
        op->arrived = true;
      });
  enqueue(
      groupStream, [=] { return all(&Op::arrived); },
      [=] {
        std::lock_guard lock(mutex);
        if (!clique->lost)
          take(clique->groups[number], rank);
        op->taken = true;
      });
  enqueue(
      groupStream, [=] { return all(&Op::taken); },
      [=] {
        std::lock_guard lock(mutex);
        for (size_t i = 0; !ended[comm] && i < op->results.size(); ++i) {
          const std::vector<char> &sums = op->results[i];
          const size_t part = sums.size() / size_t(clique->world);
          if (char *to = op->scattered[i])
            std::memcpy(to, sums.data() + size_t(rank) * part, part);
          else
            std::memcpy(op->sums[i].address, sums.data(), sums.size());
        }
      });
  // What is taken is kept for the others.
  return success;
}
