// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The end of a message that sizes are not known: the flags that make them known.
#ifndef TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_SIZEHINTS_H
#define TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_SIZEHINTS_H

#include "lib/Conversion/ONNXToTrain/Handlers.h"

namespace trainc::legalize {

/// "; --dim batch=N fixes it": what makes the sizes constants; "" where they are.
std::string fixHint(llvm::ArrayRef<DimAttr> sizes);
/// "; --dim batch=7..64 --dim seq=1..64 bound it": what bounds the sizes, so that each is at least
/// `least`; "" where they are constants.
std::string boundHint(llvm::ArrayRef<DimAttr> sizes, int64_t least = 1);

} // namespace trainc::legalize

#endif // TRAINC_LIB_CONVERSION_ONNXTOTRAIN_SIZES_SIZEHINTS_H
