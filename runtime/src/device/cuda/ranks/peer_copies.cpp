// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up its shards a block at a time: while it pulls the others' pieces of one it adds
// up those of the block before, and pushes the sums of the one before that to where they belong.
// Nobody else reads what is written over there: that part of all tensors is this rank's.

#include "device/cuda/ranks/peer_copies.h"

#include <cassert>

namespace trainrt::cuda {

PeerCopies::~PeerCopies() {
  for (CUstream stream : {pulls, pushes})
    if (stream)
      driver.cuStreamDestroy(stream);
}

Status PeerCopies::start() {
  const char *what = "cannot make a stream for copies between GPUs";
  for (CUstream *stream : {&pulls, &pushes})
    TRAINRT_TRY(driver.check(driver.cuStreamCreate(stream, CU_STREAM_NON_BLOCKING), what));
  for (Event *event : {&pulled[0], &pulled[1], &summed[0], &summed[1], &begun, &done})
    TRAINRT_TRY(event->create(context, CU_EVENT_DISABLE_TIMING));
  return {};
}

Status PeerCopies::run(Collective::Kind kind, SumTypes types, std::span<const PeerTensor> tensors,
                       CUstream stream) {
  if (tensors.empty())
    return {};
  TRAINRT_TRY(order(begun, stream, pulls));
  TRAINRT_TRY(order(begun, stream, pushes));
  const Status made = kind == Collective::Kind::AllGather ? gather(types.bytes().made, tensors)
                                                          : addUp(kind, types, tensors, stream);
  // Whoever gives memory back behind an error waits for the stream alone.
  const Status pulled = made.ok() ? made : order(begun, pulls, stream);
  const Status pushed = order(done, pushes, stream);
  return !made.ok() ? made : !pulled.ok() ? pulled : pushed;
}

Status PeerCopies::addUp(Collective::Kind kind, SumTypes types, std::span<const PeerTensor> tensors,
                         CUstream stream) {
  const auto [width, sumWidth] = types.bytes();
  const int rank = exchange.rank(), world = exchange.world();
  std::vector<CutSize> sizes;
  for (const PeerTensor &one : tensors)
    sizes.push_back(one.tensor.size);
  const SumParts parts = exchange.sumsOf(kind, std::move(sizes));
  const ExchangeWork work = parts.work(types.bytes());
  const bool isWhole = kind == Collective::Kind::AllReduce;
  assert(work.deviceStaging() <= stagingSize && "the room for it was got with the plan");
  // Two halves, each with a piece of every other rank.
  const int64_t piece = std::max<int64_t>(work.devicePiece() / 2 / 256 * 256, 256);
  const int64_t block = piece / width;
  for (int64_t begin = 0, half = 0; begin < work.part; begin += block, half ^= 1) {
    const DeviceAddress room = staging + DeviceAddress(half * (world - 1) * piece);
    auto slot = [&](int which) { return room + DeviceAddress((which - (which > rank)) * piece); };
    std::vector<RankSumsArguments::Range> ranges;
    struct Place {
      const PeerTensor &of;
      DeviceAddress inTensor, inShard, inTarget;
    };
    std::vector<Place> places;
    parts.forEach(
        rank, begin, std::min(block, work.part - begin), [&](const RankParts::Range &range) {
          if (!range.there)
            return;
          const Place &place =
              places.emplace_back(tensors[range.tensor], DeviceAddress(range.at * width),
                                  DeviceAddress(range.inShard * sumWidth),
                                  DeviceAddress((isWhole ? range.at : range.inShard) * sumWidth));
          ranges.push_back({place.of.tensor.whole + place.inTensor,
                            place.of.tensor.own + place.inShard, range.begin, range.there});
        });
    if (begin >= 2 * block)
      TRAINRT_TRY(driver.check(driver.cuStreamWaitEvent(pulls, summed[half].get(), 0),
                               "cannot wait for sums"));
    TRAINRT_TRY(forOthers([&](int other) {
      for (size_t i = 0; i < ranges.size(); ++i)
        TRAINRT_TRY(copy(slot(other) + DeviceAddress(ranges[i].begin * width),
                         places[i].of.wholes[size_t(other)] + places[i].inTensor,
                         ranges[i].elements * width, pulls));
      return Status();
    }));
    TRAINRT_TRY(order(pulled[half], pulls, stream));
    TRAINRT_TRY(exchange.kernels().addUp(types, {room, block, world, rank, {}}, ranges, stream));
    TRAINRT_TRY(order(summed[half], stream, pushes));
    TRAINRT_TRY(forOthers([&](int other) {
      for (size_t i = 0; exchange.gives(kind, other) && i < ranges.size(); ++i) {
        TRAINRT_TRY(copy(places[i].of.targets[size_t(other)] + places[i].inTarget, ranges[i].sums,
                         ranges[i].elements * sumWidth, pushes));
      }
      return Status();
    }));
  }
  return {};
}

Status PeerCopies::gather(int64_t width, std::span<const PeerTensor> tensors) {
  for (const auto &[tensor, wholes, targets] : tensors) {
    const int64_t bytes = tensor.size.there(exchange.shard()) * width;
    const auto offset = DeviceAddress(exchange.shard() * tensor.size.shard * width);
    TRAINRT_TRY(forOthers([&](int other) {
      return exchange.gives(Collective::Kind::AllGather, other)
                 ? copy(wholes[size_t(other)] + offset, tensor.own, bytes, pushes)
                 : Status();
    }));
    if (tensor.own != tensor.whole + offset)
      TRAINRT_TRY(copy(tensor.whole + offset, tensor.own, bytes, pulls));
  }
  return order(begun, pulls, pushes);
}

Status PeerCopies::copy(DeviceAddress to, DeviceAddress from, int64_t bytes,
                        CUstream stream) const {
  return driver.check(driver.cuMemcpyDtoDAsync(to, from, size_t(bytes), stream),
                      "cannot copy between GPUs");
}

Status PeerCopies::order(const Event &event, CUstream before, CUstream behind) const {
  TRAINRT_TRY(exchange.record(event, before));
  return driver.check(driver.cuStreamWaitEvent(behind, event.get(), 0),
                      "cannot wait for copies between GPUs");
}

template <typename Fn> Status PeerCopies::forOthers(const Fn &fn) const {
  for (int i = 1; i < exchange.world(); ++i)
    TRAINRT_TRY(fn((exchange.rank() + i) % exchange.world()));
  return {};
}

} // namespace trainrt::cuda
