// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tables of an instruction set's kernels, behind their inner loops (gemm_kernels_impl.h). Of
// each height and number of vectors an instance of its own: loops over accumulators must be
// unrolled to stay in registers.
//
// TILE of the instruction set, and HEIGHTS(each): each(1), each(2), ... of the tile's rows. Where
// there are convolutions, too (convolution_kernels_impl.h), NAME; it has kernels of f32 then.

#define BY_COLUMNS(rows) {microKernel<rows, 1, 2, false>, microKernel<rows, 2, 2, false>}
#define BY_ROWS(rows) {microKernel<rows, 1, 2, true>, microKernel<rows, 2, 2, true>}
constexpr GemmKernels productKernels(const char *name, GemmPack pack, int pairFloats,
                                     const ConvolutionKernels &convolution = {}) {
  return {name,
          TILE.lanes,
          TILE.rows,
          TILE.vectors,
          pairFloats,
          pack,
          {{HEIGHTS(BY_COLUMNS)}, {HEIGHTS(BY_ROWS)}},
          convolution};
}
#undef BY_ROWS
#undef BY_COLUMNS

#ifdef NAME
#define SUM(rows) {convolutionSum<rows, 1, 2>, convolutionSum<rows, 2, 2>}
constexpr GemmKernels kernels =
    productKernels(NAME, packPanel, 2,
                   {{HEIGHTS(SUM)},
                    depthwiseRow,
                    {depthwiseSum<1>, depthwiseSum<2>, depthwiseSum<3>, depthwiseSum<4>,
                     depthwiseSum<5>, depthwiseSum<6>, depthwiseSum<7>},
                    {winograd<WinogradPositions>, winograd<WinogradTaps>, winograd<WinogradResults>,
                     winograd<WinogradOutputs>, winograd<WinogradTapSums>}});
constexpr GemmKernels widenedKernels = productKernels(NAME "-widened", packBF16<Widened>, 2);
#undef SUM
#undef NAME
#endif
#undef HEIGHTS
#undef TILE
