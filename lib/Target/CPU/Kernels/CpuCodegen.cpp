// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of a package: finds equal fusions, emits the others, compiles each by itself.

#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include "ColumnStages.h"
#include "CpuEmitter.h"
#include "LowerKernels.h"
#include "trainc/Codegen/CompileModule.h"
#include "trainc/Codegen/LowerToLLVM.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/IR/Verifier.h"
#include <atomic>
#include <mutex>

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// The name of every kernel until it is linked, so that equal ones have equal code.
constexpr StringLiteral kAnyKernel = "kernel";

} // namespace

/// Kernels are emitted as they are added, and lowered together when code is asked for: lowering is
/// per function, so neither order shows.
struct CpuCodegen::Impl final : KernelModule {
  Impl(MLIRContext &context, ArrayRef<std::string> levels, StringRef cache)
      : KernelModule(context, "CPU", cache), levels(levels) {}

  FailureOr<KernelInfo> make(FusionOp fusion) override;
  /// `stages`: null where the kernel is one launch.
  LogicalResult emit(FusionOp fusion, const Structure &structure, const ColumnStages *stages,
                     EmittedKernel &kernel);
  LogicalResult lower();

  std::vector<std::string> levels;
  std::mutex mutex;
  bool lowered = false;
  /// Of each kernel, once lowered.
  std::vector<std::string> names, bitcode;
};

CpuCodegen::CpuCodegen(MLIRContext &context, ArrayRef<std::string> levels, StringRef cache) {
  context.loadDialect<TrainDialect, LLVM::LLVMDialect, scf::SCFDialect, cf::ControlFlowDialect,
                      arith::ArithDialect, math::MathDialect, vector::VectorDialect>();
  // One module for all kernels; everything below refers to its names.
  impl = std::make_unique<Impl>(context, levels, cache);
  // What loads read that a condition turns off.
  OpBuilder b = OpBuilder::atBlockBegin(impl->module->getBody());
  auto type = LLVM::LLVMArrayType::get(b.getI8Type(), kZerosBytes);
  auto zeros = LLVM::GlobalOp::create(b, b.getUnknownLoc(), type, /*isConstant=*/true,
                                      LLVM::Linkage::Internal, kZerosName, Attribute(), 64);
  b.createBlock(&zeros.getInitializerRegion());
  Value zero = LLVM::ZeroOp::create(b, b.getUnknownLoc(), type);
  LLVM::ReturnOp::create(b, b.getUnknownLoc(), zero);
}
CpuCodegen::~CpuCodegen() = default;

KernelModule &CpuCodegen::getKernels() const { return *impl; }

/// Emits a function's body of a template.
static LogicalResult mapTemplate(CpuEmitter &emitter, FusionOp fusion, const Structure &structure) {
  switch (structure.kind) {
  case Template::Pointwise:
    mapPointwise(emitter);
    break;
  case Template::Row:
    mapRow(emitter);
    break;
  case Template::Column:
    mapColumn(emitter);
    break;
  case Template::Scatter:
    mapScatter(emitter);
    break;
  case Template::Scan:
    mapScan(emitter);
    break;
  // The CPU's scheduling options form no streamed matmul.
  case Template::Product:
    return fusion.emitOpError("is a streamed matmul, which only GPUs have");
  }
  return success();
}

