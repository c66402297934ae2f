// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What links kernels for the CPU.
#ifndef TRAINC_TARGET_CPU_LINKER_H
#define TRAINC_TARGET_CPU_LINKER_H

#include <string>

namespace trainc::codegen {

/// The program that is run with `-flavor gnu`, in place of the one that is looked for on PATH and
/// beside LLVM: for an executable that is its own linker. Before anything is compiled.
void setLinker(std::string path);

} // namespace trainc::codegen

#endif // TRAINC_TARGET_CPU_LINKER_H
