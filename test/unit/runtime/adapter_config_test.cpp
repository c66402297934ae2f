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

TEST(AdapterConfig, HeadsAreSavedWhole) {
  Lora lora;
  lora.modulesToSave = {"classifier.dense.weight", "classifier.dense.bias",
                        "classifier.out.weight"};
  auto saved = [&](std::vector<std::string> more) {
    std::vector<std::string> weights = lora.modulesToSave;
    weights.insert(weights.end(), more.begin(), more.end());
    std::string text;
    EXPECT_TRUE(writeAdapterConfig(lora, {}, weights, text).ok());
    const size_t begin = text.find("\"modules_to_save\": ");
    text = text.substr(begin + 19, text.find(']', begin) - begin - 18);
    std::erase_if(text, [](char c) { return c == '\n' || c == ' '; });
    return text;
  };
  EXPECT_EQ(saved({"body.weight"}), "[\"classifier\"]");
  // A part that is not trained stays the base's.
  EXPECT_EQ(saved({"classifier.norm.weight"}), "[\"classifier.dense\",\"classifier.out\"]");
  lora.modulesToSave = {"body.layers.0.norm.weight", "lm_head.weight"};
  EXPECT_EQ(saved({"body.layers.0.mlp.weight"}), "[\"body.layers.0.norm\",\"lm_head\"]");
  // A list is no module that could be saved.
  lora.modulesToSave = {"layers.0.weight", "layers.1.weight"};
  EXPECT_EQ(saved({"body.weight"}), "[\"layers.0\",\"layers.1\"]");
}
