// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The GPU kernels of a package: finds equal fusions, chooses mappings, emits kernels, compiles them
// in chunks.

#include "lib/Target/CUDA/Kernels/GpuCodegen.h"
#include "FlatForm.h"
#include "GpuEmitter.h"
#include "GroupedKernel.h"
#include "HardwareMath.h"
#include "LowerToPTX.h"
#include "dialects/Train/Diagnostics/Notes.h"
#include "trainc/Codegen/CompileModule.h"
#include "trainc/Codegen/KernelCache.h"
#include "trainc/Codegen/KnownFusions.h"
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

struct Entry {
  std::string name;
  /// Sizes of the fusion that the kernel was emitted for, and the kernel's, which begin with them.
  SmallVector<DimAttr> keyDims, dims;
  SmallVector<std::pair<unsigned, unsigned>> inPlace;
  /// Names of the variants, by their number in `planVariants`; "": it needs another launch.
  std::vector<std::string> variants;
};

} // namespace

struct GpuCodegen::Impl {
  Impl(MLIRContext &context, GpuOptions options)
      : options(std::move(options)), cache(this->options.cache),
        module(ModuleOp::create(UnknownLoc::get(&context), "kernels")) {}

  FailureOr<KernelInfo> add(FusionOp fusion);
  /// Of the fusion as it is, not of its flat form.
  FailureOr<KernelInfo> addExact(FusionOp fusion);
  FailureOr<Entry> emit(FusionOp fusion, const Structure &structure, const GpuPlan &plan,
                        const StructuralKey &key);
  LogicalResult addVariants(FusionOp fusion, const Structure &structure, const GpuPlan &plan,
                            Entry &entry);
  OwningOpRef<ModuleOp> finalKernels();
  LogicalResult compile();
  InFlightDiagnostic emitError() { return mlir::emitError(module->getLoc()); }

