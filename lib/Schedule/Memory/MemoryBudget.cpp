// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A knapsack: opportunities in the order of what a byte costs, as many as are needed, judged by
// schedules. Opportunities of one pattern cost the same and are taken in program order, since what
// is made first is kept longest. Schedules take long, so the next one to make is guessed from the
// bytes of those that are known.

#include "trainc/Schedule/Memory/MemoryBudget.h"

#include "lib/Schedule/Memory/RecomputeCost.h"
#include "lib/Schedule/Recompute/Layers.h"
#include "trainc/Report/MemoryReport.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// A number above 0, and the factor of its unit, 0 without one.
/// Units with an i and single letters are powers of 1024, the others of 1000; longer ones stand
/// first, since shorter ones are their ends. At most 10^18, so that sums of bytes stay within 64
/// bits.
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
  // For `fit` every number is a size.
  if (!parsed || (!factor && value > 1 && value != std::floor(value)))
    return "expected a size such as 40GB or 512MiB, or a fraction above 0 and at most 1, got '" +
           text.str() + "'";
  // "1" is the whole of the activations, not one byte.
  if (!factor && !budget.fit && value <= 1)
    budget.fraction = value;
  else
    budget.bytes = int64_t(value * std::max(factor, 1.));
  return {};
}

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Opportunities that cost the same for a byte, cheapest first. Only what is inside of layers
/// counts, where there are layers: their boundaries have to be kept anyway.
std::vector<BudgetClass> trainc::budgetClasses(MemoryTrials &trials, ProcessorSpeed speed,
                                               const Sizes &sizes) {
  StepGraph graph(trials.step());
  llvm::DenseSet<Operation *> inside = findLayerOps(graph);
  std::vector<BudgetClass> classes;
  std::map<std::string, size_t> known;
  for (const Opportunity &opportunity : findOpportunities(graph)) {
    // Compromises keep half, and are for the user to ask for.
    if (opportunity.isCompromise() || (inside.empty() ? !trainc::isActivation(graph, opportunity)
                                                      : !inside.contains(opportunity.op)))
      continue;
    auto [it, isNew] = known.try_emplace(opportunity.pattern, classes.size());
    if (isNew)
      classes.push_back({(inside.empty() ? "" : "@") + opportunity.pattern});
    BudgetClass &entry = classes[it->second];
    ++entry.count;
    entry.saved += double(numberOf(opportunity.savedBytes(), sizes));
    entry.seconds += secondsOf(opportunity, sizes, speed);
  }
  // By time for each byte saved, without a division; ties by the pattern, so that the order does
  // not depend on where a pattern was first seen.
  llvm::sort(classes, [](const BudgetClass &a, const BudgetClass &b) {
    double left = a.seconds * b.saved, right = b.seconds * a.saved;
    return left != right ? left < right : a.pattern < b.pattern;
  });
  return classes;
}

/// In the syntax of --recompute: what has been chosen can be repeated without a search.
std::string trainc::budgetConfig(ArrayRef<BudgetClass> classes, ArrayRef<size_t> counts) {
  std::string text;
  for (auto [entry, count] : llvm::zip_equal(classes, counts))
    if (count)
      text += (text.empty() ? "" : ",") + entry.pattern +
              ":1:" + (count == entry.count ? "-1" : std::to_string(count));
  return text;
}

namespace {
/// One search for one set of sizes: `begin`, then `choose` where it does not fit. Every question is
/// answered by a schedule that is made for it, at most once for each configuration.
class Search {
public:
  /// `activations`: only these have a limit.
  Search(MemoryTrials &trials, ProcessorSpeed speed, bool activations)
      : trials(trials), speed(speed), activations(activations) {}

