// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// cuda/device/warp.h for the host: a thread block of which every thread is a fiber. Instructions of
// a whole warp meet: a lane waits until all 32 have come to the same one. What the GPU leaves
// undefined ends the program: lanes that come to different instructions, shared memory that was not
// asked for.
#ifndef TRAINRT_TEST_CUDA_WARP_EMULATION_H
#define TRAINRT_TEST_CUDA_WARP_EMULATION_H

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <ucontext.h>
#include <utility>
#include <vector>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/common_interface_defs.h>
#define TRAINRT_EMULATION_ASAN
#endif
#endif

#define TRAINRT_DEVICE inline

namespace trainrt::cuda::warp {

struct BF16 {};
struct F16 {};
struct alignas(16) Chunk {
  uint32_t words[4];
};

/// Runs a block of `threads` threads after another.
class Emulation {
public:
  Emulation(unsigned threads, size_t sharedBytes);
  void run(unsigned x, unsigned y, unsigned z, const std::function<void()> &kernel);

  static Emulation &current() { return *active; }
  unsigned number() const { return running; }
  unsigned size() const { return unsigned(fibers.size()); }
  unsigned blockX() const { return x; }
  unsigned blockY() const { return y; }
  unsigned blockZ() const { return z; }

  /// Shared memory at an address, of `bytes` that are a multiple of their place.
  unsigned char *shared(uint32_t address, size_t bytes) {
    if (address < sharedBegin || address - sharedBegin + bytes > memory.size() || address % bytes)
      fail("shared memory out of bounds");
    return memory.data() + (address - sharedBegin);
  }
  /// The arguments of all lanes, lane 0 first, to the last one that comes; it answers for all.
  template <typename Arguments>
  void collective(const char *name, Arguments &own, void (*answer)(Arguments *const (&)[32]));
  void meet();
  /// Copies that are not done before they are waited for.
  void later(uint32_t to, const void *from, bool valid, size_t size = 16);
  /// All but the last groups of them.
  void finishCopies(size_t groups = 0);
  void endCopies();

  [[noreturn]] static void fail(const char *why) {
    std::fprintf(stderr, "emulated GPU: %s\n", why);
    std::abort();
  }
  /// Lets the other threads run until it is over. What it asks for changes nothing.
  template <typename Wait> void await(const Wait &over) {
    if (over())
      return;
    Fiber &fiber = *fibers[running];
    fiber.waits = &over;
    fiber.isOver = [](const void *over) { return (*static_cast<const Wait *>(over))(); };
    yield();
    fiber.isOver = nullptr;
  }

  /// Not 0, so that an address is not taken for an offset.
  static constexpr uint32_t sharedBegin = 1024;

private:
  static constexpr size_t stackBytes = 256 << 10;
  struct Fiber {
    ucontext_t context;
    // Not written before it is used: of most pages nothing ever is.
    std::unique_ptr<char[]> stack = std::make_unique_for_overwrite<char[]>(stackBytes);
    bool done = false;
    const void *waits = nullptr;
    bool (*isOver)(const void *) = nullptr; ///< none: waits for nothing
    struct Copy {
      uint32_t to;
      size_t size;
      std::array<unsigned char, 16> bytes;
    };
    std::vector<Copy> copies;
    std::vector<size_t> groups; ///< copies of each
    size_t ungrouped = 0;
    void *sanitizer = nullptr;
  };
  struct Warp {
    void *arguments[32];
    const char *name = nullptr;
    unsigned arrived = 0;
    uint64_t generation = 0;
  };
  static void enter();
  void yield();

