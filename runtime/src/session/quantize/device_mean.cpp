// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// PyTorch's reduction of a contiguous f32 tensor to one element (ATen/native/cuda/Reduce.cuh, as of
// 2.15): up to 512 threads a block, four partial sums a thread, a tree over the threads, and where
// a thread would get 256 or more, several blocks whose sums are reduced in the same way. On its CPU
// the order would depend on the vector unit and the number of threads.
//
// A mean made by an earlier version may differ in its last bit (the tree within a warp was in
// another order). Which GPU it is matters beyond 3.5 million blocks only.

#include "session/quantize/device_mean.h"

#include <algorithm>
#include <cassert>
#include <vector>

namespace trainrt {

namespace {

constexpr int64_t vector = 4, maxWidth = 512;
/// Thread blocks that fill a GPU: 132 processors with 2048 threads each (H100, H200).
constexpr int64_t blocksOfGpu = 132 * (2048 / maxWidth);

/// 1 for anything below 2.
int64_t lastPowerOfTwo(int64_t n) {
  int64_t power = 1;
  while (power * 2 <= n)
    power *= 2;
  return power;
}

/// Halves the threads until one is left.
float tree(std::vector<float> &threads) {
  assert((threads.size() & (threads.size() - 1)) == 0 && "halves are whole");
  for (size_t half = threads.size() / 2; half > 0; half /= 2)
    for (size_t i = 0; i < half; ++i)
      threads[i] += threads[i + half];
  return threads[0];
}

} // namespace

float deviceMean(const float *values, int64_t count) {
  // Below this the reduction reads single elements.
  const bool vectorized = count >= 128;
  const int64_t items = vectorized ? count / vector : count;
  assert(count > 0 && "a mean of nothing is none");
  const int64_t width = items < maxWidth ? lastPowerOfTwo(items) : maxWidth;
  const int64_t perThread = (count + width - 1) / width;
  int64_t blocks = 1;
  // As PyTorch chooses the number of blocks.
  if (perThread >= 256)
    blocks = std::min(std::max(blocksOfGpu, (perThread + 255) / 256), (perThread + 15) / 16);
  const int64_t stride = width * blocks;

  std::vector<float> blockSums, threads;
  for (int64_t block = 0; block < blocks; ++block) {
    threads.assign(size_t(width), 0.0f);
    for (int64_t thread = 0; thread < width; ++thread) {
      float sums[vector] = {};
      int64_t i = block * width + thread;
      // Four sums a thread, each with its own row of elements.
      if (vectorized) {
        for (; i * vector + vector - 1 < count; i += stride)
          for (int64_t lane = 0; lane < vector; ++lane)
            sums[lane] += values[i * vector + lane];
        // What is left over goes to the first block.
        const int64_t tail = count - count % vector + thread;
        if (block == 0 && tail < count)
          sums[0] += values[tail];
      } else {
        for (int64_t lane = 0; i < count; i += stride, lane = (lane + 1) % vector)
          sums[lane] += values[i];
      }
      // From left to right.
      threads[size_t(thread)] = ((sums[0] + sums[1]) + sums[2]) + sums[3];
    }
    blockSums.push_back(tree(threads));
  }
  // Blocks' sums are reduced by one block.
  float sum = blockSums[0];
  if (blocks > 1) {
    threads.assign(size_t(width), 0.0f);
    for (int64_t block = 0; block < blocks; ++block)
      threads[size_t(block % width)] += blockSums[size_t(block)];
    sum = tree(threads);
  }
  // One multiplication with the rounded reciprocal, as PyTorch has it.
  return sum * (1.0f / float(count));
}

} // namespace trainrt
