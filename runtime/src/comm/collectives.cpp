// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank has one part of all tensors, of which it gets the sums, a block at a time: ranks of one
// node send each other theirs, and what nodes have added up goes from one to the next.

#include "comm/collectives.h"
#include "comm/rank_parts.h"
#include "format/memory/exchange_work.h"
#include "format/narrow_float.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace trainrt {

namespace {

/// Elements of a part.
struct Block {
  int64_t begin = 0, count = 0;
};

/// The tensors of a bucket, cut into parts: the shards with one number of each, behind each other.
/// The last ones may reach over the ends, where there are zeros. Each rank has one of `shards`
/// parts, as all have whose rank differs by a multiple of that.
class Parts {
public:
  Parts(std::span<const CutTensor> tensors, SumTypes types, const Communicator &ranks, int shards)
      : shards(size_t(shards)), replicas(size_t(ranks.world() / shards)), tensors(tensors),
        parts(sizesOf(tensors)), bytes(types.bytes()) {
    for (const CutTensor &tensor : tensors)
      part += tensor.shard;
    slice = (part + int64_t(replicas) - 1) / int64_t(replicas);
  }

  const size_t shards, replicas;

  /// What a rank adds up of its part, beside those of other replicas: a block of that.
  void readSlice(size_t rank, const Block &block, unsigned char *to) const {
    const Block there = inPart(rank, block);
    read(rank % shards, there.begin, there.count, to);
    std::fill_n(to + there.count * bytes.sent, (block.count - there.count) * bytes.sent, 0);
  }
  /// This rank's shards get what one with the same part has added up.
  void writeSlice(size_t rank, const Block &block, const unsigned char *from) const {
    const Block there = inPart(rank, block);
    writeOwn(there.begin, there.count, from);
  }

  /// The elements [begin, begin + count) of a part of the tensors, and of what is made of it.
  void read(size_t shard, int64_t begin, int64_t count, unsigned char *to) const {
    parts.forEach(int(shard), begin, count, [&](const RankParts::Range &range) {
      const auto *from = static_cast<const unsigned char *>(tensors[range.tensor].whole.data);
      std::copy_n(from + range.at * bytes.sent, range.there * bytes.sent, to);
      std::fill_n(to + range.there * bytes.sent, (range.count - range.there) * bytes.sent, 0);
      to += range.count * bytes.sent;
    });
  }
  void write(size_t shard, int64_t begin, int64_t count, const unsigned char *from) const {
    parts.forEach(int(shard), begin, count, [&](const RankParts::Range &range) {
      const RankTensor &whole = tensors[range.tensor].whole;
      auto *to = static_cast<unsigned char *>(whole.sums ? whole.sums : whole.data);
      std::copy_n(from, range.there * bytes.made, to + range.at * bytes.made);
      from += range.count * bytes.made;
    });
  }
  /// The same of the shards.
  void readOwn(int64_t begin, int64_t count, unsigned char *to) const {
    parts.forEach(0, begin, count, [&](const RankParts::Range &range) {
      std::copy_n(inShard(range), range.count * bytes.made, to);
      to += range.count * bytes.made;
    });
  }

private:
  void writeOwn(int64_t begin, int64_t count, const unsigned char *from) const {
    parts.forEach(0, begin, count, [&](const RankParts::Range &range) {
      std::copy_n(from, range.count * bytes.made, inShard(range));
      from += range.count * bytes.made;
    });
  }
  /// Of a block of the rank's slice what the part has.
  Block inPart(size_t rank, const Block &block) const {
    const int64_t begin = int64_t(rank / shards) * slice + block.begin;
    return {begin, std::clamp<int64_t>(part - begin, 0, block.count)};
  }
  unsigned char *inShard(const RankParts::Range &range) const {
    return static_cast<unsigned char *>(tensors[range.tensor].own) + range.inShard * bytes.made;
  }
  static std::vector<CutSize> sizesOf(std::span<const CutTensor> tensors) {
    std::vector<CutSize> sizes;
    for (const CutTensor &tensor : tensors)
      sizes.push_back({tensor.whole.elements, tensor.shard});
    return sizes;
  }

