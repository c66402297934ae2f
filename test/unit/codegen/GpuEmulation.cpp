// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Threads as contexts with a stack each; barriers and exchanges within a warp give the turn away.

#include "GpuEmulation.h"
#include "lib/Target/CUDA/Kernels/HardwareMath.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "trainc/Codegen/LowerToLLVM.h"
#include "llvm/ADT/APFloat.h"
#include "llvm/AsmParser/Parser.h"
#include "llvm/ExecutionEngine/Orc/ExecutionUtils.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"
#include "llvm/Support/SourceMgr.h"
#include "llvm/Support/TargetSelect.h"
#include "gtest/gtest.h"
#include <algorithm>
#include <csetjmp>
#include <ucontext.h>

using namespace mlir;

namespace trainc::test {

//===----------------------------------------------------------------------===//
// A block
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t kWarp = 32;
constexpr size_t kStackBytes = 64 * 1024;

using Entry = void(const int64_t *);

class Block {
public:
  Block(Entry *entry, const int64_t *arguments, int64_t threads)
      : entry(entry), arguments(arguments), threads(threads),
        stacks(std::make_unique_for_overwrite<char[]>(threads * kStackBytes)) {}

  bool run(int64_t number, bool backwards);

  // What the code of a thread calls.
  int64_t thread() const { return current; }
  int64_t number() const { return block; }
  void meetBlock() { wait(State::InBlock); }
  void meetWarp() { wait(State::InWarp); }
  int64_t lane() const { return current % kWarp; }
  /// The values of all threads of the warp.
  const int32_t *exchange(int32_t value) {
    // Two arrays in turn: a thread may write the next value before all have read this one.
    std::vector<int32_t> &values = exchanged[threads[current].exchanges++ & 1];
    const int64_t first = current - lane();
    values[current] = value;
    meetWarp();
    return values.data() + first;
  }

  static Block *running;

private:
  enum class State { Ready, InBlock, InWarp, Done };
  struct Thread {
    /// Where it begins; where it goes on. Saving the latter takes no call of the system.
    ucontext_t context;
    jmp_buf place;
    bool hasBegun = false;
    State state = State::Ready;
    unsigned exchanges = 0;
  };

  static void start() {
    Block &block = *running;
    block.entry(block.arguments);
    block.wait(State::Done);
  }
  void wait(State state) {
    Thread &thread = threads[current];
    thread.state = state;
    if (_setjmp(thread.place) == 0)
      _longjmp(scheduler, 1);
  }
  void resume(Thread &thread) {
    if (_setjmp(scheduler) != 0)
      return;
    if (thread.hasBegun)
      _longjmp(thread.place, 1);
    thread.hasBegun = true;
    setcontext(&thread.context);
  }
  /// Lets the threads [begin, end) go on if all of them are in `state`.
  bool release(int64_t begin, int64_t end, State state) {
    for (int64_t i = begin; i < end; ++i)
      if (threads[i].state != state)
        return false;
    for (int64_t i = begin; i < end; ++i)
      threads[i].state = State::Ready;
    return true;
  }

  Entry *entry;
  const int64_t *arguments;
  std::vector<Thread> threads;
  /// Not cleared: most of it is never touched.
  std::unique_ptr<char[]> stacks;
  std::vector<int32_t> exchanged[2];
  jmp_buf scheduler;
  int64_t current = 0, block = 0;
};

Block *Block::running = nullptr;

} // namespace

bool Block::run(int64_t number, bool backwards) {
  running = this;
  block = number;
  int64_t count = threads.size();
  for (auto &values : exchanged)
    values.assign(count, 0);
  for (int64_t i = 0; i < count; ++i) {
    Thread &thread = threads[i];
    thread.state = State::Ready;
    thread.exchanges = 0;
    thread.hasBegun = false;
    getcontext(&thread.context);
    thread.context.uc_stack.ss_sp = stacks.get() + i * kStackBytes;
    thread.context.uc_stack.ss_size = kStackBytes;
    thread.context.uc_link = nullptr;
    makecontext(&thread.context, start, 0);
  }
  while (true) {
    bool moved = false;
    for (int64_t i = 0; i < count; ++i) {
      current = backwards ? count - 1 - i : i;
      if (threads[current].state != State::Ready)
        continue;
      moved = true;
      resume(threads[current]);
    }
    if (llvm::all_of(threads, [](const Thread &thread) { return thread.state == State::Done; }))
      return true;
    for (int64_t begin = 0; begin < count; begin += kWarp)
      moved |= release(begin, std::min(count, begin + kWarp), State::InWarp);
    moved |= release(0, count, State::InBlock);
    if (!moved)
      return false;
  }
}

static int32_t threadNumber() { return Block::running->thread(); }
static int32_t blockNumber() { return Block::running->number(); }
static void meetBlock(int32_t) { Block::running->meetBlock(); }
static void meetWarp(int32_t) { Block::running->meetWarp(); }
static int32_t exchange(int32_t, int32_t value, int32_t mask, int32_t) {
  const int64_t lane = Block::running->lane() ^ mask;
  return Block::running->exchange(value)[lane];
}
static float exchangeFloat(int32_t, float value, int32_t mask, int32_t) {
  return llvm::bit_cast<float>(exchange(0, llvm::bit_cast<int32_t>(value), mask, 0));
}
static int32_t shuffleUp(int32_t, int32_t value, int32_t distance, int32_t) {
  const int64_t lane = Block::running->lane();
  return Block::running->exchange(value)[lane < distance ? lane : lane - distance];
}
/// An i1 is the lowest bit of what is passed.
static bool holdsForAll(int32_t, int32_t condition) {
  const int32_t *values = Block::running->exchange(condition & 1);
  return std::all_of(values, values + kWarp, [](int32_t value) { return value != 0; });
}
static int32_t match(int32_t, int32_t value) {
  const int32_t *values = Block::running->exchange(value);
  uint32_t same = 0;
  for (int64_t i = 0; i < kWarp; ++i)
    same |= uint32_t(values[i] == value) << i;
  return int32_t(same);
}

