// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launches of one kernel that do not depend on each other become one.
#ifndef TRAINC_LIB_CONVERSION_GROUPLAUNCHES_H
#define TRAINC_LIB_CONVERSION_GROUPLAUNCHES_H

#include "dialects/Plan/PlanDialect.h"
#include <optional>

namespace trainc {

/// Gives the grouped form of a kernel; "" where there is none.
using GroupedKernelSource = llvm::function_ref<std::string(llvm::StringRef kernel)>;

/// What the arena may hold longer for the sake of a group, in bytes.
inline constexpr int64_t kHeldBytes = 1 << 20;

/// Same kernels with the same grain and scratch: their launches differ in buffers and sizes only,
/// which a group passes for each member.
std::string getGroupKey(plan::LaunchOp launch);

/// Of all buffers together; none where one's size is not known.
std::optional<int64_t> getBytesOf(mlir::ValueRange buffers);

/// Moves launches down to the last one of their group. Legal where no command in between reads or
/// writes what they write, or writes what they read. Buffers that live longer for it are small, or
/// no library call lies in between.
void groupLaunches(plan::FunctionOp function, GroupedKernelSource grouped);

} // namespace trainc

#endif // TRAINC_LIB_CONVERSION_GROUPLAUNCHES_H
