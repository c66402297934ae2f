// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps and evaluation. The order within a step is what keeps "nothing lost": all batches are
// checked and all memory is there before the first command runs; only then is anything changed.

#include "session/session.h"
#include "format/memory/arena_plan.h"
#include "session/adapter/weight_norms.h"
#include "session/create_device.h"
#include "session/estimate.h"
#include "session/inspect/command_times.h"
#include "session/ranks/agreement.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <functional>
#include <utility>

namespace trainrt {

Status Session::create(std::shared_ptr<const Package> package, const SessionOptions &options,
                       std::unique_ptr<Session> &session) {
  std::unique_ptr<Session> result(new Session());
  result->source = std::move(package);
  TRAINRT_TRY(result->start(options));
  session = std::move(result);
  return {};
}

Status Session::start(const SessionOptions &options) {
  const Program &program = source->program();
  progress = options.progress;
  progressUser = options.progressUser;
  density = options.density;
  phases.create(options.memory);
  key = options.seed;
  inference = options.inference || !source->manifest().training;
  ranks = options.ranks;
  if (ranks && ranks->world() > 1 && !inference && source->manifest().distribute.empty())
    return fail(Code::Unsupported, source->path(), ": the package is for one rank, not for ",
                ranks->world(), "; compile it with --distribute data");
  if (ranks && !inference)
    where = {ranks->world(), ranks->rank(), ranks->ranksPerReplica()};
  if (where.replicas() > 1 && !program.hasShards())
    return fail(Code::Unsupported, source->path(), ": there is nothing that only ", where.shards(),
                " of ", where.world,
                " ranks could share (--shard-within); compile it with --distribute zero1, zero2 or "
                "zero3");
  anyModel = options.anyModel;
  unsigned threads = options.threads ? options.threads : availableCores();
  if (threads > 1024)
    return fail(Code::InvalidArgument, "threads: ", threads, " are too many (at most 1024)");
  if (options.checkNumerics) {
    if (options.commandDone)
      return fail(Code::InvalidArgument,
                  "check_numerics and command_done exclude each other: the check would be timed");
    auto check = std::make_unique<NumericsCheck>(program);
    numerics = check.get();
    observer = std::move(check);
  } else if (options.commandDone) {
    observer = std::make_unique<CommandTimes>(program, where, options.commandDone);
    commandDone = options.commandDone;
  }
  TRAINRT_TRY(createDevice(
      source,
      {threads, options.allocator, options.device, options.stream, options.synchronous,
       observer.get(), inference ? nullptr : ranks.get()},
      [this](Space space, uint32_t index) { return values.address(space, index); }, device));
  if (!device->note().empty())
    notes += device->note() + "\n";
  plans.create(*source, options.variants, device->isHost());
  binder.create(*source, *device, inference, where);
  hypers = HyperValues(program);
  noSymbols.resize(program.symbols.size());
  program.setRunSymbols(where, noSymbols);
  TRAINRT_TRY(values.create(source, *device, inference, where));
  ParameterStore &parameters = values.parameters();
  switch (options.weights) {
  case SessionOptions::Weights::Package:
    TRAINRT_TRY(parameters.loadPackage(key));
    goesOn = !inference;
    steps = goesOn ? source->manifest().steps : 0;
    break;
  case SessionOptions::Weights::File:
    TRAINRT_TRY(parameters.loadFile(options.weightsPath, key, notes));
    break;
  case SessionOptions::Weights::Random:
    if (!(options.initStd >= 0) || !std::isfinite(options.initStd))
      return fail(Code::InvalidArgument, "init_std: ", options.initStd,
                  " is no standard deviation");
    TRAINRT_TRY(parameters.randomize(key, options.initStd));
    break;
  case SessionOptions::Weights::None:
    break;
  }
  for (size_t index : parameters.pendingNorms())
    TRAINRT_TRY(storeNorms(*this, index));
  measure();
  return {};
}

Status Session::usable() const {
  std::string missing = values.parameters().missing();
  if (!missing.empty())
    return fail(Code::MissingWeights, "these parameters have no values yet: ", Lines{missing},
                "; load a checkpoint or set them");
  if (broken)
    return fail(Code::InvalidArgument,
                "an earlier step updated only some of the parameters, so they are inconsistent; "
                "load a checkpoint");
  return {};
}

Status Session::derive() {
  if (derivedOf == changes)
    return {};
  assert(!pending.active && "what sets parameters waits for the steps before");
  const ExecutionPlan *plan;
  TRAINRT_TRY(prepare(*source->derive(), noSymbols, plan));
  Device::Run run{*plan, nullptr, hypers.all(), {}, /*alone=*/true};
  Device::Ticket ticket;
  Device::Result ignored;
  TRAINRT_TRY(device->enqueue(run, ticket));
  TRAINRT_TRY(device->wait(ticket, ignored));
  derivedOf = changes;
  return {};
}

Status Session::enqueue(const Function &function, const BoundBatch *batch, bool cancellable,
                        Device::Ticket &ticket, int64_t step, bool alone) {
  // Whether a command has run by the time something fails decides on what is left of the
  // parameters.
  began = false;
  if (function.usesDerived)
    TRAINRT_TRY(derive());
  const ExecutionPlan *plan;
  TRAINRT_TRY(prepare(function, batch ? batch->symbols : noSymbols, plan));
  Device::Run run{*plan, batch, hypers.all(), {}, alone};
  if (cancellable || progress)
    run.stop = [this, cancellable](int64_t done, int64_t total) {
      if (progress && progress(progressUser, done, total) != 0)
        cancelled.store(true);
      return cancellable && cancelled.load();
    };
  // The step before this one may turn out not to have been made.
  run.mayRepeat = pending.active && pending.allowNonfinite;
  outputs = plan->outputs;
  Status status = device->enqueue(run, ticket);
  began = run.began;
  exchangeBegan |= began && !alone;
  measure();
  if (status.ok() && step && phases.isWanted())
    phases.tell(step, *plan, memory());
  return status;
}

Status Session::execute(const Function &function, const BoundBatch *batch, bool cancellable,
                        Device::Result &result, int64_t step) {
  Device::Ticket ticket;
  TRAINRT_TRY(enqueue(function, batch, cancellable, ticket, step));
  return device->wait(ticket, result);
}

Status Session::initializeState() {
  if (initialized || inference)
    return {};
  TRAINRT_TRY(usable());
  if (source->init()) {
    StepResult ignored;
    Device::Result nothing;
    // Hypers of the step that comes next: `init` may read them.
    TRAINRT_TRY(hypers.setStep(source->manifest(), {}, steps + 1, key, ignored.lr));
    TRAINRT_TRY(execute(*source->init(), nullptr, false, nothing));
  }
  // What an earlier training left goes with the parameters that it left.
  for (size_t i = 0; goesOn && i < source->program().state.size(); ++i)
    if (source->state(i).hasWeights) {
      std::shared_ptr<const MappedFile> file;
      const unsigned char *data;
      TRAINRT_TRY(values.parameters().bytesOf(source->state(i), data, file));
      TRAINRT_TRY(values.writeState(i, data));
    }
  initialized = true;
  return {};
}

Status Session::accumulate(const StepOptions &options, StepResult &result,
                           std::vector<std::pair<double, double>> &losses) {
  TRAINRT_TRY(values.beginGradients());
  exchangeBegan = false;
  const double *weights = options.weights   ? options.weights
                          : factors.empty() ? nullptr
                                            : factors.data();
  // What counts for nothing is not computed: its mean is that of no elements.
  std::vector<size_t> run;
  for (size_t i = 0; i < bound.size(); ++i)
    if (options.weights || factors.empty() || factors[i] != 0)
      run.push_back(i);
  // A device that runs ahead gets the next micro-batch before the last one is waited for.
  const size_t ahead = device->runsAhead() ? 1 : 0;
  Device::Ticket tickets[2];
  for (size_t i = 0; i < run.size() + ahead; ++i) {
    if (i < run.size()) {
      const size_t micro = run[i];
      hypers.setMicroBatch(share.first + int64_t(micro),
                           weights ? weights[micro] : 1 / double(share.all));
      // Of the micro-batches of a step the last one is told.
      const bool isLast = i + 1 == run.size();
      const bool alone = !exchangesMicro() || (exchangesLast() && !isLast);
      TRAINRT_TRY(enqueue(*selected[micro], &bound[micro], alone, tickets[i % 2],
                          isLast ? steps + 1 : 0, alone));
    }
    if (i < ahead)
      continue;
    const size_t micro = run[i - ahead];
    Device::Result done;
    TRAINRT_TRY(device->wait(tickets[(i - ahead) % 2], done));
    // Losses add up in the order of micro-batches.
    losses.emplace_back(weights ? weights[micro] : 1, done.loss);
    result.nonfinite |= done.nonfinite || !done.numbers.empty();
    addNames(*selected[micro], done.numbers, result);
  }
  // The others wait for this rank's part in those that it has not.
  const int64_t rounds = !exchangesMicro() ? 0 : exchangesLast() ? 1 : share.rounds;
  for (int64_t i = int64_t(run.size()); i < rounds; ++i)
    TRAINRT_TRY(takePart(result));
  return {};
}

double Session::lossDivisor(const StepOptions &options) const {
  return !options.weights && factors.empty() ? double(share.all) : 1;
}

Status Session::accumulate(const StepOptions &options, StepResult &result) {
  std::vector<std::pair<double, double>> losses;
  TRAINRT_TRY(accumulate(options, result, losses));
  result.loss = 0;
  for (auto [factor, loss] : losses)
    result.loss += factor * loss;
  result.loss /= lossDivisor(options);
  result.nonfinite |= !std::isfinite(result.loss);
  return {};
}

void Session::addNames(const Function &function, const std::vector<NumberReport> &reports,
                       StepResult &result) const {
  const Program &program = source->program();
  auto add = [&](const Buffer &buffer) {
    std::string name;
    if (buffer.space == Space::Parameter || buffer.space == Space::Gradient)
      name = program.parameters[buffer.index].name;
    else if (buffer.space == Space::State) // "NAME/exp_avg"
      name = program.state[buffer.index].name, name.resize(std::min(name.size(), name.rfind('/')));
    if (!name.empty() &&
        std::find(result.numbers.begin(), result.numbers.end(), name) == result.numbers.end())
      result.numbers.push_back(std::move(name));
  };
  for (const NumberReport &report : reports) {
    const std::vector<Operand> &operands = report.command->operands;
    const auto *launch = std::get_if<Launch>(&report.command->op);
    // A grouped launch has the operands of all members, one after the other.
    const size_t args = operands.size() / (launch ? launch->numMembers() : 1);
    for (size_t i = 0; i < operands.size(); ++i)
      if (operands[i].isWritten() && report.isOf(i / args))
        add(function.buffers[operands[i].buffer]);
  }
}

void Session::note(const Function &function, const Device::Result &done, StepResult &result) {
  result.nonfinite |= done.nonfinite || !std::isfinite(result.loss);
  // Where the flag was set before them, the updates have changed nothing.
  if (result.nonfinite || done.numbers.empty())
    return;
  result.nonfinite = result.inPart = true;
  addNames(function, done.numbers, result);
}

Status Session::checkFactors(size_t batches, const StepOptions &options) {
  // The loss of a micro-batch would be finite where its gradients are not.
  for (size_t i = 0; options.weights && i < batches; ++i)
    if (!std::isfinite(float(options.weights[i])))
      return fail(Code::InvalidArgument, "weights[", i, "]: ", options.weights[i],
                  " is no factor of a loss (it must be finite)");
  return {};
}

Status Session::told(const StepOptions &options, const std::function<Status(StepResult &)> &make,
                     StepResult &result) {
  if (!options.lag)
    return make(result);
  StepResult made;
  Status status = make(made);
  if (!status.ok() && status.code() != Code::Nonfinite)
    return status;
  Status previous = finish(result);
  finished = {made, std::move(status), true};
  return previous;
}

Status Session::step(const std::vector<Batch> &batches, const StepOptions &options,
                     StepResult &result) {
  result = {};
  if (ranks && ranks->world() > 1 && !inference)
    return stepTogether(batches, options, result);
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  TRAINRT_TRY(checkFactors(batches.size(), options));
  const Function *first = firstFunction(batches.size(), options.weights);
  const bool fused = first && first == source->step();
  if (!fused && !inference && (!source->micro() || !source->update()))
    return fail(Code::Unsupported,
                "the package cannot accumulate micro-batches (it has no functions "
                "'micro' and 'update'); compile it again");
  if (inference)
    return prepareAll(source->program().functions.front(), {}, {});
  const bool ahead = fused && mayLag(options);
  if (!ahead)
    settle();
  if (hasFailed(options))
    return finish(result);
  BindOptions binding;
  binding.checked = options.checked;
  TRAINRT_TRY(prepareAll(*first, batches, binding));
  if (density)
    TRAINRT_TRY(measureDensity(*source, bound, nextStep(), density));
  if (!fused) {
    const ExecutionPlan *plan;
    TRAINRT_TRY(prepare(*source->update(), noSymbols, plan));
  }
  TRAINRT_TRY(initializeState());
  TRAINRT_TRY(weigh(batches, options));
  if (ahead) {
    Pending next;
    TRAINRT_TRY(beginAhead(*selected[0], options, next));
    return stepAhead(next, result);
  }
  if (fused)
    first = selected[0];
  return told(
      options, [&](StepResult &made) { return stepNow(*first, fused, options, made); }, result);
}

/// "'a', 'b' and 3 others"
static std::string listed(const std::vector<std::string> &names) {
  constexpr size_t most = 3;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i)
    text += (i == 0 ? "'" : i + 1 == names.size() ? " and '" : ", '") + names[i] + "'";
  return names.size() > most ? text + " and " + std::to_string(names.size() - most) + " others"
                             : text;
}

