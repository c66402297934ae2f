// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "format/target.h"
#include "format/memory/arena_plan.h"
#include "program_generated.h"

#include <cassert>

namespace trainrt {

/// In the order of the schema's enum, by which packages name their target.
const TargetTraits targetTraits[] = {
    {.name = "cpu",
     .alignment = planAlignment,
     .isSeparate = false,
     .runsBeside = false,
     .choosesKernels = false,
     .groupsKernels = false,
     .hasTuning = false,
     .runsAhead = false,
     .vendorProducts = false,
     .narrowAttention = false,
     .narrowConvolutions = false},
    {.name = "cuda",
     .alignment = cudaPlanAlignment,
     .isSeparate = true,
     .runsBeside = true,
     .choosesKernels = true,
     .groupsKernels = true,
     .hasTuning = true,
     .runsAhead = true,
     .vendorProducts = true,
     .narrowAttention = true,
     .narrowConvolutions = true},
};
static_assert(std::size(targetTraits) == size_t(fb::Target::MAX) + 1);

const TargetTraits &traitsOf(std::string_view targets) {
  // "cuda:sm_90" is the target cuda: what follows the colon is the code generator's.
  const std::string_view name = targets.substr(0, targets.find(':'));
  for (const TargetTraits &traits : targetTraits)
    if (name == traits.name)
      return traits;
  assert(false && "packages are checked when they are opened");
  return traitsOf(Target{});
}

} // namespace trainrt