  inline static Emulation *active = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers;
  std::vector<Warp> warps;
  std::vector<unsigned char> memory;
  ucontext_t scheduler;
#ifdef TRAINRT_EMULATION_ASAN
  const void *schedulerStack = nullptr;
  size_t schedulerBytes = 0;
#endif
  const std::function<void()> *kernel = nullptr;
  unsigned running = 0, x = 0, y = 0, z = 0, inBarrier = 0;
  uint64_t barriers = 0;
};

inline Emulation::Emulation(unsigned threads, size_t sharedBytes)
    : warps(threads / 32), memory(sharedBytes) {
  for (unsigned i = 0; i < threads; ++i)
    fibers.push_back(std::make_unique<Fiber>());
}

inline void Emulation::enter() {
  Emulation &self = *active;
#ifdef TRAINRT_EMULATION_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &self.schedulerStack, &self.schedulerBytes);
#endif
  (*self.kernel)();
  Fiber &fiber = *self.fibers[self.running];
  if (!fiber.copies.empty())
    fail("a copy is never waited for");
  fiber.groups.clear();
  fiber.done = true;
#ifdef TRAINRT_EMULATION_ASAN
  __sanitizer_start_switch_fiber(nullptr, self.schedulerStack, self.schedulerBytes);
#endif
  swapcontext(&fiber.context, &self.scheduler);
}

inline void Emulation::yield() {
  Fiber &fiber = *fibers[running];
#ifdef TRAINRT_EMULATION_ASAN
  __sanitizer_start_switch_fiber(&fiber.sanitizer, schedulerStack, schedulerBytes);
#endif
  swapcontext(&fiber.context, &scheduler);
#ifdef TRAINRT_EMULATION_ASAN
  __sanitizer_finish_switch_fiber(fiber.sanitizer, nullptr, nullptr);
#endif
}

inline void Emulation::run(unsigned blockX, unsigned blockY, unsigned blockZ,
                           const std::function<void()> &body) {
  active = this;
  x = blockX, y = blockY, z = blockZ;
  kernel = &body;
  inBarrier = 0;
  std::fill(memory.begin(), memory.end(), 0xff); // NaNs
  for (auto &fiber : fibers) {
    fiber->done = false;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack.get();
    fiber->context.uc_stack.ss_size = stackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Emulation::enter, 0);
  }
  for (bool any = true; any;) {
    any = false;
    bool isWaiting = false;
    for (running = 0; running < fibers.size(); ++running) {
      Fiber &fiber = *fibers[running];
      if (fiber.done)
        continue;
      if (fiber.isOver && !fiber.isOver(fiber.waits)) {
        isWaiting = true;
        continue;
      }
      any = true;
#ifdef TRAINRT_EMULATION_ASAN
      void *own = nullptr;
      __sanitizer_start_switch_fiber(&own, fiber.stack.get(), stackBytes);
#endif
      swapcontext(&scheduler, &fiber.context);
#ifdef TRAINRT_EMULATION_ASAN
      __sanitizer_finish_switch_fiber(own, nullptr, nullptr);
#endif
    }
    if (isWaiting && !any)
      fail("threads wait for each other");
  }
}

template <typename Arguments>
void Emulation::collective(const char *name, Arguments &own,
                           void (*answer)(Arguments *const (&)[32])) {
  Warp &warp = warps[running / 32];
  if (warp.arrived && std::strcmp(warp.name, name) != 0)
    fail("lanes of a warp are at different instructions");
  warp.name = name;
  warp.arguments[running % 32] = &own;
  if (++warp.arrived == 32) {
    Arguments *all[32];
    for (int i = 0; i < 32; ++i)
      all[i] = static_cast<Arguments *>(warp.arguments[i]);
    answer(all);
    warp.arrived = 0;
    ++warp.generation;
    return;
  }
  await([&warp, mine = warp.generation] { return warp.generation != mine; });
}

inline void Emulation::meet() {
  if (++inBarrier == fibers.size()) {
    inBarrier = 0;
    ++barriers;
    return;
  }
  await([this, mine = barriers] { return barriers != mine; });
}

inline void Emulation::later(uint32_t to, const void *from, bool valid, size_t size) {
  Fiber::Copy copy = {to, size, {}};
  if (valid)
    std::memcpy(copy.bytes.data(), from, size);
  fibers[running]->copies.push_back(copy);
  ++fibers[running]->ungrouped;
}
inline void Emulation::endCopies() {
  Fiber &fiber = *fibers[running];
  fiber.groups.push_back(std::exchange(fiber.ungrouped, 0));
}
inline void Emulation::finishCopies(size_t groups) {
  Fiber &fiber = *fibers[running];
  size_t left = groups ? fiber.ungrouped : 0;
  for (size_t i = 0; i < std::min(groups, fiber.groups.size()); ++i)
    left += fiber.groups[fiber.groups.size() - 1 - i];
  const auto end = fiber.copies.end() - ptrdiff_t(left);
  for (auto copy = fiber.copies.begin(); copy != end; ++copy)
    std::memcpy(shared(copy->to, copy->size), copy->bytes.data(), copy->size);
  fiber.copies.erase(fiber.copies.begin(), end);
  if (fiber.groups.size() > groups)
    fiber.groups.erase(fiber.groups.begin(), fiber.groups.end() - ptrdiff_t(groups));
  if (!groups)
    fiber.ungrouped = 0;
}

// -- cuda/device/warp.h -------------------------------------------------------

