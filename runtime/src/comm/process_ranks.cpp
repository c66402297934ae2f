// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Loads the plugin where ranks exchange in the host's memory, and gives it the coordinator as its
// store.

#include "comm/process_ranks.h"
#include "comm/control_plane.h"
#include "comm/gloo_plugin.h"
#include "comm/host_board.h"
#include "format/byte_text.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>

namespace trainrt {

namespace {

constexpr char pluginName[] = "libtrainrt-gloo.so";

/// The library is never unloaded. Of one with another number no function but the entry is called.
Status loadPlugin(const TrainrtGlooPlugin *&plugin) {
  namespace fs = std::filesystem;
  std::vector<std::string> paths;
  std::error_code error;
  if (const char *named = std::getenv("TRAINRT_GLOO_PLUGIN"); named && *named) {
    paths = {named};
  } else {
    // Beside this library, or the program that it is linked into.
    Dl_info self;
    if (dladdr(reinterpret_cast<const void *>(&joinRanks), &self) && self.dli_fname)
      paths.push_back((fs::weakly_canonical(self.dli_fname, error).parent_path() / pluginName));
    const fs::path program = fs::read_symlink("/proc/self/exe", error).parent_path();
    paths.push_back(program / pluginName);
    paths.push_back(program / ".." / "lib" / pluginName);
    paths.push_back(pluginName); // where the loader looks
  }
  std::string why;
  void *handle = nullptr;
  for (const std::string &path : paths) {
    handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle)
      break;
    const char *said = dlerror();
    // Of several the one that is there but cannot be loaded.
    if (why.empty() || fs::exists(path, error))
      why = said ? said : path;
  }
  if (!handle)
    return fail(
        Code::NotFound, "ranks in several processes need the plugin ", pluginName,
        " (Debian package libtrainrt-gloo; a build of one's own has it beside libtrainrt.so "
        "where libgloo-dev is); TRAINRT_GLOO_PLUGIN names another place (",
        why, ")");
  const auto entry = reinterpret_cast<TrainrtGlooEntry>(dlsym(handle, TRAINRT_GLOO_PLUGIN_ENTRY));
  plugin = entry ? entry() : nullptr;
  if (!plugin || plugin->abi != TRAINRT_GLOO_PLUGIN_ABI)
    return fail(Code::NotFound, pluginName,
                " belongs to another version of libtrainrt; install the two together");
  return {};
}

TrainrtGlooSink sinkOf(std::string &text) {
  return {[](void *to, const void *bytes, size_t size) {
            static_cast<std::string *>(to)->assign(static_cast<const char *>(bytes), size);
          },
          &text};
}

/// Pieces go through the plugin. Reasons go through the control plane, which outlasts a connection
/// between ranks, and short texts where one host's ranks do not come at about the same time: who
/// waits for whom, and for how long, it knows. One thread exchanges; any may abort.
class ProcessRanks final : public Communicator {
public:
  ProcessRanks(const ProcessRank &which, RankGroups groups, std::unique_ptr<ControlPlane> control,
               std::unique_ptr<HostBoard> board)
      : Communicator(which.rank, which.world, groups), control(std::move(control)),
        board(std::move(board)), vendorSums(which.vendorSums) {}

  ~ProcessRanks() override {
    // It stops the thread that may call `abort` of the group, and so goes first.
    control.reset();
    if (group)
      plugin->close(group);
  }

  /// Once, before any exchange. The store is asked only while the plugin opens; where that fails
  /// there is no group.
  Status connect() override {
    if (group)
      return {};
    TRAINRT_TRY(loadPlugin(plugin));
    TrainrtGlooStore store{
        control.get(),
        [](void *user, const char *key, const void *bytes, size_t size) {
          return static_cast<ControlPlane *>(user)
                         ->set(key, std::string(static_cast<const char *>(bytes), size))
                         .ok()
                     ? 0
                     : 1;
        },
        [](void *user, const char *key, TrainrtGlooSink value) {
          std::string bytes;
          if (!static_cast<ControlPlane *>(user)->get(key, bytes).ok())
            return 1;
          value.write(value.to, bytes.data(), bytes.size());
          return 0;
        }};
    std::string why;
    if (plugin->open(rank(), world(), control->address().c_str(), &store,
                     control->limits.exchange.count(), &group, sinkOf(why)))
      return control->explain(fail(Code::RankLost, "rank ", rank(), ": ", why));
    // Only now is there a group to abort. The destructor ends this before the group goes.
    control->onFailure([this] { plugin->abort(group); });
    return {};
  }

  Status exchange(std::span<const Sent> sent, std::span<const Received> received) override {
    // A run that is lost waits for nobody.
    TRAINRT_TRY(control->failure());
    TRAINRT_TRY(connect());
    const size_t ranks = size_t(world());
    std::vector<const void *> from(ranks);
    std::vector<void *> to(ranks);
    std::vector<int64_t> fromBytes(ranks), toBytes(ranks);
    for (size_t i = 0; i < ranks; ++i) {
      from[i] = sent[i].data;
      fromBytes[i] = sent[i].bytes;
      to[i] = received[i].data;
      toBytes[i] = received[i].bytes;
    }
    std::string why;
    if (!plugin->exchange(group, from.data(), fromBytes.data(), to.data(), toBytes.data(),
                          sinkOf(why)))
      return {};
    Status status = control->explain(
        fail(Code::RankLost, "rank ", rank(), " waited for the others in vain: ", why));
    // A rank that is there but does not come to an exchange: the others wait for it, too.
    control->abort(status.message());
    return status;
  }

