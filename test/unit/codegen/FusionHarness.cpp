// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Compiles, loads and runs fusions on random data.

#include "FusionHarness.h"
#include "GpuEmulation.h"
#include "dialects/Train/TrainDialect.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <random>
#include <sys/mman.h>
#include <unistd.h>

using namespace mlir;
using namespace trainc::train;

namespace trainc::test {

FusionHarness::FusionHarness() {
  context.loadDialect<TrainDialect, func::FuncDialect>();
  module = ModuleOp::create(UnknownLoc::get(&context));
}

DimAttr FusionHarness::dim(const std::string &text) {
  if (isdigit(text[0]))
    return DimAttr::constant(&context, std::stoll(text));
  return DimAttr::symbol(&context, text);
}
SmallVector<DimAttr> FusionHarness::dims(const std::string &text) {
  SmallVector<DimAttr> result;
  SmallVector<StringRef> parts;
  StringRef(text).split(parts, ',', -1, /*KeepEmpty=*/false);
  for (StringRef part : parts)
    result.push_back(dim(part.trim().str()));
  return result;
}
Type FusionHarness::elementType(const std::string &name) {
  Builder b(&context);
  if (name == "f32")
    return b.getF32Type();
  if (name == "f64")
    return b.getF64Type();
  if (name == "f16")
    return b.getF16Type();
  if (name == "bf16")
    return b.getBF16Type();
  return b.getIntegerType(std::stoi(name.substr(1)));
}

FusionOp FusionHarness::build(ArrayRef<Input> inputs, const Body &body) {
  Location loc = NameLoc::get(StringAttr::get(&context, "test"));
  SmallVector<Type> types;
  for (const Input &input : inputs)
    types.push_back(getTensorType(dims(input.shape), elementType(input.type)));
  OpBuilder b = OpBuilder::atBlockEnd(module->getBody());
  auto function =
      func::FuncOp::create(b, loc, "f" + std::to_string(module->getBody()->getOperations().size()),
                           b.getFunctionType(types, {}));
  Block *entry = function.addEntryBlock();
  // The body first, in a block of its own, as the result types come out of it.
  auto block = std::make_unique<Block>();
  for (Type type : types)
    block->addArgument(type, loc);
  b.setInsertionPointToStart(block.get());
  TrainBuilder tb(b, loc);
  Values results = body(tb, block->getArguments());
  YieldOp::create(b, loc, results);
  b.setInsertionPointToStart(entry);
  auto fusion = FusionOp::create(b, loc, TypeRange(ValueRange(results)), entry->getArguments());
  fusion.getBody().push_back(block.release());
  func::ReturnOp::create(b, loc);
  return fusion;
}

LoadedKernels::LoadedKernels(const std::vector<char> &bytes) {
  fd = memfd_create("kernels", 0);
  EXPECT_EQ(write(fd, bytes.data(), bytes.size()), ssize_t(bytes.size()));
  handle = dlopen(("/proc/self/fd/" + std::to_string(fd)).c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_TRUE(handle) << dlerror();
}
LoadedKernels::~LoadedKernels() {
  if (handle)
    dlclose(handle);
  // Not earlier: the loader takes an equal path for the same object.
  close(fd);
}
void *LoadedKernels::find(const std::string &name) const { return dlsym(handle, name.c_str()); }

std::vector<StringRef> cpuLevels() {
  std::vector<StringRef> levels;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
    levels.push_back("x86-64-v3");
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
    levels.push_back("x86-64-v4");
  return levels;
}

namespace {

/// Memory that ends at an unmapped page: a read or write past the end stops the test, unless the
/// alignment leaves a gap.
class GuardedBuffer {
public:
  explicit GuardedBuffer(size_t bytes, size_t alignment = 1)
      : bytes(bytes), gap((alignment - bytes % alignment) % alignment) {
    size_t page = sysconf(_SC_PAGESIZE);
    mapped = (bytes + gap + 64 + page - 1) / page * page + page;
    base = static_cast<char *>(
        mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base + mapped - page, page, PROT_NONE);
    begin = base + mapped - page - gap - bytes;
    std::memset(base, 0x5A, mapped - page);
  }
  ~GuardedBuffer() { munmap(base, mapped); }
  GuardedBuffer(const GuardedBuffer &) = delete;
  /// Whether the bytes before and behind the buffer still have their pattern.
  bool isIntact() const {
    auto isPattern = [](char byte) { return byte == 0x5A; };
    return std::all_of(begin - 64, begin, isPattern) &&
           std::all_of(begin + bytes, begin + bytes + gap, isPattern);
  }
  size_t bytes, gap, mapped;
  char *base, *begin;
};

size_t bytesOf(Type element) {
  return element.isInteger(1) ? 1 : element.getIntOrFloatBitWidth() / 8;
}

bool isLow(Type element) { return element.isF16() || element.isBF16(); }

llvm::APFloat rounded(Type element, double value) {
  llvm::APFloat result(value);
  bool inexact;
  result.convert(cast<FloatType>(element).getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven,
                 &inexact);
  return result;
}

void put(void *memory, Type element, size_t i, double value) {
  if (element.isF32())
    static_cast<float *>(memory)[i] = float(value);
  else if (element.isF64())
    static_cast<double *>(memory)[i] = value;
  else if (isLow(element))
    static_cast<uint16_t *>(memory)[i] = rounded(element, value).bitcastToAPInt().getZExtValue();
  else if (element.isInteger(64))
    static_cast<int64_t *>(memory)[i] = int64_t(value);
  else if (element.isInteger(32))
    static_cast<int32_t *>(memory)[i] = int32_t(value);
  else
    static_cast<int8_t *>(memory)[i] = int8_t(value);
}
double get(const void *memory, Type element, size_t i) {
  if (element.isF32())
    return static_cast<const float *>(memory)[i];
  if (element.isF64())
    return static_cast<const double *>(memory)[i];
  if (isLow(element)) {
    llvm::APInt bits(16, static_cast<const uint16_t *>(memory)[i]);
    return llvm::APFloat(cast<FloatType>(element).getFloatSemantics(), bits).convertToDouble();
  }
  if (element.isInteger(64))
    return double(static_cast<const int64_t *>(memory)[i]);
  if (element.isInteger(32))
    return static_cast<const int32_t *>(memory)[i];
  return static_cast<const int8_t *>(memory)[i];
}

struct Context {
  void *scratch;
  int64_t *error;
};

/// One set of sizes: inputs, expected results, and runs of the kernel.
class Trial {
public:
  Trial(FusionOp fusion, ArrayRef<Input> inputs, const Symbols &sizes, unsigned seed)
      : fusion(fusion) {
    for (auto &[name, value] : sizes)
      symbols.values[name] = value;
    std::mt19937 random(seed);
    for (auto [input, value] : llvm::zip_equal(inputs, fusion.getInputs())) {
      Type element = getElementType(value);
      reference::HostTensors::value_type tensor =
          reference::makeTensor(*reference::evaluateShape(value.getType(), symbols));
      std::uniform_real_distribution<double> real(input.low, input.high);
      std::uniform_int_distribution<int64_t> whole(int64_t(input.low), int64_t(input.high));
      for (double &x : tensor.data) {
        x = isa<FloatType>(element) ? real(random) : double(whole(random));
        if (element.isF32())
          x = float(x);
        if (isLow(element))
          x = rounded(element, x).convertToDouble();
        if (element.isInteger(1))
          x = random() & 1;
      }
      arguments.push_back(std::move(tensor));
    }
    auto results = reference::evaluateBlock(fusion.getBody().front(), arguments, symbols);
    EXPECT_TRUE(succeeded(results)) << "reference failed";
    if (succeeded(results))
      expected = std::move(*results);
  }

  int64_t evaluate(DimAttr dim) {
    auto value = symbols.evaluate(dim);
    EXPECT_TRUE(succeeded(value)) << dim.str();
    return succeeded(value) ? *value : 0;
  }

  /// Inputs, results and what the kernel's buffers are; `shared` puts a result into an input's
  /// buffer.
  struct Memory {
    std::vector<std::unique_ptr<GuardedBuffer>> buffers;
    std::vector<void *> pointers;
  };
  Memory allocate(std::optional<std::pair<unsigned, unsigned>> shared, size_t alignment) {
    Memory memory;
    auto &[buffers, pointers] = memory;
    for (auto [tensor, value] : llvm::zip_equal(arguments, fusion.getInputs())) {
      Type element = getElementType(value);
      buffers.push_back(
          std::make_unique<GuardedBuffer>(tensor.data.size() * bytesOf(element), alignment));
      for (size_t i = 0; i < tensor.data.size(); ++i)
        put(buffers.back()->begin, element, i, tensor.data[i]);
      pointers.push_back(buffers.back()->begin);
    }
    for (auto [number, value] : llvm::enumerate(fusion.getResults())) {
      if (shared && shared->second == number) {
        pointers.push_back(pointers[shared->first]);
        continue;
      }
      buffers.push_back(std::make_unique<GuardedBuffer>(
          expected[number].data.size() * bytesOf(getElementType(value)), alignment));
      pointers.push_back(buffers.back()->begin);
    }
    return memory;
  }
  /// Whether the kernel has something to report: conditions of reports are results, too.
  bool tells() {
    bool any = false;
    auto results = fusion.getBody().front().getTerminator()->getOperands();
    fusion.getBody().walk([&](Operation *op) {
      if (!op->hasAttr(kReportsAttr))
        return;
      auto result = llvm::find(results, op->getOperand(0));
      ASSERT_NE(result, results.end());
      any |= llvm::any_of(expected[result - results.begin()].data,
                          [](double value) { return value != 0; });
    });
    return any;
  }
  /// Bytes of every result, after a run.
  std::vector<std::vector<char>> collect(const Memory &memory, const int64_t *error) {
    EXPECT_EQ(error[0], 0);
    EXPECT_EQ(error[3], tells());
    for (auto &buffer : memory.buffers)
      EXPECT_TRUE(buffer->isIntact());
    std::vector<std::vector<char>> results;
    for (auto [number, value] : llvm::enumerate(fusion.getResults())) {
      char *begin = static_cast<char *>(memory.pointers[arguments.size() + number]);
      results.emplace_back(begin,
                           begin + expected[number].data.size() * bytesOf(getElementType(value)));
    }
    return results;
  }

  /// `kernels`: one a stage.
  std::vector<std::vector<char>> run(ArrayRef<Kernel *> kernels, const codegen::KernelInfo &info,
                                     int split,
                                     std::optional<std::pair<unsigned, unsigned>> shared = {}) {
    Memory memory = allocate(shared, /*alignment=*/1);
    // Guarded as well: what stages leave for each other lies within.
    std::vector<void *> table = memory.pointers;
    if (info.temporaryBytes) {
      memory.buffers.push_back(std::make_unique<GuardedBuffer>(evaluate(info.temporaryBytes), 64));
      table.push_back(memory.buffers.back()->begin);
    }
    std::vector<int64_t> dims;
    for (DimAttr dim : info.dims)
      dims.push_back(evaluate(dim));
    int64_t error[4] = {0, 0, 0, 0};
    for (auto [kernel, stage] : llvm::zip_equal(kernels, info.stages)) {
      int64_t work = evaluate(stage.work);
      size_t bytes = evaluate(stage.scratchBytes);
      // The runtime's scratch is aligned to 64 bytes and so not always flush with the page.
      GuardedBuffer scratch((bytes + 63) / 64 * 64);
      Context context{scratch.begin, error};
      if (split == 0) {
        kernel(table.data(), dims.data(), 0, work, &context);
      } else {
        for (int64_t end = work; end > 0; end -= split)
          kernel(table.data(), dims.data(), std::max<int64_t>(0, end - split), end, &context);
      }
    }
    return collect(memory, error);
  }

  std::vector<std::vector<char>>
  runOnGpu(EmulatedKernels &kernels, const codegen::KernelInfo &info, bool backwards,
           std::optional<std::pair<unsigned, unsigned>> shared = {}) {
    constexpr size_t kAlignment = 256;
    Memory memory = allocate(shared, kAlignment);
    std::vector<int64_t> parameters;
    auto pass = [&](void *pointer) { parameters.push_back(reinterpret_cast<intptr_t>(pointer)); };
    for (void *pointer : memory.pointers)
      pass(pointer);
    if (info.temporaryBytes) {
      memory.buffers.push_back(
          std::make_unique<GuardedBuffer>(evaluate(info.temporaryBytes), kAlignment));
      pass(memory.buffers.back()->begin);
    }
    for (DimAttr dim : info.dims)
      parameters.push_back(evaluate(dim));
    int64_t error[4] = {0, 0, 0, 0};
    pass(error);
    for (const codegen::KernelStage &stage : info.stages)
      kernels.launch(stage.name, evaluate(stage.work), stage.grain, parameters, backwards);
    return collect(memory, error);
  }

  void compare(const std::vector<std::vector<char>> &results, double tolerance) {
    for (auto [number, value] : llvm::enumerate(fusion.getResults())) {
      Type element = getElementType(value);
      const auto &want = expected[number].data;
      for (size_t i = 0; i < want.size(); ++i) {
        double got = get(results[number].data(), element, i);
        if (std::isnan(want[i]) ? std::isnan(got)
                                : got == want[i] || std::fabs(got - want[i]) <=
                                                        tolerance * (1 + std::fabs(want[i])))
          continue;
        ADD_FAILURE() << "result " << number << " element " << i << " of " << want.size() << ": "
                      << got << ", expected " << want[i];
        break;
      }
    }
  }

  FusionOp fusion;
  SymbolValues symbols;
  SmallVector<HostTensor> arguments;
  reference::HostTensors expected;
};

} // namespace

/// Calls `check` with a trial for each of `sizes`, until one has failed.
static void forEachTrial(FusionOp fusion, ArrayRef<Input> inputs, ArrayRef<Symbols> sizes,
                         const std::string &machine, llvm::function_ref<void(Trial &)> check) {
  unsigned seed = 1;
  for (const Symbols &values : sizes) {
    std::string trace = machine;
    for (auto &[name, value] : values)
      trace += " " + name + "=" + std::to_string(value);
    SCOPED_TRACE(trace);
    Trial trial(fusion, inputs, values, seed++);
    if (!testing::Test::HasFailure())
      check(trial);
    if (testing::Test::HasFailure())
      return;
  }
}

static void checkOnCpu(FusionHarness &harness, FusionOp fusion, ArrayRef<Input> inputs,
                       ArrayRef<Symbols> sizes, double tolerance) {
  codegen::CpuCodegen codegen(harness.context);
  FailureOr<codegen::KernelInfo> info = codegen.add(fusion);
  ASSERT_TRUE(succeeded(info));
  if (getenv("TRAINC_TEST_PRINT"))
    codegen.getModule().dump();
  std::vector<StringRef> levels = cpuLevels();
  auto objects = codegen.emitSharedObjects(levels);
  ASSERT_TRUE(succeeded(objects));
  for (auto [level, object] : llvm::zip_equal(levels, *objects)) {
    LoadedKernels loaded(object);
    std::vector<Kernel *> kernels;
    for (const codegen::KernelStage &stage : info->stages) {
      kernels.push_back(reinterpret_cast<Kernel *>(loaded.find(stage.name)));
      ASSERT_TRUE(kernels.back());
    }
    forEachTrial(fusion, inputs, sizes, level.str(), [&](Trial &trial) {
      auto results = trial.run(kernels, *info, 0);
      trial.compare(results, tolerance);
      for (int split : {1, 3})
        EXPECT_TRUE(trial.run(kernels, *info, split) == results) << "split into items of " << split;
      for (auto pair : info->inPlace)
        EXPECT_TRUE(trial.run(kernels, *info, 1, pair) == results)
            << "result " << pair.second << " in place of input " << pair.first;
    });
  }
}

static void checkOnGpu(FusionHarness &harness, FusionOp fusion, ArrayRef<Input> inputs,
                       ArrayRef<Symbols> sizes, double tolerance) {
  codegen::GpuOptions options;
  options.variants = true;
  codegen::GpuCodegen codegen(harness.context, options);
  FailureOr<codegen::KernelInfo> info = codegen.add(fusion);
  ASSERT_TRUE(succeeded(info));
  if (getenv("TRAINC_TEST_PRINT"))
    codegen.getModule().dump();
  EmulatedKernels kernels(codegen.getModule());
  if (testing::Test::HasFailure())
    return;
  forEachTrial(fusion, inputs, sizes, "cuda", [&](Trial &trial) {
    auto results = trial.runOnGpu(kernels, *info, /*backwards=*/false);
    trial.compare(results, tolerance);
    EXPECT_TRUE(trial.runOnGpu(kernels, *info, /*backwards=*/true) == results) << "backwards";
    for (auto pair : info->inPlace)
      EXPECT_TRUE(trial.runOnGpu(kernels, *info, false, pair) == results)
          << "result " << pair.second << " in place of input " << pair.first;
    // Their sums have another order.
    for (const codegen::KernelStage &variant : info->stages.front().variants) {
      SCOPED_TRACE(variant.name);
      codegen::KernelInfo other = *info;
      other.stages = {variant};
      auto found = trial.runOnGpu(kernels, other, /*backwards=*/false);
      trial.compare(found, tolerance);
      EXPECT_TRUE(trial.runOnGpu(kernels, other, /*backwards=*/true) == found) << "backwards";
    }
  });
}

void checkGpuFusion(ArrayRef<Input> inputs, const FusionHarness::Body &body,
                    ArrayRef<Symbols> sizes, double tolerance) {
  FusionHarness harness;
  FusionOp fusion = harness.build(inputs, body);
  ASSERT_TRUE(succeeded(fusion.verify()));
  checkOnGpu(harness, fusion, inputs, sizes, tolerance);
}

void checkFusion(ArrayRef<Input> inputs, const FusionHarness::Body &body, ArrayRef<Symbols> sizes,
                 double tolerance) {
  FusionHarness harness;
  FusionOp fusion = harness.build(inputs, body);
  ASSERT_TRUE(succeeded(fusion.verify()));
  // CPU kernels neither read nor write the narrow types.
  bool isNarrow =
      llvm::any_of(llvm::concat<const Type>(fusion.getInputs().getTypes(), fusion.getResultTypes()),
                   [](Type type) { return isLow(getElementTypeOrSelf(type)); });
  if (!isNarrow)
    checkOnCpu(harness, fusion, inputs, sizes, tolerance);
  if (!testing::Test::HasFailure())
    checkOnGpu(harness, fusion, inputs, sizes, tolerance);
}

} // namespace trainc::test
