// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The runtime's side of the cuDNN plugin.

#include "device/cuda/dnn.h"

#include "device/cuda/cudnn_plugin.h"
#include "device/cuda/cudnn_search.h"
#include "device/cuda/driver.h"
#include "device/cuda/library_search.h"
#include "device/cuda/segments.h"
#include "format/file.h"
#include "format/hash.h"

#include <algorithm>
#include <cassert>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <mutex>

namespace trainrt::cuda {

namespace fs = std::filesystem;

namespace {

void appendTo(void *to, const void *bytes, size_t size) {
  static_cast<std::string *>(to)->append(static_cast<const char *>(bytes), size);
}
TrainrtCudnnSink sink(std::string &text) { return {appendTo, &text}; }

constexpr size_t checksumDigits = 16;

void copyStrides(int64_t (&to)[3], const int64_t (&from)[3]) { std::copy(from, from + 3, to); }

/// The call in the plugin's terms. Its bytes identify it, so what it does not use is 0.
TrainrtCudnnAttention translate(const AttentionCall &call) {
  TrainrtCudnnAttention out;
  std::memset(&out, 0, sizeof out);
  out.backward = call.backward;
  out.bf16 = call.dtype == DType::BF16;
  out.batch = call.batch;
  out.heads = call.heads;
  out.kvHeads = call.kvHeads;
  out.queryRows = call.queryRows;
  out.keyRows = call.keyRows;
  out.keyColumns = call.keyColumns;
  out.valueColumns = call.valueColumns;
  copyStrides(out.q, call.q);
  copyStrides(out.k, call.k);
  copyStrides(out.v, call.v);
  copyStrides(out.o, call.o);
  if (call.backward) {
    copyStrides(out.dO, call.dO);
    copyStrides(out.dQ, call.dQ);
    copyStrides(out.dK, call.dK);
    copyStrides(out.dV, call.dV);
  }
  if (call.hasBias) {
    std::copy(call.bias, call.bias + 4, out.bias);
    out.biasType = call.biasDtype == DType::F32 ? 1 : 2;
  }
  out.causal = call.causal;
  // What reaches over all rows is no window.
  auto reach = [&](int64_t columns) {
    return columns < (call.segments ? call.longest : call.keyRows) - 1 ? columns : int64_t(-1);
  };
  out.before = reach(call.band.before);
  out.after = call.causal ? -1 : reach(call.band.after);
  if (call.segments) {
    out.segmented = 1;
    out.batch = call.segments;
    out.statsHeads = call.statsHeads ? call.statsHeads : call.heads;
    // There is no backward of one row.
    out.queryRows = out.keyRows = std::max<int64_t>(call.longest, 2);
    for (auto *strides : {&out.q, &out.k, &out.v, &out.o, &out.dO, &out.dQ, &out.dK, &out.dV})
      (*strides)[0] = 0;
  }
  out.scale = call.scale;
  out.dropout = call.dropout;
  return out;
}

/// For messages: what a person may have to change, and no more.
std::string describe(const AttentionCall &call) {
  std::string text = std::string(call.backward ? "backward" : "forward") + ", " +
                     nameOf(call.dtype) + ", batch " + std::to_string(call.batch) + ", heads " +
                     std::to_string(call.heads);
  if (call.kvHeads != call.heads)
    text += " (" + std::to_string(call.kvHeads) + " of k and v)";
  text += ", rows " + std::to_string(call.queryRows) + " x " + std::to_string(call.keyRows) +
          ", columns " + std::to_string(call.keyColumns);
  if (call.valueColumns != call.keyColumns)
    text += " (" + std::to_string(call.valueColumns) + " of v)";
  if (call.segments)
    text += ", " + std::to_string(call.segments) + " segments of up to " +
            std::to_string(call.longest) + " rows";
  if (call.causal)
    text += ", causal";
  for (auto [name, columns] :
       {std::pair{"before", call.band.before}, {"after", call.causal ? 0 : call.band.after}})
    if (columns > 0 && columns < AttentionBand::all)
      text += ", " + std::to_string(columns) + " columns " + name + " a row's own";
  if (call.hasBias)
    text += std::string(", bias of ") + nameOf(call.biasDtype);
  if (call.dropout > 0)
    text += ", dropout " + std::to_string(call.dropout);
  return text;
}

Status unsupported(const AttentionCall &call, const std::string &why) {
  return fail(Code::Unsupported, "cuDNN cannot do this attention (", describe(call), "): ", why,
              ". Compile without fused attention");
}

/// Limits that are known without asking the library.
Status check(const AttentionCall &call) {
  assert((!call.segments || call.batch == 1) && "segments lie in one row of the batch");
  if (call.dtype != DType::BF16 && call.dtype != DType::F16)
    return unsupported(call, "operands have to be bf16 or f16");
  if (call.hasBias && call.biasDtype != DType::F32 && call.biasDtype != call.dtype)
    return unsupported(call, "the bias has to be f32 or of the operands' type");
  if (call.hasBias && call.bias[3] != 1 && call.keyRows != 1)
    return unsupported(call, "the bias of a row does not lie side by side");
  if (call.causal && call.queryRows > call.keyRows)
    return unsupported(call, "with a causal mask the first rows would see nothing");
  if (call.queryRows != call.keyRows && !call.causal && call.band != AttentionBand())
    return unsupported(call, "a window has as many rows as columns");
  if (call.segments &&
      (call.hasBias || call.batch != 1 || call.queryRows != call.keyRows || call.longest <= 0))
    return unsupported(call, "segments have no bias, no batch and as many rows as columns");
  // Columns are cleared in words of four bytes.
  if (call.segments && (call.keyColumns % 2 || call.valueColumns % 2))
    return unsupported(call, "with segments the columns have to be even in number");
  for (int64_t extent : {call.batch, call.heads, call.kvHeads, call.queryRows, call.keyRows,
                         call.keyColumns, call.valueColumns})
    if (extent <= 0)
      return unsupported(call, "a size is 0");
  return {};
}

/// A plan of the plugin, which equal calls share; of segments without their number of rows.
class PluginPlan {
public:
  PluginPlan(const TrainrtCudnnPlugin &plugin, TrainrtCudnnPlan *plan)
      : plugin(plugin), plan(plan) {}
  ~PluginPlan() { plugin.destroy(plan); }
  PluginPlan(const PluginPlan &) = delete;
  PluginPlan &operator=(const PluginPlan &) = delete;

