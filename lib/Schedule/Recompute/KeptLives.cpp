// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A shortest path over places: from one to the next it costs what is alive at that one and was not
// at this one.

#include "lib/Schedule/Recompute/KeptLives.h"

#include "trainc/Analysis/GuessedBytes.h"
#include "trainc/Analysis/StridedViews.h"
#include <limits>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// Made again by what reads its result.
static bool isMadeByReaders(const StepGraph &graph, Operation *op) {
  return graph.isNeverKept(op) || StepGraph::widens(op);
}

KeptLives::KeptLives(const StepGraph &graph, ArrayRef<Operation *> ops) : graph(graph), ops(ops) {
  for (auto [position, op] : llvm::enumerate(ops)) {
    positions[op] = int(position);
    for (Value operand : op->getOperands())
      for (Value source : sourcesOf(operand))
        if (auto it = index.find(source); it != index.end())
          lives[it->second].last = int(position);
    if (isMadeByReaders(graph, op))
      continue;
    for (Value result : op->getResults()) {
      if (graph.isAvailable(result) || !graph.isActivation(result))
        continue;
      index[result] = lives.size();
      lives.push_back({result, int(position), int(position), int(position), guessBytes(result),
                       isKept(result)});
    }
  }
  // Sums over all that is kept before a place: what lies between two places is a difference.
  keptBefore.assign(ops.size() + 1, 0);
  for (const Life &life : lives)
    if (life.kept)
      keptBefore[life.first + 1] += life.bytes;
  for (size_t i = 0; i < ops.size(); ++i)
    keptBefore[i + 1] += keptBefore[i];
  findNeeded();
}

/// Once for each value: chains of elementwise ops read one value in many ways.
ArrayRef<Value> KeptLives::sourcesOf(Value value) {
  if (auto known = sources.find(value); known != sources.end())
    return known->second;
  SmallVector<Value, 2> found;
  Operation *def = value.getDefiningOp();
  if (def && isMadeByReaders(graph, def)) {
    for (Value operand : def->getOperands())
      for (Value source : sourcesOf(operand))
        if (!llvm::is_contained(found, source))
          found.push_back(source);
  } else if (def) {
    found.push_back(value);
  }
  return sources[value] = std::move(found);
}

/// As StepGraph's, but that of a widening cast it is the operand that lies in memory.
bool KeptLives::isKept(Value value) const {
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    if (user->hasTrait<OpTrait::IsTerminator>())
      return false;
    if (isMadeByReaders(graph, user) && graph.isForward(user))
      return llvm::any_of(user->getResults(), [&](Value result) { return isKept(result); });
    return graph.isKept(value) && graph.isBackward(user);
  });
}

/// A cast or an activation function is made again from its operand for next to nothing.
void KeptLives::findNeeded() {
  // In program order, so that the source's own end is known.
  std::vector<int> atHand;
  for (Life &life : lives) {
    atHand.push_back(life.last);
    Operation *def = life.value.getDefiningOp();
    if (getFusionRole(def) != FusionRole::Pointwise || def->getNumOperands() != 1)
      continue;
    ArrayRef<Value> from = sourcesOf(def->getOperand(0));
    if (from.size() != 1)
      continue;
    auto source = index.find(from.front());
    if (source == index.end())
      continue;
    life.needed = std::max(life.needed, atHand[source->second]);
    atHand.back() = std::max(atHand.back(), atHand[source->second]);
  }
}

/// Those at which no more is alive than at their neighbours: all others cost more.
std::vector<KeptLives::Place> KeptLives::findPlaces() const {
  std::vector<double> alive(ops.size() + 1, 0);
  for (const Life &life : lives)
    for (int i = life.needed; i < life.last; ++i)
      alive[i] += life.bytes;
  std::vector<Place> places;
  for (size_t i = 0; i + 1 < ops.size(); ++i)
    // The last one of equal places: all that can still be done with a value is before it.
    if ((i == 0 || alive[i] <= alive[i - 1]) && alive[i] < alive[i + 1])
      places.push_back({int(i), {}});
  for (Place &place : places) {
    for (const Life &life : lives)
      if (life.needed <= place.position && place.position < life.last)
        place.alive.push_back(&life);
    llvm::sort(place.alive, [](const Life *a, const Life *b) {
      return std::pair(a->needed, a) > std::pair(b->needed, b);
    });
  }
  return places;
}

