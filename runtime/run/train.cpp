// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// --data: steps over micro-batches, the learning rate's schedule, evaluations, checkpoints, and the
// orderly end of a run that cannot go on.
#include "run/train.h"

#include "run/evaluate.h"
#include "run/export.h"
#include "run/failure.h"
#include "run/format.h"

#include <chrono>
#include <cmath>

namespace trainrt::run {

namespace {

using Clock = std::chrono::steady_clock;

class Trainer {
public:
  Trainer(const Options &options, const Package &package, const Session &session,
          const Dataset &data, const Dataset *evalData, Reporter &reporter)
      : options(options), package(package), session(session.get()), data(data), evalData(evalData),
        reporter(reporter), order(data.rows(), data.batchSize(), options.shuffle,
                                  uint64_t(trainrt_session_seed(session.get()))),
        schedule(options.schedule) {
    if (session.resumed)
      resume(*session.resumed);
    baseLr = options.lr.value_or(package.info.lr);
    if (!schedule.total)
      schedule.total = lastStep();
    batches.resize(size_t(options.accumulate));
  }

  void run();
  void dumpGradients();

private:
  int64_t stepsDone() const { return trainrt_session_step(session); }
  int64_t stepsPerEpoch() const {
    int64_t count = order.batchesPerEpoch(data.staticBatch());
    return (count + options.accumulate - 1) / options.accumulate;
  }
  /// The number of the run's last step.
  int64_t lastStep() const {
    return options.steps ? *options.steps : options.epochs.value_or(1) * stepsPerEpoch();
  }
  bool finished() const {
    return options.steps ? stepsDone() >= *options.steps
                         : order.position().epoch >= options.epochs.value_or(1);
  }

  void resume(const DataState &state);
  /// Loads the next step's micro-batches; returns their rows.
  int64_t loadBatches();
  trainrt_step_options stepOptions(double lr) const;
  /// The outcome of a call that ran a step: logged, or thrown. `rows`: of all micro-batches.
  void report(trainrt_status status, const ErrorSlot &error, const trainrt_step_result &result,
              double lr, int64_t rows, Clock::time_point start);
  void step();
  void save(DataOrder::Position position);
  void evaluateNow() {
    if (!evalData || evaluatedAt == stepsDone())
      return;
    evaluate(session, *evalData, reporter);
    evaluatedAt = stepsDone();
  }

