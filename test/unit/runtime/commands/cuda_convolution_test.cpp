// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Convolutions in sessions on a GPU, with a driver and a cuDNN that are none: the tiny package's
// gradient, x^T times that of the predictions, is one of a filter of one tap.

#include "cuda_fixture.h"
#include "device/cuda/context.h"
#include "device/cuda/libraries.h"
#include "program_generated.h"

#include <fstream>
#include <iterator>
#include <utility>

namespace {

class CudaConvolutionTest : public CudaTest {
protected:
  void SetUp() override {
    CudaTest::SetUp();
    setenv("TRAINRT_CUDNN_PLUGIN", TRAINRT_FAKE_CUDNN, 1);
    setenv("TRAINRT_CACHE", (folder / "cache").c_str(), 1);
    setenv("FAKE_CUDNN_LOG", (folder / "log").c_str(), 1);
    open(convolutional());
  }
  void TearDown() override {
    for (const char *name :
         {"TRAINRT_CUDNN_PLUGIN", "TRAINRT_CACHE", "FAKE_CUDNN_LOG", "FAKE_CUDNN_REFUSES"})
      unsetenv(name);
    CudaTest::TearDown();
  }

  /// Its "step" with the convolution; `noSamples`: over none of the batch.
  static TinyOptions convolutional(bool noSamples = false) {
    TinyOptions options;
    options.editProgram = [noSamples](fb::ProgramT &program) {
      auto constant = [&](int64_t value) {
        program.exprs.emplace_back(fb::ExprKind::constant, 0, 0, value);
        return uint32_t(program.exprs.size() - 1);
      };
      for (auto &function : program.functions) {
        if (function->name != "step")
          continue;
        fb::CommandT &command = *function->commands[3];
        const std::vector<fb::Operand> launched = command.operands; // x, g_pred, gradient
        const uint32_t batch = command.sizes[3], one = constant(1);
        fb::ConvolutionT convolution;
        convolution.kind = fb::ConvolutionKind::filter;
        convolution.dtype = fb::DType::f32;
        command.op.Set(convolution);
        const uint32_t zero = launched[0].offset();
        command.operands = {{launched[0].buffer(), zero, fb::Access::read},
                            {launched[2].buffer(), zero, fb::Access::write},
                            {launched[1].buffer(), zero, fb::Access::read}};
        command.sizes = {noSamples ? constant(0) : batch,
                         constant(3),
                         one,
                         one,
                         one,
                         one,
                         one,
                         one,
                         one,
                         constant(0)};
        command.kernels.clear();
      }
    };
    return options;
  }
  std::vector<std::string> log() {
    std::ifstream in(folder / "log");
    return {std::istream_iterator<std::string>(in), {}};
  }
};

} // namespace

TEST_F(CudaConvolutionTest, ComputesAndIsStored) {
  auto cpu = makeCpu();
  for (int process = 0; process < 2; ++process) {
    auto gpu = make();
    cpu = makeCpu();
    for (int i = 0; i < 3; ++i) {
      TinyBatch batch(16, unsigned(i));
      StepResult a, b;
      Status status = gpu->step({batch.batch()}, {}, a);
      ASSERT_TRUE(status.ok()) << status.message();
      ASSERT_TRUE(cpu->step({batch.batch()}, {}, b).ok());
      EXPECT_NEAR(a.loss, b.loss, 1e-5);
    }
    expectNear(values(*gpu), values(*cpu));
    EXPECT_EQ(log(), std::vector<std::string>{"slow_k1=0"}); // the second time it was stored
  }
}

TEST_F(CudaConvolutionTest, TuningChoosesItsAlgorithm) {
  TinyBatch batch(6);
  TuningResult found;
  Status status = make()->tune({batch.batch()}, 10, found);
  ASSERT_TRUE(status.ok()) << status.message();
  const std::string machine = "convolutions, cuDNN 91900, fake, Fake GPU, 4 SMs";
  const std::string key = "gradient for the filter, f32, input 6x3x1, filter 1x3x1";
  EXPECT_EQ(found.choices, (Tuning{{machine, {{key, "quick_k1=2"}}}}));
  ASSERT_EQ(found.lines.size(), 1u);
  EXPECT_EQ(found.lines.front().candidates, 2u);

  auto use = [&](const Tuning &choices) {
    EXPECT_TRUE(writeTuned(*package, choices, folder / "tuned.tpk").ok());
    std::shared_ptr<const Package> untuned = package;
    EXPECT_TRUE(Package::open(folder / "tuned.tpk", package).ok());
    auto session = make();
    package = untuned;
    return session;
  };
  {
    auto session = use(found.choices);
    EXPECT_EQ(session->warnings(), "");
    StepResult result;
    status = session->step({batch.batch()}, {}, result);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(log().back(), "quick_k1=2");
  }
  const Tuning others = {{"convolutions, cuDNN 1, another", {{key, "quick_k1=2"}}}};
  EXPECT_NE(use(others)->warnings().find("tuned for 'convolutions, cuDNN 1, another'; here is '" +
                                         machine + "'"),
            std::string::npos);
  auto session = use({{machine, {{key, "gone"}}}});
  StepResult result;
  status = session->step({batch.batch()}, {}, result);
  EXPECT_NE(status.message().find("no algorithm 'gone'"), std::string::npos) << status.message();
}

