// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The account that the runtime will give (trainrt_package_memory), from the plan functions.

#include "trainc/Report/MemoryModel.h"
#include "format/memory/arena_plan.h"
#include "trainc/Support/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

std::string trainc::formatBytes(int64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = double(bytes);
  int unit = 0;
  // Whole bytes, and one digit of everything larger.
  for (; value >= 1024 && unit < 6; ++unit)
    value /= 1024;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(unit ? "%.1f " : "%.0f ", value) << units[unit];
  return text;
}

//===----------------------------------------------------------------------===//
// A function
//===----------------------------------------------------------------------===//

/// Lifetimes are those of the plan, phases those that the loss divides.
FunctionMemory::FunctionMemory(plan::FunctionOp function, StringRef loss, const Target &target)
    : lifetimes(function), marks(getPhases(lifetimes, loss)), target(&target) {}

StringRef FunctionMemory::variantOf() const {
  auto base = lifetimes.function->getAttrOfType<StringAttr>(kVariantOfAttr);
  return base ? base.getValue() : StringRef();
}

StringRef FunctionMemory::node(int32_t command) const {
  return getNodeName(lifetimes.commands[command]->getLoc());
}

bool FunctionMemory::usesGradients() const {
  return llvm::any_of(lifetimes.buffers, [](const BufferLifetime &life) {
    return life.space == plan::Space::gradient;
  });
}

bool FunctionMemory::usesHost() const {
  return llvm::any_of(lifetimes.buffers, [](const BufferLifetime &life) { return life.isHost(); });
}

/// Only through bytes: commands may depend on sizes otherwise.
bool FunctionMemory::dependsOn(StringRef symbol) const {
  bool depends = false;
  for (const BufferLifetime &life : lifetimes.buffers)
    life.bytes.forEachSymbol([&](StringRef name) { depends |= name == symbol; });
  return depends;
}

/// A sum, of which most terms are equal to others.
static DimAttr sumOf(MLIRContext *context, const llvm::MapVector<DimAttr, int64_t> &terms) {
  DimAttr sum = DimAttr::constant(context, 0);
  for (auto &[term, count] : terms)
    sum = sum + term * DimAttr::constant(context, count);
  return sum;
}

/// What is live at a command: kept for the backward, or not.
DimAttr FunctionMemory::formula(int32_t command, bool kept) const {
  llvm::MapVector<DimAttr, int64_t> terms;
  for (const BufferLifetime &life : lifetimes.buffers)
    if (isLive(life, command) && isKept(life) == kept)
      ++terms[life.bytes];
  return sumOf(lifetimes.function->getContext(), terms);
}

DimAttr FunctionMemory::formula(plan::Space space) const {
  llvm::MapVector<DimAttr, int64_t> terms;
  // Buffers of one name are one tensor.
  llvm::StringSet<> seen;
  for (const BufferLifetime &life : lifetimes.buffers)
    if (life.space == space &&
        seen.insert(plan::BufferOp(life.buffer).getName().value_or("")).second)
      ++terms[life.bytes];
  return sumOf(lifetimes.function->getContext(), terms);
}

FailureOr<ArenaPeak> FunctionMemory::evaluateArena(const Sizes &sizes) const {
  FailureOr<SmallVector<int64_t, 0>> bytes = evaluateBytes(lifetimes, sizes);
  if (failed(bytes))
    return failure();
  return getArenaPeak(lifetimes, *bytes, target->traits.memory);
}

/// What the runtime will plan, by the same code.
FailureOr<FunctionMemory::Numbers> FunctionMemory::evaluate(const Sizes &sizes) const {
  Numbers numbers;
  FailureOr<SmallVector<int64_t, 0>> bytes = evaluateBytes(lifetimes, sizes);
  if (failed(bytes))
    return failure();
  numbers.bytes = std::move(*bytes);
  const MemoryTraits &memory = target->traits.memory;
  numbers.arena = getArenaPeak(lifetimes, numbers.bytes, memory);
  numbers.host = getHostPeak(lifetimes, numbers.bytes, memory);
  // Changes first, then their sums.
  // One more, for the end of what lives to the last command.
  numbers.live.assign(commands() + 1, 0);
  llvm::StringSet<> staged;
  assert(numbers.bytes.size() == lifetimes.buffers.size() && "a number a buffer");
  for (auto [life, size] : llvm::zip_equal(lifetimes.buffers, numbers.bytes)) {
    const int64_t padded = trainrt::padded(size, memory.alignment);
    // Tensors of the interface are staged once, whatever reads them.
    const bool isNew =
        life.isArena() || staged.insert(plan::BufferOp(life.buffer).getName().value_or("")).second;
    if (life.isArena() && commands()) {
      numbers.live[life.first] += padded;
      numbers.live[life.last + 1] -= padded;
    } else if (life.space == plan::Space::output && isNew) {
      numbers.outputs += padded;
    } else if (memory.isSeparate && isNew &&
               (life.space == plan::Space::input || life.space == plan::Space::hyper)) {
      numbers.inputs += 2 * padded; // those of the next step arrive meanwhile
    }
  }
  numbers.live.pop_back();
  int64_t sum = 0;
  // The first of equal peaks.
  for (auto [i, live] : llvm::enumerate(numbers.live)) {
    live = sum += live;
    if (live > numbers.live[numbers.peak])
      numbers.peak = i;
  }
  if (failed(addWorkspace(sizes, numbers)))
    return failure();
  return numbers;
}

