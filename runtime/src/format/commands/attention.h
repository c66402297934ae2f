// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The command of fused attention and of its gradient.
#ifndef TRAINRT_FORMAT_COMMANDS_ATTENTION_H
#define TRAINRT_FORMAT_COMMANDS_ATTENTION_H

#include "format/attention_band.h"
#include "format/commands/operand.h"

#include <array>

namespace trainrt {

namespace fb {
struct Attention;
}

/// The operands of an Attention, in their order.
enum class AttentionOperand {
  Q,
  K,
  V,
  O,
  Stats,
  Bias,
  Seed,
  DO,
  DQ,
  DK,
  DV,
  Segments,
  Positions,
  DBias
};
inline constexpr size_t numAttentionOperands = 14;

/// See program.fbs.
struct Attention {
  static constexpr const char *kindName = "attention";
  static constexpr std::array operandNames = {
      "q",   "k",   "v",   "o",   "stats",           "bias",      "seed",
      "d_o", "d_q", "d_k", "d_v", "segment_offsets", "positions", "d_bias"};
  static constexpr std::array sizeNames = {"batch", "heads",   "kv_heads",      "rows",
                                           "keys",  "columns", "value_columns", "strides"};

  bool backward = false, causal = false;
  DType dtype = DType::BF16, biasDtype = DType::F32;
  float scale = 1, dropout = 0;
  double ratio = 0;
  bool segmented = false, hasBias = false, biasGradient = false;
  AttentionBand window;

  Status read(const fb::Attention &from, const CommandCheck &check);
  Status checkPlaces(const PlaceCheck &check) const;
  std::string describe(const Program &, const StepView &) const {
    return backward ? "an attention's backward" : "an attention";
  }
  std::string name(const Program &, const StepView &) const {
    return backward ? "attention backward" : "attention";
  }
  int64_t bytes(const StepView &step) const;
  /// Of its two matmuls over the pairs of rows and columns that see each other, of the gradient's
  /// five (the scores are computed again). Of segments, whose lengths the host does not know, as
  /// if all were equally long.
  int64_t flops(const StepView &step) const;
  CommandClass commandClass(const StepView &) const { return CommandClass::Attention; }
  CommandShape shape(const StepView &step) const;
  void results(const Program &program, const StepView &step, std::vector<Region> &regions) const;
};

struct AttentionView : StepView {
  using Which = AttentionOperand;
  AttentionView(const StepView &step, const Attention &op) : StepView(step), op(op) {}
  const Attention &op;

  int64_t batch() const { return sizes[0]; }
  int64_t heads() const { return sizes[1]; }
  int64_t keyHeads() const { return sizes[2]; } ///< of keys and values
  int64_t rows() const { return sizes[3]; }
  int64_t keyRows() const { return sizes[4]; }
  int64_t columns() const { return sizes[5]; }
  int64_t valueColumns() const { return sizes[6]; }
  /// In elements, of batch, head, row; of a bias: batch, head, row of q, row of k.
  std::span<const int64_t> strides(Which which) const {
    return sizes.subspan(firstStride(which), which == Which::Bias ? 4 : 3);
  }
  /// What a row sees, where there are as many rows as columns.
  AttentionBand band() const { return {op.window.before, op.causal ? 0 : op.window.after}; }
  /// Both 0 without segments.
  int64_t segments() const { return sizes[35]; }
  int64_t longest() const { return sizes[36]; }
  /// Whether there is nothing to compute.
  bool isEmpty() const;
  /// Rows and columns of a head that see each other, of the whole batch; see Attention::flops.
  double pairs() const;
  Place place(Which which) const {
    return size_t(which) < places.size() ? places[size_t(which)] : Place{Place::none, 0};
  }

  static constexpr size_t numSizes = 37;
  static constexpr bool hasStrides(Which which) {
    return which <= Which::O || which == Which::Bias || (which >= Which::DO && which <= Which::DV);
  }

private:
  static constexpr size_t firstStride(Which which) {
    if (which <= Which::O)
      return 7 + 3 * size_t(which);
    return which == Which::Bias ? 19 : 23 + 3 * (size_t(which) - size_t(Which::DO));
  }
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_ATTENTION_H