Status Session::decide(bool allowNonfinite, StepResult &result) {
  if (!result.nonfinite) {
    steps = result.step;
    return {};
  }
  // The flag is sticky for steps that run ahead; now that the host knows, it is cleared: the state
  // is that before the bad step.
  if (!result.inPart)
    TRAINRT_TRY(values.clearNonfinite());
  const std::string step = "step " + std::to_string(result.step), of = listed(result.numbers);
  std::string what = step + ": ";
  if (result.inPart)
    // Of a shard it is not known.
    what += (of.empty() ? "a gradient" : "the gradient of " + of) +
            ", or what its update makes of it, is not finite";
  else if (!std::isfinite(result.loss))
    what += "the loss is not finite";
  else if (!of.empty())
    what += "the gradient of " + of + " is not finite";
  else
    what += "the norm of the gradients is not finite";
  if (allowNonfinite) {
    steps = result.step;
    // Of a loss the caller is told anyway.
    if (std::isfinite(result.loss))
      notes += what + (result.inPart ? "; such elements are left as they were\n"
                                     : "; the update is left out\n");
    return explained({}, step);
  }
  broken |= result.inPart;
  return explained(
      fail(
          Code::Nonfinite, what,
          result.inPart
              ? "; such elements are left as they were, but others had been updated by then, so "
                "parameters and state are neither those before the step nor those behind it: load "
                "a checkpoint. A package with clipping (trainc --clip-norm) knows before it updates"
              : "; parameters and state are those before the step"),
      step);
}

