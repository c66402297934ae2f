// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kernels take the addresses of their operands, their dims and the error slot; groups take tables.

#include "device/cuda/commands/launch.h"
#include "plan/tuning.h"

#include <cassert>
#include <climits>
#include <cstring>

namespace trainrt::cuda {

/// Which kernel, how many blocks and threads; groups get their tables laid out.
Status DeviceLaunch::prepare(DeviceContext &with) {
  Kernels &kernels = with.kernels;
  int64_t work = step.work(), block = step.grain();
  // Without a choice the one that is compiled first.
  chosen.kernel = step.op.kernel;
  if (hasVariants()) {
    const uint32_t wanted = kernels.chosen(variantKey(), step.op.kernel);
    for (size_t i = 0; i < step.op.variants.size(); ++i)
      if (step.op.variants[i] == wanted) {
        chosen.kernel = wanted;
        work = step.variantWork(i);
        block = step.variantGrain(i);
      }
    // A name of a kernel that is none of this launch's variants.
    if (chosen.kernel != wanted)
      return fail(Code::BadPackage, "entry '", tuningEntry, "': kernel '",
                  program.kernels[wanted].name, "' is none for ", variantKey());
  }
  // Loaded with the package: nothing is loaded while a graph is captured.
  const Kernels::Function &loaded = kernels.function(chosen.kernel);
  const std::string &name = program.kernels[chosen.kernel].name;
  // A grid has so many blocks along its first axis.
  if (work > INT_MAX)
    return fail(Code::Unsupported, "kernel '", name, "' needs ", work,
                " blocks, more than a GPU can start at once; use a smaller batch");
  if (block > loaded.maxThreads)
    return fail(Code::BadPackage, "kernel '", name, "' is to run with ", block,
                " threads a block, but can have ", loaded.maxThreads);
  TRAINRT_TRY(kernels.allowShared(chosen.kernel, step.scratch()));
  function = loaded.handle;
  waits = loaded.waits;
  // Both fit: they were compared above.
  chosen.grid = unsigned(work);
  chosen.block = unsigned(block);
  assert(loaded.handle && "all kernels are found when they are loaded");
  shared = unsigned(step.scratch());
  if (step.op.members) {
    // Tables of blocks and arguments; the error slot is the third.
    layOutGroup(with.tables);
    parameters.resize(3);
  } else {
    parameters.resize(step.places.size());
    for (int64_t dim : step.dims())
      parameters.push_back(uint64_t(dim));
    parameters.push_back(0); // the error slot
  }
  // The vector stays as it is from now on: pointers lead into it.
  for (uint64_t &parameter : parameters)
    // The driver reads through them at each launch: a new address needs no new list.
    pointers.push_back(&parameter);
  return {};
}

/// Member and number of every block, then the members' arguments: the dims now, the addresses when
/// they are known.
void DeviceLaunch::layOutGroup(std::vector<unsigned char> &tables) {
  auto append = [&](const void *data, size_t bytes) {
    auto *from = static_cast<const unsigned char *>(data);
    tables.insert(tables.end(), from, from + bytes);
  };
  blocksOffset = tables.size();
  for (uint32_t member = 0; member < step.op.members; ++member)
    for (int64_t block = 0; block < step.memberWork()[member]; ++block) {
      const uint32_t place[2] = {member, uint32_t(block)};
      append(place, sizeof place);
    }
  argumentsOffset = tables.size();
  // Addresses first, then dims, as the kernel reads them.
  for (uint32_t member = 0; member < step.op.members; ++member) {
    tables.resize(tables.size() + step.numArgs() * 8);
    append(step.dims().data() + member * step.numDims(), step.numDims() * 8);
  }
  tables.resize((tables.size() + 255) / 256 * 256);
}

void DeviceLaunch::resolve(const Addresses &addresses) {
  if (step.op.members) {
    const size_t args = step.numArgs(), stride = args + step.numDims();
    assert(args > 0 && "members have operands");
    for (size_t i = 0; i < step.places.size(); ++i) {
      const DeviceAddress operand = addresses.of(step.places[i]);
      std::memcpy(&addresses.tableBytes[argumentsOffset + (i / args * stride + i % args) * 8],
                  &operand, sizeof operand);
    }
    // One error slot for the group.
    parameters = {addresses.tables + blocksOffset, addresses.tables + argumentsOffset,
                  addresses.error};
    return;
  }
  assert(parameters.size() >= step.places.size() + 1 && "operands, dims and the slot");
  for (size_t i = 0; i < step.places.size(); ++i)
    parameters[i] = addresses.of(step.places[i]);
  parameters.back() = addresses.error;
}

Status DeviceLaunch::enqueue(CUstream stream, Workspace) const {
  // Without it a kernel begins when the one in front of it has ended and all it wrote is seen.
  CUlaunchAttribute early = {};
  early.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
  early.value.programmaticStreamSerializationAllowed = 1;
  const CUlaunchConfig config = {chosen.grid, 1,      1,      chosen.block, 1,
                                 1,           shared, stream, &early,       waits ? 1u : 0u};
  const Driver &driver = context.driver();
  return driver.check(driver.cuLaunchKernelEx(&config, function, pointers.data(), nullptr),
                      "cannot be started");
}

/// What decides on the quickest variant: the kernel, its size and its dims, not its addresses.
std::string DeviceLaunch::variantKey() const {
  std::string text = program.kernels[step.op.kernel].name + " " + std::to_string(step.work()) +
                     " blocks of " + std::to_string(step.grain()) + " dims";
  for (int64_t dim : step.dims())
    text += " " + std::to_string(dim);
  return text;
}

/// The chosen one first: it is what others are compared with.
std::vector<LaunchVariant> DeviceLaunch::variants() const {
  std::vector<LaunchVariant> all = {chosen};
  auto add = [&](uint32_t kernel, int64_t work, int64_t block) {
    if (kernel != chosen.kernel && work <= INT_MAX)
      all.push_back({kernel, unsigned(work), unsigned(block)});
  };
  add(step.op.kernel, step.work(), step.grain());
  for (size_t i = 0; i < step.op.variants.size(); ++i)
    add(step.op.variants[i], step.variantWork(i), step.variantGrain(i));
  return all;
}

template <>
Status prepareOnDevice(const LaunchView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  if (step.isEmpty())
    return {};
  auto made = std::make_unique<DeviceLaunch>(step, context);
  TRAINRT_TRY(made->prepare(context));
  command = std::move(made);
  return {};
}

template <> int64_t workspaceLimit(const LaunchView &) { return 0; }

} // namespace trainrt::cuda
