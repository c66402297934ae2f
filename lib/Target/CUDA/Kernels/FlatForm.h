// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small elementwise fusions of known shapes, as one of any number of elements: the updates of all
// small parameters are one kernel then, and one launch where they stand together.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_FLATFORM_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_FLATFORM_H

#include "dialects/Train/TrainDialect.h"
#include <memory>

namespace trainc::codegen {

class FlatForm {
public:
  /// Null where the fusion does more than compute each element from those at the same place and
  /// from scalars, or is large: sizes that are known make large kernels quicker.
  static std::unique_ptr<FlatForm> of(train::FusionOp fusion);

  train::FusionOp get() const { return flat; }
  /// A size of the flat fusion's kernel, for the fusion that it was made of.
  train::DimAttr restore(train::DimAttr dim) const;

private:
  explicit FlatForm(train::FusionOp fusion, int64_t elements);

  int64_t elements;
  /// Owns the flat fusion and what stands for its operands.
  mlir::Block block;
  train::FusionOp flat;
};

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_FLATFORM_H
