// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A good manifest with one field changed, its checksum made right again.

#include "tiny_package.h"

#include <gtest/gtest.h>

using namespace trainrt;
using namespace trainrt::test;

namespace {

void expectRefused(const std::string &from, const std::string &to, const std::string &message,
                   TinyOptions options = {}) {
  TemporaryFolder folder;
  options.editManifest = [&, before = options.editManifest](std::string &manifest) {
    if (before)
      before(manifest);
    const size_t at = manifest.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    manifest.replace(at, from.size(), to);
  };
  writeTinyPackage(folder / "m.tpk", options);
  std::shared_ptr<const Package> package;
  Status status = Package::open(folder / "m.tpk", package);
  EXPECT_EQ(status.code(), Code::BadPackage) << message;
  EXPECT_NE(status.message().find("m.tpk': manifest.json: " + message), std::string::npos)
      << message << "\n"
      << status.message();
}

} // namespace

TEST(DamagedManifest, Sections) {
  expectRefused("\"format\": {\"major\": 1, \"minor\": 0}", "\"format\": 1",
                "field 'format' is missing or no object");
  expectRefused("\"major\": 1", "\"major\": -1", "field 'format.major' is missing or no count");
  expectRefused("\"major\": 1", "\"major\": 2",
                "field 'format.major' is 2; this runtime reads up to 1: use a newer runtime, or "
                "compile the model with a matching trainc");
  expectRefused("\"checksums\"", "\"checksum\"", "field 'checksums' is missing or no object");
  expectRefused("\"manifest\": \"0000", "\"manifesto\": \"0000",
                "field 'checksums.manifest' is missing or no checksum (16 hex digits)");
  expectRefused("\"kind\": \"training\"", "\"kind\": 7", "field 'kind' is missing or no string");
  expectRefused("\"state\": [", "\"state\": [7, ", "field 'state[0]' is no object");
}

TEST(DamagedManifest, Tensors) {
  expectRefused("\"shape\": [4]", "\"size\": [4]",
                "field 'parameters[1].shape' is missing or no list");
  expectRefused("\"shape\": [4]", "\"shape\": [-4]",
                "field 'parameters[1].shape': -4 is no extent");
  expectRefused("\"used_in\"", "\"tokens\": [{\"role\": \"embed\", \"pad\": 0}], \"used_in\"",
                "field 'inputs[0].tokens[0].pad': the input holds floats, no ids");
  const std::string table = "\"shape\": [4],";
  auto quantized = [&](const std::string &shape) {
    return table + "\"quantized\": {\"format\": \"nf4\", \"dtype\": \"f32\"" + shape + "},";
  };
  expectRefused(table, quantized(""),
                "field 'parameters[1].quantized.shape' is missing or no list");
  expectRefused(table, quantized(", \"shape\": [1.5]"),
                "field 'parameters[1].quantized.shape': 1.5 is no extent");
  expectRefused("\"name\": \"sgd\"", "\"name\": \"sgd\", \"distribute\": \"zero9\"",
                "field 'optimizer.distribute': 'zero9' is unknown; use a newer runtime");
  expectRefused("\"weight_decay\": 0.0", "\"weight_decay\": -1",
                "field 'optimizer.weight_decay': -1 is no value for it (it must be finite and not "
                "negative)");
  TinyOptions options;
  options.embedded = true;
  expectRefused("\"offset\": 12", "\"offset\": 13",
                "field 'parameters': the weights of 'table' lie outside of entry 'weights.bin'",
                options);
}

TEST(DamagedManifest, AgreesWithTheProgram) {
  TinyOptions options;
  options.editManifest = [](std::string &manifest) {
    const std::string role = ", \"role\": \"loss\"";
    manifest.erase(manifest.find(role), role.size());
  };
  expectRefused("\"loss\": \"loss\"", "\"loss\": \"cost\"",
                "field 'loss': 'cost' is no output of program.fb", options);
  options = {};
  options.count.emplace();
  expectRefused("\"differs\": -100", "\"differs\": -100, \"counts\": \"runs\"",
                "field 'symbols[1].counts': 'labelled' counts otherwise in program.fb", options);
  expectRefused("\"differs\": -100", "\"differs\": -100, \"run\": \"world\"",
                "field 'symbols[1].run' of 'labelled' is 'world', but '' in program.fb", options);
  for (bool cuda : {false, true}) {
    options = {};
    options.cuda = cuda;
    const std::string entry = cuda ? options.cudaKernels : options.cpuKernels;
    options.editManifest = [&](std::string &manifest) {
      const size_t at = manifest.find("\"" + entry + "\"");
      manifest.erase(at, manifest.find(',', at) + 1 - at);
    };
    expectRefused("{", "{",
                  "field 'checksums." + entry +
                      "' is missing: no code is loaded without its checksum",
                  options);
  }
}

TEST(DamagedManifest, Adapters) {
  auto lora = [](const std::string &fields, const std::string &message) {
    expectRefused("\"options\": {}",
                  "\"options\": {}, \"lora\": {\"rank\": 1, \"alpha\": 2, \"dropout\": 0, " +
                      fields + "}",
                  "field 'lora." + message);
  };
  const std::string modules =
      "\"modules\": [{\"path\": \"p\", \"weight\": \"table\", \"a\": \"a\", \"b\": \"b\", "
      "\"rank\": 1, \"alpha\": 2, \"scale\": 2";
  lora("\"bias\": \"none\", \"trained_biases\": [\"w\"]",
       "trained_biases' is not empty, but 'bias' is none");
  lora("\"bias\": \"none\", \"modules_to_save\": [7]",
       "modules_to_save' holds 7, which is no name");
  lora("\"bias\": \"none\", " + modules + ", \"magnitude\": \"m\"}]",
       "modules[0].magnitude' is there, but 'dora' is not set");
  TinyOptions options;
  options.extra = {{"a", DType::F32, {1, 3}, ""}, {"b", DType::F32, {4, 1}, ""}};
  expectRefused("\"options\": {}",
                "\"options\": {}, \"lora\": {\"rank\": 1, \"alpha\": 2, \"dropout\": 0, "
                "\"bias\": \"none\", " +
                    modules + "}]}",
                "field 'lora.modules[0].weight': 'table' is f32 [4], its adapter is for [4, 3]",
                options);
}
