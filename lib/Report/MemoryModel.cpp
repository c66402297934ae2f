// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The account that the runtime will give (trainrt_package_memory), from the plan functions.

#include "lib/Report/MemoryModel.h"
#include "core/plan.h"
#include "cpu/working_memory.h"
#include "trainc/Location.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/Format.h"
#include <cmath>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

static int64_t alignmentOf(bool cuda) {
  return cuda ? trainrt::cudaPlanAlignment : trainrt::planAlignment;
}

std::string trainc::formatBytes(int64_t bytes) {
  static constexpr const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = double(bytes);
  int unit = 0;
  for (; value >= 1024 && unit < 6; ++unit)
    value /= 1024;
  std::string text;
  llvm::raw_string_ostream(text) << llvm::format(unit ? "%.1f " : "%.0f ", value) << units[unit];
  return text;
}

//===----------------------------------------------------------------------===//
// A function
//===----------------------------------------------------------------------===//

FunctionMemory::FunctionMemory(plan::FunctionOp function, StringRef loss, bool cuda)
    : lifetimes(function), marks(getPhases(lifetimes, loss)), cuda(cuda) {}

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

DimAttr FunctionMemory::formula(int32_t command, bool kept) const {
  llvm::MapVector<DimAttr, int64_t> terms;
  for (const BufferLifetime &life : lifetimes.buffers)
    if (isLive(life, command) && isKept(life) == kept)
      ++terms[life.bytes];
  return sumOf(lifetimes.function->getContext(), terms);
}

DimAttr FunctionMemory::formula(plan::Space space) const {
  llvm::MapVector<DimAttr, int64_t> terms;
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
  return getArenaPeak(lifetimes, *bytes, cuda);
}

