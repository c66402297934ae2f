// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all ranks of a run do together.
#ifndef TRAINRT_FORMAT_COMMANDS_COLLECTIVE_H
#define TRAINRT_FORMAT_COMMANDS_COLLECTIVE_H

#include "format/commands/operand.h"
#include "format/sum_types.h"

#include <array>

namespace trainrt {

namespace fb {
struct Collective;
}

/// See program.fbs. As many operands and sizes as there are tensors, and shards, if any.
struct Collective {
  static constexpr const char *kindName = "collective";
  static constexpr std::array operandNames = {"tensor"};
  static constexpr std::array sizeNames = {"elements"};
  enum class Kind : uint8_t { AllReduce, ReduceScatter, AllGather };

  Kind kind = Kind::AllReduce;
  SumTypes types = DType::F32;
  bool verdict = false; ///< a rank that has met a bad index has 1 for it

  Status read(const fb::Collective &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  /// Whether it reads what it writes.
  bool isInPlace() const { return kind == Kind::AllReduce && !types.widens(); }
  /// Of an operand, one of `count`.
  DType typeOf(size_t operand, size_t count) const {
    return operand < count / 2 ? types.sent : types.made;
  }
  std::string describe(const Program &program, const StepView &step) const {
    return (kind == Kind::ReduceScatter ? "a " : "an ") + name(program, step);
  }
  std::string name(const Program &program, const StepView &step) const;
  int64_t bytes(const StepView &step) const;
  CommandClass commandClass(const StepView &) const { return CommandClass::Exchange; }
  void results(const Program &program, const StepView &step, std::vector<Region> &results) const;
};

struct CollectiveView : StepView {
  CollectiveView(const StepView &step, const Collective &op) : StepView(step), op(op) {}

  const Collective &op;
  size_t numTensors() const { return places.size(); }
  /// Tensors that are read, each with its shard, or with its sums.
  size_t numPairs() const { return places.size() / 2; }
  /// Of a pair the tensor that is cut, and the shard.
  size_t whole(size_t pair) const { return pair + (gathers() ? numPairs() : 0); }
  size_t own(size_t pair) const { return pair + (gathers() ? 0 : numPairs()); }
  int64_t elements(size_t tensor) const { return sizes[tensor]; }
  /// Of `shards` ranks that share a replica, among all of a run; 0: all.
  ExchangeWork work(int64_t world, int64_t shards = 0) const {
    shards = shards ? shards : world;
    const ElementBytes bytes = op.types.bytes();
    const std::span<const int64_t> all = sizes;
    if (op.kind == Collective::Kind::AllReduce)
      return ExchangeWork::ofSums(bytes, op.isInPlace() ? all : all.first(numPairs()), world);
    return gathers() ? ExchangeWork::ofShards(bytes.made, all.first(numPairs()), shards)
                     : ExchangeWork::ofSumsInShards(bytes, all.last(numPairs()), world, shards);
  }
  bool gathers() const { return op.kind == Collective::Kind::AllGather; }
  bool isEmpty() const {
    for (int64_t size : sizes)
      if (size)
        return false;
    return true;
  }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_COLLECTIVE_H
