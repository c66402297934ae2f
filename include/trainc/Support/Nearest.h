// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What somebody may have meant who wrote a name that there is none of.
#ifndef TRAINC_SUPPORT_NEAREST_H
#define TRAINC_SUPPORT_NEAREST_H

#include "llvm/ADT/StringRef.h"
#include <string>
#include <vector>

namespace trainc {

/// At most three of the names, those that differ least from `wrong` first.
std::vector<std::string> nearestNames(llvm::StringRef wrong, std::vector<std::string> names);

/// " (is NAME meant?)" where one of the names differs little; "" else.
std::string suggestion(llvm::StringRef wrong, std::vector<std::string> names);

/// The end of a message that an expression, which may match anywhere in a name, matches none of the
/// names: "; nearest: 'A', 'B'", those with the most like part first, or else some of the names.
std::string nearestMatches(llvm::StringRef expression, std::vector<std::string> names);

} // namespace trainc

#endif // TRAINC_SUPPORT_NEAREST_H
