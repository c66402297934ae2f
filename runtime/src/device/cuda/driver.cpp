// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loading the driver's library.

#include "device/cuda/driver.h"

#include <cstdlib>
#include <dlfcn.h>
#include <map>
#include <mutex>

namespace trainrt::cuda {

namespace {

/// All of `driver` or an error; a library that could be opened stays so in either case.
Status loadFunctions(const char *library, bool named, Driver &driver) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *reason = dlerror();
    return fail(Code::DeviceError, "this package needs an NVIDIA GPU, and the driver's library ",
                library, " cannot be loaded",
                named ? " (TRAINRT_CUDA_DRIVER names it)" : " from the loader's path", ": ",
                reason ? reason : "unknown reason",
                "; install the NVIDIA driver, or compile the model for the CPU (trainc --target "
                "cpu)");
  }
// All functions, or the driver is too old.
#define TRAINRT_CUDA_RESOLVE(name, symbol, parameters)                                             \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(handle, #symbol));                   \
  if (!driver.name)                                                                                \
    return fail(Code::DeviceError, "the NVIDIA driver's library ", library, " has no function ",   \
                #symbol, "; a driver for CUDA 12.4 or newer is needed");
  TRAINRT_CUDA_FUNCTIONS(TRAINRT_CUDA_RESOLVE)
#undef TRAINRT_CUDA_RESOLVE
  if (CUresult result = driver.cuInit(0); result != CUDA_SUCCESS)
    return fail(Code::DeviceError, "the NVIDIA driver (", library,
                ") finds no usable GPU: ", driver.describe(result),
                "; see what `nvidia-smi` says, or compile the model for the CPU (trainc --target "
                "cpu)");
  return {};
}

} // namespace

/// `driver` lives as long as the process. Any thread.
Status Driver::load(const Driver *&driver) {
  // Never unloaded: other parts of the process may use the driver, too.
  // By name, as tests name another one.
  static std::mutex mutex;
  static std::map<std::string, Driver> loaded;
  std::lock_guard lock(mutex);
  // A driver outside of the loader's path (some containers), or a substitute.
  const char *variable = std::getenv("TRAINRT_CUDA_DRIVER");
  const bool named = variable && *variable;
  const std::string library = named ? variable : "libcuda.so.1";
  auto known = loaded.find(library);
  if (known == loaded.end()) {
    // A driver that cannot be loaded is tried again the next time.
    Driver fresh;
    TRAINRT_TRY(loadFunctions(library.c_str(), named, fresh));
    known = loaded.emplace(library, fresh).first;
  }
  driver = &known->second;
  return {};
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr, *text = nullptr;
  // Both stay null for numbers that this driver does not know.
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  std::string described = name ? name : "CUDA error " + std::to_string(result);
  return text ? described + " (" + text + ")" : described;
}

Status Driver::error(CUresult result, const std::string &what) const {
  return fail(result == CUDA_ERROR_OUT_OF_MEMORY ? Code::OutOfMemory : Code::DeviceError, what,
              ": ", describe(result));
}

} // namespace trainrt::cuda
