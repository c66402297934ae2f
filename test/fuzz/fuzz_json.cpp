// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fuzz target: JSON files that have no target of their own: the index of a checkpoint in parts, the
// configuration of an adapter, and where in the data a run is.

#include "cli/setup.h"
#include "export/adapter_config.h"
#include "format/json.h"
#include "scratch.h"
#include "session/parameters/weights_file.h"

using namespace trainrt;
using namespace trainc::fuzz;

namespace {
Lora adapters() {
  Lora lora;
  lora.rank = 4;
  lora.alpha = 8;
  lora.bias = "none";
  Lora::Module &module = lora.modules.emplace_back();
  module.path = "model.layers.0.q_proj";
  module.rank = 4;
  module.alpha = 8;
  module.scale = 2;
  return lora;
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const std::string text(reinterpret_cast<const char *>(data), size);
  static const Lora lora = adapters();
  const std::string different = compareAdapterConfig(lora, text);
  require(different.size() < 4000, "a message has an end");
  (void)run::DataState::fromJson(text);
  WeightsFile file;
  Status status = WeightsFile::open(writeScratch("model.safetensors.index.json", text), file);
  if (!status.ok())
    require(!status.message().empty() && status.message().size() < 4000, "a message has an end");
  return 0;
}
