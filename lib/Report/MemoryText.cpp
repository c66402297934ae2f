// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report as text.

#include "trainc/Report/StepTime.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// What fits on a screen.
constexpr int kRows = 24, kBarWidth = 40, kBuffers = 10;
constexpr size_t kExchanges = 6;
/// For the formula at the peak, where a size has no number.
constexpr int64_t kTypicalSize = 128;
constexpr StringLiteral kPhases[] = {"forward", "backward", "update"};

class TextReport {
public:
  TextReport(const MemoryReport &report, raw_ostream &out) : report(report), out(out) {}

  void print() {
    out << report.model << ": memory of "
        << (report.step.training ? "a training step" : "an evaluation") << " on "
        << report.step.target->name();
    if (std::string text = report.sizes.text(); !text.empty())
      out << ", " << text;
    out << "\n";
    // Formulas are shown even without numbers.
    if (std::string missing = missingSizes(report.sizes); !missing.empty())
      out << "  a number " << missing << "; formulas are in bytes\n";
    printCategories();
    printDensities();
    printTime();
    for (const FunctionMemory &function : report.step.functions)
      print(function);
    printLargest();
  }

private:
  /// One line each; beside it what it would be without recompute.
  void printCategories() {
    const std::vector<MemoryCategory> list = categoriesOf(report);
    if (!report.baseline) {
      for (const MemoryCategory &category : list)
        line(category.name, category.bytes, category.formula);
      return;
    }
    const std::vector<MemoryCategory> before = categoriesOf(*report.baseline);
    out << llvm::right_justify("with recompute", 35) << llvm::right_justify("without", 11) << "\n";
    // The formula of the new one; both numbers.
    for (auto [category, old] : llvm::zip_equal(list, before)) {
      const std::string bytes = old.bytes ? formatBytes(*old.bytes) : "-";
      line(category.name, category.bytes,
           std::string(9 - std::min<size_t>(9, bytes.size()), ' ') + bytes + "  " +
               category.formula);
    }
  }

  /// What the peak is where batches are less full.
  void printDensities() {
    // Only where a density changes anything.
    const auto peaks = peaksByDensity(report);
    if (peaks.empty())
      return;
    out << "  the peak is for a density of " << llvm::format("%.0f", report.density * 100)
        << " % (--density), the share of positions that are tokens or have a label; by density";
    for (auto [density, bytes] : peaks)
      out << (density < 1 ? ", " : " ") << llvm::format("%.0f", density * 100)
          << " %: " << formatBytes(bytes);
    out << "\n";
  }

  /// Of packages for several ranks.
  void printTime() {
    const std::optional<StepTime> time = estimateStepTime(report);
    if (!time)
      return;
    out << "\ntime of a step of " << report.world << (report.world == 1 ? " rank, " : " ranks, ")
        << describeModel(report) << "\n";
    auto duration = [&](StringRef name, double seconds) -> raw_ostream & {
      return out << "  " << llvm::left_justify(name, 22) << llvm::format("%9.3f ms", seconds * 1e3);
    };
    duration("computation", time->computing) << "\n";
    const size_t exchanges = time->exchanges.size();
    duration("exchange", time->exchanging)
        << "  " << formatBytes(int64_t(time->sent)) << " from each rank to others, in " << exchanges
        << (exchanges == 1 ? " exchange\n" : " exchanges\n");
    duration("hidden", time->hidden) << "  of the exchange, behind computation\n";
    const std::vector<ExchangeTime> waited = time->waitedFor();
    for (const ExchangeTime &exchange : ArrayRef(waited).take_front(kExchanges))
      duration("not hidden", exchange.waited) << "  " << describeExchange(exchange) << "\n";
    double rest = 0;
    for (const ExchangeTime &exchange :
         ArrayRef(waited).drop_front(std::min(kExchanges, waited.size())))
      rest += exchange.waited;
    if (waited.size() > kExchanges)
      duration("not hidden", rest)
          << "  others: " << waited.size() - kExchanges << " (--report=FILE.json has all)\n";
    duration("step", time->seconds()) << "\n";
    out << "  " << llvm::left_justify("scaling efficiency", 22)
        << llvm::format("%9.1f %%\n", time->efficiency() * 100);
    out << "  " << llvm::left_justify("to one rank", 22) << "  "
        << describeScaling(predictScaling(report)) << "\n";
  }

