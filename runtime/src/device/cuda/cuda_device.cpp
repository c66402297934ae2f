// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Memory, graphs and runs of a GPU.

#include "device/cuda/cuda_device.h"

#include "device/cuda/compiled_plan.h"
#include "device/cuda/device.h"
#include "device/cuda/graph.h"
#include "device/cuda/tuning/tuning_subjects.h"
#include "format/memory/arena_plan.h"
#include "io/convert.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace trainrt::cuda {

namespace {
constexpr int64_t alignment = cudaPlanAlignment;
} // namespace

/// Of the slots of the function that has most commands.
static int64_t errorSlotBytes(const Program &program) {
  size_t most = 1;
  for (const Function &function : program.functions)
    most = std::max(most, function.commands.size());
  return padded(int64_t(most * sizeof(ErrorSlot)), alignment);
}

/// Without a GPU: from the program and the plan alone. Functions share their blocks, so the largest
/// counts; staging is there twice, for two runs in turn.
void addEstimate(const Program &program, const ExecutionPlan &plan, MemoryUse &use) {
  use.inputs = std::max(use.inputs, 2 * padded(layOutStaging(program, plan).bytes, alignment));
  int64_t scratch = errorSlotBytes(program);
  for (const Constant &constant : program.constants)
    scratch += padded(int64_t(constant.data.size()), alignment);
  // At most what a library may ask for.
  std::vector<int64_t> workspaces;
  for (const ExecutionPlan::Step &step : plan.steps)
    workspaces.push_back(
        plan.visit(step, [](const auto &, const auto &view) { return workspaceLimit(view); }));
  use.scratch = std::max(use.scratch, scratch + mostBytesOfWorkspaces(plan, workspaces, alignment));
}

Status createDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
                    Device::AddressOf addressOf, std::unique_ptr<Device> &device) {
  std::unique_ptr<Context> context;
  const bool isRank = options.ranks && options.ranks->world() > 1;
  TRAINRT_TRY(Context::open(options.ordinal, context)
                  .within(isRank ? "rank " + std::to_string(options.ranks->rank()) +
                                       " needs a GPU of its own: "
                                 : std::string()));
  auto created = std::make_unique<CudaDevice>(std::move(package), options, std::move(addressOf),
                                              std::move(context));
  TRAINRT_TRY(created->start(options));
  device = std::move(created);
  return {};
}

CudaDevice::CudaDevice(std::shared_ptr<const Package> package, const DeviceOptions &options,
                       AddressOf addressOf, std::unique_ptr<Context> opened)
    : Device(std::move(package), options.threads, std::move(addressOf)), context(std::move(opened)),
      driver(context->driver()), synchronous(options.synchronous), observer(options.observer),
      runs(static_cast<CUstream>(options.stream)), libraries(std::make_unique<Libraries>()),
      transfers(*context, *pool) {}

/// Once, before anything else. Where it fails the destructor takes down what there is by then.
Status CudaDevice::start(const DeviceOptions &options) {
  CurrentContext current = context->makeCurrent();
  TRAINRT_TRY(measured(codeBytes, [&] { return Kernels::load(*context, *package, kernels); }));
  if (!runs) {
    TRAINRT_TRY(
        driver.check(driver.cuStreamCreate(&runs, CU_STREAM_NON_BLOCKING), "cannot make a stream"));
    ownStream = true;
  }
  // A caller's stream may be the default one, which cannot be captured.
  for (CUstream *other : {&uploadStream, &captureStream, &besideStream, &transferStream})
    TRAINRT_TRY(
        driver.check(driver.cuStreamCreate(other, CU_STREAM_NON_BLOCKING), "cannot make a stream"));
  const int64_t slotBytes = errorSlotBytes(package->program());
  TRAINRT_TRY(reports.allocate(*context, int64_t(numReports * sizeof(Report)), "results"));
  TRAINRT_TRY(errors.allocate(*context, int64_t(numReports) * slotBytes, "results"));
  std::memset(reports.data(), 0, size_t(reports.size()));
  for (Underway &run : underway)
    TRAINRT_TRY(run.done.create(*context, CU_EVENT_DISABLE_TIMING));
  for (Upload &upload : uploads)
    TRAINRT_TRY(upload.done.create(*context, CU_EVENT_DISABLE_TIMING));
  TRAINRT_TRY(ordered.create(*context, CU_EVENT_DISABLE_TIMING));
  TRAINRT_TRY(allocate(slotBytes, "error slots", true, errorSlots));

  int64_t bytes = 0;
  const std::vector<Constant> &list = package->program().constants;
  for (const Constant &constant : list) {
    constantOffsets.push_back(bytes);
    bytes += padded(int64_t(constant.data.size()), alignment);
  }
  TRAINRT_TRY(allocate(bytes, "constants", false, constants));
  for (size_t i = 0; i < list.size(); ++i)
    TRAINRT_TRY(write(constants.data() + constantOffsets[i], int64_t(list[i].data.size()),
                      [&](unsigned char *to, int64_t begin, int64_t end) {
                        std::memcpy(to, list[i].data.data() + begin, size_t(end - begin));
                      }));
  TRAINRT_TRY(joinRanks(options.ranks));
  return adoptTuning();
}