  uint64_t workspaceBytes() const { return plugin.workspaceBytes(plan); }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands,
                 const SegmentTables &tables, DeviceAddress workspace) const {
    auto pointer = [](DeviceAddress address) { return reinterpret_cast<void *>(address); };
    TrainrtCudnnOperands pointers = {pointer(operands.q),
                                     pointer(operands.k),
                                     pointer(operands.v),
                                     pointer(operands.o),
                                     pointer(operands.stats),
                                     pointer(operands.bias),
                                     pointer(operands.seed),
                                     pointer(operands.dO),
                                     pointer(operands.dQ),
                                     pointer(operands.dK),
                                     pointer(operands.dV),
                                     pointer(tables.lengths),
                                     {}};
    static_assert(std::size(pointers.starts) == numSegmentedOperands);
    std::transform(std::begin(tables.starts), std::end(tables.starts), pointers.starts, pointer);
    std::string why;
    if (plugin.enqueue(plan, stream, &pointers, pointer(workspace), sink(why)))
      return fail(Code::DeviceError, "cuDNN: ", why);
    return {};
  }

private:
  const TrainrtCudnnPlugin &plugin;
  TrainrtCudnnPlan *plan;
};

/// A call with its plan. With segments its workspace begins with their tables, those of one part
/// after the other.
class Plan final : public AttentionPlan {
public:
  /// The plan is that of one of the parts.
  Plan(const AttentionCall &call, const AttentionParts &parts,
       std::shared_ptr<const PluginPlan> plan, const SegmentKernel *kernel)
      : call(call), parts(parts), plan(std::move(plan)), kernel(kernel) {
    if (kernel) {
      this->call.segments = parts.batch;
      tableBytes = SegmentKernel::tableBytes(this->call);
    }
    // Parts are of one size: the last one may repeat some of what the one before did, and
    // writes over it.
    lastBatch = (kernel ? call.segments : call.batch) - parts.batch;
  }

