// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// TensorBoard's records by their bytes, and numbers as elements of any type.
#include "cli/data/row_values.h"
#include "cli/log/event_file.h"

#include <gtest/gtest.h>

#include <cstring>

using namespace trainrt::run;

namespace {

TEST(EventFile, ChecksumsAreThoseOfCastagnoli) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);
}

TEST(EventFile, RecordsHaveLengthsAndMaskedChecksums) {
  const std::string record = eventRecord("abc");
  ASSERT_EQ(record.size(), 8u + 4 + 3 + 4);
  EXPECT_EQ(record.substr(0, 8), std::string("\3\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(record.substr(12, 3), "abc");
  uint32_t masked;
  std::memcpy(&masked, record.data() + 15, sizeof masked);
  const uint32_t crc = crc32c("abc");
  EXPECT_EQ(masked, ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

TEST(EventFile, ScalarsAreSummaries) {
  const std::string event = scalarEvent(1.0, 300, {{"a", 0.5}});
  EXPECT_EQ(event, std::string("\x09\0\0\0\0\0\0\xf0\x3f"
                               "\x10\xac\x02"
                               "\x2a\x0a\x0a\x08\x0a\x01"
                               "a\x15\0\0\0\x3f",
                               24));
}

TEST(RowValues, WhatElementsCanBe) {
  EXPECT_TRUE(canBe(TRAINRT_I8, int64_t(-100)));
  EXPECT_FALSE(canBe(TRAINRT_I8, int64_t(200)));
  EXPECT_FALSE(canBe(TRAINRT_U8, int64_t(-1)));
  EXPECT_FALSE(canBe(TRAINRT_I64, 0.5));
  EXPECT_TRUE(canBe(TRAINRT_F32, 0.5));
  EXPECT_TRUE(canBe(TRAINRT_BF16, int64_t(1)));
  EXPECT_FALSE(canBe(TRAINRT_F16, int64_t(2)));
  EXPECT_FALSE(canBe(TRAINRT_BOOL, int64_t(2)));
  EXPECT_FALSE(canBe(trainrt_dtype(99), int64_t(0)));
}

TEST(RowValues, FilledWithOnes) {
  char room[16] = {};
  fill(int64_t(1), TRAINRT_F16, 2, room);
  EXPECT_EQ(std::string(room, 5), std::string("\0\x3c\0\x3c\0", 5));
  fill(int64_t(1), TRAINRT_BF16, 1, room);
  EXPECT_EQ(std::string(room, 2), "\x80\x3f");
  fill(int64_t(-2), TRAINRT_I64, 1, room);
  EXPECT_EQ(std::string(room, 8), "\xfe\xff\xff\xff\xff\xff\xff\xff");
  fill(int64_t(1), TRAINRT_BOOL, 0, room);
  EXPECT_EQ(room[0], '\xfe');
}

} // namespace
