// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The mutator of the targets that read JSON: libFuzzer's own, which would need thousands of steps
// to nest anything; now and then a value is put into a tower of lists or objects.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>

// Of libFuzzer; absent where the corpus is only replayed.
extern "C" __attribute__((weak)) size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t limit);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t limit, unsigned seed) {
  std::mt19937 random(seed);
  if (random() % 8)
    return LLVMFuzzerMutate ? LLVMFuzzerMutate(data, size, limit) : size;
  // Behind one of the characters that a value may follow.
  const std::string text(reinterpret_cast<const char *>(data), size);
  size_t at = text.find_first_of(":[,", size ? random() % size : 0);
  at = at == text.npos ? 0 : at + 1;
  const bool isList = random() % 2;
  const std::string open = isList ? "[" : "{\"a\":", close = isList ? "]" : "}";
  const size_t room = limit > size ? (limit - size) / (open.size() + close.size()) : 0;
  const size_t depth = std::min<size_t>(room, size_t(1) << random() % 18);
  std::string tower;
  for (size_t i = 0; i < depth; ++i)
    tower += open;
  if (random() % 4) { // else it stays open
    tower += "0";
    for (size_t i = 0; i < depth; ++i)
      tower += close;
    if (at < size && random() % 2)
      tower += ",";
  }
  std::string result = text.substr(0, at) + tower + text.substr(at);
  if (result.size() > limit)
    return size;
  std::memcpy(data, result.data(), result.size());
  return result.size();
}
