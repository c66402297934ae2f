// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A good program with one thing changed: what is said of it where it is read, where it is compared
// with the manifest, and where it is planned for a batch.

#include "plan/execution_plan.h"
#include "plan/kernels.h"
#include "program_generated.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

using Edit = std::function<void(fb::ProgramT &)>;

/// An expression of the program that is `value`.
uint32_t constant(fb::ProgramT &program, int64_t value) {
  program.exprs.emplace_back(fb::ExprKind::constant, 0, 0, value);
  return uint32_t(program.exprs.size() - 1);
}
fb::FunctionT &function(fb::ProgramT &program, const std::string &name = "step") {
  for (auto &each : program.functions)
    if (each->name == name)
      return *each;
  std::abort();
}
/// Of "step": launches of "forward" and "loss_and_gradient", a copy, a product, the update.
enum { Forward, Loss, Zeros, Product, Update };
fb::CommandT &command(fb::ProgramT &program, size_t number) {
  return *function(program).commands[number];
}

void expectSays(const Status &status, const std::string &message) {
  EXPECT_FALSE(status.ok()) << message;
  EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
}

/// The program alone is enough to see it.
void expectUnread(const Edit &edit, const std::string &message, TinyOptions options = {}) {
  options.editProgram = edit;
  const std::vector<unsigned char> bytes = makeTinyProgram(options);
  Program program;
  Status status = readProgram(bytes.data(), bytes.size(), program);
  EXPECT_EQ(status.code(), Code::BadPackage) << message;
  expectSays(status, "program.fb: " + message);
}

/// Read, but no plan for a batch of 4.
void expectUnplanned(const Edit &edit, const std::string &message, const std::string &name = "step",
                     TinyOptions options = {}) {
  options.editProgram = edit;
  const std::vector<unsigned char> bytes = makeTinyProgram(options);
  Program program;
  Status status = readProgram(bytes.data(), bytes.size(), program);
  ASSERT_TRUE(status.ok()) << status.message();
  ExecutionPlan plan;
  expectSays(makePlan(program, *program.function(name), {4, 8}, plan), message);
}

/// The package is needed to see it.
void expectRefused(TinyOptions options, const Edit &edit, const std::string &message) {
  TemporaryFolder folder;
  options.editProgram = edit;
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  Status status = Package::open(folder / "m.tpk", package);
  EXPECT_EQ(status.code(), Code::BadPackage) << message;
  expectSays(status, "m.tpk': " + message);
}

void remove(fb::ProgramT &program, const std::string &name) {
  std::erase_if(program.functions, [&](const auto &each) { return each->name == name; });
}

} // namespace

TEST(DamagedProgram, IsNoProgram) {
  Program program;
  const unsigned char text[] = "a text of some length";
  for (uint64_t size : {uint64_t(7), uint64_t(sizeof text)})
    expectSays(readProgram(text, size, program),
               "program.fb: it is not a program (no file identifier)");
}

TEST(DamagedProgram, ExpressionsAreAligned) {
  std::vector<unsigned char> bytes = makeTinyProgram();
  const fb::Program *source = fb::GetProgram(bytes.data());
  const auto *table = reinterpret_cast<const flatbuffers::Table *>(source);
  const size_t field = size_t(table->GetAddressOf(fb::Program::VT_EXPRS) - bytes.data());
  // A list without elements, which the structure allows at every fourth byte.
  for (size_t at = field + 4; at + 8 <= bytes.size(); at += 4) {
    if (at % 8 != 0 || flatbuffers::ReadScalar<uint32_t>(&bytes[at]) != 0)
      continue;
    flatbuffers::WriteScalar(&bytes[field], uint32_t(at - field));
    Program program;
    expectSays(readProgram(bytes.data(), bytes.size(), program),
               "program.fb: exprs are not aligned");
    return;
  }
  FAIL() << "no list";
}

