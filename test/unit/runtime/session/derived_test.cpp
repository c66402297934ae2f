// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a program makes of parameters and keeps: here a copy of `w`, which the forward reads. Where
// it is not made anew in time, sessions are told apart from those without one.

#include "program_generated.h"
#include "session/checkpoint.h"
#include "session/session_fixture.h"

using namespace trainrt;
using namespace trainrt::test;

namespace {

/// Of the buffers of "step" and "micro", and of "update".
constexpr uint32_t wOfStep = 3, wOfUpdate = 0;

/// `zero`: the expression of where both begin.
std::unique_ptr<fb::CommandT> copy(uint32_t from, uint32_t to, uint32_t size, uint32_t zero) {
  auto command = std::make_unique<fb::CommandT>();
  command->op.Set(fb::CopyT());
  command->operands = {{from, zero, fb::Access::read}, {to, zero, fb::Access::write}};
  command->sizes = {size};
  return command;
}

/// `w` of the tiny package, which the forward reads, is a copy of it.
void keepCopy(fb::ProgramT &program) {
  program.version_major = programMajorDerived;
  auto tensor = std::make_unique<fb::TensorT>();
  tensor->name = "w";
  tensor->dtype = fb::DType::f32;
  tensor->shape = program.parameters[0]->shape;
  program.derived.push_back(std::move(tensor));
  const auto add = [](fb::FunctionT &function, uint32_t w) {
    auto buffer = std::make_unique<fb::BufferT>(*function.buffers[w]);
    buffer->space = fb::Space::derived;
    function.buffers.push_back(std::move(buffer));
    return uint32_t(function.buffers.size() - 1);
  };
  uint32_t zero = 0, bytes = 0;
  for (auto &function : program.functions) {
    const bool isUpdate = function->name == "update";
    if (!isUpdate && function->name != "step" && function->name != "micro")
      continue;
    const uint32_t w = isUpdate ? wOfUpdate : wOfStep, kept = add(*function, w);
    bytes = function->buffers[w]->bytes;
    if (!isUpdate) {
      fb::Operand &read = function->commands.front()->operands[1];
      EXPECT_EQ(read.buffer(), w);
      zero = read.offset();
      read = {kept, zero, fb::Access::read};
    }
    if (function->name != "micro")
      function->commands.push_back(copy(w, kept, bytes, zero));
  }
  auto derive = std::make_unique<fb::FunctionT>();
  derive->name = "derive";
  for (fb::Space space : {fb::Space::parameter, fb::Space::derived}) {
    derive->buffers.push_back(std::make_unique<fb::BufferT>());
    derive->buffers.back()->space = space;
    derive->buffers.back()->index = 0;
    derive->buffers.back()->bytes = bytes;
  }
  derive->commands.push_back(copy(0, 1, bytes, zero));
  program.functions.push_back(std::move(derive));
}

class Derived : public SessionTest {
protected:
  /// Sessions of a package without and with the copy.
  void SetUp() override {
    makePackage({});
    plain = make();
    TinyOptions options;
    options.editProgram = keepCopy;
    makePackage(options);
    kept = make();
  }

  /// The same with both, and the same parameters after it.
  template <typename Action> void both(const Action &action) {
    for (Session *session : {plain.get(), kept.get()})
      action(*session);
    EXPECT_EQ(w(*plain), w(*kept));
  }

