// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Strides to leading dimensions and transposes.

#include "device/cuda/blas_layout.h"

#include <algorithm>
#include <cassert>

namespace trainrt::cuda {

namespace {

/// A matrix of extents [e0, e1] and strides [s0, s1] as a column-major one.
struct Stored {
  bool firstIsFast = false; ///< axis 0 runs along the columns of the stored matrix
  int64_t ld = 0;
};

/// Whether the matrix can be read with `fast` as the axis of unit stride. An extent of 1 has no
/// stride.
bool readable(int64_t fastExtent, int64_t fastStride, int64_t slowExtent, int64_t slowStride,
              int64_t &ld) {
  if (fastExtent > 1 && fastStride != 1)
    return false;
  // A single column is as long as it is.
  ld = slowExtent > 1 ? slowStride : fastExtent;
  return ld >= fastExtent;
}

/// With `secondIsFast` only axis 1 may be the one of unit stride: row-major.
bool store(int64_t e0, int64_t s0, int64_t e1, int64_t s1, Stored &stored,
           bool secondIsFast = false) {
  int64_t ld0, ld1;
  // Either axis may be the one of unit stride.
  bool first = readable(e0, s0, e1, s1, ld0), second = readable(e1, s1, e0, s0, ld1);
  first &= !secondIsFast;
  if (!first && !second)
    return false;
  // Of two ways (one extent is 1) the longer columns.
  stored.firstIsFast = first && (!second || e0 >= e1);
  stored.ld = stored.firstIsFast ? ld0 : ld1;
  return true;
}

Status noUnitStride(const char *operand, int64_t e0, int64_t s0, int64_t e1, int64_t s1) {
  return fail(Code::Unsupported, "the matmul's operand ", operand, " of extents ", e0, " x ", e1,
              " has strides ", s0, ", ", s1,
              ": one of the two has to be 1 and the other at least as long as a row or column. "
              "Copy the operand into a dense tensor before the matmul");
}

/// `outer` around `inner` is one axis for this operand.
bool joins(int64_t outer, int64_t inner, int64_t innerExtent) {
  return outer == inner * innerExtent;
}

/// Joins pairs of axes until no two can be joined.
void joinAxes(std::vector<BatchAxis> &axes) {
  for (bool changed = true; changed;) {
    changed = false;
    // The order of axes says nothing: any two may be neighbours in memory.
    for (size_t i = 0; i < axes.size() && !changed; ++i)
      for (size_t j = 0; j < axes.size() && !changed; ++j) {
        const BatchAxis outer = axes[i], inner = axes[j];
        if (i == j || !joins(outer.a, inner.a, inner.extent) ||
            !joins(outer.b, inner.b, inner.extent) || !joins(outer.c, inner.c, inner.extent))
          continue;
        axes[j].extent *= outer.extent;
        axes.erase(axes.begin() + i);
        changed = true;
      }
  }
}

/// Makes a batch axis along which `fixed` does not move a part of a matrix axis.
bool fold(const BatchAxis &axis, int64_t fixed, int64_t moving, int64_t &extent, int64_t &stride,
          int64_t &cStride) {
  // The operand has the same matrix for every index.
  if (fixed != 0)
    return false;
  // An extent of 1 has no stride of its own.
  if (extent == 1) {
    stride = moving;
    cStride = axis.c;
  } else if (!joins(moving, stride, extent) || !joins(axis.c, cStride, extent)) {
    return false;
  }
  extent *= axis.extent;
  return true;
}

} // namespace

/// Changes nothing of what is computed: only which axes the library calls rows, columns and batch.
Status layoutGemm(const GemmCall &call, GemmLayout &layout) {
  assert(call.aBatch.size() == call.batch.size() && call.bBatch.size() == call.batch.size() &&
         call.cBatch.size() == call.batch.size() && "every operand has a stride along each axis");
  int64_t m = call.m, n = call.n, k = call.k;
  int64_t aM = call.aM, bN = call.bN, cM = call.cM, cN = call.cN;
  bool rowMajor = call.epilogue != GemmEpilogue::None;
  std::vector<BatchAxis> axes;
  for (size_t i = 0; i < call.batch.size(); ++i) {
    BatchAxis axis{call.batch[i], call.aBatch[i], call.bBatch[i], call.cBatch[i]};
    // A single index needs no axis.
    if (axis.extent == 1)
      continue;
    // Other operands may be repeated.
    if (axis.c == 0)
      return fail(Code::Unsupported, "the elements of a matmul's result overlap: its batch axis ",
                  i, " has stride 0");
    axes.push_back(axis);
  }
  // Fewer axes, so that more of them are one batch.
  joinAxes(axes);
  for (size_t i = 0; i < axes.size();) {
    // Folded only where every operand stays readable: m = 1 may have been its operands' unit
    // stride.
    Stored ignored;
    int64_t m2 = m, n2 = n, aM2 = aM, bN2 = bN, cM2 = cM, cN2 = cN;
    bool folded = (fold(axes[i], axes[i].b, axes[i].a, m2, aM2, cM2) ||
                   fold(axes[i], axes[i].a, axes[i].b, n2, bN2, cN2)) &&
                  store(m2, aM2, k, call.aK, ignored) && store(k, call.bK, n2, bN2, ignored) &&
                  store(m2, cM2, n2, cN2, ignored, rowMajor);
    if (!folded) {
      ++i;
      continue;
    }
    // Once more from the beginning: the larger matrix may take another axis.
    m = m2, n = n2, aM = aM2, bN = bN2, cM = cM2, cN = cN2;
    axes.erase(axes.begin() + i);
    i = 0;
  }

  // Which axis of each is stored along columns decides on transposes.
  Stored a, b, c;
  if (!store(m, aM, k, call.aK, a))
    return noUnitStride("A", m, aM, k, call.aK);
  if (!store(k, call.bK, n, bN, b))
    return noUnitStride("B", k, call.bK, n, bN);
  if (!store(m, cM, n, cN, c, rowMajor))
    return noUnitStride("C", m, cM, n, cN);

  layout = GemmLayout();
  layout.k = k;
  layout.ldD = c.ld;
  layout.swapped = !c.firstIsFast;
  // With an epilogue C is row-major: the library's bias runs along its columns.
  if (!layout.swapped) {
    layout.rows = m, layout.columns = n;
    layout.transposeX = !a.firstIsFast, layout.ldX = a.ld;
    layout.transposeY = !b.firstIsFast, layout.ldY = b.ld;
  } else {
    layout.rows = n, layout.columns = m;
    layout.transposeX = b.firstIsFast, layout.ldX = b.ld;
    layout.transposeY = a.firstIsFast, layout.ldY = a.ld;
  }
  // The longest axis is the strided batch; the first of several.
  // Others are loops of calls.
  auto longest =
      std::max_element(axes.begin(), axes.end(), [](const BatchAxis &left, const BatchAxis &right) {
        return left.extent < right.extent;
      });
  if (longest != axes.end()) {
    layout.batch = *longest;
    axes.erase(longest);
  }
  layout.loops = std::move(axes);
  return {};
}

} // namespace trainrt::cuda
