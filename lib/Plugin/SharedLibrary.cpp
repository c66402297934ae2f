// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "SharedLibrary.h"

#include "llvm/Object/ELFObjectFile.h"
#include "llvm/Support/Endian.h"

using namespace llvm;
using namespace llvm::object;

namespace trainc::plugin {

/// The number that the symbol's section holds at its address.
static std::optional<uint32_t> numberAt(const ELFObjectFile<ELF64LE> &file,
                                        const ELFSymbolRef &symbol) {
  Expected<section_iterator> section = symbol.getSection();
  Expected<uint64_t> address = symbol.getAddress();
  if (!section || !address || *section == file.section_end()) {
    consumeError(section.takeError());
    consumeError(address.takeError());
    return std::nullopt;
  }
  Expected<StringRef> content = (*section)->getContents();
  if (!content) {
    consumeError(content.takeError());
    return std::nullopt;
  }
  const uint64_t offset = *address - (*section)->getAddress();
  if (*address < (*section)->getAddress() || offset + 4 < offset || offset + 4 > content->size())
    return std::nullopt;
  return support::endian::read32le(content->data() + offset);
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
    else if (*name == "trainrt_plugin_abi")
      library.abi = numberAt(*file, symbol);
  }
  return "";
}

} // namespace trainc::plugin
