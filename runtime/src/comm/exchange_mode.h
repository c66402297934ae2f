// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// When devices run what ranks do together.
#ifndef TRAINRT_COMM_EXCHANGE_MODE_H
#define TRAINRT_COMM_EXCHANGE_MODE_H

namespace trainrt {

enum class ExchangeMode {
  Beside, ///< beside the commands behind it that do not need it
  Inline, ///< as a command among the others
  Always, ///< beside them, also on a GPU of one rank, to see what that costs
  Nccl    ///< beside them, through NCCL even where GPUs reach each other's memory
};

/// The environment's TRAINRT_EXCHANGE: `inline`, `always`, `nccl`, or anything else.
ExchangeMode exchangeMode();

} // namespace trainrt

#endif // TRAINRT_COMM_EXCHANGE_MODE_H
