// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Collecting commands' times, and writing them down.
#include "cli/profile.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/file.h"

#include <algorithm>
#include <tuple>

namespace trainrt::run {

namespace {

/// Runs of a command that are slower because they are the first ones.
constexpr size_t warmUp = 3;
/// Lines of the table.
constexpr size_t mostLines = 50;

std::string cell(const std::string &text, size_t width, bool left = false) {
  const std::string space(text.size() < width ? width - text.size() : 0, ' ');
  return left ? text + space : space + text;
}

} // namespace

/// The session keeps a pointer to this object, which outlives it.
void Profile::attach(trainrt_session_options &settings) {
  settings.command_user = this;
  settings.command_done = [](void *user, const trainrt_command *command) {
    static_cast<Profile *>(user)->add(*command);
  };
}

void Profile::add(const trainrt_command &command) {
  Entry &entry = entries[{command.function, command.index}];
  // All runs of a command have the same nodes, and a name and a shape alike; texts are copied, as
  // they are the session's.
  if (entry.milliseconds.empty()) {
    entry.name = command.name;
    entry.nodes.assign(command.nodes, command.nodes + command.node_count);
    entry.sent = command.sent_bytes;
    entry.kind = command.class_name;
    entry.type = command.type;
    for (size_t i = 0; i < command.shape_count; ++i)
      entry.shape.emplace_back(command.shape_names[i], command.shape[i]);
  }
  entry.allBytes += command.bytes;
  entry.allFlops += command.flops;
  entry.milliseconds.push_back(command.milliseconds);
  entry.waited.push_back(command.waited_milliseconds);
  entry.lastStart = command.start_milliseconds;
  // Exchanges that run beside are told late: a command's number of runs says which one it is of.
  std::vector<double> &runs = ends[command.function];
  runs.resize(std::max(runs.size(), entry.milliseconds.size()));
  double &end = runs[entry.milliseconds.size() - 1];
  end = std::max(end, command.start_milliseconds + command.milliseconds);
}

/// There is one run at least, since an entry is made with it. Of few runs the last one counts, even
/// if it is warm-up.
double Profile::Entry::medianOf(const std::vector<double> &runs) {
  std::vector<double> values(runs.begin() + std::ptrdiff_t(std::min(warmUp, runs.size() - 1)),
                             runs.end());
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// What part of a copy's speed the bytes have; 0 where one of both is not known.
double Profile::ofCopy(double bytes, double milliseconds) const {
  return milliseconds > 0 && copySpeed > 0 ? bytes / (milliseconds * 1e-3) / copySpeed : 0;
}

/// The last run of each command, in microseconds. A function is a thread of the
/// picture: its commands run one after the other.
std::string Profile::trace() const {
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  std::map<std::string, int> threads;
  bool first = true;
  auto event = [&](const std::string &fields) {
    text += (first ? "\n{" : ",\n{") + fields + "}";
    first = false;
  };
  for (const auto &[key, entry] : entries) {
    auto [thread, fresh] = threads.try_emplace(key.first, int(threads.size()));
    const std::string place = "\"pid\":0,\"tid\":" + std::to_string(thread->second);
    if (fresh)
      event("\"ph\":\"M\",\"name\":\"thread_name\"," + place +
            ",\"args\":{\"name\":" + jsonString(key.first) + "}");
    std::string nodes;
    for (const std::string &node : entry.nodes)
      nodes += (nodes.empty() ? "" : ", ") + node;
    event("\"ph\":\"X\",\"name\":" + jsonString(entry.name) + "," + place +
          ",\"ts\":" + fixed(entry.lastStart * 1e3, 3) +
          ",\"dur\":" + fixed(entry.milliseconds.back() * 1e3, 3) + ",\"args\":{\"command\":" +
          std::to_string(key.second) + ",\"bytes\":" + std::to_string(entry.bytes()) +
          ",\"sent_bytes\":" + std::to_string(entry.sent) + ",\"nodes\":" + jsonString(nodes) +
          "}");
  }
  return text + "\n]}\n";
}

/// Commands of a function do not overlap, but for exchanges, of which only counts what the others
/// waited for.
std::vector<Profile::Class> Profile::classes() const {
  std::map<std::pair<std::string, std::string>, Class> sums;
  std::map<std::string, double> totals;
  for (const auto &[key, entry] : entries) {
    Class &sum = sums[{key.first, entry.kind}];
    sum.function = key.first;
    sum.name = entry.kind;
    ++sum.commands;
    sum.ms += entry.own();
    sum.bytes += double(entry.bytes());
    sum.flops += double(entry.flops());
    totals[key.first] += entry.own();
  }
  std::vector<Class> list;
  for (const auto &[key, sum] : sums)
    list.push_back(sum);
  std::sort(list.begin(), list.end(), [](const Class &a, const Class &b) {
    return std::tie(a.function, b.ms, a.name) < std::tie(b.function, a.ms, b.name);
  });
  for (const auto &[function, total] : totals) {
    const auto behind = std::find_if(list.rbegin(), list.rend(), [&](const Class &one) {
                          return one.function == function;
                        }).base();
    const double gaps = Entry::medianOf(ends.at(function)) - total;
    list.insert(behind, {function, "gaps", 0, std::max(gaps, 0.0)});
  }
  return list;
}

/// In the order of functions and their commands, so that files of two runs can be compared line by
/// line.
void Profile::write(const std::string &path) const {
  std::string text;
  for (const auto &[key, entry] : entries) {
    const double ms = entry.median();
    text += "{\"function\":" + jsonString(key.first) +
            ",\"command\":" + std::to_string(key.second) + ",\"name\":" + jsonString(entry.name) +
            ",\"class\":" + jsonString(entry.kind) + ",\"ms\":" + fixed(ms, 6) +
            ",\"runs\":" + std::to_string(entry.milliseconds.size()) +
            ",\"bytes\":" + std::to_string(entry.bytes()) +
            ",\"flops\":" + std::to_string(entry.flops()) +
            ",\"sent_bytes\":" + std::to_string(entry.sent) +
            ",\"of_copy\":" + fixed(ofCopy(double(entry.bytes()), ms), 4) + ",\"nodes\":[";
    for (size_t i = 0; i < entry.nodes.size(); ++i)
      text += (i ? "," : "") + jsonString(entry.nodes[i]);
    if (!entry.shape.empty()) {
      text += "],\"type\":" + jsonString(entry.type) + ",\"shape\":{";
      for (size_t i = 0; i < entry.shape.size(); ++i)
        text += (i ? "," : "") + jsonString(entry.shape[i].first) + ":" +
                std::to_string(entry.shape[i].second);
      text += "}}\n";
      continue;
    }
    text += entry.sent ? "],\"waited_ms\":" + fixed(entry.own(), 6) + "}\n" : "]}\n";
  }
  std::string sums;
  for (const Class &sum : classes())
    sums += "{\"function\":" + jsonString(sum.function) + ",\"class\":" + jsonString(sum.name) +
            ",\"commands\":" + std::to_string(sum.commands) + ",\"ms\":" + fixed(sum.ms, 6) +
            ",\"bytes\":" + fixed(sum.bytes, 0) + ",\"flops\":" + fixed(sum.flops, 0) + "}\n";
  for (const auto &[name, content] :
       {std::pair(path, text), {path + ".classes.json", sums}, {path + ".trace.json", trace()}})
    if (Status status = writeFile(name, content); !status.ok())
      throw Failure(exitInput, status.message());
}

std::string Profile::classTable() const {
  size_t width = 10;
  std::map<std::string, double> totals;
  const std::vector<Class> list = classes();
  for (const Class &sum : list) {
    width = std::max(width, sum.function.size() + 2);
    totals[sum.function] += sum.ms;
  }
  std::string text = cell("function", width, true) + cell("class", 13, true) + cell("commands", 9) +
                     cell("ms", 11) + cell("%", 6) + cell("MB", 11) + cell("of copy", 9) +
                     cell("GFLOP", 11) + cell("TFLOP/s", 9) + "\n";
  for (const Class &sum : list)
    text += cell(sum.function, width, true) + cell(sum.name, 13, true) +
            cell(std::to_string(sum.commands), 9) + cell(fixed(sum.ms, 4), 11) +
            cell(fixed(100 * sum.ms / std::max(totals[sum.function], 1e-12), 1), 6) +
            cell(fixed(sum.bytes / 1e6, 2), 11) + cell(fixed(ofCopy(sum.bytes, sum.ms), 2), 9) +
            cell(fixed(sum.flops / 1e9, 2), 11) +
            cell(fixed(sum.flops / 1e9 / std::max(sum.ms, 1e-12), 2), 9) + "\n";
  return text;
}

/// Commands of one name are one line of a function: medians are added, as all of them run in one
/// call.
std::string Profile::table() const {
  struct Line {
    std::string function, name;
    std::vector<std::string> nodes;
    size_t launches = 0;
    double ms = 0, own = 0, bytes = 0, sent = 0;
  };
  std::map<std::pair<std::string, std::string>, Line> lines;
  std::map<std::string, double> totals;
  for (const auto &[key, entry] : entries) {
    Line &line = lines[{key.first, entry.name}];
    line.function = key.first;
    line.name = entry.name;
    for (const std::string &node : entry.nodes)
      if (std::find(line.nodes.begin(), line.nodes.end(), node) == line.nodes.end())
        line.nodes.push_back(node);
    const double ms = entry.median();
    ++line.launches;
    line.ms += ms;
    line.own += entry.own();
    line.bytes += double(entry.bytes());
    line.sent += double(entry.sent);
    totals[key.first] += entry.own();
  }
  std::vector<const Line *> sorted;
  size_t functionWidth = 10, width = 6;
  for (const auto &[key, line] : lines) {
    sorted.push_back(&line);
    functionWidth = std::max(functionWidth, line.function.size() + 2);
    width = std::max(width, line.name.size());
  }
  // The slowest first. Names decide between equals, so that the order is always the same.
  std::sort(sorted.begin(), sorted.end(), [](const Line *a, const Line *b) {
    return std::tie(b->ms, a->function, a->name) < std::tie(a->ms, b->function, b->name);
  });
  std::string text = "copy speed " + fixed(copySpeed / 1e9, 1) + " GB/s\n" +
                     cell("function", functionWidth, true) + cell("command", width + 2, true) +
                     cell("runs", 5) + cell("ms", 11) + cell("%", 6) + cell("MB", 11) +
                     cell("of copy", 9) + "  nodes\n";
  for (size_t i = 0; i < sorted.size() && i < mostLines; ++i) {
    const Line &line = *sorted[i];
    std::string nodes;
    for (size_t node = 0; node < line.nodes.size() && node < 2; ++node)
      nodes += (node ? ", " : "") + line.nodes[node];
    if (line.nodes.size() > 2)
      nodes += ", and " + std::to_string(line.nodes.size() - 2) + " more";
    text += cell(line.function, functionWidth, true) + cell(line.name, width + 2, true) +
            cell(std::to_string(line.launches), 5) + cell(fixed(line.ms, 4), 11) +
            cell(fixed(100 * line.own / std::max(totals[line.function], 1e-12), 1), 6) +
            cell(fixed(line.bytes / 1e6, 2), 11) + cell(fixed(ofCopy(line.bytes, line.ms), 2), 9) +
            "  " + nodes + "\n";
  }
  if (sorted.size() > mostLines)
    text += "and " + std::to_string(sorted.size() - mostLines) + " more\n";
  text += classTable();
  // What ranks do together has two bandwidths: of memory, above, and of the link.
  for (const Line *line : sorted)
    if (line->sent > 0)
      text += line->function + ": " + line->name + " sends " + fixed(line->sent / 1e6, 2) +
              " MB to other ranks, " + fixed(line->sent / 1e6 / std::max(line->ms, 1e-12), 2) +
              " GB/s; " + fixed(line->own, 4) + " of its " + fixed(line->ms, 4) +
              " ms were waited for\n";
  for (const auto &[function, ms] : totals)
    text += "all of " + function + ": " + fixed(ms, 4) + " ms\n";
  return text;
}

} // namespace trainrt::run
