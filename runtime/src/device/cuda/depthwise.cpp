// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/depthwise.h: which calls they do, how they are cut into
// blocks, loading and launching them. How they are cut depends on sizes alone, and so do the bits.

#include "device/cuda/depthwise.h"

#include "device/cuda/kernels/embedded_kernels.h"

#include <algorithm>
#include <climits>

namespace trainrt::cuda {

namespace {

constexpr unsigned blockThreads = 128;
/// Filters of a block, at most; those that add up partial sums need less.
constexpr int mostShared = blockThreads * depthwiseVector(7) * 7 * 7 * 4;
int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int taps(const ConvolutionCall &call) { return int(call.taps[0]); }

const char *typeName(DType type) {
  return type == DType::BF16 ? "BF16" : type == DType::F16 ? "F16" : "F32";
}

/// Pieces of an image that threads slide down. The rows above and below one are read once more: few
/// beside its own, which are enough pieces.
struct Pieces {
  Pieces(const ConvolutionCall &call, const int64_t (&positions)[3])
      : chunks(ceilDiv(positions[0], std::max(4 * taps(call), 16))),
        rows(ceilDiv(positions[0], chunks)), tiles(ceilDiv(positions[1], depthwiseColumns)) {}
  int64_t chunks, rows, tiles;
};

/// Threads that sum up a filter's gradient, of all parts together: what is resident on a large GPU.
int64_t summingThreads(const ConvolutionCall &call) { return taps(call) == 3 ? 67584 : 50688; }

} // namespace

std::pair<DepthwiseArguments, DepthwiseGrid> depthwiseLaunch(const ConvolutionCall &call) {
  const bool backward = call.kind == Convolution::Kind::Data;
  const auto &source = backward ? call.windows : call.positions;
  const auto &result = backward ? call.positions : call.windows;
  DepthwiseArguments args;
  args.channels = int32_t(call.channels);
  args.sourceRows = int32_t(source[0]), args.sourceColumns = int32_t(source[1]);
  args.resultRows = int32_t(result[0]), args.resultColumns = int32_t(result[1]);
  // Seen from the input, windows begin so many positions before.
  args.padRows = int32_t(backward ? taps(call) - 1 - call.pads[0] : call.pads[0]);
  args.padColumns = int32_t(backward ? taps(call) - 1 - call.pads[1] : call.pads[1]);
  const Pieces pieces(call, result);
  args.chunks = int32_t(pieces.chunks);
  args.rows = int32_t(pieces.rows);
  const int64_t vector = depthwiseVector(taps(call)), vectors = call.channels / vector;
  const int64_t filters = std::min<int64_t>(vectors, blockThreads) * vector * taps(call) *
                          taps(call) * int64_t(sizeOf(call.dtype));
  return {args,
          {unsigned(call.batch * args.chunks),
           unsigned(ceilDiv(pieces.tiles * vectors, blockThreads)), blockThreads,
           unsigned(filters)}};
}

std::pair<DepthwiseSumsArguments, DepthwiseGrid> depthwiseSumsLaunch(const ConvolutionCall &call) {
  DepthwiseSumsArguments args;
  args.channels = int32_t(call.channels);
  args.inputRows = int32_t(call.positions[0]), args.inputColumns = int32_t(call.positions[1]);
  args.outputRows = int32_t(call.windows[0]), args.outputColumns = int32_t(call.windows[1]);
  args.padRows = int32_t(call.pads[0]), args.padColumns = int32_t(call.pads[1]);
  const Pieces pieces(call, call.windows);
  args.rows = int32_t(pieces.rows);
  args.chunks = int32_t(pieces.chunks);
  args.tiles = int32_t(pieces.tiles);
  // A warp's lanes at most side by side, so that few are idle; the rest of a block are other
  // pieces.
  const int64_t vector = depthwiseVector(taps(call)), vectors = call.channels / vector;
  const int64_t blocks = ceilDiv(vectors, 32), lanes = ceilDiv(vectors, blocks);
  const int64_t threads = blockThreads / lanes * lanes;
  const int64_t all = call.batch * pieces.chunks * pieces.tiles;
  // Each of them has a piece for all threads, if there are so many.
  const int64_t parts = std::clamp(summingThreads(call) / (blocks * threads), int64_t(1),
                                   ceilDiv(all, threads / lanes));
  args.allPieces = int32_t(all);
  args.partPieces = int32_t(ceilDiv(all, parts));
  args.lanes = int32_t(lanes);
  return {args,
          {unsigned(ceilDiv(all, args.partPieces)), unsigned(blocks), unsigned(threads),
           unsigned(lanes * vector * taps(call) * taps(call) * 4)}};
}

std::pair<DepthwiseTotalArguments, DepthwiseGrid>
depthwiseTotalLaunch(const ConvolutionCall &call) {
  DepthwiseTotalArguments args;
  args.channels = int32_t(call.channels);
  args.taps = taps(call) * taps(call);
  args.parts = int32_t(depthwiseSumsLaunch(call).second.x);
  return {args,
          {unsigned(ceilDiv(call.channels * args.taps, depthwiseTotals)), 1,
           depthwiseTotals * depthwiseAdders, depthwiseTotals * depthwiseAdders * 4}};
}

int64_t depthwiseSumsBytes(const ConvolutionCall &call) {
  return int64_t(depthwiseSumsLaunch(call).second.x) * taps(call) * taps(call) * call.channels * 4;
}

class Depthwise::Plan final : public ConvolutionPlan {
public:
  Plan(const Driver &driver, const Kernels &kernels, const ConvolutionCall &call, std::string key)
      : driver(driver), kernels(kernels), call(call), name(std::move(key)) {}

