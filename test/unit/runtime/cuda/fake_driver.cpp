// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The fake CUDA driver: streams are queues of closures that run when somebody waits for them or
// asks how far they are. Several threads may use it, each with streams of its own. A graph runs in
// an order that its edges allow and that is as far from that of the calls as can be, so that a
// missing edge gives wrong numbers.

#include "fake_driver.h"
#include "device/cuda/driver.h"
#include "device/cuda/kernels/peer_sums.h"
#include "device/cuda/kernels/rank_sums.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <elf.h>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace trainrt::cuda;

namespace {

constexpr CUresult illegalAddress = 700, notFound = 500, invalidValue = 1, invalidImage = 200,
                   notSupported = 801, peerAccessUnsupported = 217;

struct Kernel {
  void (*run)(const uint64_t *parameters, unsigned blocks, unsigned threads);
  std::string name;
  size_t parameters = 0;
  size_t words = 1; ///< of each
};

/// Where it is `ready`, or always, it may `run`.
struct Work {
  std::function<void()> run;
  std::function<bool()> ready = nullptr;
  bool isReady() const { return !ready || ready(); }
};

/// Of all that follows, but what is not a thread's own: waiting releases it.
std::recursive_mutex driverMutex;

/// Work of a graph, and the numbers of what must be done before it.
struct Node {
  Work work;
  std::vector<size_t> before;
};
using Graph = std::vector<Node>;

struct Stream {
  const std::thread::id owner = std::this_thread::get_id();
  std::deque<Work> queue;
  /// The stream whose capture this one is a part of; itself where it began.
  Stream *capture = nullptr;
  Graph captured;
  /// What the next node captured here comes after.
  std::vector<size_t> frontier;
  /// Captured here since the capturing stream last waited for it.
  bool unjoined = false;
};

/// A place on a stream.
struct Mark {
  Stream *stream = nullptr;
  bool done = false;
  double time = 0;
};

struct Event {
  Stream *stream = nullptr;
  std::vector<size_t> frontier; ///< of a mark in a graph
  std::shared_ptr<Mark> mark;   ///< of the last record
};

constexpr CUresult unjoinedCapture = 904;

FakeCuda state{9,         0,       1, size_t(1) << 30,
               227 << 10, nullptr, 0, 0,
               0,         0,       0, 0,
               0,         0,       0, 0,
               0,         0,       0, 0,
               0,         0,       0, 0,
               0,         0,       0};
/// Whoever checks a batch asks for these while another thread allocates.
std::mutex memoryMutex;
std::map<uint64_t, size_t> blocks;
std::map<uint64_t, size_t> offered; ///< of them, for others to open: bytes that are exported
std::map<uint64_t, int> opened;     ///< by so many
std::map<CUgraphExec, size_t> graphs;
std::vector<Stream *> streams;
std::deque<Kernel> kernels;
CUresult sticky = CUDA_SUCCESS;
/// Milliseconds that work has taken so far.
double now = 0;

Stream *get(CUstream stream) {
  static Stream defaultStream, threadStream;
  const auto handle = reinterpret_cast<uintptr_t>(stream);
  return handle <= 1   ? &defaultStream
         : handle == 2 ? &threadStream
                       : reinterpret_cast<Stream *>(stream);
}

void enqueue(CUstream handle, Work work) {
  std::lock_guard lock(driverMutex);
  Stream *stream = get(handle);
  stream->unjoined = stream->capture && stream->capture != stream;
  if (!stream->capture)
    return stream->queue.push_back(std::move(work));
  Graph &graph = stream->capture->captured;
  graph.push_back({std::move(work), std::exchange(stream->frontier, {graph.size()})});
}

/// Of what may run, always the last one that was captured.
Graph inWorstOrder(const Graph &graph) {
  Graph ordered;
  std::vector<bool> done(graph.size());
  auto isReady = [&](size_t i) {
    return !done[i] && std::all_of(graph[i].before.begin(), graph[i].before.end(),
                                   [&](size_t earlier) { return done[earlier]; });
  };
  while (ordered.size() < graph.size()) {
    size_t next = graph.size() - 1;
    while (!isReady(next))
      --next;
    done[next] = true;
    ordered.push_back(graph[next]);
  }
  return ordered;
}

/// Runs what may run until `isDone`.
void advance(Stream *stream, const std::function<bool()> &isDone) {
  std::lock_guard lock(driverMutex);
  while (!isDone() && !stream->queue.empty()) {
    if (sticky == CUDA_SUCCESS && !stream->queue.front().isReady())
      return;
    Work work = std::move(stream->queue.front());
    stream->queue.pop_front();
    if (sticky == CUDA_SUCCESS)
      work.run();
  }
}

bool isBusy() {
  return std::any_of(streams.begin(), streams.end(),
                     [](const Stream *stream) { return !stream->queue.empty(); });
}

/// What is not ready waits for other threads.
void runAll(Stream *stream) {
  if (!stream->queue.empty())
    ++state.waits;
  for (advance(stream, [] { return false; }); !stream->queue.empty();
       advance(stream, [] { return false; }))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

} // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT FakeCuda *fakeCuda() { return &state; }

/// For the fake libraries: work that takes so long.
EXPORT void fakeCudaEnqueue(void *stream, double milliseconds, const std::function<void()> *work) {
  enqueue(static_cast<CUstream>(stream), {[milliseconds, work = *work] {
            work();
            now += milliseconds;
          }});
}
/// The same, once it may run; both are called under the driver's lock.
EXPORT void fakeCudaEnqueueWhen(void *stream, const std::function<bool()> *ready,
                                const std::function<void()> *work) {
  enqueue(static_cast<CUstream>(stream), {*work, *ready});
}

EXPORT CUresult cuInit(unsigned) {
  // For processes that cannot reach `fakeCuda`.
  if (const char *memory = std::getenv("FAKE_CUDA_MEMORY"))
    state.memory = size_t(std::strtoull(memory, nullptr, 10));
  if (const char *devices = std::getenv("FAKE_CUDA_DEVICES"))
    state.devices = std::atoi(devices);
  if (const char *kernel = std::getenv("FAKE_CUDA_FAULT"))
    state.faultingKernel = kernel;
  return state.devices ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}
EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = 13000;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorName(CUresult error, const char **text) {
  *text = error == illegalAddress             ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY"
          : error == CUDA_ERROR_NO_DEVICE     ? "CUDA_ERROR_NO_DEVICE"
                                              : "CUDA_ERROR_OTHER";
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGetErrorString(CUresult, const char **text) {
  *text = "in the words of the fake driver";
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetCount(int *count) {
  *count = state.devices;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  *device = ordinal;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char *name, int length, CUdevice) {
  std::strncpy(name, "Fake GPU", size_t(length));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice) {
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR            ? state.major
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR          ? state.minor
           : attribute == CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN ? state.sharedBytes
                                                                                : 4;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  sticky = CUDA_SUCCESS;
  *context = reinterpret_cast<CUcontext>(uintptr_t(device) + 1);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  *device = 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxPushCurrent_v2(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  *context = nullptr;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  *free = state.memory - state.allocated;
  *total = state.memory;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *memory, size_t bytes) {
  std::lock_guard lock(memoryMutex);
  if (bytes > state.memory - state.allocated)
    return CUDA_ERROR_OUT_OF_MEMORY;
  void *block = nullptr;
  if (posix_memalign(&block, 512, bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  std::memset(block, 0xcd, bytes); // what is not written is not zero
  *memory = reinterpret_cast<CUdeviceptr>(block);
  blocks[*memory] = bytes;
  std::atomic_ref(state.allocated) += bytes;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr memory) {
  std::lock_guard lock(memoryMutex);
  std::lock_guard driverLock(driverMutex);
  // Of other ranks' streams the memory is none, and what others write to is no command's.
  for (Stream *stream : streams)
    state.usedWhileBusy += !stream->queue.empty() && !offered.count(memory) &&
                           stream->owner == std::this_thread::get_id();
  auto at = blocks.find(memory);
  if (at == blocks.end())
    return invalidValue;
  state.freedWhileOpen += opened[memory] != 0;
  std::atomic_ref(state.allocated) -= at->second;
  if (auto which = offered.find(memory); which != offered.end()) {
    state.exported -= which->second;
    offered.erase(which);
  }
  std::memset(reinterpret_cast<void *>(memory), 0xdd, at->second);
  std::free(reinterpret_cast<void *>(memory));
  blocks.erase(at);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes, unsigned) {
  return posix_memalign(memory, 512, bytes) ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}
EXPORT CUresult cuMemFreeHost(void *memory) {
  std::free(memory);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t bytes,
                                     CUstream stream) {
  if (bytes && state.failingUpload == bytes) {
    state.failingUpload = 0;
    return peerAccessUnsupported;
  }
  enqueue(stream, {[=] { std::memcpy(reinterpret_cast<void *>(to), from, bytes); }});
  return sticky;
}
EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t bytes, CUstream stream) {
  enqueue(stream, {[=] { std::memcpy(to, reinterpret_cast<const void *>(from), bytes); }});
  return sticky;
}
EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t bytes,
                                     CUstream stream) {
  std::lock_guard lock(driverMutex);
  ++state.copiesWithin;
  enqueue(stream, {[=] {
            std::memcpy(reinterpret_cast<void *>(to), reinterpret_cast<const void *>(from), bytes);
          }});
  return sticky;
}
EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes,
                                CUstream stream) {
  enqueue(stream, {[=] { std::memset(reinterpret_cast<void *>(to), value, bytes); }});
  return sticky;
}
EXPORT CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr at, unsigned value,
                                       unsigned flags) {
  enqueue(stream, {[] {},
                   [=] {
                     const int32_t past = int32_t(*reinterpret_cast<const uint32_t *>(at) - value);
                     return past >= 0;
                   }});
  return flags == CU_STREAM_WAIT_VALUE_GEQ ? sticky : invalidValue;
}
/// Each rank asks once, and has a GPU of its own.
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice) {
  static int last = 0;
  std::lock_guard lock(driverMutex);
  ++last;
  std::memcpy(uuid->bytes, &last, sizeof last);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr memory) {
  std::lock_guard lock(memoryMutex);
  if (auto at = blocks.find(memory); at != blocks.end())
    if (size_t &bytes = offered[memory]; !bytes && state.peers)
      state.exported += bytes = at->second;
  std::memcpy(handle->reserved, &memory, sizeof memory);
  return state.peers ? CUDA_SUCCESS : notSupported;
}
EXPORT CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *memory, CUipcMemHandle handle, unsigned flags) {
  std::scoped_lock lock(driverMutex, memoryMutex);
  if (state.failingOpening && --state.failingOpening == 0)
    return peerAccessUnsupported;
  std::memcpy(memory, handle.reserved, sizeof *memory);
  ++opened[*memory];
  state.openedWhileBusy += isBusy();
  return flags == CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ? CUDA_SUCCESS : invalidValue;
}
EXPORT CUresult cuIpcCloseMemHandle(CUdeviceptr memory) {
  std::scoped_lock lock(driverMutex, memoryMutex);
  --opened[memory];
  state.closedWhileBusy += isBusy();
  return CUDA_SUCCESS;
}
/// What the driver has not given is a block by itself, as tests have some.
EXPORT CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr memory) {
  std::lock_guard lock(memoryMutex);
  auto at = blocks.upper_bound(memory);
  const bool known = at != blocks.begin() && memory < std::prev(at)->first + std::prev(at)->second;
  *base = known ? std::prev(at)->first : memory;
  *bytes = known ? std::prev(at)->second : 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuPointerGetAttributes(unsigned count, int *attributes, void **values,
                                       CUdeviceptr where) {
  std::lock_guard lock(memoryMutex);
  auto at = blocks.upper_bound(where);
  const bool known = at != blocks.begin() && where < std::prev(at)->first + std::prev(at)->second;
  for (unsigned i = 0; i < count; ++i)
    *static_cast<unsigned *>(values[i]) = !known ? 0
                                          : attributes[i] == CU_POINTER_ATTRIBUTE_MEMORY_TYPE
                                              ? unsigned(CU_MEMORYTYPE_DEVICE)
                                              : unsigned(state.ordinalOfMemory);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned) {
  std::lock_guard lock(driverMutex);
  streams.push_back(new Stream());
  *stream = reinterpret_cast<CUstream>(streams.back());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority) {
  return priority == -5 ? cuStreamCreate(stream, flags) : invalidValue;
}
EXPORT CUresult cuStreamDestroy_v2(CUstream handle) {
  std::lock_guard lock(driverMutex);
  Stream *stream = get(handle);
  std::erase(streams, stream);
  delete stream;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  runAll(get(stream));
  return sticky;
}
EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int) {
  get(stream)->capture = get(stream);
  get(stream)->frontier.clear();
  return sticky;
}
EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *graph) {
  std::lock_guard lock(driverMutex);
  Stream *stream = get(handle);
  ++state.captures;
  CUresult result = sticky;
  for (Stream *other : streams)
    if (other->capture == stream) {
      if (other->unjoined)
        result = unjoinedCapture;
      other->capture = nullptr;
      other->unjoined = false;
      other->frontier.clear();
    }
  *graph = reinterpret_cast<CUgraph>(new Graph(std::move(stream->captured)));
  stream->captured.clear();
  return result;
}
EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *executable, CUgraph graph,
                                            unsigned long long) {
  std::lock_guard memoryLock(memoryMutex);
  std::lock_guard lock(driverMutex);
  if (state.failingGraph && --state.failingGraph == 0)
    return CUDA_ERROR_OUT_OF_MEMORY;
  ++state.liveGraphs;
  *executable =
      reinterpret_cast<CUgraphExec>(new Graph(inWorstOrder(*reinterpret_cast<Graph *>(graph))));
  graphs[*executable] = state.graphBytes;
  std::atomic_ref(state.allocated) += state.graphBytes;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned) {
  *graph = reinterpret_cast<CUgraph>(new Graph());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *handle, CUgraph, CUcontext,
                                               unsigned initial, unsigned flags) {
  *handle = 1;
  return initial == 1 && flags == CU_GRAPH_COND_ASSIGN_DEFAULT ? CUDA_SUCCESS : invalidValue;
}
/// Of a condition that always holds: its body is the graph itself.
EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *,
                                  const void *, size_t, CUgraphNodeParams *parameters) {
  static thread_local CUgraph body;
  ++state.bodies;
  body = graph;
  *node = reinterpret_cast<CUgraphNode>(graph);
  parameters->conditional.phGraph_out = &body;
  return parameters->type == CU_GRAPH_NODE_TYPE_CONDITIONAL ? CUDA_SUCCESS : invalidValue;
}
EXPORT CUresult cuGraphAddChildGraphNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *,
                                         size_t, CUgraph child) {
  auto &nodes = *reinterpret_cast<Graph *>(graph);
  const size_t first = nodes.size();
  for (Node added : *reinterpret_cast<Graph *>(child)) {
    for (size_t &earlier : added.before)
      earlier += first;
    nodes.push_back(std::move(added));
  }
  *node = reinterpret_cast<CUgraphNode>(child);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  delete reinterpret_cast<Graph *>(graph);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec executable) {
  std::lock_guard memoryLock(memoryMutex);
  std::lock_guard lock(driverMutex);
  --state.liveGraphs;
  std::atomic_ref(state.allocated) -= graphs[executable];
  graphs.erase(executable);
  delete reinterpret_cast<Graph *>(executable);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuGraphUpload(CUgraphExec, CUstream) { return CUDA_SUCCESS; }
EXPORT CUresult cuGraphLaunch(CUgraphExec executable, CUstream stream) {
  ++state.graphRuns;
  for (const Node &node : *reinterpret_cast<Graph *>(executable))
    enqueue(stream, node.work);
  return sticky;
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned) {
  *event = reinterpret_cast<CUevent>(new Event());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  delete reinterpret_cast<Event *>(event);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuEventRecord(CUevent handle, CUstream stream) {
  Event *event = reinterpret_cast<Event *>(handle);
  event->stream = get(stream);
  // A mark in a graph.
  if (event->stream->capture) {
    event->frontier = event->stream->frontier;
    return sticky;
  }
  event->mark = std::make_shared<Mark>(Mark{event->stream});
  enqueue(stream, {[mark = event->mark] {
            mark->done = true;
            mark->time = now;
          }});
  return sticky;
}
/// Runs what is before the mark on its stream, as far as it may run; whether that is all of it.
static bool reach(const Mark &mark) {
  advance(mark.stream, [&] { return mark.done || sticky != CUDA_SUCCESS; });
  return mark.done || sticky != CUDA_SUCCESS || mark.stream->queue.empty();
}
EXPORT CUresult cuStreamWaitEvent(CUstream handle, CUevent awaited, unsigned) {
  Event *event = reinterpret_cast<Event *>(awaited);
  Stream *stream = get(handle), *from = event->stream;
  if (!from)
    return invalidValue;
  if (!from->capture) {
    enqueue(handle, {[] {}, [mark = event->mark] { return reach(*mark); }});
    return sticky;
  }
  stream->capture = from->capture;
  stream->frontier.insert(stream->frontier.end(), event->frontier.begin(), event->frontier.end());
  if (stream->capture == stream)
    from->unjoined = false;
  return sticky;
}
EXPORT CUresult cuEventSynchronize(CUevent handle) {
  Event *event = reinterpret_cast<Event *>(handle);
  if (!event->mark)
    return sticky;
  state.waits += !event->mark->done;
  while (!reach(*event->mark))
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return sticky;
}
EXPORT CUresult cuEventQuery(CUevent handle) {
  Event *event = reinterpret_cast<Event *>(handle);
  if (!event->mark || reach(*event->mark))
    return sticky;
  return CUDA_ERROR_NOT_READY;
}
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  *milliseconds = float(0.5 + reinterpret_cast<Event *>(end)->mark->time -
                        reinterpret_cast<Event *>(begin)->mark->time);
  return CUDA_SUCCESS;
}

/// Stands for the module of the sums over ranks.
static int rankSums;
static constexpr size_t rankSumsWords = sizeof(RankSumsArguments) / 8;
/// Their parameter is a structure; the grid's second extent comes behind it.
using RankRange = RankSumsArguments::Range;
using OfRange = void (*)(const RankSumsArguments &, const RankRange &, int64_t first, int64_t step);
template <OfRange compute>
static void ofRanges(const uint64_t *parameters, unsigned blocks, unsigned threads) {
  RankSumsArguments args;
  std::memcpy(&args, parameters, sizeof args);
  const int64_t all = int64_t(blocks) * threads;
  for (uint64_t row = parameters[rankSumsWords]; row-- > 0;)
    for (int64_t thread = all; thread-- > 0;)
      compute(args, args.ranges[row], thread, all);
}
template <typename T>
static void addRanks(const RankSumsArguments &args, const RankRange &range, int64_t first,
                     int64_t step) {
  device::addRanks(reinterpret_cast<const T *>(args.pieces), args.stride, args.world, args.rank,
                   reinterpret_cast<const T *>(range.own), reinterpret_cast<T *>(range.sums),
                   range.begin, range.elements, first, step);
}
template <typename From>
static void widen(const RankSumsArguments &, const RankRange &range, int64_t first, int64_t step) {
  device::widenRange<From>(range, first, step);
}
static const std::map<std::string, void (*)(const uint64_t *, unsigned, unsigned)> rankKernels = {
    {"trainrt_rank_sums_f32", &ofRanges<addRanks<float>>},
    {"trainrt_rank_sums_f64", &ofRanges<addRanks<double>>},
    {"trainrt_rank_sums_bf16", &ofRanges<device::addNarrowRanks<trainrt::BFloat16>>},
    {"trainrt_rank_sums_f16", &ofRanges<device::addNarrowRanks<trainrt::Float16>>},
    {"trainrt_widen_bf16", &ofRanges<widen<trainrt::BFloat16>>},
    {"trainrt_widen_f16", &ofRanges<widen<trainrt::Float16>>}};

static void judge(const uint64_t *parameters, unsigned, unsigned threads) {
  VerdictArguments args;
  std::memcpy(&args, parameters, sizeof args);
  for (int64_t thread = threads; thread-- > 0;)
    device::judge(reinterpret_cast<const int64_t *>(args.slots), args.count,
                  reinterpret_cast<float *>(args.verdict), thread, threads);
}

/// Stands for the module of exchanges between ranks, whose parameter is a structure, too.
static int peerSums;
/// Few threads do the work of many.
template <typename Type>
static void combine(const uint64_t *parameters, unsigned blocks, unsigned) {
  constexpr unsigned threads = 4;
  PeerSumsArguments args;
  std::memcpy(&args, parameters, sizeof args);
  if (*reinterpret_cast<const uint32_t *>(args.ended))
    return;
  for (unsigned block = 0; block < blocks; ++block)
    for (unsigned thread = 0; thread < threads; ++thread)
      device::combineRanges<Type>(args, block, thread, threads);
  for (int i = 0; i < args.numSignals && !state.isSilent; ++i)
    *reinterpret_cast<uint32_t *>(args.signals[i]) = uint32_t(args.turn);
}

/// Stands for those of convolutions with a filter for each channel, which nobody runs here: an
/// emulation of thread blocks tests them.
static int depthwise;

EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image, unsigned, int *, void **) {
  std::lock_guard lock(driverMutex);
  // The runtime's own kernels, which are PTX, are emulated.
  if (std::strstr(static_cast<const char *>(image), "trainrt_rank_sums_f32")) {
    *module = reinterpret_cast<CUmodule>(&rankSums);
    return CUDA_SUCCESS;
  }
  if (std::strstr(static_cast<const char *>(image), "trainrt_peer_copy")) {
    *module = reinterpret_cast<CUmodule>(&peerSums);
    return CUDA_SUCCESS;
  }
  if (std::strstr(static_cast<const char *>(image), "trainrt_total")) {
    *module = reinterpret_cast<CUmodule>(&depthwise);
    return CUDA_SUCCESS;
  }
  // Where the section table ends, so does the object.
  Elf64_Ehdr header;
  std::memcpy(&header, image, sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return invalidImage;
  size_t size = header.e_shoff + size_t(header.e_shnum) * header.e_shentsize;
  int descriptor = memfd_create("fake-cubin", 0);
  if (write(descriptor, image, size) != ssize_t(size))
    return invalidImage;
  // The descriptor stays open: a reused number would name this object again.
  void *handle = dlopen(("/proc/self/fd/" + std::to_string(descriptor)).c_str(), RTLD_NOW);
  *module = static_cast<CUmodule>(handle);
  return handle ? CUDA_SUCCESS : invalidImage;
}
EXPORT CUresult cuModuleUnload(CUmodule) { return CUDA_SUCCESS; }
EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  std::lock_guard lock(driverMutex);
  if (module == reinterpret_cast<CUmodule>(&rankSums)) {
    if (std::strstr(name, "verdict"))
      kernels.push_back({&judge, name, 1, sizeof(VerdictArguments) / 8});
    else
      kernels.push_back({rankKernels.at(name), name, 1, rankSumsWords});
    *function = reinterpret_cast<CUfunction>(&kernels.back());
    return CUDA_SUCCESS;
  }
  if (module == reinterpret_cast<CUmodule>(&depthwise)) {
    kernels.push_back({[](const uint64_t *, unsigned, unsigned) {}, name});
    *function = reinterpret_cast<CUfunction>(&kernels.back());
    return CUDA_SUCCESS;
  }
  if (module == reinterpret_cast<CUmodule>(&peerSums)) {
    auto *run = std::strstr(name, "f32")    ? &combine<device::PeerF32>
                : std::strstr(name, "f64")  ? &combine<device::PeerF64>
                : std::strstr(name, "bf16") ? &combine<device::PeerBF16>
                : std::strstr(name, "f16")  ? &combine<device::PeerF16>
                                            : &combine<device::PeerBytes>;
    kernels.push_back({run, name, 1, sizeof(PeerSumsArguments) / 8});
    *function = reinterpret_cast<CUfunction>(&kernels.back());
    return CUDA_SUCCESS;
  }
  void *symbol = dlsym(module, name);
  auto *count =
      static_cast<const int *>(dlsym(module, (std::string(name) + "_parameters").c_str()));
  if (!symbol || !count)
    return notFound;
  kernels.push_back({reinterpret_cast<decltype(Kernel::run)>(symbol), name, size_t(*count)});
  *function = reinterpret_cast<CUfunction>(&kernels.back());
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncGetAttribute(int *value, int, CUfunction) {
  *value = 1024;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuFuncSetAttribute(CUfunction, int, int) { return CUDA_SUCCESS; }
EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned,
                               unsigned blockX, unsigned, unsigned, unsigned, CUstream stream,
                               void **parameters, void **) {
  std::lock_guard lock(driverMutex);
  ++state.launches;
  const Kernel *kernel = reinterpret_cast<const Kernel *>(function);
  std::vector<uint64_t> values;
  for (size_t i = 0; i < kernel->parameters; ++i) {
    const auto *words = static_cast<const uint64_t *>(parameters[i]);
    values.insert(values.end(), words, words + kernel->words);
  }
  values.push_back(gridY);
  enqueue(stream, {[=] {
            if (state.faultingKernel && kernel->name == state.faultingKernel)
              sticky = illegalAddress;
            else
              kernel->run(values.data(), gridX, blockX);
            now += kernel->name.ends_with("_fast") ? 0.1 : 0.2;
          }});
  return sticky;
}
EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra) {
  for (unsigned i = 0; i < config->numAttrs; ++i)
    state.early += config->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION &&
                   config->attrs[i].value.programmaticStreamSerializationAllowed;
  return cuLaunchKernel(function, config->gridDimX, config->gridDimY, config->gridDimZ,
                        config->blockDimX, config->blockDimY, config->blockDimZ,
                        config->sharedMemBytes, config->hStream, parameters, extra);
}
