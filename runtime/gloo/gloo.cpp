// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The plugin libtrainrt-gloo.so: pieces between ranks over Gloo's TCP transport.

#include "comm/gloo_plugin.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <cstring>
#include <exception>
#include <mutex>
#include <vector>

struct TrainrtGlooGroup {
  std::shared_ptr<gloo::rendezvous::Context> context;
  std::chrono::milliseconds limit;
  /// Of `exchange`. All ranks count alike, so that the number tells the pieces of one call from
  /// others.
  uint64_t calls = 0;
  std::mutex mutex;
  // Under the mutex.
  std::vector<gloo::transport::UnboundBuffer *> waiting;
  bool aborted = false;
};

namespace {

struct Failed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller's store, as Gloo wants it. `get` waits by itself, for as long as the caller thinks
/// right; so waiting is a `get` whose value is dropped.
class Store final : public gloo::rendezvous::Store {
public:
  explicit Store(const TrainrtGlooStore &store) : store(store) {}

  void set(const std::string &key, const std::vector<char> &data) override {
    if (store.set(store.user, key.c_str(), data.data(), data.size()))
      throw Failed("the run has ended");
  }
  std::vector<char> get(const std::string &key) override {
    std::vector<char> value;
    TrainrtGlooSink sink{[](void *to, const void *bytes, size_t size) {
                           const auto *begin = static_cast<const char *>(bytes);
                           static_cast<std::vector<char> *>(to)->assign(begin, begin + size);
                         },
                         &value};
    if (store.get(store.user, key.c_str(), sink))
      throw Failed("the run has ended");
    return value;
  }
  void wait(const std::vector<std::string> &keys) override {
    for (const std::string &key : keys)
      get(key);
  }
  void wait(const std::vector<std::string> &keys, const std::chrono::milliseconds &) override {
    wait(keys);
  }

private:
  const TrainrtGlooStore store;
};

/// A buffer that `abort` knows of.
/// It is made and ends on the thread that exchanges. Others call it under the mutex while it is in
/// the list, so never when it is gone.
class Waiting {
public:
  Waiting(TrainrtGlooGroup &group, void *data, size_t bytes)
      : group(group), buffer(group.context->createUnboundBuffer(data, bytes)) {
    std::lock_guard lock(group.mutex);
    if (group.aborted)
      throw Failed("the run has ended");
    group.waiting.push_back(buffer.get());
  }
  ~Waiting() {
    std::lock_guard lock(group.mutex);
    std::erase(group.waiting, buffer.get());
  }
  gloo::transport::UnboundBuffer *operator->() { return buffer.get(); }

private:
  TrainrtGlooGroup &group;
  std::unique_ptr<gloo::transport::UnboundBuffer> buffer;
};

/// What `body` throws is the error.
/// Nothing is thrown into the caller, which is another library: what is no std::exception ends the
/// process.
template <typename Body> int guarded(TrainrtGlooSink error, const Body &body) noexcept {
  try {
    body();
    return 0;
  } catch (const std::exception &exception) {
    error.write(error.to, exception.what(), std::strlen(exception.what()));
    return 1;
  }
}

/// `group` is set where this rank is connected with all others, and only then.
int open(int rank, int world, const char *address, const TrainrtGlooStore *store, int64_t limit,
         TrainrtGlooGroup **group, TrainrtGlooSink error) {
  return guarded(error, [&] {
    auto result = std::make_unique<TrainrtGlooGroup>();
    result->limit = std::chrono::milliseconds(limit);
    gloo::transport::tcp::attr attributes;
    attributes.hostname = address;
    std::shared_ptr<gloo::transport::Device> device =
        gloo::transport::tcp::CreateDevice(attributes);
    result->context = std::make_shared<gloo::rendezvous::Context>(rank, world);
    result->context->setTimeout(result->limit);
    Store own(*store);
    result->context->connectFullMesh(own, device);
    *group = result.release();
  });
}

/// All pieces are on their way before the first is waited for: no order between ranks is needed.
/// Pieces without bytes are not sent, and the other end, which knows their size, does not wait for
/// them.
int exchange(TrainrtGlooGroup *group, const void *const *sent, const int64_t *sentBytes,
             void *const *received, const int64_t *receivedBytes, TrainrtGlooSink error) {
  return guarded(error, [&] {
    const int own = group->context->rank, world = group->context->size;
    const uint64_t slot = group->calls++;
    std::vector<std::unique_ptr<Waiting>> in, out;
    // Each rank begins with the one behind it, so that no two send to the same at first.
    for (int i = 1; i < world; ++i) {
      const int from = (own + world - i) % world;
      if (receivedBytes[from] == 0)
        continue;
      in.push_back(std::make_unique<Waiting>(*group, received[from], size_t(receivedBytes[from])));
      (*in.back())->recv(from, slot);
    }
    for (int i = 1; i < world; ++i) {
      const int to = (own + i) % world;
      if (sentBytes[to] == 0)
        continue;
      out.push_back(
          std::make_unique<Waiting>(*group, const_cast<void *>(sent[to]), size_t(sentBytes[to])));
      (*out.back())->send(to, slot);
    }
    if (sentBytes[own])
      std::memcpy(received[own], sent[own], size_t(sentBytes[own]));
    for (auto &buffer : in)
      if (!(*buffer)->waitRecv(group->limit))
        throw Failed("the run has ended");
    for (auto &buffer : out)
      if (!(*buffer)->waitSend(group->limit))
        throw Failed("the run has ended");
  });
}

/// On any thread. It lasts: a buffer that is made later throws.
void abortGroup(TrainrtGlooGroup *group) {
  std::lock_guard lock(group->mutex);
  group->aborted = true;
  for (gloo::transport::UnboundBuffer *buffer : group->waiting) {
    buffer->abortWaitRecv();
    buffer->abortWaitSend();
  }
}

void closeGroup(TrainrtGlooGroup *group) { delete group; }

constexpr TrainrtGlooPlugin plugin{TRAINRT_GLOO_PLUGIN_ABI, open, exchange, abortGroup, closeGroup};

} // namespace

extern "C" __attribute__((visibility("default"))) const TrainrtGlooPlugin *
trainrt_gloo_plugin(void) {
  return &plugin;
}