  std::span<const CutTensor> tensors;
  const RankParts parts;
  const ElementBytes bytes;
  int64_t part = 0, slice = 0; ///< elements
};

/// How ranks lie on nodes. Those of a rank each are as one: nothing has to be told less often.
class Nodes {
public:
  explicit Nodes(const Communicator &ranks)
      : each(size_t(ranks.ranksPerNode() > 1 ? ranks.ranksPerNode() : ranks.world())),
        count(size_t(ranks.world()) / each), own(size_t(ranks.rank()) / each),
        local(size_t(ranks.rank()) % each) {
    assert(each * count == size_t(ranks.world()) && "nodes are equal");
  }
  size_t rank(size_t node, size_t of) const { return node * each + of; }
  bool isFirst() const { return own == 0; }
  bool isLast() const { return own + 1 == count; }

  const size_t each, count, own, local;
};

/// Ranks that gather: `count` of them, `stride` apart.
struct Members {
  size_t first, stride, count;
  size_t rank(size_t member) const { return first + member * stride; }
};

/// Blocks of what a rank has, or adds up, and room for them: a piece for each rank, a piece from
/// each, and one more; where sums go through several nodes two sums of a piece for each of these.
/// What is added up may be narrower than its sums, for which the room is.
class Blocks {
public:
  /// `staging` only grows, so that it can be kept for the next call; no more is asked for.
  Blocks(Communicator &ranks, const Parts &parts, SumTypes types, const ExchangeWork &work,
         std::vector<unsigned char> &staging, bool sums)
      : ranks(ranks), nodes(ranks), parts(parts), bytes(types.bytes().made),
        sentBytes(types.bytes().sent), world(size_t(ranks.world())), pieces(size_t(work.ranks)),
        part(work.part), block(sums ? work.blockOfNodes(int64_t(nodes.count)) : work.block) {
    assert(world > 1 && "a rank alone has nothing to exchange, and no room for it");
    const auto chained = sums && nodes.count > 1 ? 2 * nodes.count : 0;
    const auto needed = (2 * pieces + 1 + chained) * size_t(block * bytes);
    if (needed > staging.size()) {
      staging = {};
      staging.resize(needed);
    }
    room = staging.data();
  }

  /// Room for so many pieces.
  unsigned char *out(size_t piece = 0) { return room + int64_t(piece) * block * bytes; }
  unsigned char *in(size_t piece = 0) { return out(pieces + piece); }
  unsigned char *own() { return out(2 * pieces); }
  unsigned char *chain(bool second) { return out(2 * pieces + 1 + (second ? nodes.count : 0)); }

  int64_t count() const { return block ? (part + block - 1) / block : 0; }
  /// Without elements where there is no such block.
  Block at(int64_t number) const {
    if (number < 0 || number >= count())
      return {};
    return {number * block, std::min(block, part - number * block)};
  }

  /// The pieces of the next `exchange`, of so many sums each; without these there are none.
  void send(size_t rank, const unsigned char *data, int64_t elements) {
    sent[rank] = {data, elements * bytes};
  }
  void receive(size_t rank, unsigned char *data, int64_t elements) {
    received[rank] = {data, elements * bytes};
  }
  /// The same of elements that are to be added up.
  void sendElements(size_t rank, const unsigned char *data, int64_t elements) {
    sent[rank] = {data, elements * sentBytes};
  }
  void receiveElements(size_t rank, unsigned char *data, int64_t elements) {
    received[rank] = {data, elements * sentBytes};
  }
  Status exchange() {
    TRAINRT_TRY(ranks.exchange(sent, received));
    sent.assign(world, {});
    received.assign(world, {});
    return {};
  }

