// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs whose commands are started one by one: to wait for each, to time them, or to look at what
// they wrote.

#include "device/cuda/compiled_plan.h"

#include <chrono>

namespace trainrt::cuda {

/// A command has ended before the next begins: an error is that of the command which is named.
Status CudaDevice::runSynchronously(const ExecutionPlan &plan, const Compiled &compiled) {
  using Clock = std::chrono::steady_clock;
  auto seconds = [](Clock::duration duration) {
    return std::chrono::duration<double>(duration).count();
  };
  std::vector<unsigned char> copied;
  const CommandObserver::Read read = [&](uint32_t buffer, int64_t offset, int64_t bytes,
                                         const void *&host) {
    copied.resize(size_t(bytes));
    host = copied.data();
    return transfers.download(addressOfBuffer(compiled, plan, buffer, turn, {}) +
                                  DeviceAddress(offset),
                              bytes, copied.data(), runs);
  };
  if (observer)
    TRAINRT_TRY(observer->begin(plan, read));
  const Clock::time_point began = Clock::now();
  for (size_t i = 0; i < compiled.commands.size(); ++i) {
    const Clock::time_point start = Clock::now();
    Status status = compiled.commands.enqueue(i, runs);
    if (status.ok() && exchange)
      status = awaitRanks(plan);
    if (status.ok())
      status = driver.check(driver.cuStreamSynchronize(runs), "failed");
    if (!status.ok())
      return status.within(context->name() + ", function '" + plan.function->name + "', " +
                           compiled.commands.describe(i) + ": ");
    if (observer)
      TRAINRT_TRY(observer->ran(plan, size_t(&compiled.commands.step(i) - plan.steps.data()),
                                seconds(start - began), seconds(Clock::now() - start), read));
  }
  return {};
}

/// Times are the GPU's, from marks between commands; the host waits once, at the end.
Status CudaDevice::runTimed(const ExecutionPlan &plan, const Compiled &compiled) {
  const size_t count = compiled.commands.size();
  while (marks.size() <= count)
    TRAINRT_TRY(marks.emplace_back().create(*context, CU_EVENT_DEFAULT));
  auto mark = [&](size_t i) {
    return driver.check(driver.cuEventRecord(marks[i].get(), runs), "cannot record an event");
  };
  const CommandObserver::Read read = [](uint32_t, int64_t, int64_t, const void *&) {
    return Status(Code::Internal, "values cannot be read while commands are timed");
  };
  TRAINRT_TRY(observer->begin(plan, read));
  TRAINRT_TRY(mark(0));
  for (size_t i = 0; i < count; ++i) {
    TRAINRT_TRY(compiled.commands.enqueue(i, runs).within(
        "function '" + plan.function->name + "', " + compiled.commands.describe(i) + ": "));
    if (exchange)
      TRAINRT_TRY(exchange->finish(runs));
    TRAINRT_TRY(mark(i + 1));
  }
  if (exchange)
    TRAINRT_TRY(awaitRanks(plan));
  TRAINRT_TRY(fault(driver.check(await(marks[count]), "it did not end"), *plan.function));
  auto between = [&](size_t from, size_t to, double &seconds) {
    float milliseconds = 0;
    TRAINRT_TRY(
        driver.check(driver.cuEventElapsedTime(&milliseconds, marks[from].get(), marks[to].get()),
                     "cannot read the time of an event"));
    seconds = double(milliseconds) / 1000;
    return Status();
  };
  for (size_t i = 0; i < count; ++i) {
    double start = 0, duration = 0;
    TRAINRT_TRY(between(0, i, start));
    TRAINRT_TRY(between(i, i + 1, duration));
    TRAINRT_TRY(observer->ran(plan, size_t(&compiled.commands.step(i) - plan.steps.data()), start,
                              duration, read));
  }
  return {};
}

} // namespace trainrt::cuda
