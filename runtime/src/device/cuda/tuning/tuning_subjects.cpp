// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From commands to subjects; what they write is led to memory that nobody else reads.

#include "device/cuda/tuning/tuning_subjects.h"

#include <algorithm>
#include <cassert>

namespace trainrt::cuda {

namespace {
/// Calls `visit(operand, place)` for the operands of a step that it writes and whose values outlast
/// it.
template <typename Visit>
void forEachLasting(const ExecutionPlan &plan, const ExecutionPlan::Step &step,
                    const Visit &visit) {
  const StepView view = plan.view(step);
  for (size_t i = 0; i < view.operands.size(); ++i) {
    if (!view.operands[i].isWritten())
      continue;
    // Values that only the step reads may be overwritten.
    const Space space = view.buffer(i).space;
    if (space != Space::Arena && space != Space::Output)
      visit(i, view.places[i]);
  }
}

/// A matmul with something to choose; null for other commands.
const GemmCommand *choosable(const Commands &commands, size_t index) {
  auto *gemm = commands.as<GemmCommand>(index);
  return gemm && !gemm->plan->key().empty() ? gemm : nullptr;
}
const DeviceLaunch *withVariants(const Commands &commands, size_t index) {
  auto *launch = commands.as<DeviceLaunch>(index);
  return launch && launch->hasVariants() ? launch : nullptr;
}
} // namespace

/// What the largest command needs to write elsewhere.
int64_t lastingBytes(const Commands &commands, const ExecutionPlan &plan) {
  int64_t most = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!choosable(commands, i) && !withVariants(commands, i) &&
        !commands.as<ConvolutionCommand>(i))
      continue;
    // One behind the other.
    int64_t sum = 0;
    forEachLasting(plan, commands.step(i), [&](size_t, const Place &place) {
      // More than it needs, so that offsets keep their low bits.
      sum += plan.bufferBytes[place.buffer] / 256 * 256 + 256;
    });
    most = std::max(most, sum);
  }
  return most;
}

void TuningSubjects::add(const Commands &commands, const ExecutionPlan &plan) {
  for (size_t i = 0; i < commands.size(); ++i) {
    const ExecutionPlan::Step &step = commands.step(i);
    if (auto *launch = withVariants(commands, i)) {
      addLaunch(*launch, plan, step);
    } else if (auto *product = choosable(commands, i)) {
      GemmOperands at = product->operands;
      addCall(*product, products, at, {&at.a, &at.b, &at.c, &at.bias, &at.aux}, plan, step);
    } else if (auto *convolution = commands.as<ConvolutionCommand>(i)) {
      ConvolutionOperands at = convolution->operands;
      addCall(*convolution, convolutions, at, {&at.input, &at.filter, &at.output}, plan, step);
    }
  }
}

/// Uses of equal calls are one subject: they share the choice.
template <typename Command, typename List, typename Operands>
void TuningSubjects::addCall(const Command &command, List &list, const Operands &operands,
                             std::initializer_list<DeviceAddress *> numbered,
                             const ExecutionPlan &plan, const ExecutionPlan::Step &step) {
  DeviceAddress spare = memory.spare;
  forEachLasting(plan, step, [&](size_t operand, const Place &place) {
    *numbered.begin()[operand] = spare + DeviceAddress(place.offset);
    spare += DeviceAddress(plan.bufferBytes[place.buffer] / 256 * 256 + 256);
  });
  assert(command.plan && "choosable");
  const std::string key = command.plan->key();
  auto same = std::ranges::find_if(list, [&](const auto &known) { return known.key == key; });
  if (same == list.end())
    same = list.insert(list.end(), {key, callOf(command.step), {}});
  same->uses.push_back(operands);
}

/// Launches of equal keys are one subject, which has the first one's variants.
void TuningSubjects::addLaunch(const DeviceLaunch &launch, const ExecutionPlan &plan,
                               const ExecutionPlan::Step &step) {
  Parameters parameters = launch.launchParameters();
  DeviceAddress spare = memory.spare;
  forEachLasting(plan, step, [&](size_t operand, const Place &place) {
    parameters[operand] = spare + DeviceAddress(place.offset);
    spare += DeviceAddress(plan.bufferBytes[place.buffer] / 256 * 256 + 256);
  });
  // Bad indices of made-up numbers are nobody's.
  parameters.back() = memory.error;
  std::string key = launch.variantKey();
  auto same = std::find_if(launches.begin(), launches.end(),
                           [&](const Launches &known) { return known.key == key; });
  if (same == launches.end())
    same = launches.insert(launches.end(), {std::move(key), launch.variants(), {}});
  same->uses.push_back(std::move(parameters));
}

/// The subject refers to the entry, and so does not outlive this object, of which no entry may move
/// any more.
Subject TuningSubjects::subjectOf(const Launches &entry) const {
  // Without `all` the chosen one alone.
  auto alternatives = [this, &entry](bool all, std::vector<Alternative> &found) {
    for (const LaunchVariant &variant : entry.variants) {
      if (!all && !found.empty())
        break;
      auto enqueue = [this, &entry, variant](size_t use, CUstream stream) {
        // Its own copy for each launch: kernels read it when they start.
        Parameters values = entry.uses[use];
        std::vector<void *> pointers;
        for (uint64_t &value : values)
          pointers.push_back(&value);
        const Driver &driver = kernels.driver();
        return driver.check(driver.cuLaunchKernel(kernels.function(variant.kernel).handle,
                                                  variant.grid, 1, 1, variant.block, 1, 1, 0,
                                                  stream, pointers.data(), nullptr),
                            "a kernel's variant cannot be started");
      };
      found.push_back({program.kernels[variant.kernel].name, std::move(enqueue)});
    }
    return Status();
  };
  return {kernels.machine(), entry.key, entry.uses.size(), std::move(alternatives)};
}

/// When all plans are added.
Status TuningSubjects::get(std::vector<Subject> &subjects) const {
  Blas *blas = nullptr;
  if (!products.empty())
    TRAINRT_TRY(libraries.blas(blas));
  for (const auto &product : products)
    subjects.push_back(
        productSubject(*blas, product.key, product.call, product.uses, memory.workspace));
  Dnn *dnn = nullptr;
  if (!convolutions.empty())
    TRAINRT_TRY(libraries.dnn(dnn));
  for (const auto &convolution : convolutions)
    subjects.push_back(convolutionSubject(*dnn, convolution.key, convolution.call, convolution.uses,
                                          memory.workspace));
  for (const Launches &entry : launches)
    subjects.push_back(subjectOf(entry));
  return {};
}

} // namespace trainrt::cuda
