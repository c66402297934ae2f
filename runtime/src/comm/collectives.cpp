// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up one part of all tensors, a block at a time: every other one sends it that, and
// gets the sums.

#include "comm/collectives.h"
#include "format/memory/exchange_work.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace trainrt {

namespace {

/// The tensors of a bucket, of which each rank has a part: its shard of each, behind each other.
/// The last ones may reach over the ends, where there are zeros.
class Parts {
public:
  Parts(std::span<const CutTensor> tensors, DType dtype)
      : tensors(tensors), bytes(int64_t(sizeOf(dtype))) {}

  /// The elements [begin, begin + count) of a rank's part of the tensors.
  void read(int rank, int64_t begin, int64_t count, unsigned char *to) const {
    forEach(begin, count, [&](const CutTensor &tensor, int64_t low, int64_t all) {
      const auto [at, there] = inTensor(tensor, rank, low, all);
      std::copy_n(static_cast<unsigned char *>(tensor.whole.data) + at * bytes, there * bytes, to);
      std::fill_n(to + there * bytes, (all - there) * bytes, 0);
      to += all * bytes;
    });
  }
  void write(int rank, int64_t begin, int64_t count, const unsigned char *from) const {
    forEach(begin, count, [&](const CutTensor &tensor, int64_t low, int64_t all) {
      const auto [at, there] = inTensor(tensor, rank, low, all);
      std::copy_n(from, there * bytes,
                  static_cast<unsigned char *>(tensor.whole.data) + at * bytes);
      from += all * bytes;
    });
  }
  /// The same of the shards.
  void readOwn(int64_t begin, int64_t count, unsigned char *to) const {
    forEach(begin, count, [&](const CutTensor &tensor, int64_t low, int64_t all) {
      std::copy_n(static_cast<unsigned char *>(tensor.own) + low * bytes, all * bytes, to);
      to += all * bytes;
    });
  }
  void writeOwn(int64_t begin, int64_t count, const unsigned char *from) const {
    forEach(begin, count, [&](const CutTensor &tensor, int64_t low, int64_t all) {
      std::copy_n(from, all * bytes, static_cast<unsigned char *>(tensor.own) + low * bytes);
      from += all * bytes;
    });
  }

private:
  /// Where elements of a shard are in the tensor, and how many are: no address behind its end is
  /// made.
  static std::pair<int64_t, int64_t> inTensor(const CutTensor &tensor, int rank, int64_t low,
                                              int64_t all) {
    const int64_t at = rank * tensor.shard + low;
    const int64_t there = std::clamp<int64_t>(tensor.whole.elements - at, 0, all);
    return {there ? at : 0, there};
  }

  /// Calls `fn(tensor, first element of the shard, elements)` for each tensor's share of a range.
  template <typename Fn> void forEach(int64_t begin, int64_t count, const Fn &fn) const {
    const int64_t end = begin + count;
    int64_t first = 0; // of the tensor's shard in the part
    for (const CutTensor &tensor : tensors) {
      const int64_t low = std::max(begin, first), high = std::min(end, first + tensor.shard);
      if (low < high)
        fn(tensor, low - first, high - low);
      first += tensor.shard;
    }
  }

  std::span<const CutTensor> tensors;
  const int64_t bytes;
};

/// Blocks of a part, and room for them: a piece for each rank, a piece from each, and one more.
class Blocks {
public:
  /// `staging` only grows, so that it can be kept for the next call; no more is asked for.
  Blocks(Communicator &ranks, const Parts &parts, DType dtype, const ExchangeWork &work,
         std::vector<unsigned char> &staging)
      : parts(parts), bytes(int64_t(sizeOf(dtype))), world(size_t(ranks.world())), sent(world),
        received(world), work(work) {
    assert(world > 1 && "a rank alone has nothing to exchange, and no room for it");
    if (const auto needed = size_t(work.staging()); needed > staging.size()) {
      staging = {};
      staging.resize(needed);
    }
    room = staging.data();
  }

  unsigned char *out(size_t rank) { return room + int64_t(rank) * work.block * bytes; }
  unsigned char *in(size_t rank) { return out(world + rank); }
  unsigned char *own() { return out(2 * world); }