Status Session::explained(Status status, const std::string &what) {
  if (!numerics)
    return status;
  std::string found = numerics->found();
  if (found.empty())
    found = "but all that its commands wrote is finite";
  if (!status.ok())
    return Status(status.code(), status.message() + "\n" + found);
  notes += what + " is not finite:\n" + found + "\n";
  return status;
}

Status Session::stepNow(const Function &first, bool fused, const StepOptions &options,
                        StepResult &result) {
  if (numerics)
    numerics->reset();
  TRAINRT_TRY(hypers.setStep(source->manifest(), options, steps + 1, key, result.lr));
  result.step = steps + 1;
  result.flops = countFlops();
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before the step began");
  Device::Result done;
  phases.begin();
  if (fused) {
    Status status = execute(first, &bound[0], false, done, result.step);
    if (!status.ok()) {
      broken = began;
      return status;
    }
    result.loss = done.loss;
    result.gradNorm = done.gradNorm;
    note(first, done, result);
    return decide(options.allowNonfinite, result);
  }
  // Running statistics and the like, which a micro-batch may change before the step is decided.
  TRAINRT_TRY(values.save(first));
  Status status = accumulate(options, result);
  if (!status.ok()) {
    TRAINRT_TRY(values.restore(first));
    cancelled.store(false);
    return status;
  }
  // Outputs are those of the last micro-batch, not of the update.
  std::vector<ExecutionPlan::Output> microOutputs = outputs;
  if (cancelled.exchange(false)) {
    TRAINRT_TRY(values.restore(first));
    return Status(Code::Cancelled, "cancelled before the update");
  }
  if (!result.nonfinite) {
    const Function &update = *source->update();
    status = execute(update, nullptr, false, done, result.step);
    if (!status.ok()) {
      broken = began;
      return status;
    }
    result.gradNorm = done.gradNorm;
    note(update, done, result);
  }
  outputs = std::move(microOutputs);
  // Nothing has been updated: statistics go back, too.
  if (result.nonfinite && !result.inPart)
    TRAINRT_TRY(values.restore(first));
  return decide(options.allowNonfinite, result);
}

