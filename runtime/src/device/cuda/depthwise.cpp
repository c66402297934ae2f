// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernels of device/cuda/kernels/depthwise.h: which calls they do, how they are cut into
// blocks, loading and launching them. How they are cut depends on sizes alone, and so do the bits.

#include "device/cuda/depthwise.h"

#include "device/cuda/kernels/embedded_kernels.h"

#include <algorithm>
#include <climits>

namespace trainrt::cuda {

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }
int taps(const ConvolutionCall &call) { return int(call.taps[0]); }
int bytes(const ConvolutionCall &call) { return int(sizeOf(call.dtype)); }

const char *typeName(DType type) {
  return type == DType::BF16 ? "BF16" : type == DType::F16 ? "F16" : "F32";
}

/// Blocks that a large GPU runs at once. Where parts begin depends on sizes alone, not on the GPU.
constexpr int64_t residentBlocks = 132;

/// Rows of the source that a block reads for `lines` rows of the result, at most: with those above
/// and below, for each image again.
int64_t mostSteps(int64_t lines, const DepthwiseArguments &args, int taps, bool sums) {
  const DepthwiseReads whole(args, taps, sums, 0, args.resultRows);
  const int64_t images = ceilDiv(lines - 1, args.resultRows) + 1,
                ends = std::min<int64_t>(images, 2);
  return lines + ends * (taps - 1) + (images - ends) * (whole.end - whole.begin - args.resultRows);
}
/// Rows of the result of a part, where there are `columns` blocks for each: few turns of all that
/// are resident, and few rows that are read once more.
int64_t chooseLines(const DepthwiseArguments &args, int taps, bool sums, int64_t columns) {
  int64_t best = 1, bestCost = INT64_MAX;
  for (int64_t turns = 1; turns <= 8; ++turns) {
    const int64_t parts =
        std::clamp(residentBlocks * turns / columns, int64_t(1), int64_t(args.lines));
    int64_t each = ceilDiv(args.lines, parts);
    while (each > 1 && mostSteps(each, args, taps, sums) > depthwiseSteps)
      --each;
    const int64_t blocks = ceilDiv(args.lines, each) * columns;
    // What a block does once is as long as some rows take.
    const int64_t cost = ceilDiv(blocks, residentBlocks) * (mostSteps(each, args, taps, sums) + 8);
    if (cost < bestCost)
      best = each, bestCost = cost;
  }
  return best;
}

DepthwiseArguments geometry(const ConvolutionCall &call, const int64_t (&source)[3],
                            const int64_t (&result)[3]) {
  const bool backward = call.kind == Convolution::Kind::Data;
  DepthwiseArguments args;
  args.images = int32_t(call.batch);
  args.channels = int32_t(call.channels);
  args.sourceRows = int32_t(source[0]), args.sourceColumns = int32_t(source[1]);
  args.resultRows = int32_t(result[0]), args.resultColumns = int32_t(result[1]);
  // Seen from the input, windows begin so many positions before.
  args.padRows = int32_t(backward ? taps(call) - 1 - call.pads[0] : call.pads[0]);
  args.padColumns = int32_t(backward ? taps(call) - 1 - call.pads[1] : call.pads[1]);
  while ((depthwiseColumns << args.tilesShift) < result[1] &&
         1 << args.tilesShift < depthwiseStrips)
    ++args.tilesShift;
  args.columnBlocks = int32_t(ceilDiv(result[1], depthwiseColumns << args.tilesShift));
  args.places = depthwisePlaces(bytes(call), args.tilesShift);
  args.lines = int32_t(ceilDiv(call.batch, depthwiseStrips >> args.tilesShift) * args.resultRows);
  args.partLines =
      int32_t(chooseLines(args, taps(call), call.kind == Convolution::Kind::Filter,
                          ceilDiv(call.channels, depthwiseChannels) * args.columnBlocks));
  return args;
}
DepthwiseGrid grid(const ConvolutionCall &call, const DepthwiseArguments &args, bool sums) {
  return {unsigned(ceilDiv(args.lines, args.partLines)),
          unsigned(ceilDiv(call.channels, depthwiseChannels) * args.columnBlocks), depthwiseThreads,
          unsigned(depthwiseSharedBytes(bytes(call), taps(call), args.tilesShift, sums))};
}
int64_t parts(const ConvolutionCall &call) {
  const auto [args, grid] = depthwiseSumsLaunch(call);
  return int64_t(grid.x) * args.columnBlocks;
}

} // namespace

std::pair<DepthwiseArguments, DepthwiseGrid> depthwiseLaunch(const ConvolutionCall &call) {
  const bool backward = call.kind == Convolution::Kind::Data;
  const DepthwiseArguments args = geometry(call, backward ? call.windows : call.positions,
                                           backward ? call.positions : call.windows);
  return {args, grid(call, args, false)};
}

std::pair<DepthwiseArguments, DepthwiseGrid> depthwiseSumsLaunch(const ConvolutionCall &call) {
  const DepthwiseArguments args = geometry(call, call.positions, call.windows);
  return {args, grid(call, args, true)};
}

std::pair<DepthwiseTotalArguments, DepthwiseGrid>
depthwiseTotalLaunch(const ConvolutionCall &call) {
  DepthwiseTotalArguments args;
  args.channels = int32_t(call.channels);
  args.taps = taps(call) * taps(call);
  args.parts = int32_t(parts(call));
  return {args,
          {unsigned(ceilDiv(call.channels * args.taps, depthwiseTotals)), 1,
           depthwiseTotals * depthwiseAdders, depthwiseTotals * depthwiseAdders * 4}};
}

int64_t depthwiseSumsBytes(const ConvolutionCall &call) {
  return parts(call) * taps(call) * taps(call) * call.channels * 4;
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
      sums.source = operands.input, sums.result = operands.output;
      sums.filter = workspace.address;
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
  TRAINRT_TRY(driver->check(
      driver->cuDeviceGetAttribute(&made->mostShared,
                                   CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, device),
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
  for (size_t i = 0; i < call.axes; ++i)
    if (call.taps[i] != size || call.strides[i] != 1 || call.dilations[i] != 1 ||
        call.pads[i] >= size)
      return false;
  // Numbers of rows, and of positions of the images that a block has at once, are of 32 bits; a
  // grid's second axis has 16.
  for (const auto &axes : {call.positions, call.windows})
    if (axes[0] > INT_MAX / std::max<int64_t>(call.batch, 1) ||
        axes[1] > INT_MAX / depthwiseStrips / std::max<int64_t>(axes[0], 1) ||
        ceilDiv(axes[1], depthwiseResults) * ceilDiv(call.channels, depthwiseChannels) > 65535)
      return false;
  return call.channels <= INT_MAX / 4 / (size * size);
}

bool Depthwise::takes(const ConvolutionCall &call) const {
  if (kernels.empty() || !fits(call))
    return false;
  const bool sums = call.kind == Convolution::Kind::Filter;
  const auto [args, grid] = sums ? depthwiseSumsLaunch(call) : depthwiseLaunch(call);
  return grid.shared <= unsigned(mostShared);
}

bool Depthwise::isQuicker(const ConvolutionCall &call) {
  // cuDNN has kernels for small images.
  return call.kind != Convolution::Kind::Forward || call.dtype == DType::F32 || taps(call) > 3 ||
         call.windows[1] >= 64;
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
