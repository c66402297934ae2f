// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up one part of all tensors, its shard of each. Of small tensors where they are:
// one kernel reads the elements in all ranks' memories and writes the sums to where they go, in all
// of them. Large ones copy engines carry (peer_copies.h). Flags in each GPU's memory say how far
// the others are; streams wait for them, kernels for nothing, so that all can be ended. A
// collective is a turn: behind its beginning all ranks' operands are there, behind its end nobody
// uses them any more.

#include "comm/exchange_mode.h"
#include "device/cuda/kernels/embedded_kernels.h"
#include "device/cuda/kernels/peer_sums.h"
#include "device/cuda/ranks/peer_copies.h"
#include "device/cuda/ranks/peer_memory.h"
#include "device/cuda/ranks/rank_exchange.h"

#include <cassert>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <utility>

namespace trainrt::cuda {

namespace {

constexpr const char *kernelsName = "peer_sums";
constexpr unsigned threads = 1024;
/// Bytes that a block of a kernel takes at a time.
constexpr int64_t tileBytes = int64_t(threads) * 4 * 16;
/// How long what is enqueued may take to end.
constexpr auto endLimit = std::chrono::seconds(5);
/// How long the first exchange may take, which is to show that it works, and its numbers.
constexpr auto trialLimit = std::chrono::milliseconds(10'000);
constexpr int64_t trialElements = 1031;
constexpr int numTrials = 2;
/// As many as make a message on the board.
constexpr size_t mostTensors = PeerBoard::mostBytes / sizeof(PeerPlace);

/// What the environment says of exchanges.
struct Settings {
  /// Of a kernel, which are taken from the computation beside it: with more than 16 steps of models
  /// on two H100 were no faster. TRAINRT_EXCHANGE_BLOCKS.
  int64_t blocks = 16;
  /// The smallest shard that copy engines carry, in bytes: they need some microseconds for each.
  /// TRAINRT_EXCHANGE_COPIED.
  int64_t copied = int64_t(256) << 10;
};

Status readSetting(const char *name, int64_t most, int64_t &value) {
  const char *text = std::getenv(name);
  if (!text || !*text)
    return {};
  const char *end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, value);
  if (error != std::errc() || stop != end || value < 1 || value > most)
    return fail(Code::InvalidArgument, name, " is '", std::string(text), "', no number from 1 to ",
                most);
  return {};
}

Status readSettings(Settings &settings) {
  TRAINRT_TRY(readSetting("TRAINRT_EXCHANGE_BLOCKS", 1024, settings.blocks));
  return readSetting("TRAINRT_EXCHANGE_COPIED", int64_t(1) << 40, settings.copied);
}

/// What a rank tells the others of itself.
struct Offer {
  char host[64]; ///< one that runs: the identity of its boot
  CUuuid gpu;
  PeerPlace flags;
  char board[HostMemory::nameBytes]; ///< of the first one's
};

Status readHost(char (&host)[64]) {
  std::string text;
  if (!std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text) || text.empty())
    return Status(Code::Unsupported, "the host's identity cannot be read");
  text.resize(sizeof host);
  std::memcpy(host, text.data(), sizeof host);
  return {};
}

class PeerExchange final : public RankExchange {
public:
  PeerExchange(const Context &context, Communicator &ranks, const Settings &settings)
      : RankExchange(context.driver(), &ranks), context(context), numRanks(size_t(ranks.world())),
        settings(settings), board(ranks), memory(context, ranks, board), copies(context, *this),
        flagsOf(numRanks) {}

  /// What is enqueued has ended, or is ended here.
  ~PeerExchange() override {
    if (!ranks->failure().ok())
      end();
    if (isInUse)
      memory.leave(isEnded);
    if (flagsOf[own()])
      context.free(flagsOf[own()]);
    last = {};
    words.release();
    if (side)
      driver.cuStreamDestroy(side);
    if (module)
      driver.cuModuleUnload(module);
  }