  uint64_t workspaceBytes() const override { return tableBytes + plan->workspaceBytes(); }
  Status enqueue(StreamHandle stream, const AttentionOperands &operands,
                 Workspace workspace) const override {
    if (workspace.bytes < workspaceBytes())
      return fail(Code::Internal, "an attention needs ", workspaceBytes(),
                  " bytes of workspace and got ", workspace.bytes);
    for (int64_t number = 0; number < parts.batches; ++number) {
      // The last part clears what is behind the segments.
      const int64_t batch = std::min(number * parts.batch, lastBatch);
      SegmentTables tables;
      if (kernel) {
        AttentionOperands some = operands;
        some.segments += DeviceAddress(batch * 4);
        TRAINRT_TRY(kernel->enqueue(stream, call, some, workspace.address,
                                    /*clears=*/number + 1 == parts.batches, tables));
      }
      for (int64_t head = 0; head < parts.heads; ++head)
        TRAINRT_TRY(plan->enqueue(stream, part(operands, batch, head), tables,
                                  workspace.address + tableBytes));
    }
    return {};
  }

private:
  /// The operands from a sample and the first head of a part on; where segments begin is in tables.
  AttentionOperands part(const AttentionOperands &all, int64_t batch, int64_t headPart) const {
    if (kernel)
      batch = 0;
    const int64_t head = headPart * (call.heads / parts.heads);
    const int64_t kvHead = headPart * (call.kvHeads / parts.heads);
    const int64_t bytes = int64_t(sizeOf(call.dtype));
    AttentionOperands some = all;
    auto move = [&](DeviceAddress &address, const int64_t *strides, int64_t first, int64_t size) {
      if (address)
        address += DeviceAddress((batch * strides[0] + first * strides[1]) * size);
    };
    move(some.q, call.q, head, bytes);
    move(some.o, call.o, head, bytes);
    move(some.dO, call.dO, head, bytes);
    move(some.dQ, call.dQ, head, bytes);
    move(some.k, call.k, kvHead, bytes);
    move(some.v, call.v, kvHead, bytes);
    move(some.dK, call.dK, kvHead, bytes);
    move(some.dV, call.dV, kvHead, bytes);
    move(some.bias, call.bias, head, int64_t(sizeOf(call.biasDtype)));
    // Statistics are f32. With segments the heads of a row lie side by side.
    const int64_t stats[2] = {call.heads * call.queryRows, kernel ? 1 : call.queryRows};
    move(some.stats, stats, head, 4);
    return some;
  }

  /// Of segments those of a part.
  AttentionCall call;
  const AttentionParts parts;
  std::shared_ptr<const PluginPlan> plan;
  const SegmentKernel *kernel;
  uint64_t tableBytes = 0;
  /// Where the last part begins.
  int64_t lastBatch;
};

/// What stands before a stored plan, after which follow 16 digits, the plan's checksum: what it is
/// a plan of.
std::string storedHeader(const std::string &identity, const TrainrtCudnnAttention &attention) {
  std::string header = "trainrt attention plan 4\n" + identity + "\n";
  header.append(reinterpret_cast<const char *>(&attention), sizeof attention);
  return header;
}

} // namespace

struct DnnImpl {
  const TrainrtCudnnPlugin *plugin = nullptr;
  /// Versions and device, which decide what a stored plan is good for.
  std::string identity;
  std::string folder;

  std::mutex mutex;
  std::condition_variable finished;
  /// By the bytes of a description; null while a thread builds it.
  std::map<std::string, std::shared_ptr<const PluginPlan>> plans;
  Cudnn::Counts counts;
  /// Loaded with the first plan of segments.
  std::unique_ptr<SegmentKernel> segmentKernel;

  Status find(const AttentionCall &call, std::shared_ptr<const PluginPlan> &plan);
  Status make(const AttentionCall &call, const TrainrtCudnnAttention &attention,
              std::shared_ptr<const PluginPlan> &plan);
  bool restore(const std::string &path, const std::string &header,
               const TrainrtCudnnAttention &attention, TrainrtCudnnPlan *&plan);
  void store(const std::string &path, const std::string &header, const TrainrtCudnnPlan *plan);
};

