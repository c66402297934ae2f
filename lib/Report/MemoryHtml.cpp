// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report as a page: a curve for each function, with the buffers behind its peak.

#include "trainc/Report/StepTime.h"
#include "llvm/Support/Format.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

namespace {
/// Sizes of the page; rows of its tables.
constexpr int kWidth = 1000, kHeight = 240, kBuffers = 50;
/// Names of nodes appear where the mouse is, for as many parts of the curve.
constexpr int kHovers = 1000;

constexpr StringLiteral kStyle = R"(
body { font: 14px/1.45 system-ui, sans-serif; color: #1c2733; max-width: 1040px; margin: 24px auto; padding: 0 16px; }
h1 { font-size: 20px; } h2 { font-size: 16px; margin-top: 32px; }
table { border-collapse: collapse; margin: 8px 0 16px; } td, th { padding: 2px 14px 2px 0; text-align: left; vertical-align: top; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
code, td.f { font: 12px ui-monospace, monospace; word-break: break-word; }
svg { width: 100%; height: auto; background: #fbfcfd; border: 1px solid #d5dce3; }
.forward { fill: #e8f1fb; } .backward { fill: #fdf1e3; } .update { fill: #eaf6ea; }
.curve { fill: #3a6ea5; fill-opacity: .35; stroke: #3a6ea5; stroke-width: 1.5; }
.before { fill: none; stroke: #b3402a; stroke-width: 1.5; stroke-dasharray: 5 4; }
.peak { stroke: #1c2733; stroke-dasharray: 2 3; } .hover { fill: transparent; } .hover:hover { fill: #1c2733; fill-opacity: .15; }
text { font: 12px system-ui, sans-serif; fill: #1c2733; }
)";

/// Names come from files that anybody may have written.
std::string escape(StringRef text) {
  std::string escaped;
  for (char c : text)
    switch (c) {
    case '&':
      escaped += "&amp;";
      break;
    case '<':
      escaped += "&lt;";
      break;
    case '>':
      escaped += "&gt;";
      break;
    case '"':
      escaped += "&quot;";
      break;
    default:
      escaped += c;
    }
  return escaped;
}

class HtmlReport {
public:
  HtmlReport(const MemoryReport &report, raw_ostream &out) : report(report), out(out) {}

  void print() {
    const std::string title = escape(report.model) + ": memory of " +
                              (report.step.training ? "a training step" : "an evaluation");
    // One page without anything from elsewhere.
    out << "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>" << title
        << "</title><style>" << kStyle << "</style></head><body>\n<h1>" << title << "</h1>\n<p>"
        << report.step.target->name();
    if (std::string text = report.sizes.text(); !text.empty())
      out << ", " << escape(text);
    out << "</p>\n";
    assert(report.step.target && "a report is for a target");
    printCategories();
    printTime();
    for (const FunctionMemory &function : report.step.functions)
      print(function);
    out << "</body></html>\n";
  }

private:
  /// One row each; beside it what it would be without recompute.
  void printCategories() {
    const std::vector<MemoryCategory> list = categoriesOf(report);
    std::vector<MemoryCategory> before;
    out << "<table><tr><th>category</th><th class=\"n\">bytes</th>";
    if (report.baseline) {
      before = categoriesOf(*report.baseline);
      assert(before.size() == list.size() && "the same categories");
      out << "<th class=\"n\">without recompute</th>";
    }
    out << "<th>formula</th></tr>\n";
    for (auto [i, category] : llvm::enumerate(list)) {
      out << "<tr><td>" << escape(category.name) << "</td><td class=\"n\">"
          << formatBytes(category.bytes.value_or(0)) << "</td>";
      if (report.baseline)
        out << "<td class=\"n\">" << formatBytes(before[i].bytes.value_or(0)) << "</td>";
      out << "<td class=\"f\">" << escape(category.formula) << "</td></tr>\n";
    }
    out << "</table>\n";
  }

  void printTime() {
    const std::optional<StepTime> time = estimateStepTime(report);
    if (!time)
      return;
    out << "<table><tr><th>time of a step of " << report.world
        << " ranks</th><th class=\"n\">ms</th></tr>\n";
    for (auto [name, seconds] : {std::pair("computation", time->computing),
                                 {"exchange", time->exchanging},
                                 {"hidden, of the exchange", time->hidden},
                                 {"step", time->seconds()}})
      out << "<tr><td>" << name << "</td><td class=\"n\">" << llvm::format("%.3f", seconds * 1e3)
          << "</td></tr>\n";
    for (const ExchangeTime &exchange : time->waitedFor())
      out << "<tr><td>not hidden: " << escape(describeExchange(exchange)) << "</td><td class=\"n\">"
          << llvm::format("%.3f", exchange.waited * 1e3) << "</td></tr>\n";
    out << "</table>\n<p>" << formatBytes(int64_t(time->sent))
        << " from each rank to others; scaling efficiency "
        << llvm::format("%.1f", time->efficiency() * 100) << " %; to one rank "
        << describeScaling(predictScaling(report)) << "; " << describeModel(report) << "</p>\n";
  }

  /// Everything that is text is escaped here or by the caller.
  void row(StringRef name, int64_t bytes, StringRef formula) {
    out << "<tr><td>" << escape(name) << "</td><td class=\"n\">" << formatBytes(bytes)
        << "</td><td class=\"f\">" << escape(formula) << "</td></tr>\n";
  }

  void print(const FunctionMemory &function) {
    FailureOr<FunctionMemory::Numbers> numbers = function.evaluate(report.sizes);
    // Without sizes there is no curve; without commands no peak.
    if (failed(numbers) || !function.commands())
      return;
    const int32_t peak = numbers->peak;
    out << "<h2>" << escape(function.name());
    if (!function.variantOf().empty())
      out << ", in place of " << escape(function.variantOf()) << " where a batch allows it";
    out << ": " << formatBytes(numbers->arena.planned) << " of activations</h2>\n";
    // The same function without recompute, if both can be evaluated.
    const FunctionMemory *before =
        report.baseline ? findFunction(report.baseline->step, function.name()) : nullptr;
    std::optional<FunctionMemory::Numbers> old;
    if (before)
      if (FailureOr<FunctionMemory::Numbers> value = before->evaluate(report.baseline->sizes);
          succeeded(value) && before->commands())
        old = std::move(*value);
    drawCurve(function, *numbers, old ? &*old : nullptr);
    out << "<p>peak at command " << peak << ", node <code>" << escape(function.node(peak))
        << "</code></p>\n<table><tr><th>at the peak</th><th class=\"n\">bytes</th><th>formula</th>"
        << "</tr>\n";
    // The largest ones first.
    std::vector<PeakBuffer> buffers = buffersAt(function, *numbers, peak);
    int64_t sums[2] = {};
    // Kept or temporary: one of two sums.
    for (const PeakBuffer &buffer : buffers)
      sums[function.isKept(*buffer.life)] += buffer.bytes;
    row("kept for the backward", sums[1], function.formula(peak, true).str());
    row("temporaries", sums[0], function.formula(peak, false).str());
    row("layout", numbers->arena.planned - sums[0] - sums[1], "");
    out << "</table>\n<table><tr><th class=\"n\">bytes</th><th>buffer</th><th>formula</th>"
        << "<th>commands</th><th></th></tr>\n";
    // More would not be read.
    for (const PeakBuffer &buffer : ArrayRef(buffers).take_front(kBuffers))
      out << "<tr><td class=\"n\">" << formatBytes(buffer.bytes) << "</td><td>"
          << escape(buffer.node) << "</td><td class=\"f\">" << escape(buffer.life->bytes.str())
          << "</td><td>" << buffer.life->first << "-" << buffer.life->last << "</td><td>"
          << (function.isKept(*buffer.life) ? "kept" : "") << "</td></tr>\n";
    out << "</table>\n";
    if (buffers.size() > kBuffers)
      out << "<p>and " << buffers.size() - kBuffers << " smaller ones</p>\n";
    // Beside it, what was gained.
    if (old)
      printRecompute(function, *before, *numbers, *old);
  }

  void printRecompute(const FunctionMemory &function, const FunctionMemory &before,
                      const FunctionMemory::Numbers &numbers, const FunctionMemory::Numbers &old) {
    out << "<p>What recompute changed: " << formatBytes(numbers.arena.planned)
        << " of activations instead of " << formatBytes(old.arena.planned) << " (dashed), "
        << function.commands() << " commands instead of " << before.commands()
        << ". No longer kept:</p>\n<table>\n";
    std::vector<PeakBuffer> freed = noLongerKept(function, before, old);
    for (const PeakBuffer &buffer : ArrayRef(freed).take_front(kBuffers))
      row(buffer.node, buffer.bytes, buffer.life->bytes.str());
    out << "</table>\n";
  }

  void drawCurve(const FunctionMemory &function, const FunctionMemory::Numbers &numbers,
                 const FunctionMemory::Numbers *old) {
    // The higher of both curves fills the picture.
    const int32_t count = function.commands();
    int64_t most = std::max<int64_t>(1, numbers.live[numbers.peak]);
    if (old)
      most = std::max(most, old->live[old->peak]);
    assert(count > 0 && "asked by the caller");
    auto x = [&](double command) { return llvm::format("%.2f", command * kWidth / count); };
    auto y = [&](int64_t live) {
      return llvm::format("%.2f", kHeight - double(live) * (kHeight - 20) / double(most));
    };
    out << "<svg viewBox=\"0 0 " << kWidth << " " << kHeight + 24 << "\">\n";
    // Phases as stripes behind the curve.
    const Phases &phases = function.phases();
    struct {
      const char *name;
      int32_t begin, end;
    } parts[] = {{"forward", 0, phases.forwardEnd},
                 {"backward", phases.forwardEnd, phases.backwardEnd},
                 {"update", phases.backwardEnd, count}};
    for (auto &[name, begin, end] : parts) {
      if (begin >= end)
        continue;
      out << "<rect class=\"" << name << "\" x=\"" << x(begin) << "\" y=\"0\" width=\""
          << x(end - begin) << "\" height=\"" << kHeight << "\"/>";
      // Labels only where they have room.
      if ((end - begin) * 12 > count)
        out << "<text x=\"" << x(begin) << "\" y=\"" << kHeight + 17 << "\">" << name << " "
            << begin << "-" << end - 1 << "</text>";
      out << "\n";
    }
    // Bytes are constant during a command.
    auto steps = [&](ArrayRef<int64_t> live, double scale) {
      for (auto [i, bytes] : llvm::enumerate(live))
        out << " " << x(double(i) * scale) << "," << y(bytes) << " " << x(double(i + 1) * scale)
            << "," << y(bytes);
    };
    out << "<polygon class=\"curve\" points=\"0," << kHeight;
    steps(numbers.live, 1);
    out << " " << kWidth << "," << kHeight << "\"/>\n";
    if (old) {
      out << "<polyline class=\"before\" points=\"";
      // Another number of commands, over the same width.
      steps(old->live, double(count) / double(old->live.size()));
      out << "\"/>\n";
    }
    out << "<line class=\"peak\" x1=\"" << x(numbers.peak + 0.5) << "\" x2=\""
        << x(numbers.peak + 0.5) << "\" y1=\"0\" y2=\"" << kHeight << "\"/><text x=\"4\" y=\"14\">"
        << formatBytes(most) << "</text>\n";
    // Commands are grouped where there are too many.
    const int32_t step = (count + kHovers - 1) / kHovers;
    for (int32_t i = 0; i < count; i += step)
      out << "<rect class=\"hover\" x=\"" << x(i) << "\" y=\"0\" width=\"" << x(step)
          << "\" height=\"" << kHeight << "\"><title>command " << i << ", "
          << formatBytes(numbers.live[i]) << ", " << escape(function.node(i))
          << "</title></rect>\n";
    out << "</svg>\n";
  }

  const MemoryReport &report;
  raw_ostream &out;
};
} // namespace

void trainc::printMemoryHtml(const MemoryReport &report, raw_ostream &out) {
  HtmlReport(report, out).print();
}