/// Without the flag, a step would not know that the one before it must not have happened. And what
/// is derived from exposed parameters is made between two steps.
bool Session::mayLag(const StepOptions &options) const {
  return options.lag && device->runsAhead() && source->nonfiniteState() >= 0 && !observer &&
         !exposed;
}

Status Session::beginAhead(const Function &function, const StepOptions &options, Pending &next) {
  next.allowNonfinite = options.allowNonfinite;
  next.function = &function;
  next.result.step = nextStep();
  next.result.flops = countFlops();
  TRAINRT_TRY(hypers.setStep(source->manifest(), options, next.result.step, key, next.result.lr));
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before the step began");
  phases.begin();
  Status status = enqueue(function, &bound[0], false, next.ticket, next.result.step);
  if (!status.ok()) {
    broken |= began;
    return status;
  }
  next.active = true;
  return {};
}

Status Session::stepAhead(const Pending &next, StepResult &result) {
  assert(device->runsAhead() && "others make each step before the next one is given");
  if (!pending.active) {
    pending = next;
    return finish(result, /*wait=*/false);
  }
  Status status = complete(pending, result);
  Device::Result ignored;
  if (!status.ok()) {
    // It saw the flag and changed nothing, whatever indices it met; or it goes with what it was
    // made of, parameters that nobody will use.
    Status dropped = device->wait(next.ticket, ignored);
    if (status.code() != Code::Nonfinite || dropped.ok() || dropped.code() == Code::BadData)
      return status;
    broken = true;
    return dropped;
  }
  pending = next;
  if (result.nonfinite && !result.inPart) {
    // The flag has been cleared behind it, so now it can be made. Whether it can is its own outcome
    // and not that of the step before; bad indices that it met have changed nothing. Where others
    // make it again this rank does so, too, and meets them again.
    status = device->wait(pending.ticket, ignored);
    if (status.ok() || (pending.isShared && status.code() == Code::BadData))
      status = device->repeat(pending.ticket);
    if (!status.ok() && pending.isShared)
      ranks->abort(status);
    if (!status.ok()) {
      broken = status.code() != Code::BadData;
      finished = {pending.result, std::move(status), true};
      pending.active = false;
    }
  }
  return {};
}

