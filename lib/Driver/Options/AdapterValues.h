// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The texts of --lora, --fuse-lora and --quantize.
#ifndef TRAINC_LIB_DRIVER_OPTIONS_ADAPTERVALUES_H
#define TRAINC_LIB_DRIVER_OPTIONS_ADAPTERVALUES_H

#include "trainc/Pipelines/Pipelines.h"

namespace trainc {

/// r=N,alpha=F,dropout=F,targets=REGEX,r[REGEX]=N,alpha[REGEX]=F,rslora,dora,save=REGEX,bias=KIND
/// in any order; an expression may hold commas. Returns what is wrong, or "".
std::string parseLoraOptions(const std::string &text, LoraOptions &options);

/// mlp,qkv,o or some of them.
std::string parseFusedKinds(const std::string &text, std::vector<std::string> &kinds);

/// nf4|fp4|int8[:double][:block=N][:absmax=f32|bf16|f16][:skip=REGEX]; the expression is last.
std::string parseQuantizeOptions(const std::string &text, QuantizeOptions &options);

} // namespace trainc

#endif // TRAINC_LIB_DRIVER_OPTIONS_ADAPTERVALUES_H