/// The signature is the runtime's KernelFunction: buffers, dims, first and last work item, context.
/// Nothing is left of a kernel that failed, whose errors are told: a later fusion may still get its
/// name.
LogicalResult CpuCodegen::Impl::emit(FusionOp fusion, const Structure &structure,
                                     const ColumnStages *stages, EmittedKernel &kernel) {
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  auto pointer = LLVM::LLVMPointerType::get(b.getContext());
  Type integer = b.getI64Type();
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(b.getContext()),
                                          {pointer, pointer, integer, integer, pointer});
  SmallVector<LLVM::LLVMFuncOp> functions;
  SmallVector<BufferUse> uses(fusion.getInputs().size() + fusion.getNumResults());
  auto emitStage = [&](StringRef suffix, llvm::function_ref<LogicalResult(CpuEmitter &)> map) {
    functions.push_back(
        LLVM::LLVMFuncOp::create(b, fusion.getLoc(), kernel.name + suffix.str(), type));
    CpuEmitter emitter(fusion, structure, functions.back(), kernel.dims);
    LogicalResult mapped = map(emitter);
    joinUses(uses, emitter.getUses());
    return success(succeeded(mapped) && !emitter.hasFailed() &&
                   succeeded(verify(functions.back())));
  };
  bool emitted = true;
  if (stages)
    for (const ReductionStages::Stage &stage : stages->stages)
      emitted = emitted && succeeded(emitStage(stages->suffix(stage), [&](CpuEmitter &emitter) {
                  mapColumnStage(emitter, *stages, stage);
                  return success();
                }));
  else
    emitted = succeeded(emitStage(
        "", [&](CpuEmitter &emitter) { return mapTemplate(emitter, fusion, structure); }));
  if (!emitted) {
    for (LLVM::LLVMFuncOp function : functions)
      function.erase();
    return failure();
  }
  kernel.inPlace = inPlacePairs(fusion, structure, uses);
  return success();
}