FailureOr<FunctionMemory::Numbers> FunctionMemory::evaluate(const Sizes &sizes) const {
  Numbers numbers;
  FailureOr<SmallVector<int64_t, 0>> bytes = evaluateBytes(lifetimes, sizes);
  if (failed(bytes))
    return failure();
  numbers.bytes = std::move(*bytes);
  numbers.arena = getArenaPeak(lifetimes, numbers.bytes, cuda);
  numbers.host = getHostPeak(lifetimes, numbers.bytes);
  // Changes first, then their sums.
  numbers.live.assign(commands() + 1, 0);
  llvm::StringSet<> staged;
  const int64_t alignment = alignmentOf(cuda);
  for (auto [life, size] : llvm::zip_equal(lifetimes.buffers, numbers.bytes)) {
    const int64_t padded = trainrt::padded(size, alignment);
    const bool isNew =
        life.isArena() || staged.insert(plan::BufferOp(life.buffer).getName().value_or("")).second;
    if (life.isArena() && commands()) {
      numbers.live[life.first] += padded;
      numbers.live[life.last + 1] -= padded;
    } else if (life.space == plan::Space::output && isNew) {
      numbers.outputs += padded;
    } else if (cuda && isNew &&
               (life.space == plan::Space::input || life.space == plan::Space::hyper)) {
      numbers.inputs += 2 * padded; // those of the next step arrive meanwhile
    }
  }
  numbers.live.pop_back();
  int64_t sum = 0;
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

LogicalResult FunctionMemory::addWorkspace(const Sizes &sizes, Numbers &numbers) const {
  Evaluator value{sizes};
  auto number = [&](DimAttr dim) { return value(dim); };
  if (cuda) {
    // Some may run on two streams at once.
    int64_t most = 0, aside = 0, mostAside = 0;
    for (Operation *command : lifetimes.commands) {
      const plan::CommandWorkspace need =
          cast<plan::PlanCommandOpInterface>(command).getGpuWorkspace(number);
      most = std::max(most, need.bytes);
      if (need.mayRunAside) {
        ++aside;
        mostAside = std::max(mostAside, need.bytes);
      }
    }
    numbers.workspace = most + (aside > 1 ? mostAside : 0);
    return failure(value.failed);
  }
  // For the instruction set that needs more; with a second thread to see what it adds.
  int64_t kernels = 0, needs[2] = {};
  for (Operation *command : lifetimes.commands)
    if (DimAttr scratch = cast<plan::PlanCommandOpInterface>(command).getThreadScratch())
      kernels = std::max(kernels, trainrt::padded(value(scratch)));
  for (trainrt::GemmTile tile : {trainrt::avx2Tile, trainrt::avx512Tile})
    for (unsigned threads : {1, 2}) {
      trainrt::WorkingMemory memory(tile, threads);
      for (Operation *command : lifetimes.commands)
        cast<plan::PlanCommandOpInterface>(command).addCpuWorkspace(number, memory);
      needs[threads - 1] = std::max(needs[threads - 1], memory.bytes() + kernels * threads);
    }
  numbers.workspace = needs[0];
  numbers.workspaceOfOthers = needs[1] - needs[0];
  return failure(value.failed);
}

//===----------------------------------------------------------------------===//
// A step
//===----------------------------------------------------------------------===//

SmallVector<StringRef> trainc::functionsOfStep(ModuleOp module, int64_t accumulate) {
  SmallVector<StringRef> names;
  if (module.lookupSymbol("step") && accumulate == 1)
    names = {"step"};
  else if (module.lookupSymbol("micro"))
    names = {"micro", "update"};
  else
    names = {module.lookupSymbol("step") ? "step" : "eval"};
  SmallVector<StringRef> all;
  for (StringRef name : names) {
    all.push_back(name);
    for (Operation &op : *module.getBody())
      if (auto base = op.getAttrOfType<StringAttr>(kVariantOfAttr); base && base == name)
        all.push_back(SymbolTable::getSymbolName(&op).getValue());
  }
  return all;
}

int64_t trainc::constantBytes(plan::FunctionOp function, bool cuda) {
  int64_t bytes = 0;
  for (auto buffer : function.getOps<plan::BufferOp>())
    if (cuda && buffer.getSpace() == plan::Space::constant)
      bytes += trainrt::padded(plan::getBytes(buffer.getType()).getConstant().value_or(0),
                               alignmentOf(cuda));
  return bytes;
}

StepMemory::StepMemory(ModuleOp module, const PackageInterface &interface, bool cuda,
                       int64_t accumulate, bool embedded)
    : cuda(cuda) {
  for (StringRef name : functionsOfStep(module, accumulate))
    functions.emplace_back(module.lookupSymbol<plan::FunctionOp>(name), interface.loss(), cuda);
  training = functions.front().name() != "eval";

  const int64_t alignment = alignmentOf(cuda);
  auto bytesOf = [](const InterfaceTensor &tensor) {
    return plan::getBytes(tensor.type).getConstant().value_or(0);
  };
  for (const InterfaceTensor &parameter : interface.parameters) {
    const int64_t bytes = bytesOf(parameter);
    const int64_t size = parameter.type.getElementTypeBitWidth() / 8;
    if (cuda || (training && (parameter.trainable || parameter.updated)))
      parameters += trainrt::padded(bytes, alignment);
    else if (parameter.weight && !travelsInside(parameter, embedded) && size &&
             parameter.weight.getOffset() % size)
      parameters += bytes; // the runtime cannot read it where it lies
    const bool wide = parameter.type.getElementType().isF64();
    if (parameter.trainable &&
        llvm::any_of(functions, [](const FunctionMemory &f) { return f.usesGradients(); }))
      gradients += trainrt::padded(parameter.type.getNumElements() * (wide ? 8 : 4), alignment);
  }
  for (const InterfaceTensor &tensor : interface.state)
    if (training)
      state += trainrt::padded(bytesOf(tensor), alignment);
  constants = cuda ? alignment : 0; // where kernels report a bad index
  for (auto function : module.getOps<plan::FunctionOp>())
    constants += constantBytes(function, cuda);
}

FailureOr<StepMemory::Total> StepMemory::evaluate(const Sizes &sizes) const {
  Total total;
  total.lasting = parameters + state + gradients;
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
  }
  return total;
}

int64_t StepMemory::largest(const Sizes &sizes, StringRef axis, int64_t memory,
                            int64_t first) const {
  const int64_t last = std::min<int64_t>(sizes.max(axis).value_or(INT64_MAX), int64_t(1) << 30);
  auto excess = [&](int64_t value) -> double {
    FailureOr<Total> total = evaluate(sizes.with(axis, value));
    return failed(total) ? INFINITY : double(total->bytes()) - double(memory);
  };
  // What fits and what does not, and by how much. Memory is nearly linear in an axis: the next
  // value to try is where the line through the two ends, every third one is in the middle.
  int64_t good = std::max(first, std::max<int64_t>(1, sizes.min(axis))), bad = good;
  double room = excess(good), lack = 0;
  if (room > 0)
    return 0;
  while (bad == good) {
    if (good >= last)
      return last;
    const int64_t next = std::min(last, good * 2);
    if (const double over = excess(next); over > 0)
      bad = next, lack = over;
    else
      good = bad = next, room = over;
  }
  for (int round = 1; good + 1 < bad; ++round) {
    double share = round % 3 && std::isfinite(lack) ? room / (room - lack) : 0.5;
    const int64_t next =
        std::clamp<int64_t>(good + int64_t(double(bad - good) * share), good + 1, bad - 1);
    if (const double over = excess(next); over > 0)
      bad = next, lack = over;
    else
      good = next, room = over;
  }
  return good;
}
