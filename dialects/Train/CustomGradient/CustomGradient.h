// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Values whose derivative is given.
#ifndef TRAINC_DIALECTS_TRAIN_CUSTOMGRADIENT_CUSTOMGRADIENT_H
#define TRAINC_DIALECTS_TRAIN_CUSTOMGRADIENT_CUSTOMGRADIENT_H

#include "dialects/Train/TrainBuilder.h"

#define GET_OP_CLASSES
#include "dialects/Train/TrainCustomGradient.h.inc"

#endif // TRAINC_DIALECTS_TRAIN_CUSTOMGRADIENT_CUSTOMGRADIENT_H
