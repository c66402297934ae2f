// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two tables and a file of events.
// Writing never ends a training: what fails after the files are open is said once (`lost`).
#include "cli/log/run_log.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "cli/log/event_file.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace trainrt::run {

namespace {

namespace fs = std::filesystem;

double wallTime() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

[[noreturn]] void fail(const std::string &path) {
  throw Failure(exitInput, "--log-dir: cannot write '" + path + "': " + std::strerror(errno));
}

/// As a cell: nothing where a number is not known.
std::string cell(double value) {
  return std::isnan(value)   ? ""
         : std::isinf(value) ? (value < 0 ? "-inf" : "inf")
                             : shortest(value);
}

} // namespace

RunLog::RunLog(const std::string &folder, int64_t done, Reporter &reporter)
    : folder(folder), reporter(reporter) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error)
    throw Failure(exitInput, "--log-dir: cannot create '" + folder + "': " + error.message());
  steps = openTable("steps.csv",
                    "step,loss,lr,grad_norm,step_ms,samples_per_s,valid_tokens,tokens_per_s,mfu,"
                    "peak_bytes",
                    done);
  evaluations = openTable("evaluations.csv", "step,loss,perplexity,accuracy,samples,eval_ms", done);
  char host[64] = "";
  gethostname(host, sizeof host - 1);
  const std::string path =
      (fs::path(folder) / ("events.out.tfevents." + std::to_string(int64_t(wallTime())) + "." +
                           host + "." + std::to_string(getpid())))
          .string();
  // Opened for appending: viewers take several event files of a folder as one run.
  events.reset(std::fopen(path.c_str(), "ab"));
  if (!events)
    fail(path);
  write(events.get(), eventRecord(versionEvent(wallTime())));
  // Tells viewers to drop what an earlier run wrote about later steps than this begins with.
  write(events.get(), eventRecord(restartEvent(wallTime(), done + 1)));
  flush(true);
}

RunLog::File RunLog::openTable(const std::string &name, const std::string &header, int64_t done) {
  const std::string path = (fs::path(folder) / name).string();
  std::string kept = header + "\n";
  // A resumed run keeps lines up to the step that it goes on from; what came after was not saved in
  // the checkpoint and is trained again.
  if (std::ifstream file(path); done > 0 && file) {
    std::string line;
    std::getline(file, line);
    while (std::getline(file, line)) {
      const std::vector<std::string> cells = split(line, ',');
      const std::optional<int64_t> step = parseInteger(cells[0]);
      // Lines without a second cell are what a write that broke off left.
      if (!step || *step > done || cells.size() < 2)
        continue;
      kept += line + "\n";
      if (name == "steps.csv")
        before.emplace_back(*step, parseNumber(cells[1]).value_or(NAN));
    }
  }
  // The old one stays whole until the new one is there.
  const std::string fresh = path + ".new";
  File file(std::fopen(fresh.c_str(), "wb"));
  // The handle stays open through the rename: it refers to the file, not the name.
  if (!file || std::fwrite(kept.data(), 1, kept.size(), file.get()) != kept.size() ||
      std::fflush(file.get()) != 0 || std::rename(fresh.c_str(), path.c_str()) != 0)
    fail(path);
  return file;
}

void RunLog::write(std::FILE *to, const std::string &text) {
  if (lost || std::fwrite(text.data(), 1, text.size(), to) == text.size())
    return;
  lost = true;
  reporter.warning("--log-dir: cannot write into '" + folder + "': " + std::strerror(errno) +
                   "; the training goes on without it");
}

void RunLog::flush(bool always) {
  const auto now = std::chrono::steady_clock::now();
  // At most once a second, so that short steps do not wait for the disk.
  if (lost || (!always && now - flushed < std::chrono::seconds(1)))
    return;
  flushed = now;
  for (const File *file : {&events, &steps, &evaluations})
    if (std::fflush(file->get()) != 0 && !lost) {
      lost = true;
      reporter.warning("--log-dir: cannot write into '" + folder + "': " + std::strerror(errno) +
                       "; the training goes on without it");
    }
}

/// The same numbers into the table and the events. In a table a column is never left out.
void RunLog::tell(std::FILE *table, int64_t step, const char *group, const Values &values) {
  std::string line = std::to_string(step);
  Values known;
  for (const auto &[name, value] : values) {
    line += "," + cell(value);
    // A loss that is not a number is shown: it is what one looks for. Others that are not known are
    // not.
    if (!std::isnan(value) || name == "loss")
      known.emplace_back(std::string(group) + "/" + name, value);
  }
  write(table, line + "\n");
  write(events.get(), eventRecord(scalarEvent(wallTime(), step, known)));
}

/// Steps may be quick and many: they reach the files now and then.
void RunLog::step(const StepRecord &r) {
  tell(steps.get(), r.step, "train",
       {{"loss", r.loss},
        {"lr", r.lr},
        {"grad_norm", r.gradNorm},
        {"step_ms", r.milliseconds},
        {"samples_per_s", r.samplesPerSecond},
        {"valid_tokens", r.tokens < 0 ? NAN : double(r.tokens)},
        {"tokens_per_s", r.tokensPerSecond()},
        {"mfu", r.peakShare},
        {"peak_bytes", double(r.peakBytes)}});
  flush(false);
}

/// Evaluations are rare and dear: they are in the files at once.
void RunLog::eval(const EvalRecord &r) {
  tell(evaluations.get(), r.step, "eval",
       {{"loss", r.loss},
        {"perplexity", r.perplexity()},
        {"accuracy", r.accuracy.value_or(NAN)},
        {"samples", double(r.samples)},
        {"eval_ms", r.milliseconds}});
  flush(true);
}

} // namespace trainrt::run
