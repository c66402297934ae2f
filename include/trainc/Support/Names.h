// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Names in messages.
#ifndef TRAINC_SUPPORT_NAMES_H
#define TRAINC_SUPPORT_NAMES_H

#include "llvm/ADT/StringRef.h"
#include <string>

namespace trainc {

/// A message with names, which are in quotes, shortened and everything escaped that a terminal
/// would act on.
std::string showNames(llvm::StringRef text);

} // namespace trainc

#endif // TRAINC_SUPPORT_NAMES_H
