// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A knapsack: opportunities in the order of what a byte costs, as many as are needed, judged by
// schedules. Opportunities of one pattern cost the same and are taken in program order, since what
// is made first is kept longest.

#include "lib/Driver/MemoryBudget.h"

#include "lib/Analysis/StridedViews.h"
#include "lib/Report/MemoryReport.h"
#include "lib/Transforms/Recompute/Layers.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// A number above 0, and the factor of its unit, 0 without one.
static bool parseAmount(StringRef text, double &value, double &factor) {
  static constexpr std::pair<StringLiteral, double> units[] = {
      {"KIB", 1024.}, {"MIB", 1048576.}, {"GIB", 1073741824.}, {"TIB", 1099511627776.},
      {"KB", 1e3},    {"MB", 1e6},       {"GB", 1e9},          {"TB", 1e12},
      {"K", 1024.},   {"M", 1048576.},   {"G", 1073741824.},   {"B", 1.}};
  factor = value = 0;
  std::string upper = text.upper();
  StringRef number = upper;
  for (auto &[name, unit] : units)
    if (!factor && number.consume_back(name))
      factor = unit;
  return !number.trim().getAsDouble(value) && value > 0 && value * std::max(factor, 1.) <= 1e18;
}

std::optional<int64_t> trainc::parseByteSize(StringRef text) {
  double value, factor;
  if (!parseAmount(text, value, factor) || value * std::max(factor, 1.) < 1)
    return std::nullopt;
  return int64_t(value * std::max(factor, 1.));
}

