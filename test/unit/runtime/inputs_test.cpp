// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sizes of inputs that a batch does not tell.

#include "program_generated.h"
#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

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
    auto add = [&](const fb::Expr &expr) {
      program.exprs.push_back(expr);
      return uint32_t(program.exprs.size() - 1);
    };
    const uint32_t huge = add({fb::ExprKind::constant, 0, 0, int64_t(1) << 62});
    program.inputs[2]->shape = {
        add({fb::ExprKind::mul, int32_t(program.inputs[0]->shape[0]), int32_t(huge), 0})};
  };
  TinyBatch batch(16);
  status = make(options)->eval(batch.batch(), false, loss);
  EXPECT_EQ(status.code(), Code::BadData);
  EXPECT_EQ(status.message(), "input 'y', axis 0 ('batch*4611686018427387904'): its size cannot be "
                              "computed");
}
