// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Parts of an attention and the workspace of each, against what cuDNN 9.19 asked for on an H200.

#include "format/memory/workspace_bounds.h"

#include "gtest/gtest.h"

using namespace trainrt::cuda;

namespace {

AttentionSizes backward(int64_t batch, int64_t heads, int64_t kvHeads, int64_t rows,
                        int64_t columns) {
  return {batch, heads, kvHeads, rows, rows, columns, columns, true, false, false, false};
}

TEST(WorkspaceBounds, WholeAttention) {
  // 16 samples of 12 heads: 397 MB of scores would be over the limit of one part; two are not.
  const AttentionSizes gpt = backward(16, 12, 12, 1024, 64);
  EXPECT_EQ(attentionParts(gpt).batches, 2);
  EXPECT_GE(attentionWorkspaceLimit(backward(4, 32, 8, 1024, 128)), 300000000);
  AttentionSizes dropped = gpt;
  dropped.dropout = true;
  EXPECT_EQ(attentionParts(dropped).batches, 1);
  EXPECT_GE(attentionWorkspaceLimit(dropped), 397000000);
  // The sum of a bias's gradient over the batch is that of one call, which may have some heads.
  AttentionSizes biased = gpt;
  biased.biasGradient = true;
  EXPECT_EQ(attentionParts(biased).batches, 1);
  biased = backward(1, 192, 192, 1024, 64);
  biased.biasGradient = true;
  EXPECT_EQ(attentionParts(biased).heads, 2);
  AttentionSizes forward = gpt;
  forward.backward = false;
  EXPECT_EQ(attentionParts(forward).batches, 1);
}

TEST(WorkspaceBounds, PartsOfBatchThenOfHeads) {
  AttentionParts parts = attentionParts(backward(4, 32, 8, 2048, 128));
  EXPECT_EQ(parts.batches, 4);
  EXPECT_EQ(parts.heads, 1);
  parts = attentionParts(backward(2, 32, 8, 4096, 128));
  EXPECT_EQ(parts.batches, 2);
  EXPECT_EQ(parts.heads, 4);
  // Seven samples are taken one by one: no other number divides them.
  EXPECT_EQ(attentionParts(backward(7, 32, 32, 1024, 64)).batches, 7);
  // A head is the least.
  parts = attentionParts(backward(1, 2, 1, 32768, 128));
  EXPECT_EQ(parts.heads, 1);
}

AttentionSizes segments(int64_t number, int64_t heads, int64_t kvHeads, int64_t longest) {
  AttentionSizes sizes = backward(number, heads, kvHeads, longest, 128);
  sizes.segmented = true;
  return sizes;
}

TEST(WorkspaceBounds, PartsOfSegments) {
  // A micro-batch of an 8B model, packed: a segment at a time.
  AttentionParts parts = attentionParts(segments(4, 32, 8, 2048));
  EXPECT_EQ(parts.batches, 4);
  EXPECT_EQ(parts.batch, 1);
  EXPECT_EQ(parts.heads, 1);
  EXPECT_LT(attentionWorkspaceLimit(segments(4, 32, 8, 2048)), int64_t(310) << 20);
  // Eleven, of which three fit: the last part begins before the one before it ends.
  parts = attentionParts(segments(11, 32, 8, 1024));
  EXPECT_EQ(parts.batches, 3);
  EXPECT_EQ(parts.batch, 4);
  parts = attentionParts(segments(64, 12, 12, 256));
  EXPECT_EQ(parts.batches, 1);
  EXPECT_EQ(parts.batch, 64);
}

TEST(WorkspaceBounds, PartsOfHeadsOfSegments) {
  AttentionParts parts = attentionParts(segments(2, 32, 8, 8192));
  EXPECT_EQ(parts.batches, 2);
  EXPECT_EQ(parts.heads, 8);
  // Statistics of a part begin at 16 bytes: four heads at least, or none would do.
  EXPECT_EQ(attentionParts(segments(1, 16, 16, 8192)).heads, 4);
  EXPECT_EQ(attentionParts(segments(1, 6, 3, 8192)).heads, 1);
  AttentionSizes dropped = segments(4, 32, 8, 2048);
  dropped.dropout = true;
  EXPECT_EQ(attentionParts(dropped).batches, 1);
  EXPECT_EQ(attentionParts(dropped).batch, 4);
}

TEST(WorkspaceBounds, PartsNeedLess) {
  for (int64_t rows : {128, 512, 2048, 8192})
    for (bool segmented : {false, true}) {
      AttentionSizes sizes = backward(8, 32, 8, rows, 128);
      sizes.segmented = segmented;
      EXPECT_LT(attentionWorkspaceLimit(sizes), int64_t(800) << 20) << rows;
    }
}

} // namespace
