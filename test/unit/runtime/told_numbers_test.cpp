// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What of a run's outputs is copied to the host, and read there.

#include "device/cuda/told_numbers.h"

#include "gtest/gtest.h"
#include <cmath>
#include <cstring>

using namespace trainrt;
using trainrt::cuda::ToldNumbers;

namespace {
class ToldNumbersTest : public ::testing::Test {
protected:
  ToldNumbersTest() {
    program.outputs.resize(4);
    program.outputs[1].dtype = DType::F64;
    program.outputs[3].dtype = DType::I32;
    const float loss = 1.5f;
    const double norm = 2.25;
    std::memcpy(memory + 64, &loss, sizeof loss);
    std::memcpy(memory + 128, &norm, sizeof norm);
    std::memcpy(memory + 1024, &norm, sizeof norm);
  }
  Device::Result tell(std::vector<ExecutionPlan::Output> outputs, int32_t loss, int32_t norm) {
    ExecutionPlan plan;
    plan.outputs = std::move(outputs);
    ToldNumbers told;
    told.locate(plan, program, loss, norm);
    ToldNumbers::Room room;
    copies = 0;
    EXPECT_TRUE(told.fetch(room,
                           [&](unsigned char *to, int64_t offset, size_t bytes) {
                             EXPECT_LE(to + bytes, room + sizeof room);
                             std::memcpy(to, memory + offset, bytes);
                             ++copies;
                             return Status();
                           })
                    .ok());
    Device::Result result;
    told.read(room, result);
    return result;
  }
  Program program;
  unsigned char memory[2048] = {};
  int copies = 0;
};
} // namespace

TEST_F(ToldNumbersTest, OneCopyOfNeighbours) {
  for (bool reversed : {false, true}) {
    std::vector<ExecutionPlan::Output> outputs = {{0, {}, 4, 64}, {1, {}, 8, 128}};
    if (reversed)
      std::swap(outputs[0], outputs[1]);
    Device::Result result = tell(outputs, 0, 1);
    EXPECT_EQ(result.loss, 1.5);
    EXPECT_EQ(result.gradNorm, 2.25);
    EXPECT_EQ(copies, 1);
  }
}

TEST_F(ToldNumbersTest, FarApartTwo) {
  Device::Result result = tell({{0, {}, 4, 64}, {2, {512}, 512, 128}, {1, {}, 8, 1024}}, 0, 1);
  EXPECT_EQ(result.loss, 1.5);
  EXPECT_EQ(result.gradNorm, 2.25);
  EXPECT_EQ(copies, 2);
}

TEST_F(ToldNumbersTest, OneOrNone) {
  Device::Result result = tell({{0, {}, 4, 64}}, 0, -1);
  EXPECT_EQ(result.loss, 1.5);
  EXPECT_TRUE(std::isnan(result.gradNorm));
  result = tell({{1, {}, 8, 128}}, 0, 1);
  EXPECT_TRUE(std::isnan(result.loss));
  EXPECT_EQ(result.gradNorm, 2.25);
  EXPECT_EQ(copies, 1);
  // An empty one, and integers, are no numbers of these.
  result = tell({{0, {0}, 0, 64}, {3, {}, 4, 128}}, 0, 3);
  EXPECT_TRUE(std::isnan(result.loss) && std::isnan(result.gradNorm));
  EXPECT_EQ(copies, 0);
}
