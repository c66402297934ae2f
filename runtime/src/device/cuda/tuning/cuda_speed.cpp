// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What a GPU can do at best, measured.

#include "device/cuda/cuda_device.h"

#include "device/cuda/device.h"

#include <algorithm>

namespace trainrt::cuda {

Status CudaDevice::measureCopySpeed(double &bytesPerSecond) {
  CurrentContext current = context->makeCurrent();
  size_t free = 0, total = 0;
  TRAINRT_TRY(driver.check(driver.cuMemGetInfo(&free, &total), "cannot ask for free memory"));
  // Beyond the caches; half of what is free stays so.
  const int64_t bytes = std::min<int64_t>(int64_t(1) << 30, int64_t(free / 4));
  DeviceMemory from, to;
  TRAINRT_TRY(allocate(bytes, "measurement of the copy speed", true, from));
  TRAINRT_TRY(allocate(bytes, "measurement of the copy speed", true, to));
  constexpr int copies = 10;
  while (marks.size() < 2)
    TRAINRT_TRY(marks.emplace_back().create(*context, CU_EVENT_DEFAULT));
  // Ten in a row: the clocks rise with the first.
  for (int i = -1; i < copies; ++i) { // the first one is not timed
    if (i == 0)
      TRAINRT_TRY(driver.check(driver.cuEventRecord(marks[0].get(), runs), "cannot record"));
    TRAINRT_TRY(copy(to.data(), from.data(), bytes));
  }
  TRAINRT_TRY(driver.check(driver.cuEventRecord(marks[1].get(), runs), "cannot record"));
  TRAINRT_TRY(driver.check(await(marks[1]), "cannot measure the copy speed"));
  float milliseconds = 0;
  TRAINRT_TRY(driver.check(driver.cuEventElapsedTime(&milliseconds, marks[0].get(), marks[1].get()),
                           "cannot measure the copy speed"));
  // Each copy reads and writes all bytes.
  bytesPerSecond = 2.0 * double(bytes) * copies / (double(milliseconds) / 1000);
  return {};
}

/// With matrices as the package's own matmuls have them in type and precision. Its memory is given
/// back at the end.
Status CudaDevice::measureMatmulSpeed(double &flopsPerSecond) {
  const Gemm *matmul = typicalMatmul();
  if (!matmul)
    return Status(Code::Unsupported, "the package multiplies no matrices");
  CurrentContext current = context->makeCurrent();
  size_t free = 0, total = 0;
  TRAINRT_TRY(driver.check(driver.cuMemGetInfo(&free, &total), "cannot ask for free memory"));
  const auto bytesOf = [&](int64_t size) { return size * size * int64_t(sizeOf(matmul->dtype)); };
  // Square, and as large as a fourth of the free memory allows.
  int64_t size = 8192;
  while (size > 512 && 3 * bytesOf(size) > int64_t(free / 4))
    size /= 2;
  DeviceMemory a, b, c, room;
  for (DeviceMemory *memory : {&a, &b, &c})
    TRAINRT_TRY(allocate(bytesOf(size), "measurement of the speed of matmuls", true, *memory));
  TRAINRT_TRY(fillWithNumbers(at(a.data()), a.size()));
  TRAINRT_TRY(fillWithNumbers(at(b.data()), b.size()));
  GemmCall call;
  call.dtype = call.resultType = matmul->dtype;
  call.tf32 = matmul->tf32;
  call.m = call.n = call.k = size;
  // Row-major, as models have them.
  call.aM = call.bK = call.cM = size;
  call.aK = call.bN = call.cN = 1;
  Blas *blas = nullptr;
  TRAINRT_TRY(libraries->blas(blas));
  std::shared_ptr<const GemmPlan> plan;
  TRAINRT_TRY(blas->prepare(call, plan));
  // What this very algorithm asks for, not the limit.
  if (plan->workspaceBytes())
    TRAINRT_TRY(allocate(int64_t(plan->workspaceBytes()), "workspace", false, room));
  while (marks.size() < 2)
    TRAINRT_TRY(marks.emplace_back().create(*context, CU_EVENT_DEFAULT));
  constexpr int products = 10;
  for (int i = -2; i < products; ++i) { // the first ones are not timed
    if (i == 0)
      TRAINRT_TRY(driver.check(driver.cuEventRecord(marks[0].get(), runs), "cannot record"));
    TRAINRT_TRY(plan->enqueue(runs, {at(a.data()), at(b.data()), at(c.data())},
                              {at(room.data()), uint64_t(room.size())}));
  }
  TRAINRT_TRY(driver.check(driver.cuEventRecord(marks[1].get(), runs), "cannot record"));
  TRAINRT_TRY(driver.check(await(marks[1]), "cannot measure the speed of matmuls"));
  float milliseconds = 0;
  TRAINRT_TRY(driver.check(driver.cuEventElapsedTime(&milliseconds, marks[0].get(), marks[1].get()),
                           "cannot measure the speed of matmuls"));
  // A multiplication and an addition for each of size ^ 3.
  flopsPerSecond =
      2.0 * double(size) * double(size) * double(size) * products / (double(milliseconds) / 1000);
  return {};
}

} // namespace trainrt::cuda