inline uint32_t sharedMemory() { return Emulation::sharedBegin; }
inline uint32_t thread() { return Emulation::current().number(); }
inline uint32_t threads() { return Emulation::current().size(); }
inline uint32_t blockX() { return Emulation::current().blockX(); }
inline uint32_t blockY() { return Emulation::current().blockY(); }
inline uint32_t blockZ() { return Emulation::current().blockZ(); }
inline uint32_t opaque(uint32_t x) { return x; }
inline void barrier() { Emulation::current().meet(); }
inline void meet() {
  struct Arguments {
  } own;
  Emulation::current().collective<Arguments>("meet", own, [](Arguments *const(&)[32]) {});
}
inline float exp2(float x) { return std::exp2(x); }
inline float log2(float x) { return std::log2(x); }

inline uint32_t exchange(uint32_t x, uint32_t mask) {
  struct Arguments {
    uint32_t x, mask, y;
  } own = {x, mask, 0};
  Emulation::current().collective<Arguments>("exchange", own, [](Arguments *const(&all)[32]) {
    for (uint32_t i = 0; i < 32; ++i)
      all[i]->y = all[i ^ all[i]->mask]->x;
  });
  return own.y;
}
inline float exchange(float x, uint32_t mask) {
  return __builtin_bit_cast(float, exchange(__builtin_bit_cast(uint32_t, x), mask));
}

inline uint32_t vote(bool x) {
  struct Arguments {
    bool x;
    uint32_t lanes;
  } own = {x, 0};
  Emulation::current().collective<Arguments>("vote", own, [](Arguments *const(&all)[32]) {
    uint32_t lanes = 0;
    for (uint32_t i = 0; i < 32; ++i)
      lanes |= uint32_t(all[i]->x) << i;
    for (Arguments *each : all)
      each->lanes = lanes;
  });
  return own.lanes;
}

inline void copy(uint32_t to, const void *from, bool valid) {
  Emulation::current().later(to, from, valid);
}
inline void copyWord(uint32_t to, const void *from, bool valid) {
  Emulation::current().later(to, from, valid, 4);
}
inline void copied() { Emulation::current().finishCopies(); }
inline void endCopies() { Emulation::current().endCopies(); }
template <int Groups> void copiedBut() { Emulation::current().finishCopies(Groups); }
inline Chunk load(const void *from) {
  Chunk chunk;
  std::memcpy(&chunk, from, sizeof chunk);
  return chunk;
}
inline float load(const float *from) { return *from; }
inline void store(void *to, const Chunk &chunk) { std::memcpy(to, &chunk, sizeof chunk); }
template <size_t N> void loadConstant(uint64_t from, bool valid, uint32_t (&words)[N]) {
  std::memset(words, 0, sizeof words);
  if (valid)
    std::memcpy(words, reinterpret_cast<const void *>(from), sizeof words);
}
template <size_t N> void storeWords(uint64_t to, const uint32_t (&words)[N]) {
  std::memcpy(reinterpret_cast<void *>(to), words, sizeof words);
}
inline void storeHalf(uint64_t to, uint32_t word) {
  const uint16_t low = uint16_t(word);
  std::memcpy(reinterpret_cast<void *>(to), &low, sizeof low);
}
inline void storeShared(uint32_t to, const Chunk &chunk) {
  std::memcpy(Emulation::current().shared(to, 16), &chunk, 16);
}
inline void storeShared(uint32_t to, float x) {
  std::memcpy(Emulation::current().shared(to, 4), &x, 4);
}
inline void storeSharedByte(uint32_t to, uint32_t word) {
  *Emulation::current().shared(to, 1) = static_cast<unsigned char>(word);
}
inline void storeSharedWord(uint32_t to, uint32_t word) {
  std::memcpy(Emulation::current().shared(to, 4), &word, 4);
}
inline void storeSharedWords(uint32_t to, uint32_t word0, uint32_t word1) {
  const uint32_t words[2] = {word0, word1};
  std::memcpy(Emulation::current().shared(to, 8), words, 8);
}
inline void loadSharedWords(uint32_t from, uint32_t &word0, uint32_t &word1) {
  const unsigned char *both = Emulation::current().shared(from, 8);
  std::memcpy(&word0, both, 4);
  std::memcpy(&word1, both + 4, 4);
}
inline Chunk loadSharedChunk(uint32_t from) {
  Chunk chunk;
  std::memcpy(&chunk, Emulation::current().shared(from, 16), 16);
  return chunk;
}
inline uint32_t loadSharedWord(uint32_t from) {
  uint32_t word;
  std::memcpy(&word, Emulation::current().shared(from, 4), 4);
  return word;
}
inline float loadShared(uint32_t from) {
  float x;
  std::memcpy(&x, Emulation::current().shared(from, 4), 4);
  return x;
}
inline void loadShared(uint32_t from, float &x, float &y) {
  const unsigned char *both = Emulation::current().shared(from, 8);
  std::memcpy(&x, both, 4);
  std::memcpy(&y, both + 4, 4);
}

