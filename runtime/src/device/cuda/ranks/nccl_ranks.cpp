// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL as a carrier of pieces. Its calls return when their work is enqueued: calls that do not
// block cost a thread each. What does wait for other ranks, connecting and leaving, is done by a
// thread of its own, and whoever waits for it looks, too, whether the run has been given up, and
// for how long.

#include "comm/exchange_mode.h"
#include "device/cuda/library_search.h"
#include "device/cuda/ranks/device_ranks.h"
#include "device/cuda/ranks/nccl_api.h"

#include <atomic>
#include <cassert>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace trainrt::cuda {

namespace {

constexpr int firstVersion = 21800;
/// Multiprocessors that NCCL may take from the computation beside it: one in eight of an H100's.
/// The environment's NCCL_MAX_CTAS counts more.
constexpr int mostCTAs = 16;
/// How long a communicator may take to end in order.
constexpr auto endLimit = std::chrono::seconds(5);

/// All functions or none; the library stays loaded.
Status loadNccl(nccl::Api &api) {
  // Multicast through NVLink gives sums whose order nobody knows, and pieces do not need it.
  ::setenv("NCCL_NVLS_ENABLE", "0", 1);
  SharedLibrary library;
  TRAINRT_TRY(loadLibrary({"libnccl.so.2"},
                          "ranks on several GPUs exchange by it; it is in the wheels "
                          "nvidia-nccl-cu12 and nvidia-nccl-cu13, and in Debian's libnccl2",
                          library)
                  .as(Code::DeviceError));
  const char *missing = nullptr;
#define TRAINRT_NCCL_RESOLVE(result, name, parameters)                                             \
  if (!library.resolve(api.name, "nccl" #name) && !missing)                                        \
    missing = "nccl" #name;
  TRAINRT_NCCL_FUNCTIONS(TRAINRT_NCCL_RESOLVE)
#undef TRAINRT_NCCL_RESOLVE
  int version = 0;
  if (!missing)
    api.GetVersion(&version);
  if (missing || version < firstVersion)
    return fail(Code::DeviceError, library.path, missing ? " has no function " : " is NCCL ",
                missing ? std::string(missing) : std::to_string(version),
                "; ranks on several GPUs need NCCL 2.18 or newer");
  return {};
}

/// What a thread is doing that may never end. It has all that it needs itself: nobody may be left.
struct Errand {
  std::atomic<bool> isDone{false};
  nccl::Comm comm = nullptr;
  nccl::Result result = nccl::success;
  Status status; ///< of the driver
};

class NcclRanks final : public DeviceRanks {
public:
  NcclRanks(const nccl::Api &api, const Context &context, Communicator *ranks)
      : api(api), context(context), ranks(ranks) {}

  /// In order, if the others do so, too. What has begun to leave is not aborted, which NCCL takes
  /// for a fault of its own: where it does not come back it is left to the end of the process.
  ~NcclRanks() override {
    if (!comm)
      return;
    if (!failure().ok()) {
      abort();
      return;
    }
    auto leaving = std::make_shared<Errand>();
    leaving->comm = comm;
    run(leaving, [api = api](Errand &errand) {
      errand.result = api.CommFinalize(errand.comm);
      if (errand.result == nccl::success)
        errand.result = api.CommDestroy(errand.comm);
    });
    const Clock::time_point began = Clock::now();
    while (!leaving->isDone.load() && Clock::now() - began < endLimit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

  /// The id comes from rank 0. Connections are made here, while all ranks are known to be there:
  /// later calls wait for nobody.
  Status start() {
    nccl::UniqueId id{};
    if (rank() == 0)
      TRAINRT_TRY(checked(api.GetUniqueId(&id), "NCCL cannot begin"));
    if (ranks) {
      std::vector<std::string> ids;
      TRAINRT_TRY(ranks->gather({id.bytes, rank() == 0 ? sizeof id.bytes : 0}, ids));
      if (ids.empty() || ids[0].size() != sizeof id.bytes)
        return Status(Code::RankLost, "rank 0 runs another version of the runtime");
      std::memcpy(id.bytes, ids[0].data(), sizeof id.bytes);
    }
    auto connecting = std::make_shared<Errand>();
    run(connecting, [api = api, id, rank = rank(), world = world(), &driver = context.driver(),
                     vendorSums = ranks && ranks->wantsVendorSums()](Errand &errand) {
      nccl::Config config;
      config.blocking = 1;
      if (exchangeMode() != ExchangeMode::Inline)
        config.maxCTAs = mostCTAs;
      errand.result = api.CommInitRankConfig(&errand.comm, world, id, rank, &config);
      if (errand.result == nccl::success)
        errand.status = connect(api, driver, errand, rank, world, vendorSums);
    });
    const std::string what = "NCCL cannot connect the GPUs of " + std::to_string(world()) +
                             " ranks (each needs one of its own)";
    TRAINRT_TRY(await(*connecting, limit()).within(what + ": "));
    comm = connecting->comm;
    TRAINRT_TRY(connecting->status);
    // What the library refuses is no rank's end.
    return checked(connecting->result, what).as(Code::DeviceError);
  }

  Status exchange(std::span<const Piece> sent, std::span<const Piece> received,
                  CUstream stream) override {
    if (sent.empty() && received.empty())
      return {};
    return group([&] {
      for (const Piece &piece : sent)
        if (auto result = api.Send(pointer(piece.address), size_t(piece.bytes), nccl::Int8,
                                   piece.rank, comm, stream))
          return result;
      for (const Piece &piece : received)
        if (auto result = api.Recv(pointer(piece.address), size_t(piece.bytes), nccl::Int8,
                                   piece.rank, comm, stream))
          return result;
      return nccl::Result(nccl::success);
    });
  }

  Status addUp(DType dtype, std::span<const Sum> tensors, CUstream stream) override {
    assert((dtype == DType::F32 || dtype == DType::F64) && "readProgram refuses other sums");
    const nccl::DataType type = dtype == DType::F64 ? nccl::Float64 : nccl::Float32;
    return group([&] {
      for (const Sum &sum : tensors) {
        const auto add = sum.isShard ? api.ReduceScatter : api.AllReduce;
        const int64_t count = sum.elements / (sum.isShard ? world() : 1);
        if (auto result = add(pointer(sum.from), pointer(sum.to), size_t(count), type, nccl::Sum,
                              comm, stream))
          return result;
      }
      return nccl::Result(nccl::success);
    });
  }

  Status check() const override {
    TRAINRT_TRY(failure());
    nccl::Result state = nccl::success;
    if (comm)
      api.CommGetAsyncError(comm, &state);
    return checked(state, "NCCL");
  }

  void abort() override {
    if (nccl::Comm ended = std::exchange(comm, nullptr))
      api.CommAbort(ended);
  }

private:
  using Clock = std::chrono::steady_clock;

  int rank() const { return ranks ? ranks->rank() : 0; }
  int world() const { return ranks ? ranks->world() : 1; }
  Status failure() const { return ranks ? ranks->failure() : Status(); }
  std::chrono::milliseconds limit() const {
    return ranks ? ranks->limit() : std::chrono::milliseconds(std::chrono::minutes(2));
  }
  static void *pointer(DeviceAddress address) { return reinterpret_cast<void *>(address); }

  Status checked(nccl::Result result, const std::string &what) const {
    if (result == nccl::success)
      return {};
    const char *text = api.GetErrorString(result), *more = api.GetLastError(comm);
    return fail(Code::RankLost, what, ": ", std::string(text ? text : "unknown error"),
                more && *more ? "; " : "", std::string(more ? more : ""));
  }

  /// `body(Errand &)` on a thread, with the context current.
  template <typename Body> void run(std::shared_ptr<Errand> errand, const Body &body) {
    std::thread([errand = std::move(errand), body, &driver = context.driver(),
                 handle = context.get()] {
      CurrentContext current(driver, handle);
      body(*errand);
      errand->isDone.store(true);
    }).detach();
  }

  Status await(const Errand &errand, std::chrono::milliseconds most) const {
    for (const Clock::time_point began = Clock::now(); !errand.isDone.load();) {
      TRAINRT_TRY(failure());
      if (Clock::now() - began > most)
        return fail(Code::RankLost, "the others have not come within ", most.count() / 1000, " s");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return {};
  }

  /// A few bytes to and from every rank: what later calls use exists then.
  static Status connect(const nccl::Api &api, const Driver &driver, Errand &errand, int rank,
                        int world, bool vendorSums) {
    constexpr size_t bytes = 256;
    CUdeviceptr memory = 0;
    CUstream stream = nullptr;
    const char *what = "cannot get memory to connect the ranks' GPUs";
    TRAINRT_TRY(driver.check(driver.cuMemAlloc(&memory, 2 * bytes * size_t(world)), what));
    Status status = driver.check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), what);
    auto at = [&](int slot) {
      return reinterpret_cast<void *>(memory + bytes * DeviceAddress(slot));
    };
    nccl::Result &result = errand.result;
    if (status.ok()) {
      api.GroupStart();
      for (int other = 0; other < world; ++other) {
        if (other == rank)
          continue;
        if (result == nccl::success)
          result = api.Send(at(other), bytes, nccl::Int8, other, errand.comm, stream);
        if (result == nccl::success)
          result = api.Recv(at(world + other), bytes, nccl::Int8, other, errand.comm, stream);
      }
      if (vendorSums && result == nccl::success)
        result = api.AllReduce(at(rank), at(rank), bytes / 4, nccl::Float32, nccl::Sum, errand.comm,
                               stream);
      if (vendorSums && result == nccl::success)
        result = api.ReduceScatter(at(0), at(world + rank), bytes / 4, nccl::Float32, nccl::Sum,
                                   errand.comm, stream);
      const nccl::Result ended = api.GroupEnd();
      result = result == nccl::success ? ended : result;
      status = driver.check(driver.cuStreamSynchronize(stream), "cannot connect the ranks' GPUs");
      driver.cuStreamDestroy(stream);
    }
    driver.cuMemFree(memory);
    return status;
  }

  template <typename Body> Status group(const Body &body) {
    TRAINRT_TRY(failure());
    if (!comm)
      return Status(Code::RankLost, "the connection of the GPUs has been given up");
    TRAINRT_TRY(checked(api.GroupStart(), "NCCL"));
    // The group is ended whatever is in it: it is the thread's.
    const nccl::Result inside = body(), ended = api.GroupEnd();
    return checked(inside == nccl::success ? ended : inside, "NCCL");
  }

  const nccl::Api api;
  const Context &context;
  Communicator *const ranks;
  nccl::Comm comm = nullptr;
};

} // namespace

Status createNcclRanks(const Context &context, Communicator *ranks,
                       std::unique_ptr<DeviceRanks> &result) {
  nccl::Api api;
  TRAINRT_TRY(loadNccl(api));
  auto made = std::make_unique<NcclRanks>(api, context, ranks);
  Status status = made->start();
  if (!status.ok())
    made->abort();
  else
    result = std::move(made);
  return status;
}

} // namespace trainrt::cuda
