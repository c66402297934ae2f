// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SharedLibrary.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"

using namespace llvm;
using namespace llvm::object;

namespace trainc::plugin {

/// What the symbol's section holds from its address on; "" where that cannot be told.
static StringRef contentAt(const ELFObjectFile<ELF64LE> &file, const ELFSymbolRef &symbol) {
  Expected<section_iterator> section = symbol.getSection();
  Expected<uint64_t> address = symbol.getAddress();
  if (!section || !address || *section == file.section_end()) {
    consumeError(section.takeError());
    consumeError(address.takeError());
    return "";
  }
  Expected<StringRef> content = (*section)->getContents();
  if (!content) {
    consumeError(content.takeError());
    return "";
  }
  const uint64_t offset = *address - (*section)->getAddress();
  return *address < (*section)->getAddress()
             ? ""
             : content->drop_front(std::min<uint64_t>(offset, content->size()));
}

std::string readSharedLibrary(StringRef bytes, SharedLibrary &library) {
  Expected<std::unique_ptr<ObjectFile>> object =
      ObjectFile::createELFObjectFile(MemoryBufferRef(bytes, ""));
  if (!object) {
    consumeError(object.takeError());
    return "it is no shared object of ELF (cc -shared -fPIC)";
  }
  auto *file = dyn_cast<ELFObjectFile<ELF64LE>>(object->get());
  if (!file || file->getELFFile().getHeader().e_type != ELF::ET_DYN)
    return "it is no shared object of ELF for 64 bits (cc -shared -fPIC)";
  const uint16_t machine = file->getELFFile().getHeader().e_machine;
  if (machine == ELF::EM_X86_64)
    library.processor = "x86-64";
  else if (machine == ELF::EM_AARCH64)
    library.processor = "aarch64";
  else
    return "it is for a processor without packages; they are for x86-64 and aarch64";
  for (const ELFSymbolRef symbol : file->getDynamicSymbolIterators()) {
    Expected<StringRef> name = symbol.getName();
    Expected<uint32_t> flags = symbol.getFlags();
    if (!name || !flags) {
      consumeError(name.takeError());
      consumeError(flags.takeError());
      return "its symbols are damaged";
    }
    if (*flags & SymbolRef::SF_Undefined)
      continue;
    if (symbol.getELFType() == ELF::STT_FUNC || symbol.getELFType() == ELF::STT_GNU_IFUNC)
      library.functions.insert(*name);
    else if (*name == "trainrt_plugin_abi" && contentAt(*file, symbol).size() >= 4)
      library.abi = support::endian::read32le(contentAt(*file, symbol).data());
    else if (*name == "trainc_plugin_abi")
      library.compilerAbi = contentAt(*file, symbol).split('\0').first.str();
  }
  return "";
}

} // namespace trainc::plugin
