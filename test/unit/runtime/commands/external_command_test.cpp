// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of plug-ins in sessions: the tiny package's gradient of w is one of test/unit's
// plug-in, on the host and, as a kernel, on a GPU that is none.

#include "cuda_fixture.h"
#include "plan/command_info.h"
#include "plan/externals.h"
#include "plan/running_external.h"
#include "program_generated.h"

namespace {

/// What a test wants different of the command.
struct Call {
  std::string name = "weight_gradient";
  std::string entry = "plugins/tests." + std::string(externalProcessor) + ".so";
  bool launched = false;
  std::vector<uint8_t> dtypes = {0, 0, 0}, ranks = {2, 1, 1};
  uint32_t function = 0, argument = 0;
  uint8_t argumentKind = 0;
  int64_t threads = 32, blocks = 3, columns = 3;
  fb::Access result = fb::Access::write;
  std::function<void(fb::ProgramT &program)> edit = {};
};

/// The package with "step"'s gradient so.
TinyOptions calling(const Call &call) {
  TinyOptions options;
  if (!call.entry.empty())
    options.entries = {{call.entry, readBytes(TRAINRT_TEST_PLUGIN)}};
  options.editProgram = [call](fb::ProgramT &program) {
    auto constant = [&](int64_t value) {
      program.exprs.emplace_back(fb::ExprKind::constant, 0, 0, value);
      return uint32_t(program.exprs.size() - 1);
    };
    auto declared = std::make_unique<fb::ExternalFunctionT>();
    declared->plugin = "tests";
    declared->name = call.name;
    program.externals.push_back(std::move(declared));
    for (auto &function : program.functions) {
      if (function->name != "step")
        continue;
      fb::CommandT &command = *function->commands[3]; // of x, g_pred and the gradient
      // On the host a matmul, whose k is the batch.
      const uint32_t batch = command.sizes[command.op.type == fb::Op::Gemm ? 2 : 3];
      command.operands.resize(3);
      fb::ExternalT external;
      external.function = call.function;
      external.dtypes = call.dtypes;
      external.ranks = call.ranks;
      external.launched = call.launched;
      auto setting = [&](const char *name) {
        external.attributes.push_back(std::make_unique<fb::ExternalAttributeT>());
        external.attributes.back()->name = name;
        return external.attributes.back().get();
      };
      setting("factor")->floats = {1.0};
      setting("pads")->ints = {3, -4};
      setting("mode")->text = "sum";
      using fb::ArgumentKind;
      if (call.launched)
        external.arguments = {{ArgumentKind(call.argumentKind), call.argument, 0},
                              {ArgumentKind::tensor, 1, 0},
                              {ArgumentKind::tensor, 2, 0},
                              {ArgumentKind::size, 0, 0},
                              {ArgumentKind::f32, 0, 1.0}};
      command.op.Set(external);
      const fb::Operand &last = command.operands[2];
      command.operands[2] = {last.buffer(), last.offset(), call.result};
      const uint32_t one = constant(1);
      command.sizes = {batch, constant(call.columns), batch, constant(3)};
      if (call.launched)
        for (uint32_t size : {constant(call.blocks), one, one, constant(call.threads), one, one,
                              constant(0), batch})
          command.sizes.push_back(size);
      command.kernels.clear();
    }
    if (call.edit)
      call.edit(program);
  };
  return options;
}

class ExternalCommand : public CudaTest {
protected:
  Status openCpu(const Call &call) {
    writeTinyPackage(folder / "cpu.tpk", calling(call));
    return Package::open(folder / "cpu.tpk", cpu);
  }
  /// What is wrong with the package, with its session, or with a step of it; "" if nothing is.
  std::string fault(const Call &call) {
    Status status = openCpu(call);
    std::unique_ptr<Session> session;
    if (status.ok())
      status = Session::create(cpu, {}, session);
    StepResult result;
    TinyBatch batch(4);
    if (status.ok())
      status = session->step({batch.batch()}, {}, result);
    return status.message();
  }
  void expectFault(const Call &call, const std::string &text) {
    const std::string found = fault(call);
    EXPECT_NE(found.find(text), std::string::npos) << found;
  }
  std::shared_ptr<const Package> cpu;
};

} // namespace

