// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening packages: good ones, and every way in which one can be damaged, newer, or hostile.

#include "format/hash.h"
#include "plan/counts.h"
#include "plan/plan_cache.h"
#include "session/estimate.h"
#include "tiny_package.h"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

Status open(const std::string &path) {
  std::shared_ptr<const Package> package;
  return Package::open(path, package);
}

void expectRefused(const TinyOptions &options, const std::string &message) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk", options);
  Status status = open(folder / "m.tpk");
  EXPECT_EQ(status.code(), Code::BadPackage) << message;
  EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("m.tpk'"), std::string::npos) << status.message();
}

/// A package with `from` in the manifest replaced (and its checksum made right again).
TinyOptions edited(const std::string &from, const std::string &to) {
  TinyOptions options;
  options.editManifest = [=](std::string &manifest) {
    size_t at = manifest.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    manifest.replace(at, from.size(), to);
  };
  return options;
}

} // namespace

TEST(Package, Opens) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  std::shared_ptr<const Package> package;
  Status status = Package::open(folder / "m.tpk", package);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(package->target(), "cpu:x86-64");
  EXPECT_EQ(package->lossOutput(), 0);
  EXPECT_EQ(package->batchSymbol(), 0);
  EXPECT_TRUE(package->step() && package->micro() && package->update() && package->eval());
}

TEST(Package, TwoAtOnceHaveTheirOwnKernels) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "a.tpk");
  std::shared_ptr<const Package> a, b;
  ASSERT_TRUE(Package::open(folder / "a.tpk", a).ok());
  ASSERT_TRUE(Package::open(folder / "a.tpk", b).ok());
  std::shared_ptr<const KernelLibrary> ofA, ofB, again;
  ASSERT_TRUE(a->kernels(ofA).ok() && b->kernels(ofB).ok() && a->kernels(again).ok());
  EXPECT_NE(ofA->kernel(0), ofB->kernel(0));
  EXPECT_EQ(ofA, again);
}

TEST(Package, CodeIsLoadedWithTheFirstSession) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  const std::string trace = folder / "trace";
  setenv("TRAINRT_TEST_TRACE", trace.c_str(), 1);
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  MemoryUse use;
  ASSERT_TRUE(estimateMemory(*package, {4}, 1, 1, use).ok());
  EXPECT_FALSE(std::filesystem::exists(trace));
  std::unique_ptr<Session> session;
  Status status = Session::create(package, {}, session);
  unsetenv("TRAINRT_TEST_TRACE");
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_TRUE(std::filesystem::exists(trace));
}

TEST(Package, CodeWithoutAKernelIsRefusedBySessions) {
  TemporaryFolder folder;
  TinyOptions options;
  options.missingKernel = true;
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  std::unique_ptr<Session> session;
  Status status = Session::create(package, {}, session);
  EXPECT_EQ(status.code(), Code::BadPackage);
  EXPECT_EQ(status.message(), "package '" + (folder / "m.tpk") +
                                  "': entry 'kernels/cpu-x86-64.so' has no kernel 'absent'");
}

TEST(Package, EveryFlippedByteIsFoundAndNamed) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  std::vector<unsigned char> good = readBytes(folder / "m.tpk");
  // The kernels are most of the file: every byte elsewhere, some of theirs.
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  const ZipEntry *kernels = package->zip().find("kernels/cpu-x86-64.so");
  for (size_t i = 0; i < good.size(); ++i) {
    if (i > kernels->offset + 64 && i < kernels->offset + kernels->size - 64 && i % 251)
      continue;
    std::vector<unsigned char> bytes = good;
    bytes[i] ^= 0x20;
    writeBytes(folder / "bad.tpk", bytes);
    Status status = open(folder / "bad.tpk");
    EXPECT_EQ(status.code(), Code::BadPackage) << "byte " << i << ": " << status.message();
    bool named = false;
    for (const char *name : {"manifest.json", "program.fb", "kernels/cpu-x86-64.so", "entry",
                             "end "
                             "record",
                             "director", "zip file"})
      named |= status.message().find(name) != std::string::npos;
    EXPECT_TRUE(named) << status.message();
  }
}

TEST(Package, DamagedEntriesAreNamed) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  const ZipEntry *kernels = package->zip().find("kernels/cpu-x86-64.so");
  std::vector<unsigned char> bytes = readBytes(folder / "m.tpk");
  bytes[kernels->offset + 100] ^= 1;
  writeBytes(folder / "bad.tpk", bytes);
  EXPECT_EQ(open(folder / "bad.tpk").message(),
            "package '" + (folder / "bad.tpk") +
                "': entry 'kernels/cpu-x86-64.so' is damaged: its checksum is not the one in "
                "manifest.json");
}

TEST(Package, PhasesAreChecked) {
  TinyOptions options;
  for (std::pair<int32_t, int32_t> wrong : {std::pair(2, 1), {-1, 2}, {0, 6}, {-2, -2}}) {
    options.phases = wrong;
    expectRefused(options, "function 'step': its forward ends at " + std::to_string(wrong.first));
  }
}

