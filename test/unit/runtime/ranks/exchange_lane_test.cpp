// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Exchanges beside other commands: which of these wait, in which order they run, and how a run
// ends.

#include "comm/thread_ranks.h"
#include "device/cpu/executor.h"
#include "format/program.h"
#include "plan/exchange_waits.h"
#include "program_generated.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <thread>

using namespace trainrt;

namespace {

/// Two buffers are summed over all ranks; then others are copied, and these.
std::vector<unsigned char> makeProgram() {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<fb::Expr> exprs = {{fb::ExprKind::constant, 0, 0, 24},
                                       {fb::ExprKind::constant, 0, 0, 0},
                                       {fb::ExprKind::constant, 0, 0, 6}};
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (int i = 0; i < 4; ++i)
    buffers.push_back(fb::CreateBuffer(builder, fb::Space::arena, -1, 0, 0, 4, 0));
  std::vector<flatbuffers::Offset<fb::Command>> commands;
  const auto add = [&](fb::Op kind, auto body, std::vector<fb::Operand> operands, uint32_t size) {
    auto operandVector = builder.CreateVectorOfStructs(operands);
    auto sizeVector = builder.CreateVector(std::vector<uint32_t>{size});
    commands.push_back(
        fb::CreateCommand(builder, kind, body.Union(), operandVector, sizeVector, 0, 0));
  };
  const auto sum = [&](uint32_t buffer) {
    add(fb::Op::Collective,
        fb::CreateCollective(builder, fb::CollectiveKind::all_reduce, fb::DType::f32),
        {{buffer, 1, fb::Access::update}}, 2);
  };
  const auto copy = [&](uint32_t from, uint32_t to) {
    add(fb::Op::Copy, fb::CreateCopy(builder),
        {{from, 1, fb::Access::read}, {to, 1, fb::Access::write}}, 0);
  };
  sum(0);
  sum(1);
  copy(2, 3); // of neither
  copy(0, 2); // of the first
  copy(3, 1); // over the second
  auto function = fb::CreateFunction(builder, builder.CreateString("update"),
                                     builder.CreateVector(buffers), builder.CreateVector(commands),
                                     builder.CreateVector(std::vector<uint32_t>()));
  auto exprVector = builder.CreateVectorOfStructs(exprs);
  auto functions = builder.CreateVector(&function, 1);
  fb::ProgramBuilder program(builder);
  program.add_version_major(programMajor);
  program.add_target(fb::Target::cpu);
  program.add_exprs(exprVector);
  program.add_functions(functions);
  fb::FinishProgramBuffer(builder, program.Finish());
  return {builder.GetBufferPointer(), builder.GetBufferPointer() + builder.GetSize()};
}

struct Planned {
  Planned() {
    const std::vector<unsigned char> bytes = makeProgram();
    Status status = readProgram(bytes.data(), bytes.size(), program);
    if (status.ok())
      status = makePlan(program, program.functions.front(), {}, plan);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  Program program;
  ExecutionPlan plan;
};

using Buffers = std::array<std::vector<float>, 4>;

Buffers buffersOf(int rank) {
  Buffers buffers;
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].assign(6, float(10 * i + 1 + size_t(rank)));
  return buffers;
}

/// Is told of waits and steps.
struct Watcher final : CommandObserver {
  bool reads() const override { return false; }
  void waited(double seconds) override {
    EXPECT_GE(seconds, 0);
    ++waits;
  }
  Status ran(const ExecutionPlan &, size_t index, double, double seconds, const Read &) override {
    EXPECT_GE(seconds, 0);
    steps.push_back(index);
    return {};
  }
  int waits = 0;
  std::vector<size_t> steps;
};

Status run(const ExecutionPlan &plan, Communicator *ranks, Buffers &buffers,
           CommandObserver *observer, Executor::Reports &reports) {
  ThreadPool pool(1);
  Executor executor(pool);
  Executor::Run run = {};
  for (std::vector<float> &buffer : buffers)
    run.buffers.push_back(buffer.data());
  run.observer = observer;
  run.ranks = ranks;
  return executor.run(plan, run, {}, reports);
}

} // namespace

TEST(ExchangeLane, RunsInOrder) {
  ExchangeLane lane;
  for (int turn = 0; turn < 2; ++turn) {
    std::vector<int> order;
    for (int i = 0; i < 20; ++i)
      lane.start([&order, i] { order.push_back(i); });
    EXPECT_EQ(lane.started(), 20u);
    const ExchangeLane::Span fifth = lane.await(4), last = lane.await(19);
    EXPECT_LE(fifth.began, fifth.ended);
    EXPECT_LE(fifth.ended, last.began);
    lane.finish();
    EXPECT_EQ(order.size(), 20u);
    EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  }
}

TEST(ExchangeLane, CommandsWaitForWhatTheyTouch) {
  Planned planned;
  EXPECT_EQ(planned.plan.exchangeWaits, (std::vector<uint32_t>{0, 0, 0, 1, 2}));
}

TEST(ExchangeLane, HasTheValuesOfExchangesInTheirPlace) {
  Planned planned;
  for (const char *how : {"inline", ""}) {
    setenv("TRAINRT_EXCHANGE", how, 1);
    std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(2);
    std::vector<std::thread> threads;
    for (auto &rank : ranks)
      threads.emplace_back([&] {
        Buffers buffers = buffersOf(rank->rank());
        Executor::Reports reports;
        Watcher watcher;
        ASSERT_TRUE(run(planned.plan, rank.get(), buffers, &watcher, reports).ok());
        EXPECT_EQ(reports.failed, nullptr);
        EXPECT_EQ(buffers[0], std::vector<float>(6, 1 + 2));
        EXPECT_EQ(buffers[2], buffers[0]);
        EXPECT_EQ(buffers[1], std::vector<float>(6, 21 + float(rank->rank())));
        EXPECT_EQ(watcher.waits, *how ? 0 : 2);
        std::sort(watcher.steps.begin(), watcher.steps.end());
        EXPECT_EQ(watcher.steps, (std::vector<size_t>{0, 1, 2, 3, 4}));
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  unsetenv("TRAINRT_EXCHANGE");
}

TEST(ExchangeLane, StopsBehindTheFirstThatFails) {
  Planned planned;
  std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(2);
  ranks[1]->abort(Status(Code::Internal, "rank 1 has other things to do"));
  Buffers buffers = buffersOf(0);
  Executor::Reports reports;
  ASSERT_TRUE(run(planned.plan, ranks[0].get(), buffers, nullptr, reports).ok());
  EXPECT_EQ(reports.failed, planned.plan.steps.front().command);
  EXPECT_EQ(reports.why.code(), Code::RankLost);
  EXPECT_EQ(buffers[2], buffersOf(0)[2]);
}
