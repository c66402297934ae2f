// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A kernel takes any operands; how many, and how many dims, its declaration says.

#include "format/commands/launch.h"
#include "format/program.h"
#include "program_generated.h"

namespace trainrt {

Status Launch::read(const fb::Launch &from, const CommandCheck &check) {
  const Program &program = check.program;
  const TargetTraits &target = traitsOf(program.target);
  if (check.kernels.empty())
    return check.bad(".kernels is empty");
  kernel = check.kernels.front();
  variants.assign(check.kernels.begin() + 1, check.kernels.end());
  members = from.members();
  if (from.form() > fb::KernelForm::MAX)
    return check.bad(".form ", int(from.form()), " is unknown");
  static_assert(int(fb::KernelForm::MAX) == int(Form::Product));
  form = static_cast<Form>(from.form());
  if (members && !target.groupsKernels)
    return check.bad(".members: only kernels for cuda are launched in groups");
  const KernelDecl &declared = program.kernels[kernel];
  // Tuning times the variants against each other in the same call: they must take the same
  // arguments.
  for (uint32_t variant : variants) {
    const KernelDecl &other = program.kernels[variant];
    if (!target.hasTuning || members || other.args != declared.args || other.dims != declared.dims)
      return check.bad(".kernels: '", other.name, "' cannot replace '", declared.name, "'");
  }
  // Beside the dims of all members: work, grain and scratch, each member's work, work and grain of
  // each variant. 64 bits: the counts come from the package.
  const uint64_t operands = check.operands.size(), sizes = check.sizes.size(),
                 around = 3 + uint64_t(members) + 2 * variants.size();
  if (operands != numMembers() * uint64_t(declared.args) ||
      sizes != around + numMembers() * uint64_t(declared.dims))
    return check.bad(": kernel '", declared.name, "' takes ", declared.args, " arguments and ",
                     declared.dims, " dims for each of ", numMembers(), ", not ", operands, " and ",
                     int64_t(sizes - around));
  // All members use an argument in the same way, since one kernel serves them.
  for (size_t i = 0; i < operands; ++i)
    if (check.operands[i].access == Access::None ||
        check.operands[i].access != check.operands[i % declared.args].access)
      return check.bad(".operands[", i, "]: it is not told how kernel '", declared.name,
                       "' uses it");
  return {};
}

Status Launch::checkPlaces(const PlaceCheck &check) const {
  const LaunchView view(check.step, *this);
  if (view.work() < 0 || view.scratch() < 0)
    return check.bad(" has negative work or scratch");
  int64_t sum = 0;
  // None is negative, and together they are the command's work.
  for (int64_t work : view.memberWork())
    if (work < 0 || __builtin_add_overflow(sum, work, &sum))
      return check.bad(" has a member with impossible work");
  if (members && sum != view.work())
    return check.bad(" has work ", view.work(), ", its members ", sum);
  // Which variant tuning has taken must not decide whether there is anything to do.
  for (size_t i = 0; i < variants.size(); ++i)
    if (view.variantWork(i) < 0 || (view.variantWork(i) == 0) != view.isEmpty())
      return check.bad(" has a variant with impossible work");
  return {};
}

std::string Launch::describe(const Program &program, const StepView &) const {
  return "kernel '" + program.kernels[kernel].name + "'";
}

std::string Launch::name(const Program &program, const StepView &) const {
  return program.kernels[kernel].name;
}

/// Kernels behind the backward pass take norms of gradients and update; before it those do that
/// go over a parameter element by element and write it.
CommandClass Launch::commandClass(const StepView &step) const {
  static constexpr CommandClass classes[] = {
      CommandClass::Other,   CommandClass::Pointwise, CommandClass::Row,   CommandClass::Column,
      CommandClass::Scatter, CommandClass::Scan,      CommandClass::Matmul};
  if (form == Form::Product)
    return CommandClass::Matmul;
  const Function &function = step.function;
  const auto index = int32_t(&step.command - function.commands.data());
  bool updates = function.backwardEnd >= 0 && index >= function.backwardEnd;
  for (size_t i = 0; i < step.operands.size() && form == Form::Pointwise; ++i)
    updates |= step.operands[i].isWritten() && step.buffer(i).space == Space::Parameter;
  return updates ? CommandClass::Optimizer : classes[size_t(form)];
}

int64_t Launch::bytes(const StepView &step) const {
  if (!step.costs.empty())
    return step.costs[0];
  int64_t sum = 0;
  for (size_t i = 0; i < step.places.size(); ++i)
    sum += step.bytesOf(i);
  return sum;
}

void Launch::results(const Program &program, const StepView &step,
                     std::vector<Region> &regions) const {
  // Kernels write whole buffers.
  // What a kernel writes has no shape here: told as one row of elements.
  for (size_t i = 0; i < step.operands.size(); ++i) {
    Region region;
    if (!step.operands[i].isWritten() || !bufferType(program, step.buffer(i), region.dtype) ||
        !isFloat(region.dtype))
      continue;
    region.buffer = step.places[i].buffer;
    region.extents = {step.bufferBytes[region.buffer] / int64_t(sizeOf(region.dtype))};
    region.strides = {1};
    regions.push_back(std::move(region));
    // Whole elements: buffers are made of them, up to padding.
  }
}

} // namespace trainrt
