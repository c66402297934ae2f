// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// adapter_config.json: what PEFT must know to put the matrices of an adapter in their places.
#ifndef TRAINRT_EXPORT_ADAPTER_CONFIG_H
#define TRAINRT_EXPORT_ADAPTER_CONFIG_H

#include "format/lora_manifest.h"

#include <string>
#include <vector>

namespace trainrt {

/// What PEFT's AutoPeftModel has to know of a base model; "": it is not known.
struct BaseModel {
  std::string name;     ///< a folder, or a name of the hub
  std::string taskType; ///< "CAUSAL_LM", ...
};

/// The file's text. `weights`: names of all of the base model's parameters. InvalidArgument: what
/// `base` says is no UTF-8.
Status writeAdapterConfig(const Lora &lora, const BaseModel &base,
                          const std::vector<std::string> &weights, std::string &text);

/// Adds what the configuration says of the base model and `base` does not.
void readBaseModel(const std::string &text, BaseModel &base);

/// Why an adapter with this configuration does not compute what `lora` says; "" if it does. Which
/// modules it is of is for its tensors to tell.
std::string compareAdapterConfig(const Lora &lora, const std::string &text);

} // namespace trainrt

#endif // TRAINRT_EXPORT_ADAPTER_CONFIG_H