CudaDevice::~CudaDevice() {
  CurrentContext current = context->makeCurrent();
  drain();
  // Within the context; the members' own destructors find nothing left to do there. (Plans, whose
  // library calls refer to the libraries, are gone.)
  exchange.reset();
  libraries.reset();
  kernels.reset();
  transfers.release();
  reports.release();
  errors.release();
  hostArena.release();
  for (Upload &upload : uploads)
    upload = {};
  for (Underway &run : underway)
    run = {};
  // Events go before the context may.
  marks.clear();
  ordered = {};
  for (DeviceMemory *block :
       {&arena, &outputBlock, &staging[0], &staging[1], &constants, &errorSlots, &exchangeBlock})
    block->release();
  // Last: releasing memory waits for the stream.
  if (ownStream)
    driver.cuStreamDestroy(runs);
  for (CUstream other : {uploadStream, captureStream, besideStream, transferStream, exchangeStream})
    if (other)
      driver.cuStreamDestroy(other);
}

/// Sets one of the two at most; memory of another GPU is refused.
Status CudaDevice::locate(ArrayView &array) const {
  array.onDevice = array.pinned = false;
  if (!array.data)
    return {};
  if (hostBlocks.contain(array.data, array.bytes)) {
    array.pinned = true;
    return {};
  }
  CurrentContext current = context->makeCurrent();
  // Memory that the driver does not know has type 0 and is the host's.
  unsigned type = 0;
  int ordinal = -1;
  int attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
  void *values[] = {&type, &ordinal};
  TRAINRT_TRY(driver.check(driver.cuPointerGetAttributes(2, attributes, values, at(array.data)),
                           "cannot ask where an array lies"));
  if (type != CU_MEMORYTYPE_DEVICE)
    return {};
  if (ordinal != context->ordinal())
    return fail(Code::InvalidArgument, "the array lies on GPU ", ordinal, ", the session is on ",
                context->name());
  array.onDevice = true;
  return {};
}

/// What comes to `later` from now on waits for all that `earlier` has by now; the host waits for
/// nothing. Null is the default stream.
Status CudaDevice::order(CUstream earlier, CUstream later) {
  auto handle = [](CUstream stream) { return stream ? stream : CU_STREAM_LEGACY; };
  if (handle(earlier) == handle(later))
    return {};
  CurrentContext current = context->makeCurrent();
  CUresult result = driver.cuEventRecord(ordered.get(), earlier);
  if (result == CUDA_SUCCESS)
    result = driver.cuStreamWaitEvent(later, ordered.get(), 0);
  return driver.check(result, "cannot put the session's stream in order with the caller's");
}

Status CudaDevice::allocateHost(int64_t bytes, void *&memory) {
  CurrentContext current = context->makeCurrent();
  return hostBlocks.allocate(*context, bytes, memory);
}

void CudaDevice::releaseHost(void *memory) {
  CurrentContext current = context->makeCurrent();
  hostBlocks.release(memory);
}

//===- memory -----------------------------------------------------------------===//

Status CudaDevice::outOfMemory(const std::string &what) const {
  size_t free = 0, total = 0;
  driver.cuMemGetInfo(&free, &total);
  std::string sizes;
  for (const auto &[name, bytes] : held)
    if (bytes)
      sizes += (sizes.empty() ? "" : ", ") + name + " " + bytesText(uint64_t(bytes));
  return fail(
      Code::OutOfMemory, context->name(), " has no memory for ", what, ": ", bytesText(free),
      " of ", bytesText(total), " are free", sizes.empty() ? "" : "; held so far: " + sizes,
      "\nuse a smaller --batch-size with --accumulate, or shorter sequences; compiling with "
      "--recompute or --precision bf16 needs less, too; `nvidia-smi` shows other processes "
      "on the GPU");
}

