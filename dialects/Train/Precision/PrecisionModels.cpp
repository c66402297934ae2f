// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Which ops have the type of their operands under autocast. Not here: what PyTorch's list says is
// computed in f32 (exponentials, logarithms, powers, reciprocal roots; softmax, losses and layer
// normalisation, whose parts are among these).

#include "dialects/Train/Precision/Precision.h"

using namespace mlir;
using namespace trainc::train;

#include "dialects/Train/TrainPrecision.cpp.inc"

namespace {
template <typename Op>
struct PrecisionModel : CarriedTypeOpInterface::ExternalModel<PrecisionModel<Op>, Op> {
  std::optional<int64_t> getTapsAxis(Operation *op) const {
    if constexpr (std::is_same_v<Op, WindowOp>)
      return cast<WindowOp>(op).getTaps();
    return std::nullopt;
  }
  bool commutesWithRounding(Operation *) const { return std::is_same_v<Op, ReluOp>; }
};
template <typename... Ops> void attach(MLIRContext *context) {
  (Ops::template attachInterface<PrecisionModel<Ops>>(*context), ...);
}
} // namespace

void trainc::train::detail::attachPrecisionInterfaces(MLIRContext *context) {
  attach<NegOp, AbsOp, TanhOp, ErfOp, SigmoidOp, ReluOp, DetachOp, GeluOp, AddOp, SubOp, MulOp,
         DivOp, MaxOp, MinOp, SelectOp, DropoutOp, BarrierOp, BroadcastOp, ReshapeOp, TransposeOp,
         SliceOp, PadOp, ConcatOp, SplitOp, WindowOp, GatherOp, SelectRowsOp>(context);
}
