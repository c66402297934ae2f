// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Low-rank adapters as files of PEFT: a folder with adapter_config.json and
// adapter_model.safetensors. Its names are those of the model without adapters, behind
// "base_model.model.".
#ifndef TRAINRT_EXPORT_ADAPTER_H
#define TRAINRT_EXPORT_ADAPTER_H

#include "export/adapter_config.h"
#include "io/safetensors.h"
#include "session/session.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace trainrt {

/// The adapters of a session, and what their files call their parts.
class Adapter {
public:
  /// Unsupported if its package has none.
  static Status open(Session &session, std::unique_ptr<Adapter> &adapter);

  /// Writes the folder. `base`: what adapter_config.json says of the base model.
  Status write(const BaseModel &base, const std::string &folder) const;
  /// Values from such a folder, for every part, and what it says of the base model. BadData where
  /// it is no adapter of just these modules, ranks and strengths. What is ignored is one of the
  /// session's warnings.
  Status load(const std::string &folder, BaseModel &base);
  /// Writes the model without adapters, these added to its weights.
  Status writeMerged(const std::string &path) const;

private:
  class Problems;

  explicit Adapter(Session &session);
  void writeFiles(const BaseModel &base, const std::string &folder) const;
  void loadFiles(const std::string &folder, BaseModel &base);
  /// The tensors of a file by the parameters that they are of.
  std::map<std::string, const SafetensorsReader::Entry *>
  findParts(const SafetensorsReader &reader, const std::string &path, Problems &problems);
  void set(const std::string &parameter, const SafetensorsReader::Entry &entry,
           const std::string &path);
  /// Whether a parameter is only there for the adapters: it is none of the model without them.
  bool owns(const Manifest::Tensor &parameter) const;
  const std::vector<Manifest::Tensor> &parameters() const;
  const Manifest::Tensor &parameter(const std::string &name) const;

  Session &session;
  const Lora &section;
  std::map<std::string, std::string> names; ///< parameters by their names in files
};

} // namespace trainrt

#endif // TRAINRT_EXPORT_ADAPTER_H
