// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The text of choices, and packages that carry it.

#include "plan/tuning.h"
#include "format/signature.h"
#include "plan/package.h"

#include <algorithm>
#include <cstdio>

namespace trainrt {

namespace {
constexpr std::string_view separator = " = ";
} // namespace

/// Lines of "key = choice" below the name of a machine. Untrusted text: every line must be one of
/// both, and none twice.
Status readTuning(std::string_view text, Tuning &tuning) {
  Choices *table = nullptr;
  for (size_t number = 1, begin = 0; begin < text.size(); ++number) {
    const size_t end = text.find('\n', begin);
    auto bad = [&](const char *why) { return fail(Code::BadData, "line ", number, ": ", why); };
    // A file that was cut off.
    if (end == std::string_view::npos)
      return bad("its end is missing");
    const std::string_view line = text.substr(begin, end - begin);
    begin = end + 1;
    // Machines' names have no " = ".
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
  // A map's order: the same choices, the same bytes.
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

/// The tuned package is the package with the choices behind it. A signature is left out: it is of
/// other bytes.
Status writeTuned(const Package &package, const Tuning &choices, const std::string &path) {
  // Choices of other machines, and of other calls, stay.
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

} // namespace trainrt