namespace {
/// Evaluates dims; remembers whether one could not be.
struct Evaluator {
  const Sizes &sizes;
  bool failed = false;

  int64_t operator()(DimAttr dim) {
    FailureOr<int64_t> value = dim.evaluate(sizes);
    failed |= mlir::failed(value);
    return mlir::failed(value) ? 0 : *value;
  }
};
} // namespace

/// Formulas of workspaces ask for many sizes: one failure fails all.
LogicalResult FunctionMemory::addWorkspace(const Sizes &sizes, Numbers &numbers) const {
  Evaluator value{sizes};
  const Workspace workspace =
      target->getWorkspace(lifetimes.commands, [&](DimAttr dim) { return value(dim); });
  numbers.workspace = workspace.bytes;
  numbers.workspaceOfOthers = workspace.perOtherThread;
  numbers.staging = workspace.staging;
  return failure(value.failed);
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

SmallVector<StringRef> trainc::functionsOfStep(ModuleOp module, int64_t accumulate, int64_t world) {
  // One function does a step, or two share it.
  SmallVector<StringRef> names;
  const bool atOnce = module.lookupSymbol("step") && accumulate == 1;
  if (atOnce)
    names = {"step"};
  else if (module.lookupSymbol("micro"))
    names = {"micro", "update"};
  else
    // A package for evaluation has nothing else.
    names = {module.lookupSymbol("step") ? "step" : "eval"};
  SmallVector<StringRef> all;
  for (StringRef name : names) {
    all.push_back(name);
    // Each with its variants, as any of them may run.
    for (Operation &op : *module.getBody())
      if (auto base = op.getAttrOfType<StringAttr>(kVariantOfAttr); base && base == name)
        all.push_back(SymbolTable::getSymbolName(&op).getValue());
  }
  // What a rank without a batch runs.
  if (StringRef absent = atOnce ? "absent_step" : "absent";
      module.lookupSymbol(absent) && world > 1)
    all.push_back(absent);
  return all;
}

int64_t trainc::constantBytes(plan::FunctionOp function, const MemoryTraits &memory) {
  int64_t bytes = 0;
  for (auto buffer : function.getOps<plan::BufferOp>())
    if (memory.isSeparate && buffer.getSpace() == plan::Space::constant)
      bytes += trainrt::padded(train::getBytes(buffer.getType()).getConstant().value_or(0),
                               memory.alignment);
  return bytes;
}

StepMemory::StepMemory(ModuleOp module, const PackageInterface &interface, const Target &target,
                       int64_t accumulate, bool embedded, int64_t world, int64_t shards)
    : target(&target) {
  shards = shards ? shards : world;
  for (StringRef name : functionsOfStep(module, accumulate, world))
    functions.emplace_back(module.lookupSymbol<plan::FunctionOp>(name), interface.loss(), target);
  assert(!functions.empty() && "a package has one function at least");
  training = functions.front().name() != "eval";

  const MemoryTraits &memory = target.traits.memory;
  const int64_t alignment = memory.alignment;
  // Of what ranks share out, equal numbers of whole units.
  auto elementsOf = [&](const InterfaceTensor &tensor, int64_t unit) {
    const int64_t elements = train::getNumElements(tensor.type).getConstant().value_or(0);
    return unit ? llvm::divideCeil(llvm::divideCeil(elements, unit), shards) * unit : elements;
  };
  auto bytesOf = [&](const InterfaceTensor &tensor) {
    return elementsOf(tensor, tensor.shardUnit) *
           train::getElementBytes(tensor.type.getElementType());
  };
  // Parameters stay where they lie unless they change or the device has its own memory.
  for (const InterfaceTensor &parameter : interface.parameters) {
    const int64_t bytes = bytesOf(parameter);
    const int64_t size = parameter.type.getElementTypeBitWidth() / 8;
    // What loading makes, or cuts, has memory of its own.
    const bool isMade = parameter.quantized || !parameter.partOf.empty() ||
                        (parameter.init && !parameter.weight) ||
                        (training && shards > 1 && parameter.shardUnit);
    if (memory.isSeparate || (training && (parameter.trainable || parameter.updated)))
      parameters += trainrt::padded(bytes, alignment);
    else if (isMade || (parameter.weight && !travelsInside(parameter, embedded) && size &&
                        parameter.weight.getOffset() % size))
      parameters += bytes; // or the runtime cannot read it where it lies
    // Gradients are f32 at least.
    const bool wide = parameter.type.getElementType().isF64();
    if (parameter.trainable &&
        llvm::any_of(functions, [](const FunctionMemory &f) { return f.usesGradients(); }))
      gradients += trainrt::padded(elementsOf(parameter, parameter.gradientUnit) * (wide ? 8 : 4),
                                   alignment);
  }
  for (const InterfaceTensor &tensor : interface.derived)
    if (training)
      parameters += trainrt::padded(bytesOf(tensor), alignment);
  // Evaluation has no optimizer.
  for (const InterfaceTensor &tensor : interface.state)
    if (training)
      state += trainrt::padded(bytesOf(tensor), alignment);
  constants = memory.isSeparate ? alignment : 0; // where kernels report a bad index
  // All functions are loaded, whichever run.
  for (auto function : module.getOps<plan::FunctionOp>())
    constants += constantBytes(function, memory);
}

FailureOr<StepMemory::Total> StepMemory::evaluate(const Sizes &sizes) const {
  Total total;
  // The largest of each part: functions run one after the other in the same memory.
  total.lasting = parameters + state + gradients;
  int64_t staging = 0;
  for (auto [i, function] : llvm::enumerate(functions)) {
    FailureOr<FunctionMemory::Numbers> numbers = function.evaluate(sizes);
    if (failed(numbers))
      return failure();
    if (numbers->arena.planned > total.arena) {
      total.arena = numbers->arena.planned;
      total.largest = i;
    }
    total.host = std::max(total.host, numbers->host);
    total.inputs = std::max(total.inputs, numbers->inputs);
    total.outputs = std::max(total.outputs, numbers->outputs);
    total.workspace = std::max(total.workspace, numbers->workspace + constants);
    total.workspaceOfOthers = std::max(total.workspaceOfOthers, numbers->workspaceOfOthers);
    staging = std::max(staging, numbers->staging);
  }
  // Another block of memory than that of kernels, whichever function it is for.
  total.workspace += staging;
  return total;
}

int64_t StepMemory::largest(const Sizes &sizes, StringRef axis, int64_t memory,
                            int64_t first) const {
  // Without a maximum up to a bound that no batch has.
  const int64_t last = std::min<int64_t>(sizes.max(axis).value_or(INT64_MAX), int64_t(1) << 30);
  assert(!axis.empty() && "the axis that grows");
  auto excess = [&](int64_t value) -> double {
    FailureOr<Total> total = evaluate(sizes.with(axis, value));
    return failed(total) ? INFINITY : double(total->bytes()) - double(memory);
  };
  // What fits and what does not, and by how much. Memory is nearly linear in an axis: the next
  // value to try is where the line through the two ends, every third one is in the middle.
  // Begins with what is known to fit, if that does.
  int64_t good = std::max(first, std::max<int64_t>(1, sizes.min(axis))), bad = good;
  double room = excess(good), lack = 0;
  if (room > 0)
    return 0;
  // Doubling until something does not fit.
  while (bad == good) {
    if (good >= last)
      return last;
    const int64_t next = std::min(last, good * 2);
    if (const double over = excess(next); over > 0)
      bad = next, lack = over;
    else
      good = bad = next, room = over;
  }
  assert(good < bad && "the bound is between");
  for (int round = 1; good + 1 < bad; ++round) {
    double share = round % 3 && std::isfinite(lack) ? room / (room - lack) : 0.5;
    // Always inside, so that each round gets closer.
    const int64_t next =
        std::clamp<int64_t>(good + int64_t(double(bad - good) * share), good + 1, bad - 1);
    if (const double over = excess(next); over > 0)
      bad = next, lack = over;
    else
      good = next, room = over;
  }
  return good;
}
