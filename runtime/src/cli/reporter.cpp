// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The two reporters. A terminal gets a bar that is redrawn at most ten times a second; a file gets
// a line about every tenth of the way.
#include "cli/reporter.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/status.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace trainrt::run {

namespace {

/// False, with errno set, where the text got lost.
/// Flushed at once: what a run has told is seen, even if it is killed.
bool print(FILE *to, const std::string &text) {
  bool written = std::fwrite(text.data(), 1, text.size(), to) == text.size();
  return std::fflush(to) == 0 && written;
}

/// What both reporters have: the level, and standard output, which may be a full disk or a closed
/// pipe.
class OutputReporter : public Reporter {
public:
  explicit OutputReporter(const ReporterSettings &settings)
      : settings(settings),
        prefix(settings.otherRank ? "[rank " + std::to_string(*settings.otherRank) + "] " : "") {}

  std::string lost() const override { return reason; }
  void warning(const std::string &text) override {
    if (settings.warningsAsErrors) {
      end();
      // The bar is left behind, so the error stands in a line of its own.
      throw Failure(exitInput, text + " (a warning, which --warnings-as-errors makes an error)");
    }
    if (!shows(LogLevel::warning))
      return;
    say("trainc-run: warning: " + text);
    tell("warning", text);
  }
  // A notice is no reason for --warnings-as-errors. Programs get it as a warning.
  void notice(const std::string &text) override {
    if (!shows(LogLevel::info))
      return;
    say("trainc-run: " + text);
    tell("warning", text);
  }
  void debug(const std::string &text) override {
    if (shows(LogLevel::debug))
      say("trainc-run: debug: " + text);
  }

protected:
  bool shows(LogLevel level) const { return level <= settings.level; }
  /// A line on standard error.
  virtual void say(const std::string &text) { print(stderr, marked(shownLines(text) + "\n")); }
  /// The lines of `text`, each with the rank in front.
  std::string marked(const std::string &text) const {
    if (prefix.empty())
      return text;
    std::string result;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size() - 1) + 1;
      result += prefix + text.substr(at, end - at);
      at = end;
    }
    return result;
  }
  bool isFirstRank() const { return prefix.empty(); }
  /// A member of an object that says the rank.
  std::string rankMember() const {
    return settings.otherRank ? "\"rank\":" + std::to_string(*settings.otherRank) + "," : "";
  }
  /// The same for programs.
  virtual void tell(const char *, const std::string &) {}
  /// On standard output. Never throws for a write that fails: see `lost`.
  void output(const std::string &text) {
    if (!settings.speaks)
      return;
    // The first reason stays. The run asks for it between steps and ends in order: a throw in here
    // would leave a step half told.
    if (!print(stdout, text) && reason.empty())
      reason = std::string("cannot write the log to standard output: ") + std::strerror(errno);
  }

private:
  const ReporterSettings settings;
  const std::string prefix;
  std::string reason;
};

