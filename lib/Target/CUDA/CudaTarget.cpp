// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Facts of NVIDIA's GPUs, and how they are named.

#include "lib/Target/CUDA/CudaTarget.h"
#include "dialects/Plan/PlanDialect.h"
#include "format/memory/arena_plan.h"
#include "lib/Target/CUDA/CudaDevice.h"
#include "lib/Target/CUDA/Kernels/GpuCodegen.h"
#include "lib/Target/CUDA/Kernels/LowerToPTX.h"

using namespace mlir;
using namespace trainc;

/// The first architecture with bf16 and asynchronous copies.
static constexpr int kFirstArchitecture = 80;
/// Those of desktops and servers that there are from that one on: "all".
static constexpr StringLiteral kAllArchitectures[] = {"sm_80", "sm_86",  "sm_89",
                                                      "sm_90", "sm_100", "sm_120"};

static constexpr Precision kPrecisions[] = {Precision::TF32, Precision::BF16, Precision::FP16,
                                            Precision::PureBF16};

/// Speeds are those of one GPU of the H100's kind: they only have to compare commands with each
/// other.
static constexpr TargetTraits kTraits{
    .name = "cuda",
    .phrase = "a GPU",
    .device = "this GPU",
    .memory = {.alignment = trainrt::cudaPlanAlignment,
               .isSeparate = true,
               .runsBeside = true,
               .unaccounted = "what the driver takes for kernels and graphs"},
    .schedule = {.widensTypes = false,
                 .libraryEpilogues = true,
                 .streamsWeights = true,
                 .joinsColumnSums = true,
                 .recomputeCost = 130},
    .speeds = {.f32 = {4e13, 3e12}, .tf32 = {2.5e14, 3e12}, .low = {5e14, 3e12}},
    // NVLink between two H200, by NCCL: 256 MB of bf16 are scattered at 455 GB/s and gathered at
    // 487, latency included; half of them goes over the link. By the model it is 472.
    .link = {5e-5, 2.6e11},
    // Multiprocessors of an H100 or H200.
    .matmulUnits = 132,
    .precisions = kPrecisions,
    .fusedAttention = true,
    .kernelVariants = true,
    .collectives = true,
};

namespace {
class CudaTarget final : public Target {
public:
  CudaTarget() : Target(kTraits) {}

  std::vector<std::string> getSpellings() const override {
    return {name().str(), name().str() + ":sm_NN[,sm_NN...]", name().str() + ":all",
            name().str() + ":native"};
  }

  std::string getUsage() const override { return name().str() + "[:sm_NN,..|native]"; }

  std::vector<std::string> getDefaultProcessors() const override {
    return {std::begin(kAllArchitectures), std::end(kAllArchitectures)};
  }

  std::vector<std::string> getProcessorsHere() const override {
    std::string device = findCudaDevice();
    return device.empty() ? std::vector<std::string>() : std::vector<std::string>{device};
  }

  /// A list, with or without a comma at its end, or all, or the device here.
  std::string parse(StringRef list, std::vector<std::string> &processors) const override {
    if (list == "all") {
      processors = getDefaultProcessors();
      return {};
    }
    if (list == "native") {
      processors = getProcessorsHere();
      return processors.empty() ? "no CUDA device here to take the architecture from; name it, "
                                  "such as cuda:sm_90, or compile for all: cuda"
                                : "";
    }
    SmallVector<StringRef> parts;
    list.consume_back(",");
    if (!list.empty())
      list.split(parts, ',');
    for (StringRef part : parts) {
      StringRef number = part;
      int architecture = 0;
      if (!number.consume_front("sm_") || number.getAsInteger(10, architecture) ||
          architecture < kFirstArchitecture)
        return "expected architectures from sm_80 on, such as cuda:sm_80,sm_90";
      // Of one that there is not LLVM makes code without the instructions of any.
      if (!codegen::knowsArchitecture(part))
        return "there is no architecture " + part.str() +
               " that this compiler knows; --target cuda is for all GPUs from sm_80 on, newer ones "
               "by PTX";
      processors.push_back(part.str());
    }
    return {};
  }

  /// Never the device that this machine has.
  std::string spell(ArrayRef<std::string> processors) const override {
    return name().str() + ":" + llvm::join(processors, ",");
  }

  /// cuDNN has no deterministic one for Blackwell's data center GPUs (frontend 1.32), and it has
  /// been tried on Hopper only.
  bool hasFusedBiasGradient(ArrayRef<std::string> processors) const override {
    return llvm::all_of(processors, [](StringRef name) { return name.starts_with("sm_90"); });
  }

  int64_t getMemoryHere() const override { return getCudaMemory(); }

  /// The largest need, since commands follow each other, and another one where two may run at once.
  Workspace getWorkspace(ArrayRef<Operation *> commands,
                         plan::EvaluateInteger value) const override {
    // Some may run on two streams at once.
    int64_t most = 0, aside = 0, mostAside = 0, staging = 0;
    for (Operation *command : commands) {
      const plan::CommandWorkspace need =
          cast<plan::PlanCommandOpInterface>(command).getGpuWorkspace(value);
      most = std::max(most, need.bytes);
      staging = std::max(staging, need.staging);
      if (need.mayRunAside) {
        ++aside;
        mostAside = std::max(mostAside, need.bytes);
      }
    }
    return {most + (aside > 1 ? mostAside : 0), 0, staging};
  }

  std::unique_ptr<codegen::KernelCodegen>
  createKernels(MLIRContext &context, const KernelOptions &options) const override {
    return std::make_unique<codegen::GpuCodegen>(
        context, codegen::GpuOptions{options.processors.vec(), options.toolkit.str(),
                                     options.variants, options.cache.str()});
  }
};
} // namespace

const Target &trainc::getCudaTarget() {
  static const CudaTarget target;
  return target;
}
