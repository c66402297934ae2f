// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the compiler tells of kernels by symbols beside them.
#ifndef TRAINRT_FORMAT_KERNEL_MARKS_H
#define TRAINRT_FORMAT_KERNEL_MARKS_H

namespace trainrt {

/// With a kernel's name behind it the symbol beside each one that waits by itself for what is in
/// front of it, so that it may begin while that ends (programmatic dependent launch).
inline constexpr char kernelWaitsMark[] = "trainc_waits_";

} // namespace trainrt

#endif // TRAINRT_FORMAT_KERNEL_MARKS_H