  void line(StringRef name, std::optional<int64_t> bytes, StringRef formula) {
    out << "  " << llvm::left_justify(name, 22)
        << llvm::right_justify(bytes ? formatBytes(*bytes) : "-", 11);
    if (!formula.empty())
      out << "  " << formula;
    out << "\n";
  }

  /// Commands as they are counted, ends included.
  static std::string range(int32_t begin, int32_t end) {
    if (begin >= end)
      return "none";
    return std::to_string(begin) +
           (end - begin > 1 ? "-" + std::to_string(end - 1) : std::string());
  }

  void print(const FunctionMemory &function) {
    const Phases &phases = function.phases();
    out << "\n" << function.name();
    if (!function.variantOf().empty())
      out << ", in place of " << function.variantOf() << " where a batch allows it";
    out << ": " << function.commands() << " commands, forward " << range(0, phases.forwardEnd)
        << ", backward " << range(phases.forwardEnd, phases.backwardEnd) << ", update "
        << range(phases.backwardEnd, function.commands()) << "\n";
    // Nothing to show.
    if (!function.commands())
      return;
    FailureOr<FunctionMemory::Numbers> numbers = function.evaluate(report.sizes);
    // Without numbers, formulas at the command where typical sizes have their peak.
    if (failed(numbers)) {
      FailureOr<FunctionMemory::Numbers> typical =
          function.evaluate(report.sizes.filled(kTypicalSize));
      if (failed(typical))
        return;
      out << "  at command " << typical->peak << ", where the peak is with sizes of "
          << kTypicalSize << "\n";
      line("kept for the backward", std::nullopt, function.formula(typical->peak, true).str());
      line("temporaries", std::nullopt, function.formula(typical->peak, false).str());
      return;
    }
    const int32_t peak = numbers->peak;
    int64_t kept = 0, temporaries = 0;
    std::vector<PeakBuffer> buffers = buffersAt(function, *numbers, peak);
    assert(numbers->bytes.size() == function.buffers().size() && "a number a buffer");
    for (const PeakBuffer &buffer : buffers)
      (function.isKept(*buffer.life) ? kept : temporaries) += buffer.bytes;
    out << "  peak at command " << peak << ", " << kPhases[int(phases.of(peak))];
    if (StringRef node = function.node(peak); !node.empty())
      out << ", node '" << node << "'";
    out << "\n";
    line("kept for the backward", kept, function.formula(peak, true).str());
    line("temporaries", temporaries, function.formula(peak, false).str());
    // What planning adds to the sum of bytes.
    line("layout", numbers->arena.planned - kept - temporaries,
         report.step.target->traits.memory.runsBeside
             ? "alignment and gaps, and room for small commands to overlap"
             : "alignment and gaps between buffers");
    line("activations", numbers->arena.planned, "");
    printTimeline(function, *numbers);
    out << "  the largest of " << buffers.size() << " buffers at the peak\n";
    for (const PeakBuffer &buffer : ArrayRef(buffers).take_front(kBuffers))
      out << llvm::right_justify(formatBytes(buffer.bytes), 14) << "  " << buffer.node << "  "
          << buffer.life->bytes.str() << "  commands "
          << range(buffer.life->first, buffer.life->last + 1)
          << (function.isKept(*buffer.life) ? ", kept" : "") << "\n";
    printTokens(function);
    printRecompute(function, *numbers);
  }