TEST(DamagedProgram, Symbols) {
  expectUnread([](fb::ProgramT &program) { program.symbols[0]->min = 1001; },
               "symbols[0] 'batch': min 1001, max 1000 are no range of sizes");
  expectUnread([](fb::ProgramT &program) { program.symbols[0]->source_axis = 1; },
               "symbols[0] 'batch': that axis of input 'x' is neither the symbol itself nor a "
               "multiple of it and a number");
  // Of which one size could be that of several values, or of none.
  for (auto [kind, value] : {std::pair(fb::ExprKind::floordiv, int64_t(2)),
                             {fb::ExprKind::mul, int64_t(-2)},
                             {fb::ExprKind::mul, int64_t(0)}})
    expectUnread(
        [kind, value](fb::ProgramT &program) {
          const int32_t first = int32_t(program.exprs.size());
          program.exprs.push_back({fb::ExprKind::constant, 0, 0, value});
          program.exprs.push_back({kind, int32_t(program.inputs[0]->shape[0]), first, 0});
          program.inputs[0]->shape[0] = uint32_t(first) + 1;
        },
        "symbols[0] 'batch': that axis of input 'x' is neither the symbol itself nor a multiple of "
        "it and a number");
  expectUnread([](fb::ProgramT &program) { program.symbols[0]->run = fb::RunSymbol::world; },
               "symbols[0] 'batch' is of the run and of an input");
  expectUnread([](fb::ProgramT &program) { program.symbols[0]->run = fb::RunSymbol(3); },
               "symbols[0] 'batch'.run 3 is unknown");
  auto count = [](int64_t min, int32_t input, const std::string &message) {
    TinyOptions options;
    options.count = TinyCount{.min = min, .input = input};
    expectUnread({}, "symbols[1] 'labelled'" + message, options);
  };
  count(9, 1, ": min 9 and max 9223372036854775807 of a count are no multiples of 8");
  count(8, 0, ".differs is -100, but input 'x' holds floats, of which only zeros are told apart");
}

TEST(DamagedProgram, Tensors) {
  expectUnread([](fb::ProgramT &program) { program.parameters[0]->shape[0] = 0; },
               "parameters[0] 'w'.shape is not constant");
  for (int64_t unit : {int64_t(-1), int64_t(1) << 60})
    expectUnread([unit](fb::ProgramT &program) { program.state[0]->shard_unit = unit; },
                 "state[0] 'w/exp_avg'.shard_unit is " + std::to_string(unit));
  expectUnread([](fb::ProgramT &program) { program.parameters[0]->shard_unit = -4; },
               "parameters[0] 'w'.shard_unit is -4");
  expectUnread([](fb::ProgramT &program) { program.inputs[0]->shard_unit = 4; },
               "inputs[0] 'x'.shard_unit is 4");
  expectUnread([](fb::ProgramT &program) { program.state[0]->gradient_unit = 4; },
               "state[0] 'w/exp_avg'.gradient_unit is 4");
  expectUnread([](fb::ProgramT &program) { program.value_rules[0]->input = 0; },
               "value_rules[0].input 'x' holds no integers");
  expectUnread([](fb::ProgramT &program) { program.value_rules[0]->begin = {9999}; },
               "value_rules[0].begin");
  expectUnread(
      [](fb::ProgramT &program) {
        program.value_rules[0]->begin = program.value_rules[0]->end = {0, 0};
      },
      "value_rules[0] is about a part of other axes than 'id' has");
  expectUnread([](fb::ProgramT &program) { function(program).outputs.clear(); },
               "function 'step' has a buffer of output 'loss', which is not among its outputs");
}

