// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// How much of a batch is real: tokens that are no padding, labels that the loss does not ignore,
// and how long rows are by that.
#ifndef TRAINRT_SESSION_DATA_DENSITY_H
#define TRAINRT_SESSION_DATA_DENSITY_H

#include "plan/inputs.h"

#include <functional>

namespace trainrt {

/// One input of one step; with several micro-batches, of all of them.
struct DensityRecord {
  int64_t step = 0;
  const Manifest::Tensor *input = nullptr;
  const Manifest::Tokens *tokens = nullptr;
  int64_t valid = 0, total = 0;
  std::vector<int64_t> validByRow;
};

/// Adds `array`, whose rows run along axis 0: elements that are not `pad`, or not 0 without it.
/// Unless null, `lengths` becomes, for each row, at least the place of its last such element along
/// the last axis, from 1. InvalidArgument where it has another number of rows.
Status countReal(const ArrayView &array, std::optional<int64_t> pad, DensityRecord &record,
                 std::vector<int64_t> *lengths = nullptr);

/// Tells `density` of every input that is known to hold tokens or labels and that the batches have.
Status measureDensity(const Package &package, const std::vector<BoundBatch> &batches, int64_t step,
                      const std::function<void(const DensityRecord &)> &density);

/// Of all inputs of tokens, or of labels, that the arrays have, together.
Status countRealOf(const Package &package, const Batch &arrays, bool labels, DensityRecord &record);

/// The length of each of the rows that the batch has for axis `symbol` (by index in
/// Program::symbols), or the largest of all axes if it is -1. NotFound where nothing tells: then
/// `symbol`, or any axis, has no input of tokens.
Status measureRowLengths(const Package &package, const Batch &rows, int32_t symbol,
                         std::vector<int64_t> &lengths);

} // namespace trainrt

#endif // TRAINRT_SESSION_DATA_DENSITY_H
