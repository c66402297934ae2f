// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Layers of a model, found by structure: parts that repeat, between places where one tensor is all
// that is passed on.
#ifndef TRAINC_SCHEDULE_RECOMPUTE_LAYERS_H
#define TRAINC_SCHEDULE_RECOMPUTE_LAYERS_H

#include "trainc/Schedule/Recompute/Opportunities.h"

namespace trainc {

struct Layer {
  /// What the layer passes on.
  llvm::SmallVector<mlir::Value, 1> outputs;
  /// Its forward ops, those that move elements left out: activations in program order, then what is
  /// made of parameters for this layer alone.
  llvm::SmallVector<mlir::Operation *> ops;
};

/// In program order. Layers are repeated groups of segments, of which one at least has a costly op;
/// a segment ends where only one activation is used behind it, values that are used all along
/// (an encoder's output) aside. A group within which a part repeats (a stage of a convolutional
/// net) is split into these parts and what lies between them if less is kept then. Where nothing
/// repeats, the layers that the model's file names (LayerHints.h), else segments with several
/// costly ops. Where much less is held with cuts through several activations, all of which are
/// kept (KeptLives.h), what lies between these.
std::vector<Layer> findLayers(const StepGraph &graph);

/// The ops of all layers, without those whose results a layer passes on.
llvm::DenseSet<mlir::Operation *> findLayerOps(const StepGraph &graph);

} // namespace trainc

#endif // TRAINC_SCHEDULE_RECOMPUTE_LAYERS_H
