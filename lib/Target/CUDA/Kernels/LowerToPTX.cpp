// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowering of GPU kernels outside MLIR: LLVM IR, optimised without vectorisers and without
// contraction, to PTX in process; PTX to cubins by ptxas as a subprocess.

#include "LowerToPTX.h"
#include "format/kernel_marks.h"
#include "trainc/Codegen/CompileModule.h"
#include "trainc/Support/Temporaries.h"
#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/IntrinsicsNVPTX.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Target/TargetMachine.h"
#include "llvm/Transforms/IPO/Internalize.h"
#include "llvm/Transforms/Scalar/EarlyCSE.h"
#include "llvm/Transforms/Scalar/Scalarizer.h"
#include <cstdlib>
#include <mutex>

namespace trainc::codegen {

//===----------------------------------------------------------------------===//
// Tools
//===----------------------------------------------------------------------===//

static bool isFile(const llvm::Twine &path) { return llvm::sys::fs::is_regular_file(path); }

/// Takes what a folder of the toolkit or of the wheel has.
/// Both tools from one place where it has both.
static bool lookInto(llvm::StringRef folder, CudaTools &tools) {
  llvm::SmallString<128> ptxas(folder), libdevice(folder);
  llvm::sys::path::append(ptxas, "bin", "ptxas");
  llvm::sys::path::append(libdevice, "nvvm", "libdevice", "libdevice.10.bc");
  if (!isFile(ptxas))
    return false;
  tools.ptxas = ptxas.str();
  if (isFile(libdevice))
    tools.libdevice = libdevice.str();
  return true;
}

/// Folders of the wheel in the Python environments that the process's environment names.
/// Nothing is run to find them: folders are looked into.
static std::vector<std::string> wheelFolders() {
  std::vector<std::string> folders;
  auto lookBelow = [&](const char *root, llvm::StringRef below) {
    if (!root)
      return;
    llvm::SmallString<128> lib(root);
    llvm::sys::path::append(lib, below, "lib");
    std::error_code code;
    for (llvm::sys::fs::directory_iterator it(lib, code), end; !code && it != end;
         it.increment(code)) {
      if (!llvm::sys::path::filename(it->path()).starts_with("python3"))
        continue;
      for (const char *package : {"nvidia/cu13", "nvidia/cuda_nvcc"}) {
        llvm::SmallString<128> folder(it->path());
        llvm::sys::path::append(folder, "site-packages", package);
        folders.push_back(std::string(folder));
      }
    }
  };
  lookBelow(std::getenv("VIRTUAL_ENV"), "");
  lookBelow(std::getenv("CONDA_PREFIX"), "");
  lookBelow(std::getenv("HOME"), ".local");
  // Versions in a fixed order, not in that of the directory.
  std::sort(folders.rbegin(), folders.rend());
  return folders;
}

/// A folder that is named is the only one looked into. Else the environment, the usual place, PATH
/// and wheels, in this order.
CudaTools findCudaTools(llvm::StringRef path) {
  CudaTools tools;
  if (!path.empty()) {
    if (!lookInto(path, tools))
      tools.message = "there is no bin/ptxas in '" + path.str() +
                      "', the folder given for the CUDA toolkit or the wheel nvidia-cuda-nvcc";
    return tools;
  }
  for (const char *variable : {"CUDA_HOME", "CUDA_ROOT"})
    if (const char *folder = std::getenv(variable); folder && lookInto(folder, tools))
      return tools;
  if (lookInto("/usr/local/cuda", tools))
    return tools;
  if (auto found = llvm::sys::findProgramByName("ptxas")) {
    llvm::SmallString<128> real;
    // A link on PATH leads to the toolkit.
    if (!llvm::sys::fs::real_path(*found, real) &&
        lookInto(llvm::sys::path::parent_path(llvm::sys::path::parent_path(real)), tools))
      return tools;
    // ptxas alone will do, as long as no kernel needs libdevice.
    tools.ptxas = *found;
    return tools;
  }
  for (const std::string &folder : wheelFolders())
    if (lookInto(folder, tools))
      return tools;
  tools.message = "ptxas, which assembles GPU kernels, was not found in CUDA_HOME, CUDA_ROOT, "
                  "/usr/local/cuda, on PATH or in the Python environment; install it: pip install "
                  "nvidia-cuda-nvcc, or name its folder with --cuda-path";
  return tools;
}

//===----------------------------------------------------------------------===//
// PTX
//===----------------------------------------------------------------------===//

static llvm::Triple getTriple() { return llvm::Triple("nvptx64-nvidia-cuda"); }

static const llvm::Target *findTarget(std::string &error) {
  static std::once_flag once;
  std::call_once(once, [] {
    LLVMInitializeNVPTXTargetInfo();
    LLVMInitializeNVPTXTarget();
    LLVMInitializeNVPTXTargetMC();
    LLVMInitializeNVPTXAsmPrinter();
  });
  return llvm::TargetRegistry::lookupTarget(getTriple(), error);
}

/// By its processors: those that LLVM does not know it takes for the oldest, with a warning at
/// most.
bool knowsArchitecture(llvm::StringRef architecture) {
  std::string error;
  const llvm::Target *target = findTarget(error);
  if (!target)
    return false;
  std::unique_ptr<llvm::MCSubtargetInfo> known(
      target->createMCSubtargetInfo(getTriple(), /*CPU=*/"", /*Features=*/""));
  return known && known->isCPUStringValid(architecture);
}

static std::unique_ptr<llvm::TargetMachine> makeTargetMachine(llvm::StringRef architecture,
                                                              std::string &error) {
  const llvm::Target *target = findTarget(error);
  if (!target)
    return nullptr;
  llvm::TargetOptions options;
  // Rounding of an op must not depend on what it is fused with.
  options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
  return std::unique_ptr<llvm::TargetMachine>(
      target->createTargetMachine(getTriple(), architecture, /*Features=*/"", options, std::nullopt,
                                  std::nullopt, llvm::CodeGenOptLevel::Default));
}

/// Links what the module uses of libdevice.
/// Lazily: only functions that are used are read.
static bool linkLibdevice(llvm::Module &module, llvm::StringRef path, std::string &error) {
  auto isNeeded = [](const llvm::Function &function) {
    return function.isDeclaration() && function.getName().starts_with(kLibdevicePrefix);
  };
  if (llvm::none_of(module, isNeeded))
    return true;
  if (path.empty()) {
    error = "a kernel needs a function of libdevice.10.bc, which was not found beside ptxas; "
            "install it: pip install nvidia-nvvm, or name the CUDA toolkit's folder with "
            "--cuda-path";
    return false;
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    error = "cannot read " + path.str() + ": " + buffer.getError().message();
    return false;
  }
  auto library = llvm::getOwningLazyBitcodeModule(std::move(*buffer), module.getContext());
  if (!library) {
    error = "cannot read " + path.str() + ": " + llvm::toString(library.takeError());
    return false;
  }
  // libdevice has no triple of its own.
  (*library)->setTargetTriple(module.getTargetTriple());
  (*library)->setDataLayout(module.getDataLayout());
  if (llvm::Linker::linkModules(module, std::move(*library), llvm::Linker::LinkOnlyNeeded)) {
    error = "cannot link " + path.str();
    return false;
  }
  // Denormals are kept.
  module.addModuleFlag(llvm::Module::Override, "nvvm-reflect-ftz", uint32_t(0));
  return true;
}

/// GPUs that can begin a kernel while the one before it ends.
static bool beginsEarly(llvm::StringRef architecture) {
  unsigned number = 0;
  return architecture.consume_front("sm_") && !architecture.consumeInteger(10, number) &&
         number >= 90;
}

/// Where a kernel began early, nothing may be touched before what is in front of it is done. It
/// never lets those behind it begin before it has ended: their blocks would wait where those of
/// other kernels could run.
static void waitForEarlierKernels(llvm::Function &kernel) {
  llvm::IRBuilder<> b(&*kernel.getEntryBlock().getFirstInsertionPt());
  b.CreateIntrinsic(llvm::Intrinsic::nvvm_griddepcontrol_wait, {});
  // What never changes while a kernel runs could be read in front of the wait.
  for (llvm::Argument &argument : kernel.args())
    argument.removeAttr(llvm::Attribute::ReadOnly);
  llvm::Type *byte = b.getInt8Ty();
  new llvm::GlobalVariable(*kernel.getParent(), byte, /*isConstant=*/false,
                           llvm::GlobalValue::ExternalLinkage, llvm::ConstantInt::get(byte, 0),
                           trainrt::kernelWaitsMark + kernel.getName(), nullptr,
                           llvm::GlobalValue::NotThreadLocal, /*AddressSpace=*/1);
}

/// `suffix`: for local symbols, so that files can be joined.
std::string compileToPTX(llvm::StringRef bitcode, llvm::StringRef architecture,
                         llvm::StringRef libdevice, llvm::StringRef suffix, std::string &error) {
  std::unique_ptr<llvm::TargetMachine> machine = makeTargetMachine(architecture, error);
  if (!machine)
    return {};
  llvm::LLVMContext context;
  std::unique_ptr<llvm::Module> owned = readModule(bitcode, context, *machine, error);
  if (!owned)
    return {};
  llvm::Module &module = *owned;
  if (!linkLibdevice(module, libdevice, error))
    return {};
  auto isKernel = [](const llvm::GlobalValue &value) {
    auto *function = llvm::dyn_cast<llvm::Function>(&value);
    return function && function->getCallingConv() == llvm::CallingConv::PTX_Kernel;
  };
  // What is no kernel can be inlined and dropped.
  llvm::internalizeModule(module, isKernel);
  for (llvm::Function &function : module)
    if (!function.isDeclaration())
      function.setDoesNotThrow();

  // There are vectors in memory only.
  llvm::FunctionPassManager early;
  early.addPass(llvm::ScalarizerPass());
  early.addPass(llvm::EarlyCSEPass());
  optimizeModule(module, *machine, std::move(early));
  if (beginsEarly(architecture))
    for (llvm::Function &function : module)
      if (isKernel(function) && function.hasFnAttribute(kMayWaitAttribute))
        waitForEarlierKernels(function);
  // Also globals: shared arrays and zeros.
  for (llvm::GlobalValue &value : module.global_values())
    if (!value.isDeclaration() && value.hasLocalLinkage())
      value.setName(value.getName() + suffix);

  llvm::SmallString<0> text;
  if (!emitModule(module, *machine, llvm::CodeGenFileType::AssemblyFile, text)) {
    error = "no PTX emission for this target";
    return {};
  }
  return std::string(text);
}

/// Heads are equal: version, target, address size.
std::string joinPTX(llvm::ArrayRef<std::string> parts) {
  std::string joined;
  for (auto [number, part] : llvm::enumerate(parts)) {
    if (number == 0) {
      joined = part;
      continue;
    }
    // Behind the directives of the head, the last of which is the address size.
    size_t head = part.find(".address_size");
    joined += part.substr(part.find('\n', head) + 1);
  }
  return joined;
}

//===----------------------------------------------------------------------===//
// Cubins
//===----------------------------------------------------------------------===//

/// No contraction here either: rounding is the compiler's decision.
std::vector<char> assemblePTX(llvm::StringRef ptx, llvm::StringRef architecture,
                              llvm::StringRef ptxas, std::string &error) {
  TemporaryFolder folder(error);
  if (!error.empty() || !(error = folder.write("kernels.ptx", ptx)).empty())
    return {};
  const std::string output = folder / "kernels.cubin";
  return makeWithTool(
      "ptxas", ptxas,
      {"-arch=" + architecture.str(), "--fmad=false", folder / "kernels.ptx", "-o", output}, folder,
      output, error);
}

} // namespace trainc::codegen
