// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering: scf, vector and arith to the LLVM dialect in one conversion, LLVM's O2 pipeline without
// its vectorizers (loops are vectors already), object code, lld.

#include "LowerKernels.h"

#include "lib/Target/CPU/Kernels/CpuCodegen.h"
#include "trainc/Codegen/CompileModule.h"
#include "trainc/Support/Temporaries.h"
#include "trainc/Target/CPU/Linker.h"

#include "llvm/Analysis/InstSimplifyFolder.h"
#include "llvm/Analysis/VectorUtils.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/PatternMatch.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/ObjCopy/ConfigManager.h"
#include "llvm/ObjCopy/ObjCopy.h"
#include "llvm/Object/Binary.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/TargetParser/Host.h"
#include <mutex>
#include <numeric>

using namespace mlir;

namespace trainc::codegen {

namespace {
/// What LLVM calls a level.
struct LevelCode {
  StringRef triple, cpu, features;
};
} // namespace

static LevelCode getLevelCode(StringRef level) {
  if (level.starts_with("armv8"))
    return {"aarch64-unknown-linux-gnu", "generic", "+v8.2a"};
  return {"x86_64-unknown-linux-gnu", level, ""};
}

//===----------------------------------------------------------------------===//
// Object code
//===----------------------------------------------------------------------===//

/// Also names of features, so that the generic CPU of the level is what code is made for, not this
/// machine.
static std::unique_ptr<llvm::TargetMachine> makeTargetMachine(StringRef level, std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeX86TargetInfo();
    LLVMInitializeX86Target();
    LLVMInitializeX86TargetMC();
    LLVMInitializeX86AsmPrinter();
    LLVMInitializeAArch64TargetInfo();
    LLVMInitializeAArch64Target();
    LLVMInitializeAArch64TargetMC();
    LLVMInitializeAArch64AsmPrinter();
  });
  const LevelCode code = getLevelCode(level);
  llvm::Triple triple(code.triple);
  const llvm::Target *target = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Rounding of an op must not depend on what it is fused with.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  auto machine = std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(triple, code.cpu, code.features, options, llvm::Reloc::PIC_,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
  if (!machine || !machine->getMCSubtargetInfo()->isCPUStringValid(code.cpu)) {
    error = "unknown CPU '" + level.str() + "'";
    return nullptr;
  }
  return machine;
}

