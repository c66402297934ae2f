// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command Attention on the CPU: how it is read from a program, planned and run. (What it
// computes is tested with the library call.)

#include "device/cpu/attention.h"
#include "device/cpu/executor.h"
#include "format/program.h"
#include "plan/command_info.h"
#include "program_generated.h"

#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <random>

using namespace trainrt;

namespace {

constexpr int64_t heads = 4, keyHeads = 2, rows = 30, depth = 8, width = 16, segments = 3;
constexpr int32_t offsets[segments + 1] = {0, 11, 11, 28};

/// What a test wants different.
struct Options {
  fb::DType dtype = fb::DType::f32;
  bool segmented = true, bias = false, biasGradient = false;
  fb::Target target = fb::Target::cpu;
  int64_t batch = 1, longest = 17, segments = ::segments;
  double ratio = 0.1;
  int64_t keyHeads = ::keyHeads;
  int64_t columns = rows, before = 6;
};

/// The buffers of the program, by the commands' numbers.
enum Number { Q, K, V, O, Stats, DO, DQ, DK, DV, Offsets, Positions, Seed, count };
constexpr int64_t floatsOf[] = {rows * heads * depth,
                                rows * keyHeads * depth,
                                rows * keyHeads * width,
                                rows * heads * width,
                                rows *heads,
                                rows * heads * width,
                                rows * heads * depth,
                                rows * keyHeads * depth,
                                rows * keyHeads * width,
                                segments + 1,
                                2 * rows,
                                4};

/// A program of one function, an attention and its gradient, all of its operands [rows, heads,
/// columns].
std::vector<unsigned char> makeProgram(const Options &options) {
  flatbuffers::FlatBufferBuilder builder;
  std::vector<fb::Expr> exprs;
  auto constant = [&](int64_t value) {
    exprs.push_back({fb::ExprKind::constant, 0, 0, value});
    return uint32_t(exprs.size() - 1);
  };
  std::vector<flatbuffers::Offset<fb::Buffer>> buffers;
  for (int64_t floats : floatsOf)
    buffers.push_back(
        fb::CreateBuffer(builder, fb::Space::arena, -1, constant(floats * 4), 0, 1, 0));
  const uint32_t zero = constant(0);
  std::vector<flatbuffers::Offset<fb::Command>> commands;
  for (bool backward : {false, true}) {
    std::vector<uint32_t> sizes;
    auto add = [&](std::initializer_list<int64_t> values) {
      for (int64_t value : values)
        sizes.push_back(constant(value));
    };
    auto strides = [&](int64_t numHeads, int64_t columns) {
      add({rows * numHeads * columns, columns, numHeads * columns});
    };
    auto absent = [&](size_t count) { sizes.insert(sizes.end(), count, zero); };
    add({options.batch, heads, options.keyHeads, rows, options.columns, depth, width});
    strides(heads, depth), strides(keyHeads, depth), strides(keyHeads, width),
        strides(heads, width);
    absent(4); // the bias's
    if (backward)
      strides(heads, width), strides(heads, depth), strides(keyHeads, depth),
          strides(keyHeads, width);
    else
      absent(12);
    if (options.segmented)
      add({options.segments, options.longest});
    else
      absent(2);
    using fb::Access;
    const Access forward = backward ? Access::read : Access::write,
                 optional = backward ? Access::read : Access::none,
                 gradient = backward ? Access::write : Access::none,
                 segmented = options.segmented ? Access::read : Access::none;
    std::vector<fb::Operand> operands = {
        {Q, zero, Access::read},     {K, zero, Access::read},
        {V, zero, Access::read},     {O, zero, forward},
        {Stats, zero, forward},      {Q, zero, options.bias ? Access::read : Access::none},
        {Seed, zero, Access::read},  {DO, zero, optional},
        {DQ, zero, gradient},        {DK, zero, gradient},
        {DV, zero, gradient},        {Offsets, zero, segmented},
        {Positions, zero, segmented}};
    // Packages without it have an operand less.
    if (options.biasGradient)
      operands.push_back({Q, zero, gradient});
    auto body = fb::CreateAttention(builder, backward, options.dtype, fb::DType::f32, 0.25f, 0.1f,
                                    /*causal=*/true, options.ratio, options.before);
    const uint32_t node = 0;
    auto operandVector = builder.CreateVectorOfStructs(operands);
    auto sizeVector = builder.CreateVector(sizes);
    commands.push_back(fb::CreateCommand(builder, fb::Op::Attention, body.Union(), operandVector,
                                         sizeVector, 0, builder.CreateVector(&node, 1)));
  }
  auto function = fb::CreateFunction(builder, builder.CreateString("eval"),
                                     builder.CreateVector(buffers), builder.CreateVector(commands),
                                     builder.CreateVector(std::vector<uint32_t>()));
  auto exprVector = builder.CreateVectorOfStructs(exprs);
  auto nodes = builder.CreateVectorOfStrings({"/attention"});
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

Status read(const Options &options, Program &program) {
  const std::vector<unsigned char> bytes = makeProgram(options);
  return readProgram(bytes.data(), bytes.size(), program);
}

/// The contents of the buffers; the results are NaNs.
struct Contents {
  Contents() {
    std::mt19937 random(3);
    std::normal_distribution<float> normal;
    for (int i = 0; i < count; ++i) {
      floats[i].assign(size_t(floatsOf[i]), NAN);
      if (i <= V || i == DO)
        for (float &x : floats[i])
          x = normal(random);
    }
    std::memcpy(floats[Offsets].data(), offsets, sizeof offsets);
    for (int64_t t = 0; t < rows; ++t)
      positions()[t] = 5, positions()[rows + t] = int32_t(2 * t);
    const int64_t seed[2] = {99, 0};
    std::memcpy(floats[Seed].data(), seed, sizeof seed);
  }
  int32_t *positions() { return reinterpret_cast<int32_t *>(floats[Positions].data()); }
  std::vector<void *> buffers() {
    std::vector<void *> all;
    for (std::vector<float> &data : floats)
      all.push_back(data.data());
    return all;
  }
  template <typename T> AttentionMatrix<T> matrix(Number number, int64_t columns) {
    const int64_t row = floatsOf[number] / rows;
    return {floats[number].data(), columns, row};
  }
  std::vector<float> floats[count];
};

} // namespace

TEST(AttentionCommand, RunsTheLibraryCall) {
  Program program;
  Status status = read({}, program);
  ASSERT_TRUE(status.ok()) << status.message();
  ExecutionPlan plan;
  status = makePlan(program, program.functions.front(), {}, plan);
  ASSERT_TRUE(status.ok()) << status.message();
  ThreadPool pool(2);
  Executor executor(pool);
  Contents found, expected;
  Executor::Reports reports;
  Executor::Run run = {};
  run.buffers = found.buffers();
  status = executor.run(plan, run, {}, reports);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(reports.badIndex, nullptr);

  AttentionArgs args;
  args.heads = heads, args.keyHeads = keyHeads, args.rows = rows;
  args.depth = depth, args.width = width;
  args.q = expected.matrix<const float>(Q, depth);
  args.k = expected.matrix<const float>(K, depth);
  args.v = expected.matrix<const float>(V, width);
  args.segments = segments, args.longest = 17;
  args.offsets = offsets;
  args.positions = expected.positions();
  args.scale = 0.25f, args.dropout = 0.1, args.band = {6, 0};
  args.seed = reinterpret_cast<const int64_t *>(expected.floats[Seed].data());
  float *stats = expected.floats[Stats].data();
  ASSERT_EQ(attentionForwardF32({args, expected.matrix<float>(O, width), stats}, pool), -1);
  ASSERT_EQ(
      attentionBackwardF32({args, stats, expected.matrix<const float>(DO, width),
                            expected.matrix<float>(DQ, depth), expected.matrix<float>(DK, depth),
                            expected.matrix<float>(DV, width)},
                           pool),
      -1);
  for (Number number : {O, Stats, DQ, DK, DV})
    EXPECT_EQ(std::memcmp(found.floats[number].data(), expected.floats[number].data(),
                          found.floats[number].size() * sizeof(float)),
              0)
        << number;
}

TEST(AttentionCommand, TellsItsWork) {
  Program program;
  ASSERT_TRUE(read({}, program).ok());
  ExecutionPlan plan;
  ASSERT_TRUE(makePlan(program, program.functions.front(), {}, plan).ok());
  // Three segments of ten rows, each of which sees itself and six rows before it: 10 * 10 pairs
  // without 9 + 8 + ... behind the diagonal and 3 + 2 + 1 before the window.
  constexpr int64_t pairs = segments * (100 - 45 - 6);
  EXPECT_EQ(commandFlops(plan, 0), 2 * pairs * heads * (depth + width));
  EXPECT_EQ(commandFlops(plan, 1), 5 * pairs * heads * (depth + width));
  int64_t floats = 0;
  for (int number : {Q, K, V, O, Stats, Offsets, Positions})
    floats += floatsOf[number];
  EXPECT_EQ(commandBytes(plan, 0), floats * 4);
  for (int number : {DO, DQ, DK, DV})
    floats += floatsOf[number];
  EXPECT_EQ(commandBytes(plan, 1), floats * 4);
  EXPECT_EQ(commandClass(plan, 1), CommandClass::Attention);
  const char *type = nullptr;
  const CommandShape shape = commandShape(plan, 1, type);
  EXPECT_STREQ(type, "f32");
  auto numberOf = [&](std::string_view name) {
    for (const auto &[key, value] : shape)
      if (key == name)
        return value;
    return int64_t(-1);
  };
  EXPECT_EQ(numberOf("kv_heads"), keyHeads);
  EXPECT_EQ(numberOf("segments"), segments);
  EXPECT_EQ(numberOf("backward"), 1);
}

TEST(AttentionBand, CountsThePairsThatSeeEachOther) {
  for (int64_t length : {1, 2, 5, 9})
    for (int64_t before : {-1, 0, 1, 3, 20})
      for (int64_t after : {-1, 0, 2}) {
        const AttentionBand band = AttentionBand::of(before, after);
        int64_t seen = 0;
        for (int64_t row = 0; row < length; ++row)
          seen += band.end(row, length) - band.first(row);
        EXPECT_EQ(band.pairs(double(length)), double(seen)) << length << " " << before;
      }
  for (int64_t rows : {1, 3, 6})
    for (int64_t columns : {1, 4, 6, 8}) {
      int64_t seen = 0;
      for (int64_t row = 0; row < rows; ++row)
        seen += std::max<int64_t>(0, row + 1 + columns - rows);
      EXPECT_EQ(AttentionBand::causalPairs(double(rows), double(columns)), double(seen));
    }
}

TEST(AttentionCommand, NamesTheNodeOfWrongOffsets) {
  Program program;
  ASSERT_TRUE(read({}, program).ok());
  ExecutionPlan plan;
  ASSERT_TRUE(makePlan(program, program.functions.front(), {}, plan).ok());
  ThreadPool pool(1);
  Executor executor(pool);
  Contents contents;
  const int32_t wrong[] = {0, 11, 9, 28};
  std::memcpy(contents.floats[Offsets].data(), wrong, sizeof wrong);
  Executor::Reports reports;
  Executor::Run run = {};
  run.buffers = contents.buffers();
  ASSERT_TRUE(executor.run(plan, run, {}, reports).ok());
  EXPECT_EQ(reports.badIndex, plan.steps.front().command);
  EXPECT_EQ(reports.position, 2);
  EXPECT_EQ(reports.value, 9);
}

TEST(AttentionCommand, RefusesWhatTheTargetCannotDo) {
  auto message = [](const Options &options) {
    Program program;
    Status status = read(options, program);
    ExecutionPlan plan;
    if (status.ok())
      status = makePlan(program, program.functions.front(), {}, plan);
    return status.ok() ? "" : status.message();
  };
  Program program;
  ASSERT_TRUE(read({}, program).ok());
  const Function &function = program.functions.front();
  const Command &backward = function.commands[1];
  EXPECT_EQ(
      std::get<Attention>(backward.op).describe(program, {function, backward, {}, {}, {}, {}, {}}),
      "an attention's backward");
  EXPECT_NE(message({.segmented = false})
                .find("attention without segments is a command of CUDA packages only"),
            std::string::npos);
  EXPECT_NE(message({.dtype = fb::DType::bf16}).find("none of attention on this target"),
            std::string::npos);
  EXPECT_NE(message({.bias = true}).find("attention over segments has none"), std::string::npos);
  EXPECT_NE(message({.biasGradient = true}).find(".d_bias: there is no bias"), std::string::npos);
  EXPECT_NE(message({.dtype = fb::DType::bf16,
                     .segmented = false,
                     .bias = true,
                     .biasGradient = true,
                     .target = fb::Target::cuda,
                     .before = -1})
                .find(".d_bias: the bias is not one of all samples with its own heads and rows"),
            std::string::npos);
  EXPECT_NE(message({.batch = 2}).find("segments"), std::string::npos);
  EXPECT_NE(message({.longest = 0}).find("0 rows in a batch of 1"), std::string::npos);
  EXPECT_NE(message({.ratio = 0.2}).find("ratio is 0.2 with a dropout of 0.1"), std::string::npos);
  EXPECT_NE(message({.keyHeads = 3}).find("command 0 has 4 heads of q over 3"), std::string::npos);
  EXPECT_NE(message({.before = -2}).find("sees -2 columns before and -1 after a row's own"),
            std::string::npos);
  EXPECT_NE(message({.columns = rows + 1}).find(" has a window, and 30 rows for 31 columns"),
            std::string::npos);
  // One more offset than the buffer holds.
  EXPECT_NE(message({.segments = segments + 1}), "");
}
