// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The list of dialects and passes. A new pass is one include and one line here.

#include "trainc/Registry/Registry.h"

#include "dialects/ONNX/ONNXDialect.h"
#include "dialects/Plan/PlanDialect.h"
#include "dialects/Train/TrainDialect.h"
#include "lib/AutoDiff/AutoDiff.h"
#include "lib/Phases/Phases.h"
#include "lib/Schedule/AlignCollectives/AlignCollectives.h"
#include "lib/Schedule/FormKernels/FormKernels.h"
#include "lib/Schedule/JoinColumnSums/JoinColumnSums.h"
#include "lib/Schedule/JoinRowReaders/JoinRowReaders.h"
#include "lib/Schedule/Memory/ChooseOffload.h"
#include "lib/Schedule/Memory/ChooseRecompute.h"
#include "lib/Schedule/NarrowSums/NarrowSums.h"
#include "lib/Schedule/Offload/Offload.h"
#include "lib/Schedule/OverlapExchanges/OverlapExchanges.h"
#include "lib/Schedule/PlaceRows/PlaceRows.h"
#include "lib/Schedule/Recompute/Recompute.h"
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
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/Passes.h"
#include "trainc/Conversion/Legalize.h"
#include "trainc/Conversion/ONNXToTrain/OwnHandlers.h"
#include "trainc/Pipelines/Pipelines.h"
#include "trainc/Plugin/LoadedPlugins.h"

using namespace mlir;
using namespace trainc;

/// Those of the compiler itself.
static void registerOwnDialects(DialectRegistry &registry) {
  registry.insert<arith::ArithDialect, func::FuncDialect, math::MathDialect, onnx::ONNXDialect,
                  plan::PlanDialect, train::TrainDialect>();
  // Of kernels.
  registry.insert<cf::ControlFlowDialect, LLVM::LLVMDialect, NVVM::NVVMDialect, scf::SCFDialect,
                  vector::VectorDialect>();
}

void trainc::registerAllDialects(DialectRegistry &registry) {
  registerOwnDialects(registry);
  plugin::addPluginDialects(registry);
}

std::optional<plugin::Fault> trainc::loadPlugin(StringRef path) {
  plugin::OwnNames own;
  legalize::registerAll(own.handlers);
  DialectRegistry dialects;
  registerOwnDialects(dialects);
  for (StringRef name : dialects.getDialectNames())
    own.dialects.push_back(name.str());
  registerAllPasses();
  return plugin::loadPlugin(path, own);
}

static void registerOwnPasses() {
  registerCanonicalizerPass();
  registerCSEPass();
  registerStripDebugInfoPass();
  registerSymbolDCEPass();

  registerAccumulateProductsPasses();
  registerAlignCollectivesPasses();
  registerAlignMatmulsPasses();
  registerNarrowSumsPasses();
  registerWidenProductsPasses();
  registerWidenTypesPasses();
  registerAttachOptimizerPasses();
  registerAutoDiffPasses();
  registerChooseOffloadPasses();
  registerChooseRecomputePasses();
  registerChunkLossPasses();
  registerDecomposePasses();
  registerDistributePasses();
  registerExpandVectorProductsPasses();
  registerFuseLoraPasses();
  registerInsertLoraPasses();
  registerQuantizeFrozenPasses();
  registerKeepRoundedWeightsPasses();
  registerRematerializeWeightsPasses();
  registerShardParametersPasses();
  registerRaiseChoicesPasses();
  registerRaiseSharedFactorsPasses();
  registerStreamWeightsPasses();
  registerEliminatePaddingPasses();
  registerExploitLabelSparsityPasses();
  registerFoldConstantsPasses();
  registerFormEvalPasses();
  registerFormKernelsPasses();
  registerJoinColumnSumsPasses();
  registerJoinRowReadersPasses();
  registerPlaceRowsPasses();
  registerFormStepsPasses();
  registerFuseEpiloguesPasses();
  registerHoistSlicesPasses();
  registerLegalizePasses();
  registerMergeProjectionsPasses();
  registerMixedPrecisionPasses();
  registerMoveTransposesPasses();
  registerOffloadPasses();
  registerOverlapExchangesPasses();
  registerPhasesPasses();
  registerPipelines();
  registerRaiseAttentionPasses();
  registerRaiseExtremesPasses();
  registerRaiseIdiomsPasses();
  registerRecomputePasses();
}

/// Once: those of plug-ins are told apart from them by being registered later.
void trainc::registerAllPasses() {
  [[maybe_unused]] static const bool once = (registerOwnPasses(), true);
}
