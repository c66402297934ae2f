// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up one part of all tensors, its shard of each, a block at a time: every other one
// sends it that, and in an all-reduce gets the sums. Pieces are sent from where they are and arrive
// where they belong; only what is added up is staged.

#include "device/cuda/ranks/device_ranks.h"
#include "device/cuda/ranks/rank_exchange.h"

#include <cassert>

namespace trainrt::cuda {

namespace {

class PieceExchange final : public RankExchange {
public:
  PieceExchange(const Driver &driver, Communicator *ranks) : RankExchange(driver, ranks) {}
  Status start(const Context &context);

  int64_t stagingBytes(const ExchangeWork &work) const override { return work.deviceStaging(); }
  void stageAt(DeviceAddress address, int64_t bytes) override {
    staging = address;
    stagingSize = bytes;
  }
  Status run(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
             const Event &done, CUstream stream) override;
  Status finish(CUstream stream) override;
  Status check() const override { return carrier->check(); }
  void abort(const Status &why) override;

private:
  Status addUp(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
               const Event &done, CUstream stream);
  Status addInOrder(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                    const Event &done, CUstream stream);
  Status gather(DType dtype, std::span<const Tensor> tensors, const Event &done, CUstream stream);
  Status widen(DType from, std::span<const Tensor> tensors, CUstream stream) const;

