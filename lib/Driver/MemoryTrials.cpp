// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Schedules on copies of the step's functions; the same passes make the program itself.

#include "lib/Driver/MemoryTrials.h"

#include "lib/Conversion/TrainToPlan/TrainToPlan.h"
#include "lib/Transforms/Offload/Offload.h"
#include "lib/Transforms/Recompute/Recompute.h"
#include "lib/Transforms/Support/StepBuilder.h"
#include "mlir/Pass/PassManager.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

SymbolBounds::SymbolBounds(ModuleOp module) {
  std::map<std::string, RankedTensorType> inputs;
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i)
      if (getArgRole(function, i) == "input")
        inputs.try_emplace(getArgName(function, i).str(),
                           cast<RankedTensorType>(function.getArgumentTypes()[i]));
  for (auto symbol : module.getOps<SymbolOp>()) {
    std::string name = symbol.getSymName().str();
    auto input = symbol.getInput() ? inputs.find(symbol.getInput()->str()) : inputs.end();
    if (symbol.getDiffers() && input != inputs.end()) {
      // Rounded up to the next bucket.
      counts[name] = getNumElements(input->second);
      continue;
    }
    axes.push_back(name);
    if (batch.empty() && symbol.getAxis() == 0)
      batch = name;
  }
}

std::vector<std::string> SymbolBounds::unbound() const {
  std::vector<std::string> names;
  for (const std::string &name : axes)
    if (!values.count(name))
      names.push_back(name);
  return names;
}

std::optional<int64_t> SymbolBounds::lookup(StringRef name) const {
  if (auto value = values.find(name.str()); value != values.end())
    return value->second;
  auto counted = counts.find(name.str());
  return counted == counts.end() ? std::nullopt : evaluate(counted->second);
}

std::optional<int64_t> SymbolBounds::evaluate(DimAttr dim) const {
  FailureOr<int64_t> value = dim.evaluate([&](StringRef name) { return lookup(name); });
  return succeeded(value) ? std::optional<int64_t>(*value) : std::nullopt;
}

//===----------------------------------------------------------------------===//
// Trials
//===----------------------------------------------------------------------===//

MemoryTrials::MemoryTrials(ModuleOp module, const CompileOptions &options)
    : module(module), options(options) {
  bool accumulates = options.accumulate > 1;
  for (StringRef name : {accumulates ? "micro" : "step", accumulates ? "update" : ""})
    if (auto function = name.empty() ? func::FuncOp() : module.lookupSymbol<func::FuncOp>(name))
      originals.push_back(function);
}

/// Kernels that nobody runs: only what the plan's buffers depend on.
static FailureOr<codegen::KernelInfo> describeKernel(FusionOp fusion) {
  codegen::KernelInfo info;
  DimAttr zero = DimAttr::constant(fusion.getContext(), 0);
  info.stages.push_back({"kernel", zero, 1, zero, {}});
  // Kernels update parameters and state in place.
  for (unsigned input = 0; input < fusion.getInputs().size(); ++input)
    for (unsigned result = 0; result < fusion.getNumResults(); ++result)
      if (fusion.getInputs()[input].getType() == fusion.getResultTypes()[result])
        info.inPlace.push_back({input, result});
  return info;
}

FailureOr<const MemoryTrials::Schedule *> MemoryTrials::make(const std::string &config) {
  if (auto known = made.find(config); known != made.end())
    return &known->second;
  Schedule schedule;
  schedule.module = ModuleOp::create(module.getLoc());
  OpBuilder builder = OpBuilder::atBlockEnd(schedule.module->getBody());
  for (auto symbol : module.getOps<SymbolOp>())
    builder.clone(*symbol);
  for (func::FuncOp function : originals)
    builder.clone(*function);
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.enableVerifier(false);
  if (!config.empty()) {
    RecomputePassOptions recompute;
    recompute.config = config;
    pm.addPass(createRecomputePass(recompute));
  }
  buildSchedulePipeline(pm, options.schedule);
  if (failed(pm.run(*schedule.module)))
    return failure();
  SmallVector<func::FuncOp> functions(schedule.module->getOps<func::FuncOp>());
  for (func::FuncOp function : functions)
    if (failed(convertTrainToPlan(function, describeKernel,
                                  options.graph.precision == Precision::TF32)))
      return failure();
  for (auto function : schedule.module->getOps<plan::FunctionOp>())
    schedule.lifetimes.emplace_back(function);
  return &made.emplace(config, std::move(schedule)).first->second;
}

FailureOr<const MemoryTrials::Schedule *> MemoryTrials::make(const std::string &config,
                                                             const SymbolBounds &symbols) {
  FailureOr<const Schedule *> schedule = make(config);
  if (failed(schedule) || !options.offload.enabled)
    return schedule;
  // What is moved to the host depends on the sizes.
  OffloadPassOptions offload;
  offload.limit = options.offload.limit;
  offload.rate = options.offload.rate;
  std::string key = config;
  for (auto symbol : module.getOps<SymbolOp>())
    if (std::optional<int64_t> value = symbols.lookup(symbol.getSymName())) {
      offload.sizes.push_back((symbol.getSymName() + "=" + llvm::Twine(*value)).str());
      key += " " + offload.sizes.back();
    }
  if (auto known = offloaded.find(key); known != offloaded.end())
    return &known->second;
  Schedule moved;
  moved.module = (*schedule)->module.get().clone();
  PassManager pm(module.getContext(), ModuleOp::getOperationName());
  pm.addNestedPass<plan::FunctionOp>(createOffloadPass(offload));
  if (failed(pm.run(*moved.module)))
    return failure();
  for (auto function : moved.module->getOps<plan::FunctionOp>())
    moved.lifetimes.emplace_back(function);
  return &offloaded.emplace(key, std::move(moved)).first->second;
}

FailureOr<int64_t> MemoryTrials::liveBytes(const std::string &config, const SymbolBounds &symbols) {
  FailureOr<const Schedule *> schedule = make(config, symbols);
  if (failed(schedule))
    return failure();
  int64_t most = 0;
  for (const FunctionLifetimes &function : (*schedule)->lifetimes) {
    auto bytes = evaluateBytes(function, [&](StringRef name) { return symbols.lookup(name); });
    if (failed(bytes))
      return module.emitError("sizes that are too large, or without a number");
    const int64_t alignment = options.cuda ? 256 : 64;
    std::vector<int64_t> change(function.commands.size() + 1, 0);
    for (auto [life, size] : llvm::zip_equal(function.buffers, *bytes))
      if (life.isArena()) {
        int64_t padded = llvm::divideCeil(size, alignment) * alignment;
        change[life.first] += padded;
        change[life.last + 1] -= padded;
      }
    int64_t live = 0;
    for (int64_t step : change)
      most = std::max(most, live += step);
  }
  return most;
}

int64_t MemoryTrials::fixedBytes(const SymbolBounds &symbols) const {
  std::map<std::pair<std::string, std::string>, int64_t> held;
  for (func::FuncOp function : originals)
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      StringRef role = getArgRole(function, i);
      bool mapped = role == "parameter" && !options.cuda && !function.getArgAttr(i, kTrainableAttr);
      if (!mapped)
        held[{role.str(), getArgName(function, i).str()}] =
            symbols.evaluate(bytesOf(function.getArgument(i))).value_or(0);
    }
  int64_t sum = 0;
  for (auto &[name, bytes] : held)
    sum += bytes;
  return sum;
}
