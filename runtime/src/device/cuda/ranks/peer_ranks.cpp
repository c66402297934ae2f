// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Pieces go through mailboxes: each rank has a block of its GPU's memory with two slots for each
// other rank, into which that one's kernel writes, and flags, by which ranks tell each other what
// is there and what has been taken. A slot's bytes are a turn. The turns between two ranks are
// counted from the first exchange to the last, on both ends alike; turn k uses the slot k % 2.

#include "comm/exchange_mode.h"
#include "device/cuda/kernels/embedded_kernels.h"
#include "device/cuda/kernels/peer_copy.h"
#include "device/cuda/ranks/device_ranks.h"
#include "format/memory/exchange_work.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <fstream>
#include <thread>
#include <utility>

namespace trainrt::cuda {

namespace {

constexpr const char *kernelName = "peer_copy";
/// Blocks of a copy, which are taken from the computation beside it: 16 of 512 threads write as
/// fast as NVLink of an H100 takes it, 8 make 7/8 of that.
constexpr int64_t mostBlocks = 16, threads = 512;
/// How long all ranks may take to leave, and what is enqueued to end.
constexpr auto endLimit = std::chrono::seconds(5);
/// How long the first exchange may take, which is to show that it works.
constexpr auto trialLimit = std::chrono::milliseconds(10'000);
constexpr int64_t trialBytes = 4096 + 12;

/// What a rank tells the others of itself.
struct Offer {
  char host[64]; ///< one that runs: the identity of its boot
  CUuuid gpu;
  CUipcMemHandle mailbox;
};

Status readHost(char (&host)[64]) {
  std::string text;
  if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text) || text.empty())
    return Status(Code::Unsupported, "the host's identity cannot be read");
  text.resize(sizeof host);
  std::memcpy(host, text.data(), sizeof host);
  return {};
}

class PeerRanks final : public DeviceRanks {
public:
  PeerRanks(const Context &context, Communicator &ranks)
      : driver(context.driver()), context(context), ranks(ranks), world(size_t(ranks.world())),
        slotBytes(ExchangeWork::deviceBlockBytes / 2 / std::max(1, ranks.world() - 1) / 256 * 256),
        others(world), sentTurns(world), receivedTurns(world) {}

  /// In order where all come to it. Memory that a rank may still write to, as it knows nothing of
  /// this one's end, is left to the end of the process.
  ~PeerRanks() override {
    if (!ranks.failure().ok())
      abort();
    const bool isFree = !isInUse || (!isEnded && leave());
    closeOthers();
    if (mailbox && isFree)
      driver.cuMemFree(mailbox);
    last = {};
    words.release();
    if (side)
      driver.cuStreamDestroy(side);
    if (module)
      driver.cuModuleUnload(module);
  }

  /// What this rank has, with nothing in it.
  Status prepare(Offer &offer) {
    if (exchangeMode() == ExchangeMode::Nccl)
      return Status(Code::Unsupported, "TRAINRT_EXCHANGE says so");
    if (!hasEmbedded(kernelName))
      return Status(Code::Unsupported, "this build of libtrainrt has no kernels of its own");
    TRAINRT_TRY(readHost(offer.host));
    CUdevice device = 0;
    const char *what = "cannot ask for the GPU's identity";
    TRAINRT_TRY(driver.check(driver.cuCtxGetDevice(&device), what));
    TRAINRT_TRY(driver.check(driver.cuDeviceGetUuid(&offer.gpu, device), what));
    what = "cannot load the runtime's kernel for copies between GPUs";
    TRAINRT_TRY(loadEmbedded(driver, kernelName, what, module));
    TRAINRT_TRY(driver.check(driver.cuModuleGetFunction(&copy, module, "trainrt_peer_copy"), what));
    what = "cannot get memory that other GPUs write to";
    TRAINRT_TRY(driver.check(
        driver.cuMemAlloc(&mailbox, size_t(trialAt() + 2 * trialBytes * int64_t(world))), what));
    TRAINRT_TRY(driver.check(driver.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING), what));
    TRAINRT_TRY(words.allocate(context, 4 * numFlags(), what));
    TRAINRT_TRY(last.create(context, CU_EVENT_DISABLE_TIMING));
    TRAINRT_TRY(driver.check(
        driver.cuMemsetD8Async(mailbox + DeviceAddress(flagsAt()), 0, size_t(4 * numFlags()), side),
        what));
    TRAINRT_TRY(driver.check(driver.cuStreamSynchronize(side), what));
    return driver.check(driver.cuIpcGetMemHandle(&offer.mailbox, mailbox),
                        "cannot let other processes write to the GPU's memory");
  }

