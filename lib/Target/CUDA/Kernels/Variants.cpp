// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Other launches of the same kernel, for tuning to compare: more or fewer threads, more or less
// work of each. What a template computes does not depend on them, but the order of sums does.

#include "GpuEmitter.h"
#include "MapTransposed.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Smaller ones are a matter of starting them.
static constexpr int64_t kSmall = 1 << 15;
static constexpr int64_t kFewestThreads = 64, kMostThreads = 1024;
/// Elements of all inputs that a thread holds at once, at most.
static constexpr int64_t kHeld = 64;

static void addPointwise(FusionOp fusion, const Structure &s, const GpuPlan &plan,
                         SmallVectorImpl<GpuPlan> &variants) {
  // Transposed kernels have no other plans.
  if (s.vectorAxis < 0 || TransposedShape::choose(fusion, s))
    return;
  DimAttr elements = product(fusion.getContext(), s.space);
  int64_t inputs = std::max(1u, countSpaceInputs(fusion, s));
  auto add = [&](int64_t threads, unsigned unroll) {
    if (unroll < 1 || unroll * plan.lanes * inputs > kHeld)
      return;
    GpuPlan &variant = variants.emplace_back(plan);
    variant.unroll = unroll;
    variant.stages = {{"", ceilDim(elements, threads * plan.lanes * unroll), threads}};
  };
  int64_t threads = plan.stages.front().threads;
  add(threads / 2, plan.unroll);
  add(threads * 2, plan.unroll);
  add(threads, plan.unroll * 2);
  add(threads, plan.unroll / 2);
}

static void addRow(FusionOp fusion, const Structure &s, const GpuPlan &plan,
                   SmallVectorImpl<GpuPlan> &variants) {
  MLIRContext *context = fusion.getContext();
  DimAttr rows = productOf(context, s.space, s.kept);
  std::optional<int64_t> length = productOf(context, s.space, s.reduced).getConstant();
  int64_t inputs = std::max(1u, countSpaceInputs(fusion, s)), lanes = plan.lanes;
  auto add = [&](int64_t rowThreads, int64_t blockRows, unsigned unroll) {
    GpuPlan variant = plan;
    variant.rowThreads = rowThreads;
    variant.blockRows = rowThreads > kWarp ? 1 : blockRows;
    variant.unroll = unroll;
    if (plan.vectors != 0)
      variant.vectors = (*length / lanes + rowThreads - 1) / rowThreads;
    int64_t threads = variant.rowThreads * variant.blockRows;
    int64_t held = lanes * inputs * (plan.vectors != 0 ? variant.vectors : variant.unroll);
    if (blockRows < 1 || unroll < 1 || rowThreads < 8 || held > kHeld || threads < kFewestThreads ||
        threads > kMostThreads)
      return;
    variant.stages = {{"", ceilDim(rows, variant.blockRows), threads}};
    variants.push_back(std::move(variant));
  };
  int64_t perRow = plan.rowThreads, perBlock = std::max<int64_t>(plan.blockRows, 1);
  // The same number of threads in a block where rows share one.
  add(perRow * 2, perBlock / 2 == 0 ? 1 : perBlock / 2, plan.unroll);
  add(perRow / 2, perBlock * 2, plan.unroll);
  if (perBlock > 1) {
    add(perRow, perBlock * 2, plan.unroll);
    add(perRow, perBlock / 2, plan.unroll);
  }
  if (plan.vectors == 0) {
    add(perRow, perBlock, plan.unroll * 2);
    add(perRow, perBlock, plan.unroll / 2);
  }
}

/// The same number of plans for equal structures: variants are told apart by their position.
SmallVector<GpuPlan> planVariants(FusionOp fusion, const Structure &s, const GpuPlan &plan) {
  SmallVector<GpuPlan> variants;
  std::optional<int64_t> elements = product(fusion.getContext(), s.space).getConstant();
  if (elements && *elements < kSmall)
    return variants;
  if (plan.mapping == Mapping::Pointwise)
    addPointwise(fusion, s, plan, variants);
  else if (plan.mapping == Mapping::Row && s.columnSums.empty())
    addRow(fusion, s, plan, variants);
  return variants;
}

} // namespace trainc::codegen