/// -1 where the driver does not say.
int64_t CudaDevice::freeMemory() const {
  CurrentContext current = context->makeCurrent();
  size_t free = 0, total = 0;
  return driver.cuMemGetInfo(&free, &total) == CUDA_SUCCESS ? int64_t(free) : -1;
}

/// Graphs that only save copies of inputs go first, if there is too little without: each turn gives
/// some of them up, or ends.
Status CudaDevice::checkRoom(int64_t more, const std::string &what) {
  size_t free = 0, total = 0;
  do
    TRAINRT_TRY(driver.check(driver.cuMemGetInfo(&free, &total), "cannot ask for free memory"));
  while (more > 0 && size_t(more) > free && dropDirectGraphs());
  return more <= 0 || size_t(more) <= free ? Status() : outOfMemory(what);
}

/// Where a run has failed in the middle, its exchanges may be under way alone; and what waits for a
/// rank that is lost, or never comes, would wait for ever.
void CudaDevice::drain() {
  for (Underway &run : underway)
    if (run.plan && driver.cuEventQuery(run.done.get()) == CUDA_ERROR_NOT_READY)
      run.lost = awaitRanks(run.done, *std::exchange(run.plan, nullptr));
  for (CUstream stream : {runs, exchangeStream}) {
    if (!stream)
      continue;
    if (exchange && driver.cuEventRecord(ordered.get(), stream) == CUDA_SUCCESS)
      if (const Status status = ordered.awaitWhile([&] { return exchange->check(); }); !status.ok())
        exchange->abort(status);
    driver.cuStreamSynchronize(stream);
  }
}

/// The block keeps the context alive. It counts in `held` under its name, for messages, and in
/// `heldBytes`, for `measured`.
Status CudaDevice::allocateBytes(int64_t bytes, const char *what, bool zeroed,
                                 std::shared_ptr<unsigned char> &data) {
  CurrentContext current = context->makeCurrent();
  CUdeviceptr memory = 0;
  // Kernels may read, but not use, what follows a buffer in its last block of 256 bytes.
  CUresult result = CUDA_SUCCESS;
  const int64_t whole = padded(exchange ? exchange->blockBytes(bytes) : bytes, alignment);
  do
    result = driver.cuMemAlloc(&memory, size_t(whole));
  while (result == CUDA_ERROR_OUT_OF_MEMORY && dropDirectGraphs());
  if (result == CUDA_ERROR_OUT_OF_MEMORY)
    return outOfMemory("the " + std::string(what) + " (" + bytesText(uint64_t(bytes)) + ")");
  TRAINRT_TRY(driver.check(result, "cannot get memory"));
  data = {reinterpret_cast<unsigned char *>(memory), [where = context](unsigned char *block) {
            CurrentContext current = where->makeCurrent();
            where->free(reinterpret_cast<DeviceAddress>(block));
          }};
  if (zeroed)
    TRAINRT_TRY(clear(data.get(), bytes));
  held[what] += bytes;
  heldBytes += bytes;
  blocks[data.get()] = {what, bytes};
  return {};
}

/// Waits for runs: they may use the block.
void CudaDevice::releaseBytes(const unsigned char *data, int64_t bytes) {
  CurrentContext current = context->makeCurrent();
  drain();
  auto block = blocks.find(data);
  held[block->second.name] -= bytes;
  heldBytes -= bytes;
  blocks.erase(block);
  if (exchange)
    exchange->release(at(data));
}

/// What the driver takes by itself while `make` runs: the free memory that went, but for the
/// device's own blocks. Other processes count, too, so it is an estimate.
Status CudaDevice::measured(int64_t &bytes, const std::function<Status()> &make) {
  size_t before = 0, after = 0, total = 0;
  const int64_t heldBefore = heldBytes;
  driver.cuMemGetInfo(&before, &total);
  Status status = make();
  driver.cuMemGetInfo(&after, &total);
  bytes += std::max<int64_t>(0, int64_t(before) - int64_t(after) - (heldBytes - heldBefore));
  return status;
}

/// The time counts as waiting, not as work of the host.
CUresult CudaDevice::await(const Event &event) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  CUresult result = driver.cuEventSynchronize(event.get());
  waited += std::chrono::duration<double>(Clock::now() - start).count();
  return result;
}

