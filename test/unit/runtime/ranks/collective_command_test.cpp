// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command Collective: how it is read from a program, planned, and run by one rank and by
// several.

#include "comm/thread_ranks.h"
#include "device/cpu/executor.h"
#include "format/program.h"
#include "program_generated.h"

#include <gtest/gtest.h>
#include <thread>

using namespace trainrt;

namespace {

/// What a test wants different.
struct Options {
  fb::DType dtype = fb::DType::f32;
  int kind = 0;
  fb::Access access = fb::Access::update;
  int64_t elements = 6;
  size_t tensors = 2, sizes = 2;
  bool kernel = false;
};

/// A program of one function that adds up two buffers of six floats.
std::vector<unsigned char> makeProgram(const Options &options) {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<fb::Expr> exprs = {{fb::ExprKind::constant, 0, 0, 24},
                                       {fb::ExprKind::constant, 0, 0, 0},
                                       {fb::ExprKind::constant, 0, 0, options.elements}};
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (int i = 0; i < 2; ++i)
    buffers.push_back(fb::CreateBuffer(builder, fb::Space::arena, -1, 0, 0, 0, 0));
  std::vector<fb::Operand> operands;
  for (uint32_t i = 0; i < options.tensors; ++i)
    operands.push_back({i, 1, options.access});
  const std::vector<uint32_t> sizes(options.sizes, 2), kernels(options.kernel, 0);
  auto body =
      fb::CreateCollective(builder, static_cast<fb::CollectiveKind>(options.kind), options.dtype);
  auto operandVector = builder.CreateVectorOfStructs(operands);
  auto sizeVector = builder.CreateVector(sizes), kernelVector = builder.CreateVector(kernels);
  auto command = fb::CreateCommand(builder, fb::Op::Collective, body.Union(), operandVector,
                                   sizeVector, kernelVector, 0);
  auto function = fb::CreateFunction(
      builder, builder.CreateString("update"), builder.CreateVector(buffers),
      builder.CreateVector(&command, 1), builder.CreateVector(std::vector<uint32_t>()));
  auto kernel = fb::CreateKernel(builder, builder.CreateString("k"), 1, 0);
  auto exprVector = builder.CreateVectorOfStructs(exprs);
  auto functions = builder.CreateVector(&function, 1);
  auto allKernels = builder.CreateVector(&kernel, 1);
  fb::ProgramBuilder program(builder);
  program.add_version_major(programMajor);
  program.add_exprs(exprVector);
  program.add_kernels(allKernels);
  program.add_functions(functions);
  fb::FinishProgramBuffer(builder, program.Finish());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

Status plan(const Options &options, Program &program, ExecutionPlan &plan) {
  const std::vector<unsigned char> bytes = makeProgram(options);
  TRAINRT_TRY(readProgram(bytes.data(), bytes.size(), program));
  return makePlan(program, program.functions.front(), {}, plan);
}

/// What the buffers of a rank hold behind the command.
Status run(const ExecutionPlan &plan, Communicator *ranks, std::vector<float> (&buffers)[2],
           Executor::Reports &reports) {
  ThreadPool pool(1);
  Executor executor(pool);
  Executor::Run run = {};
  run.buffers = {buffers[0].data(), buffers[1].data()};
  run.ranks = ranks;
  return executor.run(plan, run, {}, reports);
}

} // namespace

TEST(CollectiveCommand, AddsUpWhatRanksHave) {
  Program program;
  ExecutionPlan made;
  Status status = plan({}, program, made);
  ASSERT_TRUE(status.ok()) << status.message();
  const ExecutionPlan::Step &step = made.steps.front();
  made.visit(step, [&](const auto &op, const auto &view) {
    EXPECT_EQ(op.name(program, view), "all_reduce f32 of 2 tensors");
    EXPECT_EQ(op.describe(program, view), "an all_reduce f32 of 2 tensors");
    EXPECT_EQ(op.bytes(view), 96);
    std::vector<Region> regions;
    op.results(program, view, regions);
    EXPECT_EQ(regions.size(), 2u);
  });
  std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(3);
  std::vector<std::thread> threads;
  for (auto &rank : ranks)
    threads.emplace_back([&] {
      const float mine = 1 + float(rank->rank());
      std::vector<float> buffers[2] = {std::vector<float>(6, mine), std::vector<float>(6, -mine)};
      Executor::Reports reports;
      ASSERT_TRUE(run(made, rank.get(), buffers, reports).ok());
      EXPECT_EQ(reports.failed, nullptr);
      EXPECT_EQ(buffers[0], std::vector<float>(6, 6));
      EXPECT_EQ(buffers[1], std::vector<float>(6, -6));
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST(CollectiveCommand, IsNothingForOneRank) {
  Program program;
  ExecutionPlan made;
  ASSERT_TRUE(plan({}, program, made).ok());
  std::vector<std::unique_ptr<Communicator>> alone = createThreadRanks(1);
  for (Communicator *ranks : {static_cast<Communicator *>(nullptr), alone[0].get()}) {
    std::vector<float> buffers[2] = {std::vector<float>(6, 1), std::vector<float>(6, 2)};
    Executor::Reports reports;
    ASSERT_TRUE(run(made, ranks, buffers, reports).ok());
    EXPECT_EQ(buffers[1], std::vector<float>(6, 2));
  }
}

TEST(CollectiveCommand, TellsOfRanksThatDoNotCome) {
  Program program;
  ExecutionPlan made;
  ASSERT_TRUE(plan({}, program, made).ok());
  std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(2);
  ranks[1]->abort(Status(Code::Internal, "rank 1 has other things to do"));
  std::vector<float> buffers[2] = {std::vector<float>(6, 1), std::vector<float>(6, 2)};
  Executor::Reports reports;
  ASSERT_TRUE(run(made, ranks[0].get(), buffers, reports).ok());
  EXPECT_EQ(reports.failed, made.steps.front().command);
  EXPECT_EQ(reports.why.code(), Code::RankLost);
  EXPECT_EQ(reports.why.message(), "rank 1 has other things to do");
}

TEST(CollectiveCommand, RefusesWhatIsWrong) {
  auto message = [](const Options &options) {
    Program program;
    ExecutionPlan made;
    const Status status = plan(options, program, made);
    return status.ok() ? "" : status.message();
  };
  auto expect = [&](const Options &options, const char *words) {
    EXPECT_NE(message(options).find(words), std::string::npos) << message(options);
  };
  expect({.dtype = fb::DType::bf16}, ".dtype 3 is none that ranks add up");
  expect({.kind = 1}, ".kind 1 is unknown");
  expect({.access = fb::Access::read}, ".operands[0] is not read and written");
  expect({.elements = 7}, "leaves buffer 0 of 24 bytes");
  expect({.elements = -1}, "has an extent of -1");
  expect({.tensors = 0, .sizes = 0}, ".operands is empty");
  expect({.sizes = 1}, ".sizes has 1 entries, not 2");
  expect({.kernel = true}, ".kernels: it runs none");
}