  /// The most that is in use in each part of the commands; parts end with phases.
  void printTimeline(const FunctionMemory &function, const FunctionMemory::Numbers &numbers) {
    out << "  timeline\n";
    const Phases &phases = function.phases();
    // Rows of about as many commands.
    const int32_t count = function.commands(), step = std::max(1, (count + kRows - 1) / kRows);
    const int64_t most = std::max<int64_t>(numbers.live[numbers.peak], 1);
    for (int32_t begin = 0; begin < count;) {
      int32_t end = std::min(begin + step, count);
      // A row belongs to one phase.
      for (int32_t mark : {phases.forwardEnd, phases.backwardEnd})
        if (begin < mark && mark < end)
          end = mark;
      assert(begin < end && "rows are not empty");
      const int64_t live =
          *std::max_element(numbers.live.begin() + begin, numbers.live.begin() + end);
      const int width = (live * kBarWidth + most - 1) / most;
      out << "    " << llvm::left_justify(range(begin, end), 12)
          << llvm::left_justify(kPhases[int(phases.of(begin))], 9) << "|"
          << llvm::left_justify(std::string(width, '#'), kBarWidth) << "| " << formatBytes(live)
          << (begin <= numbers.peak && numbers.peak < end ? "  peak" : "") << "\n";
      begin = end;
    }
  }

  /// How it shrinks with the tokens and labels that there really are.
  void printTokens(const FunctionMemory &function) {
    // Counts that the bytes depend on.
    SmallVector<StringRef> counts;
    for (const BufferLifetime &life : function.buffers())
      life.bytes.forEachSymbol([&](StringRef name) {
        if (report.sizes.isCount(name) && !llvm::is_contained(counts, name))
          counts.push_back(name);
      });
    if (counts.empty())
      return;
    llvm::sort(counts);
    out << "  activations by the share of elements that count\n";
    // Shares of the elements that count.
    for (int percent : {100, 75, 50, 25, 10}) {
      const Sizes sizes = report.sizes.counted(percent / 100.0);
      FailureOr<ArenaPeak> arena = function.evaluateArena(sizes);
      if (failed(arena))
        return;
      out << llvm::format("    %3d %%", percent)
          << llvm::right_justify(formatBytes(arena->planned), 14);
      for (StringRef name : counts)
        out << "  " << name << " = " << sizes(name).value_or(0);
      out << "\n";
    }
  }

  void printRecompute(const FunctionMemory &function, const FunctionMemory::Numbers &numbers) {
    const FunctionMemory *before =
        report.baseline ? findFunction(report.baseline->step, function.name()) : nullptr;
    if (!before)
      return;
    FailureOr<FunctionMemory::Numbers> old = before->evaluate(report.baseline->sizes);
    if (failed(old))
      return;
    out << "  recompute: activations " << formatBytes(numbers.arena.planned) << " instead of "
        << formatBytes(old->arena.planned) << ", " << function.commands() << " commands instead of "
        << before->commands() << "; no longer kept are\n";
    const std::vector<PeakBuffer> freed = noLongerKept(function, *before, *old);
    for (const PeakBuffer &buffer : ArrayRef(freed).take_front(kBuffers))
      out << llvm::right_justify(formatBytes(buffer.bytes), 14) << "  " << buffer.node << "  "
          << buffer.life->bytes.str() << "\n";
  }

  /// One line for each amount of memory.
  void printLargest() {
    out << "\nlargest batch";
    if (report.batch.empty()) {
      out << ": the batch is fixed\n";
      return;
    }
    if (std::string missing = missingSizes(report.sizes, report.batch); !missing.empty()) {
      out << ": " << missing << "\n";
      return;
    }
    if (std::string others = report.sizes.text(report.batch); !others.empty())
      out << ", " << others;
    out << "\n";
    for (auto &[name, bytes, found] : largestBatches(report)) {
      out << "  " << llvm::left_justify(name, 24);
      // Not even the least that the package takes.
      if (!found)
        out << "not even " << std::max<int64_t>(1, report.sizes.min(report.batch));
      else
        out << report.batch << " = " << found;
      if (found && report.sizes.max(report.batch) == found)
        out << ", the most that the package takes";
      out << "\n";
    }
  }

  const MemoryReport &report;
  raw_ostream &out;
};
} // namespace

void trainc::printMemoryText(const MemoryReport &report, raw_ostream &out) {
  TextReport(report, out).print();
}
