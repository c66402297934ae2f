// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPU kernels of a package: finds equal fusions, chooses mappings, emits kernels, compiles them
// in chunks.

#include "lib/Target/CUDA/Kernels/GpuCodegen.h"
#include "FlatForm.h"
#include "GpuEmitter.h"
#include "GroupedKernel.h"
#include "HardwareMath.h"
#include "LowerToPTX.h"
#include "trainc/Codegen/CompileModule.h"
#include "trainc/Codegen/LowerToLLVM.h"

#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include <set>

using namespace mlir;
using namespace trainc::train;

namespace trainc::codegen {

namespace {

/// Kernels compiled together. Fixed, so that the result does not depend on the machine.
constexpr unsigned kChunk = 12;

} // namespace

/// As for the CPU, kernels are emitted as they are added. Chunks are cut by the order of adding.
struct GpuCodegen::Impl final : KernelModule {
  Impl(MLIRContext &context, GpuOptions given)
      : KernelModule(context, "GPU", given.cache), options(std::move(given)) {}

  FailureOr<KernelInfo> make(FusionOp fusion) override;
  /// Of the fusion as it is, not of its flat form. `kind`: FlatForm::getKind, "" for others.
  FailureOr<KernelInfo> addExact(FusionOp fusion, StringRef kind = "");
  LogicalResult emit(FusionOp fusion, const Structure &structure, const GpuPlan &plan,
                     EmittedKernel &kernel);
  LogicalResult addVariants(FusionOp fusion, const Structure &structure, const GpuPlan &plan,
                            EmittedKernel &kernel);
  OwningOpRef<ModuleOp> finalKernels();
  LogicalResult compile();
  InFlightDiagnostic emitError() { return mlir::emitError(module->getLoc()); }

