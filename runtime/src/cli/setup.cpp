// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Creating a session, loading a checkpoint, and signals.
#include "cli/setup.h"

#include "cli/failure.h"
#include "cli/format.h"
#include "format/json.h"
#include "trainrt/plugin.h"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <unistd.h>

namespace trainrt::run {

/// The position counts rows in the file's order, and batches of a plan; the key says which. Numbers
/// of `watch` are finite: only such are kept.
std::string DataState::toJson() const {
  nlohmann::json json{{"epoch", position.epoch},
                      {plan.empty() ? "row" : "batch", position.index},
                      {"rows", rows},
                      {"batch_size", batchSize},
                      {"accumulate", accumulate},
                      {"shuffle", shuffle},
                      {"data", dataHash},
                      {"options", decisions}};
  if (ranks > 1)
    json["ranks"] = ranks;
  if (!plan.empty()) {
    json["plan"] = plan;
    json["plan_options"] = planOptions;
  }
  if (watch) {
    nlohmann::json kept = nlohmann::json::array();
    for (const WatchState::Kept &one : watch->kept)
      kept.push_back({one.step, one.value});
    json["watch"] = {{"metric", watch->metric},
                     {"best", watch->best ? nlohmann::json(*watch->best) : nlohmann::json()},
                     {"best_step", watch->bestStep},
                     {"worse", watch->worse},
                     {"counted", watch->counted},
                     {"kept", kept}};
  }
  return json.dump();
}

/// nullopt where the object lacks something.
/// What was best is not worth ending a run for: pairs of `kept` that are damaged are left out.
static std::optional<WatchState> readWatch(const nlohmann::json &json) {
  WatchState state;
  // Any integer: -1 is a step, too, where there was none.
  auto number = [&](const char *key, int64_t &into) {
    const auto at = json.find(key);
    if (at == json.end() || !at->is_number_integer())
      return false;
    into = at->get<int64_t>();
    return true;
  };
  const auto metric = json.find("metric"), best = json.find("best"), kept = json.find("kept");
  if (metric == json.end() || !metric->is_string() || best == json.end() || kept == json.end() ||
      !kept->is_array() || !number("best_step", state.bestStep) || !number("worse", state.worse) ||
      !number("counted", state.counted))
    return std::nullopt;
  state.metric = metric->get<std::string>();
  if (best->is_number())
    state.best = best->get<double>();
  for (const nlohmann::json &one : *kept)
    if (one.is_array() && one.size() == 2 && one[0].is_number_integer() && one[1].is_number())
      state.kept.push_back({one[0].get<int64_t>(), one[1].get<double>()});
  return state;
}

/// nullopt for what has not all numbers, or a negative one. A run then takes the state of the model
/// from the checkpoint, and data from its beginning.
std::optional<DataState> DataState::fromJson(const std::string &text) {
  const auto json = parseJson<nlohmann::json>(text);
  if (!json.is_object())
    return std::nullopt;
  DataState state;
  auto read = [&](const char *key, int64_t &into) {
    auto at = json.find(key);
    if (at == json.end() || !at->is_number_integer())
      return false;
    into = at->get<int64_t>();
    return into >= 0;
  };
  auto string = [&](const char *key) {
    auto at = json.find(key);
    return at != json.end() && at->is_string() ? at->get<std::string>() : std::string();
  };
  // Before the position, whose key depends on it. These may be missing: older checkpoints lack
  // some.
  state.plan = string("plan");
  state.planOptions = string("plan_options");
  state.dataHash = string("data");
  if (auto at = json.find("options"); at != json.end() && at->is_object())
    for (const auto &[name, value] : at->items())
      if (value.is_string())
        state.decisions[name] = value.get<std::string>();
  if (!read("epoch", state.position.epoch) ||
      !read(state.plan.empty() ? "row" : "batch", state.position.index) ||
      !read("rows", state.rows) || !read("batch_size", state.batchSize) ||
      !read("accumulate", state.accumulate))
    return std::nullopt;
  // One is not written.
  if (!read("ranks", state.ranks))
    state.ranks = 1;
  if (auto watch = json.find("watch"); watch != json.end() && watch->is_object())
    state.watch = readWatch(*watch);
  auto shuffle = json.find("shuffle");
  state.shuffle = shuffle != json.end() && shuffle->is_boolean() && shuffle->get<bool>();
  return state;
}

/// A folder that is not there has no checkpoints. Only names of the form step-N are touched. The
/// rest comes in no order.
std::vector<int64_t> removeCheckpoints(const std::string &folder,
                                       const std::function<bool(int64_t step)> &isRemoved) {
  namespace fs = std::filesystem;
  std::vector<int64_t> rest;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    const std::optional<int64_t> step =
        name.starts_with("step-") ? parseInteger(name.substr(5)) : std::nullopt;
    std::error_code ignored; // one that stays is in nobody's way
    if (step && isRemoved(*step))
      fs::remove_all(it->path(), ignored);
    else if (step)
      rest.push_back(*step);
  }
  return rest;
}

