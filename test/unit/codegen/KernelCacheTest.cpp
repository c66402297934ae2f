// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trainc/Codegen/KernelCache.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

namespace fs = std::filesystem;
using trainc::codegen::KernelCache;

namespace {

class KernelCacheTest : public testing::Test {
protected:
  void SetUp() override {
    folder = fs::temp_directory_path() / ("trainc-cache-" + std::to_string(getpid()));
    fs::create_directories(folder);
  }
  void TearDown() override { fs::remove_all(folder); }

  /// Times that the code had to be made.
  int get(KernelCache &cache, const std::string &source, size_t size = 200) {
    int made = 0;
    std::vector<char> code = cache.get({"object", source}, [&] {
      ++made;
      return std::vector<char>(size, source[0]);
    });
    EXPECT_EQ(code, std::vector<char>(size, source[0]));
    return made;
  }

  fs::path folder;
};

} // namespace

TEST_F(KernelCacheTest, FindsWhatAnotherKept) {
  KernelCache one(folder.string()), other(folder.string());
  EXPECT_EQ(get(one, "a"), 1);
  EXPECT_EQ(get(other, "a"), 0);
  EXPECT_EQ(get(other, "b"), 1);
  EXPECT_EQ(other.getHitRate(), 0.5);
}

TEST_F(KernelCacheTest, TellsPartsApart) {
  KernelCache cache(folder.string());
  auto make = [](char c) { return [c] { return std::vector<char>(1, c); }; };
  EXPECT_EQ(cache.get({"ab", "c"}, make('x')).front(), 'x');
  EXPECT_EQ(cache.get({"a", "bc"}, make('y')).front(), 'y');
}

TEST_F(KernelCacheTest, KeepsNoFailure) {
  KernelCache cache(folder.string());
  EXPECT_TRUE(cache.get({"a"}, [] { return std::vector<char>(); }).empty());
  EXPECT_EQ(cache.get({"a"}, [] { return std::vector<char>(3, 'x'); }).size(), 3u);
}

TEST_F(KernelCacheTest, StaysBelowItsLimit) {
  std::ofstream(folder / "notes.txt") << std::string(2000, 'n');
  {
    KernelCache cache(folder.string(), /*limit=*/1000);
    for (char c = 'a'; c < 'k'; ++c)
      get(cache, std::string(1, c));
  }
  uintmax_t size = 0;
  for (const fs::directory_entry &entry : fs::directory_iterator(folder))
    if (entry.path().filename() != "notes.txt")
      size += entry.file_size();
  EXPECT_GT(size, 0u);
  EXPECT_LE(size, 750u);
  EXPECT_EQ(fs::file_size(folder / "notes.txt"), 2000u);
}
