// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Norms of the vectors of a weight: where the magnitudes of DoRA begin.
#ifndef TRAINRT_SESSION_ADAPTER_WEIGHT_NORMS_H
#define TRAINRT_SESSION_ADAPTER_WEIGHT_NORMS_H

#include "session/session.h"

namespace trainrt {

/// Gives the parameter `index` the norms that its rule in the manifest says. Of a quantized weight
/// they are those of what its codes stand for.
Status storeNorms(Session &session, size_t index);

} // namespace trainrt

#endif // TRAINRT_SESSION_ADAPTER_WEIGHT_NORMS_H