  /// The other ranks' memory, where they are of one host and none has this one's GPU.
  Status open(std::span<const Offer> offers) {
    const Offer &own = offers[size_t(ranks.rank())];
    for (int rank = 0; rank < ranks.world(); ++rank) {
      if (rank == ranks.rank())
        continue;
      const Offer &offer = offers[size_t(rank)];
      if (std::memcmp(offer.host, own.host, sizeof own.host) != 0)
        return Status(Code::Unsupported, "it is on another host than rank " + std::to_string(rank));
      if (std::memcmp(&offer.gpu, &own.gpu, sizeof own.gpu) == 0)
        return Status(Code::Unsupported, "it has the GPU of rank " + std::to_string(rank));
      TRAINRT_TRY(driver.check(driver.cuIpcOpenMemHandle(&others[size_t(rank)], offer.mailbox,
                                                         CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
                               "its GPU does not reach another one's memory"));
    }
    return {};
  }

  /// Some bytes to and from every rank. All of them have the others' memory.
  Status tryIt() {
    isInUse = true;
    CUstream stream = nullptr;
    const DeviceAddress memory = mailbox + DeviceAddress(trialAt());
    const auto size = trialBytes * int64_t(world);
    std::vector<unsigned char> bytes(size_t(2 * size));
    for (size_t i = 0; i < size_t(size); ++i)
      bytes[i] = pattern(ranks.rank(), i);
    const char *what = "cannot exchange a few bytes";
    Status status = driver.check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), what);
    std::vector<Piece> sent, received;
    for (int rank = 0; rank < ranks.world(); ++rank)
      if (const auto at = memory + DeviceAddress(rank * trialBytes); rank != ranks.rank()) {
        sent.push_back({rank, at, trialBytes});
        received.push_back({rank, at + DeviceAddress(size), trialBytes});
      }
    auto call = [&](CUresult result) { status = driver.check(result, what); };
    if (status.ok())
      call(driver.cuMemcpyHtoDAsync(memory, bytes.data(), bytes.size(), stream));
    if (status.ok())
      status = exchange(sent, received, stream);
    if (status.ok())
      status = awaitTrial();
    if (!status.ok())
      abort();
    if (status.ok())
      call(driver.cuMemcpyDtoHAsync(bytes.data(), memory, bytes.size(), stream));
    if (stream) {
      // One that waits although it has been told not to is left as it is.
      isStuck = driver.cuEventQuery(last.get()) == CUDA_ERROR_NOT_READY;
      if (const CUresult result = isStuck ? CUDA_SUCCESS : driver.cuStreamSynchronize(stream);
          status.ok())
        call(result);
      driver.cuStreamDestroy(stream);
    }
    TRAINRT_TRY(status);
    for (int rank = 0; rank < ranks.world(); ++rank)
      for (size_t i = 0; rank != ranks.rank() && i < size_t(trialBytes); ++i)
        if (bytes[size_t(size + rank * trialBytes) + i] !=
            pattern(rank, i + size_t(ranks.rank() * trialBytes)))
          return Status(Code::DeviceError, "the first bytes from rank " + std::to_string(rank) +
                                               " have not arrived as they were");
    return {};
  }

  /// All ranks know that nobody uses the mailboxes. Each may go when all have come here.
  void giveUp() {
    closeOthers();
    isInUse = isStuck;
  }

  Status exchange(std::span<const Piece> sent, std::span<const Piece> received,
                  CUstream stream) override {
    TRAINRT_TRY(ranks.failure());
    if (isEnded)
      return Status(Code::RankLost, "the connection of the GPUs has been given up");
    const Status status = enqueue(turnsOf(sent, true), turnsOf(received, false), stream);
    TRAINRT_TRY(driver.check(driver.cuEventRecord(last.get(), stream), "cannot record an event"));
    return status;
  }

  Status addUp(DType, std::span<const Sum>, CUstream) override {
    return Status(Code::Unsupported, "sums of NCCL's own are not made through the GPUs' memory");
  }
  /// Whoever is lost is missed by the control plane.
  Status check() const override { return ranks.failure(); }

  /// All that is waited for is said to be there, and kernels then copy nothing. Again and again: a
  /// rank that does not know yet may write over it.
  void abort() override {
    if (isEnded || !last.get())
      return;
    isEnded = true;
    auto *value = reinterpret_cast<uint32_t *>(words.data());
    std::memset(value, 0, size_t(4 * numFlags()));
    std::copy(receivedTurns.begin(), receivedTurns.end(), value + Arrived * world);
    std::copy(sentTurns.begin(), sentTurns.end(), value + Taken * world);
    value[endedFlag()] = 1;
    const Clock::time_point began = Clock::now();
    do {
      const DeviceAddress flags = flagOf(mailbox, 0);
      driver.cuMemcpyHtoDAsync(flag(endedFlag()), value + endedFlag(), 4, side);
      driver.cuMemcpyHtoDAsync(flags, value, 4 * 2 * world, side);
      driver.cuStreamSynchronize(side);
    } while (driver.cuEventQuery(last.get()) == CUDA_ERROR_NOT_READY &&
             Clock::now() - began < endLimit);
  }

