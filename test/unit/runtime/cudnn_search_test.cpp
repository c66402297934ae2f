// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The newest of several installed cuDNNs is found, by what their files say of their versions.

#include "device/cuda/dnn/cudnn_search.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::cuda;
namespace fs = std::filesystem;

namespace {

class CudnnSearch : public ::testing::Test {
protected:
  void SetUp() override {
    char pattern[] = "/tmp/trainrt-cudnn-XXXXXX";
    folder = mkdtemp(pattern);
    folder = fs::canonical(folder);
  }
  void TearDown() override {
    unsetenv("TRAINRT_CUDA_PATH");
    fs::remove_all(folder);
  }
  /// A file, with the folders that it needs.
  std::string put(const fs::path &path, const std::string &text) {
    fs::create_directories((folder / path).parent_path());
    std::ofstream(folder / path) << text;
    return (folder / path).string();
  }
  std::string putWheel(const fs::path &sitePackages, const std::string &version) {
    put(sitePackages / "nvidia/cudnn/lib/libcudnn_graph.so.9",
        std::string("\x7f"
                    "ELF cudnn_version_ cudnn_version_check\0 ",
                    40) +
            "cudnn_version_" + version + "_56_");
    return put(sitePackages / "nvidia/cudnn/lib/libcudnn.so.9", "no library");
  }
  fs::path folder;
};

TEST_F(CudnnSearch, ReadsVersions) {
  EXPECT_EQ(cudnnVersionAt(putWheel("a", "9_19_0")), 91900);
  EXPECT_EQ(cudnnVersionAt(put("b/libcudnn.so.9", "")), 0);
  put("c/libcudnn.so.9.14.1", "");
  fs::create_symlink("libcudnn.so.9.14.1", folder / "c/libcudnn.so.9");
  EXPECT_EQ(cudnnVersionAt((folder / "c/libcudnn.so.9").string()), 91401);
  EXPECT_EQ(cudnnVersionAt((folder / "none/libcudnn.so.9").string()), 0);
}

TEST_F(CudnnSearch, PrefersTheNewest) {
  std::string old = putWheel("old", "9_14_0"), unknown = put("unknown/libcudnn.so.9", ""),
              latest = putWheel("latest", "9_99_2"), same = putWheel("same", "9_99_2");
  setenv("TRAINRT_CUDA_PATH",
         (unknown.substr(0, unknown.rfind('/')) + ":" + (folder / "old").string() +
          "::" + (folder / "latest").string() + ":" + (folder / "same").string())
             .c_str(),
         1);
  std::vector<FoundCudnn> found = findCudnn();
  ASSERT_GE(found.size(), 4u);
  EXPECT_EQ(found[0].path, latest);
  EXPECT_EQ(found[0].version, 99902);
  EXPECT_EQ(found[1].path, same);
  EXPECT_EQ(found.back().path, unknown); // nothing on the machine is known less well
}

TEST_F(CudnnSearch, NamesWhatCannotBeLoaded) {
  std::string damaged = putWheel("damaged", "9_99_0");
  setenv("TRAINRT_CUDA_PATH", (folder / "damaged").c_str(), 1);
  SharedLibrary library;
  std::string others;
  // A machine may have a cuDNN of its own, which is then taken.
  Status status = loadCudnn(library, others);
  EXPECT_NE(others.find(damaged + " (9.99.0)"), std::string::npos) << others;
  EXPECT_TRUE(status.ok() || status.code() == Code::NotFound);
  EXPECT_NE(library.path, damaged);
}

} // namespace
