// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up one part of all tensors, a block at a time: every other one sends it that, and
// gets the sums.

#include "comm/collectives.h"
#include "format/memory/all_reduce_work.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace trainrt {

namespace {

/// The tensors of a bucket, of which rank r has the r-th of equal parts of each, behind each other.
/// The last parts may reach over the ends, where there are zeros.
template <typename T> class Parts {
public:
  Parts(std::span<const RankTensor> tensors, int world) : tensors(tensors) {
    for (const RankTensor &tensor : tensors)
      shards.push_back((tensor.elements + world - 1) / world);
  }

  /// The elements [begin, begin + count) of a rank's part.
  void read(int rank, int64_t begin, int64_t count, T *to) const {
    forEach(rank, begin, count, [&](T *at, int64_t there, int64_t all) {
      std::copy_n(at, there, to);
      std::fill_n(to + there, all - there, T(0));
      to += all;
    });
  }
  void write(int rank, int64_t begin, int64_t count, const T *from) const {
    forEach(rank, begin, count, [&](T *at, int64_t there, int64_t all) {
      std::copy_n(from, there, at);
      from += all;
    });
  }

private:
  /// Calls `fn(address, elements that are there, elements)` for each tensor's share of a range.
  template <typename Fn> void forEach(int rank, int64_t begin, int64_t count, const Fn &fn) const {
    const int64_t end = begin + count;
    int64_t first = 0; // of the tensor's shard in the part
    for (size_t i = 0; i < tensors.size() && first < end; first += shards[i++]) {
      const int64_t low = std::max(begin, first), high = std::min(end, first + shards[i]);
      if (low >= high)
        continue;
      // Of the tensor; it may lie behind its end, where `there` is 0.
      const int64_t at = rank * shards[i] + (low - first);
      const int64_t there = std::clamp<int64_t>(tensors[i].elements - at, 0, high - low);
      // No address behind the tensor's end is made.
      fn(static_cast<T *>(tensors[i].data) + (there ? at : 0), there, high - low);
    }
  }

  std::span<const RankTensor> tensors;
  std::vector<int64_t> shards;
};

/// All ranks call it with tensors of the same sizes, in the same order. The sum of an element is
/// made by one rank only, from zero over the ranks from 0 on, and copied to the others: all ranks
/// end with the same bits, whichever rank made them. `staging` only grows, so that it can be kept
/// for the next call. Behind an error some blocks of the tensors hold sums and others what they
/// held.
template <typename T>
Status reduce(Communicator &ranks, std::span<const RankTensor> tensors,
              std::vector<unsigned char> &staging) {
  const size_t world = size_t(ranks.world());
  std::vector<int64_t> elements;
  for (const RankTensor &tensor : tensors)
    elements.push_back(tensor.elements);
  const AllReduceWork work(int64_t(sizeof(T)), elements, ranks.world());
  const Parts<T> parts(tensors, ranks.world());
  const int64_t block = work.block;
  // A piece for each rank, a piece from each rank, and the sum; no more is asked for.
  if (const auto bytes = size_t(block) * sizeof(T) * (2 * world + 1); bytes > staging.size()) {
    staging = {};
    staging.resize(bytes);
  }
  T *const out = reinterpret_cast<T *>(staging.data());
  T *const in = out + int64_t(world) * block, *const sum = in + int64_t(world) * block;
  std::vector<Communicator::Sent> sent(world);
  std::vector<Communicator::Received> received(world);
  for (int64_t begin = 0; begin < work.part; begin += block) {
    const int64_t count = std::min(block, work.part - begin), bytes = count * int64_t(sizeof(T));
    for (size_t rank = 0; rank < world; ++rank) {
      T *const piece = out + int64_t(rank) * block;
      parts.read(int(rank), begin, count, piece);
      sent[rank] = {piece, bytes};
      received[rank] = {in + int64_t(rank) * block, bytes};
    }
    TRAINRT_TRY(ranks.exchange(sent, received));
    std::fill_n(sum, count, T(0));
    for (size_t rank = 0; rank < world; ++rank) {
      const T *const piece = in + int64_t(rank) * block;
      for (int64_t i = 0; i < count; ++i)
        sum[i] += piece[i];
    }
    // What has come in is added by now: the sums may come over it.
    std::fill(sent.begin(), sent.end(), Communicator::Sent{sum, bytes});
    TRAINRT_TRY(ranks.exchange(sent, received));
    for (size_t rank = 0; rank < world; ++rank)
      parts.write(int(rank), begin, count, in + int64_t(rank) * block);
  }
  return {};
}

} // namespace

Status allReduce(Communicator &ranks, DType dtype, std::span<const RankTensor> tensors,
                 std::vector<unsigned char> &staging) {
  assert((dtype == DType::F32 || dtype == DType::F64) && "readProgram refuses other sums");
  return dtype == DType::F64 ? reduce<double>(ranks, tensors, staging)
                             : reduce<float>(ranks, tensors, staging);
}

} // namespace trainrt