/// Another block, not a longer one: what it held is gone, and plans that know the old address are
/// of an older generation.
Status CudaDevice::grow(DeviceMemory &block, int64_t bytes, const char *what) {
  if (bytes <= block.size())
    return {};
  ++generation;
  return allocate(bytes, what, false, block);
}

Status CudaDevice::growHostArena(int64_t bytes) {
  if (bytes <= hostArena.size())
    return {};
  ++generation;
  // Runs of before may be under way.
  drain();
  Status status = hostArena.allocate(*context, bytes, "activations that --offload moves there");
  return status.ok() ? status
                     : fail(status.code(), Lines{status.message()},
                            "; compile with --offload=SIZE for less, or use a smaller batch");
}

/// Enqueued behind the runs so far, as `copy` and `clear` are: copies that the host has of values
/// are true no longer. `source` is not needed afterwards.
Status CudaDevice::write(void *to, int64_t bytes, const Source &source) {
  CurrentContext current = context->makeCurrent();
  transfers.forget();
  return transfers.upload(at(to), bytes, source, runs);
}

Status CudaDevice::copy(void *to, const void *from, int64_t bytes) {
  CurrentContext current = context->makeCurrent();
  transfers.forget();
  return bytes == 0 ? Status()
                    : driver.check(driver.cuMemcpyDtoDAsync(at(to), at(from), size_t(bytes), runs),
                                   "cannot copy within the GPU");
}

Status CudaDevice::clear(void *to, int64_t bytes) {
  CurrentContext current = context->makeCurrent();
  transfers.forget();
  return bytes == 0 ? Status()
                    : driver.check(driver.cuMemsetD8Async(at(to), 0, size_t(bytes), runs),
                                   "cannot clear memory");
}

/// Valid until the next run, write, copy or clear.
Status CudaDevice::view(const void *from, int64_t bytes, const void *&host) {
  CurrentContext current = context->makeCurrent();
  return transfers.view(at(from), bytes, runs, host);
}

void CudaDevice::addMemory(MemoryUse &use) const {
  use.arena += arena.size();
  use.arenaLowerBound = arenaLowerBound;
  use.inputs += staging[0].size() + staging[1].size();
  use.outputs += outputBlock.size();
  use.scratch += constants.size() + errorSlots.size() + tableBytes + exchangeBlock.size();
  use.pinned += hostArena.size();
  use.driver += codeBytes + graphBytes;
}

//===- plans ------------------------------------------------------------------===//

/// Made once; addresses are resolved anew whenever a block has moved since.
Status CudaDevice::prepare(const ExecutionPlan &plan) {
  auto *compiled = static_cast<Compiled *>(plan.compiled.get());
  if (compiled && compiled->generation == generation)
    return {};
  CurrentContext current = context->makeCurrent();
  if (!compiled) {
    auto made = std::make_unique<Compiled>(*this, plan);
    const Status prepared = measured(codeBytes, [&] {
      return made->commands.prepare(*kernels, *libraries, exchange.get(), *pool);
    });
    if (libraries->hasDnn())
      context->keep(); // cuDNN's handles are never destroyed
    TRAINRT_TRY(prepared.within("function '" + plan.function->name + "', "));
    made->parts = made->commands.parts(/*beside=*/exchangeStream != nullptr);
    // Only now is known what the chosen algorithms need.
    made->arena = layOutWorkspaces(plan, made->commands.workspaces(), alignment);
    compiled = made.get();
    plan.compiled = std::move(made);
  }
  return ready(*compiled, plan);
}

