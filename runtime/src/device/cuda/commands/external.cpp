// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of plug-ins on a GPU: kernels, which are launched, and functions in C that enqueue
// their own.

#include "device/cuda/commands/device_command.h"
#include "plan/external_call.h"

#include <algorithm>
#include <cstring>

namespace trainrt::cuda {

namespace {

class ExternalKernel final : public DeviceCommand {
public:
  ExternalKernel(const ExternalView &step, const Context &context) : step(step), context(context) {}

  Status prepare(Kernels &kernels, const std::string &what) {
    Kernels::Function &loaded = kernels.external(step.op.function);
    const std::span<const int64_t> sizes = step.launch();
    const int64_t threads = sizes[3] * sizes[4] * sizes[5];
    if (threads > loaded.maxThreads)
      return fail(Code::BadData, what, " is to run with ", threads,
                  " threads a block, but can have ", loaded.maxThreads);
    TRAINRT_TRY(kernels.allowShared(loaded, sizes[6]).within(what + ": "));
    function = loaded.handle;
    size_t size = 0;
    for (const External::Argument &argument : step.op.arguments) {
      uint64_t value = 0;
      if (argument.kind == External::ArgumentKind::Size) {
        value = uint64_t(step.sizeArguments()[size++]);
      } else if (argument.kind == External::ArgumentKind::F32) {
        const auto narrow = float(argument.value);
        std::memcpy(&value, &narrow, sizeof narrow);
      } else if (argument.kind == External::ArgumentKind::F64) {
        std::memcpy(&value, &argument.value, sizeof value);
      }
      parameters.push_back(value);
    }
    // The vector stays as it is from now on: pointers lead into it.
    for (uint64_t &parameter : parameters)
      pointers.push_back(&parameter);
    return {};
  }

  void resolve(const Addresses &addresses) override {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (const External::Argument &argument = step.op.arguments[i];
          argument.kind == External::ArgumentKind::Tensor)
        parameters[i] = addresses.of(step.places[argument.index]);
  }

  Status enqueue(CUstream stream, Workspace) const override {
    const Driver &driver = context.driver();
    const std::span<const int64_t> s = step.launch();
    auto at = [&](size_t i) { return unsigned(s[i]); };
    return driver.check(driver.cuLaunchKernel(function, at(0), at(1), at(2), at(3), at(4), at(5),
                                              at(6), stream, pointers.data(), nullptr),
                        "cannot be started");
  }

private:
  const ExternalView step;
  const Context &context;
  CUfunction function = nullptr;
  /// Eight bytes each.
  std::vector<uint64_t> parameters;
  mutable std::vector<void *> pointers;
};

class ExternalFunctionCall final : public DeviceCommand {
public:
  ExternalFunctionCall(const ExternalView &step, ExternalCall function, std::string what)
      : arguments(step), step(step), function(function), what(std::move(what)) {}

  void resolve(const Addresses &addresses) override {
    tensors.clear();
    for (const Place &place : step.places)
      tensors.push_back(addresses.of(place));
  }

  Status enqueue(CUstream stream, Workspace) const override {
    trainrt_external_call call = {};
    call.threads = 1;
    call.stream = stream;
    size_t next = 0;
    return arguments.call(
        function, [&](const Place &) { return reinterpret_cast<void *>(tensors[next++]); }, call,
        what.c_str());
  }

private:
  mutable ExternalArguments arguments;
  const ExternalView step;
  const ExternalCall function;
  const std::string what;
  std::vector<DeviceAddress> tensors; ///< in the order of the places
};

} // namespace

template <>
Status prepareOnDevice(const ExternalView &step, DeviceContext &context,
                       std::unique_ptr<DeviceCommand> &command) {
  const std::string what =
      step.op.describe(context.program, step) + nodesText(context.program, step.command);
  if (!step.op.launched) {
    command = std::make_unique<ExternalFunctionCall>(
        step, context.kernels.externalCalls()->function(step.op.function), what);
    return {};
  }
  const std::span<const int64_t> sizes = step.launch();
  if (std::ranges::count(sizes.subspan(3, 3), 0))
    return fail(Code::BadData, what, " is to run with blocks of ", sizes[3], " x ", sizes[4], " x ",
                sizes[5], " threads");
  if (std::ranges::count(sizes.first(3), 0)) {
    // Nothing to do, if there is nothing to write.
    for (size_t i = 0; i < step.tensors(); ++i)
      if (step.operands[i].isWritten() && step.elements(i))
        return fail(Code::BadData, what, " is to run with ", sizes[0], " x ", sizes[1], " x ",
                    sizes[2], " blocks, but its result ", i, " has elements");
    return {};
  }
  auto made = std::make_unique<ExternalKernel>(step, context.context);
  TRAINRT_TRY(made->prepare(context.kernels, what));
  command = std::move(made);
  return {};
}

template <> int64_t workspaceLimit(const ExternalView &) { return 0; }

} // namespace trainrt::cuda