  Status prepare(Offer &offer);
  Status open(std::span<const Offer> offers);
  Status tryIt();
  /// All ranks know that nobody uses the others' memory. Each may go when all have come here.
  void giveUp() {
    memory.closeAll();
    isInUse = isStuck;
  }
  /// All have opened what they have to.
  void removeName() { board.removeName(); }

  int64_t stagingBytes(const ExchangeWork &work) const override { return work.deviceStaging(); }
  void stageAt(DeviceAddress address, int64_t bytes) override { copies.stageAt(address, bytes); }
  int64_t blockBytes(int64_t bytes) const override { return PeerMemory::blockBytes(bytes); }
  void release(DeviceAddress block) override { memory.release(block); }
  void useStreams(std::vector<CUstream> streams) override { memory.useStreams(std::move(streams)); }
  std::unique_lock<std::mutex> starting() override { return memory.starting(); }
  Status run(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
             const Event &done, CUstream stream) override;
  Status finish(CUstream) override { return {}; }
  /// Whoever is lost is missed by the control plane.
  Status check() const override { return ranks->failure(); }
  void abort(const Status &why) override {
    end();
    ranks->abort(why);
  }

private:
  using Clock = std::chrono::steady_clock;
  enum Kernel : size_t { SumF32, SumF64, SumF16, SumBF16, Copy, numKernels };
  /// Flags of a kind, one for each rank: the turn whose operands it has, and the one that it is
  /// done with.
  enum Flag : size_t { Ready, Done, numFlags };
  /// The elements that this rank adds up, or the bytes that it copies.
  struct Range {
    int64_t elements;
    std::vector<DeviceAddress> from, to; ///< `to` empty: where they were
  };

  size_t own() const { return size_t(rank()); }
  // In the block of flags: both kinds, whether all is ended, a kernel's counter; the trial's
  // numbers.
  size_t endedFlag() const { return numFlags * numRanks; }
  int64_t numWords() const { return int64_t(endedFlag()) + 2; }
  DeviceAddress word(size_t number) const { return flagsOf[own()] + 4 * number; }
  /// A rank's flag of this one.
  DeviceAddress flagAt(size_t rank, Flag flag) const {
    return flagsOf[rank] + 4 * (flag * numRanks + own());
  }
  DeviceAddress trialNumbers(int way) const {
    return flagsOf[own()] + DeviceAddress((way + 1) * 8192);
  }

  /// Whether a rank writes to where others have something else than what it reads: shards, or sums
  /// of another type.
  bool writesElsewhere(Collective::Kind kind, SumTypes types) const {
    return kind == Collective::Kind::ReduceScatter ? shards() < world() : types.widens();
  }
  Status meet(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
              std::vector<PeerCopies::PeerTensor> &all);
  Status enqueue(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                 CUstream stream);
  std::vector<Range> rangesOf(Collective::Kind kind, SumTypes types,
                              std::span<const PeerCopies::PeerTensor> tensors) const;
  Status await(Flag flag, CUstream stream) const;
  Status launch(Kernel kernel, std::span<const Range> ranges, const Flag *told,
                CUstream stream) const;
  Status awaitTrial();
  void end();

