// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Low-rank adapters as files of PEFT: a folder with adapter_config.json and
// adapter_model.safetensors. Its names are those of the model without adapters, behind
// "base_model.model.".
#ifndef TRAINRT_CLI_ADAPTER_ADAPTER_H
#define TRAINRT_CLI_ADAPTER_ADAPTER_H

#include "cli/adapter/adapter_config.h"
#include "cli/handles.h"
#include "cli/reporter.h"
#include "format/dtype.h"
#include "format/lora_manifest.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace trainrt::run {

/// The adapters of a package, and what its files call their parts.
class Adapter {
public:
  /// What is in a folder: the settings, and the values.
  static constexpr const char *fileNames[] = {"adapter_config.json", "adapter_model.safetensors"};

  /// Throws Failure, which says that `option` needs adapters, if the package has none. `base`: what
  /// the command line says of the base model.
  Adapter(const Package &package, const std::string &option, BaseModel base);

  const Lora &lora() const { return section; }
  /// Parameters by their names in files.
  const std::map<std::string, std::string> &parameters() const { return names; }
  /// Whether a parameter is only there for the adapters: it is none of the model without them.
  bool owns(const std::string &parameter) const;
  /// What the model without adapters calls a parameter.
  static std::string baseName(std::string parameter);

  /// Writes the folder. Throws Failure.
  void write(const Package &package, trainrt_session *session, const std::string &folder,
             Reporter &reporter) const;
  /// Values from such a folder, for every part. Throws Failure where it is no adapter of just these
  /// modules, ranks and strengths.
  void load(const Package &package, trainrt_session *session, const std::string &folder,
            Reporter &reporter);
  /// Writes the model without adapters, these added to its weights. Throws Failure.
  void writeMerged(const Package &package, trainrt_session *session, const std::string &path,
                   Reporter &reporter) const;

private:
  /// A quantized parameter as the model has it.
  struct Decoded {
    DType dtype;
    std::vector<int64_t> shape;
    std::string format;
  };
  Lora section;
  BaseModel base; ///< what the command line does not say is as in the adapter that was loaded
  std::map<std::string, Decoded> quantized;
  std::set<std::string> parts; ///< of quantized parameters
  std::map<std::string, std::string> names;
};

} // namespace trainrt::run

#endif // TRAINRT_CLI_ADAPTER_ADAPTER_H
