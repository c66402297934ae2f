// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Activations that wait in pinned memory of the host: the numbers are the same whatever order
// the graph's edges leave open, the memory is counted, and only copies may touch it.

#include "cuda_fixture.h"
#include "session/estimate.h"

namespace {

class OffloadTest : public CudaTest {
protected:
  static TinyOptions offloaded() {
    TinyOptions options;
    options.cuda = options.offload = true;
    return options;
  }

  std::string refusal(const TinyOptions &options) {
    writeTinyPackage(folder / "bad.tpk", options);
    std::shared_ptr<const Package> ignored;
    Status status = Package::open(folder / "bad.tpk", ignored);
    EXPECT_EQ(status.code(), Code::BadPackage);
    return status.message();
  }

  /// The numbers of five steps of two shapes.
  std::vector<float> train(const SessionOptions &options) {
    auto session = make(options);
    std::vector<float> numbers;
    for (unsigned i = 0; i < 5; ++i) {
      StepResult result;
      Status status = session->step({TinyBatch(i % 2 ? 16 : 500, i).batch()}, {}, result);
      EXPECT_TRUE(status.ok()) << status.message();
      numbers.push_back(float(result.loss));
    }
    for (float value : values(*session))
      numbers.push_back(value);
    return numbers;
  }
};

TEST_F(OffloadTest, ChangesNoBit) {
  const std::vector<float> plain = train({});
  const int bodies = std::exchange(fake->bodies, 0);
  open(offloaded());
  EXPECT_EQ(train({}), plain);
  EXPECT_EQ(fake->bodies, bodies - 4); // none of two shapes, two graphs each: nothing would overlap
  SessionOptions synchronous;
  synchronous.synchronous = true;
  EXPECT_EQ(train(synchronous), plain);
}

TEST_F(OffloadTest, IsCountedBesideThePeak) {
  open(offloaded());
  MemoryUse plan;
  ASSERT_TRUE(estimateMemory(*package, {300}, 1, 1, plan).ok());
  EXPECT_EQ(plan.pinned, 1280); // 300 floats in blocks of 256 bytes
  auto session = make();
  StepResult result;
  ASSERT_TRUE(session->step({TinyBatch(300).batch()}, {}, result).ok());
  const MemoryUse use = session->memory();
  EXPECT_EQ(use.pinned, plan.pinned);
  EXPECT_EQ(use.total(), use.parameters + use.state + use.gradients + use.arena + use.inputs +
                             use.outputs + use.scratch + use.driver);
  // The other functions move nothing, and a smaller batch needs no more.
  double loss;
  ASSERT_TRUE(session->eval(TinyBatch(400).batch(), false, loss).ok());
  ASSERT_TRUE(session->step({TinyBatch(3).batch()}, {}, result).ok());
  EXPECT_EQ(session->memory().pinned, plan.pinned);
}

TEST_F(OffloadTest, GraphsAreMadeAgainWhereTheBlockGrows) {
  open(offloaded());
  auto session = make();
  StepResult result;
  ASSERT_TRUE(session->step({TinyBatch(16).batch()}, {}, result).ok());
  const int64_t before = session->memory().pinned;
  ASSERT_TRUE(session->step({TinyBatch(500).batch()}, {}, result).ok());
  EXPECT_GT(session->memory().pinned, before);
  const int captures = fake->captures;
  ASSERT_TRUE(session->step({TinyBatch(16).batch()}, {}, result).ok());
  EXPECT_GT(fake->captures, captures);
}

TEST_F(OffloadTest, OnlyCopiesToAndFromTheGpu) {
  TinyOptions options = offloaded();
  options.offloadInKernel = true;
  EXPECT_NE(refusal(options).find("function 'step'.commands[6] uses a buffer on the host, which "
                                  "only copies to and from the GPU may"),
            std::string::npos)
      << refusal(options);
  options = offloaded();
  options.cuda = false;
  EXPECT_NE(refusal(options).find(".space: only programs for cuda move values to the host"),
            std::string::npos)
      << refusal(options);
}

} // namespace
