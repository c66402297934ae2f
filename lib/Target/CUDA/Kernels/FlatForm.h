// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Fusions of known shapes that do not look at coordinates, as one of any number of elements:
// updates of all parameters are one kernel then, sums over all of a gradient another, and one
// launch each where they stand together.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_FLATFORM_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_FLATFORM_H

#include "dialects/Train/TrainDialect.h"
#include "llvm/ADT/StringMap.h"
#include <memory>

namespace trainc::codegen {

/// Where the inputs of a flat fusion begin in their buffers, in units of kStartBytes, which are
/// vectors' alignment. An input may be rows of a larger tensor: those of one weight in the gradient
/// of several that are multiplied as one.
inline constexpr llvm::StringLiteral kStartsAttr = "trainc.starts";
inline constexpr int64_t kStartBytes = 16;

class FlatForm {
public:
  /// Null where the fusion does more than compute each element from those at the same place and
  /// from scalars, or combine all of these into scalars.
  static std::unique_ptr<FlatForm> of(train::FusionOp fusion);

  train::FusionOp get() const { return flat; }
  /// A size of the flat fusion's kernel, for the fusion that it was made of.
  train::DimAttr restore(train::DimAttr dim) const;
  /// What flat forms are made for: kernels of others differ, whatever the bodies.
  llvm::StringRef getKind() const { return kind; }

private:
  FlatForm() = default;

  llvm::StringRef kind;
  /// Of the form's own symbols.
  llvm::StringMap<int64_t> values;
  /// Owns the flat fusion and what stands for its operands.
  mlir::Block block;
  train::FusionOp flat;
};

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_FLATFORM_H
