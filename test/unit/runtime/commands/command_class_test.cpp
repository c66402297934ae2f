// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What commands are summed up by where time is told, and the work that is told of them.

#include "plan/command_info.h"
#include "program_generated.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

/// A plan of "step" for four rows; commands: forward, loss and gradient, copy, matmul, update.
struct Planned {
  explicit Planned(const TinyOptions &options) {
    const std::vector<unsigned char> bytes = makeTinyProgram(options);
    Status status = readProgram(bytes.data(), bytes.size(), program);
    EXPECT_TRUE(status.ok()) << status.message();
    status = makePlan(program, *program.function("step"), {4}, plan);
    EXPECT_TRUE(status.ok()) << status.message();
  }
  std::vector<CommandClass> classes() const {
    std::vector<CommandClass> list;
    for (size_t i = 0; i < plan.steps.size(); ++i)
      list.push_back(commandClass(plan, i));
    return list;
  }
  Program program;
  ExecutionPlan plan;
};

fb::CommandT &commandOf(fb::ProgramT &program, size_t number) {
  return *program.functions[0]->commands[number];
}

/// Gives the launches of "step" forms.
TinyOptions withForms(fb::KernelForm forward, fb::KernelForm loss, fb::KernelForm update) {
  TinyOptions options;
  options.editProgram = [=](fb::ProgramT &program) {
    commandOf(program, 0).op.AsLaunch()->form = forward;
    commandOf(program, 1).op.AsLaunch()->form = loss;
    commandOf(program, 4).op.AsLaunch()->form = update;
  };
  return options;
}

} // namespace

TEST(CommandClasses, KernelsGoByTheirFormAndPlace) {
  using enum CommandClass;
  // Of a package of before, which tells no forms.
  EXPECT_EQ(Planned({}).classes(), (std::vector{Other, Other, Copy, Matmul, Other}));
  TinyOptions options =
      withForms(fb::KernelForm::pointwise, fb::KernelForm::row, fb::KernelForm::pointwise);
  // What goes over a parameter element by element and writes it is an update.
  EXPECT_EQ(Planned(options).classes(), (std::vector{Pointwise, Row, Copy, Matmul, Optimizer}));
  // A sum over a batch that updates at its end is mostly the sum; a matmul in a kernel is one.
  options = withForms(fb::KernelForm::product, fb::KernelForm::scan, fb::KernelForm::column);
  EXPECT_EQ(Planned(options).classes(), (std::vector{Matmul, Scan, Copy, Matmul, Column}));
  // Behind the backward pass all kernels are.
  options.phases = std::pair(1, 4);
  EXPECT_EQ(Planned(options).classes(), (std::vector{Matmul, Scan, Copy, Matmul, Optimizer}));
  EXPECT_STREQ(nameOf(Optimizer), "optimizer");
  EXPECT_STREQ(nameOf(Other), "other");
}

TEST(CommandClasses, WorkOfLaunchesIsThePackages) {
  // Without it all that lies in their operands: x, w, table, id, pred.
  constexpr int64_t all = 4 * 12 + 12 + 16 + 4 * 8 + 4 * 4;
  EXPECT_EQ(commandBytes(Planned({}).plan, 0), all);
  EXPECT_EQ(commandFlops(Planned({}).plan, 0), 0);
  TinyOptions options;
  options.editProgram = [](fb::ProgramT &program) {
    program.exprs.emplace_back(fb::ExprKind::constant, 0, 0, 7);
    const auto seven = uint32_t(program.exprs.size() - 1);
    const auto sizes = commandOf(program, 0).sizes;
    commandOf(program, 0).costs = {sizes[0], seven}; // the batch, and 7
  };
  const Planned planned(options);
  EXPECT_EQ(commandBytes(planned.plan, 0), 4);
  EXPECT_EQ(commandFlops(planned.plan, 0), 7);
  const char *type = nullptr;
  EXPECT_TRUE(commandShape(planned.plan, 0, type).empty());
  EXPECT_STREQ(type, "");
  // Sizes of the next command lie behind it.
  EXPECT_EQ(commandBytes(planned.plan, 1), commandBytes(Planned({}).plan, 1));
}

TEST(CommandClasses, WorkOfMatmuls) {
  // gradient[3, 1] += x^T[3, 4] gpred[4, 1]
  const Planned planned({});
  EXPECT_EQ(commandFlops(planned.plan, 3), 2 * 3 * 1 * 4);
  EXPECT_EQ(commandBytes(planned.plan, 3), 4 * (3 * 4 + 4 + 2 * 3));
  const char *type = nullptr;
  const CommandShape expected = {{"batch", 1}, {"m", 3}, {"n", 1}, {"k", 4}};
  CommandShape shape = commandShape(planned.plan, 3, type);
  EXPECT_STREQ(type, "f32");
  ASSERT_EQ(shape.size(), 7u);
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_STREQ(shape[i].first, expected[i].first);
    EXPECT_EQ(shape[i].second, expected[i].second);
  }
  EXPECT_STREQ(shape[4].first, "a_transposed");
  EXPECT_EQ(shape[4].second, 1);
}
