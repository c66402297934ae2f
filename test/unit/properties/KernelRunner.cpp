// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Launching kernels by their ABI (docs/design/package.md), in one piece and in the smallest pieces.
#include "KernelRunner.h"

#include "mlir/IR/TypeUtilities.h"
#include "gtest/gtest.h"
#include <cstring>
#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using trainc::train::HostTensor;

namespace trainc::properties {
namespace {
struct KernelContext {
  void *scratch;
  int64_t *error;
};
using Kernel = void (*)(void *const *, const int64_t *, int64_t, int64_t, const KernelContext *);

/// Bytes of a tensor in memory: booleans are a byte.
template <typename T> void pack(const HostTensor &tensor, std::vector<char> &bytes) {
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    T value = T(tensor.data[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
}
template <typename T> void unpack(const std::vector<char> &bytes, HostTensor &tensor) {
  for (size_t i = 0; i < tensor.data.size(); ++i) {
    T value;
    std::memcpy(&value, &bytes[i * sizeof(T)], sizeof(T));
    tensor.data[i] = double(value);
  }
}
/// Calls `fn` with a value of the C++ type of an element type.
template <typename Fn> void dispatch(Type type, Fn fn) {
  Type element = getElementTypeOrSelf(type);
  if (element.isF32())
    fn(float());
  else if (element.isF64())
    fn(double());
  else if (element.isInteger(64))
    fn(int64_t());
  else if (element.isInteger(32))
    fn(int32_t());
  else if (element.isInteger(16))
    fn(int16_t());
  else
    fn(int8_t());
}
std::vector<char> toBytes(Type type, const HostTensor &tensor) {
  std::vector<char> bytes;
  dispatch(type, [&](auto like) {
    bytes.resize(tensor.data.size() * sizeof(like));
    pack<decltype(like)>(tensor, bytes);
  });
  return bytes;
}
HostTensor fromBytes(Type type, ArrayRef<int64_t> shape, const std::vector<char> &bytes) {
  HostTensor tensor = reference::makeTensor(shape);
  dispatch(type, [&](auto like) { unpack<decltype(like)>(bytes, tensor); });
  return tensor;
}
} // namespace

void roundTo(Type type, HostTensor &tensor) {
  tensor = fromBytes(type, tensor.shape, toBytes(type, tensor));
}

KernelRunner::~KernelRunner() {
  if (library)
    dlclose(library);
}

LogicalResult KernelRunner::add(func::FuncOp function) {
  for (Operation &op : function.getBody().front())
    if (auto fusion = dyn_cast<train::FusionOp>(op)) {
      FailureOr<codegen::KernelInfo> kernel = codegen.add(fusion);
      if (failed(kernel))
        return failure();
      kernels[fusion] = *kernel;
    }
  return success();
}

std::string KernelRunner::load(StringRef cpu) {
  auto object = codegen.emitSharedObject(cpu);
  if (failed(object))
    return "the kernels do not compile";
  if (library)
    dlclose(library);
  int file = memfd_create("kernels", MFD_CLOEXEC);
  if (file < 0 || write(file, object->data(), object->size()) != ssize_t(object->size()))
    return "cannot write the kernels to memory";
  library = dlopen(("/proc/self/fd/" + std::to_string(file)).c_str(), RTLD_NOW | RTLD_LOCAL);
  std::string reason = library ? "" : dlerror();
  close(file);
  return reason;
}

FailureOr<SmallVector<HostTensor>> KernelRunner::launch(train::FusionOp fusion,
                                                        ArrayRef<HostTensor> inputs,
                                                        const train::SymbolValues &symbols) {
  const codegen::KernelInfo &info = kernels[fusion];
  SmallVector<int64_t> dims;
  for (train::DimAttr dim : info.dims)
    dims.push_back(symbols.evaluate(dim).value_or(-1));

  // The second time one work item a call, with other garbage in scratch and results.
  std::vector<std::vector<char>> first;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::vector<char>> buffers;
    for (auto [value, tensor] : llvm::zip_equal(fusion.getInputs(), inputs))
      buffers.push_back(toBytes(value.getType(), tensor));
    SmallVector<SmallVector<int64_t>> shapes;
    for (Value result : fusion.getResults()) {
      shapes.push_back(*reference::evaluateShape(result.getType(), symbols));
      buffers.push_back(toBytes(result.getType(), reference::makeTensor(shapes.back())));
      std::memset(buffers.back().data(), round ? 0x5a : 0xff, buffers.back().size());
    }
    SmallVector<void *> arguments;
    for (std::vector<char> &buffer : buffers)
      arguments.push_back(buffer.data());
    std::vector<char> temporary;
    if (info.temporaryBytes) {
      temporary.assign(symbols.evaluate(info.temporaryBytes).value_or(0), round ? 0x5a : 0x7f);
      arguments.push_back(temporary.data());
    }
    int64_t error[3] = {0, 0, 0};
    for (const codegen::KernelStage &stage : info.stages) {
      auto kernel = reinterpret_cast<Kernel>(dlsym(library, stage.name.c_str()));
      if (!kernel) {
        ADD_FAILURE() << "no kernel " << stage.name;
        return failure();
      }
      int64_t work = symbols.evaluate(stage.work).value_or(-1);
      int64_t scratchBytes = symbols.evaluate(stage.scratchBytes).value_or(-1);
      EXPECT_GE(work, 0);
      EXPECT_GE(scratchBytes, 0);
      EXPECT_GE(stage.grain, 1);
      std::vector<char> scratch(scratchBytes + 64, round ? 0x33 : 0x7f);
      auto aligned = (reinterpret_cast<uintptr_t>(scratch.data()) + 63) & ~uintptr_t(63);
      KernelContext context{reinterpret_cast<void *>(aligned), error};
      if (round == 0)
        kernel(arguments.data(), dims.data(), 0, work, &context);
      else
        for (int64_t item = work - 1; item >= 0; --item)
          kernel(arguments.data(), dims.data(), item, item + 1, &context);
    }
    EXPECT_EQ(error[0], 0) << "index out of range";
    if (round == 0) {
      first = std::move(buffers);
      continue;
    }
    EXPECT_TRUE(first == buffers) << "the split of the work changes bits";
  }
  SmallVector<HostTensor> results;
  for (auto [i, result] : llvm::enumerate(fusion.getResults()))
    results.push_back(fromBytes(result.getType(),
                                *reference::evaluateShape(result.getType(), symbols),
                                first[inputs.size() + i]));
  return results;
}

FailureOr<SmallVector<HostTensor>> KernelRunner::run(func::FuncOp function,
                                                     ArrayRef<HostTensor> arguments,
                                                     const train::SymbolValues &symbols) {
  DenseMap<Value, HostTensor> values;
  Block &block = function.getBody().front();
  for (auto [argument, tensor] : llvm::zip_equal(block.getArguments(), arguments))
    values[argument] = tensor;
  for (Operation &op : block) {
    SmallVector<HostTensor> operands;
    for (Value operand : op.getOperands())
      operands.push_back(values[operand]);
    if (op.hasTrait<OpTrait::IsTerminator>())
      return operands;
    auto fusion = dyn_cast<train::FusionOp>(op);
    auto results =
        fusion ? launch(fusion, operands, symbols)
               : FailureOr<SmallVector<HostTensor>>(reference::evaluateOp(&op, operands, symbols));
    if (failed(results)) {
      ADD_FAILURE() << "cannot run " << op.getName().getStringRef().str();
      return failure();
    }
    for (auto [value, tensor] : llvm::zip_equal(op.getResults(), *results)) {
      roundTo(value.getType(), tensor);
      values[value] = std::move(tensor);
    }
  }
  return failure();
}

} // namespace trainc::properties
