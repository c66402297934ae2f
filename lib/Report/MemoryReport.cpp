// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the text and the page both tell.

#include "trainc/Report/MemoryReport.h"
#include "format/status.h"
#include "trainc/Support/Location.h"
#include <map>

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

std::string trainc::missingSizes(const Sizes &sizes, StringRef but) {
  std::string names, example;
  for (StringRef name : sizes.unbound()) {
    if (name == but)
      continue;
    // The first one stands as an example.
    const std::string shown = trainrt::shown(name);
    names += (names.empty() ? "" : ", ") + shown;
    if (example.empty())
      example = "--dim " + shown + "=32 fixes it, --dim " + shown + "=1..32 says the most";
  }
  return names.empty() ? "" : "needs a size for " + names + " (" + example + ")";
}

/// For messages that name all that is missing.
std::string trainc::dimOptions(const Sizes &sizes) {
  std::string options;
  for (StringRef name : sizes.unbound())
    options += " --dim " + trainrt::shown(name) + "=N";
  return options;
}

/// Null where recompute has changed the functions.
const FunctionMemory *trainc::findFunction(const StepMemory &step, StringRef name) {
  for (const FunctionMemory &function : step.functions)
    if (function.name() == name)
      return &function;
  return nullptr;
}

/// Type and node, as tables show it.
static PeakBuffer describe(const BufferLifetime &life, int64_t bytes) {
  plan::BufferOp buffer = life.buffer;
  std::string text;
  llvm::raw_string_ostream out(text);
  out << getElementTypeOrSelf(buffer.getType()) << "  ";
  StringRef node = getNodeName(buffer.getLoc());
  out << (node.empty() ? StringRef("(no node)") : node);
  return {&life, bytes, text, node.str()};
}

static void sortBySize(std::vector<PeakBuffer> &list) {
  // Equal sizes in the order of the plan.
  llvm::sort(list, [](const PeakBuffer &a, const PeakBuffer &b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.life < b.life;
  });
}

std::vector<PeakBuffer> trainc::buffersAt(const FunctionMemory &function,
                                          const FunctionMemory::Numbers &numbers, int32_t command) {
  std::vector<PeakBuffer> list;
  // Empty tensors take no room.
  for (auto [life, bytes] : llvm::zip_equal(function.buffers(), numbers.bytes))
    if (function.isLive(life, command) && bytes)
      list.push_back(describe(life, bytes));
  sortBySize(list);
  return list;
}

std::vector<PeakBuffer> trainc::noLongerKept(const FunctionMemory &function,
                                             const FunctionMemory &before,
                                             const FunctionMemory::Numbers &numbersBefore) {
  // By node and formula: buffers of another plan are other objects.
  std::map<std::pair<std::string, std::string>, int> kept;
  auto key = [](const PeakBuffer &buffer) {
    return std::pair(buffer.node, buffer.life->bytes.str());
  };
  for (const BufferLifetime &life : function.buffers())
    if (function.isKept(life))
      ++kept[key(describe(life, 0))];
  std::vector<PeakBuffer> list;
  for (auto [life, bytes] : llvm::zip_equal(before.buffers(), numbersBefore.bytes)) {
    if (!before.isKept(life))
      continue;
    PeakBuffer buffer = describe(life, bytes);
    // As many as there are more of than now.
    if (--kept[key(buffer)] < 0)
      list.push_back(std::move(buffer));
  }
  sortBySize(list);
  return list;
}

