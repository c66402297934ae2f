// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#include "trainc/Codegen/KnownFusions.h"

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

/// Equal for bodies that are the same op for op, whatever the names of values; unlike the
/// structural key, sizes are compared as they are. No text is made, since this is asked for every
/// fusion.
KnownFusions::Key KnownFusions::keyOf(FusionOp fusion) {
  Key key;
  auto pushNumber = [&](size_t number) {
    key.push_back(reinterpret_cast<const void *>(uintptr_t(number)));
  };
  // Values by the order of their definition.
  llvm::DenseMap<Value, size_t> numbers;
  auto define = [&](Value value) {
    numbers.try_emplace(value, numbers.size());
    key.push_back(value.getType().getAsOpaquePointer());
  };
  Block &body = fusion.getBody().front();
  pushNumber(body.getNumArguments());
  for (Value argument : body.getArguments())
    define(argument);
  for (Operation &op : body) {
    key.push_back(op.getName().getAsOpaquePointer());
    pushNumber(op.getNumOperands());
    for (Value operand : op.getOperands())
      pushNumber(numbers.at(operand));
    // Properties are part of the dictionary; locations are not.
    key.push_back(op.getAttrDictionary().getAsOpaquePointer());
    for (Value result : op.getResults())
      define(result);
  }
  return key;
}

/// Failures are not kept: each is told where it happens.
FailureOr<KernelInfo> KnownFusions::get(FusionOp fusion,
                                        llvm::function_ref<FailureOr<KernelInfo>(FusionOp)> make) {
  Key key = keyOf(fusion);
  if (auto it = known.find(key); it != known.end())
    return it->second;
  FailureOr<KernelInfo> info = make(fusion);
  if (succeeded(info))
    known.emplace(std::move(key), *info);
  return info;
}

} // namespace trainc::codegen