  const Context &context;
  const size_t numRanks;
  Settings settings;
  PeerBoard board;
  PeerMemory memory;
  PeerCopies copies;
  std::vector<CUdeviceptr> flagsOf; ///< blocks of flags, by rank
  uint32_t turn = 0;
  CUmodule module = nullptr;
  CUfunction kernels[numKernels] = {};
  CUstream side = nullptr; ///< for what does not wait
  PinnedMemory words;
  Event last; ///< behind the last turn
  bool isInUse = false, isEnded = false, isStuck = false;
};

/// What this rank has, with nothing in it.
Status PeerExchange::prepare(Offer &offer) {
  if (exchangeMode() == ExchangeMode::Nccl)
    return Status(Code::Unsupported, "TRAINRT_EXCHANGE says so");
  if (!hasEmbedded(kernelsName))
    return Status(Code::Unsupported, "this build of libtrainrt has no kernels of its own");
  TRAINRT_TRY(loadKernels());
  if (numRanks > PeerBoard::mostRanks)
    return fail(Code::Unsupported, "there are more than ", PeerBoard::mostRanks, " ranks");
  TRAINRT_TRY(readHost(offer.host));
  CUdevice device = 0;
  const char *what = "cannot ask for the GPU's identity";
  TRAINRT_TRY(driver.check(driver.cuCtxGetDevice(&device), what));
  TRAINRT_TRY(driver.check(driver.cuDeviceGetUuid(&offer.gpu, device), what));
  what = "cannot load the runtime's kernels for exchanges between GPUs";
  TRAINRT_TRY(loadEmbedded(driver, kernelsName, what, module));
  constexpr const char *names[numKernels] = {"trainrt_peer_sums_f32", "trainrt_peer_sums_f64",
                                             "trainrt_peer_sums_f16", "trainrt_peer_sums_bf16",
                                             "trainrt_peer_copy"};
  for (size_t i = 0; i < numKernels; ++i)
    TRAINRT_TRY(driver.check(driver.cuModuleGetFunction(&kernels[i], module, names[i]), what));
  what = "cannot get memory that other GPUs write to";
  TRAINRT_TRY(
      driver.check(driver.cuMemAlloc(&flagsOf[own()], size_t(PeerMemory::blockUnit)), what));
  TRAINRT_TRY(driver.check(driver.cuStreamCreate(&side, CU_STREAM_NON_BLOCKING), what));
  TRAINRT_TRY(words.allocate(context, 4 * numWords(), what));
  TRAINRT_TRY(last.create(context, CU_EVENT_DISABLE_TIMING));
  TRAINRT_TRY(copies.start());
  TRAINRT_TRY(driver.check(driver.cuMemsetD8Async(word(0), 0, size_t(4 * numWords()), side), what));
  TRAINRT_TRY(driver.check(driver.cuStreamSynchronize(side), what));
  if (rank() == 0) {
    std::string name;
    TRAINRT_TRY(board.create(name));
    std::memcpy(offer.board, name.c_str(), name.size() + 1);
  }
  return memory.place(flagsOf[own()], offer.flags);
}

/// The other ranks' flags, where they are of one host and none has this one's GPU.
Status PeerExchange::open(std::span<const Offer> offers) {
  for (int other = 0; other < world(); ++other) {
    if (other == rank())
      continue;
    const Offer &offer = offers[size_t(other)];
    if (std::memcmp(offer.host, offers[own()].host, sizeof offer.host) != 0)
      return Status(Code::Unsupported, "it is on another host than rank " + std::to_string(other));
    if (std::memcmp(&offer.gpu, &offers[own()].gpu, sizeof offer.gpu) == 0)
      return Status(Code::Unsupported, "it has the GPU of rank " + std::to_string(other));
    DeviceAddress flags = 0;
    TRAINRT_TRY(memory.address(other, offer.flags, flags));
    flagsOf[size_t(other)] = flags;
  }
  return rank() == 0 ? Status() : board.open(offers[0].board);
}

/// Sums of a few numbers, by a kernel and by copies.
Status PeerExchange::tryIt() {
  isInUse = true;
  memory.serve();
  std::vector<float> numbers(trialElements);
  auto numberOf = [](int rank, int64_t i) { return float((i * 131 + i / 251 + rank * 77) % 1021); };
  for (int64_t i = 0; i < trialElements; ++i)
    numbers[size_t(i)] = numberOf(rank(), i);
  const char *what = "cannot add up a few numbers";
  CUstream stream = nullptr;
  Status status = driver.check(driver.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING), what);
  auto call = [&](CUresult result) { status = driver.check(result, what); };
  const size_t bytes = numbers.size() * sizeof(float);
  for (int way = 0; way < numTrials && status.ok(); ++way)
    call(driver.cuMemcpyHtoDAsync(trialNumbers(way), numbers.data(), bytes, stream));
  if (!status.ok())
    board.leave(); // the others do not wait for it there
  copies.stageAt(trialNumbers(numTrials), PeerMemory::blockUnit / 2);
  for (int way = 0; way < numTrials && status.ok(); ++way) {
    const Tensor tensor = inPlace(DType::F32, trialNumbers(way), trialElements);
    const int64_t copied =
        std::exchange(settings.copied, way ? 1 : std::numeric_limits<int64_t>::max());
    status = enqueue(Collective::Kind::AllReduce, DType::F32, {&tensor, 1}, stream);
    settings.copied = copied;
  }
  if (stream)
    driver.cuEventRecord(last.get(), stream);
  if (status.ok())
    status = awaitTrial();
  if (!status.ok())
    end();
  numbers.resize(size_t(trialElements * numTrials));
  for (int way = 0; way < numTrials && status.ok(); ++way)
    call(driver.cuMemcpyDtoHAsync(numbers.data() + way * trialElements, trialNumbers(way), bytes,
                                  stream));
  if (stream) {
    // One that waits although it has been told not to is left as it is.
    isStuck = driver.cuEventQuery(last.get()) == CUDA_ERROR_NOT_READY;
    if (const CUresult result = isStuck ? CUDA_SUCCESS : driver.cuStreamSynchronize(stream);
        status.ok())
      call(result);
    driver.cuStreamDestroy(stream);
  }
  TRAINRT_TRY(status);
  for (int64_t i = 0; i < trialElements * numTrials; ++i) {
    float sum = 0;
    for (int other = 0; other < world(); ++other)
      sum += numberOf(other, i % trialElements);
    if (numbers[size_t(i)] != sum)
      return Status(Code::DeviceError, "the first numbers from other GPUs are not as they were");
  }
  return {};
}