  static void step(Session &session, size_t batches = 1) {
    TinyBatch batch(8);
    StepResult result;
    Status status = session.step(std::vector(batches, batch.batch()), {}, result);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  std::unique_ptr<Session> plain, kept;
};

} // namespace

TEST_F(Derived, FollowsTheParameters) {
  both([](Session &session) { step(session); });
  both([](Session &session) { step(session); });
  EXPECT_NE(w(*kept), std::vector<float>(initialW, initialW + 3));
  // Of micro-batches, and of parameters that a caller sets.
  both([](Session &session) { step(session, 2); });
  const float other[3] = {3, -1, 0.5f};
  both([&](Session &session) {
    ASSERT_TRUE(session.setParameter(0, {other, DType::F32, {3}, 12}).ok());
    step(session);
  });
}

TEST_F(Derived, GradientsAndCheckpointsHaveIt) {
  auto gradient = [](Session &session) {
    TinyBatch batch(8);
    StepResult result;
    EXPECT_TRUE(session.gradients({batch.batch()}, {}, result).ok());
    ArrayView array;
    EXPECT_TRUE(session.gradient(0, array).ok());
    return floats(array);
  };
  const float other[3] = {3, -1, 0.5f};
  for (Session *session : {plain.get(), kept.get()})
    ASSERT_TRUE(session->setParameter(0, {other, DType::F32, {3}, 12}).ok());
  EXPECT_EQ(gradient(*plain), gradient(*kept));
  // A checkpoint has the parameters alone.
  CheckpointInfo info;
  step(*kept);
  ASSERT_TRUE(saveCheckpoint(*kept, folder / "saved", 1, "", info).ok());
  step(*kept);
  const std::vector<float> expected = w(*kept);
  step(*kept);
  Status status = loadCheckpoint(*kept, folder / "saved", info);
  ASSERT_TRUE(status.ok()) << status.message();
  step(*kept);
  EXPECT_EQ(w(*kept), expected);
}

TEST_F(Derived, IsMadeForEachStepOfExposedParameters) {
  kept->exposeParameters();
  step(*kept);
  Session::Place place;
  ASSERT_TRUE(kept->place(Session::Value::Parameter, 0, place).ok());
  float *written = static_cast<float *>(const_cast<void *>(place.array.data));
  ASSERT_TRUE(plain->setParameter(0, {w(*kept).data(), DType::F32, {3}, 12}).ok());
  const float other[3] = {3, -1, 0.5f};
  std::copy(other, other + 3, written);
  TinyBatch batch(8);
  StepResult result, wanted;
  ASSERT_TRUE(kept->step({batch.batch(), batch.batch()}, {}, result).ok());
  ASSERT_TRUE(plain->setParameter(0, {other, DType::F32, {3}, 12}).ok());
  ASSERT_TRUE(plain->step({batch.batch(), batch.batch()}, {}, wanted).ok());
  EXPECT_EQ(result.loss, wanted.loss);
}

TEST_F(Derived, IsOfItsParameter) {
  const Program &program = package->program();
  EXPECT_EQ(bufferName(program, package->derive()->buffers[1]),
            "the rounded copy of parameter 'w'");
}

TEST_F(Derived, CountsAsMemoryOfParameters) {
  EXPECT_EQ(kept->memory().parameters, plain->memory().parameters + 64);
}

TEST_F(Derived, IsCheckedAsAllElseIs) {
  const auto refused = [&](const std::function<void(fb::ProgramT &)> &edit,
                           const std::string &message) {
    TinyOptions options;
    options.editProgram = [&](fb::ProgramT &program) {
      keepCopy(program);
      edit(program);
    };
    writeTinyPackage(folder / "bad.tpk", options);
    std::shared_ptr<const Package> opened;
    EXPECT_NE(Package::open(folder / "bad.tpk", opened).message().find(message), std::string::npos)
        << Package::open(folder / "bad.tpk", opened).message();
  };
  refused([](fb::ProgramT &program) { program.functions.pop_back(); },
          "function 'step' uses derived values, but no function 'derive' makes them");
  refused([](fb::ProgramT &program) { program.functions.back()->buffers[1]->index = 1; }, "index");
  refused(
      [](fb::ProgramT &program) {
        for (auto &function : program.functions)
          if (function->name == "eval")
            function->buffers[1]->space = fb::Space::derived;
      },
      "function 'eval' uses derived values, which only training keeps");
  refused(
      [](fb::ProgramT &program) {
        for (fb::Operand &operand : program.functions.back()->commands[0]->operands)
          operand = {1 - operand.buffer(), operand.offset(), operand.access()};
      },
      "function 'derive' writes to parameter 'w'");
}
