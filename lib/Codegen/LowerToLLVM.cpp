// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering that does not depend on the processor: structured loops, vectors and formulas to the
// LLVM dialect, function by function in parallel, and on to LLVM IR.

#include "trainc/Codegen/LowerToLLVM.h"
#include "trainc/Codegen/Codegen.h"
#include "trainc/Codegen/MathExpansion.h"

#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/LLVMCommon/ConversionTarget.h"
#include "mlir/Conversion/LLVMCommon/TypeConverter.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVM.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Threading.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/NVVM/NVVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"
#include "mlir/Transforms/DialectConversion.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Bitcode/BitcodeWriter.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace trainc::codegen {

/// All functions of the module. Lowering is deterministic function by function, so the order in
/// which threads take them does not show.
LogicalResult lowerToLLVMDialect(ModuleOp module, StringRef mathPrefix,
                                 const HardwareMath *hardware) {
  MLIRContext *context = module.getContext();
  // Adds declarations to the module: before the functions are lowered in parallel.
  expandMath(module, mathPrefix, hardware);

  LowerToLLVMOptions options(context);
  // One converter and one set of patterns serve all threads: they are read only.
  LLVMTypeConverter converter(context, options);
  RewritePatternSet patterns(context);
  populateSCFToControlFlowConversionPatterns(patterns);
  cf::populateControlFlowToLLVMConversionPatterns(converter, patterns);
  arith::populateArithToLLVMConversionPatterns(converter, patterns);
  populateMathToLLVMConversionPatterns(converter, patterns);
  populateVectorToLLVMConversionPatterns(converter, patterns);
  FrozenRewritePatternSet frozen(std::move(patterns));

  SmallVector<LLVM::LLVMFuncOp> functions;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      functions.push_back(function);
  return failableParallelForEach(context, functions, [&](LLVM::LLVMFuncOp function) {
    ConversionTarget target(*context);
    target.addLegalDialect<LLVM::LLVMDialect, NVVM::NVVMDialect>();
    target.addIllegalDialect<scf::SCFDialect, cf::ControlFlowDialect, arith::ArithDialect,
                             math::MathDialect, vector::VectorDialect>();
    return applyPartialConversion(function, target, frozen);
  });
}

/// Kernels move to chunks of `count`, each with clones of the declarations that it uses. What is
/// left in `module` are declarations.
SmallVector<OwningOpRef<ModuleOp>> splitModule(ModuleOp module, unsigned count) {
  SymbolTable symbols(module);
  SmallVector<LLVM::LLVMFuncOp> kernels;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (!function.isExternal())
      kernels.push_back(function);
  SmallVector<OwningOpRef<ModuleOp>> chunks;
  for (size_t begin = 0; begin < kernels.size(); begin += count) {
    OwningOpRef<ModuleOp> chunk = ModuleOp::create(module.getLoc());
    auto functions = ArrayRef(kernels).slice(begin).take_front(count);
    llvm::SetVector<Operation *> used;
    for (LLVM::LLVMFuncOp function : functions) {
      std::optional<SymbolTable::UseRange> uses = SymbolTable::getSymbolUses(function);
      for (const SymbolTable::SymbolUse &use : *uses)
        used.insert(symbols.lookup(use.getSymbolRef().getRootReference()));
    }
    // Declarations first: a kernel is the last function of its module.
    for (Operation *symbol : used)
      chunk->push_back(symbol->clone());
    for (LLVM::LLVMFuncOp function : functions) {
      function->remove();
      chunk->push_back(function);
    }
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

LLVM::LLVMFuncOp getKernel(ModuleOp module) {
  return cast<LLVM::LLVMFuncOp>(module.getBody()->back());
}

/// A context for each translation: LLVM's contexts are not for several threads.
static std::unique_ptr<llvm::Module> translate(ModuleOp module, llvm::LLVMContext &context) {
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  registerNVVMDialectTranslation(*module.getContext());
  return translateModuleToLLVMIR(module, context, "kernels");
}

FailureOr<std::string> translateToBitcode(ModuleOp module) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translate(module, context);
  if (!translated)
    return failure();
  std::string bitcode;
  llvm::raw_string_ostream os(bitcode);
  llvm::WriteBitcodeToFile(*translated, os);
  return bitcode;
}

FailureOr<std::string> translateToText(ModuleOp module) {
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> translated = translate(module, context);
  if (!translated)
    return failure();
  std::string text;
  llvm::raw_string_ostream os(text);
  translated->print(os, nullptr);
  return text;
}

LogicalResult lowerListed(ModuleOp kernel, StringRef mathPrefix, const HardwareMath *hardware,
                          KernelListing &listing, std::string &bitcode) {
  listing.name = getKernel(kernel).getName().str();
  llvm::raw_string_ostream(listing.texts.emplace_back("mlir", "").second) << kernel;
  if (failed(lowerToLLVMDialect(kernel, mathPrefix, hardware)))
    return failure();
  FailureOr<std::string> text = translateToText(kernel), binary = translateToBitcode(kernel);
  if (failed(text) || failed(binary))
    return failure();
  listing.texts.emplace_back("ll", std::move(*text));
  bitcode = std::move(*binary);
  return success();
}

} // namespace trainc::codegen
