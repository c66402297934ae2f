// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The density table byte for byte, and its JSON.
#include "cli/density.h"

#include <gtest/gtest.h>

using namespace trainrt::run;

namespace {

TEST(DensityTable, IsOnnxRuntimes) {
  DensityRecord embed, label;
  embed.step = label.step = 60;
  embed.input = "input_ids";
  embed.pad = 1;
  embed.valid = 1442;
  embed.total = 4096;
  embed.validByRow = {50, 81, 35, 11, 29, 36};
  label.step = 61;
  label.isLabel = true;
  label.input = "labels";
  label.pad = -100;
  label.valid = label.total = 32;
  label.validByRow.assign(32, 1);
  EXPECT_EQ(
      densityTable({embed, label}, 1),
      ">>>Valid token/label density (e.g. valid/total) in passing 1 steps:\n"
      "\t| STEP       | INPUT TYPE | INPUT NAME      | PAD IDX    | DENSITY    | VALID TOKENS    "
      "| TOTAL TOKENS    | VALID TOKENS/BATCH |\n"
      "\t| 60         | EMBED      | input_ids       | 1          | 35.21    % | 1442            "
      "| 4096            | [50, 81, 35, 11, 29, 36] |\n"
      "\t| 61         | LABEL      | labels          | -100       | 100.00   % | 32              "
      "| 32              | N/A             |\n"
      "<<<\n");
}

TEST(DensityTable, ShortListsAndLongNamesAndMasks) {
  DensityRecord record;
  record.step = 7;
  record.input = "decoder_input_ids";
  record.mask = "decoder_attention_mask";
  record.valid = 0;
  record.total = 8;
  record.validByRow = {0, 0};
  const std::string table = densityTable({record}, 10);
  EXPECT_EQ(table.substr(0, table.find('\n')),
            ">>>Valid token/label density (e.g. valid/total) in passing 10 steps:");
  EXPECT_NE(
      table.find("\t| 7          | EMBED      | decoder_input_ids | mask       | 0.00     % | "
                 "0               | 8               | [0, 0]          |\n"),
      std::string::npos)
      << table;
}

TEST(DensityJson, OneObjectAnInput) {
  DensityRecord record;
  record.step = 3;
  record.input = "ids \"x\"";
  record.pad = -1;
  record.valid = 3;
  record.total = 8;
  record.validByRow = {1, 2};
  EXPECT_EQ(densityJson(record),
            "{\"event\":\"density\",\"step\":3,\"role\":\"embed\",\"input\":\"ids \\\"x\\\"\","
            "\"pad\":-1,\"density\":0.375,\"valid\":3,\"total\":8,\"valid_per_row\":[1,2]}\n");
  record.isLabel = true;
  record.mask = "m";
  EXPECT_EQ(densityJson(record),
            "{\"event\":\"density\",\"step\":3,\"role\":\"label\",\"input\":\"ids \\\"x\\\"\","
            "\"mask\":\"m\",\"density\":0.375,\"valid\":3,\"total\":8,\"valid_per_row\":[1,2]}\n");
}

} // namespace
