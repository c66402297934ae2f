// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order of a run: options, package, data (errors there are cheap), session, training,
// evaluation, prediction, export.
#include "cli/main.h"
#include "format/status.h"

#include "cli/data/memory_fit.h"
#include "cli/evaluate.h"
#include "cli/export.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "cli/info.h"
#include "cli/log/introduce.h"
#include "cli/log/run_log.h"
#include "cli/log/summary_page.h"
#include "cli/outputs.h"
#include "cli/ranks/launch.h"
#include "cli/ranks/place.h"
#include "cli/train.h"
#include "cli/tune.h"
#include "format/target.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>

namespace trainrt::run {

namespace {

using Clock = std::chrono::steady_clock;

/// One run of the program: what its options ask for, one thing after the other.
/// Members are made in the order in which they refer to each other, and go in the reverse one: the
/// order of batches before the data, the session before what it calls.
class Run {
public:
  Run(Options given, const RankPlace &place, JoinedRanks &ranks)
      : options(std::move(given)), place(place), ranks(ranks),
        reporter(makeReporter({options.json, options.logLevel, options.warningsAsErrors,
                               place.isFirst() ? std::nullopt : std::optional(place.rank),
                               place.isFirst() || options.allRanksSpeak})),
        package(options.package, options.verifyKey), training(!options.data.empty()) {
    timed("opening " + options.package);
  }
  void perform();

private:
  void printInfo();
  /// What is written at the end is checked, and what is told on the way made, before anything is
  /// read.
  void prepareOutputs();
  void makeSession();
  void openData();
  void openLogs();
  void planBatches();
  /// Trains, with a page about it however that ends.
  void trainLogged();
  void writeOutputs();
  void tellTotals();
  void timed(const std::string &what);