Status PeerExchange::awaitTrial() {
  const auto limit = std::min(ranks->limit(), trialLimit);
  const Clock::time_point began = Clock::now();
  return last.awaitWhile([&] {
    const Status status = ranks->failure();
    return status.ok() && Clock::now() - began > limit
               ? Status(Code::DeviceError, "the first numbers from other GPUs have not arrived")
               : status;
  });
}

Status PeerExchange::run(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                         const Event &done, CUstream stream) {
  Status status;
  if (kind == Collective::Kind::ReduceScatter)
    status = clearEnds(types.made, tensors, stream);
  const size_t most = writesElsewhere(kind, types) ? mostTensors / 2 : mostTensors;
  while (status.ok() && !tensors.empty()) {
    const auto some = tensors.first(std::min(tensors.size(), most));
    tensors = tensors.subspan(some.size());
    status = enqueue(kind, types, some, stream);
  }
  if (status.ok())
    status = record(done, stream);
  if (const Status recorded = record(last, stream); status.ok())
    status = recorded;
  if (!status.ok())
    abort(status);
  return status;
}

/// The hosts meet here, so that each knows where the others' tensors are before it enqueues
/// anything: none is ahead of another one by more than the work of its GPU.
Status PeerExchange::meet(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                          std::vector<PeerCopies::PeerTensor> &all) {
  const size_t count = tensors.size();
  const bool isWhole = kind == Collective::Kind::AllReduce;
  const bool tellsTargets = writesElsewhere(kind, types);
  std::vector<PeerPlace> places(tellsTargets ? 2 * count : count);
  bool isNew = false;
  auto place = [&](DeviceAddress address, PeerPlace &of) {
    if (!memory.isKnown(address) && !std::exchange(isNew, true))
      TRAINRT_TRY(memory.awaitIdle());
    return memory.place(address, of);
  };
  for (size_t i = 0; i < count; ++i) {
    const Tensor &tensor = tensors[i];
    if (tensor.size.elements)
      TRAINRT_TRY(place(tensor.whole, places[i]));
    if (tensor.size.elements && tellsTargets)
      TRAINRT_TRY(place(isWhole ? tensor.sums : tensor.own, places[count + i]));
    all.push_back(
        {tensor, std::vector<DeviceAddress>(numRanks), std::vector<DeviceAddress>(numRanks)});
  }
  std::vector<std::span<const std::byte>> told;
  TRAINRT_TRY(board.gather(std::as_bytes(std::span(places)), told));
  for (int other = 0; other < world(); ++other) {
    if (told[size_t(other)].size() != places.size() * sizeof(PeerPlace))
      return fail(Code::RankLost, "rank ", other, " exchanges other tensors than rank ", rank());
    for (size_t i = 0; i < places.size(); ++i) {
      PeerCopies::PeerTensor &tensor = all[i % count];
      DeviceAddress &address = (i < count ? tensor.wholes : tensor.targets)[size_t(other)];
      PeerPlace theirs;
      std::memcpy(&theirs, told[size_t(other)].data() + i * sizeof theirs, sizeof theirs);
      if (other == rank() || !theirs.block)
        continue;
      if (!memory.isOpen(other, theirs) && !std::exchange(isNew, true))
        TRAINRT_TRY(memory.awaitIdle());
      TRAINRT_TRY(memory.address(other, theirs, address));
    }
  }
  for (PeerCopies::PeerTensor &one : all) {
    one.wholes[own()] = one.tensor.whole;
    if (isWhole && !tellsTargets)
      one.targets = one.wholes;
    one.targets[own()] = isWhole ? one.tensor.sums : one.tensor.own;
  }
  // All see that there is something new, and go on when all have opened it.
  return isNew ? board.gather({}, told) : Status();
}