TEST_F(ExternalCommand, ComputesOnTheHost) {
  auto expected = makeCpu();
  Status status = openCpu({});
  ASSERT_TRUE(status.ok()) << status.message();
  std::unique_ptr<Session> session;
  SessionOptions options;
  options.threads = 2;
  status = Session::create(cpu, options, session);
  ASSERT_TRUE(status.ok()) << status.message();
  for (int i = 0; i < 3; ++i) {
    TinyBatch batch(16, unsigned(i));
    StepResult a, b;
    status = session->step({batch.batch()}, {}, a);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(expected->step({batch.batch()}, {}, b).ok());
  }
  expectNear(values(*session), values(*expected));
}

TEST_F(ExternalCommand, NamesWhatRuns) {
  EXPECT_EQ(runningExternal(), nullptr);
  {
    const RunningExternal outer("a");
    const RunningExternal inner("b");
    EXPECT_STREQ(runningExternal(), "b");
  }
  EXPECT_EQ(runningExternal(), nullptr);
}

TEST_F(ExternalCommand, TellsErrorsOfTheFunction) {
  expectFault({.name = "refuses"},
              "function 'refuses' of the plug-in 'tests' (node "
              "'/model/Gather'): it has returned the error 7: no such weights");
  expectFault({.name = "throws"}, "it has thrown an exception of C++: the matrix is singular");
  expectFault({.name = "throws_a_number"}, "it has thrown an exception of C++");
}

TEST_F(ExternalCommand, RefusesWhatCannotBeLoaded) {
  expectFault({.name = "none"},
              "the plug-in 'tests' (node '/model/Gather') has no function 'none'");
  expectFault({.entry = ""},
              "entry 'plugins/tests." + std::string(externalProcessor) +
                  ".so', the code of the plug-in 'tests' (node '/model/Gather'), is missing");
  expectFault({.entry = "plugins/tests.mips.so"},
              "the plug-in 'tests' (node '/model/Gather') is for mips; this CPU is " +
                  std::string(externalProcessor) +
                  ": compile with a plug-in that has a library for it");
  // Kernels are a shared object, but not a plug-in.
  TinyOptions options = calling({});
  options.entries.front().second = readBytes(TRAINRT_TEST_NO_PLUGIN);
  writeTinyPackage(folder / "cpu.tpk", options);
  std::unique_ptr<Session> session;
  ASSERT_TRUE(Package::open(folder / "cpu.tpk", cpu).ok());
  const Status status = Session::create(cpu, {}, session);
  EXPECT_NE(
      status.message().find(
          "the plug-in 'tests' (node '/model/Gather') is of version 0 of trainrt/plugin.h; this "
          "runtime calls version 1"),
      std::string::npos)
      << status.message();
}

TEST(SharedObject, ExplainsWhatTheLoaderSays) {
  const std::string own = "/proc/self/fd/7";
  const std::pair<std::string, std::string> cases[] = {
      {own + ": undefined symbol: cblas_sgemm",
       "it needs 'cblas_sgemm', which none of the libraries has that it was linked with: link the "
       "one that does (cc -l...), and compile the model again"},
      {"libblas.so.3: cannot open shared object file: No such file or directory",
       "it needs libblas.so.3, which is not on this machine: install that, name its folder in "
       "LD_LIBRARY_PATH, or link it statically and compile the model again"},
      {own + ": cannot open shared object file: No such file or directory",
       "/proc, by which the loader reads it, is not mounted here: mount it (mount -t proc proc "
       "/proc)"},
      {"/lib/libm.so.6: version `GLIBC_2.99' not found (required by " + own + ")",
       "/lib/libm.so.6: version `GLIBC_2.99' not found (required by it): it was built on a newer "
       "system: build it on one as old as this, and compile the model again"},
      {own + ": cannot enable executable stack as shared object requires: Invalid argument",
       "cannot enable executable stack as shared object requires: Invalid argument: link it "
       "with -z noexecstack, and compile the model again"},
      {own + ": failed to map segment from shared object",
       "failed to map segment from shared object: the system refuses code that is loaded from "
       "memory: allow it to this process (SELinux: execmem)"},
      {own + ": file too short", "file too short"}};
  for (const auto &[told, wanted] : cases)
    EXPECT_EQ(explainLoader(told, own), wanted);
}

