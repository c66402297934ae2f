// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Runs whose commands are started one by one: to wait for each, to time them, or to look at what
// they wrote.

#include "device/cuda/commands/collective.h"
#include "device/cuda/compiled_plan.h"

#include <algorithm>
#include <chrono>

namespace trainrt::cuda {

/// One that is no exchange on a stream of its own.
Status CudaDevice::enqueueCommand(const Compiled &compiled, size_t item) const {
  // In an exchange this rank waits for others.
  const auto held =
      compiled.commands.as<CollectiveCommand>(item) ? std::unique_lock<std::mutex>() : starting();
  return compiled.commands.enqueue(item, runs);
}

/// A command has ended before the next begins: an error is that of the command which is named.
Status CudaDevice::runSynchronously(const ExecutionPlan &plan, const Compiled &compiled,
                                    bool alone) {
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
    const auto *collective = compiled.commands.as<CollectiveCommand>(i);
    if (alone && collective)
      continue;
    const Clock::time_point start = Clock::now();
    Status status = collective ? collective->begin(runs) : Status();
    if (status.ok())
      status = enqueueCommand(compiled, i);
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

static Status refuseToRead(uint32_t, int64_t, int64_t, const void *&) {
  return Status(Code::Internal, "values cannot be read while commands are timed");
}

/// Times are the GPU's, from marks around commands; the host waits once, at the end. A command
/// begins where the one before it on its stream has ended, and, with the exchanges that it needs,
/// these.
Status CudaDevice::runTimed(const ExecutionPlan &plan, const Compiled &compiled, bool alone) {
  const Commands &commands = compiled.commands;
  TRAINRT_TRY(observer->begin(plan, refuseToRead));
  size_t used = 0;
  auto mark = [&](CUstream on, size_t &which) {
    if (used == marks.size())
      TRAINRT_TRY(marks.emplace_back().create(*context, CU_EVENT_DEFAULT));
    which = used++;
    return driver.check(driver.cuEventRecord(marks[which].get(), on), "cannot record an event");
  };
  std::vector<Span> spans(commands.size());
  size_t last = 0, awaited = 0; // the mark behind the last command; items that have been waited for
  TRAINRT_TRY(mark(runs, last));
  auto awaitUpTo = [&](size_t end) {
    for (; awaited < end; ++awaited)
      spans[awaited].needed = last;
  };
  for (const Commands::Part &part : compiled.parts) {
    if (part.isCollective && alone)
      continue;
    if (part.awaits >= 0 && !alone) {
      awaitUpTo(size_t(part.awaits) + 1);
      TRAINRT_TRY(awaitExchange(compiled, part.awaits));
      TRAINRT_TRY(mark(runs, last));
    }
    for (size_t i = part.begin; i < part.end; ++i) {
      const bool isBeside = part.isCollective && exchangeStream;
      spans[i].begin = last;
      if (isBeside) {
        TRAINRT_TRY(order(runs, exchangeStream));
        TRAINRT_TRY(mark(exchangeStream, spans[i].begin));
      }
      const Status status =
          part.isCollective ? enqueueExchange(compiled, i) : enqueueCommand(compiled, i);
      TRAINRT_TRY(
          status.within("function '" + plan.function->name + "', " + commands.describe(i) + ": "));
      TRAINRT_TRY(mark(isBeside ? exchangeStream : runs, spans[i].end));
      if (!isBeside)
        last = spans[i].end;
    }
  }
  awaitUpTo(spans.size());
  if (exchange) {
    if (exchangeStream)
      TRAINRT_TRY(order(exchangeStream, runs));
    TRAINRT_TRY(awaitRanks(plan));
  }
  TRAINRT_TRY(fault(driver.check(await(marks[last]), "it did not end"), *plan.function));
  return tellTimes(plan, compiled, spans, alone);
}

/// Exchanges run in their order: each is waited for only when those before it are done.
Status CudaDevice::tellTimes(const ExecutionPlan &plan, const Compiled &compiled,
                             const std::vector<Span> &spans, bool alone) {
  auto between = [&](size_t from, size_t to, double &seconds) {
    float milliseconds = 0;
    TRAINRT_TRY(
        driver.check(driver.cuEventElapsedTime(&milliseconds, marks[from].get(), marks[to].get()),
                     "cannot read the time of an event"));
    seconds = double(milliseconds) / 1000;
    return Status();
  };
  double exchanged = 0; // the end of the last exchange
  for (size_t i = 0; i < spans.size(); ++i) {
    const bool isExchange = compiled.commands.as<CollectiveCommand>(i) != nullptr;
    if (isExchange && alone)
      continue;
    double start = 0, duration = 0;
    TRAINRT_TRY(between(0, spans[i].begin, start));
    TRAINRT_TRY(between(spans[i].begin, spans[i].end, duration));
    if (isExchange && exchangeStream) {
      double needed = 0, end = 0;
      TRAINRT_TRY(between(0, spans[i].needed, needed));
      TRAINRT_TRY(between(0, spans[i].end, end));
      observer->waited(std::max(0.0, end - std::max(needed, exchanged)));
      exchanged = end;
    }
    TRAINRT_TRY(observer->ran(plan, size_t(&compiled.commands.step(i) - plan.steps.data()), start,
                              duration, refuseToRead));
  }
  return {};
}

} // namespace trainrt::cuda