namespace detail {

struct Matrices {
  uint32_t *m;
  uint32_t row;
};
/// Element 2 (l % 4) + i of row l / 4 of matrix k, or that of the transposed one.
template <bool trans> void loadMatrices(Matrices *const (&all)[32]) {
  for (uint32_t k = 0; k < 4; ++k)
    for (uint32_t l = 0; l < 32; ++l) {
      uint16_t both[2];
      for (uint32_t i = 0; i < 2; ++i) {
        uint32_t row = l / 4, column = l % 4 * 2 + i;
        if (trans)
          std::swap(row, column);
        std::memcpy(&both[i], Emulation::current().shared(all[k * 8 + row]->row, 16) + column * 2,
                    2);
      }
      all[l]->m[k] = both[0] | uint32_t(both[1]) << 16;
    }
}

inline float widen(BF16, uint16_t x) { return __builtin_bit_cast(float, uint32_t(x) << 16); }
inline float widen(F16, uint16_t x) { return float(__builtin_bit_cast(_Float16, x)); }
inline uint16_t narrow(BF16, float x) {
  uint32_t bits = __builtin_bit_cast(uint32_t, x);
  if (x != x)
    return 0x7fff;
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}
inline uint16_t narrow(F16, float x) { return __builtin_bit_cast(uint16_t, _Float16(x)); }

struct Product {
  float *c;
  const uint32_t *a;
  uint32_t b[2];
};
template <typename T> void multiply(Product *const (&all)[32]) {
  float a[16][16], b[16][8];
  auto half = [](uint32_t word, uint32_t i) { return widen(T(), uint16_t(word >> (16 * i))); };
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 2; ++i) {
      for (uint32_t k = 0; k < 4; ++k)
        a[l / 4 + k % 2 * 8][l % 4 * 2 + i + k / 2 * 8] = half(all[l]->a[k], i);
      for (uint32_t k = 0; k < 2; ++k)
        b[l % 4 * 2 + i + k * 8][l / 4] = half(all[l]->b[k], i);
    }
  for (uint32_t l = 0; l < 32; ++l)
    for (uint32_t i = 0; i < 4; ++i) {
      float sum = all[l]->c[i];
      for (int k = 0; k < 16; ++k)
        sum += a[l / 4 + i / 2 * 8][k] * b[k][l % 4 * 2 + i % 2];
      all[l]->c[i] = sum;
    }
}

} // namespace detail

inline void loadMatrices(uint32_t (&m)[4], uint32_t row) {
  detail::Matrices own = {m, row};
  Emulation::current().collective("loadMatrices", own, detail::loadMatrices<false>);
}
inline void loadTransposed(uint32_t (&m)[4], uint32_t row) {
  detail::Matrices own = {m, row};
  Emulation::current().collective("loadTransposed", own, detail::loadMatrices<true>);
}
inline uint32_t transposed(uint32_t m) {
  struct Arguments {
    uint32_t m, t;
  } own = {m, 0};
  Emulation::current().collective<Arguments>("transposed", own, [](Arguments *const(&all)[32]) {
    for (uint32_t l = 0; l < 32; ++l) {
      all[l]->t = 0;
      for (uint32_t i = 0; i < 2; ++i) {
        const uint32_t row = l % 4 * 2 + i, column = l / 4;
        all[l]->t |= (all[row * 4 + column / 2]->m >> (column % 2 * 16) & 0xffff) << (16 * i);
      }
    }
  });
  return own.t;
}
template <typename T>
void multiply(T, float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  detail::Product own = {c, a, {b0, b1}};
  Emulation::current().collective("multiply", own, detail::multiply<T>);
}
template <typename T> uint32_t pack(T, float x, float y) {
  return detail::narrow(T(), x) | uint32_t(detail::narrow(T(), y)) << 16;
}
inline uint32_t lows(uint32_t first, uint32_t second) { return (first & 0xffff) | second << 16; }
inline uint32_t highs(uint32_t first, uint32_t second) {
  return first >> 16 | (second & 0xffff0000u);
}
template <typename T> void unpack(T, uint32_t both, float &x, float &y) {
  x = detail::widen(T(), uint16_t(both));
  y = detail::widen(T(), uint16_t(both >> 16));
}

} // namespace trainrt::cuda::warp

#endif // TRAINRT_TEST_CUDA_WARP_EMULATION_H
