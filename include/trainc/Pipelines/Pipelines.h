// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The phases between legalization and code generation as pass pipelines.
#ifndef TRAINC_PIPELINES_PIPELINES_H
#define TRAINC_PIPELINES_PIPELINES_H

#include "mlir/Pass/PassManager.h"
#include "trainc/Target/Target.h"
#include <optional>
#include <string>
#include <vector>

namespace trainc {

/// `--lora`: low-rank branches, and nothing else is trained (docs/lora.md).
struct LoraOptions {
  int64_t rank = 8;
  double alpha = 8, dropout = 0;
  /// ECMAScript; "": all projections but heads.
  std::string targets;
  /// NUMBER=EXPRESSION for the modules that match.
  std::vector<std::string> rankPattern, alphaPattern;
  bool rslora = false;
  /// Train the norms of the weights' rows beside their directions.
  bool dora = false;
  /// Train the branches that the graph has, and insert none.
  bool existing = false;
  /// Parameters that are trained in full; "": none.
  std::string save;
  /// none, all or lora_only.
  std::string bias = "none";
  /// Kinds of projections whose branches share matmuls with others: mlp, qkv, o.
  std::vector<std::string> fuse = {"mlp", "qkv", "o"};
};

/// `--quantize`: how weights that are not trained are stored.
struct QuantizeOptions {
  /// nf4, fp4 or int8.
  std::string format = "nf4";
  int64_t block = 64;
  bool doubled = false;
  /// f32, bf16 or f16.
  std::string scaleType = "f32";
  /// ECMAScript expression of parameters that stay as they are; "": none.
  std::string skip;
};

/// `--distribute`: what the ranks of a run share (docs/design/distribute.md).
enum class Distribution {
  /// The package is for one rank.
  None,
  /// Rows: each rank has the whole model.
  Data,
  /// And a part of the optimizer's state alone.
  Zero1,
  /// And of the accumulated gradients.
  Zero2,
  /// And of the parameters.
  Zero3
};

/// Its name on the command line and in packages, "" for none; none where there is no such name.
llvm::StringRef nameOf(Distribution distribution);
std::optional<Distribution> parseDistribution(llvm::StringRef name);
/// Names of all but none.
std::vector<std::string> getDistributionNames();
/// Whether ranks have shards, and so the symbols of a run.
inline bool hasShards(Distribution distribution) { return distribution > Distribution::Data; }

struct GraphOptions {
  Precision precision = Precision::Graph;
  /// The target has a fused kernel for attention in 16-bit types.
  bool fusedAttention = false;
  /// It also computes the gradient of a bias.
  bool fusedBiasGradient = false;
  /// Of 16 bits the target takes only factors of matmuls, of any extent.
  bool lowersProductsOnly = false;
  /// Projections of one input are one matmul where that is quicker by the model of a processor with
  /// `matmulUnits` (0: never) that does `matmulSpeed`.
  bool mergeProjections = true;
  /// What a step rounds of weights is kept for the next one, and written by the update.
  bool keepRoundedWeights = true;
  int64_t matmulUnits = 0;
  ProcessorSpeed matmulSpeed = {};
  /// Convolutions that a library has calls for are such; else all are matmuls.
  bool callsConvolutions = false;
  /// No loss: only @eval.
  bool inference = false;
  /// @forward returns the updates of a step too: no optimizer is attached, and micro-batches cannot
  /// be accumulated.
  bool ownUpdates = false;
  /// What is between convolutions has the channels last, too.
  bool moveTransposes = false;
  bool hoistSlices = true;
  /// Rows without a label leave before the loss.
  bool labelSparsity = true;
  /// The loss of a large vocabulary is computed, with its gradient, for some rows at a time.
  bool chunkLoss = true;
  /// A variant of the step computes tokens only, where padding has no influence.
  bool eliminatePadding = true;
  /// Counted sizes are multiples of this.
  int64_t tokenBucket = 8;
  /// sgd adam adamw adamw-hf lamb
  std::string optimizer = "adamw";
  std::vector<double> betas;
  /// Negative: the optimizer's default.
  double epsilon = -1;
  double momentum = 0;
  bool nesterov = false;
  bool biasCorrection = true;
  bool clip = false;
  /// The norm of the gradients is a result of steps, also where it is not clipped.
  bool gradNorm = false;
  /// fp32 bf16 int8; "": as the parameters.
  std::string optimizerState;
  std::optional<LoraOptions> lora;
  std::optional<QuantizeOptions> quantize;
  Distribution distribution = Distribution::None;
  /// Bytes of gradients that travel together.
  int64_t bucket = int64_t(32) << 20;
  /// Those that are made in 16 bits by themselves.
  bool narrowApart = false;
};

/// `--offload`: activations wait on the host where that costs no time.
struct OffloadOptions {
  bool enabled = false;
  /// In at most so many bytes of its memory (-1: any), by a link of so many GB/s each way.
  int64_t limit = -1;
  double rate = 50;
};

struct ScheduleOptions {
  /// What the target asks for.
  ScheduleTraits target;
  /// Factors of matmuls that are bf16 stay so, where a target computes in wider types.
  bool lowProducts = false;
  /// Biases and GELUs in matmuls, where the target's library can do it.
  bool fuseEpilogues = true;
  /// A parameter is updated as soon as its gradient is there, instead of after the backward pass.
  bool scheduleUpdates = true;
  /// Largest values of symbolic sizes, by their names.
  std::vector<std::pair<std::string, int64_t>> largestSizes;
};

/// @forward with low-rank branches and quantized weights, where the options ask for them.
void buildAdapterPipeline(mlir::OpPassManager &pm, const GraphOptions &options);
/// `graph`: @forward -> @step, @micro, @update, @eval.
void buildGraphPipeline(mlir::OpPassManager &pm, const GraphOptions &options);
/// `schedule`: functions of kernels, library calls and views, in order.
void buildSchedulePipeline(mlir::OpPassManager &pm, const ScheduleOptions &options);
/// Makes both available to trainc-opt, as --graph (with the default options), --schedule for the
/// host's target and --schedule-NAME for others.
void registerPipelines();

} // namespace trainc

#endif // TRAINC_PIPELINES_PIPELINES_H
