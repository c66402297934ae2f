// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Each rank has one part of all tensors, of which it gets the sums, a block at a time: ranks of one
// node send each other theirs, and what nodes have added up goes from one to the next.

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

/// How ranks lie on nodes.
class Nodes {
public:
  explicit Nodes(const Communicator &ranks)
      : each(size_t(ranks.ranksPerNode())), count(size_t(ranks.world()) / each),
        own(size_t(ranks.rank()) / each), local(size_t(ranks.rank()) % each) {
    assert(each * count == size_t(ranks.world()) && "nodes are equal");
  }
  size_t rank(size_t node, size_t of) const { return node * each + of; }
  bool isFirst() const { return own == 0; }
  bool isLast() const { return own + 1 == count; }

  const size_t each, count, own, local;
};

/// Elements of a part.
struct Block {
  int64_t begin = 0, count = 0;
};

/// Blocks of a part, and room for them: a piece for each rank, a piece from each, and one more;
/// with several nodes two sums of a piece for each node, too.
class Blocks {
public:
  /// `staging` only grows, so that it can be kept for the next call; no more is asked for.
  Blocks(Communicator &ranks, const Parts &parts, DType dtype, const ExchangeWork &work,
         std::vector<unsigned char> &staging)
      : ranks(ranks), nodes(ranks), parts(parts), bytes(int64_t(sizeOf(dtype))),
        world(size_t(ranks.world())), part(work.part),
        block(work.blockOfNodes(int64_t(nodes.count))) {
    assert(world > 1 && "a rank alone has nothing to exchange, and no room for it");
    const auto chained = nodes.count > 1 ? int64_t(2 * nodes.count) : 0;
    const auto needed = size_t((2 * int64_t(world) + 1 + chained) * block * bytes);
    if (needed > staging.size()) {
      staging = {};
      staging.resize(needed);
    }
    room = staging.data();
  }

  /// Room for so many pieces.
  unsigned char *out(size_t piece = 0) { return room + int64_t(piece) * block * bytes; }
  unsigned char *in(size_t piece = 0) { return out(world + piece); }
  unsigned char *own() { return out(2 * world); }
  unsigned char *chain(bool second) { return out(2 * world + 1 + (second ? nodes.count : 0)); }

  int64_t count() const { return block ? (part + block - 1) / block : 0; }
  /// Without elements where there is no such block.
  Block at(int64_t number) const {
    if (number < 0 || number >= count())
      return {};
    return {number * block, std::min(block, part - number * block)};
  }

  /// The pieces of the next `exchange`, of so many elements each; without these there are none.
  void send(size_t rank, const unsigned char *data, int64_t elements) {
    sent[rank] = {data, elements * bytes};
  }
  void receive(size_t rank, unsigned char *data, int64_t elements) {
    received[rank] = {data, elements * bytes};
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
  const int64_t bytes;
  const size_t world;

private:
  const int64_t part, block;
  unsigned char *room = nullptr;
  std::vector<Communicator::Sent> sent = std::vector<Communicator::Sent>(world);
  std::vector<Communicator::Received> received = std::vector<Communicator::Received>(world);
};

ExchangeWork workOf(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors) {
  std::vector<int64_t> shards;
  for (const CutTensor &tensor : tensors)
    shards.push_back(tensor.shard);
  return ExchangeWork::ofShards(int64_t(sizeOf(dtype)), shards, ranks.world());
}

/// All ranks call it with tensors of the same sizes, in the same order. The sum of an element is
/// made once, from zero over the ranks from 0 on, and its rank has it in `own` when `take(block)`
/// is called, on all ranks at the same time.
///
/// Of a node each rank adds up the pieces for itself and for those that have its place on other
/// nodes; what a node has added up goes on to the next one. So the nodes are a pipeline: each works
/// on the block behind that of the next one.
template <typename T, typename Take> Status reduce(Blocks &blocks, const Take &take) {
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
        blocks.parts.read(int(nodes.rank(node, local)), here.begin, here.count,
                          piece(to, node, here.count));
      const size_t neighbour = nodes.rank(nodes.own, local);
      blocks.send(neighbour, to, number * here.count);
      blocks.receive(neighbour, blocks.in(local * nodes.count), number * here.count);
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
      const T *const values = reinterpret_cast<const T *>(blocks.in(local * nodes.count));
      for (int64_t i = 0; i < elements; ++i)
        sums[i] += values[i];
    }
    if (made.count)
      TRAINRT_TRY(take(made));
  }
  return {};
}

template <typename Take> Status reduce(DType dtype, Blocks &blocks, const Take &take) {
  assert((dtype == DType::F32 || dtype == DType::F64) && "readProgram refuses other sums");
  return dtype == DType::F64 ? reduce<double>(blocks, take) : reduce<float>(blocks, take);
}

/// What is in `own` goes to all, and what all have there into the tensors. With several nodes to
/// those with this rank's place on others first, then with theirs to those of the node.
Status gatherBlock(Blocks &blocks, const Block &block) {
  const Nodes &nodes = blocks.nodes;
  const auto number = int64_t(nodes.count);
  unsigned char *mine = blocks.own();
  if (number > 1) {
    mine = blocks.out();
    for (size_t node = 0; node < nodes.count; ++node) {
      blocks.send(nodes.rank(node, nodes.local), blocks.own(), block.count);
      blocks.receive(nodes.rank(node, nodes.local),
                     mine + int64_t(node) * block.count * blocks.bytes, block.count);
    }
    TRAINRT_TRY(blocks.exchange());
  }
  for (size_t local = 0; local < nodes.each; ++local) {
    blocks.send(nodes.rank(nodes.own, local), mine, number * block.count);
    blocks.receive(nodes.rank(nodes.own, local), blocks.in(local * nodes.count),
                   number * block.count);
  }
  TRAINRT_TRY(blocks.exchange());
  for (size_t local = 0; local < nodes.each; ++local)
    for (size_t node = 0; node < nodes.count; ++node)
      blocks.parts.write(int(nodes.rank(node, local)), block.begin, block.count,
                         blocks.in(local * nodes.count) +
                             int64_t(node) * block.count * blocks.bytes);
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
  return reduce(dtype, blocks, [&](const Block &block) { return gatherBlock(blocks, block); });
}

Status reduceScatter(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors,
                     std::vector<unsigned char> &staging) {
  const Parts parts(tensors, dtype);
  Blocks blocks(ranks, parts, dtype, workOf(ranks, dtype, tensors), staging);
  return reduce(dtype, blocks, [&](const Block &block) -> Status {
    parts.writeOwn(block.begin, block.count, blocks.own());
    return {};
  });
}

Status allGather(Communicator &ranks, DType dtype, std::span<const CutTensor> tensors,
                 std::vector<unsigned char> &staging) {
  const Parts parts(tensors, dtype);
  Blocks blocks(ranks, parts, dtype, workOf(ranks, dtype, tensors), staging);
  for (int64_t number = 0; number < blocks.count(); ++number) {
    const Block block = blocks.at(number);
    parts.readOwn(block.begin, block.count, blocks.own());
    TRAINRT_TRY(gatherBlock(blocks, block));
  }
  return {};
}

} // namespace trainrt