  std::string key() const override { return name; }
  uint64_t workspaceBytes() const override {
    return call.kind == Convolution::Kind::Filter ? uint64_t(depthwiseSumsBytes(call)) : 0;
  }
  Status enqueue(StreamHandle stream, const ConvolutionOperands &operands,
                 Workspace workspace) const override {
    // Slices of a loop lie anywhere.
    for (DeviceAddress address : {operands.input, operands.filter, operands.output})
      if (address % 16)
        return fail(Code::Unsupported, "a convolution with a filter for each channel needs "
                                       "operands that begin at multiples of 16 bytes. Compile "
                                       "with --no-library-convolutions");
    if (workspace.bytes < workspaceBytes())
      return fail(Code::Internal, "a convolution needs ", workspaceBytes(),
                  " bytes of workspace and got ", workspace.bytes);
    if (call.kind == Convolution::Kind::Filter) {
      auto [sums, grid] = depthwiseSumsLaunch(call);
      sums.input = operands.input, sums.output = operands.output, sums.sums = workspace.address;
      TRAINRT_TRY(start(kernels.sums, sums, grid, stream));
      auto [total, totalGrid] = depthwiseTotalLaunch(call);
      total.sums = workspace.address, total.filter = operands.filter;
      return start(kernels.total, total, totalGrid, stream);
    }
    const bool backward = call.kind == Convolution::Kind::Data;
    auto [args, grid] = depthwiseLaunch(call);
    args.source = backward ? operands.output : operands.input;
    args.result = backward ? operands.input : operands.output;
    args.filter = operands.filter;
    return start(backward ? kernels.data : kernels.forward, args, grid, stream);
  }

private:
  template <typename Arguments>
  Status start(CUfunction function, Arguments &args, const DepthwiseGrid &grid,
               StreamHandle stream) const {
    void *parameters[] = {&args};
    return driver.check(driver.cuLaunchKernel(function, grid.x, grid.y, 1, grid.threads, 1, 1,
                                              grid.shared, static_cast<CUstream>(stream),
                                              parameters, nullptr),
                        "cannot start the runtime's kernel for a filter for each channel");
  }

