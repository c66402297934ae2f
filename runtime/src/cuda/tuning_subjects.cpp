// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From commands to subjects; what they write is led to memory that nobody else reads.

#include "cuda/tuning_subjects.h"

#include <algorithm>

namespace trainrt::cuda {

namespace {
/// Calls `visit(operand)` for the places of a command with a choice, as they are numbered, that it
/// writes and whose values outlast the step.
template <typename Visit>
void forEachLasting(const ExecutionPlan &plan, const ExecutionPlan::Step &step,
                    const Visit &visit) {
  auto look = [&](size_t operand) {
    const uint32_t buffer = plan.places[step.firstPlace + operand].buffer;
    if (buffer == ExecutionPlan::Place::none)
      return;
    const Space space = plan.function->buffers[buffer].space;
    if (space != Space::Arena && space != Space::Output)
      visit(operand);
  };
  if (auto *gemm = std::get_if<Gemm>(&step.command->op)) {
    look(2);
    if (gemm->epilogue == GemmEpilogue::DGeluBGrad)
      look(3);
    if (gemm->epilogue == GemmEpilogue::GeluAux || gemm->epilogue == GemmEpilogue::GeluAuxBias)
      look(4);
  } else if (auto *launch = std::get_if<Launch>(&step.command->op)) {
    for (size_t i = size_t(std::max(launch->numInputs, 0)); i < launch->args.size(); ++i)
      look(i);
  }
}

bool hasChoice(const Commands &commands, size_t index) {
  GemmCall call;
  GemmOperands operands;
  return commands.product(index, call, operands) || commands.hasVariants(index);
}
} // namespace

int64_t lastingBytes(const Commands &commands, const ExecutionPlan &plan) {
  int64_t most = 0;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (!hasChoice(commands, i))
      continue;
    // One behind the other.
    int64_t sum = 0;
    const ExecutionPlan::Step &step = commands.step(i);
    forEachLasting(plan, step, [&](size_t operand) {
      sum += plan.bufferBytes[plan.places[step.firstPlace + operand].buffer] / 256 * 256 + 256;
    });
    most = std::max(most, sum);
  }
  return most;
}

void TuningSubjects::add(const Commands &commands, const ExecutionPlan &plan) {
  for (size_t i = 0; i < commands.size(); ++i) {
    if (commands.hasVariants(i)) {
      addLaunch(commands, plan, i);
      continue;
    }
    GemmCall call;
    GemmOperands operands;
    const GemmPlan *product = commands.product(i, call, operands);
    if (!product)
      continue;
    const ExecutionPlan::Step &step = commands.step(i);
    DeviceAddress *const written[] = {&operands.c, &operands.bias, &operands.aux};
    DeviceAddress spare = memory.spare;
    forEachLasting(plan, step, [&](size_t operand) {
      const ExecutionPlan::Place &place = plan.places[step.firstPlace + operand];
      *written[operand - 2] = spare + DeviceAddress(place.offset);
      spare += DeviceAddress(plan.bufferBytes[place.buffer] / 256 * 256 + 256);
    });
    auto same = std::find_if(products.begin(), products.end(),
                             [&](const Product &known) { return known.key == product->key(); });
    if (same == products.end())
      same = products.insert(products.end(), Product{product->key(), call, {}});
    same->uses.push_back(operands);
  }
}

void TuningSubjects::addLaunch(const Commands &commands, const ExecutionPlan &plan, size_t index) {
  Parameters parameters = commands.launchParameters(index);
  const ExecutionPlan::Step &step = commands.step(index);
  DeviceAddress spare = memory.spare;
  forEachLasting(plan, step, [&](size_t operand) {
    const ExecutionPlan::Place &place = plan.places[step.firstPlace + operand];
    parameters[operand] = spare + DeviceAddress(place.offset);
    spare += DeviceAddress(plan.bufferBytes[place.buffer] / 256 * 256 + 256);
  });
  parameters.back() = memory.error;
  std::string key = commands.variantKey(index);
  auto same = std::find_if(launches.begin(), launches.end(),
                           [&](const Launches &known) { return known.key == key; });
  if (same == launches.end())
    same = launches.insert(launches.end(), {std::move(key), commands.variants(index), {}});
  same->uses.push_back(std::move(parameters));
}

Subject TuningSubjects::subjectOf(const Launches &entry) const {
  auto alternatives = [this, &entry](bool all, std::vector<Alternative> &found) {
    for (const LaunchVariant &variant : entry.variants) {
      if (!all && !found.empty())
        break;
      auto enqueue = [this, &entry, variant](size_t use, CUstream stream) {
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

Status TuningSubjects::get(std::vector<Subject> &subjects) const {
  Blas *blas = nullptr;
  if (!products.empty())
    TRAINRT_TRY(libraries.blas(blas));
  for (const Product &product : products)
    subjects.push_back(
        productSubject(*blas, product.key, product.call, product.uses, memory.workspace));
  for (const Launches &entry : launches)
    subjects.push_back(subjectOf(entry));
  return {};
}

} // namespace trainrt::cuda