  Status gather(const std::string &mine, std::vector<std::string> &all) override {
    if (board) {
      TRAINRT_TRY(control->failure());
      if (board->gather(mine, all))
        return {};
    }
    return control->gather(mine, all);
  }
  void abort(const Status &why) override { control->abort(why.message()); }
  Status failure() const override { return control->failure(); }
  std::chrono::milliseconds limit() const override { return control->limits.exchange; }
  bool wantsVendorSums() const override { return vendorSums; }

private:
  const TrainrtGlooPlugin *plugin = nullptr;
  std::unique_ptr<ControlPlane> control;
  const std::unique_ptr<HostBoard> board; ///< null: they are not of one host
  TrainrtGlooGroup *group = nullptr;
  const bool vendorSums;
};

} // namespace

Status checkRank(int64_t rank, int64_t world) {
  return world < 1 || rank < 0 || rank >= world
             ? fail(Code::InvalidArgument, "rank ", rank, " is none of ", world)
             : Status();
}

Status checkReplicas(int64_t perReplica, int64_t world) {
  return perReplica < 0 || (perReplica && world % perReplica)
             ? fail(Code::InvalidArgument, world, " ranks cannot share replicas of the model by ",
                    perReplica, " each: shard_within is a divisor")
             : Status();
}

/// All ranks find the same groups, or the same error.
static Status meetGroups(ControlPlane &control, const ProcessRank &which, RankGroups &groups,
                         std::string &told) {
  NodePlace own = which.node;
  own.host = hostName();
  ByteWriter mine;
  mine.fields(own.host, own.asked, own.local, own.localRank, which.perReplica);
  std::vector<std::string> texts;
  TRAINRT_TRY(control.gather(mine.bytes, texts));
  std::vector<NodePlace> places(texts.size());
  std::vector<int64_t> replicas;
  for (size_t rank = 0; rank < texts.size(); ++rank) {
    ByteReader reader(texts[rank]);
    NodePlace &place = places[rank];
    int64_t perReplica = 0;
    reader.fields(place.host, place.asked, place.local, place.localRank, perReplica);
    if (!reader.isDone())
      return fail(Code::RankLost, "rank ", rank, " runs another version of the runtime");
    replicas.push_back(perReplica);
  }
  for (size_t rank = 1; rank < replicas.size(); ++rank)
    if (replicas[rank] != replicas[0])
      return fail(Code::InvalidArgument,
                  "the ranks of a run share replicas alike, but rank 0 was "
                  "told of ",
                  replicas[0], " for each and rank ", rank, " of ", replicas[rank], " (0: all)");
  TRAINRT_TRY(checkReplicas(replicas[0], which.world));
  groups.perReplica = int(replicas[0]);
  return findNodes(places, groups.perNode, told);
}

/// By all ranks or by none: memory of one host is seen where its name, which is nowhere else, is.
static Status meetAtBoard(ControlPlane &control, int rank, int world,
                          std::unique_ptr<HostBoard> &board) {
  auto own = std::make_unique<HostBoard>(rank, world);
  std::string name;
  bool isThere = rank == 0 && own->create(name).ok();
  std::vector<std::string> all;
  TRAINRT_TRY(control.gather(name, all));
  if (rank != 0)
    isThere = !all[0].empty() && own->open(all[0]).ok();
  TRAINRT_TRY(control.gather(isThere ? "1" : "", all));
  own->removeName();
  if (std::none_of(all.begin(), all.end(), [](const std::string &one) { return one.empty(); }))
    board = std::move(own);
  return {};
}

/// `ranks` is set where all are there. The listening socket is owned here from `join` on:
/// behind an earlier error it is still the caller's.
Status joinRanks(const ProcessRank &which, std::shared_ptr<Communicator> &ranks) {
  TRAINRT_TRY(checkRank(which.rank, which.world));
  Endpoint at;
  if (!Endpoint::parse(which.coordinator, at))
    return fail(Code::InvalidArgument, "coordinator '", which.coordinator, "' is no HOST:PORT");
  std::unique_ptr<ControlPlane> control;
  TRAINRT_TRY(ControlPlane::join(which.rank, which.world, at, Socket(which.listening), which.limits,
                                 control));
  RankGroups groups;
  std::string told;
  TRAINRT_TRY(meetGroups(*control, which, groups, told));
  std::unique_ptr<HostBoard> board;
  if (which.world > 1)
    TRAINRT_TRY(meetAtBoard(*control, which.rank, which.world, board));
  ranks = std::make_shared<ProcessRanks>(which, groups, std::move(control), std::move(board));
  ranks->nodes = std::move(told);
  return {};
}

} // namespace trainrt
