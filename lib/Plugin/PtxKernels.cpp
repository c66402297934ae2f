// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// .visible .entry swish_kernel(
//   .param .u64 .ptr .align 1 swish_kernel_param_0,
//   .param .align 8 .b8 swish_kernel_param_1[16]
// )

#include "PtxKernels.h"

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

} // namespace trainc::plugin