Status PeerExchange::enqueue(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                             CUstream stream) {
  TRAINRT_TRY(ranks->failure());
  if (isEnded)
    return Status(Code::RankLost, "the connection of the GPUs has been given up");
  std::vector<PeerCopies::PeerTensor> all;
  TRAINRT_TRY(meet(kind, types, tensors, all));
  static_assert(int(DType::F32) == SumF32 && int(DType::F64) == SumF64 &&
                int(DType::F16) == SumF16 && int(DType::BF16) == SumBF16);
  assert((kind == Collective::Kind::AllGather || isFloat(types.sent)) &&
         "readProgram refuses other sums");
  const Kernel kernel = kind == Collective::Kind::AllGather ? Copy : Kernel(types.sent);
  std::vector<PeerCopies::PeerTensor> copied, small;
  for (PeerCopies::PeerTensor &one : all)
    (one.tensor.size.shard * types.bytes().sent >= settings.copied ? copied : small)
        .push_back(std::move(one));
  ++turn;
  const Flag ready = Ready, done = Done;
  TRAINRT_TRY(launch(Copy, {}, &ready, stream));
  TRAINRT_TRY(await(Ready, stream));
  TRAINRT_TRY(copies.run(kind, types, copied, stream));
  TRAINRT_TRY(launch(kernel, rangesOf(kind, types, small), &done, stream));
  TRAINRT_TRY(await(Done, stream));
  // What is behind it sees what the others wrote.
  return launch(Copy, {}, nullptr, stream);
}

std::vector<PeerExchange::Range>
PeerExchange::rangesOf(Collective::Kind kind, SumTypes types,
                       std::span<const PeerCopies::PeerTensor> tensors) const {
  const auto [width, sumWidth] = types.bytes();
  std::vector<Range> ranges;
  // Addresses at an offset, in the memory of all ranks, or of those that get something.
  auto at = [&](const std::vector<DeviceAddress> &places, int64_t bytes, bool ofAll) {
    std::vector<DeviceAddress> addresses;
    for (int other = 0; other < world(); ++other)
      if (ofAll || gives(kind, other))
        addresses.push_back(places[size_t(other)] + DeviceAddress(bytes));
    return addresses;
  };
  std::vector<CutSize> sizes;
  for (const auto &[tensor, wholes, targets] : tensors) {
    sizes.push_back(tensor.size);
    if (const int64_t there = tensor.size.there(shard());
        there && kind == Collective::Kind::AllGather)
      ranges.push_back(
          {there * width, {tensor.own}, at(wholes, shard() * tensor.size.shard * width, false)});
  }
  if (kind == Collective::Kind::AllGather)
    return ranges;
  const SumParts parts = sumsOf(kind, std::move(sizes));
  parts.forEach(rank(), 0, parts.elements(), [&](const RankParts::Range &range) {
    const PeerCopies::PeerTensor &one = tensors[range.tensor];
    std::vector<DeviceAddress> to;
    if (kind == Collective::Kind::ReduceScatter)
      to = at(one.targets, range.inShard * sumWidth, false);
    else if (types.widens())
      to = at(one.targets, range.at * sumWidth, false);
    if (range.there)
      ranges.push_back({range.there, at(one.wholes, range.at * width, true), std::move(to)});
  });
  return ranges;
}