/// Equal fusions share code; the launch is made of this fusion's own sizes.
FailureOr<KernelInfo> CpuCodegen::Impl::make(FusionOp fusion) {
  static constexpr const char *names[] = {"pointwise", "row",  "column",
                                          "scatter",   "scan", "product"};
  FailureOr<Structure> structure = analyzeFusion(fusion);
  if (failed(structure))
    return failure();
  std::optional<ColumnStages> stages;
  if (ColumnStages::areMade(*structure))
    stages.emplace(fusion, *structure);
  KernelInfo info;
  info.form = structure->kind;
  FailureOr<const EmittedKernel *> kernel = share(
      getStructuralKey(fusion), names[unsigned(structure->kind)],
      [&](EmittedKernel &made) {
        return emit(fusion, *structure, stages ? &*stages : nullptr, made);
      },
      info.dims);
  if (failed(kernel))
    return failure();
  auto add = [&](const Launch &launch, StringRef suffix) {
    info.stages.push_back(
        {(*kernel)->name + suffix.str(), launch.work, launch.grain, launch.scratchBytes});
  };
  if (stages) {
    for (const ReductionStages::Stage &stage : stages->stages)
      add(stages->plan(stage, *structure), stages->suffix(stage));
    info.temporaryBytes = stages->temporary.bytes;
  } else {
    add(planLaunch(fusion, *structure), "");
  }
  info.inPlace = (*kernel)->inPlace;
  return info;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Once; callers from several threads wait. Works on a clone: `module` stays as it is for listings.
LogicalResult CpuCodegen::Impl::lower() {
  std::lock_guard<std::mutex> lock(mutex);
  if (lowered)
    return success();
  OwningOpRef<ModuleOp> copy = module->clone();
  if (failed(lowerToLLVMDialect(*copy, /*mathPrefix=*/"")))
    return failure();
  // One kernel a file of bitcode, all with the same name: the cache then finds equal kernels of
  // other packages.
  for (OwningOpRef<ModuleOp> &kernel : splitModule(*copy, 1)) {
    LLVM::LLVMFuncOp function = getKernel(*kernel);
    names.push_back(function.getName().str());
    function.setName(kAnyKernel);
    FailureOr<std::string> text = translateToBitcode(*kernel);
    if (failed(text))
      return failure();
    bitcode.push_back(std::move(*text));
  }
  lowered = true;
  return success();
}

FailureOr<std::string> CpuCodegen::getLLVMText() {
  OwningOpRef<ModuleOp> copy = impl->module->clone();
  if (failed(lowerToLLVMDialect(*copy, /*mathPrefix=*/"")))
    return failure();
  return translateToText(*copy);
}

/// A shared object for each level. Tasks are kernel by level; each writes its own slot, so no lock
/// is needed.
FailureOr<std::vector<std::vector<char>>> CpuCodegen::emitSharedObjects(ArrayRef<StringRef> cpus) {
  if (failed(impl->lower()))
    return failure();
  size_t kernels = impl->bitcode.size(), tasks = kernels * cpus.size();
  std::vector<std::vector<std::vector<char>>> objects(cpus.size(),
                                                      std::vector<std::vector<char>>(kernels));
  std::vector<std::string> errors(tasks);
  inParallel(tasks, [&](size_t task) {
    size_t level = task % cpus.size(), kernel = task / cpus.size();
    std::vector<char> object = impl->cache.get({"object", cpus[level], impl->bitcode[kernel]}, [&] {
      return compileBitcode(impl->bitcode[kernel], cpus[level], errors[task]);
    });
    // Behind the cache, as the name is the package's.
    if (errors[task].empty())
      objects[level][kernel] = renameSymbol(object, kAnyKernel, impl->names[kernel], errors[task]);
  });
  // The first error in the order of the tasks, whichever thread had it first.
  for (const std::string &error : errors)
    if (!error.empty())
      return mlir::emitError(impl->module->getLoc()) << error;
  if (std::string problem = impl->cache.getProblem(); !problem.empty())
    mlir::emitWarning(impl->module->getLoc()) << problem;

  std::vector<std::vector<char>> result;
  for (auto &level : objects) {
    std::string error;
    result.push_back(linkShared(level, error));
    // A missing linker is told apart from a bad kernel.
    if ((impl->lacksTools = !error.empty()))
      return mlir::emitError(impl->module->getLoc()) << error;
  }
  return result;
}

FailureOr<std::vector<KernelObject>> CpuCodegen::emitObjects() {
  if (size() == 0) // only copies and matmuls: there is nothing to link
    return std::vector<KernelObject>();
  SmallVector<StringRef> cpus(impl->levels.begin(), impl->levels.end());
  auto objects = emitSharedObjects(cpus);
  if (failed(objects))
    return failure();
  std::vector<KernelObject> result;
  for (auto [level, object] : llvm::zip_equal(impl->levels, *objects))
    result.push_back({"cpu-" + level + ".so", std::move(object)});
  return result;
}

/// Texts for people: MLIR, LLVM IR, then assembly for each level, in this order.
FailureOr<std::vector<KernelListing>> CpuCodegen::emitListings() {
  OwningOpRef<ModuleOp> copy = impl->module->clone();
  SmallVector<OwningOpRef<ModuleOp>> kernels = splitModule(*copy, 1);
  std::vector<KernelListing> listings(kernels.size());
  std::vector<std::string> bitcode(kernels.size());
  for (auto [kernel, listing, code] : llvm::zip_equal(kernels, listings, bitcode)) {
    if (failed(lowerListed(*kernel, /*mathPrefix=*/"", nullptr, listing, code)))
      return failure();
    // Slots first, filled by the tasks below.
    for (const std::string &level : impl->levels)
      listing.texts.emplace_back(level + ".s", "");
  }
  size_t levels = impl->levels.size();
  std::vector<std::string> errors(kernels.size() * levels);
  inParallel(errors.size(), [&](size_t task) {
    size_t kernel = task / levels, level = task % levels;
    listings[kernel].texts[2 + level].second =
        compileToAssembly(bitcode[kernel], impl->levels[level], errors[task]);
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return mlir::emitError(impl->module->getLoc()) << error;
  return listings;
}

FailureOr<std::vector<char>> CpuCodegen::emitSharedObject(StringRef cpu) {
  auto objects = emitSharedObjects({cpu});
  if (failed(objects))
    return failure();
  return std::move(objects->front());
}

} // namespace trainc::codegen
