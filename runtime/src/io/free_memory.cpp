// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// /proc/meminfo and the limits of the control groups (version 2, and 1) that the process is in.

#include "io/free_memory.h"

#include <algorithm>
#include <fcntl.h>
#include <sstream>
#include <unistd.h>

namespace trainrt {

namespace {

/// Files of the kernel have no size before they are read; "" where there is none.
std::string readAll(const std::string &path) {
  std::string text;
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0)
    return text;
  char buffer[4096];
  for (ssize_t size; (size = ::read(descriptor, buffer, sizeof buffer)) > 0;)
    text.append(buffer, size_t(size));
  ::close(descriptor);
  // The kernel counts in kB there.
  return text;
}

/// The number behind a word at the beginning of a line; -1 without one.
int64_t numberBehind(const std::string &text, const std::string &word) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string first;
    int64_t number = -1;
    if (words >> first && first == word && words >> number)
      return number;
  }
  return -1;
}

int64_t numberIn(const std::string &path) {
  std::istringstream text(readAll(path));
  int64_t number = -1;
  // No limit is the word "max", which is no number.
  return text >> number ? number : -1; // "max"
}

/// What the group `folder` lets its processes still take; -1: it has no limit.
int64_t leftOf(const std::string &folder, const char *limitName, const char *usedName,
               const char *cacheName) {
  const int64_t limit = numberIn(folder + "/" + limitName);
  const int64_t used = numberIn(folder + "/" + usedName);
  if (limit < 0 || used < 0)
    return -1;
  const int64_t cached = numberBehind(readAll(folder + "/memory.stat"), cacheName);
  // Cached pages of files are counted as used, but given up when memory is asked for.
  return std::max<int64_t>(0, limit - used + std::max<int64_t>(0, cached));
}

} // namespace

/// What the system says is there, or less where a group of the process may not have it; -1 where
/// nothing is known.
int64_t freeHostMemory(const std::string &root) {
  int64_t free = numberBehind(readAll(root + "/proc/meminfo"), "MemAvailable:");
  // kB are KiB here.
  if (free >= 0)
    free *= 1024;
  // The smallest of all limits counts; -1 is none known.
  auto limit = [&](int64_t left) {
    if (left >= 0)
      free = free < 0 ? left : std::min(free, left);
  };
  // "0::/a/b", or "7:memory:/a/b": a limit of any of the groups above holds, too. In a container
  // the path is often one of outside, and its own group lies at the top.
  std::istringstream groups(readAll(root + "/proc/self/cgroup"));
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == line.npos || second == line.npos)
      continue;
    // Version 1 has a line for each controller; version 2's line names none.
    const std::string kind = line.substr(first + 1, second - first - 1);
    if (!kind.empty() && kind != "memory")
      continue;
    std::string path = line.substr(second + 1);
    while (true) {
      if (path == "/")
        path.clear();
      if (kind.empty())
        limit(leftOf(root + "/sys/fs/cgroup" + path, "memory.max", "memory.current",
                     "inactive_file"));
      else
        limit(leftOf(root + "/sys/fs/cgroup/memory" + path, "memory.limit_in_bytes",
                     "memory.usage_in_bytes", "total_inactive_file"));
      if (path.empty())
        break;
      // To the group above; "/a" becomes "", the top.
      path.resize(std::min(path.rfind('/'), path.size() - 1));
    }
  }
  return free;
}

} // namespace trainrt
