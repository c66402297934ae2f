// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --data: steps over micro-batches, the learning rate's schedule, evaluations, checkpoints, and the
// orderly end of a run that cannot go on.
#include "cli/train.h"

#include "cli/data/loader.h"
#include "cli/evaluate.h"
#include "cli/export.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "cli/watch.h"
#include "format/target.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

namespace trainrt::run {

namespace {

using Clock = std::chrono::steady_clock;

/// `values` is not empty. Of an even number it is the upper one of the two in the middle.
double median(std::vector<double> values) {
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::string billions(double speed) {
  return shortest(std::round(speed / 1e9)) + " billion operations a second";
}

/// A step that has been given to the session.
struct Given {
  std::unique_ptr<StepData> data;
  double lr = 0;
  Clock::time_point start;              ///< before its data was asked for
  std::vector<DensityRecord> density{}; ///< with --density
  std::string memory{};                 ///< with --memory-stats
};

class Trainer {
public:
  Trainer(const Options &options, const Package &package, const Session &session,
          const Dataset &data, std::unique_ptr<BatchOrder> batches, const Dataset *evalData,
          JoinedRanks &ranks, DensityLog *density, MemoryLog *memory, Reporter &reporter)
      : options(options), package(package), session(session.get()), data(data), evalData(evalData),
        ranks(ranks), density(density), memory(memory), reporter(reporter),
        order(std::move(batches)), plan(order->plan()), planOptions(order->planOptions()),
        dataHash(data.hash()), schedule(options.schedule), watch(options),
        accuracy(package, options.metric == "accuracy"),
        runsAhead(traitsOf(package.info.target).runsAhead && !options.synchronous &&
                  options.dumpGradients.empty() && options.profile.empty() &&
                  !options.checkNumerics),
        lag(runsAhead && options.accumulate == 1 && options.emulateWorld <= 1) {
    // The schedule's end is settled before it becomes a decision, and decisions before they are
    // compared with those of a checkpoint.
    stepsGiven = firstStep = stepsDone();
    baseLr = options.lr.value_or(package.info.lr);
    lastStep = countSteps();
    if (!schedule.total)
      schedule.total = lastStep;
    decisions = decisionsOf(options, package, data, schedule);
    if (session.resumed)
      resume(*session.resumed);
    if (options.tellsPeakShare())
      peakFlops = options.peakFlops ? *options.peakFlops : measurePeak();
    if (options.tellsPeakShare() && !options.peakFlops && !std::isnan(peakFlops))
      reporter.fact("peak", billions(peakFlops) + ", measured by a matmul");
    // Behind `resume`, which may have moved the order.
    position = order->position();
  }

  std::string run();
  void dumpGradients();
  /// Where a rank is lost, with the checkpoint that the run can begin again from.
  Failure explained(const Failure &failure) const;

private:
  /// Whether it is one of several processes, which end together.
  bool isRanked() const { return options.share > 1; }
  /// Ends the run where another rank has other data or options.
  void compareRanks();
  /// Of several ranks one that cannot read its batches says so with the step.
  std::unique_ptr<StepData> nextData(StepLoader &loader);
  trainrt_status stepTogether(Given &step, const trainrt_step_options &settings,
                              trainrt_step_result &result, ErrorSlot &error);
  int64_t stepsDone() const { return trainrt_session_step(session); }
  /// The number of the run's last step.
  int64_t countSteps() {
    if (options.steps)
      return *options.steps;
    // Steps do not reach across epochs: the last one of each may have fewer micro-batches.
    auto steps = [&](int64_t epoch) {
      return (order->batches(epoch) + options.microBatches() - 1) / options.microBatches();
    };
    const int64_t epochs = options.epochs.value_or(1);
    if (order->isRegular())
      return epochs * steps(0);
    int64_t count = 0;
    for (int64_t epoch = 0; epoch < epochs; ++epoch)
      count += steps(epoch);
    return count;
  }

  void resume(const DataState &state);
  /// Operations a second; NaN where there is nothing to measure.
  double measurePeak() const;
  /// Of the peak, the part that a step of so many operations a second has; more than was measured
  /// is a better measurement.
  double peakShare(double speed);
  /// Of a measured peak, whether the machine was busy then.
  void checkPeak();
  StepLoader::Settings loading() const;
  trainrt_step_options stepOptions(double lr) const;
  std::string whereBad(const StepData &step, const std::string &message) const;
  /// The outcome of a step: logged, or thrown.
  void report(trainrt_status status, const ErrorSlot &error, const trainrt_step_result &result,
              const Given &step);
  /// The same, and what follows from it: the position, or the end of the run.
  void settle(trainrt_status status, const ErrorSlot &error, const trainrt_step_result &result,
              Given step, StepLoader &loader);
  /// Of a step that was not finite: why there is nothing of the state before it, and how to make
  /// that after `step`, since this session no longer has it.
  std::string whyUnsaved() const;
  std::string wayBack(int64_t step) const;
  /// Starts a step; its outcome comes at once or, with `lag`, while the next one is started.
  void give(std::unique_ptr<StepData> data, Clock::time_point start, StepLoader &loader);
  /// Waits for the step under way.
  void drain(StepLoader &loader);
  void save(BatchOrder::Position position);
  /// Writes a checkpoint of the session's step, on all ranks together.
  void write(const std::string &folder, uint32_t keep, BatchOrder::Position position);
  /// `body`, whose failures all ranks have.
  template <typename Body> void together(const Body &body) {
    try {
      body();
    } catch (const Failure &failure) {
      throw Failure(failure.code, failure.what(), isRanked());
    }
  }
  DataState dataState(BatchOrder::Position position) const;
  /// Into the folder of the best checkpoints, if this evaluation is one of them.
  void saveBest(const EvalRecord &record);
  /// Whether a run that goes on evaluates here, too: what it decides by.
  bool evaluatesHere() const {
    const int64_t done = stepsDone();
    return done == 0 || (options.evalEvery && done % *options.evalEvery == 0) ||
           (!options.steps && position.index == 0);
  }
  /// Says what batches were not run as quickly as others are, each reason once.
  void noticeDeclined();
  /// The reasons so far, and what plans there are.
  trainrt_plan_info planInfo(std::vector<std::string> &declined) const;
  void summarize();
  /// `decides`: by its result, too, what is kept and when the run ends.
  void evaluateNow(bool decides = true);

  const Options &options;
  const Package &package;
  trainrt_session *session;
  const Dataset &data;
  const Dataset *evalData;
  JoinedRanks &ranks;
  DensityLog *density;
  MemoryLog *memory;
  Reporter &reporter;
  std::unique_ptr<BatchOrder> order; ///< until the loader takes it
  const std::string plan, planOptions, dataHash;
  int64_t lastStep = 0;
  /// Steps done, and the one under way; and those done before this run.
  int64_t stepsGiven = 0, firstStep = 0;
  /// Behind the last step whose outcome is known.
  BatchOrder::Position position;
  LrSchedule schedule;
  Watch watch;
  Accuracy accuracy;
  double peakFlops = NAN;
  bool peakTold = false; ///< that a step was quicker
  double baseLr;
  Decisions decisions;
  /// Batches are made and checked while a GPU trains.
  const bool runsAhead;
  /// A GPU gets the next step before the outcome of the last one is known. Steps of several
  /// micro-batches of a rank end within their call: with a lag their time would be told of the one
  /// before.
  const bool lag;
  std::optional<Given> underway;
  Clock::time_point reported = Clock::time_point::min();
  int64_t savedAt = -1, evaluatedAt = -1;
  /// Of every step: wall time, and time within trainrt_step but for waiting for the GPU.
  std::vector<double> stepMilliseconds, hostMicroseconds;
  uint64_t peakBytes = 0;
  size_t reasonsTold = 0;
  bool othersEnd = false; ///< a rank wants no further step
};

/// Throws before anything has changed where the run cannot go on. What only differs is one warning
/// with all of it; the order then begins at the checkpoint's position.
void Trainer::resume(const DataState &state) {
  std::vector<std::string> changes;
  if (state.rows != data.rows())
    changes.push_back("the number of rows was " + std::to_string(state.rows) + " and is " +
                      std::to_string(data.rows()));
  else if (!state.dataHash.empty() && state.dataHash != dataHash)
    changes.push_back("the data's values have changed");
  // The plan follows from data and options. It is told only where none of both explains it.
  const bool otherData = !changes.empty();
  Decisions before = state.decisions;
  if (before.empty()) { // a checkpoint that only tells these
    before = decisions;
    before["--batch-size"] = std::to_string(state.batchSize);
    before["--accumulate"] = std::to_string(state.accumulate);
    before.erase("--shuffle");
    if (state.shuffle)
      before["--shuffle"] = "";
    if (data.staticBatch() || !decisions.count("--batch-size"))
      before.erase("--batch-size");
  }
  for (std::string &change : differences(before, decisions))
    changes.push_back(std::move(change));
  if (state.plan != plan && changes.empty())
    changes.push_back(state.planOptions == planOptions
                          ? "the lengths of the data's rows, or the seed, have changed"
                          : "the batches were made '" + state.planOptions + "' and are now '" +
                                planOptions + "'");
  if (state.ranks != options.allRanks())
    changes.push_back("the number of ranks was " + std::to_string(state.ranks) + " and is " +
                      std::to_string(options.allRanks()));
  // At the beginning of an epoch no row has been seen, and others do no harm. Within one, some rows
  // would be trained twice and some not at all.
  const bool otherRows = otherData || state.plan != plan || state.shuffle != options.shuffle;
  if (otherRows && state.position.index)
    throw Failure(exitInput,
                  options.resume + ": the checkpoint was written in the middle of epoch " +
                      std::to_string(state.position.epoch) +
                      ", whose batches are others now: " + join(changes, ", ") +
                      "; continue with the data and the options that the run began with");
  order->seek(state.position);
  if (state.watch)
    watch.resume(*state.watch, stepsDone(), reporter);
  if (!changes.empty())
    reporter.warning("the run does not continue as it began: " + join(changes, ", "));
  if (schedule.kind != LrSchedule::Kind::constant && schedule.total < lastStep &&
      !options.given.count("--lr-schedule"))
    reporter.warning("the schedule of the learning rate ends with step " +
                     std::to_string(*schedule.total) +
                     ", as the run began, and the run with step " + std::to_string(lastStep) +
                     "; --lr-schedule gives it another one");
}

/// For a loader that begins where the session is. `steps` may be 0 or less: all are done already,
/// and the loader gives none.
StepLoader::Settings Trainer::loading() const {
  StepLoader::Settings settings;
  settings.session = session;
  settings.microBatches = options.microBatches();
  if (isRanked()) {
    settings.rank = options.ownRank;
    settings.ranks = options.share;
  }
  if (options.steps)
    settings.steps = *options.steps - stepsDone();
  settings.epochs = options.epochs.value_or(1);
  settings.ahead = runsAhead;
  settings.checks = runsAhead || isRanked();
  return settings;
}

/// Of the next step. What the command line does not say stays NaN, which is the package's value.
trainrt_step_options Trainer::stepOptions(double lr) const {
  trainrt_step_options settings = trainrt_step_options_default();
  settings.lr = lr;
  if (options.weightDecay)
    settings.weight_decay = *options.weightDecay;
  if (options.clipNorm)
    settings.clip_norm = *options.clipNorm;
  settings.accumulate_by = options.accumulateBy == "rows"     ? TRAINRT_BY_ROWS
                           : options.accumulateBy == "tokens" ? TRAINRT_BY_TOKENS
                           : options.accumulateBy == "mean"   ? TRAINRT_BY_MEAN
                                                              : TRAINRT_BY_LOSS;
  if (options.allowNonfinite)
    settings.flags |= TRAINRT_STEP_ALLOW_NONFINITE;
  if (runsAhead || isRanked())
    settings.flags |= TRAINRT_STEP_CHECKED; // by the loader
  if (lag)
    settings.flags |= TRAINRT_STEP_LAG;
  // A rank must not leave alone, the others would wait for it. It says so with a step, and all end
  // behind that one.
  if (isRanked() && (interruption() || !reporter.lost().empty()))
    settings.flags |= TRAINRT_STEP_LAST;
  return settings;
}

/// The rows of the file that an error of a check is about; "" where that is not known.
std::string Trainer::whereBad(const StepData &step, const std::string &message) const {
  const size_t count = step.views.size();
  if (count == 1)
    return data.where(step.batches[0], message);
  std::string where;
  for (size_t i = 0; i < count; ++i) {
    const std::string number = "micro-batch " + std::to_string(i) + ": ";
    if (message.find(number) != std::string::npos)
      where = number + data.where(step.batches[i], message);
  }
  return where;
}

/// Returns only for steps that were made and for those that are not finite; the caller decides on
/// these.
void Trainer::report(trainrt_status status, const ErrorSlot &error,
                     const trainrt_step_result &result, const Given &step) {
  // Bad data is told with the rows of the file.
  if (status != TRAINRT_OK && status != TRAINRT_NONFINITE) {
    const std::string message = error.message(status);
    // Of another rank these are not the batches.
    const bool isOwn = status == TRAINRT_BAD_DATA && !message.starts_with("rank ");
    error.check(status, isOwn ? whereBad(*step.data, message) : "");
  }
  // Steps that overlap: from the end of the one before.
  const Clock::time_point now = Clock::now();
  const double ms =
      std::chrono::duration<double, std::milli>(now - std::max(step.start, reported)).count();
  reported = now;
  // Times of steps never overlap, so their sum is at most the time of the run.
  stepMilliseconds.push_back(ms);
  peakBytes = result.peak_bytes;
  // The rate is NaN where the model's own algorithm decides on it; the session says what it was.
  reporter.step({result.step, result.loss, std::isnan(step.lr) ? result.lr : step.lr, ms,
                 double(step.data->rows) / ms * 1000, result.peak_bytes, result.grad_norm,
                 step.data->tokens,
                 result.flops > 0 ? peakShare(result.flops / (ms / 1000)) : NAN});
}

/// Called once for each step, in the order of steps. `position` moves only here, behind steps that
/// went well, so a checkpoint never claims rows whose step has failed.
void Trainer::settle(trainrt_status status, const ErrorSlot &error,
                     const trainrt_step_result &result, Given step, StepLoader &loader) {
  report(status, error, result, step);
  if (options.checkNumerics || result.nonfinite)
    reportWarnings(session, reporter);
  if (density)
    if (const std::string text = density->add(std::move(step.density)); !text.empty())
      reporter.lines(text);
  if (!step.memory.empty())
    reporter.lines(step.memory);
  if (status == TRAINRT_NONFINITE) {
    reporter.end();
    // What was updated in part is the state of no step.
    const bool isWhole = result.nonfinite == 1;
    const bool saves = isWhole && !options.save.empty() && stepsDone() > firstStep;
    if (saves)
      save(step.data->before);
    throw Failure(exitInput,
                  error.message(status) +
                      "\na lower --lr, a warm-up (--lr-schedule), clipping (trainc --clip-norm) or "
                      "other data may help; --check-numerics names the node that it comes from, "
                      "--allow-nonfinite goes on without such steps\n" +
                      (saves || (savedAt >= 0 && savedAt == result.step - 1)
                           ? "the state before that step is saved in " + options.save
                       : isWhole ? whyUnsaved()
                                 : wayBack(result.step - 1)));
  }
  // Nothing reads the rows any more: the step's result is here.
  position = step.data->after;
  loader.recycle(std::move(step.data));
}

static constexpr char nothingSaved[] = "nothing was saved: no step was made before it";

std::string Trainer::whyUnsaved() const {
  return options.save.empty()
             ? "nothing was saved: --save DIR would keep the state before that step"
             : nothingSaved;
}

/// From this run's newest checkpoint, else the one that it began with, else from the beginning.
std::string Trainer::wayBack(int64_t step) const {
  const std::string newest = savedAt >= 0 ? options.save : options.resume;
  if (step == 0)
    return nothingSaved;
  return "the state after it is not saved; the same command with " +
         (newest.empty() ? std::string() : "--resume " + newest + " ") + "--steps " +
         std::to_string(step) + (options.save.empty() ? " --save DIR" : "") +
         " makes that before it again";
}

/// A file that cannot be read any more, or has changed, is found here. What is no fault of the data
/// ends the run at once.
std::unique_ptr<StepData> Trainer::nextData(StepLoader &loader) {
  try {
    return loader.next();
  } catch (const Failure &failure) {
    if (!isRanked() || failure.code != exitInput)
      throw;
    auto refused = std::make_unique<StepData>();
    refused->status = TRAINRT_BAD_DATA;
    refused->refusal = failure.what();
    return refused;
  }
}

/// Bad data of this rank goes to the others with its file and rows, which they do not know.
trainrt_status Trainer::stepTogether(Given &step, const trainrt_step_options &settings,
                                     trainrt_step_result &result, ErrorSlot &error) {
  StepData &own = *step.data;
  if (own.status != TRAINRT_OK) {
    std::string why = own.refusal;
    if (why.empty()) {
      why = own.error.message(own.status);
      if (const std::string where = whereBad(own, why); !where.empty())
        why += "\n" + where;
    }
    trainrt_ranks_refuse(ranks.get(), why.c_str());
    own.views.clear();
  }
  trainrt_ranks_set_count(ranks.get(), own.tokens);
  const trainrt_status status =
      trainrt_step(session, own.views.data(), own.views.size(), &settings, &result, error);
  own.tokens = trainrt_ranks_count(ranks.get());
  return status;
}

/// All that decides on what ranks do together. What only rank 0 does differs.
void Trainer::compareRanks() {
  std::map<std::string, std::string> facts = decisions;
  facts["the number of rows"] = std::to_string(data.rows());
  facts["the hash of the data"] = dataHash;
  facts["the hash of the batches"] = plan;
  facts["the number of steps done"] = std::to_string(stepsDone());
  facts["the place in the data"] =
      std::to_string(position.epoch) + ":" + std::to_string(position.index);
  facts["the last step"] = std::to_string(lastStep);
  facts["--eval-every"] = std::to_string(options.evalEvery.value_or(0));
  facts["--save-every"] = std::to_string(options.saveEvery.value_or(0));
  facts["--save"] = options.save.empty() ? "not given" : "given"; // each may name it otherwise
  facts["the hash of --eval"] = evalData ? evalData->hash() : "none";
  requireAlike(ranks, facts);
}

/// With `lag` at most one step is under way, and its data is kept in `underway`: the device may
/// still read from it. The result of a call is then that of the step before.
void Trainer::give(std::unique_ptr<StepData> stepData, Clock::time_point start,
                   StepLoader &loader) {
  Given step{std::move(stepData), schedule.at(++stepsGiven, baseLr), start};
  trainrt_step_options settings = stepOptions(step.lr);
  trainrt_step_result result = trainrt_step_result_default();
  ErrorSlot ofStep;
  // Data that the loader has found bad is not given to the session: the error of its check takes
  // the place of the step's. Of several ranks all have to make the call.
  const bool isGiven = isRanked() || step.data->status == TRAINRT_OK;
  const ErrorSlot &error = isGiven ? ofStep : step.data->error;
  trainrt_status status = step.data->status;
  if (isGiven) {
    status = isRanked() ? stepTogether(step, settings, result, ofStep)
                        : trainrt_step(session, step.data->views.data(), step.data->views.size(),
                                       &settings, &result, ofStep);
    if (density)
      step.density = density->take();
    if (memory)
      step.memory = memory->take();
    othersEnd |= result.last != 0;
    hostMicroseconds.push_back((result.milliseconds - result.wait_milliseconds) * 1000);
    noticeDeclined();
  }
  // Of a step all ranks have the same outcome.
  const auto end = [&](trainrt_status of, const ErrorSlot &why, const trainrt_step_result &made,
                       Given &&which) {
    together([&] { settle(of, why, made, std::move(which), loader); });
  };
  // The outcome belongs to this step.
  if (!lag)
    return end(status, error, result, std::move(step));
  // `underway` is empty from here on, so that a failure below leaves no step that is settled twice.
  std::optional<Given> before = std::exchange(underway, std::nullopt);
  if (status == TRAINRT_OK) {
    underway = std::move(step);
    if (before)
      end(status, error, result, std::move(*before));
    return;
  }
  if (before) {
    // The error is that of the step before, unless that one's outcome is still to be had.
    trainrt_step_result left = trainrt_step_result_default();
    ErrorSlot leftError;
    trainrt_status leftStatus = trainrt_session_finish(session, &left, leftError);
    if (leftStatus == TRAINRT_OK && left.step == 0)
      return end(status, error, result, std::move(*before));
    end(leftStatus, leftError, left, std::move(*before));
  }
  end(status, error, result, std::move(step));
}

/// Afterwards no step is under way, and `position` and the session's state belong together. Needed
/// before anything that reads the state: checkpoints, evaluations, the end.
void Trainer::drain(StepLoader &loader) {
  if (!underway)
    return;
  Given step = std::move(*std::exchange(underway, std::nullopt));
  trainrt_step_result result = trainrt_step_result_default();
  ErrorSlot error;
  trainrt_status status = trainrt_session_finish(session, &result, error);
  together([&] { settle(status, error, result, std::move(step), loader); });
}

double Trainer::measurePeak() const {
  double speed = NAN;
  ErrorSlot error;
  const trainrt_status status = trainrt_session_matmul_speed(session, &speed, error);
  // No error: the share of the peak is then left out.
  if (status == TRAINRT_UNSUPPORTED)
    return NAN;
  error.check(status);
  return speed;
}

/// NaN where the peak is not known: comparisons with NaN are false, so nothing is told or changed.
double Trainer::peakShare(double speed) {
  if (!(speed > peakFlops))
    return speed / peakFlops;
  if (!peakTold)
    reporter.notice(options.peakFlops
                        ? "a step makes " + billions(speed) + ", more than --peak-flops says: " +
                              "shares of the peak are above 100 %"
                        : "a step makes " + billions(speed) +
                              ", more than the measured peak (was "
                              "the machine busy?): the quickest step is taken as the peak");
  peakTold = true;
  if (!options.peakFlops)
    peakFlops = speed;
  return speed / peakFlops;
}

void Trainer::checkPeak() {
  if (std::isnan(peakFlops) || options.peakFlops)
    return;
  // A tenth more is taken for noise.
  const double again = measurePeak();
  reporter.fact("peak", billions(again) + ", measured again" +
                            (again > 1.1 * peakFlops
                                 ? ": the machine was busy before, and shares of the peak are " +
                                       fixed(again / peakFlops, 1) + " times too high"
                                 : ""));
}

DataState Trainer::dataState(BatchOrder::Position position) const {
  return {position,        data.rows(), data.batchSize(), options.accumulate, options.allRanks(),
          options.shuffle, plan,        planOptions,      dataHash,           decisions,
          watch.state()};
}

/// At most once after a step. No step is under way. An evaluation that lacks the metric ends the
/// run before anything is decided by it.
void Trainer::evaluateNow(bool decides) {
  if (!evalData || evaluatedAt == stepsDone())
    return;
  const EvalRecord record = evaluate(package, session, *evalData, ranks, accuracy, reporter);
  evaluatedAt = stepsDone();
  watch.require(record, accuracy.reason());
  if (evaluatesHere())
    watch.count(record);
  if (decides && watch.belongsToBest(record))
    saveBest(record);
}

void Trainer::saveBest(const EvalRecord &record) {
  const std::string folder = options.save + "/best";
  // Before the checkpoint is written, so that its state counts it among the best.
  watch.keep(record);
  // 0: the session removes none by age.
  write(folder, 0, position);
  reporter.note("saved " + folder + "/step-" + std::to_string(record.step));
  // Those that are none of the best any more, or were another run's (--overwrite).
  if (options.speaks())
    removeCheckpoints(folder, [&](int64_t step) { return !watch.keeps(step); });
}

/// `position` belongs to the session's state: a step under way is none of it. The end of a run may
/// be where --save-every has just saved; that is not written again.
void Trainer::save(BatchOrder::Position position) {
  if (options.save.empty() || savedAt == stepsDone())
    return;
  write(options.save, uint32_t(options.keep.value_or(0)), position);
  // Only now: a checkpoint that could not be written is not named as the last one.
  savedAt = stepsDone();
  reporter.note("saved " + options.save + "/step-" + std::to_string(savedAt));
}

void Trainer::write(const std::string &folder, uint32_t keep, BatchOrder::Position at) {
  together([&] {
    ErrorSlot error;
    error.check(trainrt_checkpoint_save(session, folder.c_str(), keep,
                                        dataState(at).toJson().c_str(), error));
  });
  reportWarnings(session, reporter);
}

Failure Trainer::explained(const Failure &failure) const {
  if (failure.code != exitRanks || options.save.empty())
    return failure;
  // Word that the first one is whole may be lost with the rank that sends it.
  const std::string known =
      savedAt < 0
          ? "this run knows of no checkpoint yet; if " + options.save + " holds one of it, "
          : "the last checkpoint is " + options.save + "/step-" + std::to_string(savedAt) + "; ";
  const std::string text = "\n" + known + "--resume " + options.save + " continues from there";
  return {failure.code, failure.what() + text, failure.isShared};
}

trainrt_plan_info Trainer::planInfo(std::vector<std::string> &declined) const {
  trainrt_plan_info info = trainrt_plan_info_default();
  ErrorSlot error;
  error.check(trainrt_session_plans(session, &info, error));
  if (info.declined_count)
    declined = split(info.declined, '\n');
  declined.resize(info.declined_count);
  return info;
}

/// Reasons are only added, at the end, so their number says which of them were told.
void Trainer::noticeDeclined() {
  std::vector<std::string> declined;
  planInfo(declined);
  for (; reasonsTold < declined.size(); ++reasonsTold)
    reporter.notice(declined[reasonsTold] + "; such batches are counted in the summary");
}

void Trainer::summarize() {
  // There have been steps. Those that run ahead have their host's time beside their own.
  SummaryRecord record{int64_t(stepMilliseconds.size()), median(stepMilliseconds),
                       runsAhead ? std::optional(median(hostMicroseconds)) : std::nullopt,
                       peakBytes};
  const trainrt_plan_info info = planInfo(record.declined);
  record.plans = info.plans;
  record.buildMilliseconds = info.build_milliseconds;
  record.batches = info.batches;
  record.variantBatches = info.variant_batches;
  reporter.summary(record);
}

std::string Trainer::run() {
  // Rows that are taken at a time, by all shares of a sampler together.
  const int64_t shared = data.batchSize() * (plan.empty() ? 1 : options.world);
  // With --steps the file's order goes on with rows of the next epoch, and none is left out.
  const bool drops = data.staticBatch() && options.dropTail.value_or(true);
  if (int64_t rest = data.rows() % shared; drops && rest && (!options.steps || !plan.empty()))
    reporter.warning(data.path() + ": the last " + std::to_string(rest) +
                     " rows of an epoch are left out: the package was compiled for batches of " +
                     std::to_string(data.batchSize()) +
                     " alone; export the model with a dynamic batch to use them");
  if (isRanked())
    compareRanks();
  // From here on the order is the loader's, maybe in another thread. What is behind the last known
  // step is `position`.
  StepLoader loader(data, std::move(order), loading());
  const bool isDone =
      options.steps ? stepsDone() >= *options.steps : position.epoch >= options.epochs.value_or(1);
  if (isDone)
    reporter.note("nothing to train: " + grouped(stepsDone()) + " steps are done already");
  // Where a run goes on between two evaluations, one that was not cut off had none.
  evaluateNow(/*decides=*/isDone || evaluatesHere());
  reporter.begin(stepsDone() + 1, lastStep);
  while (!watch.isExhausted()) {
    const Clock::time_point start = Clock::now();
    std::unique_ptr<StepData> next = nextData(loader);
    if (!next)
      break;
    // With --steps the data repeats, and an epoch's end means nothing.
    const bool epochEnds = !options.steps && next->after.epoch != next->before.epoch;
    give(std::move(next), start, loader);
    const char *signal = interruption();
    const bool ends = isRanked() ? othersEnd : signal || !reporter.lost().empty();
    // By what was given: the last step's outcome, and with it the session's count, may be unknown.
    const bool saves = options.saveEvery && stepsGiven % *options.saveEvery == 0;
    const bool evaluates =
        evalData && ((options.evalEvery && stepsGiven % *options.evalEvery == 0) || epochEnds);
    if (ends || saves || evaluates)
      drain(loader);
    if (ends) {
      const std::string lost = reporter.lost();
      reporter.end();
      save(position);
      throw Failure(exitInput,
                    (signal         ? std::string("interrupted by ") + signal
                     : lost.empty() ? "interrupted on another rank"
                                    : lost) +
                        " after step " + std::to_string(stepsDone()) +
                        (options.save.empty()
                             ? "; nothing was saved (--save DIR)"
                             : "; --resume " + options.save + " continues from there"),
                    isRanked());
    }
    if (saves)
      save(position);
    if (evaluates)
      evaluateNow();
  }
  drain(loader);
  reporter.end();
  if (density)
    if (const std::string text = density->finish(); !text.empty())
      reporter.lines(text);
  if (!stepMilliseconds.empty()) {
    summarize();
    checkPeak();
  }
  save(position);
  evaluateNow();
  if (!watch.isExhausted())
    return {};
  reporter.note(watch.whyExhausted());
  return watch.whyExhausted();
}

void Trainer::dumpGradients() {
  StepLoader::Settings settings = loading();
  // There is one, whatever has been done before.
  if (settings.steps)
    settings.steps = 1;
  settings.epochs = position.epoch + 1;
  const Clock::time_point start = Clock::now();
  StepLoader loader(data, std::move(order), settings);
  // There is no update: the session still counts as many steps as before.
  Given step{loader.next(), schedule.at(stepsDone() + 1, baseLr), start};
  trainrt_step_options stepSettings = stepOptions(step.lr);
  trainrt_step_result result = trainrt_step_result_default();
  ErrorSlot error;
  trainrt_status status = trainrt_gradients(session, step.data->views.data(),
                                            step.data->views.size(), &stepSettings, &result, error);
  // As the step would be called that these gradients are of.
  result.step = stepsDone() + 1;
  reporter.begin(result.step, result.step);
  report(status, error, result, step);
  if (memory)
    if (const std::string text = memory->take(); !text.empty())
      reporter.lines(text);
  reporter.end();
  if (!stepMilliseconds.empty())
    summarize();
  if (result.nonfinite)
    reporter.warning(std::isfinite(result.loss) ? "a gradient is not finite"
                                                : "the loss is not finite, and so are gradients");
  exportGradients(package, session, options.dumpGradients, reporter);
}

} // namespace

/// Needs the package alone. A hyperparameter that is NaN there cannot be set.
void checkTrainable(const Options &options, const Package &package) {
  const trainrt_package_info &info = package.info;
  if (!info.can_train)
    throw Failure(exitInput, package.path + ": the package was compiled for inference only, so it "
                                            "cannot train on --data; compile without --inference");
  if ((options.accumulate > 1 || !options.dumpGradients.empty()) && !info.can_accumulate)
    throw Failure(exitInput, package.path + ": the package cannot keep gradients (" +
                                 (options.accumulate > 1 ? "--accumulate" : "--dump-gradients") +
                                 "): it has no separate update");
  if (options.allRanks() > 1 && !info.distribute)
    throw Failure(exitInput, package.path + ": the package is for one rank; compile it with "
                                            "--distribute data for several");
  if (options.accumulateBy == "tokens" && options.microBatches() > 1 && !info.loss_is_mean)
    throw Failure(exitInput, package.path +
                                 ": --accumulate-by tokens weights micro-batches by what their "
                                 "losses are divided by, and the loss is no quotient of sums over "
                                 "rows (trainc --explain=all says why); rows and mean work");
  if (options.lr && std::isnan(info.lr))
    throw Failure(exitInput, package.path +
                                 ": the model has a training algorithm of its own, which "
                                 "decides on the learning rate; --lr is for others");
  if (options.clipNorm && std::isnan(info.clip_norm))
    throw Failure(exitInput, package.path + ": the package was compiled without gradient clipping; "
                                            "compile with --clip-norm F to make it adjustable");
  if (options.weightDecay && std::isnan(info.weight_decay))
    throw Failure(exitInput, package.path + ": the package's optimizer has no weight decay");
}

/// All that is given outlives the call. Empty: the run came to its end; else why it ended earlier,
/// in order.
std::string train(const Options &options, const Package &package, const Session &session,
                  const Dataset &data, std::unique_ptr<BatchOrder> order, const Dataset *evalData,
                  JoinedRanks &ranks, DensityLog *density, MemoryLog *memory, Reporter &reporter) {
  Trainer trainer(options, package, session, data, std::move(order), evalData, ranks, density,
                  memory, reporter);
  if (options.dumpGradients.empty())
    try {
      return trainer.run();
    } catch (const Failure &failure) {
      throw trainer.explained(failure);
    }
  trainer.dumpGradients();
  return {};
}

} // namespace trainrt::run
