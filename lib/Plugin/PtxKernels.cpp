// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .visible .entry swish_kernel(
//   .param .u64 .ptr .align 1 swish_kernel_param_0,
//   .param .align 8 .b8 swish_kernel_param_1[16]
// )

#include "PtxKernels.h"
#include "trainc/Plugin/Plugin.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringExtras.h"

using llvm::StringRef;

namespace trainc::plugin {

/// Of the type that stands first; an array has so many.
static uint64_t bytesOf(StringRef parameter) {
  llvm::SmallVector<StringRef> words;
  llvm::SplitString(parameter, words);
  for (StringRef word : words) {
    uint64_t bits = 0, count = 1;
    if (!word.consume_front(".") || word.size() < 2 || !StringRef("usbf").contains(word.front()) ||
        word.drop_front().getAsInteger(10, bits))
      continue;
    auto [name, length] = parameter.split('[');
    if (!length.empty() && length.split(']').first.trim().getAsInteger(10, count))
      return 0;
    return bits / 8 * count;
  }
  return 0;
}

std::optional<std::vector<uint64_t>> readPtxParameters(StringRef ptx, StringRef kernel) {
  constexpr StringRef entry = ".entry";
  for (size_t at = ptx.find(entry); at != StringRef::npos; at = ptx.find(entry, at + 1)) {
    StringRef rest = ptx.substr(at + entry.size()).ltrim();
    if (!rest.consume_front(kernel) || rest.empty() ||
        (!llvm::isSpace(rest.front()) && rest.front() != '(' && rest.front() != '{'))
      continue;
    std::vector<uint64_t> bytes;
    rest = rest.ltrim();
    if (!rest.consume_front("("))
      return bytes;
    const StringRef list = rest.take_until([](char c) { return c == ')'; });
    if (list.trim().empty())
      return bytes;
    llvm::SmallVector<StringRef> parameters;
    list.split(parameters, ',');
    for (StringRef parameter : parameters)
      bytes.push_back(bytesOf(parameter));
    return bytes;
  }
  return std::nullopt;
}

namespace {
struct Architecture {
  /// 90 of "90a"; 0 where it is none.
  unsigned number = 0;
  /// With a letter, it is for no other.
  bool isExact = false;
};
} // namespace

static Architecture readArchitecture(StringRef text) {
  Architecture read;
  const StringRef digits = text.take_while(llvm::isDigit);
  if (digits.getAsInteger(10, read.number))
    return {};
  text = text.drop_front(digits.size());
  read.isExact = !text.empty() && llvm::isAlpha(text.front());
  return read;
}

bool hasKernelsFor(const Plugin &plugin, StringRef architecture) {
  const unsigned wanted = readArchitecture(architecture.split('_').second).number;
  return llvm::any_of(plugin.code, [&](const Code &code) {
    StringRef name = code.name;
    if (name.consume_back(".cubin")) {
      const Architecture of = readArchitecture(name.rsplit(".sm_").second);
      return of.number == wanted ||
             (!of.isExact && of.number / 10 == wanted / 10 && of.number < wanted);
    }
    if (!name.ends_with(".ptx"))
      return false;
    // Once in a text; without it, as in what is written by hand for a test, ptxas refuses it, and
    // the driver says so.
    const StringRef text(code.bytes.data(), code.bytes.size());
    const Architecture of = readArchitecture(text.split(".target sm_").second);
    return of.isExact ? of.number == wanted : of.number <= wanted;
  });
}

} // namespace trainc::plugin
