// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Opening a GPU.

#include "device/cuda/context.h"
#include "device/memory.h"

#include <utility>

namespace trainrt::cuda {

/// Not made current here: who calls the driver does that.
Status Context::open(int ordinal, std::unique_ptr<Context> &context) {
  const Driver *driver;
  TRAINRT_TRY(Driver::load(driver));
  int count = 0;
  TRAINRT_TRY(driver->check(driver->cuDeviceGetCount(&count), "cannot count the GPUs"));
  if (count == 0)
    return fail(Code::DeviceError, "there is no NVIDIA GPU (CUDA_VISIBLE_DEVICES may hide it); "
                                   "compile the model for the CPU (trainc --target cpu)");
  if (ordinal < 0 || ordinal >= count)
    return fail(Code::DeviceError, "there is no GPU ", ordinal, ": this process sees ", count,
                count == 1 ? ", GPU 0" : ", GPUs 0 to " + std::to_string(count - 1));
  // From here on the destructor gives back what was taken.
  std::unique_ptr<Context> opened(new Context(*driver));
  TRAINRT_TRY(driver->check(driver->cuDeviceGet(&opened->device, ordinal), "cannot open the GPU"));
  opened->number = ordinal;
  char name[128] = "";
  // A GPU without a name is one.
  driver->cuDeviceGetName(name, sizeof name, opened->device);
  opened->text = "GPU " + std::to_string(ordinal) + " (" + name + ")";
  for (auto [attribute, value] :
       {std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, &opened->major},
        std::pair{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, &opened->minor},
        std::pair{CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, &opened->numMultiprocessors}})
    TRAINRT_TRY(driver->check(driver->cuDeviceGetAttribute(value, attribute, opened->device),
                              "cannot query the GPU"));
  // The process's own context: libraries and other users of the GPU share it.
  TRAINRT_TRY(driver->check(driver->cuDevicePrimaryCtxRetain(&opened->handle, opened->device),
                            "cannot use the GPU"));
  context = std::move(opened);
  return {};
}

Context::~Context() {
  if (handle && !kept)
    api.cuDevicePrimaryCtxRelease(device);
}

void Context::free(CUdeviceptr memory) const {
  std::lock_guard lock(mutex);
  if (!blocksLeft.count(memory))
    api.cuMemFree(memory);
}

void Context::leave(CUdeviceptr memory) const {
  std::lock_guard lock(mutex);
  blocksLeft.insert(memory);
  kept = true;
}

/// A moved-from event is empty.
Event::Event(Event &&other) noexcept { *this = std::move(other); }

/// The other one destroys what this one had.
Event &Event::operator=(Event &&other) noexcept {
  std::swap(context, other.context);
  std::swap(handle, other.handle);
  return *this;
}

Event::~Event() {
  if (handle)
    context->driver().cuEventDestroy(handle);
}

/// Once for each event.
Status Event::create(const Context &where, unsigned flags) {
  context = &where;
  return where.driver().check(where.driver().cuEventCreate(&handle, flags), "cannot make an event");
}

PinnedMemory::PinnedMemory(PinnedMemory &&other) noexcept { *this = std::move(other); }

PinnedMemory &PinnedMemory::operator=(PinnedMemory &&other) noexcept {
  std::swap(context, other.context);
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  return *this;
}

/// What it held is gone even if there is no memory for the new.
Status PinnedMemory::allocate(const Context &where, int64_t size, const char *what) {
  release();
  context = &where;
  void *memory = nullptr;
  CUresult result = where.driver().cuMemHostAlloc(&memory, size_t(size), 0);
  if (result != CUDA_SUCCESS)
    return where.driver().error(result, "no pinned host memory for the " + std::string(what) +
                                            " (" + bytesText(uint64_t(size)) + ")");
  bytes = static_cast<unsigned char *>(memory);
  length = size;
  return {};
}

/// The caller has waited for whatever reads it.
void PinnedMemory::release() {
  if (bytes)
    context->driver().cuMemFreeHost(bytes);
  bytes = nullptr;
  length = 0;
}

} // namespace trainrt::cuda