TEST_F(CudaConvolutionTest, AFilterForEachChannelIsTheRuntimesOwnFirst) {
  using namespace trainrt::cuda;
  ConvolutionCall call;
  call.batch = 2, call.axes = 2;
  call.channels = call.filters = call.groups = 8;
  for (int i = 0; i < 2; ++i) {
    call.positions[i] = call.windows[i] = 5;
    call.taps[i] = 3, call.pads[i] = call.strides[i] = call.dilations[i] = 1;
  }
  call.dtype = DType::F32;
  std::string key = "forward, f32, input 2x8x5x5, filter 8x1x3x3, pad 1x1";
  std::unique_ptr<Context> context;
  ASSERT_TRUE(Context::open(0, context).ok());
  CurrentContext current = context->makeCurrent();
  auto names = [&](const std::string &chosen) {
    std::unique_ptr<Dnn> dnn;
    EXPECT_TRUE(Dnn::load(dnn).ok());
    if (!chosen.empty())
      dnn->choose({{key, chosen}});
    std::vector<Dnn::Algorithm> found;
    EXPECT_TRUE(dnn->alternatives(call, 8, found).ok());
    std::shared_ptr<const ConvolutionPlan> plan;
    EXPECT_TRUE(dnn->prepare(call, plan).ok());
    EXPECT_EQ(plan->key(), key);
    EXPECT_EQ(plan->workspaceBytes(), found.front().plan->workspaceBytes());
    std::vector<std::string> list;
    for (const Dnn::Algorithm &each : found)
      list.push_back(each.name);
    return list;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names(""), (Names{"trainrt", "slow_k1=0", "quick_k1=2"}));
  EXPECT_EQ(names("quick_k1=2"), (Names{"quick_k1=2", "trainrt", "slow_k1=0"}));
  EXPECT_EQ(names("trainrt"), (Names{"trainrt", "slow_k1=0", "quick_k1=2"}));
  // cuDNN is quicker, but where these were chosen.
  call.dtype = DType::BF16;
  key.replace(key.find("f32"), 3, "bf16");
  EXPECT_EQ(names(""), (Names{"slow_k1=0", "trainrt", "quick_k1=2"}));
  EXPECT_EQ(names("trainrt"), (Names{"trainrt", "slow_k1=0", "quick_k1=2"}));
  fake->major = 7; // no such kernels
  EXPECT_EQ(names("trainrt"), (Names{"slow_k1=0", "quick_k1=2"}));
  fake->major = 9;
  const int sharedBytes = std::exchange(fake->sharedBytes, 64 << 10); // which they need more of
  EXPECT_EQ(names("trainrt"), (Names{"slow_k1=0", "quick_k1=2"}));
  fake->sharedBytes = sharedBytes;
  std::unique_ptr<Dnn> dnn;
  ASSERT_TRUE(Dnn::load(dnn).ok());
  std::shared_ptr<const ConvolutionPlan> plan;
  call.kind = Convolution::Kind::Filter;
  dnn->choose(
      {{"gradient for the filter, bf16, input 2x8x5x5, filter 8x1x3x3, pad 1x1", "trainrt"}});
  ASSERT_TRUE(dnn->prepare(call, plan).ok());
  EXPECT_EQ(plan->enqueue(nullptr, {256, 512, 1024}, {2048, 16}).code(), Code::Internal);
  EXPECT_NE(plan->enqueue(nullptr, {256, 520, 1024}, {2048, uint64_t(1) << 20})
                .message()
                .find("operands that begin at multiples of 16 bytes"),
            std::string::npos);
}

TEST_F(CudaConvolutionTest, ClearsASumOfNothing) {
  open(convolutional(/*noSamples=*/true));
  auto session = make();
  const std::vector<float> before = values(*session);
  TinyBatch batch(4);
  StepResult result;
  Status status = session->step({batch.batch()}, {}, result);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(values(*session), before);
  EXPECT_EQ(log(), std::vector<std::string>());
}

TEST_F(CudaConvolutionTest, SaysWhatTheLibraryCannotDo) {
  setenv("FAKE_CUDNN_REFUSES", "1", 1);
  auto session = make();
  TinyBatch batch(4);
  StepResult result;
  Status status = session->step({batch.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("cuDNN cannot do this convolution (gradient for the filter, f32, "
                                  "input 4x3x1, filter 1x3x1): no engine. Compile with "
                                  "--no-library-convolutions"),
            std::string::npos)
      << status.message();
  session.reset();
  setenv("TRAINRT_CUDNN_PLUGIN", (folder / "none.so").c_str(), 1);
  session = make();
  status = session->step({batch.batch()}, {}, result);
  EXPECT_EQ(status.code(), Code::DeviceError);
  EXPECT_NE(status.message().find("none.so"), std::string::npos) << status.message();
}
