// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command Convolution: how it is read from a program and planned, what is refused. (What it
// computes: gemm/convolution_test.cpp on the CPU, gpu/libraries on a GPU.)

#include "format/program.h"
#include "plan/command_info.h"
#include "plan/execution_plan.h"
#include "program_generated.h"

#include <gtest/gtest.h>

using namespace trainrt;

namespace {

/// A convolution of a stride of 2 over 9 x 10 positions, and what a test wants different.
struct Options {
  fb::Target target = fb::Target::cuda;
  uint8_t kind = 0;
  fb::DType dtype = fb::DType::bf16;
  std::vector<int64_t> sizes = {2, 4, 6, 2, 9, 3, 5, 2, 1, 1, 10, 1, 5, 2, 1, 0};
  int64_t outputElements = 2 * 5 * 5 * 6;
};

/// A program of one function with one command.
std::vector<unsigned char> makeProgram(const Options &options) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<fb::Expr> exprs;
  auto constant = [&](int64_t value) {
    exprs.push_back({fb::ExprKind::constant, 0, 0, value});
    return uint32_t(exprs.size() - 1);
  };
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (int64_t elements : {int64_t(2 * 9 * 10 * 4), int64_t(6 * 3 * 2), options.outputElements})
    buffers.push_back(
        fb::CreateBuffer(builder, fb::Space::arena, -1, constant(elements * 2), 0, 0, 0));
  const uint32_t zero = constant(0);
  std::vector<uint32_t> sizes;
  for (int64_t size : options.sizes)
    sizes.push_back(constant(size));
  std::vector<fb::Operand> operands;
  for (uint32_t i = 0; i < 3; ++i)
    operands.push_back({i, zero, fb::Access::read});
  const uint32_t written = options.kind == 0 ? 2 : options.kind == 1 ? 0 : 1;
  operands[written] = {written, zero, fb::Access::write};
  auto body =
      fb::CreateConvolution(builder, fb::ConvolutionKind(options.kind), options.dtype, true);
  const uint32_t node = 0;
  auto operandVector = builder.CreateVectorOfStructs(operands);
  auto sizeVector = builder.CreateVector(sizes);
  auto command = fb::CreateCommand(builder, fb::Op::Convolution, body.Union(), operandVector,
                                   sizeVector, 0, builder.CreateVector(&node, 1));
  auto function = fb::CreateFunction(
      builder, builder.CreateString("eval"), builder.CreateVector(buffers),
      builder.CreateVector(&command, 1), builder.CreateVector(std::vector<uint32_t>()));
  auto exprVector = builder.CreateVectorOfStructs(exprs);
  auto nodes = builder.CreateVectorOfStrings({"/conv"});
  auto functions = builder.CreateVector(&function, 1);
  auto none = [&] { return builder.CreateVector(std::vector<flatbuffers::Offset<fb::Tensor>>()); };
  auto parameters = none(), state = none(), inputs = none(), hypers = none(), outputs = none();
  fb::ProgramBuilder program(builder);
  program.add_version_major(programMajor);
  program.add_exprs(exprVector);
  program.add_parameters(parameters);
  program.add_state(state);
  program.add_inputs(inputs);
  program.add_hypers(hypers);
  program.add_outputs(outputs);
  program.add_nodes(nodes);
  program.add_functions(functions);
  program.add_target(options.target);
  fb::FinishProgramBuffer(builder, program.Finish());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

/// Reads and plans it.
Status plan(const Options &options, Program &program, ExecutionPlan &result) {
  const std::vector<unsigned char> bytes = makeProgram(options);
  TRAINRT_TRY(readProgram(bytes.data(), bytes.size(), program));
  return makePlan(program, program.functions.front(), {}, result);
}

std::string message(const Options &options) {
  Program program;
  ExecutionPlan result;
  const Status status = plan(options, program, result);
  return status.ok() ? "" : status.message();
}

/// The sizes of `Options`, one of them another.
std::vector<int64_t> sizesWith(size_t index, int64_t value) {
  std::vector<int64_t> sizes = Options().sizes;
  sizes[index] = value;
  return sizes;
}

} // namespace

