// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Files of the command line: a pipe, which might never end, is refused before it is opened.
#ifndef TRAINC_SUPPORT_REGULARFILE_H
#define TRAINC_SUPPORT_REGULARFILE_H

#include "llvm/Support/MemoryBuffer.h"
#include <memory>
#include <string>

namespace trainc {

/// Why a file cannot be read, naming it: it is not there, or no regular file; "" if nothing is
/// wrong.
std::string checkRegularFile(llvm::StringRef path);

/// The file, mapped where it is large, without a zero behind it; null where it cannot be read:
/// `problem` says why, naming it.
std::unique_ptr<llvm::MemoryBuffer> readRegularFile(llvm::StringRef path, std::string &problem);

} // namespace trainc

#endif // TRAINC_SUPPORT_REGULARFILE_H