  Options options;
  const RankPlace &place;
  JoinedRanks &ranks;
  const std::unique_ptr<Reporter> reporter;
  Clock::time_point last = Clock::now();
  const Package package;
  const bool training;
  Profile profile;
  std::optional<DensityLog> density;
  std::optional<MemoryLog> memory;
  std::unique_ptr<RunLog> runLog;
  std::unique_ptr<SummaryPage> page;
  std::optional<Session> session;
  std::unique_ptr<Dataset> data, evalData;
  std::unique_ptr<BatchOrder> order;
};

/// From the end of the part before, so that all parts add up to the run.
void Run::timed(const std::string &what) {
  const Clock::time_point now = Clock::now();
  reporter->debug(what + " took " +
                  fixed(std::chrono::duration<double, std::milli>(now - last).count(), 3) + " ms");
  last = now;
}

/// Nobody would see that it got lost, so a full disk or a closed pipe is an error here.
void Run::printInfo() {
  const std::string text = packageInfo(package, options.json);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    throw Failure(exitInput,
                  std::string("cannot write to standard output: ") + std::strerror(errno));
}

/// Needs the package alone; the session takes the logs of density and memory when it is made.
void Run::prepareOutputs() {
  checkOutputs(options, package);
  checkExports(options, package);
  if (options.density)
    density.emplace(package, *options.density, options.json);
  if (options.memoryStats && training)
    memory.emplace(options.ownRank, options.json);
}

/// May be called twice. The first session is freed before the second one is made: both may not fit
/// into a device's memory, and one claims the folder of checkpoints.
void Run::makeSession() {
  const bool told = session.has_value();
  session.reset(); // and what it has taken
  session.emplace(openSession(options, package, !training, training ? ranks.get() : nullptr,
                              options.profile.empty() ? nullptr : &profile,
                              density ? &*density : nullptr, memory ? &*memory : nullptr, told,
                              *reporter));
  loadAdapter(options, session->get(), *reporter);
  timed("making the session");
}

/// Needs no session, so that without --resume data that does not fit is found before
/// weights are read.
void Run::openData() {
  if (training) {
    checkTrainable(options, package);
    if (options.tune)
      checkTunable(options, package);
    Dataset::Reading reading = readingOf(options);
    // Evaluations read the same windows every time.
    reading.windows.random = options.shuffle;
    reading.extraArray = options.complexity;
    data = std::make_unique<Dataset>(package, options.data, Dataset::Use::train, options.batchSize,
                                     reading, *reporter);
    data->setRanks(options.allRanks(), hasShards(package) ? options.shardWithin : 0);
    if (!options.dumpGradients.empty() && (options.steps || options.epochs))
      reporter->warning("--dump-gradients makes one step without an update: --steps and --epochs "
                        "are ignored");
  }
  if (!options.eval.empty()) {
    if (!package.info.can_eval)
      throw Failure(exitInput, package.path + ": the package has no evaluation mode");
    if (!package.info.loss)
      throw Failure(exitInput, package.path + ": the package has no loss to evaluate; --predict "
                                              "writes its outputs");
    evalData = std::make_unique<Dataset>(package, options.eval, Dataset::Use::eval,
                                         options.batchSize, readingOf(options), *reporter);
    evalData->roundLengths(options.trim.value_or(1));
  }
}

/// Needs the session: for the memory that is free beside it, and for its seed, which a checkpoint
/// may have set.
void Run::planBatches() {
  if (training) {
    const MicroBatches micro =
        options.dumpGradients.empty() ? MicroBatches(options.accumulate) : 2; // with accumulators
    chooseBatch(package, session->get(), *data, micro);
    order = makeBatchOrder(options, package, *data, trainrt_session_seed(session->get()));
    int64_t rows = 0, length = 0;
    order->largest(rows, length);
    requireMemory(package, session->get(), *data, micro, rows, length,
                  options.tokensPerBatch ? "--tokens-per-batch" : "--batch-size", *reporter);
    timed("planning the batches");
  }
  if (evalData) {
    // 0 micro-batches: nothing is trained.
    chooseBatch(package, session->get(), *evalData, 0);
    requireMemory(package, session->get(), *evalData, 0, evalData->batchSize(), 0, "--batch-size",
                  *reporter);
  }
}

/// After a checkpoint was loaded: it says up to which step earlier lines stay.
void Run::openLogs() {
  const int64_t done = session->resumed ? trainrt_session_step(session->get()) : 0;
  if (!options.logDir.empty()) {
    runLog = std::make_unique<RunLog>(options.logDir, done, *reporter);
    reporter->add(*runLog);
  }
  if (options.summary.empty())
    return;
  page = std::make_unique<SummaryPage>(options.summary, options.arguments,
                                       runLog ? runLog->earlier() : SummaryPage::Points());
  reporter->add(*page);
}

/// Failures are told on the page, too, and go on. Other exceptions are errors of this program and
/// get no page.
void Run::trainLogged() {
  auto write = [&](const std::string &how) {
    trainrt_memory held = trainrt_memory_default();
    ErrorSlot error;
    error.check(trainrt_session_memory(session->get(), &held, error));
    // What was trained is not lost for a page that cannot be written.
    try {
      page->write(held, how);
      reporter->note("wrote " + options.summary);
    } catch (const Failure &failure) {
      reporter->warning(failure.what());
    }
  };
  std::string how;
  try {
    how = train(options, package, *session, *data, std::move(order), evalData.get(), ranks,
                density ? &*density : nullptr, memory ? &*memory : nullptr, *reporter);
  } catch (const Failure &failure) {
    if (page)
      write(failure.what());
    throw;
  }
  if (page)
    write(how.empty() ? "after all of its steps" : how);
}

/// After the training, or without any, from what a checkpoint or the weights give.
void Run::writeOutputs() {
  if (!options.predict.empty())
    predict(options, package, session->get(), *reporter);
  writeExports(options, package, session->get(), *reporter);
}

void Run::tellTotals() {
  if (!options.profile.empty()) {
    profile.write(options.profile);
    reporter->table(profile.table());
  }
  if (options.memoryStats) {
    trainrt_memory held = trainrt_memory_default();
    ErrorSlot error;
    error.check(trainrt_session_memory(session->get(), &held, error));
    reporter->memory(held);
  }
}

/// The order of a run. Options, package, data and memory are
/// looked at before the first step.
void Run::perform() {
  if (options.info)
    return printInfo();
  if (!place.isAlone()) {
    if (training && !package.info.distribute)
      throw Failure(exitInput, package.path + ": the package is for one rank, and " + place.source +
                                   " has started " + std::to_string(place.world) +
                                   "; compile it with --distribute data");
    if (training && sharesParameters(package) && options.shardWithin != 1 &&
        (!options.predict.empty() || !options.exportPath.empty() || !options.mergeAdapter.empty()))
      throw Failure(exitInput,
                    package.path + ": each of " + std::to_string(place.world) +
                        " processes has a part of the parameters (--distribute zero3), so none can "
                        "predict or export behind the training; --save a checkpoint, and give that "
                        "to one process: --resume DIR --predict ..., without --data");
    reporter->fact("ranks", std::to_string(place.world) + ", by " + place.source +
                                "; rank 0 is at " + place.coordinator);
    if (const std::string nodes = trainrt_ranks_nodes(ranks.get()); !nodes.empty())
      reporter->fact("nodes", nodes);
    if (options.shardWithin)
      reporter->fact("replicas", std::to_string(place.world / options.shardWithin) +
                                     " of what is in shards, of " +
                                     std::to_string(options.shardWithin) +
                                     (options.shardWithin == 1 ? " rank each" : " ranks each"));
    if (options.reduce == "nccl")
      reporter->fact("sums", "NCCL's own: only the same run on the same GPUs repeats their bits");
  }
  prepareOutputs();
  // What decides a run that goes on is in its checkpoint. Else, data is looked at first: what is
  // wrong there is found at once.
  if (training && !options.resume.empty()) {
    makeSession();
    if (session->resumed) {
      const bool variants = options.variants;
      options = continued(options, package, session->resumed->decisions);
      applyPlace(place, options);
      if (options.variants != variants)
        makeSession(); // which has them or not
    }
  }
  if (options.accumulate == 0)
    options.accumulate = package.info.accumulate;
  openData();
  timed("reading the descriptions of the data");

  if (!session)
    makeSession();
  if (training && options.keepBest)
    claimBest(options, session->get());
  planBatches();
  if (training && !options.dryRun)
    openLogs();
  if (const std::string carrier = trainrt_ranks_carrier(ranks.get()); !carrier.empty())
    reporter->fact("exchange", carrier);
  const trainrt_memory plan =
      introduce(options, package, *session, data.get(), order.get(), *reporter);
  if (options.dryRun) {
    // A person has been told.
    if (options.json)
      reporter->memory(plan);
    return;
  }
  if (options.tune) {
    tune(options, session->get(), *data, *reporter);
  } else if (training) {
    trainLogged();
  } else if (evalData) {
    Accuracy accuracy(package, /*wanted=*/false);
    evaluate(package, session->get(), *evalData, ranks, accuracy, *reporter);
  }
  timed("running");
  writeOutputs();
  tellTotals();
  if (std::string lost = reporter->lost(); !lost.empty())
    throw Failure(exitInput, lost);
}

/// Standard output first, so that both streams come in order on one terminal.
int fail(int code, const std::string &message) {
  std::fflush(stdout);
  std::fprintf(stderr, "trainc-run: error: %s\n", shownLines(message).c_str());
  return code;
}

/// A package of CPUs would run, and leave the GPUs idle.
void needGpus(const Options &options) {
  const Package package(options.package, options.verifyKey);
  if (!traitsOf(package.info.target).isSeparate)
    throw Failure(exitInput, package.path + ": the package is for CPUs, and --gpus is a rank for "
                                            "each GPU; compile it with --target cuda, or start its "
                                            "ranks with --ranks N");
}

/// One of the ranks that there would be, without the others.
void planOne(Options &options) {
  options.share = std::max({int64_t(1), options.ranks, options.gpus, options.emulateWorld});
  options.emulateWorld = 0;
  options.save.clear();
  options.keepBest.reset();
}

/// As one of the ranks that train together, if there are several.
int runRank(Options options) {
  const bool hasSteps = !options.data.empty() || !options.eval.empty();
  const bool isAlone = !hasSteps || options.info || options.tune.has_value() || options.dryRun;
  const RankPlace place = isAlone ? RankPlace() : findPlace(options);
  continueRestarted(place, options);
  if (options.dryRun)
    planOne(options);
  checkGroups(options, std::max(place.world, options.allRanks()));
  // Outlives the run, and with it the session that exchanges by it.
  JoinedRanks joined;
  try {
    if (!place.isAlone()) {
      const EndsAtSignals waiting(place.isFirst());
      joined.join(place, options);
    }
    applyPlace(place, options);
    Run(std::move(options), place, joined).perform();
    return exitSuccess;
  } catch (const Failure &failure) {
    if (!joined.get())
      throw;
    // A failure that all ranks have needs no telling; any other would leave them waiting.
    if (!failure.isShared)
      joined.fail(failure.what());
    // Rank 0 tells what it gets to know of the others.
    if (place.isFirst())
      throw;
    if (failure.code == exitRanks)
      throw Failure(failure.code, "rank " + std::to_string(place.rank) + ": " + failure.what());
    return failure.code;
  } catch (const std::exception &error) {
    joined.fail(error.what());
    throw;
  }
}

} // namespace

int runMain(int argc, char **argv) {
  holdStandardStreams();
  try {
    ParsedOptions parsed = parseOptions(std::vector<std::string>(argv + 1, argv + argc));
    if (!parsed.options) {
      std::fputs(parsed.text.c_str(), parsed.exitCode ? stderr : stdout);
      return parsed.exitCode;
    }
    if (parsed.options->gpus)
      needGpus(*parsed.options);
    // This process only starts the ranks, which open package and data.
    if ((parsed.options->ranks || parsed.options->gpus) && !parsed.options->dryRun) {
      checkGroups(*parsed.options, parsed.options->gpus + parsed.options->ranks);
      return launchRanks(*parsed.options);
    }
    catchSignals();
    return runRank(std::move(*parsed.options));
  } catch (const Failure &failure) {
    return fail(failure.code, failure.what());
    // Of this program itself; what the library lacks is a Failure.
  } catch (const std::bad_alloc &) {
    return fail(exitResources, "out of memory");
  } catch (const std::exception &error) {
    return fail(exitInternal, std::string("internal error: ") + error.what());
  }
}

} // namespace trainrt::run