  /// Calls `fn(first element, elements)` for each block, with pieces of that size set up.
  template <typename Fn> Status forEach(const Fn &fn) {
    for (int64_t begin = 0; begin < work.part; begin += work.block) {
      const int64_t count = std::min(work.block, work.part - begin);
      for (size_t rank = 0; rank < world; ++rank) {
        sent[rank] = {out(rank), count * bytes};
        received[rank] = {in(rank), count * bytes};
      }
      TRAINRT_TRY(fn(begin, count));
    }
    return {};
  }

  const Parts &parts;
  const int64_t bytes;
  const size_t world;
  std::vector<Communicator::Sent> sent;
  std::vector<Communicator::Received> received;

private:
  const ExchangeWork work;
  unsigned char *room = nullptr;
};

ExchangeWork workOf(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors) {
  std::vector<int64_t> shards;
  for (const CutTensor &tensor : tensors)
    shards.push_back(tensor.shard);
  return ExchangeWork::ofShards(int64_t(sizeOf(dtype)), shards, ranks.world());
}

/// All ranks call it with tensors of the same sizes, in the same order. The sum of an element is
/// made by one rank only, from zero over the ranks from 0 on. `take(begin, count)` is given those
/// of this rank's part in `own`.
template <typename T, typename Take>
Status reduce(Communicator &ranks, Blocks &blocks, const Take &take) {
  return blocks.forEach([&](int64_t begin, int64_t count) -> Status {
    for (size_t rank = 0; rank < blocks.world; ++rank)
      blocks.parts.read(int(rank), begin, count, blocks.out(rank));
    TRAINRT_TRY(ranks.exchange(blocks.sent, blocks.received));
    T *const sum = reinterpret_cast<T *>(blocks.own());
    std::fill_n(sum, count, T(0));
    for (size_t rank = 0; rank < blocks.world; ++rank) {
      const T *const piece = reinterpret_cast<const T *>(blocks.in(rank));
      for (int64_t i = 0; i < count; ++i)
        sum[i] += piece[i];
    }
    return take(begin, count);
  });
}

template <typename Take>
Status reduce(Communicator &ranks, DType dtype, Blocks &blocks, const Take &take) {
  assert((dtype == DType::F32 || dtype == DType::F64) && "readProgram refuses other sums");
  return dtype == DType::F64 ? reduce<double>(ranks, blocks, take)
                             : reduce<float>(ranks, blocks, take);
}

/// What is in `own` goes to all, and what all have there into the tensors.
Status gatherBlock(Communicator &ranks, Blocks &blocks, int64_t begin, int64_t count) {
  // What has come in is not needed any more: the others' may come over it.
  std::fill(blocks.sent.begin(), blocks.sent.end(),
            Communicator::Sent{blocks.own(), count * blocks.bytes});
  TRAINRT_TRY(ranks.exchange(blocks.sent, blocks.received));
  for (size_t rank = 0; rank < blocks.world; ++rank)
    blocks.parts.write(int(rank), begin, count, blocks.in(rank));
  return {};
}

} // namespace

/// All ranks end with the same bits, whichever rank made them. Behind an error some blocks of the
/// tensors hold sums and others what they held.
Status allReduce(Communicator &ranks, DType dtype, std::span<const RankTensor> tensors,
                 std::vector<unsigned char> &staging) {
  std::vector<CutTensor> cut;
  for (const RankTensor &tensor : tensors)
    cut.push_back({tensor, nullptr, (tensor.elements + ranks.world() - 1) / ranks.world()});
  const Parts parts(cut, dtype);
  Blocks blocks(ranks, parts, dtype, workOf(ranks, dtype, cut), staging);
  return reduce(ranks, dtype, blocks, [&](int64_t begin, int64_t count) {
    return gatherBlock(ranks, blocks, begin, count);
  });
}

Status reduceScatter(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors,
                     std::vector<unsigned char> &staging) {
  const Parts parts(tensors, dtype);
  Blocks blocks(ranks, parts, dtype, workOf(ranks, dtype, tensors), staging);
  return reduce(ranks, dtype, blocks, [&](int64_t begin, int64_t count) -> Status {
    parts.writeOwn(begin, count, blocks.own());
    return {};
  });
}

Status allGather(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors,
                 std::vector<unsigned char> &staging) {
  const Parts parts(tensors, dtype);
  Blocks blocks(ranks, parts, dtype, workOf(ranks, dtype, tensors), staging);
  return blocks.forEach([&](int64_t begin, int64_t count) {
    parts.readOwn(begin, count, blocks.own());
    return gatherBlock(ranks, blocks, begin, count);
  });
}

} // namespace trainrt