/// False if there is no such file or it is not usable: then the plan is built, and stored again.
bool DnnImpl::restore(const std::string &path, const std::string &header,
                      const TrainrtCudnnAttention &attention, TrainrtCudnnPlan *&plan) {
  std::shared_ptr<const MappedFile> file;
  size_t begin = header.size() + checksumDigits;
  if (!MappedFile::open(path, file).ok() || file->size() <= begin ||
      std::memcmp(file->data(), header.data(), header.size()) != 0)
    return false;
  const unsigned char *stored = file->data() + begin;
  size_t size = size_t(file->size()) - begin;
  std::string checksum = hex64(fnv1a64(stored, size)), ignored;
  return std::memcmp(stored - checksumDigits, checksum.data(), checksumDigits) == 0 &&
         plugin->restore(&attention, stored, size, &plan, sink(ignored)) == 0;
}

/// A store that cannot be written only costs time, now and at the next start.
void DnnImpl::store(const std::string &path, const std::string &header,
                    const TrainrtCudnnPlan *plan) {
  std::string bytes, ignored;
  if (plugin->store(plan, sink(bytes), sink(ignored)))
    return;
  std::string checksum = hex64(fnv1a64(bytes.data(), bytes.size()));
  std::error_code error;
  fs::create_directories(folder, error);
  AtomicFile file;
  if (!error && file.create(path).ok() && file.write(header.data(), header.size()).ok() &&
      file.write(checksum.data(), checksumDigits).ok() &&
      file.write(bytes.data(), bytes.size()).ok())
    (void)file.commit().ok();
}

/// Without the mutex, since it takes long: `find` lets one thread at a time make a plan of a key. A
/// plan from the store is as good as a new one.
Status DnnImpl::make(const AttentionCall &call, const TrainrtCudnnAttention &attention,
                     std::shared_ptr<const PluginPlan> &plan) {
  std::string header = storedHeader(identity, attention), path;
  if (!folder.empty())
    path = folder + "/attention-" + hex64(fnv1a64(header.data(), header.size())) + ".plan";
  TrainrtCudnnPlan *made = nullptr;
  bool restored = !path.empty() && restore(path, header, attention, made);
  if (!restored) {
    std::string why;
    if (plugin->build(&attention, &made, sink(why)))
      return unsupported(call, why);
    if (!path.empty())
      store(path, header, made);
  }
  plan = std::make_shared<PluginPlan>(*plugin, made);
  std::lock_guard<std::mutex> lock(mutex);
  ++(restored ? counts.restored : counts.built);
  return {};
}

/// Empty where plans are not stored.
std::string planCacheFolder() {
  auto environment = [](const char *name) -> std::string {
    const char *value = std::getenv(name);
    return value ? value : "";
  };
  std::string chosen = environment("TRAINRT_CACHE");
  if (chosen == "off")
    return "";
  if (!chosen.empty())
    return chosen;
  std::string cache = environment("XDG_CACHE_HOME");
  // The XDG specification: a relative path is to be ignored.
  if (!cache.empty() && cache[0] == '/')
    return cache + "/trainrt";
  std::string home = environment("HOME");
  return home.empty() ? "" : home + "/.cache/trainrt";
}

Cudnn::Cudnn(std::shared_ptr<DnnImpl> impl) : impl(std::move(impl)) {}
Cudnn::~Cudnn() = default;

Status Dnn::load(std::unique_ptr<Dnn> &dnn) {
  std::unique_ptr<Cudnn> loaded;
  TRAINRT_TRY(Cudnn::load(loaded));
  dnn = std::move(loaded);
  return {};
}

