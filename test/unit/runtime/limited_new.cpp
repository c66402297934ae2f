// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operators of the whole program, replaced. The others, for arrays and without exceptions, call
// these.

#include "limited_new.h"

#include <cstdint>
#include <cstdlib>
#include <new>

static thread_local size_t mostBytes = SIZE_MAX;

namespace trainrt::test {

LimitedNew::LimitedNew(size_t most) { mostBytes = most; }
LimitedNew::~LimitedNew() { mostBytes = SIZE_MAX; }

} // namespace trainrt::test

void *operator new(size_t bytes) {
  void *memory = bytes > mostBytes ? nullptr : std::malloc(bytes ? bytes : 1);
  if (!memory)
    throw std::bad_alloc();
  return memory;
}

void operator delete(void *memory) noexcept { std::free(memory); }
void operator delete(void *memory, size_t) noexcept { std::free(memory); }
