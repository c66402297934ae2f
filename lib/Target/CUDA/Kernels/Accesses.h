// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How a fusion reads its inputs: which axis of the space an input's innermost axis is, behind
// the transposes of the body, and whether an axis says where. Mappings choose by it along which
// axis threads are neighbours, and what one thread does.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_ACCESSES_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_ACCESSES_H

#include "trainc/Codegen/Structure.h"

namespace trainc::codegen {

/// An input whose axes are axes of the space.
struct InputAccess {
  unsigned argument;
  /// The axis of the space that each axis of the input is.
  llvm::SmallVector<int64_t> axes;
  /// The last of them that is not of size 1.
  int64_t inner;
  /// Bytes of an element.
  int64_t bytes;
  /// Whether it has an element of its own for each position of the space.
  bool isFull;
};

/// The distinct accesses of this kind, in the order of the body. An input that is read at other
/// places too, or through ops that do more than move whole axes, is not among them for those.
llvm::SmallVector<InputAccess> findAccesses(train::FusionOp fusion, const Structure &structure);

/// For each axis of a value in a fusion's body, the bytes that its inputs have side by side along
/// it: of those with all of its axes, the sizes of their elements.
llvm::SmallVector<int64_t> findBytesAlong(mlir::Value value);

/// Whether a coordinate of the space along `axis` says where the operands of reductions read
/// inputs. Where it does not (the phase of a strided window), all of the axis reads the same
/// elements. True where the ops do not tell.
bool readsAlong(const Structure &structure, int64_t axis);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_ACCESSES_H
