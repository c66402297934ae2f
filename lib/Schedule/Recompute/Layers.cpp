// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lifetimes of activations in the forward pass give the places where one is alive; the names of the
// ops between two such places, in any order, are a letter, and layers a word that repeats.

#include "lib/Schedule/Recompute/Layers.h"

#include "lib/Schedule/Recompute/KeptLives.h"

#include "trainc/Analysis/GuessedBytes.h"
#include "trainc/Analysis/StridedViews.h"
#include "trainc/Import/LayerHints.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SmallBitVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {

/// An activation from where it is made to where the forward pass reads it last, in positions.
struct Life {
  Value value;
  int first, last;
  unsigned readers = 0;
};

/// From one place with one activation to the next.
struct Segment {
  Value input;
  SmallVector<Operation *> ops;
  /// Equal where the names of the ops are.
  unsigned letter = 0;
  /// How many matmuls and the like there are.
  unsigned costly = 0;
};

/// `count` times the same `length` segments.
struct Word {
  size_t first, length, count;
};

class LayerFinder {
  /// Three ways, the next where the one before finds none: repeating words of ops; names that the
  /// exporter gave; large segments. Independent of what the model is called. Of several cuts, into
  /// stages or blocks, the one with which the least is kept. In place of all of them places with
  /// several activations, where much less is held with these.
public:
  explicit LayerFinder(const StepGraph &graph) : graph(graph) {}

  std::vector<Layer> run() {
    collectLives();
    for (Operation *op : ops)
      for (Value value : graph.keptResults(op))
        keptBytes[op] += guessBytes(value);
    const std::vector<Life> found = lives;
    std::vector<Layer> best;
    double least = 0;
    // The first of equal ones, with the largest layers: they cost the fewest kernels.
    for (bool splits : {false, true})
      for (bool takesAll : {true, false}) {
        all = takesAll;
        lives = found;
        findWords();
        dropLongLives();
        std::vector<Layer> layers;
        if (words.empty())
          layers = namedLayers();
        if (words.empty() && layers.empty())
          takeLargeSegments(segments.size());
        // What transformers' layers hold twice may be split as well, and is not where that keeps
        // more.
        if (splits)
          splitStages();
        addWords(layers);
        const double bytes = guessKept(layers);
        if (best.empty() || bytes < least) {
          best = std::move(layers);
          least = bytes;
        }
      }
    takeCut(best);
    addPrivate(best);
    return best;
  }

private:
  /// Places with one activation are few where skips lie over the net, or next to none. Those with
  /// several are taken where much less is held with them: layers that repeat cost fewer kernels,
  /// and the same ones for any depth.
  void takeCut(std::vector<Layer> &layers) const {
    constexpr double most = 0.6;
    const KeptLives kept(graph, ops);
    std::vector<Layer> cut = kept.cut();
    if (kept.guessHeld(cut) < most * kept.guessHeld(layers))
      layers = std::move(cut);
  }

  /// In program order.
  void addWords(std::vector<Layer> &layers) {
    llvm::sort(words, [](const Word &a, const Word &b) { return a.first < b.first; });
    for (const Word &word : words)
      for (size_t i = 0; i < word.count; ++i) {
        Layer layer;
        size_t first = word.first + i * word.length, next = first + word.length;
        // A layer's output is the activation that its last segment ends with, which is the next
        // one's input.
        if (next < segments.size())
          layer.outputs.push_back(segments[next].input);
        for (size_t k = 0; k < word.length; ++k)
          layer.ops.append(segments[first + k].ops);
        layers.push_back(std::move(layer));
      }
  }

  /// With these layers computed again: what they pass on, what is kept outside of them, and all of
  /// the largest one.
  double guessKept(ArrayRef<Layer> layers) const {
    double kept = 0, largest = 0;
    for (Operation *op : ops)
      kept += keptBytes.lookup(op);
    for (const Layer &layer : layers) {
      double inside = 0;
      for (Operation *op : layer.ops)
        inside += keptBytes.lookup(op);
      for (Value output : layer.outputs)
        kept += guessBytes(output);
      kept -= inside;
      largest = std::max(largest, inside);
    }
    return kept + largest;
  }