  const Driver &driver;
  const Kernels &kernels;
  const ConvolutionCall call;
  const std::string name;
};

Status Depthwise::load(std::unique_ptr<Depthwise> &depthwise) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<Depthwise> made(new Depthwise(*driver));
  CUdevice device = 0;
  int major = 0;
  TRAINRT_TRY(driver->check(driver->cuCtxGetDevice(&device), "cannot find the current GPU"));
  TRAINRT_TRY(driver->check(
      driver->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device),
      "cannot ask for the properties of the GPU"));
  if (major >= 8)
    for (const char *type : {"BF16", "F16", "F32"})
      for (const char *taps : {"3", "5", "7"})
        if (std::string name = std::string("depthwise_") + type + "_" + taps; hasEmbedded(name))
          made->kernels[name];
  depthwise = std::move(made);
  return {};
}

Depthwise::~Depthwise() {
  for (auto &[name, each] : kernels)
    if (each.module)
      driver.cuModuleUnload(each.module);
}

bool Depthwise::fits(const ConvolutionCall &call) {
  const int64_t size = call.taps[0];
  if (call.axes != 2 || (size != 3 && size != 5 && size != 7) || call.groups != call.channels ||
      call.filters != call.channels || call.channels % 4 ||
      (call.dtype != DType::F32 && call.dtype != DType::BF16 && call.dtype != DType::F16))
    return false;
  int64_t most = 1;
  for (size_t i = 0; i < call.axes; ++i) {
    if (call.taps[i] != size || call.strides[i] != 1 || call.dilations[i] != 1 ||
        call.pads[i] >= size)
      return false;
    most = std::max({most, call.positions[i], call.windows[i]});
  }
  // Numbers of rows and pieces are of 32 bits, and a grid's second axis has 16.
  return most <= INT_MAX / std::max<int64_t>(call.batch, 1) / 2 &&
         most * call.channels / depthwiseVector(int(size)) <= int64_t(65535) * blockThreads;
}

bool Depthwise::isQuicker(const ConvolutionCall &call) {
  const bool manyTaps = taps(call) > 3;
  if (call.dtype == DType::F32)
    return manyTaps;
  return call.kind != Convolution::Kind::Filter;
}

Status Depthwise::prepare(const ConvolutionCall &call, const std::string &key,
                          std::shared_ptr<const ConvolutionPlan> &plan) {
  const std::string name =
      std::string("depthwise_") + typeName(call.dtype) + "_" + std::to_string(taps(call));
  Kernels &found = kernels.find(name)->second;
  {
    std::lock_guard lock(found.mutex);
    if (!found.total)
      TRAINRT_TRY(load(name, found));
  }
  plan = std::make_shared<Plan>(driver, found, call, key);
  return {};
}

/// Under the kernels' mutex. Where it fails the next call goes on with what there is.
Status Depthwise::load(const std::string &name, Kernels &found) const {
  const std::string what =
      "cannot load the runtime's kernels for a filter for each channel (" + name + ")";
  if (!found.module)
    TRAINRT_TRY(loadEmbedded(driver, name, what, found.module));
  // The last one tells that all are there.
  for (auto [function, entry] : {std::pair{&found.forward, "trainrt_forward"},
                                 {&found.data, "trainrt_data"},
                                 {&found.sums, "trainrt_sums"},
                                 {&found.total, "trainrt_total"}}) {
    TRAINRT_TRY(
        driver.check(driver.cuModuleGetFunction(function, found.module, entry), what.c_str()));
    // This also makes the driver load what it would else load at the first launch, which must not
    // be while a graph is captured.
    TRAINRT_TRY(
        driver.check(driver.cuFuncSetAttribute(
                         *function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, mostShared),
                     what.c_str()));
  }
  return {};
}

} // namespace trainrt::cuda
