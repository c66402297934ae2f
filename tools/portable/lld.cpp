// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// lld's driver for ELF, of which kernels need the linking of objects, and nothing of LTO.

#include "lld/Common/Driver.h"
#include "llvm/Plugins/PassPlugin.h"
#include "llvm/Support/raw_ostream.h"

#include <vector>

LLD_HAS_DRIVER(elf)

int lldMain(int argc, char **argv) {
  std::vector<const char *> arguments = {argv[0]};
  arguments.insert(arguments.end(), argv + 3, argv + argc); // without `-flavor gnu`
  return !lld::elf::link(arguments, llvm::outs(), llvm::errs(),
                         /*exitEarly=*/false, /*disableOutput=*/false);
}

// LLVM's LTO was built with Polly, which is an archive of its own.
llvm::PassPluginLibraryInfo getPollyPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "none", "", [](llvm::PassBuilder &) {}};
}

// lld prepares LTO for every target: these, and parsers of assembly, are not to become part of the
// executable, which generates code for x86-64, AArch64 and NVPTX.
#define EMPTY(name)                                                                                \
  extern "C" void LLVMInitialize##name() {}
#define EMPTY_TARGET(name)                                                                         \
  EMPTY(name##TargetInfo)                                                                          \
  EMPTY(name##Target) EMPTY(name##TargetMC) EMPTY(name##AsmPrinter) EMPTY(name##AsmParser)
EMPTY_TARGET(AMDGPU)
EMPTY_TARGET(ARM)
EMPTY_TARGET(AVR)
EMPTY_TARGET(BPF)
EMPTY_TARGET(Hexagon)
EMPTY_TARGET(Lanai)
EMPTY_TARGET(LoongArch)
EMPTY_TARGET(M68k)
EMPTY_TARGET(MSP430)
EMPTY_TARGET(Mips)
EMPTY_TARGET(PowerPC)
EMPTY_TARGET(RISCV)
EMPTY_TARGET(SPIRV)
EMPTY_TARGET(Sparc)
EMPTY_TARGET(SystemZ)
EMPTY_TARGET(VE)
EMPTY_TARGET(WebAssembly)
EMPTY_TARGET(XCore)
EMPTY_TARGET(Xtensa)
EMPTY(AArch64AsmParser)
EMPTY(X86AsmParser)
