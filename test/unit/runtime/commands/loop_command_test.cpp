// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command Loop: how it is read from a program, planned and run, on the CPU and on a GPU.

#include "cuda_fixture.h"
#include "device/cpu/executor.h"
#include "device/cuda/commands.h"
#include "format/program.h"
#include "program_generated.h"

#include <functional>
#include <gtest/gtest.h>
#include <numeric>

using namespace trainrt;

namespace {

constexpr int64_t slots = 3;

/// What a test wants different.
struct Options {
  int64_t steps = slots, width = 4; ///< floats of a slice
  bool reverse = false;
  fb::Target target = fb::Target::cpu;
  std::function<void(fb::LoopT &begin, fb::CommandT &command)> edit = [](auto &, auto &) {};
  bool hasEnd = true;
};

/// A step stores what is carried, then carries its slice on.
enum Number { X, Slice, Y, Part, Carried, count };
std::array<int64_t, count> floatsOf(const Options &options) {
  const int64_t width = options.width;
  return {slots * width, width, slots * width, width, width};
}

std::vector<unsigned char> makeProgram(const Options &options) {
  fb::ProgramT program;
  program.version_major = programMajor;
  program.target = options.target;
  program.nodes = {"/loop"};
  auto constant = [&](int64_t value) {
    program.exprs.push_back({fb::ExprKind::constant, 0, 0, value});
    return uint32_t(program.exprs.size() - 1);
  };
  auto function = std::make_unique<fb::FunctionT>();
  function->name = "eval";
  for (int64_t floats : floatsOf(options)) {
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->bytes = constant(floats * 4);
    buffer->last = options.hasEnd ? 3 : 2;
    function->buffers.push_back(std::move(buffer));
  }
  const uint32_t zero = constant(0), steps = constant(options.steps),
                 bytes = constant(options.width * 4);
  using fb::Access;
  auto mark = [&](bool end) {
    auto command = std::make_unique<fb::CommandT>();
    fb::LoopT loop;
    loop.scanned = loop.stacked = 1;
    loop.end = end;
    loop.reverse = options.reverse;
    command->operands = {{X, zero, Access::read},
                         {Slice, zero, Access::write},
                         {Y, zero, Access::write},
                         {Part, zero, Access::read},
                         {Carried, zero, Access::read}};
    command->sizes = {steps};
    if (!end)
      options.edit(loop, *command);
    command->op.Set(std::move(loop));
    function->commands.push_back(std::move(command));
  };
  auto copy = [&](uint32_t from, uint32_t to) {
    auto command = std::make_unique<fb::CommandT>();
    command->operands = {{from, zero, Access::read}, {to, zero, Access::write}};
    command->sizes = {bytes};
    command->op.Set(fb::CopyT());
    function->commands.push_back(std::move(command));
  };
  mark(false);
  copy(Carried, Part);
  copy(Slice, Carried);
  if (options.hasEnd)
    mark(true);
  program.functions.push_back(std::move(function));
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishProgramBuffer(builder, fb::Program::Pack(builder, &program));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Status read(const Options &options, Program &program) {
  const std::vector<unsigned char> bytes = makeProgram(options);
  return readProgram(bytes.data(), bytes.size(), program);
}

std::string messageOf(const Options &options) {
  Program program;
  ExecutionPlan plan;
  Status status = read(options, program);
  if (status.ok())
    status = makePlan(program, program.functions[0], {}, plan);
  return status.message();
}

struct Planned {
  explicit Planned(const Options &options) {
    Status status = read(options, program);
    if (status.ok())
      status = makePlan(program, program.functions[0], {}, plan);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Program program;
  ExecutionPlan plan;
};

/// Of X = 1, 2, ... and -1s that are carried into the first step.
void fill(const Options &options, size_t buffer, float *values) {
  const auto floats = floatsOf(options);
  std::fill_n(values, floats[buffer], buffer == Carried ? -1.0f : 0.0f);
  if (buffer == X)
    std::iota(values, values + floats[buffer], 1.0f);
}

/// Y and what is carried.
using Results = std::pair<std::vector<float>, std::vector<float>>;

Results run(const Options &options) {
  const Planned planned(options);
  std::vector<std::vector<float>> memory;
  for (int64_t floats : floatsOf(options)) {
    memory.emplace_back(floats);
    fill(options, memory.size() - 1, memory.back().data());
  }
  ThreadPool pool(2);
  Executor executor(pool);
  Executor::Run run{nullptr, {}, {}, nullptr, nullptr};
  for (auto &buffer : memory)
    run.buffers.push_back(buffer.data());
  Executor::Reports reports;
  EXPECT_TRUE(executor.run(planned.plan, run, Allocator(), reports).ok());
  return {memory[Y], memory[Carried]};
}

TEST(LoopCommand, StepsSeeTheirSlicesInOrder) {
  const auto [stored, carried] = run({});
  EXPECT_EQ(stored, (std::vector<float>{-1, -1, -1, -1, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(carried, (std::vector<float>{9, 10, 11, 12}));
}

TEST(LoopCommand, ReverseBeginsWithTheLastSlice) {
  const auto [stored, carried] = run({.reverse = true});
  EXPECT_EQ(stored, (std::vector<float>{5, 6, 7, 8, 9, 10, 11, 12, -1, -1, -1, -1}));
  EXPECT_EQ(carried, (std::vector<float>{1, 2, 3, 4}));
}

TEST(LoopCommand, WithoutAStepNothingRuns) {
  const auto [stored, carried] = run({.steps = 0});
  EXPECT_EQ(stored, std::vector<float>(12, 0));
  EXPECT_EQ(carried, std::vector<float>(4, -1));
}

class LoopOnGpu : public CudaTest {
protected:
  Results runOnGpu(Options options) {
    using namespace trainrt::cuda;
    options.target = fb::Target::cuda;
    Planned planned(options);
    std::unique_ptr<Context> context;
    EXPECT_TRUE(Context::open(0, context).ok());
    CurrentContext current = context->makeCurrent();
    const Driver &driver = context->driver();
    std::unique_ptr<Kernels> kernels;
    EXPECT_TRUE(Kernels::load(*context, *package, kernels).ok());
    Libraries libraries;
    ThreadPool pool(1);
    Commands commands(*context, planned.program, planned.plan);
    EXPECT_TRUE(commands.prepare(*kernels, libraries, nullptr, pool).ok());
    const auto floats = floatsOf(options);
    std::array<CUdeviceptr, count> memory = {};
    std::vector<float> values(floats[X]);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(driver.cuMemAlloc(&memory[i], values.size() * 4), CUDA_SUCCESS);
      fill(options, i, values.data());
      EXPECT_EQ(driver.cuMemcpyHtoDAsync(memory[i], values.data(), size_t(floats[i]) * 4, nullptr),
                CUDA_SUCCESS);
      driver.cuStreamSynchronize(nullptr);
    }
    const std::vector<DeviceAddress> workspaces(planned.plan.steps.size());
    commands.resolve([&](uint32_t buffer) { return memory[buffer]; }, workspaces, 0, 0);
    fake->copiesWithin = 0;
    // On the lanes of a graph as told: a command waits for those that touch its bytes.
    dependencies = commands.dependencies();
    for (size_t i = 0; i < commands.size(); ++i)
      EXPECT_TRUE(commands.enqueue(i, nullptr).ok());
    copies = fake->copiesWithin;
    auto fetch = [&](size_t buffer) {
      std::vector<float> result(floats[buffer]);
      driver.cuMemcpyDtoHAsync(result.data(), memory[buffer], result.size() * 4, nullptr);
      driver.cuStreamSynchronize(nullptr);
      return result;
    };
    Results results = {fetch(Y), fetch(Carried)};
    for (CUdeviceptr block : memory)
      driver.cuMemFree(block);
    return results;
  }

  std::vector<std::array<int32_t, cuda::Commands::numLanes>> dependencies;
  int copies = 0;
};

TEST_F(LoopOnGpu, SlicesThatLieAsBuffersDoAreUsedInPlace) {
  for (bool reverse : {false, true}) {
    const Options options{.width = 64, .reverse = reverse};
    EXPECT_EQ(runOnGpu(options), run(options));
    EXPECT_EQ(copies, 2 * slots); // those of the body
  }
}

TEST_F(LoopOnGpu, OtherSlicesAreCopied) {
  for (bool reverse : {false, true}) {
    const Options options{.width = 5, .reverse = reverse};
    EXPECT_EQ(runOnGpu(options), run(options));
    EXPECT_EQ(copies, 4 * slots);
  }
}

TEST_F(LoopOnGpu, ACommandWaitsForThoseOfTheStepBefore) {
  runOnGpu({.width = 64});
  // The loop, then in each step: store what is carried, carry the slice on, the end of the step.
  ASSERT_EQ(dependencies.size(), size_t(1 + 3 * slots));
  EXPECT_EQ(dependencies[2][0], 1); // overwrites what the one before it has read
  EXPECT_EQ(dependencies[4][0], 2); // stores what the step before has carried on
  EXPECT_EQ(dependencies[5][0], 4);
}

TEST_F(LoopOnGpu, WithoutAStepNothingRuns) {
  const Options options{.steps = 0};
  EXPECT_EQ(runOnGpu(options), run(options));
  EXPECT_EQ(copies, 0);
}

TEST(LoopCommand, DamagedOnesAreRefused) {
  auto expect = [](const Options &options, const std::string &text) {
    EXPECT_NE(messageOf(options).find(text), std::string::npos) << messageOf(options);
  };
  expect({.edit = [](auto &loop, auto &) { loop.scanned = 3; }},
         ".operands has 5 entries, fewer than 3 and 1 tensors and their slices");
  expect({.edit =
              [](auto &, auto &command) {
                command.operands[1] = {Slice, command.operands[0].offset(), fb::Access::read};
              }},
         ".operands[1] is not written");
  expect({.edit =
              [](auto &, auto &command) {
                command.operands[3] = {Part, command.operands[0].offset(), fb::Access::write};
              }},
         ".operands[3] is not read");
  expect({.edit = [](auto &loop, auto &) { loop.reverse = true; }},
         "commands[3]: its loop does not begin and end alike");
  expect({.edit = [](auto &, auto &command) { command.kernels = {0}; }}, "kernel");
  expect({.hasEnd = false}, "commands[0]: its loop does not begin and end alike");
  expect({.steps = slots + 1}, "leaves buffer 0 of 48 bytes");
  expect({.steps = -1}, "has an extent of -1");
}

TEST(LoopCommand, SaysWhatItIs) {
  Program program;
  ExecutionPlan plan;
  ASSERT_TRUE(read({}, program).ok());
  ASSERT_TRUE(makePlan(program, program.functions[0], {}, plan).ok());
  const StepView begin = plan.view(plan.steps[0]), end = plan.view(plan.steps[3]);
  const auto &loop = std::get<Loop>(plan.steps[0].command->op);
  EXPECT_EQ(loop.describe(program, begin), "the loop of 3 steps");
  EXPECT_EQ(std::get<Loop>(plan.steps[3].command->op).name(program, end),
            "end of a loop of 3 steps");
}

} // namespace
