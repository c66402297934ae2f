// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `join-row-readers`.
#ifndef TRAINC_SCHEDULE_JOINROWREADERS_H
#define TRAINC_SCHEDULE_JOINROWREADERS_H

#include "dialects/Train/TrainDialect.h"
#include "mlir/Pass/Pass.h"

namespace trainc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "lib/Schedule/JoinRowReaders/JoinRowReaders.h.inc"
} // namespace trainc

#endif // TRAINC_SCHEDULE_JOINROWREADERS_H
