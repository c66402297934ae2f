// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The devices by target: the one place that knows them all.

#include "session/create_device.h"
#include "device/cpu/executor.h"
#include "device/cpu/host_device.h"
#include "device/cuda/device.h"
#include "program_generated.h"

#include <cassert>

namespace trainrt {

namespace {

Status createHost(std::shared_ptr<const Package> package, const DeviceOptions &options,
                  Device::AddressOf addressOf, std::unique_ptr<Device> &device) {
  std::shared_ptr<const KernelLibrary> kernels;
  TRAINRT_TRY(package->kernels(kernels));
  std::shared_ptr<const ExternalFunctions> externals;
  TRAINRT_TRY(package->externals(externals));
  if (options.ranks && options.ranks->wantsVendorSums())
    return Status(Code::Unsupported,
                  "--reduce nccl is for packages of --target cuda: on CPUs there "
                  "are sums in the order of ranks only");
  if (options.ranks && options.ranks->world() > 1)
    TRAINRT_TRY(options.ranks->connect());
  device = std::make_unique<HostDevice>(std::move(package), std::move(kernels),
                                        std::move(externals), options, std::move(addressOf));
  return {};
}

void addHostEstimate(const Program &, const std::vector<ExecutionPlan> &plans, unsigned threads,
                     const RunPlace &place, MemoryUse &use) {
  // Kernels of all plans share threads' memory: the largest counts.
  std::vector<const ExecutionPlan *> all;
  for (const ExecutionPlan &plan : plans)
    all.push_back(&plan);
  use.scratch = estimateScratch(all, threads, place);
}

void addCudaEstimate(const Program &program, const std::vector<ExecutionPlan> &plans, unsigned,
                     const RunPlace &place, MemoryUse &use) {
  int64_t exchange = 0;
  for (const ExecutionPlan &plan : plans) {
    cuda::addEstimate(program, plan, use);
    if (place.world > 1)
      exchange =
          std::max(exchange, cuda::stagingBytes(plan, int(place.world), int(place.shards())));
  }
  use.scratch += exchange;
}

struct DeviceKind {
  decltype(createDevice) *create;
  decltype(addDeviceEstimate) *addEstimate;
};

/// In the order of targets.
constexpr DeviceKind kinds[] = {{createHost, addHostEstimate},
                                {cuda::createDevice, addCudaEstimate}};
static_assert(std::size(kinds) == size_t(fb::Target::MAX) + 1);

} // namespace

Status createDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
                    Device::AddressOf addressOf, std::unique_ptr<Device> &device) {
  assert(uint8_t(package->program().target) < std::size(kinds) &&
         "checked when the program was read");
  const DeviceKind &kind = kinds[uint8_t(package->program().target)];
  return kind.create(std::move(package), options, std::move(addressOf), device);
}

void addDeviceEstimate(const Program &program, const std::vector<ExecutionPlan> &plans,
                       unsigned threads, const RunPlace &place, MemoryUse &use) {
  kinds[uint8_t(program.target)].addEstimate(program, plans, threads, place, use);
}

} // namespace trainrt
