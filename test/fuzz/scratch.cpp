// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Scratch files lie in the temporary folder: TMPDIR=/dev/shm keeps a fuzzer off the disk.

#include "scratch.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace trainc::fuzz {

namespace {
struct Folder {
  Folder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "fuzz-XXXXXX").string();
    require(mkdtemp(pattern.data()) != nullptr, "a temporary folder");
    path = pattern;
    // The fuzzer ends its process in ways that run no destructor of a static object.
    std::atexit([] { instance().remove(); });
  }
  void remove() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  static Folder &instance() {
    static Folder *folder = new Folder();
    return *folder;
  }
  std::string path;
};
} // namespace

std::string scratchPath(const std::string &name) { return Folder::instance().path + "/" + name; }

std::string writeScratch(const std::string &name, std::string_view bytes) {
  std::string path = scratchPath(name);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), std::streamsize(bytes.size()));
  file.close();
  require(bool(file), "a scratch file");
  return path;
}

std::vector<std::string_view> splitParts(std::string_view input, size_t count) {
  static constexpr std::string_view mark = "\n--part--\n";
  std::vector<std::string_view> parts;
  while (parts.size() + 1 < count) {
    size_t end = input.find(mark);
    parts.push_back(input.substr(0, end));
    input = end == input.npos ? std::string_view() : input.substr(end + mark.size());
  }
  parts.push_back(input);
  return parts;
}

void require(bool holds, const char *what) {
  if (holds)
    return;
  std::fprintf(stderr, "fuzz target: does not hold: %s\n", what);
  std::abort();
}

} // namespace trainc::fuzz
