// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is computed again without asking what it costs.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_SMALLCOST_H
#define TRAINC_SCHEDULE_FORMKERNELS_SMALLCOST_H

namespace trainc {

/// Element cost of a few sums and products: next to nothing, on every target. What the backward
/// pass is to compute again (`recompute`) counts on readers that do so (`form-kernels`).
constexpr unsigned kSmallCost = 8;

} // namespace trainc

#endif // TRAINC_SCHEDULE_FORMKERNELS_SMALLCOST_H