  std::unique_ptr<DeviceRanks> carrier;
  DeviceAddress staging = 0;
  int64_t stagingSize = 0;
  /// The sums of an all-reduce's last block, which leave with the next one's pieces.
  struct {
    std::vector<DeviceRanks::Piece> sent, received;
    const Event *done = nullptr;
  } gathering;
};

Status PieceExchange::start(const Context &context) {
  TRAINRT_TRY(loadKernels());
  return ranks && ranks->sharesMemory() ? createSharedRanks(context, *ranks, carrier)
                                        : createNcclRanks(context, ranks, carrier);
}

void PieceExchange::abort(const Status &why) {
  gathering = {};
  carrier->abort();
  if (ranks)
    ranks->abort(why);
}

/// Where a rank fails, the others wait for it: they are told. Sums that have not left are waited
/// for by what is of another kind, as that may read them.
Status PieceExchange::run(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                          const Event &done, CUstream stream) {
  if (kind != Collective::Kind::AllReduce)
    TRAINRT_TRY(finish(stream));
  const Status status = kind == Collective::Kind::AllGather
                            ? gather(types.made, tensors, done, stream)
                            : addUp(kind, types, tensors, done, stream);
  if (!status.ok())
    abort(status);
  return status;
}

/// The sums of the last block are still to be sent.
Status PieceExchange::finish(CUstream stream) {
  if (!gathering.done)
    return {};
  Status status = carrier->exchange(gathering.sent, gathering.received, stream);
  if (status.ok())
    status = record(*gathering.done, stream);
  gathering = {};
  if (!status.ok())
    abort(status);
  return status;
}

/// NCCL knows shards that are equal, without an end that is beyond their tensor's; others are added
/// up here. It would round each sum to the type of what is added: so tensors of 16 bits are made
/// f32 before they become the same everywhere, and are added up here where only shards have room
/// for it.
Status PieceExchange::addUp(Collective::Kind kind, SumTypes types, std::span<const Tensor> tensors,
                            const Event &done, CUstream stream) {
  const bool cuts = kind == Collective::Kind::ReduceScatter;
  if (cuts)
    TRAINRT_TRY(clearEnds(types.made, tensors, stream));
  if (!ranks || !ranks->wantsVendorSums() || (cuts && types.widens()))
    return addInOrder(kind, types, tensors, done, stream);
  if (types.widens())
    TRAINRT_TRY(widen(types.sent, tensors, stream));
  std::vector<DeviceRanks::Sum> sums;
  std::vector<Tensor> uneven;
  for (const Tensor &tensor : tensors)
    if (cuts && tensor.size.shard * world() != tensor.size.elements)
      uneven.push_back(tensor);
    else if (tensor.size.elements)
      sums.push_back({cuts ? tensor.whole : tensor.sums, cuts ? tensor.own : tensor.sums,
                      tensor.size.elements, cuts});
  TRAINRT_TRY(carrier->addUp(types.made, sums, stream));
  return addInOrder(kind, types.made, uneven, done, stream);
}

Status PieceExchange::widen(DType from, std::span<const Tensor> tensors, CUstream stream) const {
  std::vector<RankSumsArguments::Range> ranges;
  for (const Tensor &tensor : tensors)
    if (tensor.size.elements)
      ranges.push_back({tensor.whole, tensor.sums, 0, tensor.size.elements});
  return kernels().widen(from, ranges, stream);
}

/// Shards as they are, whatever their type, of the ranks of a replica.
Status PieceExchange::gather(DType dtype, std::span<const Tensor> tensors, const Event &done,
                             CUstream stream) {
  const auto width = int64_t(sizeOf(dtype));
  std::vector<DeviceRanks::Piece> sent, received;
  for (const Tensor &tensor : tensors)
    for (int which = 0; which < world(); ++which) {
      if (!gives(Collective::Kind::AllGather, which))
        continue;
      const int number = which % shards(); // of its shard
      const DeviceAddress place = tensor.whole + DeviceAddress(number * tensor.size.shard * width);
      const int64_t own = tensor.size.there(shard()) * width,
                    others = tensor.size.there(number) * width;
      if (which == rank() && own)
        TRAINRT_TRY(driver.check(driver.cuMemcpyDtoDAsync(place, tensor.own, size_t(own), stream),
                                 "cannot copy a shard into its tensor"));
      if (which != rank() && own)
        sent.push_back({which, tensor.own, own});
      if (which != rank() && others)
        received.push_back({which, place, others});
    }
  TRAINRT_TRY(carrier->exchange(sent, received, stream));
  return record(done, stream);
}

/// The sum of an element is made by one rank only, from zero over the ranks from 0 on. Whoever else
/// needs it gets it together with the pieces of the next block: all end with the same bits.
Status PieceExchange::addInOrder(Collective::Kind kind, SumTypes types,
                                 std::span<const Tensor> tensors, const Event &done,
                                 CUstream stream) {
  assert((types.made == DType::F32 || types.made == DType::F64) &&
         "readProgram refuses other sums");
  const auto [width, sumWidth] = types.bytes();
  std::vector<CutSize> sizes;
  for (const Tensor &tensor : tensors)
    sizes.push_back(tensor.size);
  const SumParts parts = sumsOf(kind, std::move(sizes));
  const ExchangeWork work = parts.work(types.bytes());
  assert(work.deviceStaging() <= stagingSize && "the room for it was got with the plan");
  const int64_t block = work.deviceBlock();
  for (int64_t begin = 0; begin < work.part; begin += block) {
    const int64_t count = std::min(block, work.part - begin);
    auto slot = [&](int which) { // of another rank's piece
      return staging + DeviceAddress((which - (which > rank())) * work.devicePiece());
    };
    auto forOthers = [&](const auto &fn) {
      for (int which = 0; which < world(); ++which)
        if (which != rank())
          fn(which);
    };
    // Calls `fn(range, address)` for what a rank adds up of this block, where the tensors are.
    auto inTensors = [&](int which, const auto &fn) {
      parts.forEach(which, begin, count, [&](const RankParts::Range &range) {
        if (range.there)
          fn(range, tensors[range.tensor].whole + DeviceAddress(range.at * width));
      });
    };
    auto inSums = [&](const RankParts::Range &range) {
      return tensors[range.tensor].sums + DeviceAddress(range.at * sumWidth);
    };
    std::vector<RankSumsArguments::Range> ranges;
    // Of this rank's shards, and of those that others have, too.
    auto inShard = [&](const RankParts::Range &range) {
      return tensors[range.tensor].own + DeviceAddress(range.inShard * sumWidth);
    };
    inTensors(rank(), [&](const RankParts::Range &range, DeviceAddress own) {
      ranges.push_back({own, inShard(range), range.begin, range.there});
    });
    forOthers([&](int which) {
      inTensors(which, [&](const RankParts::Range &range, DeviceAddress place) {
        gathering.sent.push_back({which, place, range.there * width});
      });
      for (const RankSumsArguments::Range &range : ranges)
        gathering.received.push_back(
            {which, slot(which) + DeviceAddress(range.begin * width), range.elements * width});
    });
    TRAINRT_TRY(carrier->exchange(gathering.sent, gathering.received, stream));
    if (gathering.done)
      TRAINRT_TRY(record(*gathering.done, stream));
    gathering = {};
    TRAINRT_TRY(kernels().addUp(types, {staging, work.devicePiece() / width, world(), rank(), {}},
                                ranges, stream));
    forOthers([&](int which) {
      if (!gives(kind, which))
        return;
      for (const RankSumsArguments::Range &range : ranges)
        gathering.sent.push_back({which, range.sums, range.elements * sumWidth});
      inTensors(which, [&](const RankParts::Range &range, DeviceAddress) {
        const bool isWhole = kind == Collective::Kind::AllReduce;
        gathering.received.push_back(
            {which, isWhole ? inSums(range) : inShard(range), range.there * sumWidth});
      });
      gathering.done = &done;
    });
  }
  return gathering.done ? Status() : record(done, stream);
}

} // namespace

Status createPieceExchange(const Context &context, Communicator *ranks,
                           std::unique_ptr<RankExchange> &exchange) {
  auto made = std::make_unique<PieceExchange>(context.driver(), ranks);
  TRAINRT_TRY(made->start(context));
  exchange = std::move(made);
  return {};
}

} // namespace trainrt::cuda
