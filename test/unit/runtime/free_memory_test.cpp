// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is free: the system's number, and the limits of control groups, of which the tightest holds.
// And what is said where there is not enough.

#include "device/memory.h"
#include "io/free_memory.h"
#include "tiny_package.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;
namespace fs = std::filesystem;

namespace {

class FreeMemoryTest : public ::testing::Test {
protected:
  void write(const std::string &path, const std::string &text) {
    fs::create_directories(fs::path(folder / path).parent_path());
    std::ofstream(folder / path) << text;
  }
  int64_t found() { return freeHostMemory(folder / "."); }
  TemporaryFolder folder;
};

} // namespace

TEST_F(FreeMemoryTest, OfTheSystem) {
  EXPECT_EQ(found(), -1);
  write("proc/meminfo", "MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   50 kB\n");
  EXPECT_EQ(found(), 50 * 1024);
  EXPECT_GT(freeHostMemory(), 1 << 20);
}

TEST_F(FreeMemoryTest, OfControlGroups) {
  write("proc/meminfo", "MemAvailable: 50 kB\n");
  write("proc/self/cgroup", "0::/a/b\n");
  const std::string top = "sys/fs/cgroup/";
  write(top + "a/b/memory.max", "max\n");
  write(top + "a/b/memory.current", "7\n");
  EXPECT_EQ(found(), 50 * 1024);
  write(top + "a/memory.max", "20000\n");
  write(top + "a/memory.current", "15000\n");
  EXPECT_EQ(found(), 5000);
  write(top + "a/memory.stat", "anon 100\ninactive_file 3000\nactive_file 9\n");
  EXPECT_EQ(found(), 8000);
  // In a container: the path is one of outside, the group's own files are at the top.
  write("proc/self/cgroup", "0::/elsewhere/c\n");
  EXPECT_EQ(found(), 50 * 1024);
  write(top + "memory.max", "1000\n");
  write(top + "memory.current", "4000\n");
  EXPECT_EQ(found(), 0);
}

TEST_F(FreeMemoryTest, OfControlGroupsOfVersion1) {
  write("proc/meminfo", "MemAvailable: 50 kB\n");
  write("proc/self/cgroup", "3:cpu:/x\n2:memory:/a\n");
  const std::string group = "sys/fs/cgroup/memory/a/memory.";
  write(group + "limit_in_bytes", "9000\n");
  write(group + "usage_in_bytes", "2000\n");
  write(group + "stat", "total_inactive_file 500\n");
  EXPECT_EQ(found(), 7500);
}

TEST(Memory, AdviceForEachPart) {
  const std::pair<const char *, const char *> parts[] = {
      {"parameters", "their size does not depend on the batch: use a smaller model, or a machine"},
      {"optimizer state", "its size does not depend on the batch: train fewer parameters (trainc "
                          "--freeze), or with an optimizer that keeps less"},
      {"gradient accumulators",
       "their size does not depend on the batch: steps of one micro-batch"},
      {"activations", "use a smaller batch"}};
  for (const auto &[part, advice] : parts) {
    Memory memory;
    Status status = memory.allocate({}, int64_t(1) << 60, part, false);
    EXPECT_EQ(status.code(), Code::OutOfMemory);
    EXPECT_EQ(status.message().find("no memory for the " + std::string(part) +
                                    ": 1.0 EiB, the machine has "),
              0u)
        << status.message();
    EXPECT_NE(status.message().find(std::string("; ") + advice), std::string::npos)
        << status.message();
  }
}
