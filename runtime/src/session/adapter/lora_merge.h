// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A frozen weight and its low-rank adapter as one weight, which the model without adapters can use.
#ifndef TRAINRT_SESSION_ADAPTER_LORA_MERGE_H
#define TRAINRT_SESSION_ADAPTER_LORA_MERGE_H

#include "session/session.h"

#include <vector>

namespace trainrt {

/// A tensor with its memory.
struct OwnedArray {
  DType dtype = DType::F32;
  std::vector<int64_t> shape;
  std::vector<unsigned char> bytes;
};

/// A quantized parameter's values, in the type of those that it was made of.
Status decodeParameter(Session &session, size_t index, OwnedArray &decoded);

/// The weight of `module` with scale B A added, and with DoRA each output's weights scaled to their
/// magnitude, in the type that the weight has in the model (a quantized
/// one is decoded first); every element is computed in f64 and rounded once.
Status mergeAdapter(Session &session, const Lora::Module &module, OwnedArray &merged);

/// The parameter `index` as the model without adapters has it: with its adapter, or decoded, which
/// `held` then has, or as it lies in the session.
Status mergedParameter(Session &session, size_t index, OwnedArray &held, ArrayView &array);

} // namespace trainrt

#endif // TRAINRT_SESSION_ADAPTER_LORA_MERGE_H
