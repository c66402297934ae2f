// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What micro-batches count for where the package cannot tell it.

#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

/// What a step of two micro-batches by tokens says with a package whose manifest is `edited`.
Status stepByTokens(const std::function<void(std::string &)> &edited) {
  TemporaryFolder folder;
  TinyOptions options;
  options.editManifest = edited;
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  std::unique_ptr<Session> session;
  EXPECT_TRUE(Package::open(folder / "m.tpk", package).ok());
  SessionOptions settings;
  settings.threads = 1;
  EXPECT_TRUE(Session::create(package, settings, session).ok());
  StepOptions step;
  step.accumulateBy = AccumulateBy::Tokens;
  StepResult result;
  const TinyBatch first(6), second(3, 2);
  return session->step({first.batch(), second.batch()}, step, result);
}

void replace(std::string &text, const std::string &from, const std::string &to) {
  ASSERT_NE(text.find(from), std::string::npos);
  text.replace(text.find(from), from.size(), to);
}

} // namespace

TEST(MicroBatches, ALossThatIsNoMeanHasNoTokens) {
  const Status status = stepByTokens({});
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("the loss is no quotient of sums over rows"), std::string::npos);
}

TEST(MicroBatches, AMeanOverRowsIsWeightedByThem) {
  EXPECT_TRUE(stepByTokens([](std::string &manifest) {
                replace(manifest, "\"loss\": \"loss\"",
                        "\"loss\": \"loss\", \"loss_is_mean\": true");
              }).ok());
}

TEST(MicroBatches, APackageOfBeforeIsCompiledAgain) {
  const Status status = stepByTokens([](std::string &manifest) {
    replace(manifest, "\"role\": \"output\"", "\"role\": \"weight\"");
  });
  EXPECT_EQ(status.code(), Code::Unsupported);
  EXPECT_NE(status.message().find("the package cannot weight micro-batches by tokens: a trainc of "
                                  "before made it; compile it again"),
            std::string::npos)
      << status.message();
}