/// Before the first step. A run that goes on removes the best ones behind its checkpoint: those
/// steps are made again. With --overwrite another run's stay until the first of this run is whole.
void claimBest(const Options &options, trainrt_session *session) {
  if (!options.speaks())
    return;
  const std::string folder = options.save + "/best";
  const int64_t done = trainrt_session_step(session);
  const bool isFresh = options.resume.empty();
  const std::vector<int64_t> found =
      removeCheckpoints(folder, [&](int64_t step) { return !isFresh && step > done; });
  if (isFresh && !options.overwrite && !found.empty())
    throw Failure(exitInput, folder + " has checkpoints of another run: save into another "
                                      "folder, or remove them with --overwrite");
}

/// In this order: the session, its checkpoint, the claim of the folder. The claim allows what was
/// loaded from there, so it cannot come first. `ranks`, `profile`, `density` and `memory` outlive
/// the session.
Session openSession(const Options &options, const Package &package, bool inference,
                    trainrt_ranks *ranks, Profile *profile, DensityLog *density, MemoryLog *memory,
                    bool told, Reporter &reporter) {
  trainrt_session_options settings = trainrt_session_options_default();
  settings.threads = uint32_t(options.threads.value_or(0));
  settings.inference = inference;
  settings.seed = options.seed.value_or(0);
  settings.device = int32_t(options.device);
  settings.synchronous = options.synchronous;
  settings.check_numerics = options.checkNumerics;
  settings.no_variants = !options.variants;
  settings.any_model = options.anyModel;
  // Ranks share out training steps; an evaluation has none.
  settings.emulate_world = inference ? 0 : int32_t(options.emulateWorld);
  settings.ranks = ranks;
  // Processes have told each other when they met.
  if (settings.emulate_world) {
    settings.ranks_per_node = int32_t(options.ranksPerNode);
    settings.shard_within = int32_t(options.shardWithin);
  }
  if (profile)
    profile->attach(settings);
  if (density)
    density->attach(settings);
  if (memory)
    memory->attach(settings);
  if (!options.weights.empty()) {
    settings.weights = TRAINRT_WEIGHTS_FILE;
    settings.weights_path = options.weights.c_str();
  } else if (options.initStd) {
    settings.weights = TRAINRT_WEIGHTS_RANDOM;
    settings.init_std = *options.initStd;
  }

  Session session;
  trainrt_session *created = nullptr;
  {
    ErrorSlot error;
    trainrt_status status =
        trainrt_session_create(package.handle.get(), &settings, &created, error);
    if (status == TRAINRT_MISSING_WEIGHTS && !options.resume.empty()) {
      // The checkpoint may have them all.
      settings.weights = TRAINRT_WEIGHTS_NONE;
      ErrorSlot second;
      second.check(trainrt_session_create(package.handle.get(), &settings, &created, second));
    } else {
      error.check(status);
    }
  }
  // From here on it is freed, whatever throws below.
  session.handle.reset(created);
  // The second session of a run would say all of it once more.
  auto warn = [&] {
    if (!told)
      reportWarnings(created, reporter);
  };
  warn();
  if (profile) {
    double speed = 0;
    ErrorSlot error;
    // Before there are steps, so that none is disturbed.
    error.check(trainrt_session_copy_speed(created, &speed, error));
    profile->setCopySpeed(speed);
  }

  if (!options.resume.empty()) {
    trainrt_checkpoint_info info = trainrt_checkpoint_info_default();
    ErrorSlot error;
    error.check(trainrt_checkpoint_load(created, options.resume.c_str(), &info, error));
    session.resumed = DataState::fromJson(info.data_position ? info.data_position : "");
    const std::string path = info.path ? info.path : options.resume;
    const int64_t seed = info.seed;
    warn();
    if (!told)
      reporter.fact("resumed", path + ", " + grouped(info.step) + " steps done");
    if (!told && options.seed && *options.seed != seed)
      reporter.warning("--seed " + std::to_string(*options.seed) + " is ignored: " + path +
                       " continues with its seed " + std::to_string(seed));
  }
  if (!options.save.empty()) {
    ErrorSlot error;
    error.check(trainrt_checkpoint_claim(created, options.save.c_str(),
                                         options.overwrite ? TRAINRT_CLAIM_OVERWRITE : 0, error));
    warn();
  }
  return session;
}

/// A line is one warning; empty ones are none.
void reportWarnings(trainrt_session *session, Reporter &reporter) {
  const char *text = trainrt_session_warnings(session);
  if (!text || !*text)
    return;
  for (const std::string &line : split(text, '\n'))
    if (!line.empty())
      reporter.warning(line);
}

