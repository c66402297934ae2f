// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: a package. The input is a whole file; or, with a part mark in it, a manifest, a
// program and tuning choices, around which a package with right checksums is made, since no
// mutation finds those.
// What opens is planned and described for several sizes.

#include "format/hash.h"
#include "format/zip.h"
#include "plan/command_info.h"
#include "plan/execution_plan.h"
#include "plan/package.h"
#include "scratch.h"
#include "session/estimate.h"
#include "session/session.h"
#include "tiny_package.h"

using namespace trainrt;
using namespace trainc::fuzz;

namespace {

/// `text` with the 16 digits behind `key` replaced.
void setChecksum(std::string &text, const std::string &key, const std::string &digits) {
  size_t at = text.find(key);
  if (at != text.npos && text.size() - at - key.size() >= 16)
    text.replace(at + key.size(), 16, digits);
}

std::string assemble(std::string_view input) {
  auto parts = splitParts(input, 3);
  std::string manifest(parts[0]);
  setChecksum(manifest, "\"program.fb\": \"", hex64(fnv1a64(parts[1].data(), parts[1].size())));
  setChecksum(manifest, "\"manifest\": \"", std::string(16, '0'));
  test::sealManifest(manifest);
  std::string path = scratchPath("sealed.tpk");
  ZipWriter zip;
  require(zip.create(path).ok() &&
              zip.add("manifest.json", manifest.data(), manifest.size()).ok() &&
              zip.add("program.fb", parts[1].data(), parts[1].size()).ok() &&
              (parts[2].empty() || zip.add(tuningEntry, parts[2].data(), parts[2].size()).ok()) &&
              zip.finish().ok(),
          "a package can be written");
  return path;
}

void describe(const Program &program, const ExecutionPlan &plan) {
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    (void)commandName(program, plan, i);
    (void)commandBytes(plan, i);
    std::vector<Region> results;
    commandResults(program, plan, i, results);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  bool sealed = input.find("\n--part--\n") != input.npos;
  std::string path = sealed ? assemble(input) : writeScratch("whole.tpk", input);
  std::shared_ptr<const Package> package;
  if (Status status = Package::open(path, package); !status.ok()) {
    require(status.message().find(path) != std::string::npos, "an error names the file");
    return 0;
  }
  const Program &program = package->program();
  for (int64_t symbol : {int64_t(1), int64_t(7), int64_t(1) << 40}) {
    std::vector<int64_t> symbols(program.symbols.size(), symbol);
    for (unsigned batches : {0u, 1u, 2u}) {
      MemoryUse use;
      (void)estimateMemory(*package, symbols, batches, 2, use);
    }
    for (const Function &function : program.functions) {
      ExecutionPlan plan;
      if (makePlan(program, function, symbols, plan).ok())
        describe(program, plan);
    }
  }
  return 0;
}
