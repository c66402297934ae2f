// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What code is generated for: its facts, which passes and reports take as plain values, and how
// kernels are made for it. A target is a folder of lib/Target; docs/add-a-target.md.
#ifndef TRAINC_TARGET_TARGET_H
#define TRAINC_TARGET_TARGET_H

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace mlir {
class MLIRContext;
class Operation;
} // namespace mlir

namespace trainc {
namespace codegen {
class KernelCodegen;
}
namespace train {
class DimAttr;
}

/// How values are represented (docs/design/cuda.md).
enum class Precision {
  /// The graph's own types; never TF32.
  Graph,
  TF32,
  BF16,
  FP16,
  PureBF16
};

/// What the schedule does for a target. The defaults are those of a plain processor.
struct ScheduleTraits {
  /// Types that are narrower than f32 are storage only, but for factors of matmuls where the
  /// precision asks for it, and matmuls of f64 have no library (`widen-types`).
  bool widensTypes = true;
  /// The library's matmuls take biases and GELUs, and store f32 from 16-bit factors
  /// (`fuse-epilogues`, `widen-products`).
  bool libraryEpilogues = false;
  /// Kernels make factors of matmuls as they read them (`stream-weights`).
  bool streamsWeights = false;
  /// Kernels of rows make sums down their columns, too (`join-column-sums`).
  bool joinsColumnSums = false;
  /// `recompute-cost` of `form-kernels`: higher where arithmetic is cheap beside memory.
  unsigned recomputeCost = 6;
};

/// How a runtime lays out the memory of a device.
struct MemoryTraits {
  /// Of every buffer, within blocks and by itself.
  int64_t alignment;
  /// Whether the device has memory that is not the host's: parameters, inputs and constants are
  /// copied to it, and what nothing needs for a while can wait on the host.
  bool isSeparate = false;
  /// Whether small commands run beside others, for which the arena has some room.
  bool runsBeside = false;
  /// What the device takes that no account has; "": nothing.
  llvm::StringRef unaccounted = {};
};

/// What the model of a processor takes it to do in a second, and the seconds until a command
/// begins.
struct ProcessorSpeed {
  double flops, bytes;
  double launch = 2e-6;

  /// Of work that takes what is longer of computing and of moving its bytes.
  double seconds(double work, double moved) const { return std::max(work / flops, moved / bytes); }
};

/// Of matmuls in 32 bits, of 32 bits rounded to TF32, and in 16 bits.
struct ProcessorSpeeds {
  ProcessorSpeed f32, tf32, low;

  const ProcessorSpeed &of(Precision precision) const;
};

/// The link between ranks, as collectives use it: seconds until one begins, and bytes that a rank
/// sends in a second, while it gets as many.
struct LinkSpeed {
  double latency, bandwidth;

  double seconds(double sent) const { return latency + sent / bandwidth; }
};

struct TargetTraits {
  /// In --target, packages and reports: "cpu".
  llvm::StringRef name;
  /// In sentences: "the CPU", "a GPU".
  llvm::StringRef phrase;
  /// Whose memory is told: "this machine", "this GPU".
  llvm::StringRef device;
  MemoryTraits memory;
  ScheduleTraits schedule;
  ProcessorSpeeds speeds;
  LinkSpeed link;
  /// Tiles of a matmul that are computed at once, where matmuls of few rows leave units idle; 0: a
  /// matmul takes what its arithmetic takes (`merge-projections`).
  int64_t matmulUnits = 0;
  /// How values can be represented besides, and what there is to know of it: getPrecisionNote.
  llvm::ArrayRef<Precision> precisions = {};
  /// Whether of 16 bits only factors of matmuls are taken, of any extent.
  bool lowersProductsOnly = false;
  /// Whether there is a fused kernel for attention in 16-bit types.
  bool fusedAttention = false;
  /// Whether kernels can be made in a few ways each, for tuning to choose from.
  bool kernelVariants = false;
  /// Whether several ranks can train a package together.
  bool collectives = false;
};

/// As --precision has it.
llvm::StringRef nameOf(Precision precision);

/// What kernels are made for, and with.
struct KernelOptions {
  /// As Target::parse has them.
  llvm::ArrayRef<std::string> processors;
  /// Folder of the vendor's tools; "": looked for.
  llvm::StringRef toolkit = "";
  /// Make each kernel in a few ways (TargetTraits::kernelVariants).
  bool variants = false;
  /// Folder where compiled kernels are kept for later compilations; "": none.
  llvm::StringRef cache = "";
};

/// Bytes that kernels and library calls need beside their operands.
struct Workspace {
  /// With one thread of the host, and what each other one adds.
  int64_t bytes = 0, perOtherThread = 0;
  /// Beside these, what ranks exchange through.
  int64_t staging = 0;
};

class Target {
public:
  explicit Target(const TargetTraits &traits) : traits(traits) {}
  virtual ~Target() = default;
  Target(const Target &) = delete;
  Target &operator=(const Target &) = delete;

