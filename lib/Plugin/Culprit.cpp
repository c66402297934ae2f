// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Nothing catches what plug-ins throw: it ends in std::terminate with their calls still on the
// stack.

#include "trainc/Plugin/Culprit.h"

#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <link.h>
#include <unistd.h>
#include <unwind.h>

namespace trainc::plugin {

namespace {

/// The code of a plug-in in memory.
struct Code {
  std::string path;
  uintptr_t base = 0, begin = 0, end = 0;
};

/// Frames of a recursion without end.
constexpr int kMostFrames = 512;

/// Read by handlers of signals: entries stay, and are whole before they are counted.
std::deque<Code> watched;
const Code *loading = nullptr, *found = nullptr;
uint64_t foundOffset = 0;
char thrown[256] = "";

/// Ends at the innermost frame that is a plug-in's: of two, the one that was running.
_Unwind_Reason_Code lookAtFrame(_Unwind_Context *context, void *count) {
  int isExact = 0;
  const uintptr_t address = _Unwind_GetIPInfo(context, &isExact) - (isExact ? 0 : 1);
  for (const Code &code : watched)
    if (address >= code.begin && address < code.end) {
      found = &code;
      foundOffset = address - code.base;
      return _URC_END_OF_STACK;
    }
  return ++*static_cast<int *>(count) < kMostFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
}

/// Keeps what the exception says; the handler of the signal that follows tells it.
[[noreturn]] void onTerminate() {
  try {
    if (std::exception_ptr exception = std::current_exception())
      std::rethrow_exception(exception);
  } catch (const std::exception &exception) {
    std::snprintf(thrown, sizeof thrown, "%s", exception.what());
  } catch (...) {
    std::snprintf(thrown, sizeof thrown, "an object that is no std::exception");
  }
  std::abort();
}

/// A plug-in that ends the process would end a compilation without a package as if all were well.
void onExit() {
  noteCulprit();
  if (!found)
    return;
  std::fprintf(stderr,
               "trainc: error: the plug-in '%s' has ended the process; it is to return instead\n",
               found->path.c_str());
  std::fflush(nullptr);
  _exit(1);
}

} // namespace

LoadingPlugin::LoadingPlugin(const std::string &path) {
  // Without a plug-in the process ends as ever.
  if (watched.empty()) {
    std::set_terminate(onTerminate);
    std::atexit(onExit);
  }
  watched.emplace_back().path = path;
  loading = &watched.back();
}

LoadingPlugin::~LoadingPlugin() { loading = nullptr; }

/// Its code is the one segment that may be executed and has the symbol in it.
void LoadingPlugin::watch(const void *symbol) {
  assert(!watched.empty() && loading == &watched.back() && "one at a time is loaded");
  auto look = [](dl_phdr_info *info, size_t, void *wanted) {
    const auto address = reinterpret_cast<uintptr_t>(wanted);
    for (int i = 0; i < info->dlpi_phnum; ++i) {
      const ElfW(Phdr) &segment = info->dlpi_phdr[i];
      const uintptr_t begin = info->dlpi_addr + segment.p_vaddr;
      if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X) || address < begin ||
          address >= begin + segment.p_memsz)
        continue;
      Code &code = watched.back();
      code.base = info->dlpi_addr;
      code.begin = begin;
      code.end = begin + segment.p_memsz;
      return 1;
    }
    return 0;
  };
  dl_iterate_phdr(look, const_cast<void *>(symbol));
}

/// The first call counts: what comes behind it may have been its doing. While one is loaded, and no
/// frame says more (constructors of its globals), it is that one.
void noteCulprit() {
  if (watched.empty() || found)
    return;
  int count = 0;
  _Unwind_Backtrace(lookAtFrame, &count);
  if (!found)
    found = loading;
}

std::optional<Culprit> takeCulprit() {
  if (!found)
    return std::nullopt;
  Culprit culprit{found->path, foundOffset, thrown};
  found = loading = nullptr;
  foundOffset = 0;
  thrown[0] = 0;
  return culprit;
}

} // namespace trainc::plugin
