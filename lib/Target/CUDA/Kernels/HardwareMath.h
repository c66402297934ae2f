// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Instructions of NVIDIA GPUs that formulas of numbers are made of.
#ifndef TRAINC_LIB_TARGET_CUDA_KERNELS_HARDWAREMATH_H
#define TRAINC_LIB_TARGET_CUDA_KERNELS_HARDWAREMATH_H

#include "trainc/Codegen/MathExpansion.h"

namespace trainc::codegen {

/// ex2.approx and rcp.approx: 2 and 1 ulp, the same bits on every run (PTX ISA, 9.7.3).
class GpuMath final : public HardwareMath {
public:
  mlir::Value exp2(Formula &f, mlir::Value x) const override;
  mlir::Value exp2Normal(Formula &f, mlir::Value x) const override;
  mlir::Value reciprocal(Formula &f, mlir::Value x) const override;
};

/// Products of two 32-bit words held in 64 bits, which random numbers consist of, become one
/// mul.wide.u32 each. LLVM does not see that the high halves are zero and multiplies all 64 bits.
void useWideProducts(mlir::Operation *root);

/// Quotients by one number, of lanes (a constant or not) or in a loop, multiply by its reciprocal
/// and correct the result: the bits of a division but for results whose remainder is denormal, and
/// without its branch for special cases.
void useReciprocals(mlir::Operation *root);

} // namespace trainc::codegen

#endif // TRAINC_LIB_TARGET_CUDA_KERNELS_HARDWAREMATH_H