  /// Those that the file names, where there are several with a costly op each.
  std::vector<Layer> namedLayers() const {
    auto module = const_cast<StepGraph &>(graph).function->getParentOfType<ModuleOp>();
    llvm::MapVector<StringRef, Layer> named;
    DenseMap<Operation *, StringRef> nameOf;
    for (Operation *op : ops)
      if (StringRef name = getLayerHint(module, getNodeName(op->getLoc())); !name.empty()) {
        named[name].ops.push_back(op);
        nameOf[op] = name;
      }
    std::vector<Layer> layers;
    for (auto &[name, layer] : named) {
      // Embeddings and heads have names, too, but nothing that costs.
      if (llvm::none_of(layer.ops, isCostly))
        continue;
      for (Operation *op : layer.ops)
        for (Value result : op->getResults())
          if (isReadOutside(result, nameOf, name))
            layer.outputs.push_back(result);
      layers.push_back(std::move(layer));
    }
    // One alone is the whole model, which has no boundary to keep.
    return layers.size() > 1 ? layers : std::vector<Layer>();
  }
  /// Whether the forward pass reads a value in another layer, or in none.
  bool isReadOutside(Value value, const DenseMap<Operation *, StringRef> &nameOf,
                     StringRef name) const {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      if (!graph.isForward(user))
        return false;
      // Moved elements are looked through, as they belong to their reader.
      if (!StepGraph::isFree(user))
        return nameOf.lookup(user) != name;
      return llvm::any_of(user->getResults(),
                          [&](Value moved) { return isReadOutside(moved, nameOf, name); });
    });
  }
  static bool isCostly(Operation *op) {
    auto cost = dyn_cast<CostOpInterface>(op);
    return cost && cost.getRecomputeClass() == RecomputeClass::Costly;
  }

  /// What is made of parameters for one layer only belongs to it: weights in another type,
  /// projections of positions.
  /// In reverse program order, so that what a private op is made of becomes private after it.
  /// Several owners are none, for good.
  void addPrivate(std::vector<Layer> &layers) const {
    constexpr int none = -1;
    DenseMap<Operation *, int> owner;
    for (auto [index, layer] : llvm::enumerate(layers))
      for (Operation *op : layer.ops)
        owner[op] = int(index);
    for (Operation *op : llvm::reverse(graph.forward)) {
      const bool varies =
          llvm::any_of(op->getResults(), [&](Value v) { return graph.isVaried(v); });
      const bool active =
          llvm::any_of(op->getResults(), [&](Value v) { return graph.isActivation(v); });
      if (owner.count(op) || !varies || (active && !StepGraph::isFree(op)))
        continue;
      std::optional<int> only;
      for (Operation *user : op->getUsers())
        if (graph.isForward(user)) {
          auto it = owner.find(user);
          const int its = it == owner.end() ? none : it->second;
          only = !only || *only == its ? its : none;
        }
      if (!only || *only == none)
        continue;
      owner[op] = *only;
      if (!StepGraph::isFree(op))
        layers[*only].ops.push_back(op);
    }
  }

  /// An activation, or what the model is given as one: an input of floats.
  bool flows(Value value) const {
    if (graph.isActivation(value))
      return true;
    Operation *def = value.getDefiningOp();
    if (def)
      return StepGraph::isFree(def) && def->getNumOperands() == 1 && flows(def->getOperand(0));
    return graph.isInput(value) && isa<FloatType>(getElementType(value));
  }

  /// The activation that a value is, or is moved from.
  /// Through ops that only move elements, as long as exactly one operand flows.
  Value rootOf(Value value) {
    while (Operation *def = value.getDefiningOp()) {
      if (!StepGraph::isFree(def))
        break;
      Value source;
      unsigned sources = 0;
      for (Value operand : def->getOperands())
        if (flows(operand)) {
          sources += operand != source;
          source = operand;
        }
      if (sources != 1)
        break;
      value = source;
    }
    return value;
  }

  void collectLives() {
    // Positions count ops with arithmetic; an input is alive from position 0.
    DenseMap<Value, size_t> index;
    for (BlockArgument argument : graph.function.getArguments())
      if (flows(argument)) {
        index[argument] = lives.size();
        lives.push_back({argument, 0, 0});
      }
    for (Operation *op : graph.forward) {
      bool active =
          llvm::any_of(op->getResults(), [&](Value result) { return graph.isActivation(result); });
      if (!active)
        continue;
      if (!StepGraph::isFree(op))
        ops.push_back(op);
      const int position = int(ops.size()) - 1;
      for (Value operand : op->getOperands()) {
        auto it = index.find(rootOf(operand));
        if (it == index.end() || StepGraph::isFree(op))
          continue;
        lives[it->second].last = position;
        ++lives[it->second].readers;
      }
      // A value is a life of its own if nothing else is its root.
      for (Value result : op->getResults()) {
        // What joins several activations without arithmetic is made where it is read.
        if (rootOf(result) != result || getRank(result) == 0)
          continue;
        int made = StepGraph::isFree(op) ? std::max(position, 0) : position;
        index[result] = lives.size();
        lives.push_back({result, made, made});
      }
    }
  }

  /// How many are alive behind each position.
  /// [first, last) of each life: behind its last reader it is gone. Ops times lives at worst.
  std::vector<int> countAlive() const {
    std::vector<int> alive(ops.size() + 1, 0);
    for (const Life &life : lives)
      for (int i = life.first; i < life.last; ++i)
        ++alive[i];
    return alive;
  }

  /// Leaves out values that are used all along (an encoder's output; sines and cosines of packed
  /// positions, which come together) where more ops are in layers without them.
  void dropLongLives() {
    constexpr unsigned readers = 3;
    // A fifth of the ops, with three readers: an ordinary skip connection has fewer.
    std::vector<Life> all = lives, longOnes;
    llvm::erase_if(lives, [&](const Life &life) {
      if (life.readers < readers || 5 * size_t(life.last - life.first) < ops.size())
        return false;
      longOnes.push_back(life);
      return true;
    });
    if (longOnes.empty())
      return;
    // Judged by what is in layers: without long values there must be more of it.
    const size_t before = countCovered();
    findWords();
    size_t covered = countCovered();
    if (covered <= before) {
      lives = std::move(all);
      findWords();
      return;
    }
    // Those back that are in nobody's way.
    // One at a time, in program order: each stays out only if layers would be lost with it.
    for (const Life &life : longOnes) {
      lives.push_back(life);
      findWords();
      if (countCovered() < covered)
        lives.pop_back();
    }
    findWords();
  }
  /// Ops in layers.
  size_t countCovered() const {
    size_t covered = 0;
    for (const Word &word : words)
      for (const Segment &segment : ArrayRef(segments).slice(word.first, word.count * word.length))
        covered += segment.ops.size();
    return covered;
  }

  /// What has several matmuls between two places, unlike a head: all of a model of one layer.
  /// Of the first `end` segments those that are in no word.
  void takeLargeSegments(size_t end) {
    llvm::SmallBitVector covered(segments.size());
    for (const Word &word : words)
      covered.set(word.first, word.first + word.length * word.count);
    for (size_t i = 0; i < end; ++i)
      if (segments[i].costly > 1 && !covered.test(i))
        words.push_back({i, 1, 1});
  }

  /// Stages of a convolutional net repeat, and are blocks that repeat behind one that changes the
  /// size. With blocks for layers less is alive at a time.
  void splitStages() {
    // `findWords` adds to the words that there are.
    std::vector<Word> whole;
    whole.swap(words);
    size_t end = 0;
    for (const Word &word : whole) {
      const size_t before = words.size(), last = word.first + word.length * word.count;
      for (size_t first = word.first; word.length > 1 && first < last; first += word.length)
        findWords(first, first + word.length);
      if (words.size() == before)
        words.push_back(word);
      end = std::max(end, last);
    }
    takeLargeSegments(end);
  }

  /// From the lives that are left; a new cut each time.
  void findWords() {
    segments.clear();
    words.clear();
    cut();
    findWords(0, segments.size());
  }

  static bool isReadByCostly(Value value) {
    return llvm::any_of(value.getUsers(), [](Operation *user) {
      return isCostly(user) ||
             (StepGraph::isFree(user) && llvm::any_of(user->getResults(), isReadByCostly));
    });
  }

  /// What a layer passes on is kept: of places between elementwise ops in a row those of the
  /// narrowest type, and of these only the last one where something costly reads it, which has it
  /// in memory anyway.
  void dropWidePlaces(MutableArrayRef<Value> only) const {
    auto bits = [&](size_t place) { return getElementType(only[place]).getIntOrFloatBitWidth(); };
    auto continues = [&](size_t place) {
      return place < ops.size() && only[place] &&
             getFusionRole(ops[place]) == FusionRole::Pointwise &&
             getNumElements(only[place].getType()) == getNumElements(only[place - 1].getType());
    };
    for (size_t begin = 0, end; begin < ops.size(); begin = end) {
      end = begin + 1;
      if (!only[begin])
        continue;
      unsigned least = bits(begin);
      for (; continues(end); ++end)
        least = std::min(least, bits(end));
      const bool isRead = isReadByCostly(only[end - 1]);
      // From the last one on: what stays is behind all that could still be done with it.
      bool found = false;
      for (size_t place = end; place-- > begin;) {
        const bool stays = bits(place) == least && !(found && isRead);
        found |= bits(place) == least;
        if (!stays)
          only[place] = {};
      }
    }
  }

  /// Segments end where a single activation is alive: nothing else passes from one side to the
  /// other, so that what is before can be computed again from it alone.
  void cut() {
    std::vector<int> alive = countAlive();
    std::vector<Value> only(ops.size() + 1);
    for (const Life &life : lives)
      for (int i = life.first; i < life.last; ++i)
        if (alive[i] == 1)
          only[i] = life.value;
    if (!all)
      dropWidePlaces(only);
    Segment segment;
    llvm::StringMap<unsigned> letters;
    std::vector<StringRef> names;
    auto end = [&]() {
      // Sorted, since exporters write the ops of a layer in different orders.
      llvm::sort(names);
      segment.letter = letters.try_emplace(llvm::join(names, "+"), letters.size()).first->second;
      names.clear();
      segments.push_back(std::move(segment));
      segment = Segment();
    };
    for (auto [position, op] : llvm::enumerate(ops)) {
      segment.ops.push_back(op);
      names.push_back(patternName(op));
      segment.costly += isCostly(op);
      // Parts that read the same activation one after the other pass nothing on (chunks of a loss).
      if (!only[position] || only[position] == segment.input)
        continue;
      end();
      segment.input = only[position];
    }
    if (!segment.ops.empty())
      end();
  }

  /// The word that covers the most of [begin, end), the shortest one; then those beside it.
  /// Cubic in the segments, of which models have some hundreds.
  void findWords(size_t begin, size_t end) {
    Word best{0, 0, 0};
    // Shorter lengths first and a strict comparison: of equal covers the shortest word.
    for (size_t length = 1; 2 * length <= end - begin; ++length) {
      for (size_t first = begin; first + 2 * length <= end; ++first) {
        size_t same = 0;
        while (first + same + length < end &&
               segments[first + same].letter == segments[first + same + length].letter)
          ++same;
        // Segments that equal those one length further on: so many copies in a row.
        size_t count = same / length + 1;
        // Repetitions of small ops (a loop of masks) are no layers.
        bool costly = llvm::any_of(ArrayRef(segments).slice(first, length),
                                   [](const Segment &segment) { return segment.costly > 0; });
        if (count >= 2 && costly && count * length > best.count * best.length)
          best = {first, length, count};
      }
    }
    if (!best.count)
      return;
    words.push_back(best);
    // Both sides by themselves: a model may have an encoder and a decoder.
    findWords(begin, best.first);
    findWords(best.first + best.count * best.length, end);
  }

  const StepGraph &graph;
  /// Whether segments end at all places, or at those where what is passed on is narrow.
  bool all = true;
  SmallVector<Operation *> ops;
  /// Of what the backward pass reads of them.
  DenseMap<Operation *, double> keptBytes;
  std::vector<Life> lives;
  std::vector<Segment> segments;
  std::vector<Word> words;
};
} // namespace

std::vector<Layer> trainc::findLayers(const StepGraph &graph) { return LayerFinder(graph).run(); }

/// Ops whose values need not be kept: inside a layer, and not its output.
llvm::DenseSet<Operation *> trainc::findLayerOps(const StepGraph &graph) {
  llvm::DenseSet<Operation *> inside;
  for (const Layer &layer : findLayers(graph)) {
    inside.insert(layer.ops.begin(), layer.ops.end());
    for (Value output : layer.outputs)
      inside.erase(output.getDefiningOp());
  }
  return inside;
}
