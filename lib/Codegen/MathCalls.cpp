// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Calls of a library for the math ops that have no expansion: f64, and rare functions of f32. On
// the CPU it is libm, which the process that loads the kernels has; on the GPU libdevice, whose
// names are libm's behind a prefix.

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "trainc/Codegen/MathExpansion.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;

namespace trainc::codegen {

/// Name of the function on doubles; empty for ops that the machine does itself.
/// f32 functions have an f behind the name.
static StringRef libraryName(StringRef op) {
  return llvm::StringSwitch<StringRef>(op)
      .Case("math.exp", "exp")
      .Case("math.exp2", "exp2")
      .Case("math.expm1", "expm1")
      .Case("math.log", "log")
      .Case("math.log2", "log2")
      .Case("math.log10", "log10")
      .Case("math.log1p", "log1p")
      .Case("math.tanh", "tanh")
      .Case("math.tan", "tan")
      .Case("math.sin", "sin")
      .Case("math.cos", "cos")
      .Case("math.sinh", "sinh")
      .Case("math.cosh", "cosh")
      .Case("math.asin", "asin")
      .Case("math.acos", "acos")
      .Case("math.atan", "atan")
      .Case("math.asinh", "asinh")
      .Case("math.acosh", "acosh")
      .Case("math.atanh", "atanh")
      .Case("math.atan2", "atan2")
      .Case("math.erf", "erf")
      .Case("math.erfc", "erfc")
      .Case("math.cbrt", "cbrt")
      .Case("math.powf", "pow")
      .Default("");
}

/// Replaces the op by calls, one for each lane; false if the library has no such function.
bool callLibrary(OpBuilder &b, Operation *op, StringRef prefix) {
  StringRef name = libraryName(op->getName().getStringRef());
  Type type = op->getResult(0).getType(), element = getElementTypeOrSelf(type);
  auto module = op->getParentOfType<ModuleOp>();
  if (name.empty() || !module || !(element.isF32() || element.isF64()))
    return false;
  std::string symbol = (prefix + name + (element.isF32() ? "f" : "")).str();
  SmallVector<Type> inputs(op->getNumOperands(), element);
  auto function = module.lookupSymbol<LLVM::LLVMFuncOp>(symbol);
  // Declared once in the module; the caller runs before functions are lowered in parallel.
  if (!function) {
    OpBuilder moduleBuilder = OpBuilder::atBlockBegin(module.getBody());
    function = LLVM::LLVMFuncOp::create(moduleBuilder, module.getLoc(), symbol,
                                        LLVM::LLVMFunctionType::get(element, inputs));
  }
  Location loc = op->getLoc();
  auto vector = dyn_cast<VectorType>(type);
  Value result;
  if (!vector) {
    result = LLVM::CallOp::create(b, loc, function, op->getOperands()).getResult();
  } else {
    result = arith::ConstantOp::create(b, loc, cast<TypedAttr>(b.getZeroAttr(type)));
    for (int64_t lane = 0; lane < vector.getNumElements(); ++lane) {
      SmallVector<Value> arguments;
      for (Value operand : op->getOperands())
        arguments.push_back(vector::ExtractOp::create(b, loc, operand, ArrayRef<int64_t>{lane}));
      Value value = LLVM::CallOp::create(b, loc, function, arguments).getResult();
      result = vector::InsertOp::create(b, loc, value, result, ArrayRef<int64_t>{lane});
    }
  }
  op->getResult(0).replaceAllUsesWith(result);
  op->erase();
  return true;
}

} // namespace trainc::codegen