TEST(ConvolutionCommand, IsReadForEachKind) {
  const char *names[] = {"", ", input", ", filter"};
  const char *descriptions[] = {"a convolution", "a convolution's gradient for its input",
                                "a convolution's gradient for its filter"};
  const size_t written[] = {2 * 5 * 5 * 6, 2 * 9 * 10 * 4, 6 * 3 * 2};
  for (uint8_t kind : {0, 1, 2}) {
    Program program;
    ExecutionPlan result;
    const Status status = plan({.kind = kind}, program, result);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(commandName(program, result, 0),
              std::string("convolution bf16 2x4x9x10 by 6x3x1") + names[kind]);
    EXPECT_EQ(commandBytes(result, 0), 2 * (2 * 9 * 10 * 4 + 6 * 3 * 2 + 2 * 5 * 5 * 6));
    // The taps of two channels for each element of the output, whichever tensor is made.
    EXPECT_EQ(commandFlops(result, 0), 2 * (2 * 5 * 5 * 6) * (3 * 2));
    EXPECT_EQ(commandClass(result, 0), CommandClass::Convolution);
    std::vector<Region> regions;
    commandResults(program, result, 0, regions);
    ASSERT_EQ(regions.size(), 1u);
    EXPECT_EQ(regions.front().extents, std::vector<int64_t>{int64_t(written[kind])});
    const auto &op = std::get<Convolution>(program.functions.front().commands.front().op);
    EXPECT_EQ(op.describe(program, result.view(result.steps.front())), descriptions[kind]);
    const ConvolutionView view(result.view(result.steps.front()), op);
    EXPECT_FALSE(view.isEmpty());
    EXPECT_FALSE(view.isZero());
  }
}

/// Without samples there is no output; the filter's gradient is there, and zero.
TEST(ConvolutionCommand, HasNoSamples) {
  for (uint8_t kind : {0, 1, 2}) {
    Program program;
    ExecutionPlan result;
    const Status status = plan({.kind = kind, .sizes = sizesWith(0, 0)}, program, result);
    ASSERT_TRUE(status.ok()) << status.message();
    const auto &op = std::get<Convolution>(program.functions.front().commands.front().op);
    const ConvolutionView view(result.view(result.steps.front()), op);
    EXPECT_EQ(view.isEmpty(), kind != 2);
    EXPECT_TRUE(view.isZero());
  }
}

TEST(ConvolutionCommand, RefusesWhatIsNone) {
  auto has = [](const Options &options, const std::string &text) {
    EXPECT_NE(message(options).find(text), std::string::npos) << message(options);
  };
  has({.target = fb::Target::cpu},
      ".dtype bf16: convolutions of 16-bit types are a command of CUDA packages only");
  has({.kind = 3}, ".kind 3 is unknown");
  has({.dtype = fb::DType::f64}, " is none that a convolution has");
  has({.sizes = {2, 4, 6, 2}}, "4 are not those of a convolution with one to three axes");
  has({.sizes = sizesWith(0, -1)}, "has an extent of -1");
  has({.sizes = sizesWith(3, 4)}, " has 4 groups of 4 channels and 6 filters");
  has({.sizes = sizesWith(3, 0)}, " has 0 groups of 4 channels and 6 filters");
  has({.sizes = sizesWith(5, 0)}, " has 0 taps with a stride of 2, a dilation of 1 and a pad of 1");
  has({.sizes = sizesWith(9, -1)}, "a pad of -1");
  has({.sizes = sizesWith(6, 6)}, " has 6 windows of 3 taps over 9 positions");
  has({.sizes = sizesWith(6, int64_t(1) << 62)}, " windows of 3 taps over 9 positions");
  has({.outputElements = 2 * 5 * 5 * 6 - 1}, "leaves buffer 2 of 598 bytes");
  // As many as fill 64 bits, each of them possible.
  std::vector<int64_t> large = sizesWith(0, int64_t(1) << 40);
  large[1] = large[2] = int64_t(1) << 40;
  has({.sizes = large}, "leaves buffer 0");
}
