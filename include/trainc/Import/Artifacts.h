// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Training artifacts of ONNX Runtime (training_model.onnx, optimizer_model.onnx, a checkpoint) as
// an input: a graph that holds its gradients, and the optimizer to attach to them.
#ifndef TRAINC_IMPORT_ARTIFACTS_H
#define TRAINC_IMPORT_ARTIFACTS_H

#include "trainc/Import/Import.h"

namespace trainc {

/// The files of one model; "" where there is none.
struct ArtifactFiles {
  std::string trainingModel, optimizerModel, checkpoint;
};

/// What the optimizer model and the checkpoint say.
struct ArtifactOptimizer {
  /// A name of the optimizer table; "" if there is no optimizer model.
  std::string name;
  double beta1 = 0.9, beta2 = 0.999, epsilon = 0, weightDecay = 0;
  bool biasCorrection = true;
  /// 0: no clipping.
  double clipNorm = 0;
  double learningRate = 1e-3;
};

/// The artifacts in a folder, by the names that generate_artifacts gives them
/// (`*training_model.onnx` and others of the same prefix). Returns what is wrong, or "".
std::string findArtifacts(llvm::StringRef folder, ArtifactFiles &out);

/// Imports a training model: parameters become initializers, whose bytes stay in the checkpoint,
/// and gradient accumulators become results with `onnx.gradient_of`. Null after an error
/// diagnostic.
mlir::OwningOpRef<mlir::ModuleOp> importArtifacts(const ArtifactFiles &files,
                                                  mlir::MLIRContext &context, ImportedModel &out,
                                                  ArtifactOptimizer &optimizer);

} // namespace trainc

#endif // TRAINC_IMPORT_ARTIFACTS_H
