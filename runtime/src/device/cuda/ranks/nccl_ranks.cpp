// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// NCCL as a carrier of pieces. Its calls do not block: whoever waits for one looks, too, whether
// the run has been given up, and for how long it has waited.

#include "device/cuda/library_search.h"
#include "device/cuda/ranks/device_ranks.h"
#include "device/cuda/ranks/nccl_api.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace trainrt::cuda {

namespace {

/// The first version whose calls need not block.
constexpr int firstVersion = 21800;
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

class NcclRanks final : public DeviceRanks {
public:
  NcclRanks(const nccl::Api &api, Communicator *ranks) : api(api), ranks(ranks) {}

  ~NcclRanks() override {
    if (!comm)
      return;
    // In order, if the others do so, too.
    const Clock::time_point began = Clock::now();
    nccl::Result state = api.CommFinalize(comm);
    while (state == nccl::inProgress && Clock::now() - began < endLimit && failure().ok()) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (api.CommGetAsyncError(comm, &state) != nccl::success)
        break;
    }
    if (state == nccl::success)
      api.CommDestroy(comm);
    else
      abort();
  }

  /// The id comes from rank 0.
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
    nccl::Config config;
    config.blocking = 0;
    const nccl::Result result = api.CommInitRankConfig(&comm, world(), id, rank(), &config);
    Status status = settle(result, "NCCL cannot connect the GPUs of " + std::to_string(world()) +
                                       " ranks (each needs one of its own)");
    // What the driver and the devices refuse is no rank's end.
    return status.ok() || isLost ? status : status.as(Code::DeviceError);
  }

  Status exchange(std::span<const Piece> sent, std::span<const Piece> received,
                  CUstream stream) override {
    return group([&] {
      for (const Piece &piece : sent)
        if (auto result =
                api.Send(pointer(piece), size_t(piece.bytes), nccl::Int8, piece.rank, comm, stream);
            !isGood(result))
          return result;
      for (const Piece &piece : received)
        if (auto result =
                api.Recv(pointer(piece), size_t(piece.bytes), nccl::Int8, piece.rank, comm, stream);
            !isGood(result))
          return result;
      return nccl::Result(nccl::success);
    });
  }

  Status addUp(DType dtype, std::span<const Piece> tensors, CUstream stream) override {
    assert((dtype == DType::F32 || dtype == DType::F64) && "readProgram refuses other sums");
    return group([&] {
      for (const Piece &tensor : tensors)
        if (auto result = api.AllReduce(
                pointer(tensor), pointer(tensor), size_t(tensor.bytes) / sizeOf(dtype),
                dtype == DType::F64 ? nccl::Float64 : nccl::Float32, nccl::Sum, comm, stream);
            !isGood(result))
          return result;
      return nccl::Result(nccl::success);
    });
  }

  Status check() const override {
    TRAINRT_TRY(failure());
    nccl::Result state = nccl::success;
    if (comm)
      api.CommGetAsyncError(comm, &state);
    return isGood(state) ? Status() : lost("NCCL", state);
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
  static void *pointer(const Piece &piece) { return reinterpret_cast<void *>(piece.address); }
  static bool isGood(nccl::Result result) {
    return result == nccl::success || result == nccl::inProgress;
  }

  Status lost(const std::string &what, nccl::Result result) const {
    const char *text = api.GetErrorString(result), *more = api.GetLastError(comm);
    return fail(Code::RankLost, what, ": ", std::string(text ? text : "unknown error"),
                more && *more ? "; " : "", std::string(more ? more : ""));
  }
  Status checked(nccl::Result result, const std::string &what) const {
    return isGood(result) ? Status() : lost(what, result);
  }

  /// Waits until the library has done what a call of it began: only then may anything else come to
  /// the stream.
  Status settle(nccl::Result result, const std::string &what) {
    const Clock::time_point began = Clock::now();
    const auto limit = ranks ? ranks->limit() : std::chrono::milliseconds(std::chrono::minutes(2));
    for (int turn = 0; result == nccl::inProgress; ++turn) {
      if (Status status = failure(); !status.ok()) {
        isLost = true;
        return status;
      }
      if (Clock::now() - began > limit) {
        isLost = true;
        return fail(Code::RankLost, what, ": the others have not come within ",
                    limit.count() / 1000, " s");
      }
      if (turn > 100)
        std::this_thread::sleep_for(std::chrono::microseconds(50));
      if (nccl::Result asked = api.CommGetAsyncError(comm, &result); asked != nccl::success)
        result = asked;
    }
    return checked(result, what);
  }

  template <typename Body> Status group(const Body &body) {
    if (!comm)
      return Status(Code::RankLost, "the connection of the GPUs has been given up");
    TRAINRT_TRY(failure());
    TRAINRT_TRY(checked(api.GroupStart(), "NCCL"));
    // The group is ended whatever is in it: it is the thread's.
    const nccl::Result inside = body(), ended = api.GroupEnd();
    return settle(isGood(inside) ? ended : inside, "NCCL");
  }

  const nccl::Api api;
  Communicator *const ranks;
  nccl::Comm comm = nullptr;
  bool isLost = false; ///< the run, not this rank's GPU
};

} // namespace

Status createNcclRanks(Communicator *ranks, std::unique_ptr<DeviceRanks> &result) {
  nccl::Api api;
  TRAINRT_TRY(loadNccl(api));
  auto made = std::make_unique<NcclRanks>(api, ranks);
  Status status = made->start();
  if (!status.ok())
    made->abort();
  else
    result = std::move(made);
  return status;
}

} // namespace trainrt::cuda