Status Session::complete(Pending &step, StepResult &result) {
  assert(step.active && "a run is waited for once");
  step.active = false;
  result = step.result;
  Device::Result done;
  Status status = step.begun.ok() ? device->wait(step.ticket, done) : step.begun;
  if (step.isShared)
    return atStep(result.step, completeTogether(step, status, done, result));
  if (!status.ok()) {
    broken = true;
    return status;
  }
  result.loss = done.loss;
  result.gradNorm = done.gradNorm;
  note(*step.function, done, result);
  return decide(step.allowNonfinite, result);
}

void Session::settle() {
  if (!pending.active)
    return;
  finished.status = complete(pending, finished.result);
  finished.present = true;
}

Status Session::finish(StepResult &result, bool wait) {
  if (wait)
    settle();
  if (!std::exchange(finished.present, false)) {
    result = {};
    return {};
  }
  result = finished.result;
  return std::exchange(finished.status, Status());
}

Status Session::gradients(const std::vector<Batch> &batches, const StepOptions &options,
                          StepResult &result) {
  result = {};
  if (batches.empty())
    return fail(Code::InvalidArgument, "gradients need at least one batch");
  if (inference)
    return prepareAll(source->program().functions.front(), {}, {});
  if (!source->micro())
    return fail(Code::Unsupported, "the package has no function 'micro'; compile it again");
  if (ranks && ranks->world() > 1)
    return fail(Code::Unsupported, "gradients without an update are for one rank: ranks exchange "
                                   "theirs within the update");
  settle();
  TRAINRT_TRY(prepareAll(*source->micro(), batches, {}));
  TRAINRT_TRY(weigh(batches, options));
  TRAINRT_TRY(hypers.setStep(source->manifest(), options, steps + 1, key, result.lr));
  if (numerics)
    numerics->reset();
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before it began");
  TRAINRT_TRY(values.save(*source->micro()));
  phases.begin();
  Status status = accumulate(options, result);
  TRAINRT_TRY(values.restore(*source->micro()));
  cancelled.store(false);
  TRAINRT_TRY(status);
  result.step = steps + 1;
  return result.nonfinite ? explained({}, std::isfinite(result.loss) ? "a gradient" : "the loss")
                          : Status();
}

