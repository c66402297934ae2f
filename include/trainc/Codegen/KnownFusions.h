// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels of fusions that have been seen before, found without their text: layers repeat, and
// --memory-budget makes one schedule after the other.
#ifndef TRAINC_CODEGEN_KNOWNFUSIONS_H
#define TRAINC_CODEGEN_KNOWNFUSIONS_H

#include "trainc/Codegen/Codegen.h"
#include <unordered_map>

namespace trainc::codegen {

class KnownFusions {
public:
  /// What `make` says of the fusion, or has said of one with the same ops, attributes and types,
  /// sizes among them.
  mlir::FailureOr<KernelInfo>
  get(train::FusionOp fusion,
      llvm::function_ref<mlir::FailureOr<KernelInfo>(train::FusionOp)> make);

private:
  /// The body in its order. Names, attributes and types are unique in a context.
  using Key = std::vector<const void *>;
  struct Hash {
    size_t operator()(const Key &key) const { return llvm::hash_combine_range(key); }
  };
  static Key keyOf(train::FusionOp fusion);

  std::unordered_map<Key, KernelInfo, Hash> known;
};

} // namespace trainc::codegen

#endif // TRAINC_CODEGEN_KNOWNFUSIONS_H