/// Each record is one line, an object. What is not known is null.
class JsonReporter : public OutputReporter {
public:
  using OutputReporter::OutputReporter;
  void show(const std::string &, const std::string &) override {}
  void begin(int64_t, int64_t) override {}
  void show(const StepRecord &r) override {
    put("{\"step\":" + std::to_string(r.step) + jsonLoss("loss", r.loss) + ",\"lr\":" +
        (std::isnan(r.lr) ? "null" : shortest(r.lr)) + ",\"step_ms\":" + fixed(r.milliseconds, 3) +
        ",\"samples_per_s\":" + fixed(r.samplesPerSecond, 2) +
        ",\"peak_bytes\":" + std::to_string(r.peakBytes) + number("grad_norm", r.gradNorm) +
        ",\"valid_tokens\":" + (r.tokens < 0 ? "null" : std::to_string(r.tokens)) +
        number("tokens_per_s", r.tokensPerSecond()) + number("mfu", r.peakShare) + "}\n");
  }
  void show(const EvalRecord &r) override {
    put("{\"event\":\"eval\",\"step\":" + std::to_string(r.step) + jsonLoss("loss", r.loss) +
        ",\"samples\":" + std::to_string(r.samples) + ",\"eval_ms\":" + fixed(r.milliseconds, 3) +
        ",\"peak_bytes\":" + std::to_string(r.peakBytes) + ",\"weighted_by\":\"" +
        (r.weighting == EvalRecord::denominator ? "denominator" : "rows") +
        "\",\"exact\":" + (r.weighting == EvalRecord::rowsOnly ? "false" : "true") +
        number("perplexity", r.perplexity()) + number("accuracy", r.accuracy.value_or(NAN)) +
        "}\n");
  }
  void show(const SummaryRecord &r) override {
    put("{\"event\":\"summary\",\"steps\":" + std::to_string(r.steps) +
        ",\"step_ms\":" + fixed(r.milliseconds, 4) +
        ",\"host_us\":" + (r.hostMicroseconds ? fixed(*r.hostMicroseconds, 2) : "null") +
        ",\"peak_bytes\":" + std::to_string(r.peakBytes) + ",\"plans\":" + std::to_string(r.plans) +
        ",\"build_ms\":" + fixed(r.buildMilliseconds, 3) + variants(r) + "}\n");
  }
  void memory(const trainrt_memory &m) override {
    const std::pair<const char *, uint64_t> fields[] = {
        {"total", m.total},     {"parameters", m.parameters},
        {"state", m.state},     {"gradients", m.gradients},
        {"arena", m.arena},     {"arena_lower_bound", m.arena_lower_bound},
        {"inputs", m.inputs},   {"outputs", m.outputs},
        {"scratch", m.scratch}, {"mapped", m.mapped},
        {"driver", m.driver},   {"pinned", m.pinned}};
    std::string text = "{\"event\":\"memory\"";
    for (auto [name, bytes] : fields)
      text += ",\"" + std::string(name) + "\":" + std::to_string(bytes);
    put(text + "}\n");
  }
  void table(const std::string &) override {}
  void lines(const std::string &text) override { output(text); }
  void note(const std::string &) override {}
  void end() override {}

private:
  /// An object, with the rank where it is not the first one's.
  void put(const std::string &object) { output("{" + rankMember() + object.substr(1)); }
  /// Null where it is not known, or too large.
  static std::string number(const char *key, double value) {
    return ",\"" + std::string(key) + "\":" + (std::isfinite(value) ? shortest(value) : "null");
  }
  /// Nothing where the package has no batches to choose variants for.
  static std::string variants(const SummaryRecord &r) {
    if (!r.batches)
      return "";
    std::string reasons;
    for (const std::string &reason : r.declined)
      reasons += (reasons.empty() ? "" : ",") + jsonString(reason);
    return ",\"variant_batches\":" + std::to_string(r.variantBatches) +
           ",\"base_batches\":" + std::to_string(r.batches - r.variantBatches) + ",\"declined\":[" +
           reasons + "]";
  }
  void tell(const char *event, const std::string &text) override {
    put("{\"event\":\"" + std::string(event) + "\",\"message\":" + jsonString(text) + "}\n");
  }
};

/// Results (evaluations, tables) go to standard output, progress to standard error. The bar is the
/// last line of the terminal; what writes another one removes it first.
class TextReporter : public OutputReporter {
public:
  using Clock = std::chrono::steady_clock;
  using OutputReporter::OutputReporter;

  void show(const std::string &name, const std::string &value) override {
    if (!shows(LogLevel::info))
      return;
    say(name + std::string(name.size() < 13 ? 13 - name.size() : 1, ' ') + value);
  }

  void begin(int64_t first, int64_t last) override {
    firstStep = first;
    lastStep = last;
    started = Clock::now();
    nextTenth = 0;
  }

  void show(const StepRecord &r) override {
    if (!shows(LogLevel::info))
      return;
    // Of this run: one that goes on begins at 0 %.
    int64_t done = r.step - firstStep + 1, all = lastStep - firstStep + 1;
    double elapsed = std::chrono::duration<double>(Clock::now() - started).count();
    // The mean of the recent steps: the first ones are slower, and machines change.
    smoothed = done == 1 ? r.samplesPerSecond : 0.9 * smoothed + 0.1 * r.samplesPerSecond;
    // All steps so far count the same, evaluations and checkpoints between them included.
    double left = done > 0 ? elapsed / double(done) * double(all - done) : 0;
    double part = all > 0 ? std::clamp(double(done) / double(all), 0.0, 1.0) : 1;
    std::string text = "step " + std::to_string(r.step) + "/" + std::to_string(lastStep);
    std::string rest =
        "  loss " + (std::isfinite(r.loss) ? fixed(r.loss, 4) : precise(r.loss)) + "  lr " +
        shortNumber(r.lr) + (std::isnan(r.gradNorm) ? "" : "  grad " + fixed(r.gradNorm, 3)) +
        "  " + fixed(smoothed, smoothed < 100 ? 1 : 0) + " samples/s  " +
        (r.tokens < 0 ? "" : grouped(int64_t(r.tokensPerSecond())) + " tokens/s  ") +
        (std::isnan(r.peakShare) ? "" : fixed(r.peakShare * 100, 1) + " % of peak  ") +
        (done < all ? "ETA " + duration(left)
                    : "in " + (elapsed < 60 ? fixed(elapsed, 1) + " s" : duration(elapsed)));
    if (terminal && !shows(LogLevel::debug)) {
      // The last step is always drawn, so the bar ends at 100 %.
      if (done < all && Clock::now() - drawn < std::chrono::milliseconds(100))
        return;
      drawn = Clock::now();
      const int width = 24;
      int filled = int(part * width);
      std::string bar(size_t(filled), '=');
      if (filled < width)
        bar += ">" + std::string(size_t(width - filled - 1), ' ');
      print(stderr, "\r\x1b[K" + text + " [" + bar + "] " + fixed(part * 100, 0) + " %" + rest);
      barShown = true;
      return;
    }
    // Steps may jump over several tenths: the next one counts from here.
    int64_t tenth = int64_t(part * 10);
    if (shows(LogLevel::debug) || done == 1 || tenth >= nextTenth || done == all) {
      nextTenth = tenth + 1;
      print(stderr, marked(text + " (" + fixed(part * 100, 0) + " %)" + rest + "\n"));
    }
  }