/// Both sums grow as the place before moves back, so the search ends where `most` is passed.
double KeptLives::findPath(ArrayRef<Place> places, double most, std::vector<int> &path) const {
  constexpr double none = std::numeric_limits<double>::infinity();
  std::vector<double> held(places.size(), none);
  path.assign(places.size(), -1);
  auto startOf = [&](int previous) { return previous < 0 ? -1 : places[previous].position; };
  for (auto [number, place] : llvm::enumerate(places)) {
    double added = 0, addedKept = 0;
    size_t next = 0;
    for (int previous = int(number) - 1; previous >= -1; --previous) {
      const int start = startOf(previous);
      for (; next < place.alive.size() && place.alive[next]->needed > start; ++next) {
        added += place.alive[next]->bytes;
        if (place.alive[next]->kept && place.alive[next]->first > start)
          addedKept += place.alive[next]->bytes;
      }
      // What is alive at the place is counted with it, and not with what lies between.
      if (keptBefore[place.position + 1] - keptBefore[start + 1] - addedKept > most)
        break;
      const double before = previous < 0 ? 0 : held[previous];
      if (before + added < held[number]) {
        held[number] = before + added;
        path[number] = previous;
      }
    }
  }
  // Behind the last place nothing is computed again: all that is kept there lies around at once.
  double least = none;
  int last = -1;
  for (int previous = int(places.size()) - 1; previous >= 0; --previous) {
    if (keptBefore.back() - keptBefore[places[previous].position + 1] > most)
      break;
    if (held[previous] < least) {
      least = held[previous];
      last = previous;
    }
  }
  std::vector<int> chosen;
  for (int place = last; place >= 0; place = path[place])
    chosen.push_back(place);
  path.assign(chosen.rbegin(), chosen.rend());
  return least;
}

/// One path for each bound on what lies between two places. No bound below the largest value alone.
std::vector<Layer> KeptLives::cut() const {
  // Each bound is so much above the last one: the best is missed by less than that.
  constexpr double step = 1.1;
  const std::vector<Place> places = findPlaces();
  double least = keptBefore.back();
  std::vector<int> best;
  double largest = 0;
  for (const Life &life : lives)
    largest = std::max(largest, life.kept ? life.bytes : 0);
  for (double most = largest; most > 0 && most < least; most *= step) {
    std::vector<int> path;
    const double held = findPath(places, most, path);
    if (held + most < least) {
      least = held + most;
      best = std::move(path);
    }
  }
  std::vector<Layer> layers;
  int start = -1;
  for (int number : best) {
    const Place &place = places[number];
    Layer layer;
    layer.ops.append(ops.begin() + start + 1, ops.begin() + place.position + 1);
    // What was alive at the place before is that layer's result, which both read.
    for (const Life *life : llvm::reverse(place.alive))
      if (life->needed > start)
        layer.outputs.push_back(life->value);
    layers.push_back(std::move(layer));
    start = place.position;
  }
  return layers;
}

/// Of any layers, these or those found by structure.
double KeptLives::guessHeld(ArrayRef<Layer> layers) const {
  constexpr int none = -1;
  llvm::DenseSet<Value> passedOn;
  std::vector<int> owner(ops.size(), none), end(layers.size(), none);
  std::vector<double> inside(layers.size(), 0);
  for (auto [number, layer] : llvm::enumerate(layers)) {
    passedOn.insert(layer.outputs.begin(), layer.outputs.end());
    for (Operation *op : layer.ops)
      if (auto it = positions.find(op); it != positions.end()) {
        owner[it->second] = int(number);
        end[number] = std::max(end[number], it->second);
      }
  }
  int last = none;
  for (int position : end)
    last = std::max(last, position);
  double held = 0, behind = 0;
  for (const Life &life : lives) {
    const int layer = owner[life.first];
    if (passedOn.contains(life.value))
      held += life.bytes;
    else if (layer == none && life.kept)
      (life.first > last ? behind : held) += life.bytes;
    else if (layer != none && life.kept)
      inside[layer] += life.bytes;
    // The layer is computed again early, for what reads this far behind it, and it lies around
    // until its own backward.
    if (layer != none && !passedOn.contains(life.value) && life.kept && life.needed <= end[layer] &&
        life.last > end[layer])
      held += life.bytes;
  }
  double largest = behind;
  for (double bytes : inside)
    largest = std::max(largest, bytes);
  return held + largest;
}