TEST(DamagedProgram, Commands) {
  auto unread = [](size_t number, const std::function<void(fb::CommandT &)> &edit,
                   const std::string &message) {
    expectUnread([&](fb::ProgramT &program) { edit(command(program, number)); },
                 "function 'step'.commands[" + std::to_string(number) + "]" + message);
  };
  auto access = [](fb::CommandT &command, size_t operand, fb::Access access) {
    const fb::Operand &old = command.operands[operand];
    command.operands[operand] = fb::Operand(old.buffer(), old.offset(), access);
  };
  unread(Zeros, [](fb::CommandT &copy) { copy.op.Reset(); }, ".op is of an unknown kind");
  unread(Zeros, [](fb::CommandT &copy) { copy.kernels = {0}; }, ".kernels: it runs none");
  unread(
      Zeros, [](fb::CommandT &copy) { copy.operands.push_back(copy.operands[0]); },
      ".operands has 3 entries, not 2");
  unread(Zeros, [](fb::CommandT &copy) { copy.sizes.push_back(0); }, ".sizes has 2 entries, not 1");
  unread(
      Zeros, [&](fb::CommandT &copy) { access(copy, 0, fb::Access::write); },
      ".operands[0] writes to a read-only buffer");
  unread(Forward, [](fb::CommandT &launch) { launch.kernels.clear(); }, ".kernels is empty");
  unread(
      Forward, [](fb::CommandT &launch) { launch.kernels.push_back(1); },
      ".kernels: 'loss_and_gradient' cannot replace 'forward'");
  unread(
      Forward, [](fb::CommandT &launch) { launch.op.AsLaunch()->form = fb::KernelForm(7); },
      ".form 7 is unknown");
  unread(Forward, [](fb::CommandT &launch) { launch.costs = {0}; }, ".costs has 1 entries, not 2");
  unread(Forward, [](fb::CommandT &launch) { launch.costs = {0, 1 << 30}; }, ".costs");
  unread(
      Forward, [&](fb::CommandT &launch) { access(launch, 1, fb::Access::none); },
      ".operands[1]: it is not told how kernel 'forward' uses it");
  unread(
      Product, [](fb::CommandT &product) { product.op.AsGemm()->dtype = fb::DType::i8; },
      ".dtype 4 is none that a matmul has");
  unread(
      Product, [](fb::CommandT &product) { product.op.AsGemm()->dtype = fb::DType::f16; },
      ".dtype: the CPU multiplies matrices of f32, or of bf16 into f32");
  unread(
      Product,
      [](fb::CommandT &product) {
        product.op.AsGemm()->dtype = product.op.AsGemm()->c_dtype = fb::DType::bf16;
      },
      ".dtype: the CPU multiplies matrices of f32, or of bf16 into f32");
  unread(
      Product, [](fb::CommandT &product) { product.op.AsGemm()->c_dtype = fb::DType::bf16; },
      ".c_dtype: only plain matmuls of 16-bit types have another, f32");
  unread(
      Product, [](fb::CommandT &product) { product.sizes.push_back(0); },
      ".sizes: 10 are not those of a matmul with up to 16 batch axes");
}

TEST(DamagedProgram, SizesOfABatch) {
  auto size = [](size_t number, size_t which, int64_t value) {
    return [=](fb::ProgramT &program) {
      command(program, number).sizes[which] = constant(program, value);
    };
  };
  const std::string where = "program.fb: function 'step': command ";
  expectUnplanned(size(Forward, 0, -1), where + "0 has negative work or scratch (with batch = 4)");
  expectUnplanned(size(Forward, 2, -1), where + "0 has negative work or scratch");
  expectUnplanned(
      [](fb::ProgramT &program) {
        command(program, Forward).costs.assign(2, constant(program, -1));
      },
      where + "0 has negative costs");
  expectUnplanned(size(Product, 0, -3), where + "3 has an extent of -3");
  expectUnplanned(size(Zeros, 0, 13), where + "2 leaves buffer 10 of 12 bytes");
  expectUnplanned(
      [](fb::ProgramT &program) {
        const fb::Operand &old = command(program, Forward).operands[1];
        command(program, Forward).operands[1] =
            fb::Operand(old.buffer(), constant(program, 13), old.access());
      },
      where + "0 leaves buffer 3 of 12 bytes");
  auto buffer = [](size_t number, int64_t bytes) {
    return [=](fb::ProgramT &program) {
      function(program).buffers[number]->bytes = constant(program, bytes);
    };
  };
  expectUnplanned(buffer(3, 16), "function 'step': buffer 3 has 16 bytes, its tensor 12");
  expectUnplanned(buffer(12, INT64_MAX), "these sizes are too large (batch = 4)");
  // Each of the outputs is possible, all of them are not.
  expectUnplanned(
      [](fb::ProgramT &program) {
        program.outputs[1]->shape[0] = constant(program, int64_t(1) << 58);
        function(program, "eval").outputs.assign(9, 1);
        auto &buffers = function(program, "eval").buffers;
        std::erase_if(buffers, [](const auto &each) {
          return each->space == fb::Space::output && each->index == 0;
        });
        function(program, "eval").commands.clear();
        for (auto &each : buffers)
          each->space = each->space == fb::Space::arena ? fb::Space::output : each->space;
        for (auto &each : buffers)
          each->index = each->space == fb::Space::output ? 1 : each->index;
      },
      "the outputs are too large", "eval");
}