Status PeerExchange::await(Flag flag, CUstream stream) const {
  for (size_t other = 0; other < numRanks; ++other)
    if (other != own())
      TRAINRT_TRY(driver.check(driver.cuStreamWaitValue32(stream, word(flag * numRanks + other),
                                                          turn, CU_STREAM_WAIT_VALUE_GEQ),
                               "cannot wait for another rank"));
  return {};
}

/// Others are told when the last of the launches is done. All of a kind have as many addresses.
Status PeerExchange::launch(Kernel kernel, std::span<const Range> ranges, const Flag *told,
                            CUstream stream) const {
  do {
    PeerSumsArguments args{};
    args.flags = word(0);
    args.ended = word(endedFlag());
    args.done = word(endedFlag() + 1);
    args.numFlags = int32_t(numFlags * numRanks);
    args.turn = turn;
    size_t count = 0;
    int64_t tiles = 0;
    uint64_t *next = args.words;
    for (; count < ranges.size(); ++count) {
      const Range &range = ranges[count];
      if (next + 1 + range.from.size() + range.to.size() > std::end(args.words))
        break;
      args.numFrom = int32_t(range.from.size());
      args.numTo = int32_t(range.to.size());
      *next++ = uint64_t(range.elements);
      next = std::copy(range.from.begin(), range.from.end(), next);
      next = std::copy(range.to.begin(), range.to.end(), next);
      // Of numbers of 16 bits a thread takes as many as of f32.
      const int64_t width = kernel == Copy ? 1 : kernel == SumF64 ? 8 : 4;
      tiles += (range.elements * width + tileBytes - 1) / tileBytes;
    }
    args.numRanges = int32_t(count);
    args.blocks = int32_t(std::clamp<int64_t>(tiles, 1, settings.blocks));
    ranges = ranges.subspan(count);
    for (size_t other = 0; told && ranges.empty() && other < numRanks; ++other)
      if (other != own())
        args.signals[args.numSignals++] = flagAt(other, *told);
    void *parameters[] = {&args};
    TRAINRT_TRY(driver.check(driver.cuLaunchKernel(kernels[kernel], unsigned(args.blocks), 1, 1,
                                                   threads, 1, 1, 0, stream, parameters, nullptr),
                             "cannot start the runtime's kernel for exchanges between GPUs"));
  } while (!ranges.empty());
  return {};
}

/// All that is waited for is said to be there, and kernels then do nothing. Again and again: a rank
/// that does not know yet may write over it.
void PeerExchange::end() {
  if (isEnded || !last.get())
    return;
  isEnded = true;
  auto *value = reinterpret_cast<uint32_t *>(words.data());
  std::fill_n(value, endedFlag(), turn);
  value[endedFlag()] = 1;
  const Clock::time_point began = Clock::now();
  do {
    driver.cuMemcpyHtoDAsync(word(endedFlag()), value + endedFlag(), 4, side);
    driver.cuMemcpyHtoDAsync(word(0), value, 4 * endedFlag(), side);
    driver.cuStreamSynchronize(side);
  } while (driver.cuEventQuery(last.get()) == CUDA_ERROR_NOT_READY &&
           Clock::now() - began < endLimit);
}

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

Status createPeerExchange(const Context &context, Communicator &ranks,
                          std::unique_ptr<RankExchange> &exchange, std::string &why) {
  Settings settings;
  TRAINRT_TRY(readSettings(settings));
  auto made = std::make_unique<PeerExchange>(context, ranks, settings);
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
  made->removeName();
  if (why.empty())
    TRAINRT_TRY(agree(ranks, made->tryIt(), {}, all, why));
  if (why.empty()) {
    exchange = std::move(made);
    return {};
  }
  // Memory goes when no other process has it any more.
  made->giveUp();
  return ranks.gather({}, all);
}

} // namespace trainrt::cuda