/// Where the others gather with this rank, they do not wait for it behind an error.
Status Session::eval(const Batch &batch, bool fillMissing, double &loss) {
  Status status = attempt([&] { return evalAlone(batch, fillMissing, loss); });
  if (!status.ok() && sharesParameters())
    ranks->abort(status);
  return status;
}

Status Session::evalAlone(const Batch &batch, bool fillMissing, double &loss) {
  const Function *function = source->eval();
  if (!function)
    return fail(Code::Unsupported, "the package has no evaluation function");
  settle();
  TRAINRT_TRY(usable());
  BindOptions binding;
  binding.fillMissing = fillMissing;
  TRAINRT_TRY(binder.bind(*function, batch, binding, evalBound));
  function = plans.select(evalBound);
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before it began");
  StepResult ignored;
  StepOptions options;
  options.lr = 0; // not used by an evaluation, which may come from a package without one
  TRAINRT_TRY(hypers.setStep(source->manifest(), options, steps + 1, key, ignored.lr));
  if (numerics)
    numerics->reset();
  Device::Result result;
  Status status = execute(*function, &evalBound, true, result);
  cancelled.store(false);
  TRAINRT_TRY(status);
  // With inputs that were made up the loss means nothing.
  loss = evalBound.anyFilled ? NAN : result.loss;
  return std::isfinite(result.loss) || source->lossOutput() < 0
             ? Status()
             : explained({}, "the loss of the evaluation");
}

MemoryUse Session::memory() const {
  MemoryUse use;
  values.addMemory(use);
  device->addMemory(use);
  return use;
}

void Session::measure() { peak = std::max(peak, memory().total()); }

