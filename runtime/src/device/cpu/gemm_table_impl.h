// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of an instruction set's kernels, behind their inner loops (gemm_kernels_impl.h,
// convolution_kernels_impl.h). Of each height and number of vectors an instance of its own: loops
// over accumulators must be unrolled to stay in registers.
//
// NAME and TILE of the instruction set, and HEIGHTS(each): each(1), each(2), ... of the tile's
// rows.

#define BY_COLUMNS(rows) {microKernel<rows, 1, 2, false>, microKernel<rows, 2, 2, false>}
#define BY_ROWS(rows) {microKernel<rows, 1, 2, true>, microKernel<rows, 2, 2, true>}
#define SUM(rows) {convolutionSum<rows, 1, 2>, convolutionSum<rows, 2, 2>}
constexpr GemmKernels kernels = {
    NAME,
    TILE.lanes,
    TILE.rows,
    TILE.vectors,
    packPanel,
    {{HEIGHTS(BY_COLUMNS)}, {HEIGHTS(BY_ROWS)}},
    {{HEIGHTS(SUM)}, depthwiseRow, {depthwiseSum<1>, depthwiseSum<2>, depthwiseSum<3>}}};
#undef SUM
#undef BY_ROWS
#undef BY_COLUMNS
#undef HEIGHTS
#undef TILE
#undef NAME