std::string trainc::parseMemoryBudget(StringRef text, MemoryBudget &budget) {
  budget = MemoryBudget();
  StringRef size = text;
  if (size.consume_front("fit")) {
    budget.fit = true;
    if (size.empty())
      return {};
    if (!size.consume_front(":"))
      return "expected fit or fit:SIZE, got '" + text.str() + "'";
  }
  double factor = 0, value = 0;
  const bool parsed = parseAmount(size, value, factor);
  // Above 1 and without a unit it is bytes; 1.5 is neither these nor a fraction.
  if (!parsed || (!factor && value > 1 && value != std::floor(value)))
    return "expected a size such as 40GB or 512MiB, or a fraction above 0 and at most 1, got '" +
           text.str() + "'";
  if (!factor && !budget.fit && value <= 1)
    budget.fraction = value;
  else
    budget.bytes = int64_t(value * std::max(factor, 1.));
  return {};
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

namespace {
/// The number for these sizes; 0 where it is too large for one.
int64_t numberOf(DimAttr dim, const Sizes &sizes) { return dim.evaluate(sizes).value_or(0); }

double secondsOf(Operation *op, const Sizes &sizes, ProcessorSpeed speed) {
  if (StepGraph::isFree(op))
    return 0;
  double flops = 0, bytes = 0;
  auto cost = dyn_cast<CostOpInterface>(op);
  flops = double(numberOf(cost ? cost.getFlops() : train::detail::elementCount(op), sizes));
  for (Value operand : op->getOperands())
    bytes += double(numberOf(bytesOf(operand), sizes));
  for (Value result : op->getResults())
    bytes += double(numberOf(bytesOf(result), sizes));
  bool costly = cost && cost.getRecomputeClass() == RecomputeClass::Costly;
  // Others run with what reads them.
  const double launch = getFusionRole(op) == FusionRole::Pointwise ? 0 : speed.launch;
  return launch + std::max(costly ? flops / speed.flops : 0., bytes / speed.bytes);
}

} // namespace

std::vector<BudgetClass> trainc::budgetClasses(MemoryTrials &trials, ProcessorSpeed speed,
                                               const Sizes &sizes) {
  StepGraph graph(trials.step());
  llvm::DenseSet<Operation *> inside = findLayerOps(graph);
  std::vector<BudgetClass> classes;
  std::map<std::string, size_t> known;
  for (const Opportunity &opportunity : findOpportunities(graph)) {
    if (opportunity.isCompromise() || (inside.empty() ? !trainc::isActivation(graph, opportunity)
                                                      : !inside.contains(opportunity.op)))
      continue;
    auto [it, isNew] = known.try_emplace(opportunity.pattern, classes.size());
    if (isNew)
      classes.push_back({(inside.empty() ? "" : "@") + opportunity.pattern});
    BudgetClass &entry = classes[it->second];
    ++entry.count;
    entry.saved += double(numberOf(opportunity.savedBytes(), sizes));
    entry.seconds += speed.launch;
    for (Operation *op : opportunity.ops)
      entry.seconds += secondsOf(op, sizes, speed);
  }
  llvm::sort(classes, [](const BudgetClass &a, const BudgetClass &b) {
    double left = a.seconds * b.saved, right = b.seconds * a.saved;
    return left != right ? left < right : a.pattern < b.pattern;
  });
  return classes;
}

std::string trainc::budgetConfig(ArrayRef<BudgetClass> classes, ArrayRef<size_t> counts) {
  std::string text;
  for (auto [entry, count] : llvm::zip(classes, counts))
    if (count)
      text += (text.empty() ? "" : ",") + entry.pattern +
              ":1:" + (count == entry.count ? "-1" : std::to_string(count));
  return text;
}

namespace {
class Search {
public:
  /// `activations`: only these have a limit.
  Search(MemoryTrials &trials, ProcessorSpeed speed, bool activations)
      : trials(trials), speed(speed), activations(activations) {}

  /// `fraction`: the limit is that of the activations without recompute.
  LogicalResult choose(const MemoryBudget &budget, const Sizes &sizes, BudgetChoice &choice) {
    known.clear();
    classes = budgetClasses(trials, speed, sizes);
    FailureOr<StepMemory::Total> plain = total(budgetConfig({}, {}), sizes);
    if (failed(plain))
      return failure();
    limit = activations ? int64_t(double(plain->arena) * budget.fraction) : budget.bytes;
    choice = BudgetChoice();
    choice.plain = choice.memory = *plain;
    for (Operation &op : trials.step().getBody().front().without_terminator())
      choice.plainSeconds += secondsOf(&op, sizes, speed);
    choice.fits = measure(*plain) <= limit;
    if (choice.fits)
      return success();
    choice.leastSeconds = leastSeconds(double(measure(*plain) - limit));

    // Large steps have schedules that take long, small ones surprises.
    size_t ops = 0;
    for (func::FuncOp function : trials.functions())
      ops += function.getBody().front().getOperations().size();
    mostTrials = trials.count() + std::clamp<size_t>(100000 / ops, 12, 400);
    Counts counts(classes.size(), 0);
    if (failed(findFirst(sizes, counts)) || failed(reach(sizes, counts)))
      return failure();
    FailureOr<int64_t> bytes = live(counts, sizes);
    if (failed(bytes))
      return failure();
    choice.fits = *bytes <= limit;
    if (choice.fits && failed(cheapen(sizes, counts)))
      return failure();
    choice.config = budgetConfig(classes, counts);
    FailureOr<StepMemory::Total> chosen = total(choice.config, sizes);
    if (failed(chosen))
      return failure();
    if (!choice.fits) {
      // Patterns of opportunities leave what layers make of parameters alone.
      FailureOr<StepMemory::Total> all = total("level:1", sizes);
      if (failed(all))
        return failure();
      if (measure(*all) < *bytes) {
        choice.config = "level:1";
        chosen = all;
        choice.fits = measure(*all) <= limit;
        for (auto [count, entry] : llvm::zip_equal(counts, classes))
          count = entry.count;
      }
    }
    choice.memory = *chosen;
    choice.seconds = secondsOfCounts(counts);
    for (size_t count : counts)
      choice.recomputed += count;
    return success();
  }

private:
  using Counts = std::vector<size_t>;

  /// What has a limit.
  int64_t measure(const StepMemory::Total &total) const {
    return activations ? total.arena : total.bytes();
  }
  FailureOr<StepMemory::Total> total(const std::string &config, const Sizes &sizes) {
    if (auto it = known.find(config); it != known.end())
      return it->second;
    FailureOr<StepMemory::Total> value = trials.evaluate(config, sizes);
    if (succeeded(value))
      known.emplace(config, *value);
    return value;
  }
  FailureOr<int64_t> live(const Counts &counts, const Sizes &sizes) {
    FailureOr<StepMemory::Total> value = total(budgetConfig(classes, counts), sizes);
    return failed(value) ? FailureOr<int64_t>(failure()) : measure(*value);
  }
  double secondsOfCounts(const Counts &counts) const {
    double seconds = 0;
    for (auto [entry, count] : llvm::zip(classes, counts))
      seconds += entry.seconds * double(count) / double(entry.count);
    return seconds;
  }
  bool mayTry() const { return trials.count() < mostTrials; }

  /// The fewest classes, in their order, with which the step fits; else those with which it is
  /// smallest.
  LogicalResult findFirst(const Sizes &sizes, Counts &counts) {
    auto firstClasses = [&](size_t number) {
      Counts first(classes.size(), 0);
      for (size_t i = 0; i < number; ++i)
        first[i] = classes[i].count;
      return first;
    };
    size_t low = 0, high = classes.size();
    FailureOr<int64_t> all = live(firstClasses(high), sizes);
    if (failed(all))
      return failure();
    if (*all > limit) {
      // More is not always less: what is computed again is alive, too.
      int64_t least = *all;
      for (size_t number = 1, end = high; number < end && least > limit; ++number) {
        FailureOr<int64_t> bytes = live(firstClasses(number), sizes);
        if (failed(bytes))
          return failure();
        if (*bytes < least) {
          least = *bytes;
          high = number;
        }
      }
    } else {
      while (high - low > 1) {
        size_t middle = (low + high) / 2;
        FailureOr<int64_t> bytes = live(firstClasses(middle), sizes);
        if (failed(bytes))
          return failure();
        (*bytes <= limit ? high : low) = middle;
      }
    }
    counts = firstClasses(high);
    return success();
  }

  /// Takes or leaves whole classes as long as the step does not fit and that makes it smaller.
  LogicalResult reach(const Sizes &sizes, Counts &counts) {
    FailureOr<int64_t> best = live(counts, sizes);
    for (bool smaller = true; succeeded(best) && smaller && *best > limit;) {
      smaller = false;
      for (size_t i = classes.size(); i-- > 0 && *best > limit && mayTry();) {
        Counts other = counts;
        other[i] = counts[i] ? 0 : classes[i].count;
        FailureOr<int64_t> bytes = live(other, sizes);
        if (failed(bytes))
          return failure();
        if (*bytes < *best) {
          best = bytes;
          counts = other;
          smaller = true;
        }
      }
    }
    return success(succeeded(best));
  }

  /// The fewest of each class, the dearest first; then a cheaper class in place of a dearer one.
  LogicalResult cheapen(const Sizes &sizes, Counts &counts) {
    for (bool cheaper = true; cheaper;) {
      cheaper = false;
      for (size_t i = classes.size(); i-- > 0;) {
        size_t before = counts[i];
        if (failed(shrink(counts, i, sizes)))
          return failure();
        cheaper |= counts[i] < before;
      }
      for (size_t i = classes.size(); i-- > 0;)
        for (size_t j = 0; j < classes.size() && counts[i] && mayTry(); ++j) {
          Counts other = counts;
          other[i] = 0;
          other[j] = classes[j].count;
          if (i == j || counts[j] == classes[j].count ||
              secondsOfCounts(other) >= secondsOfCounts(counts))
            continue;
          FailureOr<int64_t> bytes = live(other, sizes);
          if (failed(bytes))
            return failure();
          if (*bytes > limit)
            continue;
          counts = other;
          cheaper = true;
        }
      cheaper = cheaper && mayTry();
    }
    return success();
  }

  /// The least time in which `bytes` can be freed: parts of classes were allowed, and everything
  /// that is freed counted.
  double leastSeconds(double bytes) const {
    double seconds = 0;
    for (const BudgetClass &entry : classes) {
      double part = entry.saved > 0 ? std::min(1., bytes / entry.saved) : 0;
      seconds += part * entry.seconds;
      bytes -= part * entry.saved;
      if (bytes <= 0)
        break;
    }
    return seconds;
  }

  /// The fewest of class `index` with which the step fits.
  LogicalResult shrink(Counts &counts, size_t index, const Sizes &sizes) {
    size_t low = 0, high = counts[index];
    Counts other = counts;
    for (size_t next = 0; low < high && mayTry(); next = (low + high) / 2) {
      other[index] = next;
      FailureOr<int64_t> bytes = live(other, sizes);
      if (failed(bytes))
        return failure();
      if (*bytes <= limit)
        high = next;
      else
        low = next + 1;
    }
    counts[index] = high;
    return success();
  }

  MemoryTrials &trials;
  ProcessorSpeed speed;
  bool activations;
  int64_t limit = 0;
  std::vector<BudgetClass> classes;
  /// By configuration, for the sizes at hand.
  std::map<std::string, StepMemory::Total> known;
  size_t mostTrials = 0;
};
} // namespace

/// What the least memory that a step can do with consists of.
static std::string describeLeast(MemoryTrials &trials, const Sizes &sizes,
                                 const BudgetChoice &choice, bool activations) {
  const StepMemory::Total &total = choice.memory;
  std::string text = "the least that a step can do with is ";
  auto add = [&](int64_t bytes, StringRef what) {
    if (bytes)
      text += formatBytes(bytes) + " of " + what.str() + ", ";
  };
  FailureOr<const StepMemory *> memory = trials.make(choice.config);
  if (!activations) {
    text += formatBytes(total.bytes()) + ": ";
    add((*memory)->parameters, "parameters");
    add((*memory)->state, "optimizer state");
    add((*memory)->gradients, "gradients");
    add(total.inputs, "inputs");
    add(total.outputs, "outputs");
    add(total.workspace, "workspace");
  }
  add(total.arena, "activations and temporaries");
  text.resize(text.size() - 2);
  text += " (without recompute: " + formatBytes(choice.plain.arena) + ")";
  // And what in turn these are.
  const FunctionMemory &function = (*memory)->functions[total.largest];
  FailureOr<FunctionMemory::Numbers> numbers = function.evaluate(sizes);
  if (failed(numbers) || !function.commands())
    return text;
  text += ", at the peak in '" + function.name().str() + "'";
  if (StringRef node = function.node(numbers->peak); !node.empty())
    text += ", node '" + node.str() + "'";
  constexpr size_t mostBuffers = 3;
  std::string separator = ": ";
  const auto buffers = buffersAt(function, *numbers, numbers->peak);
  for (const PeakBuffer &buffer : ArrayRef(buffers).take_front(mostBuffers)) {
    text += separator + formatBytes(buffer.bytes) + " of " +
            (buffer.name.empty() ? "no node" : "'" + buffer.name + "'");
    separator = ", ";
  }
  return text;
}

LogicalResult trainc::chooseForBudget(MemoryTrials &trials, const MemoryBudget &budget,
                                      ProcessorSpeed speed, const Sizes &sizes,
                                      StringRef batchSymbol, BudgetChoice &choice,
                                      std::string &problem) {
  Search search(trials, speed, budget.fraction > 0);
  std::vector<int64_t> batches = {0};
  if (budget.fit) {
    batches = {*sizes(batchSymbol)};
    for (int64_t power = int64_t(llvm::bit_floor(uint64_t(batches[0]))); power; power /= 2)
      for (int64_t batch : {power, power / 4 * 3})
        if (batch && batch < batches.back())
          batches.push_back(batch);
  }
  double best = 0;
  for (int64_t batch : batches) {
    const Sizes these = batch ? sizes.with(batchSymbol, batch) : sizes;
    BudgetChoice candidate;
    if (failed(search.choose(budget, these, candidate)))
      return failure();
    if (!candidate.fits) {
      problem = describeLeast(trials, these, candidate, budget.fraction > 0);
      if (best == 0)
        choice = candidate;
      continue;
    }
    candidate.batch = batch;
    double rate =
        double(std::max<int64_t>(batch, 1)) / (candidate.plainSeconds + candidate.seconds);
    if (rate > best) {
      best = rate;
      choice = candidate;
    }
  }
  choice.trials = trials.count();
  if (best > 0)
    problem.clear();
  return success();
}

namespace {
/// What the table of --recompute list tells of one function.
class OpportunityTable {
public:
  OpportunityTable(MemoryTrials &trials, func::FuncOp function, ProcessorSpeed speed,
                   const Sizes &sizes, llvm::raw_ostream &out)
      : trials(trials), graph(function), opportunities(findOpportunities(graph)), speed(speed),
        sizes(sizes), numbers(sizes.isComplete()), out(out) {}

  void print() {
    // Patterns in the order of their first opportunities.
    std::vector<std::vector<const Opportunity *>> rows;
    std::map<std::pair<std::string, bool>, size_t> known;
    for (const Opportunity &opportunity : opportunities) {
      auto [it, isNew] =
          known.try_emplace({opportunity.pattern, opportunity.isCompromise()}, rows.size());
      if (isNew)
        rows.emplace_back();
      rows[it->second].push_back(&opportunity);
    }
    const std::string plain = numbers ? activations("") : "";
    for (const auto &row : rows)
      print(row, plain);
  }

private:
  /// Of the function, with a configuration.
  std::string activations(const std::string &config) {
    FailureOr<const StepMemory *> memory = trials.make(config);
    if (failed(memory))
      return "-";
    const FunctionMemory *planned = findFunction(**memory, graph.function.getName());
    FailureOr<ArenaPeak> arena = planned->evaluateArena(sizes);
    return failed(arena) ? "-" : formatBytes(arena->planned);
  }

  void print(ArrayRef<const Opportunity *> row, StringRef plain) {
    const bool compromise = row.front()->isCompromise();
    const std::string config = row.front()->pattern + (compromise ? ":2:-1" : ":1:-1");
    std::map<std::string, size_t> shapes;
    DimAttr saved = DimAttr::constant(graph.function.getContext(), 0), flops = saved;
    double seconds = 0;
    for (const Opportunity *opportunity : row) {
      seconds += numbers ? speed.launch : 0;
      ++shapes[opportunity->shape()];
      saved = saved + opportunity->savedBytes();
      flops = flops + opportunity->flops();
      for (Operation *op : opportunity->ops)
        seconds += numbers ? secondsOf(op, sizes, speed) : 0;
    }
    out << "\tSubgraph: " << row.front()->pattern
        << "\n\t\tAlleviationType: Disabled\n\t\tPatterns: \n";
    for (auto &[shape, count] : shapes)
      out << "\t\t\tPatternShape:" << shape << "\tFrequency:" << count << "\n";
    out << "\t\tConfig: " << config << "\n\t\tSaved bytes: " << saved.str();
    if (numbers)
      out << " = " << formatBytes(numberOf(saved, sizes));
    out << "\n\t\tFLOPs: " << flops.str();
    if (numbers)
      out << " = " << llvm::format("%.3g", double(numberOf(flops, sizes))) << ", about "
          << llvm::format("%.3g", seconds * 1e3)
          << " ms\n\t\tActivations and temporaries: " << plain << " -> " << activations(config);
    out << "\n\t" << std::string(32, '-') << "\n";
  }

  MemoryTrials &trials;
  StepGraph graph;
  std::vector<Opportunity> opportunities;
  ProcessorSpeed speed;
  const Sizes &sizes;
  bool numbers;
  llvm::raw_ostream &out;
};
} // namespace

void trainc::printOpportunities(MemoryTrials &trials, ProcessorSpeed speed, const Sizes &sizes,
                                llvm::raw_ostream &out) {
  out << "MemoryAlleviation Summary:\n\tUser config:\n\tlist\n";
  for (func::FuncOp function : trials.functions()) {
    if (!StepGraph::isStep(function))
      continue;
    if (auto base = function->getAttrOfType<StringAttr>(kVariantOfAttr))
      out << "\t" << function.getName() << ", in place of " << base.getValue()
          << " where a batch allows it\n";
    out << "\t" << std::string(33, '=') << "\n";
    OpportunityTable(trials, function, speed, sizes, out).print();
  }
  out << "\t" << std::string(33, '=') << "\n";
  if (!sizes.isComplete())
    out << "\tNumbers need sizes: --dim " << llvm::join(sizes.unbound(), "=N --dim ") << "=N\n";
}
