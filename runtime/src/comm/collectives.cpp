// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank adds up one part of all tensors, a block at a time: every other one sends it that, and
// gets the sums.

#include "comm/collectives.h"
#include "comm/rank_parts.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

namespace {

/// Of what travels at a time, to all ranks together.
constexpr int64_t blockBytes = int64_t(4) << 20;

/// All ranks call it with tensors of the same sizes, in the same order. The sum of an element is
/// made by one rank only, from zero over the ranks from 0 on, and copied to the others: all ranks
/// end with the same bits, whichever rank made them. `staging` only grows, so that it can be kept
/// for the next call. Behind an error some blocks of the tensors hold sums and others what they
/// held.
template <typename T>
Status reduce(Communicator &ranks, std::span<const RankTensor> tensors,
              std::vector<unsigned char> &staging) {
  std::vector<int64_t> elements;
  for (const RankTensor &tensor : tensors)
    elements.push_back(tensor.elements);
  const RankParts parts(elements, ranks.world());
  const size_t world = size_t(ranks.world());
  // 0 where there is nothing to add: then the loop makes no turn.
  const int64_t block = parts.block(blockBytes, sizeof(T));
  // A piece for each rank, a piece from each rank, and the sum.
  staging.resize(std::max(staging.size(), size_t(block) * sizeof(T) * (2 * world + 1)));
  T *const out = reinterpret_cast<T *>(staging.data());
  T *const in = out + int64_t(world) * block, *const sum = in + int64_t(world) * block;
  std::vector<Communicator::Sent> sent(world);
  std::vector<Communicator::Received> received(world);
  for (int64_t begin = 0; begin < parts.size(); begin += block) {
    const int64_t count = std::min(block, parts.size() - begin), bytes = count * int64_t(sizeof(T));
    for (size_t rank = 0; rank < world; ++rank) {
      T *const piece = out + int64_t(rank) * block;
      parts.forEach(int(rank), begin, count, [&](const RankParts::Range &range) {
        std::copy_n(static_cast<const T *>(tensors[range.tensor].data) + range.at, range.there,
                    piece + range.begin);
        std::fill_n(piece + range.begin + range.there, range.all - range.there, T(0));
      });
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
      parts.forEach(int(rank), begin, count, [&](const RankParts::Range &range) {
        std::copy_n(in + int64_t(rank) * block + range.begin, range.there,
                    static_cast<T *>(tensors[range.tensor].data) + range.at);
      });
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
