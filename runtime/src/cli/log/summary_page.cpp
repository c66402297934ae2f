// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// HTML with two pictures in SVG.
// One file without references to others, so that it can be sent around.
#include "cli/log/summary_page.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/file.h"
#include "format/status.h"

#include <algorithm>
#include <cassert>
#include <filesystem>

namespace trainrt::run {

namespace {

constexpr double width = 860, height = 320, left = 60, bottom = 30, top = 10;

std::string escaped(const std::string &text) {
  std::string result;
  for (char c : shownLines(text))
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : c == '>' ? "&gt;" : std::string(1, c);
  return result;
}

/// As a shell takes it for one word.
/// An apostrophe ends the quotes, stands for itself, and begins them again.
std::string quotedWord(const std::string &word) {
  const std::string plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./,:+@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos)
    return word;
  std::string result = "'";
  for (char c : word)
    result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

std::string row(const std::string &name, const std::string &value) {
  return "<tr><td>" + escaped(name) + "</td><td>" + escaped(value) + "</td></tr>\n";
}

/// Means of neighbours, so that a curve has few points; without what is not finite.
SummaryPage::Points thinned(const SummaryPage::Points &points) {
  constexpr size_t most = 600;
  SummaryPage::Points finite, result;
  for (const auto &point : points)
    if (std::isfinite(point.second))
      finite.push_back(point);
  // With no points, `each` is 0 and the loop does not run.
  const size_t each = (finite.size() + most - 1) / most;
  assert(finite.empty() || (finite.size() + each - 1) / each <= most);
  for (size_t begin = 0; begin < finite.size(); begin += each) {
    const size_t end = std::min(begin + each, finite.size());
    double sum = 0;
    for (size_t i = begin; i < end; ++i)
      sum += finite[i].second;
    result.emplace_back(finite[(begin + end - 1) / 2].first, sum / double(end - begin));
  }
  return result;
}

/// Where values lie in the picture.
struct Scale {
  double firstStep, lastStep, least, most;
  double x(double step) const {
    // Divisors are at least tiny: one step, or a loss that never changes, divides by no zero.
    return left + (step - firstStep) / std::max(lastStep - firstStep, 1.0) * (width - left - 10);
  }
  double y(double value) const {
    return top + (most - value) / std::max(most - least, 1e-12) * (height - top - bottom);
  }
};

std::string label(double x, double y, const char *anchor, const std::string &text) {
  return "<text x=\"" + fixed(x, 1) + "\" y=\"" + fixed(y, 1) + "\" text-anchor=\"" + anchor +
         "\">" + text + "</text>\n";
}

std::string curve(const SummaryPage::Points &points, const Scale &scale, const char *color,
                  bool dots) {
  std::string line = "<polyline fill=\"none\" stroke=\"" + std::string(color) +
                     "\" stroke-width=\"1.5\" points=\"",
              marks;
  for (auto [step, value] : points) {
    const std::string x = fixed(scale.x(double(step)), 1), y = fixed(scale.y(value), 1);
    line += x + "," + y + " ";
    if (dots)
      marks += "<circle cx=\"" + x + "\" cy=\"" + y + "\" r=\"3\" fill=\"" + color + "\"/>\n";
  }
  return line + "\"/>\n" + marks;
}

/// Both curves have one scale, so that they can be compared.
std::string lossPicture(const SummaryPage::Points &trained, const SummaryPage::Points &held) {
  const SummaryPage::Points train = thinned(trained), eval = thinned(held);
  if (train.empty() && eval.empty())
    return "<p>No loss was finite.</p>\n";
  // Bounds begin turned around; there is a point at least, so that all four are set.
  Scale scale{1e18, -1e18, 1e300, -1e300};
  for (const auto *points : {&train, &eval})
    for (auto [step, value] : *points) {
      scale.firstStep = std::min(scale.firstStep, double(step));
      scale.lastStep = std::max(scale.lastStep, double(step));
      scale.least = std::min(scale.least, value);
      scale.most = std::max(scale.most, value);
    }
  std::string svg = "<svg viewBox=\"0 0 860 320\" width=\"860\" height=\"320\">\n";
  for (int i = 0; i <= 4; ++i) {
    const double value = scale.least + (scale.most - scale.least) * i / 4, y = scale.y(value);
    svg += "<line x1=\"60\" x2=\"850\" y1=\"" + fixed(y, 1) + "\" y2=\"" + fixed(y, 1) + "\"/>\n" +
           label(left - 6, y + 4, "end", fixed(value, 3));
  }
  svg += label(left, height - 8, "start", "step " + grouped(int64_t(scale.firstStep))) +
         label(width - 10, height - 8, "end", grouped(int64_t(scale.lastStep)));
  svg += curve(train, scale, "#3366aa", train.size() == 1) + curve(eval, scale, "#cc6622", true);
  return svg + "</svg>\n<p><span style=\"color:#3366aa\">training</span>" +
         (eval.empty() ? "" : ", <span style=\"color:#cc6622\">held-out data</span>") + "</p>\n";
}

/// Widths are shares of the sum of the parts, which need not be what was held at once.
std::string memoryPicture(const trainrt_memory &memory) {
  const std::tuple<const char *, uint64_t, const char *> parts[] = {
      {"parameters", memory.parameters, "#3366aa"},
      {"optimizer state", memory.state, "#66aacc"},
      {"gradients", memory.gradients, "#88bb55"},
      {"activations", memory.arena, "#cc6622"},
      {"inputs and outputs", memory.inputs + memory.outputs, "#bbaa33"},
      {"scratch", memory.scratch, "#999999"},
      {"driver", memory.driver, "#555577"}};
  uint64_t all = 0;
  for (const auto &part : parts)
    all += std::get<1>(part);
  std::string svg = "<svg viewBox=\"0 0 860 40\" width=\"860\" height=\"40\">\n", table;
  double x = 0;
  for (auto [name, bytes, color] : parts) {
    // A part that is 0 is left out, so that `all` is not 0 where it divides.
    if (!bytes)
      continue;
    const double wide = double(bytes) / double(all) * width;
    svg += "<rect x=\"" + fixed(x, 1) + "\" width=\"" + fixed(wide, 1) +
           "\" height=\"40\" fill=\"" + color + "\"><title>" + name + " " + byteSize(bytes) +
           "</title></rect>\n";
    table += "<tr><td><span style=\"color:" + std::string(color) + "\">&#9632;</span> " + name +
             "</td><td>" + byteSize(bytes) + "</td></tr>\n";
    x += wide;
  }
  return svg + "</svg>\n<table>\n" + table + row("most at once", byteSize(memory.total)) +
         "</table>\n";
}

/// By day and by night, as wide as the window.
constexpr char style[] =
    ":root{color-scheme:light dark}"
    "body{font:15px/1.45 system-ui,sans-serif;margin:2em auto;padding:0 1em;max-width:860px;"
    "color:#222}h1{font-size:1.4em}h2{font-size:1.1em;margin-top:1.6em}"
    "svg{max-width:100%;height:auto}svg text{font-size:12px;fill:#555}svg line{stroke:#ddd}"
    "td,th{padding:1px 14px 1px 0;vertical-align:top;text-align:left}"
    "pre{background:#f4f4f4;padding:.8em;white-space:pre-wrap;overflow-wrap:anywhere}"
    "td{overflow-wrap:anywhere}td:first-child{overflow-wrap:normal}"
    "@media(max-width:600px){svg text{font-size:18px}}"
    "@media(prefers-color-scheme:dark){body{background:#161616;color:#ddd}pre{background:#262626}"
    "svg text{fill:#aaa}svg line{stroke:#444}polyline,circle,p span{filter:brightness(1.5)}}";

} // namespace

SummaryPage::SummaryPage(std::string path, const std::vector<std::string> &arguments,
                         Points earlier)
    : path(std::move(path)), losses(std::move(earlier)) {
  std::error_code ignored;
  command = "cd " + quotedWord(std::filesystem::current_path(ignored).string()) + "\ntrainc-run";
  for (const std::string &argument : arguments)
    command += " " + quotedWord(argument);
}

void SummaryPage::fact(const std::string &name, const std::string &value) {
  facts.emplace_back(name, value);
}

/// Of this run; `losses` may begin with those of the run that it goes on from. `fmax` takes the
/// number where the other one is NaN.
void SummaryPage::step(const StepRecord &record) {
  losses.emplace_back(record.step, record.loss);
  last = record;
  ++steps;
  tokens += std::max<int64_t>(record.tokens, 0);
  milliseconds += record.milliseconds;
  bestShare = std::fmax(bestShare, record.peakShare);
}

/// Of this run alone. Times are those of steps, without evaluations and checkpoints.
std::string SummaryPage::results(const std::string &how) const {
  std::string text = "<table>\n" + row("ended", how) + row("steps", grouped(steps));
  if (steps) {
    text += row("last loss", precise(last.loss)) +
            row("time", duration(milliseconds / 1000) + ", " +
                            fixed(milliseconds / double(steps), 2) + " ms a step");
    if (tokens)
      text +=
          row("tokens", grouped(tokens) + ", " +
                            grouped(int64_t(double(tokens) / milliseconds * 1000)) + " a second");
    if (!std::isnan(bestShare))
      text += row("best share of the peak (MFU)", fixed(bestShare * 100, 1) + " %");
  }
  return text + "</table>\n";
}

/// Whole or not at all. May be called where no step was made.
void SummaryPage::write(const trainrt_memory &memory, const std::string &how) const {
  std::string text = "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width\">\n"
                     "<title>trainc-run</title>\n<style>" +
                     std::string(style) + "</style></head><body>\n<h1>A run of trainc</h1>\n" +
                     results(how) + "<h2>Loss</h2>\n";
  Points held;
  std::string table;
  for (const EvalRecord &record : evaluations) {
    held.emplace_back(record.step, record.loss);
    table += "<tr><td>" + grouped(record.step) + "</td><td>" + fixed(record.loss, 6) + "</td><td>" +
             (record.isCrossEntropy ? fixed(record.perplexity(), 3) : "") + "</td><td>" +
             (record.accuracy ? fixed(*record.accuracy * 100, 2) + " %" : "") + "</td></tr>\n";
  }
  text += lossPicture(losses, held);
  if (!table.empty())
    text += "<h2>Held-out data</h2>\n<table>\n<tr><th>step</th><th>loss</th><th>perplexity</th>"
            "<th>accuracy</th></tr>\n" +
            table + "</table>\n";
  text += "<h2>Memory</h2>\n" + memoryPicture(memory) + "<h2>What was run</h2>\n<table>\n";
  for (const auto &[name, value] : facts)
    text += row(name, value);
  text += "</table>\n<p>To repeat it:</p>\n<pre>" + escaped(command) + "</pre>\n</body></html>\n";
  if (Status status = writeFile(path, text); !status.ok())
    throw Failure(exitInput, "--summary: " + status.message());
}

} // namespace trainrt::run