  Communicator &ranks;
  const Nodes nodes;
  const Parts &parts;
  const int64_t bytes, sentBytes; ///< of a sum, and of what is added up
  const size_t world;

private:
  const size_t pieces;
  const int64_t part, block;
  unsigned char *room = nullptr;
  std::vector<Communicator::Sent> sent = std::vector<Communicator::Sent>(world);
  std::vector<Communicator::Received> received = std::vector<Communicator::Received>(world);
};

std::vector<int64_t> elementsOf(std::span<const CutTensor> tensors) {
  std::vector<int64_t> shards;
  for (const CutTensor &tensor : tensors)
    shards.push_back(tensor.shard);
  return shards;
}

/// All ranks call it with tensors of the same sizes, in the same order. The sum of an element is
/// made once, from zero over the ranks from 0 on, and its rank has it in `own` when `take(block)`
/// is called, on all ranks at the same time.
///
/// Of a node each rank adds up the pieces for itself and for those that have its place on other
/// nodes; what a node has added up goes on to the next one. So the nodes are a pipeline: each works
/// on the block behind that of the next one. `From`: what is added up, exact in `T`.
template <typename T, typename From, typename Take>
Status reduce(Blocks &blocks, const Take &take) {
  const Nodes &nodes = blocks.nodes;
  const auto number = int64_t(nodes.count), own = int64_t(nodes.own);
  // Sums of the last node go to their ranks with its next block.
  const int64_t delay = number > 1 ? number : 0;
  auto piece = [&](unsigned char *from, size_t node, int64_t count) {
    return from + int64_t(node) * count * blocks.bytes;
  };
  unsigned char *sum = number > 1 ? blocks.chain(false) : blocks.own(), *coming = sum;
  if (number > 1)
    coming = blocks.chain(true);
  for (int64_t tick = 0; tick < blocks.count() + delay; ++tick) {
    const Block here = blocks.at(tick - own), before = blocks.at(tick - 1 - own),
                made = blocks.at(tick - delay);
    for (size_t local = 0; here.count && local < nodes.each; ++local) {
      unsigned char *const to = blocks.out(local * nodes.count);
      for (size_t node = 0; node < nodes.count; ++node)
        blocks.parts.readSlice(nodes.rank(node, local), here,
                               to + int64_t(node) * here.count * blocks.sentBytes);
      const size_t neighbour = nodes.rank(nodes.own, local);
      blocks.sendElements(neighbour, to, number * here.count);
      blocks.receiveElements(neighbour, blocks.in(local * nodes.count), number * here.count);
    }
    if (!nodes.isFirst())
      blocks.receive(nodes.rank(nodes.own - 1, nodes.local), coming, number * here.count);
    if (!nodes.isLast()) {
      blocks.send(nodes.rank(nodes.own + 1, nodes.local), sum, number * before.count);
      blocks.receive(nodes.rank(nodes.count - 1, nodes.local), blocks.own(), made.count);
    }
    for (size_t node = 0; nodes.isLast() && node < nodes.own; ++node)
      blocks.send(nodes.rank(node, nodes.local), piece(sum, node, made.count), made.count);
    TRAINRT_TRY(blocks.exchange());
    if (number > 1 && nodes.isLast())
      std::copy_n(piece(sum, nodes.own, made.count), made.count * blocks.bytes, blocks.own());
    std::swap(sum, coming);
    T *const sums = reinterpret_cast<T *>(sum);
    const int64_t elements = number * here.count;
    if (nodes.isFirst())
      std::fill_n(sums, elements, T(0));
    for (size_t local = 0; local < nodes.each; ++local) {
      const auto *const values = reinterpret_cast<const From *>(blocks.in(local * nodes.count));
      for (int64_t i = 0; i < elements; ++i)
        sums[i] += T(values[i]);
    }
    if (made.count)
      TRAINRT_TRY(take(made));
  }
  return {};
}

template <typename Take> Status reduce(SumTypes types, Blocks &blocks, const Take &take) {
  switch (types.sent) {
  case DType::F64:
    return reduce<double, double>(blocks, take);
  case DType::BF16:
    return reduce<float, BFloat16>(blocks, take);
  case DType::F16:
    return reduce<float, Float16>(blocks, take);
  default:
    assert(types.sent == DType::F32 && "readProgram refuses other sums");
    return reduce<float, float>(blocks, take);
  }
}

/// How many of the members that are of one node are so on every node that has some; all where they
/// are of one, or where nodes do not have as many.
size_t membersOfNode(const Nodes &nodes, const Members &members) {
  size_t each = 0;
  if (members.stride == 1)
    each = members.count % nodes.each == 0 ? nodes.each : 0;
  else if (nodes.each % members.stride == 0)
    each = nodes.each / members.stride;
  return each > 1 && members.count % each == 0 ? each : members.count;
}

/// What is in `own` goes to all members, of which this rank is one; `take(member, piece)`. Those of
/// several nodes tell it to those in their place on other nodes first, then, with what these have
/// told, to those of the node.
template <typename Take>
Status gatherBlock(Blocks &blocks, const Members &members, const Block &block, const Take &take) {
  const size_t own = (size_t(blocks.ranks.rank()) - members.first) / members.stride;
  const size_t each = membersOfNode(blocks.nodes, members), nodes = members.count / each;
  const size_t row = own / each * each; // the first member of this node
  auto piece = [&](unsigned char *from, size_t number) {
    return from + int64_t(number) * block.count * blocks.bytes;
  };
  unsigned char *mine = blocks.own();
  if (nodes > 1) {
    mine = blocks.out();
    for (size_t node = 0; node < nodes; ++node) {
      const size_t other = members.rank(node * each + own % each);
      blocks.send(other, blocks.own(), block.count);
      blocks.receive(other, piece(mine, node), block.count);
    }
    TRAINRT_TRY(blocks.exchange());
  }
  const auto together = int64_t(nodes) * block.count;
  for (size_t local = 0; local < each; ++local) {
    blocks.send(members.rank(row + local), mine, together);
    blocks.receive(members.rank(row + local), piece(blocks.in(), local * nodes), together);
  }
  TRAINRT_TRY(blocks.exchange());
  for (size_t local = 0; local < each; ++local)
    for (size_t node = 0; node < nodes; ++node)
      take(members.rank(node * each + local), piece(blocks.in(), local * nodes + node));
  return {};
}

} // namespace