/// As the runtime's cpuSupports: what it accepts must be what is compiled for here.
StringRef getHostLevel() {
  llvm::StringMap<bool> features = llvm::sys::getHostCPUFeatures();
  auto have = [&](std::initializer_list<StringRef> names) {
    return llvm::all_of(names, [&](StringRef name) { return features.lookup(name); });
  };
  if (!have({"sse4.2", "popcnt", "avx2", "fma", "bmi", "bmi2"}))
    return "";
  return have({"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}) ? "x86-64-v4"
                                                                           : "x86-64-v3";
}

/// `count` lanes of `value`, from `first` on. Known lanes of masks stay known.
static llvm::Value *lanesOf(llvm::IRBuilder<llvm::InstSimplifyFolder> &b, llvm::Value *value,
                            unsigned first, unsigned count) {
  auto *both = llvm::dyn_cast<llvm::BinaryOperator>(value);
  if (both && both->getOpcode() == llvm::Instruction::And)
    return b.CreateAnd(lanesOf(b, both->getOperand(0), first, count),
                       lanesOf(b, both->getOperand(1), first, count));
  SmallVector<int> lanes(count);
  std::iota(lanes.begin(), lanes.end(), int(first));
  return b.CreateShuffleVector(value, lanes);
}

/// Cuts masked loads of more than 256 bits. LLVM 22 would do it as well, for AVX2, but makes a part
/// of which no lane is wanted (`and` of a splat and such a constant) a load of all its lanes, and
/// gives back what it read.
/// Only for AVX2: AVX-512 has masked loads of 512 bits.
static void splitMaskedLoads(llvm::Module &module) {
  SmallVector<llvm::IntrinsicInst *> wide;
  for (llvm::Function &function : module)
    for (llvm::Instruction &instruction : llvm::instructions(function))
      if (auto *load = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
          load && load->getIntrinsicID() == llvm::Intrinsic::masked_load &&
          load->getType()->getPrimitiveSizeInBits() > 256)
        wide.push_back(load);
  for (llvm::IntrinsicInst *load : wide) {
    llvm::IRBuilder<llvm::InstSimplifyFolder> b(load->getParent(), load->getIterator(),
                                                llvm::InstSimplifyFolder(module.getDataLayout()));
    auto *type = llvm::cast<llvm::FixedVectorType>(load->getType());
    unsigned lanes = type->getNumElements(), width = type->getScalarSizeInBits(),
             part = 256 / width;
    llvm::Align align = load->getParamAlign(0).valueOrOne();
    SmallVector<llvm::Value *> parts;
    for (unsigned first = 0; first < lanes; first += part) {
      llvm::Value *mask = lanesOf(b, load->getArgOperand(1), first, part);
      llvm::Value *otherwise = lanesOf(b, load->getArgOperand(2), first, part);
      // No lane is wanted: not even the address is looked at.
      if (llvm::PatternMatch::match(mask, llvm::PatternMatch::m_Zero())) {
        parts.push_back(otherwise);
        continue;
      }
      llvm::Value *from =
          b.CreateConstGEP1_64(type->getElementType(), load->getArgOperand(0), first);
      // The part's own alignment.
      llvm::Align aligned = llvm::commonAlignment(align, first * width / 8);
      parts.push_back(b.CreateMaskedLoad(otherwise->getType(), from, aligned, mask, otherwise));
    }
    load->replaceAllUsesWith(llvm::concatenateVectors(b, parts));
    load->eraseFromParent();
  }
}

/// Deterministic: options are fixed, and nothing of the host is looked at.
static llvm::SmallVector<char> compile(StringRef bitcode, StringRef cpu, llvm::CodeGenFileType type,
                                       std::string &error) {
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(cpu, error);
  if (!machine)
    return {};
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> owned = readModule(bitcode, context, *machine, error);
  if (!owned)
    return {};
  llvm::Module &module = *owned;
  for (llvm::Function &function : module) {
    if (function.isIntrinsic())
      continue;
    if (function.isDeclaration()) {
      // libm: no effect but the value; errno is not looked at.
      function.setDoesNotThrow();
      function.setMemoryEffects(llvm::MemoryEffects::none());
      continue;
    }
    function.setDoesNotThrow();
    // The generic tuning of level v4 would split 512-bit vectors.
    function.addFnAttr("prefer-vector-width", "512");
    function.addFnAttr("min-legal-vector-width", "512");
  }

  // In this order: splitting after optimization, as it takes masks apart that were simplified by
  // then.
  optimizeModule(module, *machine);
  if (machine->getTargetTriple().isX86() &&
      !machine->getMCSubtargetInfo()->checkFeatures("+avx512f"))
    splitMaskedLoads(module);
  llvm::SmallVector<char> result;
  if (!emitModule(module, *machine, type, result))
    error = "no emission of code for this target";
  return result;
}

std::vector<char> compileBitcode(StringRef bitcode, StringRef cpu, std::string &error) {
  auto object = compile(bitcode, cpu, llvm::CodeGenFileType::ObjectFile, error);
  return std::vector<char>(object.begin(), object.end());
}

std::string compileToAssembly(StringRef bitcode, StringRef cpu, std::string &error) {
  auto text = compile(bitcode, cpu, llvm::CodeGenFileType::AssemblyFile, error);
  return std::string(text.begin(), text.end());
}

//===----------------------------------------------------------------------===//
// Link
//===----------------------------------------------------------------------===//

/// The one symbol `from`, whose name has no meaning in the code itself.
std::vector<char> renameSymbol(ArrayRef<char> object, StringRef from, StringRef to,
                               std::string &error) {
  llvm::SmallVector<char> result;
  llvm::raw_svector_ostream os(result);
  auto binary = llvm::object::createBinary(
      llvm::MemoryBufferRef(StringRef(object.data(), object.size()), "kernel.o"));
  llvm::Error failure = binary ? llvm::Error::success() : binary.takeError();
  if (!failure) {
    llvm::objcopy::ConfigManager config;
    config.Common.SymbolsToRename[from] = to;
    failure = llvm::objcopy::executeObjcopyOnBinary(config, **binary, os);
  }
  if (failure) {
    error = llvm::toString(std::move(failure));
    return {};
  }
  return std::vector<char>(result.begin(), result.end());
}

/// Set once by the driver, before any thread compiles.
static std::string chosenLinker;
void setLinker(std::string path) { chosenLinker = std::move(path); }

static std::string findLinker() {
  if (!chosenLinker.empty())
    return chosenLinker;
  for (const char *name : {"ld.lld-22", "ld.lld"}) {
    if (auto found = llvm::sys::findProgramByName(name, {"/usr/lib/llvm-22/bin"}))
      return *found;
    if (auto found = llvm::sys::findProgramByName(name))
      return *found;
  }
  return {};
}

/// Objects in the order of the kernels; no build id and no symbols but the exported ones, so that
/// equal input gives equal bytes.
std::vector<char> linkShared(ArrayRef<std::vector<char>> objects, std::string &error) {
  std::string linker = findLinker();
  if (linker.empty()) {
    error = "ld.lld, which links the kernels, was not found on PATH or in /usr/lib/llvm-22/bin; "
            "install it: apt install lld-22";
    return {};
  }
  TemporaryFolder folder(error);
  if (!error.empty())
    return {};
  const std::string output = folder / "kernels.so";
  std::vector<std::string> arguments = {
      "-flavor",     "gnu", "-shared",     "-nostdlib", "--build-id=none",
      "--strip-all", "-z",  "noexecstack", "-o",        output};
  for (const std::vector<char> &object : objects) {
    // Names only have to differ within the folder.
    std::string name = std::to_string(arguments.size()) + ".o";
    if (!(error = folder.write(name, StringRef(object.data(), object.size()))).empty())
      return {};
    arguments.push_back(folder / name);
  }
  return makeWithTool("ld.lld", linker, arguments, folder, output, error);
}

} // namespace trainc::codegen
