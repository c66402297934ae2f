// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What keeps an adapter's configuration from computing what the package does.

#include "export/adapter_config.h"

#include <gtest/gtest.h>

using namespace trainrt;

TEST(AdapterConfig, WhyItDoesNotFit) {
  Lora lora;
  lora.rank = 4;
  lora.alpha = 8;
  auto compare = [&](const std::string &fields) {
    return compareAdapterConfig(lora, "{\"peft_type\": \"LORA\"" + fields + "}");
  };
  const std::string numbers = ", \"r\": 4, \"lora_alpha\": 8";
  EXPECT_EQ(compare(numbers), "");
  EXPECT_EQ(compare(", \"lora_alpha\": 8"), "it has no number r");
  EXPECT_EQ(compare(", \"r\": 4, \"lora_alpha\": \"8\""), "it has no number lora_alpha");
  EXPECT_EQ(compare(numbers + ", \"use_dora\": true"), "the adapter is DoRA, the package is not");
  lora.dora = true;
  EXPECT_EQ(compare(numbers), "the adapter is not DoRA, the package is");
}
