// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The device of the tests.

#include "device.h"

#include "io/convert.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace trainrt::cuda::test {

namespace {
int passes = 0, failures = 0;

[[noreturn]] void stop(const Status &status) {
  std::fprintf(stderr, "cannot test: %s\n", status.message().c_str());
  std::exit(2);
}
void need(const Status &status) {
  if (!status.ok())
    stop(status);
}

/// `value` with `bits` bits of significand and no exponent below `minimum`.
double roundSignificand(double value, int bits, int minimum) {
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent);
  int shift = std::max(exponent, minimum) - bits;
  return std::ldexp(std::nearbyint(std::ldexp(value, -shift)), shift);
}

uint16_t toBits16(DType dtype, double rounded) {
  if (dtype == DType::BF16) {
    float narrow = float(rounded);
    uint32_t bits;
    std::memcpy(&bits, &narrow, sizeof bits);
    return uint16_t(bits >> 16);
  }
  uint16_t sign = std::signbit(rounded) ? 0x8000 : 0;
  double size = std::fabs(rounded);
  if (std::isnan(rounded))
    return 0x7e00;
  if (size >= 65536)
    return sign | 0x7c00;
  if (size < std::ldexp(1, -14)) // subnormal
    return sign | uint16_t(std::ldexp(size, 24));
  int exponent;
  double fraction = std::frexp(size, &exponent); // [0.5, 1)
  return sign | uint16_t((exponent + 14) << 10 | (int(std::ldexp(fraction, 11)) & 0x3ff));
}
} // namespace

double unitRoundoff(DType dtype) {
  return std::ldexp(1, dtype == DType::F64    ? -53
                       : dtype == DType::F32  ? -24
                       : dtype == DType::BF16 ? -8
                                              : -11);
}

double roundTo(DType dtype, double value) {
  switch (dtype) {
  case DType::F32:
    return float(value);
  case DType::BF16:
    return roundSignificand(value, 8, -125);
  case DType::F16:
    value = roundSignificand(value, 11, -13);
    return std::fabs(value) >= 65536 ? std::copysign(INFINITY, value) : value;
  default:
    return value;
  }
}

Device::Device() {
  need(Driver::load(api));
  CUdevice device = 0;
  need(api->check(api->cuDeviceGet(&device, 0), "no device"));
  need(api->check(api->cuDevicePrimaryCtxRetain(&primary, device), "no context"));
  need(api->check(api->cuCtxPushCurrent(primary), "no context"));
  need(api->check(api->cuStreamCreate(&queue, CU_STREAM_NON_BLOCKING), "no stream"));
}

std::string Device::name() const {
  char text[256] = "";
  CUdevice device = 0;
  api->cuCtxGetDevice(&device);
  api->cuDeviceGetName(text, sizeof text, device);
  return text;
}

CUdeviceptr Device::allocate(size_t bytes) {
  CUdeviceptr memory = 0;
  need(api->check(api->cuMemAlloc(&memory, std::max<size_t>(bytes, 1)), "no memory"));
  return memory;
}

void Device::free(CUdeviceptr memory) {
  need(api->check(api->cuStreamSynchronize(queue), "an earlier call failed"));
  need(api->check(api->cuMemFree(memory), "cannot free"));
}

void Device::upload(CUdeviceptr to, const void *from, size_t bytes) {
  need(api->check(api->cuMemcpyHtoDAsync(to, from, bytes, queue), "cannot copy"));
  need(api->check(api->cuStreamSynchronize(queue), "an earlier call failed"));
}

void Device::download(void *to, CUdeviceptr from, size_t bytes) {
  need(api->check(api->cuMemcpyDtoHAsync(to, from, bytes, queue), "cannot copy"));
  need(api->check(api->cuStreamSynchronize(queue), "an earlier call failed"));
}