/// The plugin, the libraries that it needs, and their versions, which name stored plans.
Status Cudnn::load(std::unique_ptr<Cudnn> &dnn) {
  auto impl = std::make_shared<DnnImpl>();
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));

  SharedLibrary library;
  const char *named = std::getenv("TRAINRT_CUDNN_PLUGIN");
  Status found = named && *named
                     ? loadLibraryAt(named, library)
                     : loadLibrary({"libtrainrt-cudnn.so"},
                                   "the plugin for fused attention, which is built beside "
                                   "libtrainrt.so where cuDNN's headers are; TRAINRT_CUDNN_PLUGIN "
                                   "names another place",
                                   library);
  TRAINRT_TRY(found.as(Code::DeviceError));
  TrainrtCudnnEntry entry = nullptr;
  impl->plugin = library.resolve(entry, TRAINRT_CUDNN_PLUGIN_ENTRY) ? entry() : nullptr;
  if (!impl->plugin || impl->plugin->abi != TRAINRT_CUDNN_PLUGIN_ABI)
    return fail(Code::DeviceError, library.path,
                " belongs to another version of libtrainrt; install the two together");

  // cuDNN opens these by name when it needs them; being loaded, they are found wherever they were.
  SharedLibrary cudnn, cudart, optional;
  TRAINRT_TRY(loadLibrary({"libcudart.so.13", "libcudart.so.12"},
                          "it is part of the CUDA toolkit and of the wheel nvidia-cuda-runtime",
                          cudart)
                  .as(Code::DeviceError));
  // Without these two cuDNN may still work: it says what it lacks.
  (void)loadLibrary({"libnvrtc.so.13", "libnvrtc.so.12"}, "", optional).ok();
  (void)loadLibrary({"libcublasLt.so.13", "libcublasLt.so.12"}, "", optional).ok();
  int64_t version = 0;
  std::string why, device, installed;
  TRAINRT_TRY(loadCudnn(cudnn, installed).as(Code::DeviceError));
  if (impl->plugin->open(cudnn.handle, cudart.path.c_str(), &version, sink(why)))
    return fail(Code::DeviceError, cudnn.path, ": ", why,
                ". Found: ", installed.empty() ? cudnn.path : installed,
                ". Install the wheel nvidia-cudnn-cu13 or set TRAINRT_CUDA_PATH to a folder with a "
                "newer one");
  TRAINRT_TRY(deviceIdentity(*driver, device));
  impl->identity =
      "cuDNN " + std::to_string(version) + ", " + impl->plugin->version + ", " + device;
  impl->folder = planCacheFolder();
  dnn.reset(new Cudnn(std::move(impl)));
  return {};
}

/// The plan of the call, made once: threads that ask for it meanwhile wait.
Status DnnImpl::find(const AttentionCall &call, std::shared_ptr<const PluginPlan> &plan) {
  TrainrtCudnnAttention attention = translate(call);
  std::string key(reinterpret_cast<const char *>(&attention), sizeof attention);
  {
    std::unique_lock<std::mutex> lock(mutex);
    for (;;) {
      auto [it, first] = plans.try_emplace(key, nullptr);
      if (first)
        break;
      if (it->second) {
        plan = it->second;
        return {};
      }
      // Another thread makes it: afterwards it is looked for again, since that may have failed.
      finished.wait(lock);
    }
  }
  Status made = make(call, attention, plan);
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (made.ok())
      plans[key] = plan;
    else
      plans.erase(key); // a thread that waited tries itself, and reports the same
  }
  finished.notify_all();
  return made;
}

/// The library gets one part of the call, all of which are alike; the plan goes through them.
Status Cudnn::prepare(const AttentionCall &call, std::shared_ptr<const AttentionPlan> &plan) {
  TRAINRT_TRY(check(call));
  const SegmentKernel *kernel = nullptr;
  if (call.segments) {
    std::lock_guard<std::mutex> lock(impl->mutex);
    if (!impl->segmentKernel)
      TRAINRT_TRY(SegmentKernel::load(impl->segmentKernel));
    kernel = impl->segmentKernel.get();
  }
  const AttentionParts parts = attentionParts(sizesOf(call));
  AttentionCall part = call;
  if (call.segments) {
    part.segments = parts.batch;
    part.statsHeads = call.heads;
  } else {
    part.batch = parts.batch;
  }
  part.heads /= parts.heads;
  part.kvHeads /= parts.heads;
  std::shared_ptr<const PluginPlan> found;
  TRAINRT_TRY(impl->find(part, found));
  plan = std::make_shared<Plan>(call, parts, std::move(found), kernel);
  return {};
}

Cudnn::Counts Cudnn::counts() const {
  std::lock_guard<std::mutex> lock(impl->mutex);
  return impl->counts;
}

} // namespace trainrt::cuda
