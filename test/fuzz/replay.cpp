// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs a fuzz target over files and folders of files, without a fuzzer: TARGET FILE|FOLDER...
// Prints how many there were; a crash names the file before it.

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int main(int argc, char **argv) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (int i = 1; i < argc; ++i) {
    if (fs::is_directory(argv[i]))
      std::copy(fs::directory_iterator(argv[i]), {}, std::back_inserter(files));
    else
      files.push_back(argv[i]);
  }
  std::sort(files.begin(), files.end());
  for (const fs::path &path : files) {
    std::printf("%s\n", path.c_str());
    std::fflush(stdout);
    std::ifstream file(path, std::ios::binary);
    if (!file)
      return 1;
    std::string bytes(std::istreambuf_iterator<char>(file), {});
    LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t *>(bytes.data()), bytes.size());
  }
  std::printf("%zu inputs\n", files.size());
  return files.empty() ? 1 : 0;
}