private:
  using Clock = std::chrono::steady_clock;
  using Range = PeerCopyArguments::Range;
  using Signal = PeerCopyArguments::Signal;

  /// A turn of some ranks.
  struct Turn {
    std::vector<Range> ranges;
    std::vector<bool> with; ///< by rank
  };
  /// Flags of a kind, one for each rank: turns that have arrived from it, turns that it has taken,
  /// and whether it has left.
  enum Kind : size_t { Arrived, Taken, Left, numKinds };

  static unsigned char pattern(int rank, size_t i) {
    return static_cast<unsigned char>((i * 131 + i / 251) ^ size_t(rank * 77 + 1));
  }

  // Behind the slots: the kinds' flags, whether all is ended, and a kernel's counter; the bytes of
  // the trial.
  size_t endedFlag() const { return numKinds * world; }
  int64_t numFlags() const { return int64_t(endedFlag()) + 2; }
  int64_t flagsAt() const { return 2 * slotBytes * (int64_t(world) - 1); }
  int64_t trialAt() const { return flagsAt() + (4 * numFlags() + 15) / 16 * 16; }
  DeviceAddress flagOf(DeviceAddress box, size_t number) const {
    return box + DeviceAddress(flagsAt()) + 4 * number;
  }
  DeviceAddress flag(size_t number) const { return flagOf(mailbox, number); }
  DeviceAddress flag(Kind kind, size_t rank) const { return flag(kind * world + rank); }
  /// Another rank's flag of this one.
  DeviceAddress flagAt(size_t rank, Kind kind) const {
    return flagOf(others[rank], kind * world + size_t(ranks.rank()));
  }
  /// Where a rank's turn lies in another one's mailbox.
  DeviceAddress slot(size_t from, size_t to, uint32_t turn) const {
    const DeviceAddress box = others[to] ? others[to] : mailbox;
    return box + DeviceAddress(slotBytes) * (2 * (from - (from > to)) + turn % 2);
  }

  /// Between two ranks pieces lie behind each other in their order, from 16 bytes on; what does not
  /// end in a slot goes on in the next turn's.
  std::vector<Turn> turnsOf(std::span<const Piece> pieces, bool areSent) const {
    std::vector<Turn> turns;
    std::vector<int64_t> filled(world);
    for (const Piece &piece : pieces) {
      assert(piece.rank != ranks.rank());
      const auto rank = size_t(piece.rank), own = size_t(ranks.rank());
      int64_t &end = filled[rank];
      end = (end + 15) / 16 * 16;
      for (int64_t begin = 0, bytes = 0; begin < piece.bytes; begin += bytes, end += bytes) {
        const auto number = size_t(end / slotBytes);
        const int64_t within = end % slotBytes;
        bytes = std::min(piece.bytes - begin, slotBytes - within);
        turns.resize(std::max(turns.size(), number + 1), {{}, std::vector<bool>(world)});
        const uint32_t turn = (areSent ? sentTurns : receivedTurns)[rank] + 1 + uint32_t(number);
        const DeviceAddress place = piece.address + DeviceAddress(begin),
                            inSlot = DeviceAddress(within) +
                                     (areSent ? slot(own, rank, turn) : slot(rank, own, turn));
        turns[number].ranges.push_back(areSent ? Range{place, inSlot, bytes}
                                               : Range{inSlot, place, bytes});
        turns[number].with[rank] = true;
      }
    }
    return turns;
  }

  /// A launch sends a turn and takes the one before it.
  Status enqueue(const std::vector<Turn> &sent, const std::vector<Turn> &received,
                 CUstream stream) {
    const size_t count = std::max(sent.size(), received.empty() ? 0 : received.size() + 1);
    for (size_t i = 0; i < count; ++i) {
      std::vector<Range> ranges;
      std::vector<Signal> signals;
      if (i < sent.size()) {
        ranges = sent[i].ranges;
        for (size_t rank = 0; rank < world; ++rank)
          if (sent[i].with[rank]) {
            const uint32_t turn = ++sentTurns[rank];
            signals.push_back({flagAt(rank, Arrived), turn});
            // Of the slot; the first two are free.
            TRAINRT_TRY(awaitFlag(flag(Taken, rank), turn - 2, stream));
          }
      }
      if (i > 0 && i - 1 < received.size()) {
        const Turn &turn = received[i - 1];
        ranges.insert(ranges.end(), turn.ranges.begin(), turn.ranges.end());
        for (size_t rank = 0; rank < world; ++rank)
          if (turn.with[rank]) {
            TRAINRT_TRY(awaitFlag(flag(Arrived, rank), ++receivedTurns[rank], stream));
            signals.push_back({flagAt(rank, Taken), receivedTurns[rank]});
          }
      }
      TRAINRT_TRY(launch(ranges, signals, stream));
    }
    return {};
  }

  void closeOthers() {
    for (CUdeviceptr &other : others)
      if (const CUdeviceptr memory = std::exchange(other, 0))
        driver.cuIpcCloseMemHandle(memory);
  }

  Status awaitFlag(DeviceAddress at, uint32_t value, CUstream stream) {
    return driver.check(driver.cuStreamWaitValue32(stream, at, value, CU_STREAM_WAIT_VALUE_GEQ),
                        "cannot wait for another rank");
  }

  /// Others are told what the last of the launches has copied.
  Status launch(std::span<const Range> ranges, std::span<const Signal> signals, CUstream stream) {
    while (!ranges.empty() || !signals.empty()) {
      PeerCopyArguments args{
          flag(0), flag(endedFlag()), flag(endedFlag() + 1), int32_t(numKinds * world), 0, 0, 0, {},
          {}};
      const auto some =
          ranges.first(std::min<size_t>(ranges.size(), PeerCopyArguments::mostRanges));
      std::copy(some.begin(), some.end(), args.ranges);
      args.numRanges = int32_t(some.size());
      ranges = ranges.subspan(some.size());
      if (ranges.empty()) {
        const auto told =
            signals.first(std::min<size_t>(signals.size(), PeerCopyArguments::mostSignals));
        std::copy(told.begin(), told.end(), args.signals);
        args.numSignals = int32_t(told.size());
        signals = signals.subspan(told.size());
      }
      int64_t bytes = 0;
      for (const Range &range : some)
        bytes += range.bytes;
      args.blocks = int32_t(std::clamp<int64_t>(bytes / (16 * threads), 1, mostBlocks));
      void *parameters[] = {&args};
      TRAINRT_TRY(driver.check(driver.cuLaunchKernel(copy, unsigned(args.blocks), 1, 1, threads, 1,
                                                     1, 0, stream, parameters, nullptr),
                               "cannot start the runtime's kernel for copies between GPUs"));
    }
    return {};
  }

  Status awaitTrial() {
    const auto limit = std::min(ranks.limit(), trialLimit);
    for (const Clock::time_point began = Clock::now();
         driver.cuEventQuery(last.get()) == CUDA_ERROR_NOT_READY;) {
      TRAINRT_TRY(ranks.failure());
      if (Clock::now() - began > limit)
        return Status(Code::DeviceError, "the first bytes from other GPUs have not arrived");
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    return {};
  }

  /// Nothing is enqueued any more. Whether all others say so within a while.
  bool leave() {
    std::vector<Signal> signals;
    for (size_t rank = 0; rank < world; ++rank)
      if (others[rank])
        signals.push_back({flagAt(rank, Left), 1});
    if (!launch({}, signals, side).ok())
      return false;
    const auto *left = reinterpret_cast<const uint32_t *>(words.data());
    for (const Clock::time_point began = Clock::now(); Clock::now() - began < endLimit;) {
      if (driver.cuMemcpyDtoHAsync(words.data(), flag(Left, 0), 4 * world, side) != CUDA_SUCCESS ||
          driver.cuStreamSynchronize(side) != CUDA_SUCCESS)
        return false;
      if (std::count(left, left + world, 1u) == std::ptrdiff_t(signals.size()))
        return true;
      if (!ranks.failure().ok())
        return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  const Driver &driver;
  const Context &context;
  Communicator &ranks;
  const size_t world;
  const int64_t slotBytes;
  CUdeviceptr mailbox = 0;
  std::vector<CUdeviceptr> others; ///< their mailboxes, by rank; 0: this one's own
  std::vector<uint32_t> sentTurns, receivedTurns;
  CUmodule module = nullptr;
  CUfunction copy = nullptr;
  CUstream side = nullptr; ///< for what does not wait
  PinnedMemory words;
  Event last; ///< behind the last exchange
  bool isInUse = false, isEnded = false, isStuck = false;
};

/// Tells all ranks what one has, or why it has nothing (`mine`); `why` where one has nothing.
Status agree(Communicator &ranks, const Status &mine, std::string_view has,
             std::vector<std::string> &all, std::string &why) {
  TRAINRT_TRY(ranks.gather(mine.ok() ? "+" + std::string(has) : "-" + mine.message(), all));
  for (size_t rank = 0; rank < all.size() && why.empty(); ++rank)
    if (all[rank].size() != has.size() + 1 || all[rank][0] != '+')
      why = "rank " + std::to_string(rank) + " does not reach the others' memory: " +
            (all[rank].empty() ? std::string() : all[rank].substr(1));
  return {};
}

} // namespace

Status createPeerRanks(const Context &context, Communicator &ranks,
                       std::unique_ptr<DeviceRanks> &result, std::string &why) {
  auto made = std::make_unique<PeerRanks>(context, ranks);
  std::vector<std::string> all;
  Offer offer{};
  Status status = made->prepare(offer);
  TRAINRT_TRY(
      agree(ranks, status, {reinterpret_cast<const char *>(&offer), sizeof offer}, all, why));
  if (!why.empty())
    return {};
  std::vector<Offer> offers(all.size());
  for (size_t rank = 0; rank < all.size(); ++rank)
    std::memcpy(&offers[rank], all[rank].data() + 1, sizeof offer);
  TRAINRT_TRY(agree(ranks, made->open(offers), {}, all, why));
  if (why.empty())
    TRAINRT_TRY(agree(ranks, made->tryIt(), {}, all, why));
  if (why.empty()) {
    result = std::move(made);
    return {};
  }
  // Memory goes when no other process has it any more.
  made->giveUp();
  return ranks.gather({}, all);
}

} // namespace trainrt::cuda
