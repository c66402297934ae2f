// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Records of density as text.
// Counts are summed as integers and divided only where they are shown: the summary of many steps is
// exact, and does not depend on how steps were grouped.
#include "cli/density.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "trainrt/data.h"

#include <algorithm>
#include <utility>

namespace trainrt::run {

namespace {

/// 0 of nothing, rather than NaN, which JSON lacks.
double densityOf(const DensityRecord &record) {
  return record.total ? double(record.valid) / double(record.total) : 0;
}

std::string padded(std::string text, size_t width) {
  if (text.size() < width)
    text.append(width - text.size(), ' ');
  return text;
}

std::string row(const std::vector<std::pair<std::string, size_t>> &cells) {
  std::string text = "\t|";
  for (const auto &[cell, width] : cells)
    text += " " + padded(cell, width) + " |";
  return text + "\n";
}

std::string percent(double density) { return padded(fixed(density * 100, 2), 9) + "%"; }

const char *roleOf(const DensityRecord &record) { return record.isLabel ? "LABEL" : "EMBED"; }

std::string padOf(const DensityRecord &record) {
  return record.mask.empty() ? std::to_string(record.pad) : "mask";
}

/// Without the brace at the end: callers add fields of their own.
std::string jsonHead(const char *event, const DensityRecord &record) {
  return std::string("{\"event\":\"") + event + "\",\"step\":" + std::to_string(record.step) +
         ",\"role\":\"" + (record.isLabel ? "label" : "embed") +
         "\",\"input\":" + jsonString(record.input) +
         (record.mask.empty() ? ",\"pad\":" + std::to_string(record.pad)
                              : ",\"mask\":" + jsonString(record.mask)) +
         ",\"density\":" + shortest(densityOf(record)) +
         ",\"valid\":" + std::to_string(record.valid) +
         ",\"total\":" + std::to_string(record.total);
}

std::string joined(const std::vector<int64_t> &numbers, const char *separator) {
  std::string text;
  for (size_t i = 0; i < numbers.size(); ++i)
    text += (i ? separator : "") + std::to_string(numbers[i]);
  return "[" + text + "]";
}

} // namespace

/// Tabs, widths and words are those of ONNX Runtime: programs that read its tables read these.
/// Cells are filled up, never cut.
std::string densityTable(const std::vector<DensityRecord> &records, int64_t steps) {
  std::string text = ">>>Valid token/label density (e.g. valid/total) in passing " +
                     std::to_string(steps) + " steps:\n";
  text += row({{"STEP", 10},
               {"INPUT TYPE", 10},
               {"INPUT NAME", 15},
               {"PAD IDX", 10},
               {"DENSITY", 10},
               {"VALID TOKENS", 15},
               {"TOTAL TOKENS", 15},
               {"VALID TOKENS/BATCH", 15}});
  for (const DensityRecord &record : records)
    text += row({{std::to_string(record.step), 10},
                 {roleOf(record), 10},
                 {record.input, 15},
                 {padOf(record), 10},
                 {percent(densityOf(record)), 10},
                 {std::to_string(record.valid), 15},
                 {std::to_string(record.total), 15},
                 {record.isLabel ? "N/A" : joined(record.validByRow, ", "), 15}});
  return text + "<<<\n";
}

std::string densityJson(const DensityRecord &record) {
  return jsonHead("density", record) + ",\"valid_per_row\":" + joined(record.validByRow, ",") +
         "}\n";
}

DensityLog::DensityLog(const Package &package, int64_t every, bool json)
    : every(every), json(json) {
  // Said before the training begins: a table without rows would look like data without padding.
  if (trainrt_package_token_input_count(package.handle.get()) == 0)
    throw Failure(exitInput, package.path +
                                 ": --density has nothing to count: the package knows of no labels "
                                 "that its loss may ignore and of no padding of token ids; if they "
                                 "are padded without a mask, compile it with trainc --pad-token "
                                 "ID");
}

void DensityLog::attach(trainrt_session_options &settings) {
  settings.density_user = this;
  // Called by the session during a step: records wait in `coming` until the loop takes them, and
  // pointers of the record are good for the call only, so everything is copied.
  settings.density = [](void *user, const trainrt_density *density) {
    DensityRecord record;
    record.step = density->step;
    record.isLabel = density->role == TRAINRT_LABEL;
    record.input = density->input;
    record.mask = density->mask ? density->mask : "";
    record.pad = density->pad;
    record.valid = density->valid;
    record.total = density->total;
    record.validByRow.assign(density->valid_by_row, density->valid_by_row + density->rows);
    static_cast<DensityLog *>(user)->coming.push_back(std::move(record));
  };
}

/// Of the step that was made last; they belong to the caller then.
std::vector<DensityRecord> DensityLog::take() { return std::exchange(coming, {}); }

/// An input may be label and embedding, or have several paddings: all three name a total.
std::string DensityLog::add(std::vector<DensityRecord> step) {
  // Few inputs have counts: a search through all is cheap, and the order of the first step stays.
  for (DensityRecord &record : step) {
    auto at = std::find_if(totals.begin(), totals.end(), [&](const Total &total) {
      return total.all.input == record.input && total.all.isLabel == record.isLabel &&
             total.all.pad == record.pad;
    });
    // The first record of an input begins its totals; it is added below like any other.
    if (at == totals.end()) {
      at = totals.insert(totals.end(), Total{record});
      at->all.validByRow.clear();
      at->all.valid = at->all.total = 0;
    }
    at->all.step = record.step;
    at->all.valid += record.valid;
    at->all.total += record.total;
    at->lowest = std::min(at->lowest, densityOf(record));
    at->highest = std::max(at->highest, densityOf(record));
    untold.push_back(std::move(record));
  }
  ++steps;
  return ++untoldSteps == every ? flush() : "";
}

/// Afterwards nothing is untold.
std::string DensityLog::flush() {
  std::string text;
  if (json)
    for (const DensityRecord &record : untold)
      text += densityJson(record);
  else if (!untold.empty())
    text = densityTable(untold, untoldSteps);
  untold.clear();
  untoldSteps = 0;
  return text;
}

/// Of the whole run, an input a line, in the order of the first step. "" where nothing was counted.
std::string DensityLog::summary() const {
  if (totals.empty())
    return "";
  std::string text;
  if (json) {
    for (const Total &total : totals)
      text += jsonHead("density_summary", total.all) + ",\"steps\":" + std::to_string(steps) +
              ",\"lowest\":" + shortest(total.lowest) + ",\"highest\":" + shortest(total.highest) +
              "}\n";
    return text;
  }
  text = ">>>Valid token/label density in all " + std::to_string(steps) + " steps:\n";
  text += row({{"INPUT TYPE", 10},
               {"INPUT NAME", 15},
               {"PAD IDX", 10},
               {"DENSITY", 10},
               {"LOWEST", 10},
               {"HIGHEST", 10},
               {"VALID TOKENS", 15},
               {"TOTAL TOKENS", 15}});
  for (const Total &total : totals)
    text += row({{roleOf(total.all), 10},
                 {total.all.input, 15},
                 {padOf(total.all), 10},
                 {percent(densityOf(total.all)), 10},
                 {percent(total.lowest), 10},
                 {percent(total.highest), 10},
                 {std::to_string(total.all.valid), 15},
                 {std::to_string(total.all.total), 15}});
  return text + "<<<\n";
}

/// The last steps may be fewer than --density says; they come first.
std::string DensityLog::finish() { return flush() + summary(); }

} // namespace trainrt::run
