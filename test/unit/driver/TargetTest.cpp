// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every target of the list: its name is one of packages, and what --target reads and what a
// reproducer writes are each other's inverse.
#include "trainc/Target/Target.h"
#include "program_generated.h"
#include "gtest/gtest.h"

using namespace trainc;

namespace {

TEST(TargetTest, EachHasAPlaceInPackages) {
  std::vector<std::string> inPackages;
  for (trainrt::fb::Target target : trainrt::fb::EnumValuesTarget())
    inPackages.push_back(trainrt::fb::EnumNameTarget(target));
  for (const Target *target : getTargets()) {
    EXPECT_EQ(findTarget(target->name()), target);
    EXPECT_TRUE(llvm::is_contained(inPackages, target->name())) << target->name().str();
    EXPECT_EQ(target->traits.memory.alignment & (target->traits.memory.alignment - 1), 0);
    EXPECT_GE(target->traits.memory.alignment, 64) << "vectors of kernels";
  }
  EXPECT_EQ(findTarget("tpu"), nullptr);
}

TEST(TargetTest, SpellingsAreReadAsTheyWereWritten) {
  for (const char *text : {"cpu", "cpu:x86-64-v3", "cpu:x86-64-v4", "cpu:armv8.2-a",
                           "cpu:x86-64-v3,armv8.2-a", "cuda:sm_90", "cuda:sm_80,sm_120"}) {
    TargetChoice choice;
    EXPECT_EQ(parseTarget(text, choice), "");
    EXPECT_EQ(choice.target->spell(choice.processors), text);
  }
}

/// What a package says that it was compiled for, whatever a later release means by "all".
TEST(TargetTest, AllIsSpelledAsTheListThatItMeans) {
  for (const char *text : {"cuda", "cuda:all"}) {
    TargetChoice choice;
    EXPECT_EQ(parseTarget(text, choice), "");
    EXPECT_EQ(choice.target->spell(choice.processors),
              "cuda:sm_80,sm_86,sm_89,sm_90,sm_100,sm_120");
  }
}

TEST(TargetTest, AnUnknownOneIsToldTheKnown) {
  TargetChoice choice;
  const std::string known = "expected auto, cpu, cpu:x86-64-v3, cpu:x86-64-v4, cpu:armv8.2-a, "
                            "cpu:native, cuda, cuda:sm_NN[,sm_NN...], cuda:all or cuda:native";
  for (std::string text : {"tpu", "", "cpux", "cudax", "cpu:", "cuda:", "cpu:sm_90", "x:cuda",
                           "cpu:x86-64-v3,tpu", "cpu:armv8.2-a,"})
    EXPECT_EQ(parseTarget(text, choice), "'" + text + "': " + known);
  for (std::string text : {"cuda:sm_70", "cuda:sm_90a", "cuda:sm_90,,sm_80", "cuda:90"})
    EXPECT_EQ(parseTarget(text, choice),
              "'" + text + "': expected architectures from sm_80 on, such as cuda:sm_80,sm_90");
  for (std::string text : {"sm_85", "sm_130", "sm_890"})
    EXPECT_EQ(parseTarget("cuda:sm_90," + text, choice),
              "'cuda:sm_90," + text + "': there is no architecture " + text +
                  " that this compiler knows; --target cuda is for all GPUs from sm_80 on, newer "
                  "ones by PTX");
}

/// Where no device is, the host.
TEST(TargetTest, AutoTakesADeviceThatIsHere) {
  TargetChoice choice;
  EXPECT_EQ(parseTarget("auto", choice), "");
  EXPECT_EQ(choice.processors, choice.target->getProcessorsHere());
  for (const Target *target : getTargets())
    if (target != &getHostTarget() && target != choice.target)
      EXPECT_TRUE(choice.target != &getHostTarget() || target->getProcessorsHere().empty());
}

} // namespace