std::vector<MemoryCategory> trainc::categoriesOf(const MemoryReport &report) {
  assert(!report.step.functions.empty() && "a step runs something");
  const StepMemory &step = report.step;
  const MemoryTraits &memory = step.target->traits.memory;
  FailureOr<StepMemory::Total> total = step.evaluate(report.sizes);
  const bool known = succeeded(total);
  // The function that decides: the first one where there are no numbers.
  const FunctionMemory &first = step.functions[known ? total->largest : 0];
  MLIRContext *context = first.function()->getContext();
  // A number, or nothing where sizes are missing.
  auto number = [&](int64_t StepMemory::Total::*field) {
    return known ? std::optional<int64_t>((*total).*field) : std::nullopt;
  };
  auto fixed = [](int64_t bytes) { return std::to_string(bytes); };
  std::vector<MemoryCategory> list;
  // Lasting ones first, then those of a step.
  list.push_back({"parameters", step.parameters, fixed(step.parameters)});
  if (step.training)
    list.push_back({"optimizer state", step.state, fixed(step.state)});
  if (step.gradients)
    list.push_back({"gradients", step.gradients, fixed(step.gradients)});
  list.push_back({"activations", number(&StepMemory::Total::arena),
                  (known ? fixed(total->arena) + " " : std::string()) + "of '" +
                      first.name().str() + "', below"});
  // Two copies on a device; on the host they are read where they lie.
  DimAttr inputs = DimAttr::constant(context, 0);
  if (memory.isSeparate)
    inputs = (first.formula(plan::Space::input) + first.formula(plan::Space::hyper)) *
             DimAttr::constant(context, 2);
  list.push_back({"inputs", number(&StepMemory::Total::inputs),
                  memory.isSeparate ? inputs.str() : "0, read where they lie"});
  list.push_back(
      {"outputs", number(&StepMemory::Total::outputs), first.formula(plan::Space::output).str()});
  list.push_back({"workspace", number(&StepMemory::Total::workspace),
                  memory.isSeparate ? "at most: what libraries may ask for, and constants"
                  : known           ? "of kernels and matmuls, 1 thread; each other thread " +
                                          formatBytes(total->workspaceOfOthers)
                                    : "of kernels and matmuls"});
  // What no account has, such as the driver's own memory.
  const std::string besides = memory.unaccounted.empty() ? "" : "and " + memory.unaccounted.str();
  if (!known)
    list.push_back({"peak", std::nullopt, besides});
  else
    list.push_back(
        {"peak", total->bytes(), fixed(total->bytes()) + (besides.empty() ? "" : " " + besides)});
  // Not part of the peak: it is other memory.
  if (llvm::any_of(step.functions, [](const FunctionMemory &f) { return f.usesHost(); }))
    list.push_back({"pinned on host", number(&StepMemory::Total::host),
                    "beside the peak: what --offload moves there"});
  return list;
}

std::vector<std::pair<double, int64_t>> trainc::peaksByDensity(const MemoryReport &report) {
  std::vector<std::pair<double, int64_t>> peaks;
  // From full batches to nearly empty ones.
  for (double density : {1., 0.75, 0.5, 0.25, 0.1}) {
    const Sizes sizes = report.sizes.counted(density);
    FailureOr<StepMemory::Total> total = report.step.evaluate(sizes);
    if (failed(total))
      return {};
    // Of a function and its variants the smallest runs.
    std::map<StringRef, int64_t> arenas;
    for (const FunctionMemory &function : report.step.functions) {
      FailureOr<ArenaPeak> arena = function.evaluateArena(sizes);
      if (failed(arena))
        return {};
      // A variant runs in place of its function.
      StringRef base = function.variantOf().empty() ? function.name() : function.variantOf();
      auto [known, isNew] = arenas.try_emplace(base, arena->planned);
      known->second = std::min(known->second, arena->planned);
    }
    int64_t arena = 0;
    for (auto &[name, bytes] : arenas)
      arena = std::max(arena, bytes);
    // Full batches have no variant that pays.
    peaks.emplace_back(density,
                       total->bytes() - total->arena + (density < 1 ? arena : total->arena));
  }
  // One number for all densities is no table.
  const bool differs = peaks.front().second != peaks.back().second;
  return differs ? peaks : std::vector<std::pair<double, int64_t>>();
}

std::vector<LargestBatch> trainc::largestBatches(const MemoryReport &report) {
  // Other sizes have to be known.
  if (report.batch.empty() || !missingSizes(report.sizes, report.batch).empty())
    return {};
  std::vector<LargestBatch> list;
  // Devices as they are sold, and the one that is there.
  for (int64_t size : {8, 16, 24, 40, 80})
    list.push_back({std::to_string(size) + " GiB", size << 30, 0});
  if (report.device)
    list.push_back({report.deviceName + ", " + formatBytes(report.device), report.device, 0});
  llvm::sort(list,
             [](const LargestBatch &a, const LargestBatch &b) { return a.memory < b.memory; });
  // What fits into less memory fits into more: the search begins there.
  int64_t fits = 1;
  for (LargestBatch &entry : list) {
    entry.batch = report.step.largest(report.sizes, report.batch, entry.memory, fits);
    fits = std::max<int64_t>(entry.batch, 1);
  }
  return list;
}