  void show(const EvalRecord &r) override {
    put("evaluation after step " + std::to_string(r.step) + ": loss " +
        (std::isfinite(r.loss) ? fixed(r.loss, 6) : precise(r.loss)) + " over " +
        grouped(r.samples) + " samples in " + fixed(r.milliseconds / 1000, 2) + " s" +
        (r.isCrossEntropy ? ", perplexity " + shortNumber(r.perplexity(), 6) : "") +
        (r.accuracy ? ", accuracy " + fixed(*r.accuracy * 100, 2) + " % of " + grouped(r.labels) +
                          " labels"
                    : "") +
        (r.weighting == EvalRecord::rowsOnly
             ? ", batches weighted by rows (the loss is no quotient of sums over rows, so that "
               "it depends on the batches)"
             : "") +
        "\n");
  }

  void show(const SummaryRecord &r) override {
    show("summary",
         grouped(r.steps) + (r.steps == 1 ? " step" : " steps") + ", median " +
             fixed(r.milliseconds, 3) + " ms a step" +
             (r.hostMicroseconds ? " (" + fixed(*r.hostMicroseconds, 1) + " us of it on the host)"
                                 : "") +
             ", peak memory " + byteSize(r.peakBytes) + ", " + grouped(int64_t(r.plans)) +
             (r.plans == 1 ? " plan" : " plans") + " made in " +
             fixed(r.buildMilliseconds / 1000, 2) + " s");
    if (r.batches)
      show("variants", grouped(int64_t(r.variantBatches)) + " of " + grouped(int64_t(r.batches)) +
                           " batches were run by a quicker variant");
    for (const std::string &reason : r.declined)
      show("", reason);
  }
  void memory(const trainrt_memory &m) override {
    put("memory held  " + byteSize(m.total) + ": parameters " + byteSize(m.parameters) +
        ", optimizer state " + byteSize(m.state) + ", gradients " + byteSize(m.gradients) +
        ", activations " + byteSize(m.arena) + " (at least " + byteSize(m.arena_lower_bound) +
        "), inputs " + byteSize(m.inputs) + ", outputs " + byteSize(m.outputs) + ", scratch " +
        byteSize(m.scratch) + (m.driver ? ", driver " + byteSize(m.driver) : "") + "; mapped " +
        byteSize(m.mapped) + (m.pinned ? "; pinned on the host " + byteSize(m.pinned) : "") + "\n");
  }

  void table(const std::string &text) override { put(text); }
  void lines(const std::string &text) override { put(text); }
  void note(const std::string &text) override {
    if (shows(LogLevel::info))
      say(text);
  }

  void end() override {
    if (barShown)
      print(stderr, "\n");
    barShown = false;
  }

private:
  static std::string shortNumber(double value, int digits = 3) {
    char buffer[32];
    std::snprintf(buffer, sizeof buffer, "%.*g", digits, value);
    return buffer;
  }
  // The next step draws it again.
  void clear() {
    if (barShown)
      print(stderr, "\r\x1b[K");
    barShown = false;
  }
  void say(const std::string &text) override {
    clear();
    OutputReporter::say(text);
  }

  /// What was asked for, on standard output.
  void put(const std::string &text) {
    clear();
    output(marked(text));
  }

  const bool terminal = isFirstRank() && isatty(STDERR_FILENO);
  bool barShown = false;
  int64_t firstStep = 1, lastStep = 0, nextTenth = 0;
  double smoothed = 0;
  Clock::time_point started, drawn;
};

} // namespace

/// Once: both write to the process's own streams.
std::unique_ptr<Reporter> makeReporter(const ReporterSettings &settings) {
  if (settings.json)
    return std::make_unique<JsonReporter>(settings);
  return std::make_unique<TextReporter>(settings);
}

} // namespace trainrt::run
