// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Plans are made once a process and once a machine.

#include "device/cuda/dnn/plugin_plans.h"

#include "format/file.h"
#include "format/hash.h"

#include <cstdlib>
#include <cstring>
#include <filesystem>

namespace trainrt::cuda {

namespace fs = std::filesystem;

namespace {

constexpr size_t checksumDigits = 16;

/// What stands before a stored plan, after which follow 16 digits, the plan's checksum: what it is
/// a plan of.
std::string storedHeader(const std::string &identity, const PlanRequest &request) {
  return "trainrt " + request.kind + " plan 5\n" + identity + "\n" + request.description;
}

} // namespace

TrainrtCudnnSink sink(std::string &text) {
  return {[](void *to, const void *bytes, size_t size) {
            static_cast<std::string *>(to)->append(static_cast<const char *>(bytes), size);
          },
          &text};
}

/// False if there is no such file or it is not usable: then the plan is built, and stored again.
bool DnnImpl::restore(const std::string &path, const std::string &header,
                      const PlanRequest &request, TrainrtCudnnPlan *&plan) {
  std::shared_ptr<const MappedFile> file;
  size_t begin = header.size() + checksumDigits;
  if (!MappedFile::open(path, file).ok() || file->size() <= begin ||
      std::memcmp(file->data(), header.data(), header.size()) != 0)
    return false;
  const unsigned char *stored = file->data() + begin;
  size_t size = size_t(file->size()) - begin;
  std::string checksum = hex64(fnv1a64(stored, size)), ignored;
  return std::memcmp(stored - checksumDigits, checksum.data(), checksumDigits) == 0 &&
         request.restore(*plugin, stored, size, plan, sink(ignored)) == 0;
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
Status DnnImpl::make(const PlanRequest &request, std::shared_ptr<const PluginPlan> &plan) {
  std::string header = storedHeader(identity, request), path;
  if (!folder.empty())
    path =
        folder + "/" + request.kind + "-" + hex64(fnv1a64(header.data(), header.size())) + ".plan";
  TrainrtCudnnPlan *made = nullptr;
  bool restored = !path.empty() && restore(path, header, request, made);
  if (!restored) {
    std::string why;
    if (request.build(*plugin, made, sink(why)))
      return request.unsupported(why);
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

/// The plan of the call, made once: threads that ask for it meanwhile wait.
Status DnnImpl::find(const PlanRequest &request, std::shared_ptr<const PluginPlan> &plan) {
  const std::string key = request.kind + " " + request.description;
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
  Status made = make(request, plan);
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

std::string DnnImpl::algorithmOf(const std::string &key) {
  std::lock_guard<std::mutex> lock(mutex);
  auto chosen = tuned.find(key);
  return chosen == tuned.end() ? "" : chosen->second;
}

} // namespace trainrt::cuda
