// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order of passes. Everything that is optional is decided here and nowhere else.

#include "trainc/Pipelines/Pipelines.h"
#include "lib/AutoDiff/AutoDiff.h"
#include "lib/Schedule/AlignCollectives/AlignCollectives.h"
#include "lib/Schedule/FormKernels/FormKernels.h"
#include "lib/Schedule/JoinColumnSums/JoinColumnSums.h"
#include "lib/Schedule/JoinRowReaders/JoinRowReaders.h"
#include "lib/Schedule/NarrowSums/NarrowSums.h"
#include "lib/Schedule/PlaceRows/PlaceRows.h"
#include "lib/Transforms/AccumulateProducts/AccumulateProducts.h"
#include "lib/Transforms/AlignMatmuls/AlignMatmuls.h"
#include "lib/Transforms/AttachOptimizer/AttachOptimizer.h"
#include "lib/Transforms/ChunkLoss/ChunkLoss.h"
#include "lib/Transforms/Decompose/Decompose.h"
#include "lib/Transforms/Distribute/Distribute.h"
#include "lib/Transforms/EliminatePadding/EliminatePadding.h"
#include "lib/Transforms/ExpandVectorProducts/ExpandVectorProducts.h"
#include "lib/Transforms/ExploitLabelSparsity/ExploitLabelSparsity.h"
#include "lib/Transforms/FoldConstants/FoldConstants.h"
#include "lib/Transforms/FormEval/FormEval.h"
#include "lib/Transforms/FormSteps/FormSteps.h"
#include "lib/Transforms/FuseEpilogues/FuseEpilogues.h"
#include "lib/Transforms/FuseLora/FuseLora.h"
#include "lib/Transforms/HoistSlices/HoistSlices.h"
#include "lib/Transforms/InsertLora/InsertLora.h"
#include "lib/Transforms/KeepRoundedWeights/KeepRoundedWeights.h"
#include "lib/Transforms/MergeProjections/MergeProjections.h"
#include "lib/Transforms/MixedPrecision/MixedPrecision.h"
#include "lib/Transforms/MoveTransposes/MoveTransposes.h"
#include "lib/Transforms/QuantizeFrozen/QuantizeFrozen.h"
#include "lib/Transforms/RaiseAttention/RaiseAttention.h"
#include "lib/Transforms/RaiseChoices/RaiseChoices.h"
#include "lib/Transforms/RaiseExtremes/RaiseExtremes.h"
#include "lib/Transforms/RaiseIdioms/RaiseIdioms.h"
#include "lib/Transforms/RaiseSharedFactors/RaiseSharedFactors.h"
#include "lib/Transforms/RematerializeWeights/RematerializeWeights.h"
#include "lib/Transforms/ShardParameters/ShardParameters.h"
#include "lib/Transforms/StreamWeights/StreamWeights.h"
#include "lib/Transforms/WidenProducts/WidenProducts.h"
#include "lib/Transforms/WidenTypes/WidenTypes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;
using namespace trainc;