  GpuOptions options;
  /// Stages that are launched in groups, too.
  std::set<std::string> grouped;
  /// PTX of each chunk, once compiled.
  std::vector<std::string> ptx;
};

GpuCodegen::GpuCodegen(MLIRContext &context, GpuOptions options) {
  context.loadDialect<TrainDialect, LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect,
                      cf::ControlFlowDialect, arith::ArithDialect, math::MathDialect,
                      vector::VectorDialect>();
  impl = std::make_unique<Impl>(context, std::move(options));
}
GpuCodegen::~GpuCodegen() = default;

KernelModule &GpuCodegen::getKernels() const { return *impl; }

//===----------------------------------------------------------------------===//
// Mapping
//===----------------------------------------------------------------------===//

/// By the template; only rows have two ways.
Mapping chooseMapping(const Structure &structure) {
  switch (structure.kind) {
  case Template::Pointwise:
    return Mapping::Pointwise;
  case Template::Row:
    return structure.columnSums.empty() && isFewLongRows(structure) ? Mapping::Split : Mapping::Row;
  case Template::Column:
    return Mapping::Column;
  case Template::Scatter:
    return Mapping::Scatter;
  case Template::Scan:
    return Mapping::Scan;
  case Template::Product:
    return Mapping::Product;
  }
  llvm_unreachable("unknown template");
}

/// Must decide as the map functions do: stages, blocks and threads of a plan are what kernels are
/// written for.
GpuPlan planKernel(FusionOp fusion, const Structure &structure) {
  GpuPlan plan;
  const bool isFlat = fusion->hasAttr(kStartsAttr);
  plan.mapping =
      isFlat && structure.kind == Template::Row ? Mapping::Total : chooseMapping(structure);
  switch (plan.mapping) {
  case Mapping::Pointwise:
    planPointwise(fusion, structure, plan);
    break;
  case Mapping::Row:
    planRow(fusion, structure, plan);
    break;
  case Mapping::Split:
    planSplit(fusion, structure, plan);
    break;
  case Mapping::Column:
    planColumn(fusion, structure, plan);
    break;
  case Mapping::Scatter:
    planScatter(fusion, structure, plan);
    break;
  case Mapping::Scan:
    planScan(fusion, structure, plan);
    break;
  case Mapping::Product:
    planProduct(fusion, structure, plan);
    break;
  case Mapping::Total:
    planTotal(fusion, structure, plan);
    break;
  }
  return plan;
}

static void mapKernel(GpuKernel &kernel) {
  switch (kernel.plan.mapping) {
  case Mapping::Pointwise:
    return mapPointwise(kernel);
  case Mapping::Row:
    return mapRow(kernel);
  case Mapping::Split:
    return mapSplit(kernel);
  case Mapping::Column:
    return mapColumn(kernel);
  case Mapping::Scatter:
    return mapScatter(kernel);
  case Mapping::Scan:
    return mapScan(kernel);
  case Mapping::Product:
    return mapProduct(kernel);
  case Mapping::Total:
    return mapTotal(kernel);
  }
}

/// Emits the stages of one kernel; nothing stays of one that fails.
LogicalResult GpuCodegen::Impl::emit(FusionOp fusion, const Structure &structure,
                                     const GpuPlan &plan, EmittedKernel &made) {
  GpuKernel kernel(*module, made.name, fusion, structure, plan, made.dims);
  mapKernel(kernel);
  auto inPlace = kernel.finish();
  if (!inPlace)
    return failure();
  made.inPlace = std::move(*inPlace);
  return options.variants ? addVariants(fusion, structure, plan, made) : success();
}

/// Other plans of the same kernel, for tuning at run time. One that knows other dims, or may work
/// in place elsewhere, could not stand in: it is taken back, and an empty name keeps the numbers
/// aligned.
LogicalResult GpuCodegen::Impl::addVariants(FusionOp fusion, const Structure &structure,
                                            const GpuPlan &plan, EmittedKernel &made) {
  for (auto [number, variant] : llvm::enumerate(planVariants(fusion, structure, plan))) {
    std::string name = made.name + "_v" + std::to_string(number);
    SmallVector<DimAttr> dims = made.dims;
    // Everything behind it is the variant's.
    Operation *last = &module->getBody()->back();
    GpuKernel kernel(*module, name, fusion, structure, variant, dims);
    mapKernel(kernel);
    auto inPlace = kernel.finish();
    if (!inPlace)
      return failure();
    if (dims.size() == made.dims.size() && *inPlace == made.inPlace) {
      made.variants.push_back(std::move(name));
      continue;
    }
    while (last->getNextNode())
      last->getNextNode()->erase();
    made.variants.emplace_back();
  }
  return success();
}

/// Fusions that do not depend on places share one kernel for all sizes, by their flat form.
FailureOr<KernelInfo> GpuCodegen::Impl::make(FusionOp fusion) {
  std::unique_ptr<FlatForm> flat = FlatForm::of(fusion);
  if (!flat)
    return addExact(fusion);
  FailureOr<KernelInfo> info = addExact(flat->get(), flat->getKind());
  if (failed(info))
    return failure();
  // Sizes of the launch are the fusion's.
  for (DimAttr &dim : info->dims)
    dim = flat->restore(dim);
  for (KernelStage &stage : info->stages) {
    stage.work = flat->restore(stage.work);
    for (auto &variant : stage.variants)
      variant.work = flat->restore(variant.work);
  }
  if (info->temporaryBytes)
    info->temporaryBytes = flat->restore(info->temporaryBytes);
  // A part of a larger buffer is no place for a result.
  llvm::erase_if(info->inPlace, [&](auto pair) {
    return fusion.getInputs()[pair.first].getType() != fusion.getResult(pair.second).getType();
  });
  return info;
}

FailureOr<KernelInfo> GpuCodegen::Impl::addExact(FusionOp fusion, StringRef kind) {
  static constexpr const char *names[] = {"pointwise", "row",  "split",   "column",
                                          "scatter",   "scan", "product", "total"};
  FailureOr<Structure> structure = analyzeFusion(fusion, /*columnSums=*/true);
  if (failed(structure) ||
      (structure->kind == Template::Product && failed(checkProduct(*structure))))
    return failure();
  GpuPlan plan = planKernel(fusion, *structure);
  KernelInfo info;
  info.form = structure->kind;
  StructuralKey key = getStructuralKey(fusion);
  key.text += kind;
  FailureOr<const EmittedKernel *> shared = share(
      key, names[unsigned(plan.mapping)],
      [&](EmittedKernel &made) { return emit(fusion, *structure, plan, made); }, info.dims);
  if (failed(shared))
    return failure();
  const EmittedKernel *found = *shared;
  DimAttr none = DimAttr::constant(fusion.getContext(), 0);
  for (const GpuStage &stage : plan.stages)
    info.stages.push_back({found->name + stage.suffix.str(), stage.blocks, stage.threads, none});
  // What belongs to a name is what this fusion's sizes make of the same plan.
  // planVariants gives as many plans for equal structures.
  if (options.variants)
    for (auto [name, variant] :
         llvm::zip_equal(found->variants, planVariants(fusion, *structure, plan)))
      if (!name.empty())
        info.stages.front().variants.push_back(
            {name, variant.stages.front().blocks, variant.stages.front().threads, none});
  info.temporaryBytes = plan.temporaryBytes;
  info.inPlace = found->inPlace;
  return info;
}

/// Remembered until kernels are lowered: the grouped form is a copy of the final one.
std::string GpuCodegen::addGrouped(StringRef stage) {
  impl->grouped.insert(stage.str());
  return groupedName(stage);
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// The oldest architecture: its PTX is good for all of them.
static std::string oldest(ArrayRef<std::string> architectures) {
  auto number = [](StringRef name) {
    unsigned value = 0;
    name.drop_front(std::min<size_t>(3, name.size())).consumeInteger(10, value);
    return value;
  };
  // Of equal numbers the first.
  return *llvm::min_element(architectures,
                            [&](StringRef a, StringRef b) { return number(a) < number(b); });
}

/// All kernels, grouped ones among them, as they are lowered.
/// Deterministic: grouped is a sorted set.
OwningOpRef<ModuleOp> GpuCodegen::Impl::finalKernels() {
  OwningOpRef<ModuleOp> copy = module->clone();
  for (const std::string &stage : grouped)
    addGroupedKernel(copy->lookupSymbol<LLVM::LLVMFuncOp>(stage));
  useWideProducts(*copy);
  useReciprocals(*copy);
  return copy;
}

/// Once; PTX of the oldest architecture serves all.
LogicalResult GpuCodegen::Impl::compile() {
  if (!ptx.empty() || count == 0)
    return success();
  assert(!options.architectures.empty() && "the driver has found one or refused");
  OwningOpRef<ModuleOp> copy = finalKernels();
  GpuMath hardware;
  if (failed(lowerToLLVMDialect(*copy, kLibdevicePrefix, &hardware)))
    return failure();
  std::vector<std::string> bitcode;
  for (OwningOpRef<ModuleOp> &chunk : splitModule(*copy, kChunk)) {
    FailureOr<std::string> text = translateToBitcode(*chunk);
    if (failed(text))
      return failure();
    bitcode.push_back(std::move(*text));
  }
  // Named in the cache's key: another libdevice gives other code.
  CudaTools tools = findCudaTools(options.cudaPath);
  std::string architecture = oldest(options.architectures);
  std::string libdevice = identifyFile(tools.libdevice);
  std::vector<std::string> texts(bitcode.size()), errors(bitcode.size());
  // Symbols of a chunk get its number, so that chunks can be joined.
  inParallel(bitcode.size(), [&](size_t chunk) {
    std::string suffix = "_" + std::to_string(chunk);
    std::vector<char> text =
        cache.get({"ptx", architecture, suffix, libdevice, bitcode[chunk]}, [&] {
          std::string ptx =
              compileToPTX(bitcode[chunk], architecture, tools.libdevice, suffix, errors[chunk]);
          return std::vector<char>(ptx.begin(), ptx.end());
        });
    texts[chunk].assign(text.begin(), text.end());
  });
  for (const std::string &error : errors)
    if (!error.empty()) {
      lacksTools = tools.libdevice.empty();
      return emitError() << error;
    }
  ptx = std::move(texts);
  return success();
}

/// Of each kernel by itself, as it is in the package.
FailureOr<std::vector<KernelListing>> GpuCodegen::emitListings() {
  SmallVector<OwningOpRef<ModuleOp>> kernels = splitModule(*impl->finalKernels(), 1);
  std::vector<KernelListing> listings(kernels.size());
  std::vector<std::string> bitcode(kernels.size()), errors(kernels.size());
  GpuMath hardware;
  for (auto [kernel, listing, code] : llvm::zip_equal(kernels, listings, bitcode))
    if (failed(lowerListed(*kernel, kLibdevicePrefix, &hardware, listing, code)))
      return failure();
  CudaTools tools = findCudaTools(impl->options.cudaPath);
  std::string architecture = oldest(impl->options.architectures);
  inParallel(kernels.size(), [&](size_t kernel) {
    listings[kernel].texts.emplace_back(
        "ptx", compileToPTX(bitcode[kernel], architecture, tools.libdevice, "", errors[kernel]));
  });
  for (const std::string &error : errors)
    if (!error.empty())
      return impl->emitError() << error;
  return listings;
}

FailureOr<std::string> GpuCodegen::getPTX() {
  if (failed(impl->compile()))
    return failure();
  return joinPTX(impl->ptx);
}

/// A cubin for each architecture and chunk, and the PTX for GPUs that are newer than these.
FailureOr<std::vector<KernelObject>> GpuCodegen::emitObjects() {
  CudaTools tools = findCudaTools(impl->options.cudaPath);
  // Before anything is compiled: it would be for nothing.
  if ((impl->lacksTools = tools.ptxas.empty()))
    return impl->emitError() << tools.message;
  if (failed(impl->compile()))
    return failure();
  ArrayRef<std::string> architectures = impl->options.architectures;
  size_t chunks = impl->ptx.size();
  std::string ptxas = identifyFile(tools.ptxas);
  std::vector<KernelObject> objects(chunks * architectures.size());
  std::vector<std::string> errors(objects.size());
  inParallel(objects.size(), [&](size_t task) {
    const std::string &architecture = architectures[task / chunks];
    // Tasks are architecture by chunk.
    size_t chunk = task % chunks;
    objects[task].name = "cuda-" + architecture + "-" + std::to_string(chunk) + ".cubin";
    objects[task].bytes = impl->cache.get({"cubin", architecture, ptxas, impl->ptx[chunk]}, [&] {
      return assemblePTX(impl->ptx[chunk], architecture, tools.ptxas, errors[task]);
    });
  });
  for (const std::string &error : errors)
    if ((impl->lacksTools = !error.empty()))
      return impl->emitError() << error;
  if (std::string problem = impl->cache.getProblem(); !problem.empty())
    mlir::emitWarning(impl->module->getLoc()) << problem;
  std::string joined = joinPTX(impl->ptx);
  objects.push_back({"cuda.ptx", std::vector<char>(joined.begin(), joined.end())});
  return objects;
}

} // namespace trainc::codegen