TEST(Package, TruncationsAreFound) {
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  std::vector<unsigned char> good = readBytes(folder / "m.tpk");
  for (size_t size = 0; size < good.size(); size += 97) {
    writeBytes(folder / "bad.tpk", {good.begin(), good.begin() + long(size)});
    EXPECT_EQ(open(folder / "bad.tpk").code(), Code::BadPackage) << size;
  }
  std::vector<unsigned char> longer = good;
  longer.push_back(0);
  writeBytes(folder / "bad.tpk", longer);
  EXPECT_EQ(open(folder / "bad.tpk").code(), Code::BadPackage);
  EXPECT_EQ(open(folder / "none.tpk").code(), Code::NotFound);
  EXPECT_EQ(open(folder.path).code(), Code::IoError);
}

TEST(Package, NewerVersionsAreRefused) {
  TinyOptions options;
  options.formatMajor = 2;
  expectRefused(options, "field 'format.major' is 2; this runtime reads up to 1");
  options = {};
  options.programMajor = 7;
  expectRefused(options, "version_major is 7; this runtime reads 3 to 5: use a newer runtime");
  options.programMajor = 1;
  expectRefused(options, "version_major is 1; this runtime reads 3 to 5: compile the model again");
}

TEST(Package, AbsolutePathsAreRefused) {
  TinyOptions options;
  options.weightsFile = "/etc/passwd";
  expectRefused(options, "is no path relative to the package");
}

TEST(Package, MissingEntriesAndFieldsAreNamed) {
  expectRefused(edited("\"checksums\": {", "\"checksums\": {\"extra\": \"0123456789abcdef\", "),
                "entry 'extra' is missing");
  expectRefused(edited("\"kind\": \"training\"", "\"kind\": \"magic\""), "field 'kind'");
  expectRefused(
      edited("\"name\": \"w\", \"dtype\": \"f32\"", "\"name\": \"w\", \"dtype\": \"f31\""),
      "field 'parameters[0].dtype': 'f31' is unknown");
  expectRefused(
      edited("\"name\": \"w\", \"dtype\": \"f32\"", "\"name\": \"w\", \"dtype\": \"f64\""),
      "'w' is f64, but f32 in program.fb");
  expectRefused(edited("\"name\": \"y\"", "\"name\": \"z\""), "no entry for 'y'");
  expectRefused(edited("\"shape\": [4]", "\"shape\": [5]"), "'table' has another shape");
  expectRefused(edited("\"length\": 16", "\"length\": 12"), "'table' have 12 bytes");
  expectRefused(edited("\"batch_symbol\": \"batch\"", "\"batch_symbol\": \"b\""), "batch_symbol");
  expectRefused(edited("\"path\": ", "\"pat\": "), "field 'files[0].path' is missing");
  expectRefused(edited("\"offset\": 12", "\"offset\": -12"),
                "field 'parameters[1].weights.offset'");
  expectRefused(edited("\"manifest\": \"0000", "\"manifest\": \"zzzz"), "is no checksum");
}

TEST(Package, BadProgramsAreRefused) {
  TinyOptions options;
  options.forwardKernel = 9;
  expectRefused(options, "commands[0].kernel is 9, but there are only 4");
  options = {};
  options.forwardKernel = 1;
  expectRefused(options, "kernel 'loss_and_gradient' takes 6 arguments");
  options = {};
  options.lastUse = 2;
  expectRefused(options, "outside of its lifetime [1, 2]");
  options.lastUse = 5;
  expectRefused(options, "lifetime [1, 5] is not within the 5 commands");
  options = {};
  options.gemmEpilogue = uint8_t(GemmEpilogue::Bias);
  expectRefused(options, "epilogue: only matmuls for cuda have one");
  options.gemmEpilogue = 9;
  expectRefused(options, "epilogue 9 is unknown");
}

TEST(Package, RandomDamageToTheProgramNeverCrashes) {
  // Behind the checksums, the verifier alone must stop it, or the program be harmless.
  TemporaryFolder folder;
  TinyOptions options;
  options.count.emplace();
  options.variant.emplace().conditions = {{Condition::Kind::FixedWherePadded, 0, 0, 0, 1, 0, 0},
                                          {Condition::Kind::RealAt, 0, UINT32_MAX, 0, 0, 0, 1}};
  options.variant->flopsOfCount = 10;
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  const ZipEntry *entry = package->zip().find("program.fb");
  std::vector<unsigned char> good(package->zip().data(*entry),
                                  package->zip().data(*entry) + entry->size);
  for (size_t i = 0; i < good.size(); ++i)
    for (unsigned char mask : {0x01, 0x7f, 0x80, 0xff}) {
      std::vector<unsigned char> bytes = good;
      bytes[i] ^= mask;
      Program program;
      if (!readProgram(bytes.data(), bytes.size(), program).ok())
        continue;
      PlanCache plans(4);
      for (const Function &function : program.functions) {
        const ExecutionPlan *plan;
        std::vector<int64_t> symbols(program.symbols.size(), 8);
        for (uint32_t symbol : function.batchCounts)
          symbols[symbol] = bucketOf(program.symbols[symbol], 3, 8);
        plans.choose(program, function, symbols);
        (void)plans.get(program, function, symbols, plan);
      }
    }
}

