// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of choices, packages that carry it, and the steps that a session tunes for.

#include "tuning/tuning.h"
#include "core/package.h"
#include "core/session.h"
#include "io/signature.h"

#include <algorithm>
#include <cstdio>

namespace trainrt {

namespace {
constexpr std::string_view separator = " = ";
} // namespace

Status readTuning(std::string_view text, Tuning &tuning) {
  Choices *table = nullptr;
  for (size_t number = 1, begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    auto bad = [&](const char *why) { return fail(Code::BadData, "line ", number, ": ", why); };
    if (end == std::string_view::npos)
      return bad("its end is missing");
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    const size_t split = line.find(separator);
    if (split == std::string_view::npos) {
      if (line.empty() || tuning.count(std::string(line)))
        return bad(line.empty() ? "it is empty" : "this table is there twice");
      table = &tuning[std::string(line)];
      continue;
    }
    if (!table)
      return bad("a choice outside of a table");
    if (!table
             ->emplace(std::string(line.substr(0, split)),
                       std::string(line.substr(split + separator.size())))
             .second)
      return bad("this choice is there twice");
  }
  return {};
}

std::string writeTuning(const Tuning &tuning) {
  std::string text;
  for (const auto &[machine, choices] : tuning) {
    text += machine + "\n";
    for (const auto &[key, choice] : choices)
      text.append(key).append(separator).append(choice).append("\n");
  }
  return text;
}

std::string describe(const TuningResult::Line &line) {
  char times[120];
  if (!line.candidates)
    std::snprintf(times, sizeof times, "%.2f us, not reached", line.before * 1e6);
  else if (line.changed)
    std::snprintf(times, sizeof times, "%.2f us -> %.2f us, of %zu", line.before * 1e6,
                  line.after * 1e6, line.candidates);
  else
    std::snprintf(times, sizeof times, "%.2f us, the quickest of %zu", line.before * 1e6,
                  line.candidates);
  return std::to_string(line.uses) + " x " + line.what + ": " + times;
}

Status writeTuned(const Package &package, const Tuning &choices, const std::string &path) {
  Tuning merged = package.tuning();
  for (const auto &[machine, table] : choices)
    for (const auto &[key, choice] : table)
      merged[machine][key] = choice;
  const std::string text = writeTuning(merged);
  ZipWriter zip;
  TRAINRT_TRY(zip.create(path));
  for (const ZipEntry &entry : package.zip().entries())
    if (entry.name != tuningEntry && entry.name != signatureEntry)
      TRAINRT_TRY(zip.add(entry.name, package.zip().data(entry), entry.size));
  TRAINRT_TRY(zip.add(tuningEntry, text.data(), text.size()));
  return zip.finish();
}

Status Session::tune(const std::vector<Batch> &batches, double seconds, TuningResult &result) {
  if (batches.empty())
    return fail(Code::InvalidArgument, "tuning needs at least one batch");
  settle();
  const bool fused = batches.size() == 1 && source->step();
  if (!fused && !inference && (!source->micro() || !source->update()))
    return fail(Code::Unsupported, "the package cannot accumulate micro-batches; compile it again");
  const Function &first = inference ? source->program().functions.front()
                          : fused   ? *source->step()
                                    : *source->micro();
  TRAINRT_TRY(prepareAll(first, batches, {}));
  std::vector<const ExecutionPlan *> found;
  auto add = [&](const Function &function, const std::vector<int64_t> &symbols) {
    const ExecutionPlan *plan = nullptr;
    TRAINRT_TRY(prepare(function, symbols, plan));
    if (std::find(found.begin(), found.end(), plan) != found.end())
      return Status();
    // Another one would take the place of the first.
    if (found.size() + 1 == plans.mostPlans())
      return fail(Code::Unsupported, "micro-batches of more than ", plans.mostPlans() - 2,
                  " different shapes cannot be tuned at once; give fewer");
    found.push_back(plan);
    return Status();
  };
  for (size_t i = 0; i < bound.size(); ++i)
    TRAINRT_TRY(add(*selected[i], bound[i].symbols));
  if (!fused)
    TRAINRT_TRY(add(*source->update(), noSymbols));
  outputs.clear();
  return device->tune(found, seconds, result);
}

} // namespace trainrt