  const TargetTraits traits;
  llvm::StringRef name() const { return traits.name; }

  /// The values of --target that name it, as messages list them ("cpu", "cpu:native"), and in one
  /// for --help: "cpu[:native]".
  virtual std::vector<std::string> getSpellings() const = 0;
  virtual std::string getUsage() const = 0;
  /// Processors that --target NAME means, on every machine the same.
  virtual std::vector<std::string> getDefaultProcessors() const = 0;
  /// Those that --target auto takes; none where there is no such device.
  virtual std::vector<std::string> getProcessorsHere() const { return getDefaultProcessors(); }
  /// Reads what stands behind the colon in --target NAME:LIST. Returns what is wrong, or "" without
  /// processors where it is no spelling of this target.
  virtual std::string parse(llvm::StringRef list, std::vector<std::string> &processors) const = 0;
  /// The value of --target that means these processors, on every machine.
  virtual std::string spell(llvm::ArrayRef<std::string> processors) const = 0;

  /// What a user has to know of a precision on these processors; "": nothing.
  virtual std::string getPrecisionNote(Precision, llvm::ArrayRef<std::string>) const { return {}; }
  /// Whether fused attention computes the gradient of its bias on all of these processors.
  virtual bool hasFusedBiasGradient(llvm::ArrayRef<std::string>) const { return false; }

  /// Bytes of the memory of the device here; 0 without one.
  virtual int64_t getMemoryHere() const = 0;
  /// What the commands of a function need, at most; `value`: of a size.
  virtual Workspace getWorkspace(llvm::ArrayRef<mlir::Operation *> commands,
                                 llvm::function_ref<int64_t(train::DimAttr)> value) const = 0;

  /// Makes kernels. Loads the dialects that they are made of: not to be called while a pass manager
  /// runs.
  virtual std::unique_ptr<codegen::KernelCodegen>
  createKernels(mlir::MLIRContext &context, const KernelOptions &options) const = 0;
};

/// All targets, in the order in which they are listed. The first one is there on every machine; of
/// those with a device here, --target auto takes the last one.
llvm::ArrayRef<const Target *> getTargets();
/// Null where there is none of that name.
const Target *findTarget(llvm::StringRef name);
/// The first one.
const Target &getHostTarget();
/// "cuda", or "a or b": those for which something holds, for messages.
std::string namesOfTargets(llvm::function_ref<bool(const TargetTraits &)> holds);

struct TargetChoice {
  const Target *target = nullptr;
  std::vector<std::string> processors;
};
/// Reads --target. Returns what is wrong, with the value, or "".
std::string parseTarget(llvm::StringRef text, TargetChoice &choice);
/// What --target takes, for --help.
std::string describeTargets();

} // namespace trainc

#endif // TRAINC_TARGET_TARGET_H
