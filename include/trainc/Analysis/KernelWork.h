// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a kernel has to do at least, whatever code is made for it: for reports of where time goes.
#ifndef TRAINC_ANALYSIS_KERNELWORK_H
#define TRAINC_ANALYSIS_KERNELWORK_H

#include "dialects/Train/TrainDialect.h"

namespace trainc {

struct KernelWork {
  /// Of the elements of its inputs that it reads and of its results, each once.
  train::DimAttr bytes;
  /// Floating-point operations of its matmul; arithmetic on single elements is not counted.
  train::DimAttr flops;
};

/// Of a table that rows are gathered from, only as many rows count as are gathered, but no more
/// than it has; of a tensor of which slices are read, the slices.
KernelWork getKernelWork(train::FusionOp fusion);

} // namespace trainc

#endif // TRAINC_ANALYSIS_KERNELWORK_H
