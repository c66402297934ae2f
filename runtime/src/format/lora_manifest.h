// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The manifest's section `lora`: which weights have low-rank adapters, where their parts are, and
// how strong they act (docs/design/package.md).
#ifndef TRAINRT_FORMAT_LORA_MANIFEST_H
#define TRAINRT_FORMAT_LORA_MANIFEST_H

#include "format/status.h"

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

namespace trainrt {

struct Manifest;

struct Lora {
  /// W + scale B A in place of W.
  struct Module {
    std::string path; ///< of the module, as the model without adapters calls it
    /// Parameters. `a` is [rank, K] and `b` is [N, rank].
    std::string weight, a, b;
    std::string magnitude; ///< DoRA: the norms of the rows of the whole, a parameter; else ""
    int64_t rank = 0;
    double alpha = 0, scale = 0;
    bool fanInFanOut = false; ///< the weight is [K, N], else [N, K]
    bool embedding = false;   ///< the weight is [K, N], a table of K rows

    /// Whether the weight is [K, N].
    bool isTransposed() const { return fanInFanOut || embedding; }
  };
  int64_t rank = 0;
  double alpha = 0, dropout = 0;
  bool rslora = false, dora = false;
  std::vector<Module> modules;
  /// Parameters that are trained in full, and the biases among them that count as the adapter's.
  std::vector<std::string> modulesToSave, trainedBiases;
  std::string bias = "none"; ///< "none", "all" or "lora_only"
};

/// nullopt where the manifest has no such section. Errors are BadPackage and name the field.
Status readLora(const nlohmann::json &manifest, std::optional<Lora> &lora);
/// Whether all that it names are parameters of fitting shapes.
Status checkLora(const Lora &lora, const Manifest &manifest);

} // namespace trainrt

#endif // TRAINRT_FORMAT_LORA_MANIFEST_H