  const Options &options;
  const Package &package;
  trainrt_session *session;
  const Dataset &data;
  const Dataset *evalData;
  Reporter &reporter;
  DataOrder order;
  LrSchedule schedule;
  double baseLr;
  std::vector<Batch> batches;
  std::vector<trainrt_batch> views;
  int64_t savedAt = -1, evaluatedAt = -1;
};

void Trainer::resume(const DataState &state) {
  order.seek(state.position);
  std::vector<std::string> changes;
  auto compare = [&](const char *what, int64_t before, int64_t now) {
    if (before != now)
      changes.push_back(std::string(what) + " was " + std::to_string(before) + " and is " +
                        std::to_string(now));
  };
  compare("the number of rows", state.rows, data.rows());
  compare("--batch-size", state.batchSize, data.batchSize());
  compare("--accumulate", state.accumulate, options.accumulate);
  if (state.shuffle != options.shuffle)
    changes.push_back(state.shuffle ? "--shuffle was on and is off"
                                    : "--shuffle was off and is on");
  if (!changes.empty())
    reporter.warning("the run does not continue as it began: " + join(changes, ", "));
}

int64_t Trainer::loadBatches() {
  const bool wrap = options.steps.has_value();
  const int64_t epoch = order.position().epoch;
  int64_t rows = 0;
  views.clear();
  for (Batch &batch : batches) {
    data.load(order.next(wrap, data.staticBatch()), batch);
    views.push_back(batch.view());
    rows += int64_t(batch.rows.size());
    if (!wrap && order.position().epoch != epoch)
      break; // an epoch's last step may have fewer micro-batches
  }
  return rows;
}

trainrt_step_options Trainer::stepOptions(double lr) const {
  trainrt_step_options settings = trainrt_step_options_default();
  settings.lr = lr;
  if (options.weightDecay)
    settings.weight_decay = *options.weightDecay;
  if (options.clipNorm)
    settings.clip_norm = *options.clipNorm;
  if (options.allowNonfinite)
    settings.flags |= TRAINRT_STEP_ALLOW_NONFINITE;
  return settings;
}

void Trainer::report(trainrt_status status, const ErrorSlot &error,
                     const trainrt_step_result &result, double lr, int64_t rows,
                     Clock::time_point start) {
  if (status != TRAINRT_OK && status != TRAINRT_NONFINITE) {
    std::string context;
    const std::string message = error.message(status);
    for (size_t i = 0; status == TRAINRT_BAD_DATA && i < views.size(); ++i) {
      const std::string number = "micro-batch " + std::to_string(i) + ": ";
      if (views.size() == 1)
        context = data.where(batches[i], message);
      else if (message.find(number) != std::string::npos)
        context = number + data.where(batches[i], message);
    }
    error.check(status, context);
  }
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  reporter.step({result.step, result.loss, std::isnan(lr) ? result.lr : lr, ms,
                 double(rows) / ms * 1000, result.peak_bytes});
}

void Trainer::step() {
  const Clock::time_point start = Clock::now();
  const DataOrder::Position before = order.position();
  const int64_t rows = loadBatches();
  const double lr = schedule.at(stepsDone() + 1, baseLr);
  trainrt_step_options settings = stepOptions(lr);
  trainrt_step_result result = trainrt_step_result_default();
  ErrorSlot error;
  trainrt_status status =
      trainrt_step(session, views.data(), views.size(), &settings, &result, error);
  report(status, error, result, lr, rows, start);
  if (status == TRAINRT_NONFINITE) {
    reporter.end();
    save(before);
    throw Failure(exitInput,
                  error.message(status) +
                      "\na lower --lr, a warm-up (--lr-schedule), clipping (trainc --clip-norm) or "
                      "other data "
                      "may help; --allow-nonfinite goes on without such steps\n" +
                      (options.save.empty()
                           ? "nothing was saved: --save DIR would keep the state before that step"
                           : "the state before that step is saved in " + options.save));
  }
}

void Trainer::save(DataOrder::Position position) {
  if (options.save.empty() || savedAt == stepsDone())
    return;
  DataState state{position, data.rows(), data.batchSize(), options.accumulate, options.shuffle};
  ErrorSlot error;
  error.check(trainrt_checkpoint_save(session, options.save.c_str(),
                                      uint32_t(options.keep.value_or(0)), state.toJson().c_str(),
                                      error));
  reportWarnings(session, reporter);
  savedAt = stepsDone();
  reporter.note("saved " + options.save + "/step-" + std::to_string(savedAt));
}

void Trainer::run() {
  if (int64_t rest = data.rows() % data.batchSize(); !options.steps && data.staticBatch() && rest)
    reporter.warning(data.path() + ": the last " + std::to_string(rest) +
                     " rows of an epoch are left out: the package was compiled for batches of " +
                     std::to_string(data.batchSize()));
  if (finished())
    reporter.note("nothing to train: " + grouped(stepsDone()) + " steps are done already");
  evaluateNow();
  reporter.begin(stepsDone() + 1, lastStep());
  while (!finished()) {
    const int64_t epoch = order.position().epoch;
    step();
    const char *signal = interruption();
    if (std::string lost = reporter.lost(); signal || !lost.empty()) {
      reporter.end();
      save(order.position());
      throw Failure(exitInput, (signal ? std::string("interrupted by ") + signal : lost) +
                                   " after step " + std::to_string(stepsDone()) +
                                   (options.save.empty()
                                        ? "; nothing was saved (--save DIR)"
                                        : "; --resume " + options.save + " continues from there"));
    }
    if (options.saveEvery && stepsDone() % *options.saveEvery == 0)
      save(order.position());
    if ((options.evalEvery && stepsDone() % *options.evalEvery == 0) ||
        (!options.steps && order.position().epoch != epoch))
      evaluateNow();
  }
  reporter.end();
  save(order.position());
  evaluateNow();
}

void Trainer::dumpGradients() {
  const Clock::time_point start = Clock::now();
  const int64_t rows = loadBatches();
  const double lr = schedule.at(stepsDone() + 1, baseLr);
  trainrt_step_options settings = stepOptions(lr);
  trainrt_step_result result = trainrt_step_result_default();
  ErrorSlot error;
  trainrt_status status =
      trainrt_gradients(session, views.data(), views.size(), &settings, &result, error);
  result.step = stepsDone() + 1;
  reporter.begin(result.step, result.step);
  report(status, error, result, lr, rows, start);
  reporter.end();
  if (status == TRAINRT_NONFINITE)
    reporter.warning("the loss is not finite, and so are gradients");
  exportGradients(package, session, options.dumpGradients, reporter);
}

} // namespace

void checkTrainable(const Options &options, const Package &package) {
  const trainrt_package_info &info = package.info;
  if (!info.can_train)
    throw Failure(exitInput, package.path + ": the package was compiled for inference only, so it "
                                            "cannot train on --data; compile without --inference");
  if ((options.accumulate > 1 || !options.dumpGradients.empty()) && !info.can_accumulate)
    throw Failure(exitInput, package.path + ": the package cannot keep gradients (" +
                                 (options.accumulate > 1 ? "--accumulate" : "--dump-gradients") +
                                 "): it has no separate update");
  if (options.clipNorm && std::isnan(info.clip_norm))
    throw Failure(exitInput, package.path + ": the package was compiled without gradient clipping; "
                                            "compile with --clip-norm F to make it adjustable");
  if (options.weightDecay && std::isnan(info.weight_decay))
    throw Failure(exitInput, package.path + ": the package's optimizer has no weight decay");
}

void introduce(const Options &options, const Package &package, const Session &session,
               const Dataset *data, Reporter &reporter) {
  const trainrt_package_info &info = package.info;
  reporter.fact("package",
                package.path + ": " + info.model + ", by " + info.producer + ", " + info.target);
  int64_t count = 0, trained = 0;
  bool known = true;
  for (const trainrt_tensor_info &parameter : package.parameters) {
    int64_t elements = 1;
    for (int32_t i = 0; i < parameter.rank; ++i) {
      known &= parameter.dims[i].value >= 0;
      elements *= parameter.dims[i].value;
    }
    count += elements;
    if (parameter.flags & TRAINRT_FLAG_TRAINABLE)
      trained += elements;
  }
  if (known)
    reporter.fact("parameters", grouped(count) + " in " +
                                    grouped(int64_t(package.parameters.size())) + " tensors, " +
                                    grouped(trained) + " trained");
  if (data) {
    reporter.fact("data", data->path() + ": " + grouped(data->rows()) + " rows, batches of " +
                              grouped(data->batchSize()) +
                              (options.accumulate > 1
                                   ? ", " + grouped(options.accumulate) + " micro-batches a step"
                                   : ""));
    if (info.optimizer)
      reporter.fact("optimizer", std::string(info.optimizer) + ", learning rate " +
                                     shortest(options.lr.value_or(info.lr)) + ", " +
                                     options.schedule.text());
    trainrt_memory plan = trainrt_memory_default();
    std::vector<trainrt_symbol_value> symbols = data->symbolValues(data->batchSize());
    ErrorSlot error;
    uint32_t micro = options.dumpGradients.empty() ? uint32_t(options.accumulate) : 2;
    if (trainrt_package_memory(package.handle.get(), symbols.data(), symbols.size(), micro,
                               trainrt_session_threads(session.get()), &plan, error) == TRAINRT_OK)
      reporter.fact("memory plan",
                    byteSize(plan.total) + ": parameters " + byteSize(plan.parameters) +
                        ", optimizer state " + byteSize(plan.state) +
                        (plan.gradients ? ", gradients " + byteSize(plan.gradients) : "") +
                        ", activations " + byteSize(plan.arena) + ", other " +
                        byteSize(plan.inputs + plan.outputs + plan.scratch));
  }
  reporter.fact("threads", std::to_string(trainrt_session_threads(session.get())));
}

void train(const Options &options, const Package &package, const Session &session,
           const Dataset &data, const Dataset *evalData, Reporter &reporter) {
  Trainer trainer(options, package, session, data, evalData, reporter);
  if (options.dumpGradients.empty())
    trainer.run();
  else
    trainer.dumpGradients();
}

} // namespace trainrt::run