/// All ranks end with the same bits, whichever rank made them. Behind an error some blocks of the
/// tensors hold sums and others what they held.
Status allReduce(Communicator &ranks, SumTypes types, std::span<const RankTensor> tensors,
                 std::vector<unsigned char> &staging) {
  const int world = ranks.world();
  std::vector<CutTensor> cut;
  std::vector<int64_t> elements;
  for (const RankTensor &tensor : tensors) {
    cut.push_back({tensor, nullptr, (tensor.elements + world - 1) / world});
    elements.push_back(tensor.elements);
  }
  const Parts parts(cut, types, ranks, world);
  Blocks blocks(ranks, parts, types, ExchangeWork::ofSums(types.bytes(), elements, world), staging,
                /*sums=*/true);
  return reduce(types, blocks, [&](const Block &block) {
    return gatherBlock(blocks, {0, 1, size_t(world)}, block,
                       [&](size_t rank, const unsigned char *piece) {
                         parts.write(rank, block.begin, block.count, piece);
                       });
  });
}

Status reduceScatter(Communicator &ranks, SumTypes types, std::span<const CutTensor> tensors,
                     std::vector<unsigned char> &staging) {
  const int shards = ranks.ranksPerReplica();
  const Parts parts(tensors, types, ranks, shards);
  Blocks blocks(
      ranks, parts, types,
      ExchangeWork::ofSumsInShards(types.bytes(), elementsOf(tensors), ranks.world(), shards),
      staging, /*sums=*/true);
  const Members same{size_t(ranks.rank() % shards), size_t(shards), parts.replicas};
  return reduce(types, blocks, [&](const Block &block) -> Status {
    auto take = [&](size_t rank, const unsigned char *piece) {
      parts.writeSlice(rank, block, piece);
    };
    if (same.count > 1)
      return gatherBlock(blocks, same, block, take);
    take(size_t(ranks.rank()), blocks.own());
    return {};
  });
}

Status allGather(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors,
                 std::vector<unsigned char> &staging) {
  const int shards = ranks.ranksPerReplica();
  const Parts parts(tensors, dtype, ranks, shards);
  Blocks blocks(ranks, parts, dtype,
                ExchangeWork::ofShards(sizeOf(dtype), elementsOf(tensors), shards), staging,
                /*sums=*/false);
  const Members replica{size_t(ranks.rank() / shards * shards), 1, size_t(shards)};
  for (int64_t number = 0; number < blocks.count(); ++number) {
    const Block block = blocks.at(number);
    parts.readOwn(block.begin, block.count, blocks.own());
    TRAINRT_TRY(gatherBlock(blocks, replica, block, [&](size_t rank, const unsigned char *piece) {
      parts.write(rank - replica.first, block.begin, block.count, piece);
    }));
  }
  return {};
}

} // namespace trainrt
