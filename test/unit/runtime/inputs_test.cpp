// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of inputs that a batch does not tell.

#include "program_generated.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {
uint32_t addExpr(fb::ProgramT &program, fb::ExprKind kind, uint32_t a, uint32_t b,
                 int64_t value = 0) {
  program.exprs.push_back({kind, int32_t(a), int32_t(b), value});
  return uint32_t(program.exprs.size() - 1);
}
} // namespace

// No axis is the batch alone: all are 2 * batch - 3.
TEST(Inputs, SizesThatAnAxisIsMadeOf) {
  TemporaryFolder folder;
  TinyOptions options;
  options.editProgram = [](fb::ProgramT &program) {
    const uint32_t two = addExpr(program, fb::ExprKind::constant, 0, 0, 2);
    const uint32_t less = addExpr(program, fb::ExprKind::constant, 0, 0, -3);
    const uint32_t twice = addExpr(program, fb::ExprKind::mul, two, program.inputs[0]->shape[0]);
    for (auto &input : program.inputs)
      input->shape[0] = addExpr(program, fb::ExprKind::add, twice, less);
  };
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  std::unique_ptr<Session> session;
  ASSERT_TRUE(Session::create(package, {}, session).ok());
  auto message = [&](int64_t rows) {
    double loss = 0;
    TinyBatch batch(rows);
    return session->eval(batch.batch(), false, loss).message();
  };
  EXPECT_EQ(message(17), "");
  EXPECT_EQ(message(16), "input 'x', axis 0 ('2*batch + -3'): 16 is not its size for any whole "
                         "'batch'");
  EXPECT_EQ(message(1999), "input 'x', axis 0 ('2*batch + -3'): 1999 makes 'batch' 1001, which is "
                           "above the maximum 1000");
}

TEST(Inputs, SizesThatNobodyTells) {
  TemporaryFolder folder;
  auto make = [&](const TinyOptions &options = {}) {
    writeTinyPackage(folder / "m.tpk", options);
    std::shared_ptr<const Package> package;
    Status opened = Package::open(folder / "m.tpk", package);
    EXPECT_TRUE(opened.ok()) << opened.message();
    std::unique_ptr<Session> session;
    EXPECT_TRUE(Session::create(package, {}, session).ok());
    return session;
  };
  auto session = make();
  double loss = 0;
  Status status = session->eval({}, /*fillMissing=*/true, loss);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(),
            "input 'x' is not given, and its size 'batch' is not known from the others");
  // A size of "y" that no number of 64 bits is.
  TinyOptions options;
  options.editProgram = [](fb::ProgramT &program) {
    const uint32_t huge = addExpr(program, fb::ExprKind::constant, 0, 0, int64_t(1) << 62);
    program.inputs[2]->shape = {
        addExpr(program, fb::ExprKind::mul, program.inputs[0]->shape[0], huge)};
  };
  TinyBatch batch(16);
  status = make(options)->eval(batch.batch(), false, loss);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(), "input 'y', axis 0 ('batch*4611686018427387904'): its size cannot be "
                              "computed");
}
