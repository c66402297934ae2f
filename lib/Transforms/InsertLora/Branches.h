// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Low-rank branches of modules: their parameters, and what takes the place of the modules' results.
#ifndef TRAINC_TRANSFORMS_INSERTLORA_BRANCHES_H
#define TRAINC_TRANSFORMS_INSERTLORA_BRANCHES_H

#include "dialects/Train/TrainBuilder.h"
#include "trainc/Analysis/Projections.h"
#include "trainc/Formulas/Embeddings.h"

namespace trainc {

/// A module with a branch: the places that read its weight share the branch's parameters.
struct LoraModule {
  std::string path;
  mlir::BlockArgument weight;
  /// The weight's axes n and k.
  unsigned outAxis = 0, inAxis = 1;
  /// Of one kind.
  llvm::SmallVector<Projection> projections;
  llvm::SmallVector<Embedding> embeddings;
  int64_t rank = 0;
  double alpha = 0, scale = 0;
  mlir::BlockArgument a, b;
  /// DoRA: the norms that the weight's n vectors are given; else null.
  mlir::BlockArgument magnitude;

  bool isEmbedding() const { return !embeddings.empty(); }
  mlir::Operation *firstOp() const {
    return isEmbedding() ? embeddings.front().op : projections.front().op;
  }
  train::DimAttr out() const { return train::getDim(weight, outAxis); }
  train::DimAttr in() const { return train::getDim(weight, inAxis); }
};

class BranchBuilder {
public:
  BranchBuilder(mlir::func::FuncOp forward, double dropout, bool dora)
      : forward(forward), dropout(dropout), dora(dora) {}

  /// Adds the parameters of a module of known sizes and rank, and its branches.
  void insert(LoraModule &module);

private:
  mlir::BlockArgument addParameter(llvm::ArrayRef<int64_t> shape, mlir::Type element,
                                   const llvm::Twine &name,
                                   llvm::ArrayRef<mlir::NamedAttribute> init, mlir::Location loc);
  void addParameters(LoraModule &module);
  mlir::Value key(train::TrainBuilder &tb, llvm::StringRef user);
  /// The input without what is dropped of it, for place `number` of a module.
  mlir::Value dropped(train::TrainBuilder &tb, const LoraModule &module, mlir::Value input,
                      size_t number);
  /// `factor`: of DoRA, or null.
  void insertAt(const LoraModule &module, const Projection &projection, size_t number,
                mlir::Value factor);
  static void insertAt(const LoraModule &module, const Embedding &embedding, mlir::Value factor);

  mlir::func::FuncOp forward;
  double dropout;
  bool dora;
};

} // namespace trainc

#endif // TRAINC_TRANSFORMS_INSERTLORA_BRANCHES_H
