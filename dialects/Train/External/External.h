// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Functions of plug-ins.
#ifndef TRAINC_DIALECTS_TRAIN_EXTERNAL_EXTERNAL_H
#define TRAINC_DIALECTS_TRAIN_EXTERNAL_EXTERNAL_H

#include "dialects/Train/External/FixedTypes.h"
#include "dialects/Train/TrainDialect.h"

#define GET_OP_CLASSES
#include "dialects/Train/TrainExternal.h.inc"

namespace trainc::train {

/// What is wrong with a call of a plug-in's function, "" if nothing: settings that functions
/// cannot be given, a launch without arguments, or arguments that are none of `tensors` tensors.
std::string faultOfExternalCall(mlir::DictionaryAttr settings, DimsAttr launch,
                                mlir::ArrayAttr arguments, int64_t tensors);

} // namespace trainc::train

#endif // TRAINC_DIALECTS_TRAIN_EXTERNAL_EXTERNAL_H
