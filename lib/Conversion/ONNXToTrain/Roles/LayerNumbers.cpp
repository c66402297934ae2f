// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first part of a name that is a number counts layers, where names that are equal up to there
// have several: "encoder.layer.3.output.weight" is in layer 3 of "encoder.layer".

#include "lib/Conversion/ONNXToTrain/Roles/LayerNumbers.h"

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace trainc;

/// What is before the first number, and that number.
static std::optional<std::pair<StringRef, unsigned>> findNumber(StringRef name) {
  size_t begin = 0;
  while (begin < name.size()) {
    // Components are separated by dots or slashes.
    size_t end = std::min(name.find_first_of("./", begin), name.size());
    unsigned number;
    // A first component is no list's index; large numbers are no layers.
    if (begin > 0 && !name.slice(begin, end).getAsInteger(10, number) && number < (1u << 20))
      return std::pair(name.take_front(begin), number);
    begin = end + 1;
  }
  return std::nullopt;
}

/// Where in the block a value is first read.
/// Beyond all where nothing reads it.
static unsigned firstReader(Value value, const DenseMap<Operation *, unsigned> &order) {
  unsigned first = ~0u;
  for (Operation *user : value.getUsers())
    first = std::min(first, order.lookup(user));
  return first;
}

LayerNumbers::LayerNumbers(func::FuncOp forward) : depths(forward.getNumArguments(), 0) {
  // Program order stands for depth.
  DenseMap<Operation *, unsigned> order;
  for (auto [number, op] : llvm::enumerate(forward.getBody().front()))
    order[&op] = number;
  /// The largest number of each stack of layers, and how many names it has.
  llvm::StringMap<std::pair<unsigned, llvm::DenseSet<unsigned>>> stacks;
  assert(depths.size() == forward.getNumArguments() && "one depth an argument");
  SmallVector<std::optional<std::pair<StringRef, unsigned>>> numbers(depths.size());
  for (unsigned i = 0; i < depths.size(); ++i) {
    auto role = forward.getArgAttrOfType<StringAttr>(i, train::kRoleAttr);
    auto name = forward.getArgAttrOfType<StringAttr>(i, train::kNameAttr);
    if (!role || !name || role.getValue() != "parameter")
      continue;
    // Parameters only, trained or not: a frozen layer counts, too.
    if ((numbers[i] = findNumber(name.getValue()))) {
      auto &[largest, seen] = stacks[numbers[i]->first];
      largest = std::max(largest, numbers[i]->second);
      seen.insert(numbers[i]->second);
    }
  }
  unsigned layers = 0, begin = ~0u;
  for (unsigned i = 0; i < depths.size(); ++i) {
    // One number alone counts nothing.
    if (numbers[i] && stacks[numbers[i]->first].second.size() < 2)
      numbers[i] = std::nullopt;
    if (!numbers[i])
      continue;
    layers = std::max(layers, stacks[numbers[i]->first].first + 1);
    // The first op that reads any layer: what is read before lies below all of them.
    begin = std::min(begin, firstReader(forward.getArgument(i), order));
  }
  if (layers == 0)
    return;
  for (unsigned i = 0; i < depths.size(); ++i) {
    // The last layer of each stack has depth 1.
    if (numbers[i])
      depths[i] = stacks[numbers[i]->first].first + 1 - numbers[i]->second;
    else if (firstReader(forward.getArgument(i), order) < begin)
      // Embeddings and the like; heads and what is read later have depth 0.
      depths[i] = layers + 1;
  }
}
