// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts of the CPU, and how it is named.

#include "lib/Target/CPU/CpuTarget.h"
#include "dialects/Plan/PlanDialect.h"
#include "dialects/Train/Collectives/Collectives.h"
#include "format/memory/arena_plan.h"
#include "format/memory/working_memory.h"
#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include <unistd.h>

using namespace mlir;
using namespace trainc;

/// The levels that there are kernels for; those of x86-64, which the compiler runs on, first.
static constexpr StringLiteral kLevels[] = {"x86-64-v3", "x86-64-v4", "armv8.2-a"};
static constexpr size_t kDefaultLevels = 2;

/// FLOPs and bytes a second of one such machine: only for comparing commands with each other.
static constexpr ProcessorSpeed kSpeed{1e11, 2e10};

/// Of processes of one machine, over Gloo's TCP: about what an all-reduce of 100 MB by two ranks
/// reaches, sums included, where each has a core.
static constexpr LinkSpeed kLink{2e-4, 1e9};

/// Sums are in f32.
static constexpr Precision kPrecisions[] = {Precision::BF16};

static constexpr TargetTraits kTraits{
    .name = "cpu",
    .phrase = "the CPU",
    .device = "this machine",
    .memory = {.alignment = trainrt::planAlignment},
    .schedule = {},
    .speeds = {kSpeed, kSpeed, kSpeed},
    .link = kLink,
    .precisions = kPrecisions,
    .lowersProductsOnly = true,
    .collectives = true,
};

namespace {
class CpuTarget final : public Target {
public:
  CpuTarget() : Target(kTraits) {}

  std::vector<std::string> getSpellings() const override {
    std::vector<std::string> spellings = {name().str()};
    for (StringRef level : kLevels)
      spellings.push_back((name() + ":" + level).str());
    spellings.push_back(name().str() + ":native");
    return spellings;
  }

  std::string getUsage() const override {
    return name().str() + "[:" + llvm::join(ArrayRef(kLevels), "|") + "|native]";
  }

  /// Without a choice there are kernels of both levels of x86-64 in a package, and the runtime
  /// takes the best.
  std::vector<std::string> getDefaultProcessors() const override {
    return {std::begin(kLevels), std::begin(kLevels) + kDefaultLevels};
  }

  /// Empty `processors` stand for a name that is unknown, which the caller tells.
  std::string parse(StringRef list, std::vector<std::string> &processors) const override {
    SmallVector<StringRef> levels;
    list.split(levels, ',');
    for (StringRef level : levels) {
      if (level == "native") {
        level = codegen::getHostLevel();
        if (level.empty())
          return "kernels need x86-64-v3 or better, which this machine is not; for another one "
                 "name its level: cpu:x86-64-v3, cpu:x86-64-v4 or cpu:armv8.2-a";
      }
      if (!llvm::is_contained(kLevels, level)) {
        processors.clear();
        return {};
      }
      if (!llvm::is_contained(processors, level))
        processors.push_back(level.str());
    }
    return {};
  }

  std::string spell(ArrayRef<std::string> processors) const override {
    const bool chosen = processors != ArrayRef(getDefaultProcessors());
    return name().str() + (chosen ? ":" + llvm::join(processors, ",") : "");
  }

  std::string getPrecisionNote(Precision precision,
                               ArrayRef<std::string> processors) const override {
    if (precision == Precision::Graph)
      return {};
    const bool mayHave =
        llvm::any_of(processors, [](StringRef level) { return level.starts_with("x86-64"); });
    const std::string text = nameOf(precision).str() + " on " + spell(processors) + ": matmuls ";
    return mayHave
               ? text + "take it by AVX512-BF16 where the processor that trains has it and is "
                        "quicker with it; else they are emulated in f32, with the same bits and "
                        "no quicker than without (trainc-run tells)"
               : text + "are emulated in f32, no quicker than without";
  }

  int64_t getMemoryHere() const override {
    return int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE));
  }

  /// For the instruction set that needs more; with a second thread to see what it adds.
  Workspace getWorkspace(ArrayRef<Operation *> commands,
                         plan::EvaluateInteger value) const override {
    // needs[0]: with one thread; the difference is what each further one adds.
    int64_t kernels = 0, needs[2] = {}, staging = 0, world = 1, shards = 1;
    if (!commands.empty()) {
      world = value(train::getAllRanks(commands.front()->getContext()));
      shards = value(train::getWorld(commands.front()->getContext()));
    }
    for (Operation *command : commands)
      if (train::DimAttr scratch = cast<plan::PlanCommandOpInterface>(command).getThreadScratch())
        kernels = std::max(kernels, trainrt::padded(value(scratch), traits.memory.alignment));
    for (trainrt::GemmTile tile : {trainrt::avx2Tile, trainrt::avx512Tile, trainrt::neonTile})
      for (unsigned threads : {1, 2}) {
        trainrt::WorkingMemory memory(tile, threads, world, shards);
        for (Operation *command : commands)
          cast<plan::PlanCommandOpInterface>(command).addCpuWorkspace(value, memory);
        needs[threads - 1] = std::max(needs[threads - 1], memory.threadBytes() + kernels * threads);
        staging = memory.stagingBytes();
      }
    return {needs[0], needs[1] - needs[0], staging};
  }

  std::unique_ptr<codegen::KernelCodegen>
  createKernels(MLIRContext &context, const KernelOptions &options) const override {
    return std::make_unique<codegen::CpuCodegen>(context, options.processors, options.cache);
  }
};
} // namespace

/// One for the process, made on first use.
const Target &trainc::getCpuTarget() {
  static const CpuTarget target;
  return target;
}