Status Device::record(const std::function<Status()> &enqueue, CUgraphExec &executable) {
  TRAINRT_TRY(api->check(api->cuStreamBeginCapture(queue, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                         "cannot capture"));
  Status status = enqueue();
  CUgraph graph = nullptr;
  Status ended = api->check(api->cuStreamEndCapture(queue, &graph), "capturing");
  TRAINRT_TRY(status);
  TRAINRT_TRY(ended);
  status = api->check(api->cuGraphInstantiate(&executable, graph, 0), "instantiating");
  api->cuGraphDestroy(graph);
  return status;
}

Status Device::capture(const std::function<Status()> &enqueue) {
  CUgraphExec executable = nullptr;
  TRAINRT_TRY(record(enqueue, executable));
  Status status = api->check(api->cuGraphLaunch(executable, queue), "launching");
  if (status.ok())
    status = api->check(api->cuStreamSynchronize(queue), "running");
  api->cuGraphExecDestroy(executable);
  return status;
}

Status Device::time(const std::function<Status()> &enqueue, double &seconds) {
  CUgraphExec executable = nullptr;
  TRAINRT_TRY(record(enqueue, executable));
  CUevent begin = nullptr, end = nullptr;
  TRAINRT_TRY(api->check(api->cuEventCreate(&begin, CU_EVENT_DEFAULT), "an event"));
  TRAINRT_TRY(api->check(api->cuEventCreate(&end, CU_EVENT_DEFAULT), "an event"));
  constexpr int rounds = 9, runs = 10;
  std::vector<double> times;
  CUresult result = CUDA_SUCCESS;
  for (int round = 0; round < rounds && result == CUDA_SUCCESS; ++round) {
    result = api->cuEventRecord(begin, queue);
    for (int i = 0; i < runs && result == CUDA_SUCCESS; ++i)
      result = api->cuGraphLaunch(executable, queue);
    float milliseconds = 0;
    if (result == CUDA_SUCCESS)
      result = api->cuEventRecord(end, queue);
    if (result == CUDA_SUCCESS)
      result = api->cuEventSynchronize(end);
    if (result == CUDA_SUCCESS)
      result = api->cuEventElapsedTime(&milliseconds, begin, end);
    times.push_back(milliseconds * 1e-3 / runs);
  }
  api->cuEventDestroy(begin);
  api->cuEventDestroy(end);
  api->cuGraphExecDestroy(executable);
  std::sort(times.begin(), times.end());
  seconds = times[times.size() / 2];
  return api->check(result, "timing");
}

Array::Array(Device &device, DType dtype, size_t size, double value)
    : values(size, value), device(device), dtype(dtype) {
  memory = device.allocate(size * sizeOf(dtype));
}

Array::~Array() { device.free(memory); }

void Array::fill(std::mt19937 &random, double deviation) {
  std::normal_distribution<double> normal(0, deviation);
  for (double &value : values)
    value = roundTo(dtype, normal(random));
}

void Array::toDevice() {
  std::vector<uint8_t> bytes(values.size() * sizeOf(dtype));
  for (size_t i = 0; i < values.size(); ++i) {
    double value = roundTo(dtype, values[i]);
    uint8_t *to = bytes.data() + i * sizeOf(dtype);
    if (dtype == DType::F64) {
      std::memcpy(to, &value, 8);
    } else if (dtype == DType::F32) {
      float narrow = float(value);
      std::memcpy(to, &narrow, 4);
    } else if (dtype == DType::I64) {
      int64_t integer = int64_t(values[i]);
      std::memcpy(to, &integer, 8);
    } else if (dtype == DType::I32) {
      int32_t integer = int32_t(values[i]);
      std::memcpy(to, &integer, 4);
    } else {
      uint16_t bits = toBits16(dtype, value);
      std::memcpy(to, &bits, 2);
    }
  }
  setBits(bytes);
}

std::vector<uint8_t> Array::bits() {
  std::vector<uint8_t> bytes(values.size() * sizeOf(dtype));
  device.download(bytes.data(), memory, bytes.size());
  return bytes;
}

void Array::setBits(const std::vector<uint8_t> &bytes) {
  device.upload(memory, bytes.data(), bytes.size());
}

std::vector<double> Array::fromDevice() {
  std::vector<uint8_t> bytes = bits();
  std::vector<double> result(values.size());
  for (size_t i = 0; i < result.size(); ++i) {
    const uint8_t *from = bytes.data() + i * sizeOf(dtype);
    if (dtype == DType::F64) {
      std::memcpy(&result[i], from, 8);
    } else if (dtype == DType::F32) {
      float narrow;
      std::memcpy(&narrow, from, 4);
      result[i] = narrow;
    } else {
      uint16_t value;
      std::memcpy(&value, from, 2);
      result[i] = dtype == DType::BF16 ? bfloatToFloat(value) : halfToFloat(value);
    }
  }
  return result;
}

bool check(bool passed, const std::string &name, const std::string &why) {
  ++(passed ? passes : failures);
  if (!passed) {
    std::printf("FAIL %s%s%s\n", name.c_str(), why.empty() ? "" : ": ", why.c_str());
    std::fflush(stdout);
  }
  return passed;
}
bool check(const Status &status, const std::string &name) {
  return check(status.ok(), name, status.message());
}
int passedChecks() { return passes; }
int failedChecks() { return failures; }

} // namespace trainrt::cuda::test
