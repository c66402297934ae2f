// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pointwise template where an input lies across the results: its innermost axis is another than
// theirs. A block does a tile of the two axes.
//
// Where whole vectors divide both axes, a thread does a patch of the tile: it reads vectors along
// the input's innermost axis, turns them in registers and writes vectors along the results'.
// Neighbouring threads cover whole sectors of memory both ways. Elsewhere the tile goes through
// shared memory element by element: read in the input's order, used in the results'.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_MAPTRANSPOSED_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_MAPTRANSPOSED_H

#include "Accesses.h"
#include "GpuEmitter.h"

namespace trainc::codegen {

struct TransposedShape {
  /// Nothing where no large input lies across the results, or an axis is too short for tiles.
  static std::optional<TransposedShape> choose(train::FusionOp fusion, const Structure &structure);

  /// Sets the plan's stage and vectors.
  void plan(train::FusionOp fusion, const Structure &structure, GpuPlan &plan) const;

  /// The innermost axes of the staged inputs and of the results.
  int64_t across = -1, along = -1;
  /// The inputs that are turned; others are read where they are needed.
  llvm::SmallVector<InputAccess> staged;
  /// A thread's patch, in elements, and the block's threads.
  int64_t patchAcross = 1, patchAlong = 1, threadsAcross = 1, threadsAlong = 1;
  /// Whether whole patches may divide both axes.
  bool hasPatches = false;

  int64_t tileAcross() const { return patchAcross * threadsAcross; }
  int64_t tileAlong() const { return patchAlong * threadsAlong; }
};

void mapTransposed(GpuKernel &kernel, const TransposedShape &shape);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_MAPTRANSPOSED_H
