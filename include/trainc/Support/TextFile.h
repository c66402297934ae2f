// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text written to a file, with every way in which that fails told.
#ifndef TRAINC_SUPPORT_TEXTFILE_H
#define TRAINC_SUPPORT_TEXTFILE_H

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include <string>

namespace trainc {

/// Writes what `print` prints. The file appears whole, in place of an older one, or not at all.
/// Returns what went wrong, naming the file; "" if nothing did.
std::string writeTextFile(llvm::StringRef path,
                          llvm::function_ref<void(llvm::raw_ostream &)> print);

/// Makes a folder and those above it, and checks that files can be written there. As above.
std::string prepareFolder(llvm::StringRef path);

/// Ends a stream: what went wrong with it since it was opened; "" if nothing did.
std::string closeStream(llvm::raw_fd_ostream &stream);

} // namespace trainc

#endif // TRAINC_SUPPORT_TEXTFILE_H