/// First the room for all, then the blocks, then tables and graphs: an address is final when it is
/// written down.
Status CudaDevice::ready(Compiled &compiled, const ExecutionPlan &plan) {
  const int64_t arenaBytes = compiled.arena.bytes;
  const int64_t exchangeBytes = compiled.commands.stagingBytes();
  // All of it is asked for at once, so that the message says what the step needs.
  int64_t more = 0;
  std::string needs;
  for (auto [block, bytes, name] : {std::tuple{&arena, arenaBytes, "activations"},
                                    std::tuple{&outputBlock, plan.outputBytes, "outputs"},
                                    std::tuple{&staging[0], compiled.layout.bytes, "inputs"},
                                    std::tuple{&staging[1], compiled.layout.bytes, "next inputs"},
                                    std::tuple{&exchangeBlock, exchangeBytes, "exchanges"}}) {
    if (block == &exchangeBlock && !bytes)
      continue;
    // Only what is beyond the block that is there: the message tells all, the check asks for the
    // rest.
    more += std::max<int64_t>(0, bytes - block->size());
    needs += (needs.empty() ? "" : ", ") + std::string(name) + " " + bytesText(uint64_t(bytes));
  }
  TRAINRT_TRY(checkRoom(more, "function '" + plan.function->name + "' (" + needs + ")"));
  // The bound that is told is that of the plan which decides on the size.
  if (arenaBytes >= arena.size())
    arenaLowerBound = compiled.arena.lowerBound;
  TRAINRT_TRY(grow(arena, arenaBytes, "activations"));
  TRAINRT_TRY(grow(outputBlock, plan.outputBytes, "outputs"));
  for (DeviceMemory &block : staging)
    TRAINRT_TRY(grow(block, compiled.layout.bytes, "inputs"));
  // No graph refers to it; without it no plan may stage where it was.
  if (exchangeBytes > exchangeBlock.size())
    if (const Status got = allocate(exchangeBytes, "exchanges", false, exchangeBlock); !got.ok()) {
      ++generation;
      return got;
    }
  if (exchange)
    exchange->stageAt(at(exchangeBlock.data()), exchangeBlock.size());
  TRAINRT_TRY(growHostArena(plan.hostBytes));
  // Commands that run one by one need no graphs, and know one side only.
  const bool captures = !synchronous && !observer;
  if (captures)
    compiled.dropGraphs();
  for (unsigned side = 0; side < (captures ? 2u : 1u); ++side) {
    TRAINRT_TRY(resolve(compiled, plan, side, {}, compiled.tables[side]));
    if (!captures)
      continue;
    int64_t taken = 0;
    Status status = measured(taken, [&] { return capture(compiled, plan, compiled.graphs[side]); });
    compiled.graphBytes += taken;
    graphBytes += taken;
    if (!status.ok()) {
      compiled.dropGraphs(); // there may be one of the two
      return status;
    }
  }
  compiled.generation = generation;
  ++built;
  return {};
}

/// The commands know one set of addresses at a time: who wants a graph of them captures it before
/// the next `resolve`. The tables go to `block`, in order with the runs.
Status CudaDevice::resolve(Compiled &compiled, const ExecutionPlan &plan, unsigned side,
                           const InputAddresses &inputs, DeviceMemory &block) {
  const std::vector<unsigned char> &tables = compiled.commands.groupTables();
  if (block.size() < int64_t(tables.size())) {
    TRAINRT_TRY(allocate(int64_t(tables.size()), "launch tables", false, block));
    tableBytes += block.size();
  }
  compiled.commands.resolve(
      [&](uint32_t index) { return addressOfBuffer(compiled, plan, index, side, inputs); },
      addressesOfWorkspaces(compiled), at(errorSlots.data()), at(block.data()));
  if (tables.empty())
    return {};
  return write(block.data(), int64_t(tables.size()),
               [&](unsigned char *to, int64_t begin, int64_t end) {
                 std::memcpy(to, tables.data() + begin, size_t(end - begin));
               });
}

std::vector<DeviceAddress> CudaDevice::addressesOfWorkspaces(const Compiled &compiled) const {
  std::vector<DeviceAddress> addresses;
  for (int64_t offset : compiled.arena.workspaces)
    addresses.push_back(at(arena.data()) + DeviceAddress(offset));
  return addresses;
}

/// `inputs`: where the batch itself is read; empty, or 0 for an input, where staging is.
DeviceAddress CudaDevice::addressOfBuffer(const Compiled &compiled, const ExecutionPlan &plan,
                                          uint32_t index, unsigned side,
                                          const InputAddresses &inputs) const {
  const Buffer &buffer = plan.function->buffers[index];
  switch (buffer.space) {
  case Space::Arena:
    return at(arena.data()) + DeviceAddress(compiled.arena.offsets[index]);
  case Space::Host:
    return at(hostArena.data()) + DeviceAddress(plan.bufferOffsets[index]);
  case Space::Output:
    return at(outputBlock.data()) + DeviceAddress(plan.bufferOffsets[index]);
  case Space::Input:
    return !inputs.empty() && inputs[buffer.index]
               ? inputs[buffer.index]
               : at(staging[side].data()) + DeviceAddress(compiled.layout.inputs[buffer.index]);
  case Space::Hyper:
    return at(staging[side].data()) + DeviceAddress(compiled.layout.hypers[buffer.index]);
  case Space::Constant:
    return at(constants.data()) + DeviceAddress(constantOffsets[buffer.index]);
  default:
    return at(addressOf(buffer.space, buffer.index));
  }
}

