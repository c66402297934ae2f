// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the tests of CUDA's libraries share: a device with a stream, arrays that exist on the host
// as doubles and on the device in any float type, capture and replay, and the counting of checks.
#ifndef TRAINC_TEST_GPU_DEVICE_H
#define TRAINC_TEST_GPU_DEVICE_H

#include "device/cuda/driver.h"
#include "device/cuda/libraries.h"
#include "format/dtype.h"

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace trainrt::cuda::test {

/// The first device. Every failure here ends the program.
class Device {
public:
  Device();
  const Driver &driver() const { return *api; }
  CUstream stream() const { return queue; }
  CUcontext context() const { return primary; }
  std::string name() const;

  CUdeviceptr allocate(size_t bytes);
  void free(CUdeviceptr memory);
  void upload(CUdeviceptr to, const void *from, size_t bytes);
  void download(void *to, CUdeviceptr from, size_t bytes);
  /// Captures what `enqueue` does into a graph and launches that once: nothing is run before it is
  /// captured, as in a session.
  Status capture(const std::function<Status()> &enqueue);
  /// Seconds a run of a captured graph of `enqueue`, the median of several.
  Status time(const std::function<Status()> &enqueue, double &seconds);

private:
  Status record(const std::function<Status()> &enqueue, CUgraphExec &executable);
  const Driver *api = nullptr;
  CUcontext primary = nullptr;
  CUstream queue = nullptr;
};

/// The nearest value of the type, ties to even.
double roundTo(DType dtype, double value);
/// Half the distance of 1 to the next larger value of the type.
double unitRoundoff(DType dtype);

/// Values on the host, rounded to `dtype`, and their copy on the device.
class Array {
public:
  Array(Device &device, DType dtype, size_t size, double value = 0);
  ~Array();
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;

  /// Normally distributed.
  void fill(std::mt19937 &random, double deviation = 1);
  void toDevice();
  /// The device's values.
  std::vector<double> fromDevice();
  /// The device's bits.
  std::vector<uint8_t> bits();
  void setBits(const std::vector<uint8_t> &bytes);
  CUdeviceptr address(size_t element = 0) const { return memory + element * sizeOf(dtype); }

  std::vector<double> values;

private:
  Device &device;
  DType dtype;
  CUdeviceptr memory = 0;
};

/// Memory without values.
class Scratch {
public:
  Scratch(Device &device, uint64_t bytes) : device(device), bytes(bytes) {
    memory = bytes ? device.allocate(bytes) : 0;
  }
  ~Scratch() {
    if (memory)
      device.free(memory);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;
  Workspace workspace() const { return {memory, bytes}; }

private:
  Device &device;
  uint64_t bytes;
  CUdeviceptr memory;
};

/// A folder for stored plans that is empty at first and removed in the end.
struct PlanFolder {
  PlanFolder() {
    char pattern[] = "/tmp/trainrt-plans-XXXXXX";
    path = mkdtemp(pattern);
    setenv("TRAINRT_CACHE", path.c_str(), 1);
  }
  ~PlanFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::string path;
};

/// Counts a check; prints its name and `why` if it failed.
bool check(bool passed, const std::string &name, const std::string &why = "");
bool check(const Status &status, const std::string &name);
int passedChecks();
int failedChecks();

} // namespace trainrt::cuda::test

#endif // TRAINC_TEST_GPU_DEVICE_H
