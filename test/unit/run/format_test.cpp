// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Numbers in the log: precise, and JSON even when they are not numbers.
#include "cli/format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

using namespace trainrt::run;

namespace {

TEST(Format, PreciseLosesNothing) {
  std::mt19937 random(1);
  std::normal_distribution<double> normal(0, 3);
  for (int i = 0; i < 1000; ++i) {
    double wide = normal(random);
    float narrow = float(wide);
    EXPECT_EQ(parseNumber(precise(wide)), wide);
    EXPECT_EQ(float(*parseNumber(precise(double(narrow)))), narrow);
  }
  EXPECT_EQ(precise(double(2.302585f)), "2.30258489");
  EXPECT_EQ(precise(0.5), "0.5");
}

TEST(Format, LossInJson) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_EQ(jsonLoss("loss", 0.25), ",\"loss\":0.25");
  EXPECT_EQ(jsonLoss("loss", std::nan("")), ",\"loss\":null,\"nonfinite\":\"nan\"");
  EXPECT_EQ(jsonLoss("loss", inf), ",\"loss\":null,\"nonfinite\":\"inf\"");
  EXPECT_EQ(jsonLoss("loss", -inf), ",\"loss\":null,\"nonfinite\":\"-inf\"");
}

TEST(Format, JsonStrings) {
  EXPECT_EQ(jsonString("a\"b\\\n"), "\"a\\\"b\\\\\\n\"");
  EXPECT_EQ(jsonString("\xff"), "\"\\ufffd\"");
  EXPECT_EQ(jsonString("\u65e5"), "\"\u65e5\"");
  // C1 controls and what turns the direction of text around.
  EXPECT_EQ(jsonString("\u009b2J"), "\"\\u009b2J\"");
  EXPECT_EQ(jsonString("\u65e5\u202e"), "\"\\u65e5\\u202e\"");
}

TEST(Format, ForPeople) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1000), "1,000");
  EXPECT_EQ(grouped(-1234567), "-1,234,567");
  EXPECT_EQ(byteSize(0), "0 B");
  EXPECT_EQ(byteSize(1536), "1.5 KiB");
  EXPECT_EQ(byteSize(uint64_t(3) << 30), "3.0 GiB");
  EXPECT_EQ(duration(0), "0:00");
  EXPECT_EQ(duration(61.2), "1:02");
  EXPECT_EQ(duration(3723), "1:02:03");
  EXPECT_EQ(duration(std::nan("")), "?");
}

TEST(Format, Parsing) {
  EXPECT_EQ(parseInteger("12"), 12);
  EXPECT_EQ(parseInteger("12x"), std::nullopt);
  EXPECT_EQ(parseInteger(""), std::nullopt);
  EXPECT_EQ(parseInteger("99999999999999999999"), std::nullopt);
  EXPECT_EQ(parseNumber("1e-3"), 1e-3);
  EXPECT_EQ(parseNumber("1e-3 "), std::nullopt);
  EXPECT_EQ(split("a,,b", ','), (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
}

} // namespace
