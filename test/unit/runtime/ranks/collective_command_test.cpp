// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command Collective: how it is read from a program, planned, and run by one rank and by
// several.

#include "comm/collectives.h"
#include "comm/thread_ranks.h"
#include "device/cpu/executor.h"
#include "format/program.h"
#include "program_generated.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <optional>
#include <thread>

using namespace trainrt;

namespace {

/// What a test wants different.
struct Options {
  fb::Target target = fb::Target::cpu;
  fb::DType dtype = fb::DType::f32;
  int kind = 0;
  bool isShard = false; ///< the second buffer, written alone
  fb::Access access = fb::Access::update;
  int64_t elements = 6;
  size_t tensors = 2, sizes = 2;
  bool kernel = false, verdict = false;
  std::optional<fb::DType> sent = std::nullopt;
  int64_t sums = -1; ///< elements of the second tensor; -1: as many
};

/// A program of one function that adds up two buffers of six floats.
std::vector<unsigned char> makeProgram(const Options &options) {
  flatbuffers::FlatBufferBuilder builder;
  const std::vector<fb::Expr> exprs = {{fb::ExprKind::constant, 0, 0, 24},
                                       {fb::ExprKind::constant, 0, 0, 0},
                                       {fb::ExprKind::constant, 0, 0, options.elements},
                                       {fb::ExprKind::constant, 0, 0, options.sums}};
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (int i = 0; i < 2; ++i)
    buffers.push_back(fb::CreateBuffer(builder, fb::Space::arena, -1, 0, 0, 0, 0));
  std::vector<fb::Operand> operands;
  for (uint32_t i = 0; i < options.tensors; ++i)
    operands.push_back(
        {i, 1, options.isShard ? (i ? fb::Access::write : fb::Access::read) : options.access});
  std::vector<uint32_t> sizes(options.sizes, 2);
  const std::vector<uint32_t> kernels(options.kernel, 0);
  if (options.sums >= 0)
    sizes[1] = 3;
  flatbuffers::Optional<fb::DType> sent;
  if (options.sent)
    sent = *options.sent;
  auto body = fb::CreateCollective(builder, static_cast<fb::CollectiveKind>(options.kind),
                                   options.dtype, options.verdict, sent);
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
  program.add_target(options.target);
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

TEST(CollectiveCommand, AddsUpNarrowNumbersElsewhere) {
  for (const auto &[sent, one, name] :
       {std::tuple(fb::DType::bf16, 0x3f80, "bf16"), {fb::DType::f16, 0x3c00, "f16"}})
    for (const bool cuts : {false, true}) {
      Program program;
      ExecutionPlan made;
      const Status status = plan({.kind = cuts, .isShard = true, .sent = sent}, program, made);
      ASSERT_TRUE(status.ok()) << status.message();
      made.visit(made.steps.front(), [&](const auto &op, const auto &view) {
        EXPECT_EQ(op.name(program, view), std::string(cuts ? "reduce_scatter " : "all_reduce ") +
                                              name + " to f32 of 1 tensor");
        EXPECT_EQ(op.bytes(view), 6 * 2 + 6 * 4);
        std::vector<Region> regions;
        op.results(program, view, regions);
        ASSERT_EQ(regions.size(), 1u);
        EXPECT_EQ(regions[0].dtype, DType::F32);
      });
      // 1 of all ranks, and -0, which one alone keeps.
      const uint16_t numbers[] = {uint16_t(one), 0x8000,        uint16_t(one),
                                  uint16_t(one), uint16_t(one), uint16_t(one)};
      for (const int world : {1, 2, 3}) {
        std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(world);
        std::vector<std::thread> threads;
        for (auto &rank : ranks)
          threads.emplace_back([&] {
            std::vector<float> buffers[2] = {std::vector<float>(6), std::vector<float>(6, 7)};
            std::memcpy(buffers[0].data(), numbers, sizeof numbers);
            Executor::Reports reports;
            ASSERT_TRUE(run(made, rank.get(), buffers, reports).ok());
            EXPECT_EQ(reports.failed, nullptr);
            if (rank->rank() > 0 && cuts)
              return; // has other elements, or none
            EXPECT_EQ(buffers[1], std::vector<float>({float(world), 0, float(world), float(world),
                                                      float(world), float(world)}));
            EXPECT_EQ(std::signbit(buffers[1][1]), world == 1);
          });
        for (std::thread &thread : threads)
          thread.join();
      }
    }
}

TEST(CollectiveCommand, CutsAndPutsTogether) {
  // Of two ranks, whose shards of four elements reach over the end of the tensor.
  for (int kind : {1, 2}) {
    const int64_t shard = 4, whole = 6;
    std::vector<std::unique_ptr<Communicator>> ranks = createThreadRanks(2);
    std::vector<std::thread> threads;
    for (auto &rank : ranks)
      threads.emplace_back([&, kind] {
        std::vector<float> tensor(6), own(4, 7);
        for (int64_t i = 0; i < whole; ++i)
          tensor[size_t(i)] = float(i + 10 * rank->rank());
        for (int64_t i = 0; kind == 2 && i < shard; ++i)
          own[size_t(i)] = float(i + shard * rank->rank());
        const CutTensor cut{{tensor.data(), whole}, own.data(), shard};
        std::vector<unsigned char> staging;
        if (kind == 1) {
          ASSERT_TRUE(reduceScatter(*rank, DType::F32, {&cut, 1}, staging).ok());
          EXPECT_EQ(own, rank->rank() ? std::vector<float>({18, 20, 0, 0})
                                      : std::vector<float>({10, 12, 14, 16}));
          EXPECT_EQ(tensor[1], float(1 + 10 * rank->rank()));
        } else {
          ASSERT_TRUE(allGather(*rank, DType::F32, {&cut, 1}, staging).ok());
          EXPECT_EQ(tensor, std::vector<float>({0, 1, 2, 3, 4, 5}));
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

TEST(CollectiveCommand, SumsAndGathersOfRanksThatShareAReplica) {
  // Of two tensors; nodes and replicas of all sizes.
  const std::vector<int64_t> sizes = {7000, 13};
  for (auto [world, perNode, perReplica] : {std::tuple(4, 0, 2),
                                            {4, 2, 2},
                                            {4, 2, 1},
                                            {8, 2, 4},
                                            {8, 4, 2},
                                            {6, 3, 2},
                                            {6, 2, 3},
                                            {6, 1, 6}}) {
    std::vector<std::unique_ptr<Communicator>> ranks =
        createThreadRanks(world, {perNode, perReplica});
    std::vector<std::thread> threads;
    for (auto &rank : ranks)
      threads.emplace_back([&, world = world, perReplica = perReplica] {
        std::vector<std::vector<float>> whole, own;
        std::vector<CutTensor> cut;
        auto value = [](int of, size_t tensor, int64_t i) {
          return float((i * 7 + of * 5 + int64_t(tensor)) % 11) / float(3 + of);
        };
        for (size_t t = 0; t < sizes.size(); ++t) {
          const int64_t shard = (sizes[t] + perReplica - 1) / perReplica;
          for (int64_t i = 0; i < sizes[t]; ++i)
            (i ? whole.back() : whole.emplace_back()).push_back(value(rank->rank(), t, i));
          own.emplace_back(size_t(shard), 7);
        }
        for (size_t t = 0; t < sizes.size(); ++t)
          cut.push_back({{whole[t].data(), sizes[t]}, own[t].data(), int64_t(own[t].size())});
        std::vector<unsigned char> staging;
        ASSERT_TRUE(reduceScatter(*rank, DType::F32, cut, staging).ok());
        auto sum = [&](size_t tensor, int64_t i) {
          float all = 0;
          for (int of = 0; of < world; ++of)
            all += value(of, tensor, i);
          return all;
        };
        for (size_t t = 0; t < sizes.size(); ++t)
          for (int64_t i = 0, at; i < cut[t].shard; ++i) {
            at = rank->rank() % perReplica * cut[t].shard + i;
            ASSERT_EQ(own[t][size_t(i)], at < sizes[t] ? sum(t, at) : 0) << t << " " << at;
          }
        if (perReplica == 1) // a gather that no other rank is needed for
          return;
        ASSERT_TRUE(allGather(*rank, DType::F32, cut, staging).ok());
        for (size_t t = 0; t < sizes.size(); ++t)
          for (int64_t i = 0; i < sizes[t]; ++i)
            ASSERT_EQ(whole[t][size_t(i)], sum(t, i)) << t << " " << i;
      });
    for (std::thread &thread : threads)
      thread.join();
  }
}

TEST(CollectiveCommand, CopiesShardsOfOneRank) {
  Program program;
  ExecutionPlan made;
  const Status status = plan({.kind = 1, .isShard = true}, program, made);
  ASSERT_TRUE(status.ok()) << status.message();
  made.visit(made.steps.front(), [&](const auto &op, const auto &view) {
    EXPECT_EQ(op.describe(program, view), "a reduce_scatter f32 of 1 tensor");
    EXPECT_EQ(op.bytes(view), 48);
    std::vector<Region> regions;
    op.results(program, view, regions);
    EXPECT_EQ(regions.size(), 1u);
  });
  std::vector<float> buffers[2] = {std::vector<float>(6, 1), std::vector<float>(6, 2)};
  Executor::Reports reports;
  ASSERT_TRUE(run(made, nullptr, buffers, reports).ok());
  EXPECT_EQ(buffers[1], std::vector<float>(6, 1));
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
  expect({.kind = 3}, ".kind 3 is unknown");
  expect({.sent = fb::DType::f64}, ".sent 1 is none that ranks add up to .dtype 0");
  expect({.kind = 2, .sent = fb::DType::bf16}, ".sent 3 is none that ranks add up to .dtype 0");
  expect({.dtype = fb::DType::f64, .sent = fb::DType::bf16},
         ".sent 3 is none that ranks add up to .dtype 1");
  expect({.sent = fb::DType::bf16}, ".operands[0] is not read");
  expect({.verdict = true, .sent = fb::DType::bf16}, ".verdict is of an all_reduce of one f32");
  expect({.isShard = true, .sent = fb::DType::bf16, .sums = 5}, "adds up 6 elements to 5 sums");
  expect({.verdict = true}, ".verdict is of an all_reduce of one f32");
  expect({.tensors = 1, .sizes = 1, .verdict = true},
         "command 0 is a verdict of 6 elements, not of one");
  expect({.kind = 1}, ".operands[0] is not read");
  expect({.kind = 2, .access = fb::Access::read}, ".operands[1] is not written");
  expect({.kind = 2, .tensors = 1, .sizes = 1}, ".operands: 1 are no pairs");
  expect({.dtype = fb::DType::bf16, .kind = 1}, ".dtype 3 is none that ranks add up");
  expect({.access = fb::Access::read}, ".operands[0] is not read and written");
  expect({.elements = 7}, "leaves buffer 0 of 24 bytes");
  expect({.elements = -1}, "has an extent of -1");
  expect({.tensors = 0, .sizes = 0}, ".operands is empty");
  expect({.sizes = 1}, ".sizes has 1 entries, not 2");
  expect({.kernel = true}, ".kernels: it runs none");
}
