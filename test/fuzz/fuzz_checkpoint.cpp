// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: a checkpoint of the tiny model: parameters.safetensors, optimizer.safetensors and
// state.json as parts. Checksums in state.json are made right, since no mutation finds those; an
// input that begins with "!" keeps its own.

#include "format/hash.h"
#include "scratch.h"
#include "session/checkpoint.h"
#include "tiny_package.h"

#include <cstring>
#include <filesystem>

using namespace trainrt;
using namespace trainc::fuzz;

namespace {

/// A session of the tiny model, trained by nobody.
Session &session() {
  static std::unique_ptr<Session> instance = [] {
    test::writeTinyPackage(scratchPath("tiny.tpk"));
    std::shared_ptr<const Package> package;
    require(Package::open(scratchPath("tiny.tpk"), package).ok(), "the tiny package opens");
    SessionOptions options;
    options.threads = 1;
    std::unique_ptr<Session> created;
    require(Session::create(package, options, created).ok(), "a session of the tiny package");
    return created;
  }();
  return *instance;
}

void setChecksum(std::string &text, const std::string &name, std::string_view bytes) {
  std::string key = "\"" + name + "\": \"";
  size_t at = text.find(key);
  if (at != text.npos && text.size() - at >= key.size() + 8)
    text.replace(at + key.size(), 8, hex64(crc32(bytes.data(), bytes.size())).substr(8));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string_view input(reinterpret_cast<const char *>(data), size);
  bool keep = input.starts_with("!");
  auto parts = splitParts(keep ? input.substr(1) : input, 3);
  std::string state(parts[2]);
  if (!keep) {
    setChecksum(state, "parameters.safetensors", parts[0]);
    setChecksum(state, "optimizer.safetensors", parts[1]);
    std::string key = "\"state.json\": \"";
    if (size_t at = state.find(key); at != state.npos && state.size() - at >= key.size() + 8)
      state.replace(at + key.size(), 8, "00000000");
    setChecksum(state, "state.json", std::string(state));
  }
  std::filesystem::create_directories(scratchPath("ck/step-3"));
  writeScratch("ck/step-3/parameters.safetensors", parts[0]);
  writeScratch("ck/step-3/optimizer.safetensors", parts[1]);
  writeScratch("ck/step-3/state.json", state);
  ArrayView before;
  require(session().parameter(0, before).ok(), "a parameter can be read");
  std::vector<char> kept(before.bytes);
  std::memcpy(kept.data(), before.data, kept.size());
  CheckpointInfo info;
  Status status = loadCheckpoint(session(), scratchPath("ck"), info);
  ArrayView after;
  require(session().parameter(0, after).ok(), "a parameter can still be read");
  if (status.ok())
    require(info.step >= 0, "a loaded checkpoint has a step");
  else
    require(std::memcmp(kept.data(), after.data, kept.size()) == 0,
            "a checkpoint that fails to load changes nothing");
  session().warnings().clear();
  return 0;
}