TEST(DamagedProgram, GroupsOfKernels) {
  // The launch of "gradient" as a group of one.
  auto group = [](int64_t work) {
    return [=](fb::ProgramT &program) {
      fb::CommandT &launch = command(program, Product);
      launch.op.AsLaunch()->members = 1;
      launch.sizes.push_back(constant(program, work));
    };
  };
  TinyOptions options;
  options.cuda = true;
  expectUnplanned(group(-1), "command 3 has a member with impossible work", "step", options);
  expectUnplanned(group(2), "command 3 has work 1, its members 2", "step", options);
}

TEST(DamagedProgram, AgreesWithThePackage) {
  expectRefused(
      {}, [](fb::ProgramT &program) { program.hypers[0]->name = "beta"; },
      "program.fb: hypers: 'beta' (f32) is unknown to this runtime; use a newer one");
  TinyOptions options;
  auto replace = [&](const std::string &from, const std::string &to) {
    options = {};
    options.editManifest = [=](std::string &manifest) {
      const size_t at = manifest.find(from);
      ASSERT_NE(at, std::string::npos) << from;
      manifest.replace(at, from.size(), to);
    };
  };
  replace("\"nonfinite\", \"dtype\": \"i32\"", "\"nonfinite\", \"dtype\": \"i64\"");
  expectRefused(
      options, [](fb::ProgramT &program) { program.state[1]->dtype = fb::DType::i64; },
      "program.fb: state 'nonfinite' is not one i32");
  expectRefused(
      {},
      [](fb::ProgramT &program) {
        auto input = std::make_unique<fb::BufferT>(*function(program).buffers[0]);
        function(program, "update").buffers.push_back(std::move(input));
      },
      "program.fb: function 'update' reads inputs");
  replace("\"clip_norm\": null", "\"clip_norm\": null, \"accumulate\": 2");
  expectRefused(
      options, [](fb::ProgramT &program) { remove(program, "micro"), remove(program, "update"); },
      "manifest.json: field 'optimizer.accumulate' is 2, but program.fb lacks 'micro' and "
      "'update'");
  options = {};
  options.inference = true;
  expectRefused(
      options, [](fb::ProgramT &program) { remove(program, "eval"); },
      "program.fb: functions: there is no 'eval'");
  // An operand that is absent may have any number.
  TemporaryFolder folder;
  options = {};
  options.editProgram = [](fb::ProgramT &program) {
    command(program, Product).operands[3] = fb::Operand(1 << 30, 1 << 30, fb::Access::none);
  };
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  Status status = Package::open(folder / "m.tpk", package);
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(DamagedProgram, KernelsThatAreNoLibrary) {
  std::unique_ptr<KernelLibrary> library;
  expectSays(KernelLibrary::load("no library", 10, {}, library), "cannot be loaded: ");
  TinyOptions options;
  options.cpuKernels = "kernels/cpu-unknown.so";
  expectRefused(options, {}, "it has no CPU kernels; compile with --target cpu");
}

TEST(DamagedProgram, TheWeightOfALossIsOneNumber) {
  expectRefused(
      {},
      [](fb::ProgramT &program) {
        auto copy = std::make_unique<fb::FunctionT>(function(program, "eval"));
        copy->name = "loss_weight";
        program.functions.push_back(std::move(copy));
      },
      "program.fb: function 'loss_weight' does not compute one f32, what the loss is divided by");
}
