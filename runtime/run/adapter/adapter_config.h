// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// adapter_config.json: what PEFT must know to put the matrices of an adapter in their places.
#ifndef TRAINRT_RUN_ADAPTER_ADAPTER_CONFIG_H
#define TRAINRT_RUN_ADAPTER_ADAPTER_CONFIG_H

#include "adapter/lora_manifest.h"

#include <string>
#include <vector>

namespace trainrt::run {

/// The file's text. `weights`: names of all of the base model's parameters.
std::string writeAdapterConfig(const Lora &lora, const std::vector<std::string> &weights);

/// Why an adapter with this configuration does not compute what `lora` says; "" if it does. Which
/// modules it is of is for its tensors to tell.
std::string compareAdapterConfig(const Lora &lora, const std::string &text);

} // namespace trainrt::run

#endif // TRAINRT_RUN_ADAPTER_ADAPTER_CONFIG_H
