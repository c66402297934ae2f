// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The mean of block statistics in the order in which PyTorch adds on a GPU: it is the offset that
// bitsandbytes subtracts before it quantizes them, and a last bit there may change their codes.
#ifndef TRAINRT_SESSION_QUANTIZE_DEVICE_MEAN_H
#define TRAINRT_SESSION_QUANTIZE_DEVICE_MEAN_H

#include <cstdint>

namespace trainrt {

/// Of `count` > 0 values.
float deviceMean(const float *values, int64_t count);

} // namespace trainrt

#endif // TRAINRT_SESSION_QUANTIZE_DEVICE_MEAN_H