namespace {

std::atomic<int> signalSeen{0};
/// What a signal does to the process, beside being seen.
enum AtSignal { goesOn, ends, endsAndTells };
std::atomic<int> atSignal{goesOn};
std::atomic<int64_t> signalledAt{0}; ///< nanoseconds; 0: not yet
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<int64_t>::is_always_lock_free,
              "needed within a signal handler");

/// Nothing but what handlers may call. A second signal ends the process, for a step that does not
/// come to its end; but within a second it is the same request, which has come to all processes of
/// a job and from their parent, too.
extern "C" void onSignal(int signal) {
  if (const int what = atSignal.load(); what != goesOn) {
    if (what == endsAndTells) {
      static const char text[] = "trainc-run: error: interrupted before all ranks were there\n";
      [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
    }
    ::_exit(exitInput);
  }
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  const int64_t now = int64_t(time.tv_sec) * 1'000'000'000 + time.tv_nsec;
  int64_t first = 0;
  if (signalledAt.compare_exchange_strong(first, now)) {
    signalSeen.store(signal);
  } else if (now - first > 1'000'000'000) {
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
}

/// A plug-in's function dies as the program's own code does, but is named.
extern "C" void onCrash(int signal) {
  if (const char *running = trainrt_running_plugin()) {
    const char *const parts[] = {"trainc-run: error: ", running,
                                 " has crashed; the fault is in its own code (a debugger shows "
                                 "where: gdb --args trainc-run ...)\n"};
    for (const char *part : parts) [[maybe_unused]]
      ssize_t ignored = ::write(STDERR_FILENO, part, std::strlen(part));
  }
  std::signal(signal, SIG_DFL);
  ::raise(signal); // also where it came from another process, and would not come again
}

/// A plug-in's function that ends the process would end the training as if all were well.
void onExit() {
  if (const char *running = trainrt_running_plugin()) {
    std::fflush(nullptr);
    std::fprintf(stderr, "trainc-run: error: %s has ended the process; it is to return an error\n",
                 running);
    ::_exit(exitInput);
  }
}

/// A read of a mapped file that has no such bytes any more.
/// Ends the process without destructors: they could touch the same memory again. `write` and
/// `_exit` are what a handler may call.
extern "C" void onBusError(int signal, siginfo_t *info, void *) {
  if (info->si_code == BUS_ADRERR) {
    static const char text[] =
        "trainc-run: error: a file that was being read (data, weights, package or checkpoint) was "
        "cut short by another program, or its disk failed\n";
    [[maybe_unused]] ssize_t ignored = ::write(STDERR_FILENO, text, sizeof text - 1);
    ::_exit(exitInput);
  }
  onCrash(signal);
}

} // namespace

/// Once, before other threads are started: handlers are the process's.
void catchSignals() {
  struct sigaction bus{};
  bus.sa_sigaction = onBusError;
  bus.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &bus, nullptr);
  // A sanitizer has handlers of its own.
  struct sigaction crash{}, before{};
  crash.sa_handler = onCrash;
  crash.sa_flags = SA_ONSTACK; // a full stack is a crash, too
  for (int signal : {SIGSEGV, SIGFPE, SIGILL, SIGABRT})
    if (sigaction(signal, &crash, &before); before.sa_handler != SIG_DFL)
      sigaction(signal, &before, nullptr);
  std::atexit(onExit);
  // What is ignored stays so: nohup, and a shell's background jobs.
  for (int signal : {SIGINT, SIGTERM, SIGHUP})
    if (std::signal(signal, onSignal) == SIG_IGN)
      std::signal(signal, SIG_IGN);
  for (int signal : {SIGPIPE, SIGXFSZ}) // errors of the write: EPIPE, EFBIG
    std::signal(signal, SIG_IGN);
}

/// Reading from one and writing to the others fails, as where they are closed.
void holdStandardStreams() {
  for (int stream = STDIN_FILENO; stream <= STDERR_FILENO; ++stream)
    if (::fcntl(stream, F_GETFD) < 0)
      (void)::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
}

/// A signal that came just before has been seen only: it is raised once more.
EndsAtSignals::EndsAtSignals(bool tells) {
  atSignal.store(tells ? endsAndTells : ends);
  if (const int signal = signalSeen.load())
    ::raise(signal);
}
EndsAtSignals::~EndsAtSignals() { atSignal.store(goesOn); }

/// May be asked from any thread and as often as wanted: what was seen stays.
const char *interruption() {
  switch (signalSeen.load()) {
  case SIGINT:
    return "SIGINT";
  case SIGTERM:
    return "SIGTERM";
  case SIGHUP:
    return "SIGHUP";
  default:
    return nullptr;
  }
}

} // namespace trainrt::run