TEST(Package, RandomDamageToTheManifestNeverCrashes) {
  // Resealed, so that only the checks of the fields stand in the way.
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk");
  std::shared_ptr<const Package> package;
  ASSERT_TRUE(Package::open(folder / "m.tpk", package).ok());
  const std::string good = package->manifestText();
  for (size_t i = 0; i < good.size(); ++i)
    for (const char *other : {"0", "-", "[", "{", "\"", "null", ""}) {
      std::string text = good.substr(0, i) + other + good.substr(i + 1);
      sealManifest(text);
      Manifest manifest;
      (void)readManifest(text, manifest);
    }
}

// Both have right checksums: what they say of the same thing is compared.
TEST(Package, ManifestAndProgramAgree) {
  auto both = [](const std::string &from, const std::string &to, const std::string &message) {
    expectRefused(edited(from, to), "manifest.json: field '" + message);
  };
  both("\"trainable\": true", "\"trainable\": false",
       "parameters': 'w' is neither trainable nor updated, but function 'step' of program.fb "
       "writes to it");
  both("\"targets\": [\"cpu:x86-64\"]", "\"targets\": [\"cuda:sm_90\"]",
       "targets': 'cuda:sm_90', but program.fb is for cpu");
  both("\"min\": 1, \"max\": 1000", "\"min\": 1, \"max\": 2000",
       "symbols[0].max' of 'batch' is 2000, but 1000 in program.fb");
  both("\"divisor\": 1", "\"divisor\": 3", "symbols[0].divisor' of 'batch' is 3");
  both("\"input\": \"x\", \"axis\"", "\"input\": \"id\", \"axis\"",
       "symbols[0].input' of 'batch' is 'id', but 'x' in program.fb");
  both("\"symbols\": [", "\"symbols\": [{\"name\": \"a\"}, ",
       "symbols' has 2 entries, program.fb 1");
  both("\"shape\": [\"batch\", 3]", "\"shape\": [\"rows\", 3]",
       "inputs': 'x' has another shape than in program.fb");
  both("\"shape\": [\"batch\", 3]", "\"shape\": [7, 3]",
       "inputs': 'x' has another shape than in program.fb");
  both("\"outputs\": [", "\"outputs\": [{\"name\": \"more\", \"dtype\": \"f32\", \"shape\": []}, ",
       "outputs' has 3 entries, program.fb 2");
  both("\"state\": [", "\"state\": [{\"name\": \"more\", \"dtype\": \"f32\", \"shape\": []}, ",
       "state' has 3 entries, program.fb 2");
  both("\"loss\": \"loss\"", "\"loss\": \"cost\"",
       "outputs': the role of 'loss' is loss, but field 'loss' is 'cost'");
  both("\"kind\": \"training\"", "\"kind\": \"inference\"",
       "kind' is inference, but program.fb has functions that train");
  both("\"state\":", "\"functions\": [{\"name\": \"step\"}], \"state\":",
       "functions' has 1 entries, program.fb 5");
  const std::string functions =
      "\"functions\": [{\"name\": \"step\"}, {\"name\": \"micro\"}, {\"name\": "
      "\"update\"}, {\"name\": \"init\"}, {\"name\": \"eval\"";
  both("\"state\":", functions + ", \"variant_of\": \"step\"}], \"state\":",
       "functions[4].variant_of' of 'eval' is another in program.fb");
  both("\"state\":", functions + ", \"conditions\": [{\"kind\": \"binary\"}]}], \"state\":",
       "functions[4].conditions' of 'eval' are others in program.fb");
  TemporaryFolder folder;
  writeTinyPackage(folder / "m.tpk", edited("\"state\":", functions + "}], \"state\":"));
  Status status = open(folder / "m.tpk");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Package, HyperParametersAreInRange) {
  for (const char *value : {"-0.1", "1e39", "\"much\""})
    expectRefused(edited("\"lr\": 0.1", std::string("\"lr\": ") + value), "field 'optimizer.lr'");
  expectRefused(edited("\"weight_decay\": 0.0", "\"weight_decay\": -1"),
                "field 'optimizer.weight_decay': -1 is no value for it");
  expectRefused(edited("\"lr\": 0.1", "\"lr\": null"),
                "field 'optimizer.lr' is missing, but program.fb takes it");
  expectRefused(edited("\"clip_norm\": null", "\"clip_norm\": 1"),
                "field 'optimizer.clip_norm' is 1, but program.fb does not clip");
  expectRefused(edited("\"clip_norm\": null", "\"clip_norm\": null, \"accumulate\": 1.5"),
                "field 'optimizer.accumulate' is no integer");
  expectRefused(edited("\"clip_norm\": null", "\"clip_norm\": null, \"accumulate\": 0"),
                "field 'optimizer.accumulate' is not between");
  expectRefused(
      edited("\"clip_norm\": null", "\"clip_norm\": null, \"steps\": 9223372036854775807"),
      "field 'optimizer.steps'");
}
