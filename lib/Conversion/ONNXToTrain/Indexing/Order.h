// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Positions of extremes along an axis.

#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_ORDER_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_ORDER_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

/// The smallest (or largest, `last`) position along `axis` whose element is the extreme one; i64,
/// without that axis.
mlir::Value extremePosition(train::TrainBuilder &tb, mlir::Value x, int64_t axis, bool isMax,
                            bool last = false);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_INDEXING_ORDER_H