/// After passes that leave dead or equal ops behind.
static void addCleanup(OpPassManager &pm) {
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

/// The same for functions whose ops are decomposed, many times as many. They are single blocks, in
/// which there are no regions to simplify.
static void addScheduleCleanup(OpPassManager &pm) {
  GreedyRewriteConfig config;
  config.setRegionSimplificationLevel(GreedySimplifyRegionLevel::Disabled);
  pm.addPass(createCanonicalizerPass(config));
  pm.addPass(createCSEPass());
}

/// Weights have to be beside each other without a copy: they are where each step rounds them.
static StringRef whyNotMerged(const GraphOptions &options) {
  if (options.precision == Precision::PureBF16)
    return "weights are multiplied as they are stored, and would be copied to be beside others";
  if (options.distribution >= Distribution::Zero3)
    return "weights are gathered from shards one by one";
  if (options.lora)
    return "low-rank branches share matmuls in their own way";
  return "";
}

/// Before autodiff, so that the backward pass inherits it.
static void addPrecision(OpPassManager &pm, const GraphOptions &options) {
  // TF32 is a matter of products; the graph's own types say nothing.
  const bool lowers = options.precision != Precision::Graph && options.precision != Precision::TF32;
  MixedPrecisionPassOptions mixed;
  mixed.type = options.precision == Precision::FP16 ? "f16" : "bf16";
  // Raised before types are lowered: patterns match the graph as it was exported.
  if (options.fusedAttention) {
    RaiseAttentionPassOptions attention;
    // A graph in 16-bit types has kernels for its attention as it is.
    if (lowers)
      attention.type = mixed.type;
    attention.biasGradient = options.fusedBiasGradient;
    pm.addNestedPass<func::FuncOp>(createRaiseAttentionPass(attention));
    // A trained bias is made of products with positions, which all samples share.
    addCleanup(pm);
    pm.addNestedPass<func::FuncOp>(createRaiseSharedFactorsPass());
  }
  if (!lowers) {
    addCleanup(pm);
    return;
  }
  if (options.mergeProjections && options.matmulUnits) {
    addCleanup(pm);
    MergeProjectionsPassOptions merge;
    merge.units = options.matmulUnits;
    merge.flops = options.matmulSpeed.flops;
    merge.bytes = options.matmulSpeed.bytes;
    merge.launch = options.matmulSpeed.launch;
    merge.obstacle = whyNotMerged(options).str();
    pm.addNestedPass<func::FuncOp>(createMergeProjectionsPass(merge));
  }
  mixed.parameters = options.precision == Precision::PureBF16;
  mixed.products = options.lowersProductsOnly;
  pm.addNestedPass<func::FuncOp>(createMixedPrecisionPass(mixed));
  // Sizes of products that tensor cores like.
  if (!options.lowersProductsOnly)
    pm.addNestedPass<func::FuncOp>(createAlignMatmulsPass());
  addCleanup(pm);
}

/// An exchange of less costs its latency alone, and saves next to nothing.
static constexpr int64_t kShardFrom = 64 * 1024;

/// In the order of Distribution.
static constexpr StringLiteral kDistributions[] = {"", "data", "zero1", "zero2", "zero3"};

StringRef trainc::nameOf(Distribution distribution) { return kDistributions[int(distribution)]; }

std::optional<Distribution> trainc::parseDistribution(StringRef name) {
  auto *it = llvm::find(kDistributions, name);
  return it == std::end(kDistributions) ? std::nullopt
                                        : std::optional(Distribution(it - kDistributions));
}

std::vector<std::string> trainc::getDistributionNames() {
  return std::vector<std::string>(std::begin(kDistributions) + 1, std::end(kDistributions));
}

/// From @forward to the functions that train. `packed`: of packed tokens.
static void addTraining(OpPassManager &pm, const GraphOptions &options, bool packed) {
  if (!options.fusedAttention && options.eliminatePadding && !options.inference) {
    // The CPU's only fused attention is that of segments.
    RaiseAttentionPassOptions attention;
    (packed ? attention.segments : attention.sequences) = true;
    pm.addNestedPass<func::FuncOp>(createRaiseAttentionPass(attention));
    addCleanup(pm);
  }
  // Vectors of padding are none by now, and types are those of the model.
  pm.addNestedPass<func::FuncOp>(createRaiseChoicesPass());
  addPrecision(pm, options);
  // Behind precision: the loss is computed in wide types.
  if (!options.inference && options.chunkLoss)
    pm.addPass(createChunkLossPass());
  if (!options.inference)
    pm.addPass(createAutoDiffPass());
  const bool sharesParameters = options.distribution >= Distribution::Zero3;
  if (sharesParameters)
    pm.addPass(createShardParametersPass({kShardFrom}));
  // The model's own updates are the optimizer then.
  if (!options.inference && !options.ownUpdates) {
    AttachOptimizerPassOptions attach;
    attach.kind = options.optimizer;
    attach.betas.assign(options.betas.begin(), options.betas.end());
    attach.epsilon = options.epsilon;
    attach.momentum = options.momentum;
    attach.nesterov = options.nesterov;
    attach.biasCorrection = options.biasCorrection;
    attach.clip = options.clip;
    attach.gradNorm = options.gradNorm;
    attach.stateFormat = options.optimizerState;
    if (hasShards(options.distribution))
      attach.shardFrom = kShardFrom;
    pm.addPass(createAttachOptimizerPass(attach));
    if (options.distribution != Distribution::None)
      pm.addPass(createDistributePass(
          {options.bucket, options.distribution >= Distribution::Zero2, options.narrowApart}));
  }
  FormStepsPassOptions form;
  // f16 only: bf16 has the range of f32.
  form.lossScaling = options.precision == Precision::FP16;
  form.micro = !options.ownUpdates;
  pm.addPass(createFormStepsPass(form));
  addCleanup(pm);
  // Once more behind everything that makes functions: weights of codes are made where they are
  // used.
  RematerializeWeightsPassOptions expand;
  expand.onlyMarked = !options.quantize;
  expand.shards = sharesParameters;
  pm.addNestedPass<func::FuncOp>(createRematerializeWeightsPass(expand));
}

/// Adapters first: what they leave frozen may be quantized.
void trainc::buildAdapterPipeline(OpPassManager &pm, const GraphOptions &options) {
  if (const std::optional<LoraOptions> &lora = options.lora) {
    InsertLoraPassOptions insert;
    insert.rank = lora->rank;
    insert.alpha = lora->alpha;
    insert.dropout = lora->dropout;
    insert.targets = lora->targets;
    insert.rankPattern.assign(lora->rankPattern.begin(), lora->rankPattern.end());
    insert.alphaPattern.assign(lora->alphaPattern.begin(), lora->alphaPattern.end());
    insert.rslora = lora->rslora;
    insert.dora = lora->dora;
    insert.existing = lora->existing;
    insert.save = lora->save;
    insert.bias = lora->bias;
    pm.addPass(createInsertLoraPass(insert));
    FuseLoraPassOptions fuse;
    fuse.kinds.assign(lora->fuse.begin(), lora->fuse.end());
    pm.addPass(createFuseLoraPass(fuse));
  }
  if (const std::optional<QuantizeOptions> &quantize = options.quantize) {
    QuantizeFrozenPassOptions frozen;
    frozen.format = quantize->format;
    frozen.block = quantize->block;
    frozen.doubled = quantize->doubled;
    frozen.scaleType = quantize->scaleType;
    frozen.skip = quantize->skip;
    pm.addPass(createQuantizeFrozenPass(frozen));
  }
}

/// Evaluation is split off first: what follows may tell training from it.
void trainc::buildGraphPipeline(OpPassManager &pm, const GraphOptions &options) {
  // While convolutions are whole: what is between them takes their order.
  MoveTransposesPassOptions move;
  move.inNets = true;
  if (options.moveTransposes)
    pm.addNestedPass<func::FuncOp>(createMoveTransposesPass(move));
  // What no library has a call for are matmuls for all that follows.
  DecomposePassOptions convolutions;
  convolutions.convolutions = true;
  convolutions.calls = options.callsConvolutions;
  pm.addPass(createDecomposePass(convolutions));
  // Once more, with those that are matmuls and kernels of their own then.
  if (options.moveTransposes) {
    addCleanup(pm);
    pm.addNestedPass<func::FuncOp>(createMoveTransposesPass(move));
  }
  pm.addPass(createFormEvalPass());
  addCleanup(pm);
  // Constants are folded and idioms raised once, for all functions.
  pm.addNestedPass<func::FuncOp>(createFoldConstantsPass());
  pm.addNestedPass<func::FuncOp>(createRaiseIdiomsPass());
  // Indices that a selection and its gradient share.
  pm.addPass(createCSEPass());
  // The model's own updates may read any row.
  bool packs = options.eliminatePadding && !options.inference && !options.ownUpdates;
  if (packs)
    pm.addPass(createFindPaddingPass());
  if (options.labelSparsity && !options.inference)
    pm.addPass(createExploitLabelSparsityPass({options.tokenBucket}));
  if (options.hoistSlices) {
    pm.addNestedPass<func::FuncOp>(createHoistSlicesPass());
    addCleanup(pm);
  }
  // The packed variant has a pipeline of its own, nested, up to the merge.
  if (packs) {
    pm.addPass(createEliminatePaddingPass({options.tokenBucket}));
    OpPassManager &variant = pm.nest<ModuleOp>();
    addCleanup(variant);
    if (options.hoistSlices)
      variant.addNestedPass<func::FuncOp>(createHoistSlicesPass());
    addTraining(variant, options, /*packed=*/true);
  }
  addTraining(pm, options, /*packed=*/false);
  pm.addPass(createMergeVariantsPass());
  // Behind all that makes functions. Shards of an update are gathered before they could be rounded.
  if (options.keepRoundedWeights && !options.inference && !hasShards(options.distribution))
    pm.addPass(createKeepRoundedWeightsPass());
  plugin::addPluginPasses(pm, "graph");
}

/// From functions to kernels; what a target lacks or can do decides.
void trainc::buildSchedulePipeline(OpPassManager &pm, const ScheduleOptions &options) {
  DecomposePassOptions decompose;
  decompose.calls = true;
  pm.addPass(createDecomposePass(decompose));
  // Decomposed first, so that patterns see simple ops.
  if (options.target.widensTypes)
    pm.addNestedPass<func::FuncOp>(createWidenTypesPass({options.lowProducts}));
  addScheduleCleanup(pm);
  // Gradients are made, and equal ops are one.
  pm.addNestedPass<func::FuncOp>(createRaiseExtremesPass());
  pm.addNestedPass<func::FuncOp>(createFoldConstantsPass());
  // Products get what is added to them, before the rest becomes kernels.
  if (options.fuseEpilogues) {
    pm.addNestedPass<func::FuncOp>(createExpandVectorProductsPass());
    if (options.target.libraryEpilogues)
      pm.addNestedPass<func::FuncOp>(createFuseEpiloguesPass());
    pm.addNestedPass<func::FuncOp>(createAccumulateProductsPass());
    if (options.target.libraryEpilogues)
      pm.addNestedPass<func::FuncOp>(createWidenProductsPass());
    if (options.target.streamsWeights) {
      StreamWeightsPassOptions stream;
      for (const auto &[name, size] : options.largestSizes)
        stream.sizes.push_back(name + "=" + std::to_string(size));
      pm.addNestedPass<func::FuncOp>(createStreamWeightsPass(stream));
    }
    addScheduleCleanup(pm);
  }
  // Behind all that decides how gradients are stored, and that copies or moves collectives.
  pm.addPass(createNarrowSumsPass());
  pm.addPass(createAlignCollectivesPass());
  assert(options.target.recomputeCost >= 0 && "a cost");
  FormKernelsPassOptions form;
  form.scheduleUpdates = options.scheduleUpdates;
  form.recomputeCost = options.target.recomputeCost;
  form.unrelatedSums = !options.target.joinsColumnSums;
  pm.addNestedPass<func::FuncOp>(createFormKernelsPass(form));
  if (options.target.joinsColumnSums) {
    pm.addNestedPass<func::FuncOp>(createJoinRowReadersPass());
    pm.addNestedPass<func::FuncOp>(createJoinColumnSumsPass());
  }
  // Behind the sums, which join kernels of one order.
  pm.addNestedPass<func::FuncOp>(createPlaceRowsPass());
  plugin::addPluginPasses(pm, "schedule");
}

void trainc::registerPipelines() {
  /// The same pipelines as the driver's, by name, with defaults.
  static PassPipelineRegistration<> graph(
      "graph", "@forward -> @step, @micro, @update, @eval with AdamW",
      [](OpPassManager &pm) { buildGraphPipeline(pm, GraphOptions()); });
  static std::vector<std::unique_ptr<PassPipelineRegistration<>>> schedules;
  for (const Target *target : getTargets()) {
    const bool isHost = target == &getHostTarget();
    schedules.push_back(std::make_unique<PassPipelineRegistration<>>(
        isHost ? "schedule" : "schedule-" + target->name().str(),
        isHost ? "functions of kernels, library calls and views, in order"
               : "the same for " + target->traits.phrase.str(),
        [target](OpPassManager &pm) { buildSchedulePipeline(pm, {target->traits.schedule}); }));
  }
}
