// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A request that cannot fit into the machine is refused here: with overcommit the system would
// grant it and kill the process later.

#include "device/memory.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace trainrt {

std::string bytesText(uint64_t bytes) {
  static constexpr const char *units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = double(bytes);
  int unit = 0;
  // Seven units, of which 2^64 needs the last.
  for (; value >= 1024 && unit < 6; ++unit)
    value /= 1024;
  char text[64];
  std::snprintf(text, sizeof text, unit ? "%.1f %s" : "%.0f %s", value, units[unit]);
  return text;
}

/// What to do where there is no room: not everything gets smaller with the batch.
/// `what` is the word of the caller that allocates; each that does not shrink with the batch is
/// here.
static const char *wayOut(std::string_view what) {
  if (what == "parameters")
    return "their size does not depend on the batch: use a smaller model, or a machine with more "
           "memory";
  if (what == "optimizer state" || what == "saved state")
    return "its size does not depend on the batch: train fewer parameters (trainc --freeze), or "
           "with an optimizer that keeps less (trainc --optimizer sgd)";
  if (what == "gradient accumulators")
    return "their size does not depend on the batch: steps of one micro-batch need none, and "
           "fewer trained parameters (trainc --freeze) need fewer";
  return "use a smaller batch";
}

Memory &Memory::operator=(Memory &&other) noexcept {
  std::swap(source, other.source);
  std::swap(bytes, other.bytes);
  std::swap(length, other.length);
  return *this;
}

namespace {

constexpr int64_t huge = 2 << 20;

/// Blocks of so many bytes are the system's own pages: zero, and there when they are first touched.
bool isMapped(int64_t size) { return size >= 2 * huge; }

/// Null if there is no room.
unsigned char *map(int64_t size) {
  const size_t room = size_t(size) + size_t(huge);
  void *pages = mmap(nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED)
    return nullptr;
  // What is around the aligned block goes back. (Whole pages: `room` is not, but its last one is.)
  auto *first = static_cast<unsigned char *>(pages);
  const size_t before = -reinterpret_cast<uintptr_t>(first) % size_t(huge);
  if (before)
    munmap(first, before);
  const size_t page = size_t(sysconf(_SC_PAGESIZE));
  unsigned char *end = first + before + (size_t(size) + page - 1) / page * page,
                *last = first + (room + page - 1) / page * page;
  if (end < last)
    munmap(end, size_t(last - end));
  madvise(first + before, size_t(size), MADV_HUGEPAGE);
  return first + before;
}

} // namespace

Status Memory::allocate(const Allocator &allocator, int64_t size, const char *what, bool zeroed) {
  release();
  if (size <= 0)
    return {};
  // Blocks of several huge pages begin at one: else their first and last parts stay small pages.
  size_t alignment = isMapped(size) ? size_t(huge) : 64;
  auto refuse = [&](const std::string &reason) {
    return fail(Code::OutOfMemory, "no memory for the ", what, ": ", bytesText(uint64_t(size)),
                reason, "; ", wayOut(what));
  };
  if (allocator.allocate) {
    bytes =
        static_cast<unsigned char *>(allocator.allocate(allocator.user, size_t(size), alignment));
    if (!bytes)
      return refuse("");
    // An allocator of the application's may give memory that was used before.
    if (zeroed)
      std::memset(bytes, 0, size_t(size));
  } else {
    // Only what can never fit is refused: swap and other processes are the system's matter.
    double physical = double(sysconf(_SC_PHYS_PAGES)) * double(sysconf(_SC_PAGESIZE));
    if (physical > 0 && double(size) > physical)
      return refuse(", the machine has " + bytesText(uint64_t(physical)));
    void *memory = nullptr;
    if (isMapped(size))
      memory = map(size);
    else if (posix_memalign(&memory, alignment, size_t(size)) != 0)
      memory = nullptr;
    if (!memory)
      return refuse("");
    bytes = static_cast<unsigned char *>(memory);
    if (zeroed && !isMapped(size))
      std::memset(bytes, 0, size_t(size));
  }
  // Kept with the block: it is given back to whoever gave it, even if the options have changed
  // since.
  source = allocator;
  length = size;
  return {};
}

void Memory::release() {
  if (!bytes)
    return;
  if (source.allocate)
    source.deallocate(source.user, bytes, size_t(length));
  else if (isMapped(length))
    munmap(bytes, size_t(length));
  else
    std::free(bytes);
  bytes = nullptr;
  length = 0;
}

} // namespace trainrt