/// What is made by the time that one fails stays in `made`, for the caller to drop.
Status CudaDevice::capture(Compiled &compiled, const ExecutionPlan &plan, Graphs &made) {
  for (const Commands::Part &part : compiled.parts) {
    made.push_back(nullptr);
    if (!part.isCollective)
      TRAINRT_TRY(
          capture(compiled.commands, part, "function '" + plan.function->name + "'", made.back()));
  }
  return {};
}

/// The events live until the capture has ended.
Status CudaDevice::capture(const Commands &commands, const Commands::Part &part,
                           const std::string &where, CUgraphExec &made) {
  TRAINRT_TRY(
      driver.check(driver.cuStreamBeginCapture(captureStream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                   "cannot capture a graph"));
  std::vector<Event> events;
  Status status = enqueueLanes(*context, commands, part,
                               {captureStream, besideStream, transferStream}, where, events);
  // Ended whatever has happened: the stream would go on capturing.
  CUgraph graph = nullptr;
  CUresult ended = driver.cuStreamEndCapture(captureStream, &graph);
  if (status.ok())
    status = driver.check(ended, ("cannot capture " + where).c_str());
  if (status.ok())
    status = instantiate(*context, graph, /*asBody=*/!commands.hasTransfers(part),
                         ("cannot make a graph of " + where).c_str(), made);
  if (graph)
    driver.cuGraphDestroy(graph);
  // The first launch then costs no more than later ones.
  if (status.ok())
    status = driver.check(driver.cuGraphUpload(made, runs),
                          ("cannot load the graph of " + where).c_str());
  return status;
}

//===- runs -------------------------------------------------------------------===//

Status CudaDevice::stage(const Run &run, const Compiled &compiled) {
  // The run before may be under way, but the one before it is done, and with it this turn's block.
  Upload &upload = uploads[turn];
  const StagingLayout &layout = compiled.layout;
  const Program &program = package->program();
  if (std::exchange(upload.busy, false))
    TRAINRT_TRY(driver.check(await(upload.done), "the batch could not be copied to the GPU"));
  if (layout.bytes > upload.memory.size())
    TRAINRT_TRY(upload.memory.allocate(*context, layout.bytes, "inputs"));
  TRAINRT_TRY(fillStaging(program, layout, run, *pool, upload.memory.data()));
  auto send = [&](const StagingLayout::Part &part) {
    const void *from = part.from ? part.from : upload.memory.data() + part.offset;
    return driver.check(driver.cuMemcpyHtoDAsync(at(staging[turn].data() + part.offset), from,
                                                 size_t(part.bytes), uploadStream),
                        "cannot copy the batch");
  };
  for (const StagingLayout::Part &part : partsToSend(program, layout, run))
    TRAINRT_TRY(send(part));
  if (!layout.bytes)
    return {};
  TRAINRT_TRY(driver.check(driver.cuEventRecord(upload.done.get(), uploadStream),
                           "cannot record an event"));
  upload.busy = true;
  return driver.check(driver.cuStreamWaitEvent(runs, upload.done.get(), 0),
                      "cannot wait for the batch");
}

/// Runs take the two sides in turn, so that the next batch can come while a run reads its own.
Status CudaDevice::enqueue(Run &run, Ticket &ticket) {
  const ExecutionPlan &plan = run.plan;
  const Function &function = *plan.function;
  auto &compiled = static_cast<Compiled &>(*plan.compiled);
  const int64_t total = int64_t(plan.steps.size());
  // Nobody waits for what has been started and is given up: a bad index that it meets is no later
  // run's.
  auto cancelled = [&] {
    TRAINRT_TRY(clear(errorSlots.data(), errorSlots.size()));
    return Status(Code::Cancelled, "cancelled");
  };
  if (run.stop && run.stop(0, total))
    return cancelled();
  CurrentContext current = context->makeCurrent();
  transfers.forget();
  if (!synchronous && !observer)
    turn ^= 1;
  TRAINRT_TRY(fault(stage(run, compiled), function));
  run.began = true;
  const Graphs *graphs = nullptr;
  TRAINRT_TRY(fault(bindInputs(run, compiled, graphs), function));
  mayRepeat = run.mayRepeat;
  TRAINRT_TRY(launch(plan, compiled, *graphs, run.alone, ticket));
  return run.stop && run.stop(total, total) ? cancelled() : Status();
}

/// On the same side, which still has the batch.
Status CudaDevice::repeat(Ticket &ticket) {
  assert(mayRepeat && "its inputs were copied");
  CurrentContext current = context->makeCurrent();
  const auto &compiled = static_cast<const Compiled &>(*lastPlan->compiled);
  return launch(*lastPlan, compiled, compiled.graphs[turn], /*alone=*/false, ticket);
}

Status CudaDevice::fillWithNumbers(DeviceAddress to, int64_t bytes) {
  if (bytes <= 0)
    return {};
  std::vector<uint32_t> numbers(size_t(std::min<int64_t>(bytes, 1 << 20)) / 4);
  // As bf16 and f32 between 2^-7 and 2^-5 of either sign, as f16 between 1 and 1.25.
  uint32_t random = 1;
  for (uint32_t &number : numbers) {
    random = random * 1664525 + 1013904223;
    number = ((random >> 8) & 0x80ff80ff) | 0x3c003c00;
  }
  int64_t done = int64_t(numbers.size()) * 4;
  TRAINRT_TRY(write(reinterpret_cast<void *>(to), done,
                    [&](unsigned char *block, int64_t begin, int64_t end) {
                      std::memcpy(block, reinterpret_cast<unsigned char *>(numbers.data()) + begin,
                                  size_t(end - begin));
                    }));
  while (done < bytes) {
    const int64_t more = std::min(done, bytes - done);
    TRAINRT_TRY(copy(reinterpret_cast<void *>(to + DeviceAddress(done)),
                     reinterpret_cast<void *>(to), more));
    done += more;
  }
  return {};
}

Status CudaDevice::tune(const std::vector<const ExecutionPlan *> &plans, double seconds,
                        TuningResult &result) {
  // The memory of the first may move while the others are prepared.
  for (int pass = 0; pass < 2; ++pass)
    for (const ExecutionPlan *plan : plans)
      TRAINRT_TRY(prepare(*plan));
  CurrentContext current = context->makeCurrent();
  auto commandsOf = [](const ExecutionPlan &plan) -> const Commands & {
    return static_cast<const Compiled &>(*plan.compiled).commands;
  };
  int64_t lasting = 0;
  for (const ExecutionPlan *plan : plans)
    lasting = std::max(lasting, lastingBytes(commandsOf(*plan), *plan));
  DeviceMemory spare, space, slot;
  TRAINRT_TRY(allocate(lasting, "tuning", false, spare));
  TRAINRT_TRY(
      allocate(libraries->hasDnn() ? convolutionWorkspaceLimit : int64_t(gemmWorkspaceLimit),
               "tuning", false, space));
  TRAINRT_TRY(allocate(alignment, "tuning", true, slot));
  TRAINRT_TRY(fillWithNumbers(at(spare.data()), spare.size()));
  TRAINRT_TRY(fillWithNumbers(at(arena.data()), arena.size()));
  TuningSubjects found(
      *kernels, package->program(), *libraries,
      {at(spare.data()), at(slot.data()), {at(space.data()), uint64_t(space.size())}});
  for (const ExecutionPlan *plan : plans)
    found.add(commandsOf(*plan), *plan);
  std::vector<Subject> subjects;
  TRAINRT_TRY(found.get(subjects));
  if (subjects.empty())
    return fail(Code::Unsupported, "there is nothing to tune: the step has no matmuls, and "
                                   "no kernels that were compiled with --tune-variants");
  Tuner tuner(*context, runs, captureStream);
  TRAINRT_TRY(tuner.start());
  return tuner.tune(subjects, seconds, result);
}

/// Choices of other machines are no error: they are left out, with a remark.
Status CudaDevice::adoptTuning() {
  const Tuning &tuning = package->tuning();
  std::string products;
  TRAINRT_TRY(libraries->adopt(tuning, products));
  const bool usesKernels = tuning.count(kernels->machine());
  if (tuning.empty() || tuning.count(products) || (products.empty() && usesKernels))
    return {};
  std::string others;
  for (const auto &[machine, choices] : tuning)
    others += (others.empty() ? "'" : ", '") + machine + "'";
  remark = "the package was tuned for " + others + "; here is '" +
           (products.empty() ? kernels->machine() : products) + "', so " +
           (usesKernels ? "its matmuls run" : "it runs") + " as if it were not tuned";
  return {};
}

Status CudaDevice::launch(const ExecutionPlan &plan, const Compiled &compiled, const Graphs &graphs,
                          bool alone, Ticket &ticket) {
  const Function &function = *plan.function;
  lastPlan = &plan;
  if (synchronous || (observer && observer->reads())) {
    TRAINRT_TRY(runSynchronously(plan, compiled, alone));
  } else if (observer) {
    TRAINRT_TRY(runTimed(plan, compiled, alone));
  } else {
    TRAINRT_TRY(fault(launchParts(plan, compiled, graphs, alone), function));
  }

  // What is told of a run is copied behind it, on its stream, to the place of its ticket.
  ticket = nextTicket++;
  Underway &run = underway[ticket % numReports];
  Report *report = reinterpret_cast<Report *>(reports.data()) + ticket % numReports;
  run.function = &function;
  run.plan = compiled.exchanges() && !alone ? &plan : nullptr;
  run.lost = {};
  auto fetch = [&](void *to, const void *from, size_t size) {
    return driver.check(driver.cuMemcpyDtoHAsync(to, at(from), size, runs),
                        "cannot copy the results");
  };
  // The report is read when the run has ended, but what is in it is decided now.
  run.told.locate(plan, package->program(), package->lossOutput(), package->gradNormOutput());
  TRAINRT_TRY(run.told.fetch(report->numbers, [&](void *to, int64_t offset, size_t size) {
    return fetch(to, outputBlock.data() + offset, size);
  }));
  if ((run.hasFlag = compiled.hasFlag))
    TRAINRT_TRY(
        fetch(&report->nonfinite, addressOf(Space::State, uint32_t(package->nonfiniteState())), 4));
  TRAINRT_TRY(fetch(fetchedErrors(ticket), errorSlots.data(),
                    function.commands.size() * sizeof(ErrorSlot)));
  return driver.check(driver.cuEventRecord(run.done.get(), runs), "cannot record an event");
}

/// Of several bad indices that of the first command is told. Slots with something in them are
/// cleared behind all that is under way.
Status CudaDevice::wait(Ticket ticket, Result &result) {
  result = {};
  Underway &run = underway[ticket % numReports];
  CurrentContext current = context->makeCurrent();
  if (run.plan)
    run.lost = awaitRanks(run.done, *std::exchange(run.plan, nullptr));
  TRAINRT_TRY(run.lost);
  TRAINRT_TRY(fault(driver.check(await(run.done), "it did not end"), *run.function));
  const Report *report = reinterpret_cast<const Report *>(reports.data()) + ticket % numReports;
  const ErrorSlot *slots = fetchedErrors(ticket);
  const std::vector<Command> &commands = run.function->commands;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < commands.size(); ++i) {
    if (slots[i].taken) {
      Status status = badIndex(commands[i], slots[i].position, slots[i].value);
      TRAINRT_TRY(clear(errorSlots.data(), errorSlots.size()));
      return status;
    }
    if (!slots[i].number)
      continue;
    // What a run before has told stays in its slot until it is cleared: it is told once.
    numbers.push_back(i);
    if (ticket != toldBefore.ticket ||
        !std::binary_search(toldBefore.commands.begin(), toldBefore.commands.end(), i))
      result.numbers.push_back({&commands[i], uint64_t(slots[i].number)});
  }
  if (!result.numbers.empty()) {
    // The next run, if it is under way, began with these slots.
    if (nextTicket > ticket + 1)
      toldBefore = {ticket + 1, std::move(numbers)};
    TRAINRT_TRY(clear(errorSlots.data(), errorSlots.size()));
  }
  run.told.read(report->numbers, result);
  result.nonfinite = run.hasFlag && report->nonfinite != 0;
  return {};
}

/// Errors of other kinds stay as they are.
Status CudaDevice::fault(const Status &status, const Function &function) const {
  if (status.code() != Code::DeviceError)
    return status;
  return fail(Code::DeviceError, context->name(), ", function '", function.name,
              "': ", Lines{status.message()},
              synchronous ? ""
                          : "\nthe session cannot go on; running it again with --sync (in the C "
                            "API: `synchronous`) tells which kernel it was");
}

} // namespace trainrt::cuda
