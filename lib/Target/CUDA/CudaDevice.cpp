// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Asks the driver, if there is one. Needs no CUDA to be built.

#include "lib/Target/CUDA/CudaDevice.h"
#include <dlfcn.h>

/// "sm_NN" of device 0, or "" without one. The driver is loaded for the question and let go again.
std::string trainc::findCudaDevice() {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    return {};
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  auto attribute =
      reinterpret_cast<int (*)(int *, int, int)>(dlsym(driver, "cuDeviceGetAttribute"));
  // CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR and _MINOR of device 0.
  int major = 0, minor = 0;
  // Every step may fail on a machine with a driver and no device.
  bool found = init && attribute && init(0) == 0 && attribute(&major, 75, 0) == 0 &&
               attribute(&minor, 76, 0) == 0;
  dlclose(driver);
  return found ? "sm_" + std::to_string(major) + std::to_string(minor) : std::string();
}

int64_t trainc::getCudaMemory() {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!driver)
    return 0;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  // The versioned name: the plain one is an older interface with 32-bit sizes.
  auto memory = reinterpret_cast<int (*)(size_t *, int)>(dlsym(driver, "cuDeviceTotalMem_v2"));
  size_t bytes = 0;
  bool found = init && memory && init(0) == 0 && memory(&bytes, 0) == 0;
  dlclose(driver);
  return found ? int64_t(bytes) : 0;
}
