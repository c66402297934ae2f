// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which commands of a function may run beside the others: what reads and writes what, which
// commands are not on the way to the last result (gradients of weights, mostly), and what must be
// done before a command begins when there are several lanes of them.
#ifndef TRAINRT_PLAN_OVERLAP_H
#define TRAINRT_PLAN_OVERLAP_H

#include "format/program.h"

#include <map>
#include <vector>

namespace trainrt {

/// One a command: whether it can be late by several commands without delaying the last one, so
/// that it belongs on the second lane. Copies between device and host have a lane of their own.
/// Depends on the function only.
std::vector<bool> findAside(const Function &function);

/// Order of commands that touch the same bytes: all commands are told in program order.
class MemoryOrder {
public:
  struct Range {
    uint64_t begin, end;
  };
  /// Calls `fn(earlier)` for commands that must be done before the next one; some several times.
  template <typename Fn>
  void add(const std::vector<Range> &reads, const std::vector<Range> &writes, const Fn &fn) {
    for (const Range &range : reads)
      visit(range, [&](Segment &segment) {
        if (segment.writer >= 0)
          fn(segment.writer);
        if (segment.readers.empty() || segment.readers.back() != next)
          segment.readers.push_back(next);
      });
    for (const Range &range : writes) {
      visit(range, [&](Segment &segment) {
        if (segment.writer >= 0 && segment.writer != next)
          fn(segment.writer);
        for (int32_t reader : segment.readers)
          if (reader != next)
            fn(reader);
      });
      if (range.begin < range.end) {
        segments.erase(segments.find(range.begin), segments.lower_bound(range.end));
        segments[range.begin] = {range.end, next, {}};
      }
    }
    ++next;
  }

private:
  struct Segment {
    uint64_t end;
    int32_t writer;
    std::vector<int32_t> readers;
  };
  /// Cuts the segment that `at` lies in.
  void cut(uint64_t at);
  /// Calls `fn` for the segments that make up `range`, made where there are none.
  template <typename Fn> void visit(const Range &range, const Fn &fn) {
    if (range.begin >= range.end)
      return;
    cut(range.begin);
    cut(range.end);
    uint64_t at = range.begin;
    while (at < range.end) {
      auto it = segments.lower_bound(at);
      if (it == segments.end() || it->first != at) {
        uint64_t end = it == segments.end() ? range.end : std::min(range.end, it->first);
        it = segments.emplace_hint(it, at, Segment{end, -1, {}});
      }
      fn(it->second);
      at = it->second.end;
    }
  }

  std::map<uint64_t, Segment> segments;
  int32_t next = 0;
};

} // namespace trainrt

#endif // TRAINRT_PLAN_OVERLAP_H
