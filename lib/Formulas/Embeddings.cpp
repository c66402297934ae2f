// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A padding row is written as select(is padding, detach(rows), rows): it counts as part of the
// look-up.

#include "trainc/Formulas/Embeddings.h"

#include "trainc/Analysis/Roles.h"

using namespace mlir;
using namespace trainc;
using namespace trainc::train;

/// What says which rows get no gradient, if the only readers of `rows` take it away from some.
/// Leaves `embedding` as it is unless the two readers are exactly those of the formula.
static void readPadding(Embedding &embedding) {
  Value rows = embedding.result;
  DetachOp detach;
  SelectOp select;
  for (Operation *user : rows.getUsers()) {
    if (auto found = dyn_cast<DetachOp>(user); found && !detach)
      detach = found;
    else if (auto chosen = dyn_cast<SelectOp>(user); chosen && !select)
      select = chosen;
    else
      return;
  }
  if (!detach || !select || !detach->hasOneUse() || select.getOnTrue() != detach.getResult() ||
      select.getOnFalse() != rows)
    return;
  auto broadcast = select.getCondition().getDefiningOp<BroadcastOp>();
  auto leading = llvm::to_vector(llvm::seq<int64_t>(getRank(embedding.indices)));
  if (!broadcast || broadcast.getAxes() != ArrayRef<int64_t>(leading) ||
      getDims(broadcast.getOperand()) != getDims(embedding.indices))
    return;
  embedding.isPadding = broadcast.getOperand();
  embedding.result = select.getResult();
}

/// In program order; look-ups of tables that are computed (dequantized, say) are none.
SmallVector<Embedding> trainc::findEmbeddings(func::FuncOp function) {
  SmallVector<Embedding> found;
  for (auto gather : function.getBody().front().getOps<GatherOp>()) {
    auto table = dyn_cast<BlockArgument>(gather.getData());
    if (!table || gather.getAxis() != 0 || getRank(table) != 2 ||
        !isa<FloatType>(getElementTypeOrSelf(table)) ||
        getArgRole(function, table.getArgNumber()) != "parameter")
      continue;
    Embedding embedding{gather, table, gather.getIndices(), gather.getResult(), {}};
    readPadding(embedding);
    found.push_back(embedding);
  }
  return found;
}
