// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Blocks of the host's memory.

#include "device/memory.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace trainrt;

namespace {

size_t residentPages(const Memory &memory) {
  const auto page = size_t(sysconf(_SC_PAGESIZE));
  std::vector<unsigned char> pages((size_t(memory.size()) + page - 1) / page);
  EXPECT_EQ(mincore(memory.data(), size_t(memory.size()), pages.data()), 0);
  return size_t(std::count_if(pages.begin(), pages.end(), [](unsigned char c) { return c & 1; }));
}

TEST(MemoryTest, LargeBlocksComeWhenTheyAreTouched) {
  const int64_t size = (int64_t(64) << 20) + 100;
  for (bool zeroed : {true, false}) {
    Memory memory;
    ASSERT_TRUE(memory.allocate({}, size, "optimizer state", zeroed).ok());
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % (2 << 20), 0u);
    EXPECT_EQ(residentPages(memory), 0u);
    memory.data()[size - 1] = 7;
    EXPECT_LE(residentPages(memory), 512u) << "one page, or a huge one";
    EXPECT_EQ(memory.data()[0], 0);
  }
}

TEST(MemoryTest, ZeroedOnesAreZeroWhereOthersWereBefore) {
  // Of all sizes around the one from which blocks are mapped.
  for (int64_t size : {1, 100, (4 << 20) - 1, 4 << 20, (4 << 20) + 4097, 9 << 20})
    for (int i = 0; i < 3; ++i) {
      Memory memory, other;
      ASSERT_TRUE(memory.allocate({}, size, "optimizer state", true).ok());
      ASSERT_TRUE(
          std::all_of(memory.data(), memory.data() + size, [](unsigned char c) { return c == 0; }));
      std::fill_n(memory.data(), size, 0xff);
      other = std::move(memory);
      EXPECT_EQ(memory.data(), nullptr);
      EXPECT_EQ(other.data()[size - 1], 0xff);
    }
}

TEST(MemoryTest, RefusesWhatNoMachineHas) {
  Memory memory;
  Status status = memory.allocate({}, int64_t(1) << 60, "gradient accumulators", true);
  EXPECT_EQ(status.code(), Code::OutOfMemory);
  EXPECT_NE(status.message().find("no memory for the gradient accumulators: 1.0 EiB"),
            std::string::npos)
      << status.message();
}

} // namespace
