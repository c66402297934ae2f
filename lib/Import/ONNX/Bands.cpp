// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rows of a band are windows of one sequence, each an element before that of the row above: a
// comparison of memory a row. Most matrices are told to be none by their first elements, so that
// weights stay where they are.

#include "Bands.h"

#include "mlir/IR/Builders.h"
#include <cassert>
#include <cstring>
#include <vector>

using namespace mlir;

namespace trainc::detail {

bool mayBeBand(const TensorLayout &layout) {
  ArrayRef<int64_t> shape = layout.type.getShape();
  if (shape.size() < 2 || shape.back() < 2 || shape.back() != shape[shape.size() - 2])
    return false;
  // Elements of whole bytes, as many as there are in the shape.
  const uint64_t size = layout.elements == 0 ? 0 : layout.bytes / layout.elements;
  return size * layout.elements == layout.bytes && size > 0 &&
         llvm::all_of(shape.drop_back(2), [](int64_t extent) { return extent == 1; });
}

DictionaryAttr findBand(const TensorLayout &layout, ArrayRef<char> bytes) {
  assert(mayBeBand(layout) && bytes.size() == layout.bytes && "a square of known bytes");
  const size_t rows = layout.type.getShape().back(), size = layout.bytes / layout.elements;
  auto at = [&](size_t row, size_t column) { return bytes.data() + (row * rows + column) * size; };
  const char *inside = bytes.data();
  auto isInside = [&](size_t row, size_t column) {
    return std::memcmp(at(row, column), inside, size) == 0;
  };
  // Both ends of the band are beyond the corners: one number everywhere, or no band.
  if (isInside(0, rows - 1) && isInside(rows - 1, 0))
    return {};
  // As far as the first row and the first column are inside.
  size_t after = 1, before = 1;
  while (after < rows && isInside(0, after))
    ++after;
  while (before < rows && isInside(before, 0))
    ++before;
  if (after == rows && before == rows)
    return {};
  const char *outside = after < rows ? at(0, after) : at(before, 0);
  // Row r is the sequence from `rows - 1 - r` on, which has the diagonal at `rows - 1`.
  std::vector<char> sequence((2 * rows - 1) * size);
  for (size_t place = 0; place < 2 * rows - 1; ++place) {
    const bool within = place + before >= rows && place < rows - 1 + after;
    std::memcpy(sequence.data() + place * size, within ? inside : outside, size);
  }
  for (size_t row = 0; row < rows; ++row)
    if (std::memcmp(at(row, 0), sequence.data() + (rows - 1 - row) * size, rows * size) != 0)
      return {};
  Builder builder(layout.type.getContext());
  TensorLayout scalar{RankedTensorType::get({}, layout.type.getElementType()), 1, size};
  NamedAttrList band;
  auto number = [&](const char *element) {
    return denseFromBytes(scalar, ArrayRef<char>(element, size));
  };
  band.set("inside", number(inside));
  band.set("outside", number(outside));
  if (before < rows)
    band.set("before", builder.getI64IntegerAttr(before - 1));
  if (after < rows)
    band.set("after", builder.getI64IntegerAttr(after - 1));
  return band.getDictionary(layout.type.getContext());
}

} // namespace trainc::detail
