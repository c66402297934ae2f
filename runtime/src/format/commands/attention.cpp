// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What targets can do: whole batches on CUDA, segments on both.

#include "format/commands/attention.h"
#include "format/program.h"
#include "program_generated.h"

#include <algorithm>

namespace trainrt {

Status Attention::read(const fb::Attention &from, const CommandCheck &check) {
  backward = from.backward();
  causal = from.causal();
  scale = from.scale();
  dropout = from.dropout();
  ratio = from.ratio();
  if (!(dropout >= 0 && dropout < 1))
    return check.bad(".dropout is ", dropout);
  if (from.before() < -1 || from.after() < -1)
    return check.bad(" sees ", from.before(), " columns before and ", from.after(),
                     " after a row's own");
  window = AttentionBand::of(from.before(), from.after());
  const Access forward = backward ? Access::Read : Access::Write,
               gradient = backward ? Access::Write : Access::None;
  TRAINRT_TRY(check.expect(operandNames,
                           {{Access::Read},
                            {Access::Read},
                            {Access::Read},
                            {forward},
                            // An evaluation has no use for them.
                            {forward, !backward},
                            {Access::Read, /*isOptional=*/true},
                            {Access::Read, dropout == 0},
                            {backward ? Access::Read : Access::None},
                            {gradient},
                            {gradient},
                            {gradient},
                            {Access::Read, /*isOptional=*/true},
                            {Access::Read, /*isOptional=*/true},
                            {gradient, /*isOptional=*/true}},
                           /*newer=*/1));
  TRAINRT_TRY(check.numSizes(AttentionView::numSizes));
  segmented = check.operands[size_t(AttentionOperand::Segments)].isPresent();
  hasBias = check.operands[size_t(AttentionOperand::Bias)].isPresent();
  biasGradient = check.operands.size() == numAttentionOperands &&
                 check.operands[size_t(AttentionOperand::DBias)].isPresent();
  if (biasGradient && !hasBias)
    return check.bad(".d_bias: there is no bias");
  const bool narrow = traitsOf(check.program.target).narrowAttention;
  if (!narrow && !segmented)
    return check.bad(": attention without segments is a command of CUDA packages only");
  if (segmented && hasBias)
    return check.bad(".bias: attention over segments has none");
  const bool known = narrow ? from.dtype() == fb::DType::f16 || from.dtype() == fb::DType::bf16
                            : from.dtype() == fb::DType::f32;
  if (!known || from.bias_dtype() > fb::DType::bf16)
    return check.bad(".dtype is none of attention on this target");
  dtype = static_cast<DType>(from.dtype());
  biasDtype = static_cast<DType>(from.bias_dtype());
  if (segmented && float(ratio) != dropout)
    return check.bad(".ratio is ", ratio, " with a dropout of ", dropout);
  return {};
}

bool AttentionView::isEmpty() const {
  return std::ranges::find(sizes.first(7), 0) != sizes.begin() + 7;
}

Status Attention::checkPlaces(const PlaceCheck &check) const {
  using Which = AttentionOperand;
  const AttentionView view(check.step, *this);
  for (int64_t size : view.sizes.first(7))
    TRAINRT_TRY(check.notNegative(size));
  if (!view.isEmpty() && view.heads() % view.keyHeads() != 0)
    return check.bad(" has ", view.heads(), " heads of q over ", view.keyHeads());
  if (window != AttentionBand() && view.rows() != view.keyRows())
    return check.bad(" has a window, and ", view.rows(), " rows for ", view.keyRows(), " columns");
  if (biasGradient &&
      (view.strides(Which::Bias)[0] || (!view.strides(Which::Bias)[1] && view.heads() > 1) ||
       (!view.strides(Which::Bias)[2] && view.rows() > 1)))
    return check.bad(".d_bias: the bias is not one of all samples with its own heads and rows");
  if (segmented && (view.segments() < 1 || view.longest() < 1 || view.batch() != 1 ||
                    view.rows() != view.keyRows()))
    return check.bad(" has ", view.segments(), " segments of up to ", view.longest(),
                     " rows in a batch of ", view.batch(), " with ", view.rows(), " rows and ",
                     view.keyRows(), " columns");
  for (size_t i = 0; i < view.places.size(); ++i) {
    const auto which = static_cast<Which>(i);
    if (view.isEmpty() || !view.places[i].isPresent())
      continue;
    const bool ofKeys =
        which == Which::K || which == Which::V || which == Which::DK || which == Which::DV;
    const bool ofValues =
        which == Which::V || which == Which::O || which == Which::DO || which == Which::DV;
    __int128 low = 0, high = 0;
    size_t size = sizeOf(dtype);
    if (which == Which::Stats) {
      size = 4;
      high = std::min(__int128(view.batch()) * view.heads(), __int128(1) << 62) * view.rows() - 1;
    } else if (which == Which::Seed) {
      size = 8;
      high = 1;
    } else if (which == Which::Segments) {
      size = 4;
      high = view.segments();
    } else if (which == Which::DBias) {
      size = sizeOf(biasDtype);
      high = std::min(__int128(view.heads()) * view.rows(), __int128(1) << 62) * view.keyRows() - 1;
    } else if (which == Which::Positions) {
      size = 4;
      high = std::min(__int128(view.rows()), __int128(1) << 62) * 2 - 1;
    } else {
      const std::span<const int64_t> strides = view.strides(which);
      PlaceCheck::reach(view.batch(), strides[0], low, high);
      PlaceCheck::reach(ofKeys ? view.keyHeads() : view.heads(), strides[1], low, high);
      PlaceCheck::reach(ofKeys ? view.keyRows() : view.rows(), strides[2], low, high);
      if (which == Which::Bias) {
        size = sizeOf(biasDtype);
        PlaceCheck::reach(view.keyRows(), strides[3], low, high);
      } else {
        PlaceCheck::reach(ofValues ? view.valueColumns() : view.columns(), 1, low, high);
      }
    }
    TRAINRT_TRY(check.covers(i, low, high + 1, size));
  }
  return {};
}

double AttentionView::pairs() const {
  if (isEmpty())
    return 0;
  const double all = double(rows()), parts = double(op.segmented ? segments() : batch());
  if (op.segmented)
    return parts * band().pairs(std::min(all / parts, double(longest())));
  if (rows() == keyRows())
    return parts * band().pairs(all);
  const double columns = double(keyRows());
  return parts * (op.causal ? AttentionBand::causalPairs(all, columns) : all * columns);
}

int64_t Attention::flops(const StepView &step) const {
  const AttentionView view(step, *this);
  const double products = double(view.columns()) + double(view.valueColumns());
  return int64_t(2 * view.pairs() * double(view.heads()) * products * (backward ? 2.5 : 1));
}

CommandShape Attention::shape(const StepView &step) const {
  const AttentionView view(step, *this);
  return {{"batch", view.batch()},
          {"heads", view.heads()},
          {"kv_heads", view.keyHeads()},
          {"rows", view.rows()},
          {"keys", view.keyRows()},
          {"columns", view.columns()},
          {"value_columns", view.valueColumns()},
          {"causal", causal},
          {"backward", backward},
          {"bias", hasBias},
          {"dropout", dropout > 0},
          {"segments", view.segments()},
          {"longest", view.longest()}};
}

int64_t Attention::bytes(const StepView &step) const {
  using Which = AttentionOperand;
  const AttentionView view(step, *this);
  const int64_t width = int64_t(sizeOf(dtype)),
                numStats = view.batch() * view.heads() * view.rows(), queries = numStats,
                keys = view.batch() * view.keyHeads() * view.keyRows();
  int64_t sum = 0;
  auto add = [&](Which which, int64_t bytes) { sum += view.place(which).isPresent() ? bytes : 0; };
  for (Which which : {Which::Q, Which::DQ})
    add(which, queries * view.columns() * width);
  for (Which which : {Which::O, Which::DO})
    add(which, queries * view.valueColumns() * width);
  for (Which which : {Which::K, Which::DK})
    add(which, keys * view.columns() * width);
  for (Which which : {Which::V, Which::DV})
    add(which, keys * view.valueColumns() * width);
  add(Which::Stats, numStats * 4);
  if (hasBias) {
    // Repeated along the axes where its stride is 0.
    const int64_t extents[] = {view.batch(), view.heads(), view.rows(), view.keyRows()};
    int64_t elements = 1;
    for (size_t axis = 0; axis < 4; ++axis)
      elements *= view.strides(Which::Bias)[axis] ? extents[axis] : 1;
    sum += elements * int64_t(sizeOf(biasDtype)) * (biasGradient ? 2 : 1);
  }
  add(Which::Segments, (view.segments() + 1) * 4);
  add(Which::Positions, view.rows() * 8);
  return sum;
}

void Attention::results(const Program &, const StepView &step, std::vector<Region> &regions) const {
  using Which = AttentionOperand;
  const AttentionView view(step, *this);
  auto add = [&](Which which, int64_t heads, int64_t rows, int64_t columns) {
    const Place place = view.place(which);
    const std::span<const int64_t> strides = view.strides(which);
    regions.push_back({place.buffer,
                       dtype,
                       place.offset,
                       {view.batch(), heads, rows, columns},
                       {strides[0], strides[1], strides[2], 1}});
  };
  if (backward) {
    add(Which::DQ, view.heads(), view.rows(), view.columns());
    add(Which::DK, view.keyHeads(), view.keyRows(), view.columns());
    add(Which::DV, view.keyHeads(), view.keyRows(), view.valueColumns());
    if (const Place dBias = view.place(Which::DBias); dBias.isPresent())
      regions.push_back({dBias.buffer,
                         biasDtype,
                         dBias.offset,
                         {view.heads() * view.rows() * view.keyRows()},
                         {1}});
    return;
  }
  add(Which::O, view.heads(), view.rows(), view.valueColumns());
  if (const Place stats = view.place(Which::Stats); stats.isPresent())
    regions.push_back(
        {stats.buffer, DType::F32, stats.offset, {view.batch() * view.heads() * view.rows()}, {1}});
}

} // namespace trainrt
