// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// An epoch: order, tail, groups, rounds, ranks, and the order of rounds.

#include "session/data/sampler.h"
#include "format/hash.h"
#include "io/permutation.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>

namespace trainrt {

namespace {
/// Batches of a rank that are sorted together unless the caller says otherwise.
constexpr int64_t defaultGroup = 50;
/// Makes the order of rounds another permutation than that of rows.
constexpr uint64_t roundKey = 0x726f756e6473;

constexpr int64_t unlimited = std::numeric_limits<int64_t>::max();

/// a x b, at most the largest number.
/// Saturated: limits compare with it, and it is never an amount of memory.
int64_t product(int64_t a, int64_t b) {
  int64_t result;
  return __builtin_mul_overflow(a, b, &result) ? unlimited : result;
}
} // namespace

Status Sampler::create(SamplerOptions options, Sampler &sampler) {
  auto invalid = [](const auto &...what) { return fail(Code::InvalidArgument, what...); };
  if (options.rows < 1)
    return invalid("rows: ", options.rows, "; there must be one");
  if (options.batchSize < 0 || options.tokensPerBatch < 0 || options.group < 0 ||
      options.together < 0 || options.lengthMultiple < 1)
    return invalid("batch_size, tokens_per_batch, group and together must not be negative, "
                   "length_multiple must be above 0");
  if (!options.batchSize && !options.tokensPerBatch)
    return invalid("batch_size or tokens_per_batch must be given");
  if (options.fullBatches && (!options.batchSize || options.tokensPerBatch))
    return invalid("full batches have a batch_size and no tokens_per_batch");
  // Every rank has the same options but its number.
  if (options.world < 1 || options.rank < 0 || options.rank >= options.world)
    return invalid("rank ", options.rank, " is none of ", options.world);
  if (options.world > options.rows)
    return fail(Code::BadData, options.rows, " rows are too few for ", options.world,
                " ranks; use fewer");
  if (options.fullBatches && options.dropTail &&
      product(options.world, options.batchSize) > options.rows)
    return fail(Code::BadData, options.rows, " rows are too few for one batch of ",
                options.batchSize, " for each of ", options.world,
                " ranks; use a smaller batch, or keep the rest as a batch of its own");
  sampler.options = std::move(options);
  // Rows one by one, with the options in place: lengths and costs are theirs.
  const SamplerOptions &chosen = sampler.options;
  for (int64_t row = 0; row < chosen.rows; ++row) {
    const int64_t length = sampler.length(row);
    if (length < 0)
      return fail(Code::BadData, "row ", row, ": length ", length);
    if (chosen.tokensPerBatch && sampler.padded(length) > chosen.tokensPerBatch)
      return fail(Code::BadData, "row ", row, " needs ", sampler.padded(length),
                  " token positions, more than the ", chosen.tokensPerBatch,
                  " of a batch: allow for more tokens, or cut the row");
    if (double cost = sampler.cost(row); !std::isfinite(cost) || cost < 0)
      return fail(Code::BadData, "row ", row, ": complexity ", cost, " is no amount of work");
  }
  // At the beginning, with no epoch planned.
  sampler.at = {};
  sampler.plan = {};
  return {};
}

int64_t Sampler::padded(int64_t length) const {
  const int64_t multiple = options.lengthMultiple;
  // Empty rows take a place, too.
  length = std::max<int64_t>(length, 1);
  return product(length / multiple + (length % multiple != 0), multiple);
}

int64_t Sampler::groupSize() const {
  // The same on all ranks: it depends on options only.
  if (options.group)
    return options.group;
  int64_t rows = options.batchSize;
  if (options.tokensPerBatch) {
    double sum = 0; // exact: far below 2^53
    for (int64_t row = 0; row < options.rows; ++row)
      sum += double(padded(length(row)));
    const double mean = sum / double(options.rows);
    // Of rows of mean length, as many as a batch may have.
    const int64_t typical = std::max<int64_t>(int64_t(double(options.tokensPerBatch) / mean), 1);
    rows = rows ? std::min(rows, typical) : typical;
  }
  return product(product(rows, options.world), defaultGroup);
}

std::vector<Sampler::Place> Sampler::orderOf(int64_t epoch) const {
  std::vector<int64_t> rows;
  // By seed and epoch only: ranks need not talk to each other.
  if (options.shuffle) {
    rows = makePermutation(options.rows, options.seed, uint64_t(epoch));
  } else {
    rows.resize(size_t(options.rows));
    std::iota(rows.begin(), rows.end(), 0);
  }
  // The tail, before anything depends on length.
  // What the number of rows has to be a multiple of.
  const int64_t unit =
      options.fullBatches ? product(options.world, options.batchSize) : options.world;
  const int64_t rest = options.rows % unit;
  if (rest && options.dropTail)
    rows.resize(rows.size() - size_t(rest));
  // Rows from the beginning of the epoch fill it up.
  for (int64_t i = 0; rest && !options.dropTail && i < unit - rest; ++i)
    rows.push_back(rows[size_t(i % options.rows)]);
  std::vector<Place> places(rows.size());
  for (size_t i = 0; i < rows.size(); ++i)
    places[i] = {rows[i], int64_t(i)};
  return places;
}

/// Rows for each rank of one batch, from `from` on; 0 where the rest has to wait for the next
/// group.
int64_t Sampler::takenRows(const std::vector<Place> &pool, size_t from, bool isLast,
                           int64_t &longest) const {
  const size_t world = size_t(options.world);
  const int64_t most = options.batchSize ? options.batchSize : unlimited;
  int64_t count = 0;
  longest = 0;
  while (count < most) {
    // At the end of an epoch what is left is a batch.
    if (from + world > pool.size())
      return isLast ? count : 0;
    int64_t with = longest;
    // All ranks at once: their batches have as many rows.
    for (size_t i = 0; i < world; ++i)
      with = std::max(with, padded(length(pool[from + i].row)));
    if (options.tokensPerBatch && product(count + 1, with) > options.tokensPerBatch)
      break;
    longest = with;
    from += world;
    ++count;
  }
  return count;
}

/// `places`: count rows for each rank, the most expensive first.
void Sampler::deal(const Place *places, int64_t count, int64_t longest, std::vector<double> &work) {
  assert(count > 0 && "an empty round is none");
  const size_t world = size_t(options.world);
  Round round;
  round.offset = plan.rows.size();
  round.rows = count;
  round.longest = longest;
  round.first = unlimited;
  std::vector<double> now(world);
  std::vector<size_t> ranks(world);
  // One row for each rank at a time.
  for (int64_t block = 0; block < count; ++block, places += world) {
    std::iota(ranks.begin(), ranks.end(), 0);
    // Who has least gets the most expensive row, which comes first.
    // Ties go by what ranks have had before, then by their number: every rank decides the same.
    std::sort(ranks.begin(), ranks.end(), [&](size_t a, size_t b) {
      return now[a] != now[b] ? now[a] < now[b] : work[a] != work[b] ? work[a] < work[b] : a < b;
    });
    for (size_t i = 0; i < world; ++i) {
      now[ranks[i]] += cost(places[i].row);
      round.first = std::min(round.first, places[i].order);
      if (int64_t(ranks[i]) == options.rank)
        plan.rows.push_back(places[i].row);
    }
  }
  // Over the epoch, as the small differences add up.
  for (size_t rank = 0; rank < world; ++rank)
    work[rank] += now[rank];
  round.cost = *std::max_element(now.begin(), now.end());
  plan.rounds.push_back(round);
}

/// Blocks of rounds that stay together are cut from each group, where neighbours cost about the
/// same; what is left of all groups is put in order once more. What does not fill a block in the
/// end comes last, so that all others begin at a multiple of their size.
void Sampler::orderRounds(int64_t epoch, const std::vector<size_t> &groups) {
  using Block = std::vector<Round>;
  const size_t size = size_t(std::max<int64_t>(options.together, 1));
  Block left;
  Block &rounds = plan.rounds;
  std::vector<Block> blocks;
  auto cut = [&](const Block &from, size_t begin, size_t end) {
    for (; begin + size <= end; begin += size)
      blocks.emplace_back(from.begin() + ptrdiff_t(begin), from.begin() + ptrdiff_t(begin + size));
    return begin;
  };
  for (size_t i = 0; i < groups.size(); ++i) {
    const size_t end = i + 1 < groups.size() ? groups[i + 1] : rounds.size();
    const size_t rest = cut(rounds, groups[i], end);
    left.insert(left.end(), rounds.begin() + ptrdiff_t(rest), rounds.begin() + ptrdiff_t(end));
  }
  std::stable_sort(left.begin(), left.end(),
                   [](const Round &a, const Round &b) { return a.cost > b.cost; });
  left.erase(left.begin(), left.begin() + ptrdiff_t(cut(left, 0, left.size())));
  // Sorted rounds would come in the order of their length: another permutation.
  if (options.shuffle) {
    std::vector<Block> shuffled;
    for (int64_t index :
         makePermutation(int64_t(blocks.size()), options.seed ^ roundKey, uint64_t(epoch)))
      shuffled.push_back(std::move(blocks[size_t(index)]));
    blocks = std::move(shuffled);
  } else {
    auto first = [](const Block &block) {
      return std::min_element(block.begin(), block.end(),
                              [](const Round &a, const Round &b) { return a.first < b.first; })
          ->first;
    };
    std::sort(blocks.begin(), blocks.end(),
              [&](const Block &a, const Block &b) { return first(a) < first(b); });
  }
  blocks.push_back(std::move(left));
  // What needs most memory comes first in a run, with its block where it has one.
  assert(!rounds.empty() && "create has asked for enough rows");
  auto most = [](const Round &a, const Round &b) {
    return product(a.rows, a.longest) < product(b.rows, b.longest);
  };
  auto mostOf = [&](const Block &a, const Block &b) {
    return most(*std::max_element(a.begin(), a.end(), most),
                *std::max_element(b.begin(), b.end(), most));
  };
  const bool sorts = options.group != 1;
  if (epoch == 0 && sorts && blocks.size() > 1)
    std::iter_swap(blocks.begin(), std::max_element(blocks.begin(), blocks.end() - 1, mostOf));
  rounds.clear();
  for (const Block &block : blocks)
    rounds.insert(rounds.end(), block.begin(), block.end());
  if (epoch == 0 && sorts)
    std::iter_swap(rounds.begin(), std::max_element(rounds.begin(), rounds.end(), most));
}

/// Made once an epoch; a seek may make another.
const Sampler::Plan &Sampler::planOf(int64_t epoch) {
  if (plan.epoch == epoch)
    return plan;
  plan.epoch = epoch;
  plan.rounds.clear();
  plan.rows.clear();
  const std::vector<Place> order = orderOf(epoch);
  const bool sorts = options.group != 1;
  const size_t group = sorts ? size_t(groupSize()) : order.size();
  // What did not fill a batch goes on with the next group.
  std::vector<Place> pool;
  std::vector<double> work(size_t(options.world));
  std::vector<size_t> groups; // where their rounds begin
  for (size_t begin = 0; begin < order.size();) {
    const size_t end = begin + std::min(group, order.size() - begin);
    pool.insert(pool.end(), order.begin() + ptrdiff_t(begin), order.begin() + ptrdiff_t(end));
    begin = end;
    // A total order: equal rows by their place in the epoch.
    if (sorts)
      std::sort(pool.begin(), pool.end(), [&](const Place &a, const Place &b) {
        if (cost(a.row) != cost(b.row))
          return cost(a.row) > cost(b.row);
        if (length(a.row) != length(b.row))
          return length(a.row) > length(b.row);
        return a.order < b.order;
      });
    // As long as whole rounds can be made.
    size_t from = 0;
    int64_t longest = 0;
    groups.push_back(plan.rounds.size());
    while (int64_t count = takenRows(pool, from, end == order.size(), longest)) {
      deal(pool.data() + from, count, longest, work);
      from += size_t(count * options.world);
    }
    assert(from <= pool.size() && "rounds take what is there");
    pool.erase(pool.begin(), pool.begin() + ptrdiff_t(from));
  }
  orderRounds(epoch, groups);
  return plan;
}

const std::vector<int64_t> &Sampler::next() {
  assert(at.index >= 0 && "seek keeps the position");
  const Plan &current = planOf(at.epoch);
  const Round &round = current.rounds[size_t(at.index)];
  batch.assign(current.rows.begin() + ptrdiff_t(round.offset),
               current.rows.begin() + ptrdiff_t(round.offset) + round.rows);
  seek({at.epoch, at.index + 1});
  return batch;
}

/// A position behind the last round is the next epoch's first.
void Sampler::seek(Position position) {
  at = position;
  if (at.index && at.index >= int64_t(planOf(at.epoch).rounds.size()))
    at = {at.epoch + 1, 0};
}

int64_t Sampler::batches(int64_t epoch) { return int64_t(planOf(epoch).rounds.size()); }

void Sampler::largest(int64_t &rows, int64_t &length) {
  rows = length = 0;
  // The first epoch has it in front.
  for (const Round &round : planOf(0).rounds)
    if (product(round.rows, round.longest) > product(rows, length)) {
      rows = round.rows;
      length = round.longest;
    }
}

/// Of all that decides on the order, but not the rank: ranks compare it.
uint64_t Sampler::hash() const {
  const SamplerOptions &o = options;
  const int64_t numbers[] = {
      o.rows,     o.batchSize,   o.tokensPerBatch,          o.lengthMultiple,
      o.group,    o.shuffle,     int64_t(o.seed),           o.world,
      o.dropTail, o.fullBatches, int64_t(o.lengths.size()), int64_t(o.complexities.size())};
  uint64_t hash = fnv1a64(numbers, sizeof numbers);
  // Plans of before that option have their hash.
  if (o.together > 1)
    hash = fnv1a64(&o.together, sizeof o.together, hash);
  hash = fnv1a64(o.lengths.data(), o.lengths.size() * sizeof(int64_t), hash);
  return fnv1a64(o.complexities.data(), o.complexities.size() * sizeof(double), hash);
}

} // namespace trainrt