/// Conversions that processors without the instruction call; not every C library has them.
static uint16_t roundTo(const llvm::fltSemantics &type, float value) {
  llvm::APFloat number(value);
  bool inexact;
  number.convert(type, llvm::APFloat::rmNearestTiesToEven, &inexact);
  return number.bitcastToAPInt().getZExtValue();
}
static __bf16 roundToBF16(float value) {
  return llvm::bit_cast<__bf16>(roundTo(llvm::APFloat::BFloat(), value));
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

struct EmulatedKernels::Impl {
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

static void replaceAll(std::string &text, StringRef from, StringRef to) {
  for (size_t at = 0; (at = text.find(from.str(), at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to.str());
}

/// LLVM assembly of the kernels for the host: one address space, intrinsics as functions, and for
/// each kernel a function that takes its arguments from an array.
static std::string hostText(ModuleOp kernels) {
  OwningOpRef<ModuleOp> copy = kernels.clone();
  std::string calls;
  for (auto function : copy->getOps<LLVM::LLVMFuncOp>()) {
    std::string name = function.getName().str(), loads, values;
    for (auto [number, type] : llvm::enumerate(function.getFunctionType().getParams())) {
      std::string text = isa<LLVM::LLVMPointerType>(type) ? "ptr" : "i64",
                  n = std::to_string(number);
      loads += "  %p" + n + " = getelementptr i64, ptr %arguments, i64 " + n + "\n  %v" + n +
               " = load " + text + ", ptr %p" + n + "\n";
      values += (number == 0 ? "" : ", ") + text + " %v" + n;
    }
    calls += "define void @call_" + name + "(ptr %arguments) {\n" + loads + "  call void @" + name +
             "(" + values + ")\n  ret void\n}\n";
  }
  codegen::useReciprocals(*copy);
  // Functions without an expansion are those of the C library.
  if (failed(codegen::lowerToLLVMDialect(*copy, /*mathPrefix=*/"")))
    return {};
  FailureOr<std::string> text = codegen::translateToText(*copy);
  if (failed(text))
    return {};
  for (StringRef space : {"addrspace(1) ", "addrspace(3) "})
    replaceAll(*text, space, "");
  for (StringRef space : {" addrspace(1)", " addrspace(3)"})
    replaceAll(*text, space, "");
  replaceAll(*text, "ptx_kernel ", "");
  replaceAll(*text, "@llvm.nvvm.", "@nvvm.");
  return *text + calls;
}

EmulatedKernels::EmulatedKernels(ModuleOp kernels) : impl(std::make_unique<Impl>()) {
  compile(kernels);
}
EmulatedKernels::~EmulatedKernels() = default;

void EmulatedKernels::compile(ModuleOp kernels) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  std::string text = hostText(kernels);
  ASSERT_FALSE(text.empty()) << "the kernels cannot be lowered";
  auto context = std::make_unique<llvm::LLVMContext>();
  llvm::SMDiagnostic diagnostic;
  std::unique_ptr<llvm::Module> module = llvm::parseAssemblyString(text, diagnostic, *context);
  ASSERT_TRUE(module) << diagnostic.getMessage().str() << ": "
                      << diagnostic.getLineContents().str();
  impl->jit = llvm::cantFail(llvm::orc::LLJITBuilder().create());
  llvm::orc::JITDylib &library = impl->jit->getMainJITDylib();
  llvm::orc::SymbolMap symbols;
  auto define = [&](const char *name, auto *function) {
    symbols[impl->jit->mangleAndIntern(name)] = {llvm::orc::ExecutorAddr::fromPtr(function),
                                                 llvm::JITSymbolFlags::Exported};
  };
  define("nvvm.read.ptx.sreg.tid.x", threadNumber);
  define("nvvm.read.ptx.sreg.ctaid.x", blockNumber);
  define("nvvm.barrier.cta.sync.aligned.all", meetBlock);
  define("nvvm.bar.warp.sync", meetWarp);
  define("nvvm.shfl.sync.bfly.i32", exchange);
  define("nvvm.shfl.sync.bfly.f32", exchangeFloat);
  define("nvvm.shfl.sync.up.i32", shuffleUp);
  define("nvvm.vote.all.sync", holdsForAll);
  define("nvvm.match.any.sync.i32", match);
  define("__truncsfbf2", roundToBF16);
  llvm::cantFail(library.define(llvm::orc::absoluteSymbols(std::move(symbols))));
  library.addGenerator(
      llvm::cantFail(llvm::orc::DynamicLibrarySearchGenerator::GetForCurrentProcess(
          impl->jit->getDataLayout().getGlobalPrefix())));
  llvm::cantFail(
      impl->jit->addIRModule(llvm::orc::ThreadSafeModule(std::move(module), std::move(context))));
}

void EmulatedKernels::launch(const std::string &name, int64_t blocks, int64_t threads,
                             const std::vector<int64_t> &arguments, bool backwards) {
  auto symbol = impl->jit->lookup("call_" + name);
  ASSERT_TRUE(bool(symbol)) << llvm::toString(symbol.takeError());
  Block block(symbol->toPtr<Entry *>(), arguments.data(), threads);
  for (int64_t number = 0; number < blocks; ++number)
    ASSERT_TRUE(block.run(backwards ? blocks - 1 - number : number, backwards))
        << name << ": threads wait for others that do not come";
}

} // namespace trainc::test