Status Session::place(Value kind, size_t index, Place &place) const {
  const Program &program = source->program();
  const auto &list = kind == Value::Output  ? program.outputs
                     : kind == Value::State ? program.state
                                            : program.parameters;
  const TensorDecl &decl = list[index];
  auto at = [&](Space space, DType dtype) {
    const int64_t elements = decl.staticBytes / int64_t(sizeOf(decl.dtype));
    place.array = {values.address(space, uint32_t(index)), dtype, decl.staticShape,
                   elements * int64_t(sizeOf(dtype))};
    place.owner = values.owner(space, uint32_t(index));
  };
  switch (kind) {
  case Value::Parameter:
    if (!values.parameters().data(index) && decl.staticBytes)
      return fail(Code::NotFound, "parameter '", decl.name, "' has no value yet");
    at(Space::Parameter, decl.dtype);
    place.readOnly = values.parameters().isMapped(index);
    if (!decl.shardUnit || where.shards() == 1)
      return {};
    return fail(Code::Unsupported, "parameter '", decl.name,
                "': each rank holds a part of it; a checkpoint has all, which one process reads");
  case Value::State:
    if (!hasState())
      return fail(Code::NotFound, "state '", decl.name, "': this session is for evaluation only");
    at(Space::State, decl.dtype);
    if (!decl.shardUnit || where.shards() == 1)
      return {};
    return fail(Code::Unsupported, "state '", decl.name,
                "': each rank holds a part of it; a checkpoint has all");
  case Value::Gradient:
    if (!source->parameter(index).trainable)
      return fail(Code::NotFound, "parameter '", decl.name, "' is frozen, it has no gradient");
    if (!values.hasGradients())
      return fail(Code::NotFound, "no gradients have been computed yet");
    if (decl.gradientUnit && where.shards() > 1)
      return fail(Code::Unsupported, "the gradient of '", decl.name,
                  "': each rank holds a part of it");
    at(Space::Gradient, gradientType(decl));
    return {};
  case Value::Output:
    break;
  }
  for (const ExecutionPlan::Output &output : outputs)
    if (output.index == index) {
      const DeviceMemory &block = device->outputs();
      place.array = {block.data() + output.offset, decl.dtype, output.shape, output.bytes};
      place.owner = block.share();
      return {};
    }
  return fail(Code::NotFound, "output '", decl.name, "' was not computed by the last call");
}

Status Session::view(Value kind, size_t index, ArrayView &array) const {
  if (ShardRange own;
      kind == Value::Parameter && !ranksHere.empty() && holdsShard(kind, index, own))
    return gather(index, array);
  Place found;
  TRAINRT_TRY(place(kind, index, found));
  array = std::move(found.array);
  return device->view(array.data, array.bytes, array.data);
}

const int64_t *Session::outputShape(size_t index) const {
  for (const ExecutionPlan::Output &output : outputs)
    if (output.index == index)
      return output.shape.data();
  return nullptr;
}

namespace {
Status checkSame(const char *kind, const TensorDecl &decl, const ArrayView &array) {
  if (array.dtype != decl.dtype || array.shape != decl.staticShape)
    return fail(Code::BadData, kind, " '", decl.name, "': expected ", nameOf(decl.dtype), " ",
                shapeText(decl.staticShape), ", got ", nameOf(array.dtype), " ",
                shapeText(array.shape));
  if (!array.data && decl.staticBytes)
    return fail(Code::InvalidArgument, kind, " '", decl.name, "': data is NULL");
  return {};
}
} // namespace

Status Session::setParameter(size_t index, ArrayView array) {
  const TensorDecl &decl = source->program().parameters[index];
  TRAINRT_TRY(checkSame("parameter", decl, array));
  TRAINRT_TRY(device->locate(array).within("parameter '" + decl.name + "': "));
  settle();
  ++changes;
  for (Session *other : ranksHere)
    if (other != this && decl.shardUnit)
      TRAINRT_TRY(other->setParameter(index, array));
  Status status = values.parameters().set(index, array.data, array.onDevice);
  measure();
  return status;
}

Status Session::setState(size_t index, ArrayView array) {
  const TensorDecl &decl = source->program().state[index];
  TRAINRT_TRY(checkSame("state", decl, array));
  TRAINRT_TRY(device->locate(array).within("state '" + decl.name + "': "));
  if (!hasState())
    return fail(Code::Unsupported, "state '", decl.name, "': this session is for evaluation only");
  // `init` must not come later and overwrite it.
  if (values.parameters().missing().empty())
    TRAINRT_TRY(initializeState());
  settle();
  ++changes;
  for (Session *other : ranksHere)
    if (other != this && decl.shardUnit)
      TRAINRT_TRY(other->setState(index, array));
  return values.writeState(index, array.data, array.onDevice);
}

void Session::restored(int64_t step, int64_t seed) {
  settle();
  ++changes;
  finished = {};
  steps = step;
  key = seed;
  initialized = true;
  broken = false;
}

} // namespace trainrt
