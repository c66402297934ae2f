// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Matmuls of loops on the CPU: what is the same in all steps is packed once, which changes no bit,
// and the memory for it is told before.

#include "device/cpu/executor.h"
#include "device/cpu/gemm.h"
#include "format/program.h"
#include "program_generated.h"

#include <gtest/gtest.h>

using namespace trainrt;

namespace {

constexpr int64_t steps = 3, rows = 40, width = 128, matrix = width * width;

/// What the product `next = carried W` of each step reads as W.
enum class Weight {
  Constant,  ///< a buffer that is made before the loop
  Slice,     ///< one of those behind each other, another in each step
  Written,   ///< a buffer that each step writes
  SameOutput ///< an output that each step writes through another buffer
};

enum Number { Carried, Next, W, Whole, Slice, Alias, count };

std::vector<unsigned char> makeProgram(Weight weight, bool isNested) {
  fb::ProgramT program;
  program.version_major = programMajor;
  program.nodes = {"/loop"};
  auto constant = [&](int64_t value) {
    program.exprs.push_back({fb::ExprKind::constant, 0, 0, value});
    return uint32_t(program.exprs.size() - 1);
  };
  const uint32_t zero = constant(0), one = constant(1), two = constant(2),
                 numSteps = constant(steps);
  auto output = std::make_unique<fb::TensorT>();
  output->name = "w";
  output->dtype = fb::DType::f32;
  output->shape = {constant(matrix)};
  program.outputs.push_back(std::move(output));
  auto function = std::make_unique<fb::FunctionT>();
  function->name = "eval";
  function->outputs = {0};
  for (int64_t floats : {rows * width, rows * width, matrix, steps * matrix, matrix, matrix}) {
    auto buffer = std::make_unique<fb::BufferT>();
    buffer->bytes = constant(floats * 4);
    buffer->last = isNested ? 6 : 4;
    function->buffers.push_back(std::move(buffer));
  }
  if (weight == Weight::SameOutput)
    for (size_t i : {W, Alias}) {
      function->buffers[i]->space = fb::Space::output;
      function->buffers[i]->index = 0;
    }
  using fb::Access;
  auto add = [&](auto op, std::vector<fb::Operand> operands, std::vector<uint32_t> sizes) {
    auto command = std::make_unique<fb::CommandT>();
    command->operands = std::move(operands);
    command->sizes = std::move(sizes);
    command->op.Set(std::move(op));
    function->commands.push_back(std::move(command));
  };
  auto mark = [&](bool end, bool isOuter) {
    fb::LoopT loop;
    loop.end = end;
    loop.scanned = isOuter ? 0 : 1;
    std::vector<fb::Operand> operands = {{Carried, zero, Access::read}};
    if (!isOuter)
      operands.insert(operands.begin(),
                      {{Whole, zero, Access::read}, {Slice, zero, Access::write}});
    add(std::move(loop), operands, {isOuter ? two : numSteps});
  };
  auto copy = [&](uint32_t from, uint32_t to, int64_t floats) {
    add(fb::CopyT(), {{from, zero, Access::read}, {to, zero, Access::write}},
        {constant(floats * 4)});
  };
  if (isNested)
    mark(/*end=*/false, /*isOuter=*/true);
  mark(/*end=*/false, /*isOuter=*/false);
  if (weight == Weight::Written)
    copy(Slice, W, matrix);
  else
    copy(Slice, Alias, matrix);
  fb::GemmT gemm;
  gemm.dtype = gemm.c_dtype = fb::DType::f32;
  add(std::move(gemm),
      {{Carried, zero, Access::read},
       {weight == Weight::Slice ? Slice : W, zero, Access::read},
       {Next, zero, Access::write},
       {0, zero, Access::none},
       {0, zero, Access::none}},
      {constant(rows), constant(width), constant(width), constant(width), one, constant(width), one,
       constant(width), one});
  copy(Next, Carried, rows * width);
  mark(/*end=*/true, /*isOuter=*/false);
  if (isNested)
    mark(/*end=*/true, /*isOuter=*/true);
  program.functions.push_back(std::move(function));
  flatbuffers::FlatBufferBuilder builder;
  fb::FinishProgramBuffer(builder, fb::Program::Pack(builder, &program));
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

std::vector<float> valuesOf(int64_t count, int64_t seed) {
  std::vector<float> values(static_cast<size_t>(count));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(int64_t((i + size_t(seed)) * 7919 % 201) - 100) / 1000;
  return values;
}

/// What is carried out of the loop, and the bytes of scratch that the run holds and was told to.
struct Result {
  std::vector<float> carried;
  int64_t held, told;
};

Result run(Weight weight, unsigned threads, bool isNested = false) {
  const std::vector<unsigned char> bytes = makeProgram(weight, isNested);
  Program program;
  ExecutionPlan plan;
  Status status = readProgram(bytes.data(), bytes.size(), program);
  if (status.ok())
    status = makePlan(program, program.functions[0], {}, plan);
  EXPECT_TRUE(status.ok()) << status.message();
  std::vector<std::vector<float>> memory = {
      valuesOf(rows * width, 1),     std::vector<float>(rows * width), valuesOf(matrix, 2),
      valuesOf(steps * matrix, 300), std::vector<float>(matrix),       std::vector<float>(matrix)};
  ThreadPool pool(threads);
  Executor executor(pool);
  Executor::Run run{nullptr, {}, {}, nullptr, nullptr};
  for (auto &buffer : memory)
    run.buffers.push_back(buffer.data());
  if (weight == Weight::SameOutput)
    run.buffers[Alias] = run.buffers[W];
  Executor::Reports reports;
  // A second run finds what the first one has packed, with other values.
  EXPECT_TRUE(executor.run(plan, run, Allocator(), reports).ok());
  memory[W] = valuesOf(matrix, 3);
  run.buffers[W] = memory[W].data();
  run.buffers[Alias] = weight == Weight::SameOutput ? memory[W].data() : memory[Alias].data();
  memory[Carried] = valuesOf(rows * width, 1);
  run.buffers[Carried] = memory[Carried].data();
  EXPECT_TRUE(executor.run(plan, run, Allocator(), reports).ok());
  return {memory[Carried], executor.scratchBytes(), estimateScratch({&plan}, threads, {})};
}

/// The same products one by one.
std::vector<float> expected(Weight weight, int64_t times) {
  std::vector<float> carried = valuesOf(rows * width, 1), next(carried.size());
  const std::vector<float> w = valuesOf(matrix, 3), whole = valuesOf(steps * matrix, 300);
  ThreadPool pool(1);
  for (int64_t step = 0; step < times; ++step) {
    const float *b = weight == Weight::Constant ? w.data() : &whole[size_t(step % steps * matrix)];
    gemmF32({carried.data(), b, next.data(), rows, width, width, width, 1, width, 1, width, 1, 0,
             nullptr, nullptr, nullptr, nullptr, 1, 0},
            pool);
    carried = next;
  }
  return carried;
}

TEST(KeptOperands, StepsMakeTheSameBits) {
  for (Weight weight : {Weight::Constant, Weight::Slice, Weight::Written, Weight::SameOutput})
    for (unsigned threads : {1u, 3u}) {
      SCOPED_TRACE(testing::Message() << int(weight) << " " << threads);
      const Result result = run(weight, threads);
      EXPECT_EQ(result.carried, expected(weight, steps));
      EXPECT_GE(result.told, result.held);
      if (threads == 1)
        EXPECT_EQ(result.told, result.held);
    }
}

TEST(KeptOperands, LoopsWithinLoopsPackWhenTheyBegin) {
  for (Weight weight : {Weight::Constant, Weight::Slice, Weight::Written}) {
    const Result result = run(weight, 1, /*isNested=*/true);
    EXPECT_EQ(result.carried, expected(weight, 2 * steps));
    EXPECT_EQ(result.told, result.held);
  }
}

TEST(KeptOperands, TakeTheMemoryOfAWholeMatrix) {
  // Beside it lie all rows of the other factor, packed once for all tiles.
  const int64_t kept = run(Weight::Constant, 1).held;
  EXPECT_EQ(kept, roundUp(matrix * 4, 4096) + roundUp(rows * width * 4, 4096));
}

} // namespace