TEST_F(ExternalCommand, RefusesDamagedOnes) {
  expectFault({.function = 1}, ".function is 1, but there are only 1");
  expectFault({.dtypes = {0, 99, 0}}, ".dtypes: 99 is unknown");
  expectFault({.ranks = {2, 1}}, " has 3 operands, 3 types and 2 ranks");
  expectFault({.ranks = {2, 1, 2}}, ".sizes has 4 entries, not 5");
  expectFault({.result = fb::Access::update}, "it is neither read nor written");
  expectFault({.columns = -3}, "has an extent of -3");
  expectFault({.columns = int64_t(1) << 61}, "leaves buffer");
  expectFault({.launched = true}, "only a GPU runs a plug-in's kernels");
  auto names = [](fb::ProgramT &program) {
    for (auto &function : program.functions)
      if (function->name == "step")
        function->commands[3]->kernels = {0};
  };
  expectFault({.edit = names}, ".kernels: it runs none");
}

TEST_F(ExternalCommand, LaunchesKernelsOfAGpu) {
  Call call{.name = "gradient_kernel", .entry = "plugins/tests.sm_90.cubin", .launched = true};
  open(calling(call));
  auto gpu = make();
  auto expected = makeCpu();
  for (int i = 0; i < 3; ++i) {
    TinyBatch batch(16, unsigned(i));
    StepResult a, b;
    Status status = gpu->step({batch.batch()}, {}, a);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(expected->step({batch.batch()}, {}, b).ok());
  }
  expectNear(values(*gpu), values(*expected));
}

TEST_F(ExternalCommand, RefusesKernelsThatTheGpuDoesNotRun) {
  auto expect = [&](const Call &call, const std::string &text) {
    TinyOptions options = calling(call);
    options.cuda = true;
    writeTinyPackage(folder / "m.tpk", options);
    Status status = Package::open(folder / "m.tpk", package);
    std::unique_ptr<Session> session;
    if (status.ok())
      status = Session::create(package, {}, session);
    StepResult result;
    TinyBatch batch(4);
    if (status.ok())
      status = session->step({batch.batch()}, {}, result);
    EXPECT_NE(status.message().find(text), std::string::npos) << status.message();
  };
  Call call{.name = "gradient_kernel", .entry = "plugins/tests.sm_80.cubin", .launched = true};
  expect(call, "the plug-in 'tests' (node '/model/Gather') has no code that GPU 0 (Fake GPU) of "
               "architecture sm_90 runs, but for sm_80; compile with a plug-in that has PTX or a "
               "cubin for it");
  call.entry = "plugins/tests.sm_90.cubin";
  call.name = "none";
  expect(call, "the plug-in 'tests' (node '/model/Gather') has no kernel 'none' (of C++ it is "
               "extern \"C\")");
  call.name = "gradient_kernel";
  call.threads = 4096;
  expect(call, "is to run with 4096 threads a block, but can have 1024");
  call.threads = int64_t(1) << 40;
  expect(call, " launches a grid, blocks or shared memory of 1099511627776");
  call.threads = 0;
  expect(call, "is to run with blocks of 0 x 1 x 1 threads");
  call.threads = 32;
  call.blocks = 0;
  expect(call, "is to run with 0 x 1 x 1 blocks, but its result 2 has elements");
  call.blocks = 3;
  // Another command calls what this one launches.
  call.edit = [](fb::ProgramT &program) {
    for (auto &function : program.functions)
      if (function->name == "step") {
        auto called = std::make_unique<fb::CommandT>(*function->commands[3]);
        auto *external = called->op.AsExternal();
        external->launched = false;
        external->arguments.clear();
        called->sizes.resize(4);
        function->commands.insert(function->commands.begin() + 4, std::move(called));
        for (auto &buffer : function->buffers)
          ++buffer->last;
      }
  };
  expect(call, "'gradient_kernel' of the plug-in 'tests' is launched as a kernel and called as a "
               "function in C: give one of them another name");
  call.edit = {};
  call.argument = 3;
  expect(call, ".arguments[0] is tensor 3 of 3");
  call.argumentKind = 9;
  expect(call, ".arguments[0].kind 9 is unknown");
  // A function in C gets the stream.
  expect({.name = "refuses"}, "function 'step', function 'refuses' of the plug-in 'tests' (node "
                              "'/model/Gather'): it has returned the error 7: on a stream");
}