  GpuOptions options;
  KernelCache cache;
  OwningOpRef<ModuleOp> module;
  std::map<std::string, SmallVector<Entry>> entries;
  KnownFusions known;
  size_t count = 0;
  bool lacksTools = false;
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

size_t GpuCodegen::size() const { return impl->count; }
bool GpuCodegen::lacksTools() const { return impl->lacksTools; }
double GpuCodegen::getCacheHitRate() const { return impl->cache.getHitRate(); }
ModuleOp GpuCodegen::getModule() { return *impl->module; }

//===----------------------------------------------------------------------===//
// Mapping
//===----------------------------------------------------------------------===//

/// Element types that kernels read and write.
static LogicalResult checkBuffers(FusionOp fusion) {
  for (Value value : llvm::concat<Value>(llvm::to_vector(fusion.getInputs()),
                                         llvm::to_vector_of<Value>(fusion.getResults()))) {
    Type element = getElementTypeOrSelf(value.getType());
    if (element.isF32() || element.isF64() || element.isF16() || element.isBF16() ||
        element.isInteger(1) || element.isInteger(8) || element.isInteger(16) ||
        element.isInteger(32) || element.isInteger(64))
      continue;
    return attachNotes(fusion.emitOpError("has a buffer of element type ")
                           << element << ", which GPU kernels do not read or write",
                       {{"the buffer", value}});
  }
  return success();
}

Mapping chooseMapping(const Structure &structure) {
  switch (structure.kind) {
  case Template::Pointwise:
    return Mapping::Pointwise;
  case Template::Row:
    return isFewLongRows(structure) ? Mapping::Split : Mapping::Row;
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

GpuPlan planKernel(FusionOp fusion, const Structure &structure) {
  GpuPlan plan;
  plan.mapping = chooseMapping(structure);
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
  }
}

FailureOr<Entry> GpuCodegen::Impl::emit(FusionOp fusion, const Structure &structure,
                                        const GpuPlan &plan, const StructuralKey &key) {
  static constexpr const char *names[] = {"pointwise", "row",  "split",  "column",
                                          "scatter",   "scan", "product"};
  Entry entry;
  entry.name = "kernel_" + std::to_string(count) + "_" + names[unsigned(plan.mapping)];
  entry.keyDims = entry.dims = key.dims;
  GpuKernel kernel(*module, entry.name, fusion, structure, plan, entry.dims);
  mapKernel(kernel);
  auto inPlace = kernel.finish();
  if (!inPlace)
    return failure();
  entry.inPlace = std::move(*inPlace);
  ++count;
  if (options.variants && failed(addVariants(fusion, structure, plan, entry)))
    return failure();
  return entry;
}

LogicalResult GpuCodegen::Impl::addVariants(FusionOp fusion, const Structure &structure,
                                            const GpuPlan &plan, Entry &entry) {
  for (auto [number, variant] : llvm::enumerate(planVariants(fusion, structure, plan))) {
    std::string name = entry.name + "_v" + std::to_string(number);
    SmallVector<DimAttr> dims = entry.dims;
    Operation *last = &module->getBody()->back();
    GpuKernel kernel(*module, name, fusion, structure, variant, dims);
    mapKernel(kernel);
    auto inPlace = kernel.finish();
    if (!inPlace)
      return failure();
    if (dims.size() == entry.dims.size() && *inPlace == entry.inPlace) {
      entry.variants.push_back(std::move(name));
      continue;
    }
    while (last->getNextNode())
      last->getNextNode()->erase();
    entry.variants.emplace_back();
  }
  return success();
}

FailureOr<KernelInfo> GpuCodegen::add(FusionOp fusion) {
  return impl->known.get(fusion, [&](FusionOp fusion) { return impl->add(fusion); });
}

FailureOr<KernelInfo> GpuCodegen::Impl::add(FusionOp fusion) {
  if (failed(checkBuffers(fusion)))
    return failure();
  std::unique_ptr<FlatForm> flat = FlatForm::of(fusion);
  if (!flat)
    return addExact(fusion);
  FailureOr<KernelInfo> info = addExact(flat->get());
  if (failed(info))
    return failure();
  for (DimAttr &dim : info->dims)
    dim = flat->restore(dim);
  for (KernelStage &stage : info->stages) {
    stage.work = flat->restore(stage.work);
    for (auto &variant : stage.variants)
      variant.work = flat->restore(variant.work);
  }
  return info;
}

FailureOr<KernelInfo> GpuCodegen::Impl::addExact(FusionOp fusion) {
  FailureOr<Structure> structure = analyzeFusion(fusion);
  if (failed(structure) ||
      (structure->kind == Template::Product && failed(checkProduct(*structure))))
    return failure();
  StructuralKey key = getStructuralKey(fusion);
  GpuPlan plan = planKernel(fusion, *structure);

  SmallVector<Entry> &candidates = entries[key.text];
  // Sizes beyond the key's were made of the first fusion's: only the same sizes may share it then.
  const Entry *found = llvm::find_if(candidates, [&](const Entry &entry) {
    return entry.dims.size() == key.dims.size() || entry.keyDims == key.dims;
  });
  KernelInfo info;
  if (found == candidates.end()) {
    FailureOr<Entry> entry = emit(fusion, *structure, plan, key);
    if (failed(entry))
      return failure();
    candidates.push_back(std::move(*entry));
    found = &candidates.back();
    info.dims = found->dims;
  } else {
    info.dims = key.dims;
    info.dims.append(found->dims.begin() + key.dims.size(), found->dims.end());
  }
  DimAttr none = DimAttr::constant(fusion.getContext(), 0);
  for (const GpuStage &stage : plan.stages)
    info.stages.push_back({found->name + stage.suffix.str(), stage.blocks, stage.threads, none});
  // What belongs to a name is what this fusion's sizes make of the same plan.
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
  return *llvm::min_element(architectures,
                            [&](StringRef a, StringRef b) { return number(a) < number(b); });
}

/// All kernels, grouped ones among them, as they are lowered.
OwningOpRef<ModuleOp> GpuCodegen::Impl::finalKernels() {
  OwningOpRef<ModuleOp> copy = module->clone();
  for (const std::string &stage : grouped)
    addGroupedKernel(copy->lookupSymbol<LLVM::LLVMFuncOp>(stage));
  useWideProducts(*copy);
  useReciprocals(*copy);
  return copy;
}

LogicalResult GpuCodegen::Impl::compile() {
  if (!ptx.empty() || count == 0)
    return success();
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
  CudaTools tools = findCudaTools(options.cudaPath);
  std::string architecture = oldest(options.architectures);
  std::string libdevice = identifyFile(tools.libdevice);
  std::vector<std::string> texts(bitcode.size()), errors(bitcode.size());
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

FailureOr<std::vector<KernelListing>> GpuCodegen::emitListings() {
  SmallVector<OwningOpRef<ModuleOp>> kernels = splitModule(*impl->finalKernels(), 1);
  std::vector<KernelListing> listings(kernels.size());
  std::vector<std::string> bitcode(kernels.size()), errors(kernels.size());
  GpuMath hardware;
  for (auto [kernel, listing, code] : llvm::zip_equal(kernels, listings, bitcode)) {
    listing.name = getKernel(*kernel).getName().str();
    llvm::raw_string_ostream(listing.texts.emplace_back("mlir", "").second) << *kernel;
    if (failed(lowerToLLVMDialect(*kernel, kLibdevicePrefix, &hardware)))
      return failure();
    FailureOr<std::string> text = translateToText(*kernel), binary = translateToBitcode(*kernel);
    if (failed(text) || failed(binary))
      return failure();
    listing.texts.emplace_back("ll", std::move(*text));
    code = std::move(*binary);
  }
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

FailureOr<std::vector<KernelObject>> GpuCodegen::emitObjects() {
  CudaTools tools = findCudaTools(impl->options.cudaPath);
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