  /// Without recompute. `fraction`: the limit is that of the activations then.
  LogicalResult begin(const MemoryBudget &budget, const Sizes &sizes, BudgetChoice &choice) {
    // Totals depend on the sizes, schedules do not: those the trials keep.
    known.clear();
    classes = budgetClasses(trials, speed, sizes);
    FailureOr<StepMemory::Total> plain = total(budgetConfig({}, {}), sizes);
    if (failed(plain))
      return failure();
    // A fraction is of the activations of the plain schedule, which every batch has its own of.
    limit = activations ? int64_t(double(plain->arena) * budget.fraction) : budget.bytes;
    choice = BudgetChoice();
    choice.plain = choice.memory = *plain;
    for (Operation &op : trials.step().getBody().front().without_terminator())
      choice.plainSeconds += secondsOf(&op, sizes, speed);
    choice.fits = measure(*plain) <= limit;
    if (choice.fits)
      choice.declined.push_back({"nothing is rematerialized", "the step fits as it is"});
    else
      choice.leastSeconds = leastSeconds(double(measure(*plain) - limit));
    return success();
  }

  /// What is to be computed again so that the step fits, where `begin` says that it does not.
  LogicalResult choose(const Sizes &sizes, BudgetChoice &choice) {
    // Large steps have schedules that take long, small ones surprises.
    // The number of trials depends on the graph, never on the clock: the same model gives the same
    // choice on every machine.
    size_t ops = 0;
    for (func::FuncOp function : trials.functions())
      ops += function.getBody().front().getOperations().size();
    mostTrials = trials.count() + std::clamp<size_t>(100000 / ops, 6, 400);
    tested.clear();
    Counts counts(classes.size(), 0);
    if (failed(findFirst(sizes, counts)) || failed(reach(sizes, counts)))
      return failure();
    FailureOr<int64_t> bytes = live(counts, sizes);
    if (failed(bytes))
      return failure();
    choice.fits = *bytes <= limit;
    if (choice.fits && (failed(trim(sizes, counts)) || failed(cheapen(sizes, counts))))
      return failure();
    choice.config = budgetConfig(classes, counts);
    FailureOr<StepMemory::Total> chosen = total(choice.config, sizes);
    if (failed(chosen))
      return failure();
    // More than patterns can: whole layers, whose boundaries alone are kept.
    if (!choice.fits) {
      // Patterns of opportunities leave what layers make of parameters alone.
      FailureOr<StepMemory::Total> all = total("level:1", sizes);
      if (failed(all))
        return failure();
      if (measure(*all) < *bytes) {
        choice.config = "level:1";
        chosen = all;
        choice.fits = measure(*all) <= limit;
        // For the estimate of time all counts as computed again.
        for (auto [count, entry] : llvm::zip_equal(counts, classes))
          count = entry.count;
      }
    }
    choice.memory = *chosen;
    choice.seconds = secondsOfCounts(counts);
    // Kernels that fuse otherwise may free more than the values.
    choice.leastSeconds = std::min(choice.leastSeconds, choice.seconds);
    for (size_t count : counts)
      choice.recomputed += count;
    explain(counts, choice);
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
  /// Linear in the numbers: opportunities of a class cost the same.
  double secondsOfCounts(const Counts &counts) const {
    double seconds = 0;
    for (auto [entry, count] : llvm::zip_equal(classes, counts))
      seconds += entry.seconds * double(count) / double(entry.count);
    return seconds;
  }
  /// Counted in schedules made, not in questions asked: answers that are known are free.
  bool mayTry() const { return trials.count() < mostTrials; }

  void explain(const Counts &counts, BudgetChoice &choice) const {
    for (auto [entry, count] : llvm::zip_equal(classes, counts)) {
      const size_t kept = entry.count - count;
      if (!kept)
        continue;
      Obstacle obstacle = mayTry() ? "the step is no smaller without them"
                                   : "the step is no smaller without them in the schedules that "
                                     "were tried";
      if (choice.fits)
        obstacle = llvm::formatv("the step fits with them; to rematerialize them would take {0:f4} "
                                 "ms",
                                 1e3 * entry.seconds * double(kept) / double(entry.count))
                       .str();
      choice.declined.push_back(
          {llvm::formatv("{0} of {1} values of {2} are kept", kept, entry.count, entry.pattern),
           obstacle});
    }
  }

  /// The first `number` values in the order of the classes.
  Counts firstValues(size_t number) const {
    Counts first(classes.size(), 0);
    for (auto [count, entry] : llvm::zip_equal(first, classes)) {
      count = std::min(number, entry.count);
      number -= count;
    }
    return first;
  }
  /// What values save if all that is not kept is missing at the peak.
  /// An upper bound: values that are not alive at the peak save nothing there.
  double savedBy(size_t index, size_t count) const {
    return classes[index].saved * double(count) / double(classes[index].count);
  }
  double savedBy(const Counts &counts) const {
    double saved = 0;
    for (auto [index, count] : llvm::enumerate(counts))
      saved += savedBy(index, count);
    return saved;
  }

  /// The fewest values with which the step fits; else the classes with which it is smallest.
  LogicalResult findFirst(const Sizes &sizes, Counts &counts) {
    size_t number = 0;
    for (const BudgetClass &entry : classes)
      number += entry.count;
    counts = firstValues(number);
    FailureOr<int64_t> all = live(counts, sizes);
    if (failed(all))
      return failure();
    if (*all <= limit) {
      // What is tried here tells later which classes are needed (isNeeded).
      tested = {0, number};
      FailureOr<size_t> fewest = findFewest([&](size_t next) { return firstValues(next); }, 0,
                                            number, sizes, /*limited=*/false, &tested);
      llvm::sort(tested);
      if (succeeded(fewest))
        counts = firstValues(*fewest);
      return fewest;
    }
    // More is not always less: what is computed again is alive, too.
    assert(*all > limit && "else the fewest have been looked for");
    // Classes one after the other, the cheapest first; the smallest of what these give.
    int64_t least = *all;
    Counts first(classes.size(), 0);
    for (size_t i = 0; i + 1 < classes.size() && least > limit; ++i) {
      first[i] = classes[i].count;
      FailureOr<int64_t> bytes = live(first, sizes);
      if (failed(bytes))
        return failure();
      if (*bytes < least) {
        least = *bytes;
        counts = first;
      }
    }
    return success();
  }

  /// A schedule with some number of values: what it takes, and what these save by themselves.
  /// Both are of one schedule: bytes measured, savings by the model.
  struct Point {
    size_t number;
    double bytes, saved;
  };

  /// The least number with which `countsOf` fits, where `high` does and `low` does not. `limited`:
  /// stops where no more may be tried. `path`: of values in the order of the classes; takes the
  /// numbers that are tried.
  /// A guess costs a schedule, a bisection ten of them; after six guesses, halving takes turns.
  FailureOr<size_t> findFewest(llvm::function_ref<Counts(size_t)> countsOf, size_t low, size_t high,
                               const Sizes &sizes, bool limited = false,
                               std::vector<size_t> *path = nullptr) {
    constexpr unsigned guesses = 6;
    auto pointAt = [&](size_t number) -> FailureOr<Point> {
      const Counts counts = countsOf(number);
      FailureOr<int64_t> bytes = live(counts, sizes);
      if (failed(bytes))
        return failure();
      return Point{number, double(*bytes), savedBy(counts)};
    };
    assert(low < high && "there is something between that fits and something that does not");
    FailureOr<Point> more = pointAt(high), less = pointAt(low), before = less;
    if (failed(more) || failed(less))
      return failure();
    auto borderOnPath = [&](size_t from, size_t to) {
      return path ? borderBetween(from, to) : std::nullopt;
    };
    // How far the first schedule was off: the measure of whether later guesses are good.
    const double missing = less->bytes - double(limit);
    bool wrong = false;
    for (unsigned step = 0; more->number - less->number > 1 && (!limited || mayTry()); ++step) {
      const size_t first = less->number + 1, last = more->number - 1;
      // The least number whose values save what is missing, by the rate at which saved bytes are
      // bytes less. partition_point: savings ascend with the number.
      auto numberFor = [&](double rate) {
        const double wanted = less->saved + (less->bytes - double(limit)) / rate;
        auto all = llvm::seq(first, more->number);
        return *std::partition_point(all.begin(), all.end(), [&](size_t number) {
          return savedBy(countsOf(number)) < wanted;
        });
      };
      // The bytes that are missing for each that is saved: those of the last two schedules, else
      // all of them or those on the way to `more` by turns. No rate is right for every class.
      const double average = (less->bytes - more->bytes) / (more->saved - less->saved);
      double rate = step % 2 == (path ? 0 : 1) ? average : 1;
      if (before->number < less->number && !borderOnPath(before->number, first))
        rate = (before->bytes - less->bytes) / (less->saved - before->saved);
      // A rate that is not positive says nothing: as many as possible then.
      size_t next = rate > 0 ? numberFor(rate) : more->number;
      if (next > last)
        next = std::min(numberFor(average), last);
      std::optional<size_t> border = borderOnPath(less->number, more->number);
      // Where guesses are wrong, a class is what makes the step at the peak: its border tells most.
      if (wrong && border)
        next = *border;
      else if (step >= guesses && step % 2)
        next = (first + last) / 2;
      FailureOr<Point> point = pointAt(next);
      if (failed(point))
        return failure();
      const double off = point->bytes - double(limit);
      // More than a tenth of what was missing at first.
      wrong |= step > 0 && std::abs(off) > missing / 10;
      // The border lies between a schedule that fits and one that does not, always.
      if (off > 0)
        before = std::exchange(less, point);
      else
        more = point;
      if (path)
        path->push_back(next);
    }
    return more->number;
  }

  /// The middle one of the numbers between `low` and `high` with which a class is complete.
  /// Of the numbers strictly between both.
  std::optional<size_t> borderBetween(size_t low, size_t high) const {
    SmallVector<size_t> borders;
    size_t number = 0;
    for (const BudgetClass &entry : classes)
      if ((number += entry.count) > low && number < high)
        borders.push_back(number);
    return borders.empty() ? std::nullopt : std::optional(borders[borders.size() / 2]);
  }

  /// Whether the schedules of `findFirst` show that the step does not fit without the values of a
  /// class from `first` on: about what they save was missing where they were taken.
  /// By guesses of the model: at most a tenth more is gained than it says. A wrong "yes" costs a
  /// better choice, never a choice that does not fit.
  bool isNeeded(const Counts &counts, size_t index, size_t first, const Sizes &sizes) {
    constexpr double most = 1.1;
    // So much room that leaving them out may fit.
    FailureOr<int64_t> bytes = live(counts, sizes);
    if (failed(bytes) || double(limit - *bytes) * most > savedBy(index, counts[index] - first))
      return false;
    // Numbers in the order of the classes, up to this one.
    size_t offset = 0;
    for (size_t i = 0; i < index; ++i)
      offset += classes[i].count;
    assert(llvm::is_sorted(tested) && "findFirst leaves them so");
    // The schedules nearest to both ends of the range that was asked for.
    auto next = llvm::lower_bound(tested, offset + counts[index]);
    auto previous = llvm::upper_bound(tested, offset + first);
    if (next == tested.end() || previous == tested.begin())
      return false;
    const Counts more = firstValues(*next), less = firstValues(*std::prev(previous));
    FailureOr<int64_t> with = live(more, sizes), without = live(less, sizes);
    return succeeded(with) && succeeded(without) &&
           double(*without - *with) * most > savedBy(more) - savedBy(less);
  }

  /// Leaves out what can be guessed to be of no use, a schedule or two for each class.
  LogicalResult trim(const Sizes &sizes, Counts &counts) {
    size_t dearest = classes.size();
    // Some count is above 0: the plain step does not fit.
    while (dearest-- > 0 && !counts[dearest])
      ;
    // What is left of the budget may do for some. Where the dearest class is needed in some layers
    // only, a cheaper one may be of use there only, too: what it does not keep the other one does.
    assert(dearest < classes.size() && "the plain step does not fit, so something has a count");
    const double share = double(counts[dearest]) / double(classes[dearest].count);
    auto numberWith = [&](size_t index, bool spare) -> FailureOr<size_t> {
      // As large a share of its layers as the dearest class has.
      if (!spare)
        return size_t(std::ceil(double(classes[index].count) * share));
      FailureOr<int64_t> bytes = live(counts, sizes);
      if (failed(bytes))
        return failure();
      const double saved = savedBy(index, 1), bytesLeft = double(limit - *bytes);
      // All of them if the room does for all.
      return bytesLeft < double(counts[index]) * saved ? counts[index] - size_t(bytesLeft / saved)
                                                       : size_t(0);
    };
    struct Guess {
      size_t index;
      bool spare;
      double worth;
    };
    std::vector<Guess> guesses;
    // Cheaper ones than the dearest: what is dearer has no values.
    for (size_t i = dearest; i-- > 0;)
      for (bool spare : {true, false}) {
        FailureOr<size_t> number = numberWith(i, spare);
        if (failed(number))
          return failure();
        const double likelihood = spare ? 0.9 : 0.3;
        guesses.push_back({i, spare,
                           likelihood * classes[i].seconds * (double(counts[i]) - double(*number)) /
                               double(classes[i].count)});
      }
    // Stable, so that ties keep the order of the classes.
    llvm::stable_sort(guesses, [](const Guess &a, const Guess &b) { return a.worth > b.worth; });
    // Numbers again, since those accepted before have used room.
    for (const Guess &guess : guesses) {
      FailureOr<size_t> number = numberWith(guess.index, guess.spare);
      if (failed(number))
        return failure();
      if (*number >= counts[guess.index] || !mayTry() ||
          isNeeded(counts, guess.index, *number, sizes))
        continue;
      Counts other = counts;
      other[guess.index] = *number;
      FailureOr<int64_t> bytes = live(other, sizes);
      if (failed(bytes))
        return failure();
      if (*bytes <= limit)
        counts = other;
    }
    return success();
  }

  /// Takes or leaves whole classes as long as the step does not fit and that makes it smaller.
  /// Greedy, dearest class first; each turn makes the step smaller, so it ends.
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
  /// Each turn makes the choice cheaper; ends by the number of trials at the latest.
  LogicalResult cheapen(const Sizes &sizes, Counts &counts) {
    for (bool cheaper = true; cheaper;) {
      cheaper = false;
      for (size_t i = classes.size(); i-- > 0;) {
        size_t before = counts[i];
        if (failed(shrink(counts, i, sizes)))
          return failure();
        cheaper |= counts[i] < before;
      }
      // Of a pair the dearer class goes as a whole, and the cheaper one comes as a whole.
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
  /// A bound that no choice can beat, as long as kernels fuse as they do now: batches are compared
  /// by it.
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
  /// The limit on trials may end it early, with a number that fits.
  LogicalResult shrink(Counts &counts, size_t index, const Sizes &sizes) {
    auto countsOf = [&](size_t number) {
      Counts other = counts;
      other[index] = number;
      return other;
    };
    if (!counts[index])
      return success();
    // One less may be known not to fit.
    auto less = known.find(budgetConfig(classes, countsOf(counts[index] - 1)));
    if ((less != known.end() && measure(less->second) > limit) || !mayTry() ||
        isNeeded(counts, index, 0, sizes))
      return success();
    FailureOr<int64_t> none = live(countsOf(0), sizes);
    if (failed(none))
      return failure();
    FailureOr<size_t> fewest = 0;
    if (*none > limit)
      fewest = findFewest(countsOf, 0, counts[index], sizes, /*limited=*/true);
    if (succeeded(fewest))
      counts[index] = *fewest;
    return fewest;
  }

  MemoryTrials &trials;
  ProcessorSpeed speed;
  bool activations;
  int64_t limit = 0;
  std::vector<BudgetClass> classes;
  /// By configuration, for the sizes at hand.
  std::map<std::string, StepMemory::Total> known;
  size_t mostTrials = 0;
  /// Of how many first values `findFirst` has made schedules, in ascending order.
  std::vector<size_t> tested;
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
  // Known already: no schedule is made, so it cannot fail.
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
  // Of the largest function, whose peak the step's is.
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
  // The largest batch first, then powers of two and the numbers half way between them.
  if (budget.fit) {
    batches = {*sizes(batchSymbol)};
    for (int64_t power = int64_t(llvm::bit_floor(uint64_t(batches[0]))); power; power /= 2)
      for (int64_t batch : {power, power / 4 * 3})
        if (batch && batch < batches.back())
          batches.push_back(batch);
  }
  // Rows a second: what a training run gains by a batch.
  double best = 0;
  // In samples a second, of some the most that is possible: then a word says so.
  std::vector<std::tuple<int64_t, const char *, double>> rates;
  auto rateOf = [](int64_t batch, double seconds) {
    return double(std::max<int64_t>(batch, 1)) / seconds;
  };
  auto sizesOf = [&](int64_t batch) { return batch ? sizes.with(batchSymbol, batch) : sizes; };
  auto consider = [&](int64_t batch, BudgetChoice &candidate) {
    candidate.batch = batch;
    const double rate = rateOf(batch, candidate.plainSeconds + candidate.seconds);
    rates.emplace_back(batch, "", rate);
    if (rate > best) {
      best = rate;
      choice = candidate;
    }
  };
  // Those first that need no search, then those that are better with the least that it takes, the
  // smallest first: each larger one computes more again, and none fits where a smaller one does
  // not. The bound is a loose one, so two in a row that are worse end it.
  constexpr unsigned mostWorse = 2;
  unsigned worse = 0;
  std::vector<std::pair<int64_t, double>> others;
  for (int64_t batch : batches) {
    BudgetChoice candidate;
    if (failed(search.begin(budget, sizesOf(batch), candidate)))
      return failure();
    if (candidate.fits)
      consider(batch, candidate);
    else
      others.push_back({batch, rateOf(batch, candidate.plainSeconds + candidate.leastSeconds)});
  }
  std::vector<BudgetDecline> declined;
  int64_t tooLarge = 0;
  for (auto [batch, most] : llvm::reverse(others)) {
    if (tooLarge) {
      declined.push_back({"batch " + std::to_string(batch) + " is not chosen",
                          "batch " + std::to_string(tooLarge) + " does not fit"});
      continue;
    }
    if (most <= best) {
      rates.emplace_back(batch, "at most ", most);
      continue;
    }
    if (worse == mostWorse) {
      declined.push_back(
          {"batch " + std::to_string(batch) + " is not chosen",
           "two smaller ones with recompute are worse than batch " + std::to_string(choice.batch)});
      continue;
    }
    const Sizes these = sizesOf(batch);
    BudgetChoice candidate;
    if (failed(search.begin(budget, these, candidate)) || failed(search.choose(these, candidate)))
      return failure();
    if (!candidate.fits) {
      std::string least = describeLeast(trials, these, candidate, budget.fraction > 0);
      if (budget.fit)
        declined.push_back({"batch " + std::to_string(batch) + " is not chosen", least});
      if (best == 0) {
        problem = std::move(least);
        choice = candidate;
      }
      tooLarge = batch;
      continue;
    }
    const double before = best;
    consider(batch, candidate);
    worse = best > before ? 0 : worse + 1;
  }
  for (auto [batch, bound, rate] : rates)
    if (batch != choice.batch)
      declined.push_back({"batch " + std::to_string(batch) + " is not chosen",
                          llvm::formatv("batch {0} has the better predicted rate: {1:f1} samples a "
                                        "second, this one {2}{3:f1}",
                                        choice.batch, best, bound, rate)
                              .str()});
  llvm::append_range(choice.declined, declined);
  // For the report.
  choice.trials = trials.count();
  return success();
}
