// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps and evaluation. The order within a step is what keeps "nothing lost": all batches are
// checked and all memory is there before the first command runs; only then is anything changed.

#include "session/session.h"
#include "format/memory/arena_plan.h"
#include "session/adapter/weight_norms.h"
#include "session/create_device.h"
#include "session/session_memory.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <sched.h>
#include <thread>
#include <utility>

namespace trainrt {

namespace {

/// Without its data.
ArrayView view(const TensorDecl &decl, DType dtype) {
  int64_t elements = decl.staticBytes / int64_t(sizeOf(decl.dtype));
  return {nullptr, dtype, decl.staticShape, elements * int64_t(sizeOf(dtype))};
}

/// Passes on what commands there were and how long they took.
class CommandTimes final : public CommandObserver {
public:
  CommandTimes(const Program &program, std::function<void(const CommandRecord &)> done)
      : program(program), done(std::move(done)) {}
  bool reads() const override { return false; }
  Status ran(const ExecutionPlan &plan, size_t index, double start, double seconds,
             const Read &) override {
    CommandRecord record;
    const Command &command = *plan.steps[index].command;
    record.function = plan.function;
    record.index = size_t(&command - plan.function->commands.data());
    record.name = commandName(program, plan, index);
    for (uint32_t node : command.nodes)
      record.nodes.push_back(program.nodes[node].c_str());
    record.start = start;
    record.seconds = seconds;
    record.bytes = commandBytes(plan, index);
    done(record);
    return {};
  }

private:
  const Program &program;
  const std::function<void(const CommandRecord &)> done;
};
} // namespace

unsigned availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return unsigned(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

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
  memoryDone = options.memory;
  key = options.seed;
  useVariants = options.variants;
  inference = options.inference || !source->manifest().training;
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
    observer = std::make_unique<CommandTimes>(program, options.commandDone);
  }
  TRAINRT_TRY(createDevice(
      source,
      {threads, options.allocator, options.device, options.stream, options.synchronous,
       observer.get()},
      [this](Space space, uint32_t index) { return addressOf(space, index); }, device));
  if (!device->note().empty())
    notes += device->note() + "\n";
  if (!device->isHost())
    plans.setCapacity(32), evalPlans.setCapacity(16);
  hypers.resize(program.hypers.size());
  noSymbols.resize(program.symbols.size());
  givenCounts.assign(program.symbols.size(), -1);
  auto find = [&](const char *name) {
    for (size_t i = 0; i < program.hypers.size(); ++i)
      if (program.hypers[i].name == name)
        return int32_t(i);
    return int32_t(-1);
  };
  hyper = {find("lr"),   find("weight_decay"), find("clip_norm"),   find("grad_scale"),
           find("step"), find("seed"),         find("micro_batch"), find("rank")};
  TRAINRT_TRY(parameters.create(source, *device, inference));
  bool needsState = !inference;
  if (inference && source->eval())
    for (const Buffer &buffer : source->eval()->buffers)
      needsState |= buffer.space == Space::State; // running statistics
  if (needsState) {
    int64_t bytes = layOutState(program, stateOffsets);
    TRAINRT_TRY(device->allocate(bytes, "optimizer state", true, stateBlock));
  }
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
  std::string missing = parameters.missing();
  if (!missing.empty())
    return fail(Code::MissingWeights, "these parameters have no values yet: ", Lines{missing},
                "; load a checkpoint or set them");
  if (broken)
    return fail(Code::InvalidArgument,
                "an earlier step updated only some of the parameters, so they are inconsistent; "
                "load a checkpoint");
  return {};
}

void *Session::addressOf(Space space, uint32_t index) const {
  switch (space) {
  case Space::Parameter:
    return parameters.data(index);
  case Space::State:
    return stateBlock.data() + stateOffsets[index];
  case Space::Gradient:
    return gradientBlock.data() + gradientOffsets[index];
  default:
    return nullptr;
  }
}

Status Session::prepareGradients() {
  if (!gradientOffsets.empty())
    return {};
  std::vector<int64_t> offsets;
  int64_t bytes = layOutGradients(*source, offsets);
  TRAINRT_TRY(device->allocate(bytes, "gradient accumulators", true, gradientBlock));
  gradientOffsets = std::move(offsets);
  gradientsDirty = false;
  return {};
}

Status Session::enqueue(const Function &function, const BoundBatch *batch, bool cancellable,
                        Device::Ticket &ticket, int64_t step) {
  began = false;
  const ExecutionPlan *plan;
  TRAINRT_TRY(prepare(function, batch ? batch->symbols : noSymbols, plan));
  Device::Run run{*plan, batch, hypers, {}};
  if (cancellable || progress)
    run.stop = [this, cancellable](int64_t done, int64_t total) {
      if (progress && progress(progressUser, done, total) != 0)
        cancelled.store(true);
      return cancellable && cancelled.load();
    };
  outputs = plan->outputs;
  Status status = device->enqueue(run, ticket);
  began = run.began;
  measure();
  if (status.ok() && step && memoryDone)
    tellMemory(step, *plan);
  return status;
}

Status Session::execute(const Function &function, const BoundBatch *batch, bool cancellable,
                        Device::Result &result, int64_t step) {
  Device::Ticket ticket;
  TRAINRT_TRY(enqueue(function, batch, cancellable, ticket, step));
  return device->wait(ticket, result);
}

void Session::setHyper(int32_t index, double value) {
  float single = static_cast<float>(value);
  if (index >= 0)
    std::memcpy(hypers[size_t(index)].data(), &single, 4);
}

void Session::setHyper(int32_t index, int64_t value) {
  if (index >= 0)
    std::memcpy(hypers[size_t(index)].data(), &value, 8);
}

Status Session::setHypers(const StepOptions &options, int64_t step, StepResult &result) {
  const Manifest &manifest = source->manifest();
  auto choose = [](double given, double compiled) { return std::isnan(given) ? compiled : given; };
  result.lr = choose(options.lr, manifest.lr);
  double decay = choose(options.weightDecay, manifest.weightDecay);
  double clip = choose(options.clipNorm, manifest.clipNorm);
  if (!std::isnan(options.clipNorm) && hyper.clipNorm < 0)
    return fail(
        Code::InvalidArgument,
        "clip_norm is given, but the package was compiled without clipping; compile it with "
        "--clip-norm");
  if (!std::isnan(options.weightDecay) && hyper.weightDecay < 0)
    return fail(Code::InvalidArgument,
                "weight_decay is given, but the package's optimizer has none");
  struct {
    const char *name;
    int32_t index;
    double value;
  } values[] = {{"lr", hyper.lr, result.lr},
                {"weight_decay", hyper.weightDecay, decay},
                {"clip_norm", hyper.clipNorm, clip}};
  for (auto &[name, index, value] : values) {
    if (index < 0)
      continue;
    if (!isHyper(value))
      return fail(Code::InvalidArgument, name, ": ", value,
                  " is no value for it (it must be finite and not negative)");
    setHyper(index, value);
  }
  setHyper(hyper.gradScale, 1.0);
  setHyper(hyper.step, step);
  setHyper(hyper.seed, key);
  setHyper(hyper.microBatch, int64_t(0));
  setHyper(hyper.rank, int64_t(0));
  return {};
}

Status Session::clearNonfinite() {
  if (source->nonfiniteState() < 0)
    return {};
  return device->clear(addressOf(Space::State, uint32_t(source->nonfiniteState())), 4);
}

namespace {
/// Calls `visit(space, index, offset, bytes)` for what runs of the function change beside the
/// accumulators: every state but `nonfinite`, and the parameters that the forward pass updates.
template <typename Visit>
Status forEachState(const Package &package, const Function &function, const Visit &visit) {
  const Program &program = package.program();
  int64_t offset = 0;
  for (const Buffer &buffer : function.buffers) {
    const bool isState = buffer.space == Space::State,
               isUpdated =
                   buffer.space == Space::Parameter && package.parameter(buffer.index).updated;
    if (!isUpdated && (!isState || int32_t(buffer.index) == package.nonfiniteState()))
      continue;
    int64_t bytes = (isState ? program.state : program.parameters)[buffer.index].staticBytes;
    TRAINRT_TRY(visit(buffer.space, buffer.index, offset, bytes));
    offset += padded(bytes, alignmentOf(program.target));
  }
  return {};
}
} // namespace

Status Session::saveStates(const Function &function) {
  int64_t end = 0;
  TRAINRT_TRY(forEachState(*source, function, [&](Space, uint32_t, int64_t offset, int64_t bytes) {
    end = offset + bytes;
    return Status();
  }));
  if (end > savedStates.size())
    TRAINRT_TRY(device->allocate(end, "saved state", false, savedStates));
  return forEachState(
      *source, function, [&](Space space, uint32_t index, int64_t offset, int64_t bytes) {
        return device->copy(savedStates.data() + offset, addressOf(space, index), bytes);
      });
}

Status Session::restoreStates(const Function &function) {
  TRAINRT_TRY(forEachState(
      *source, function, [&](Space space, uint32_t index, int64_t offset, int64_t bytes) {
        return device->copy(addressOf(space, index), savedStates.data() + offset, bytes);
      }));
  return clearNonfinite();
}

Status Session::initializeState() {
  if (initialized || inference)
    return {};
  TRAINRT_TRY(usable());
  if (source->init()) {
    StepResult ignored;
    Device::Result nothing;
    TRAINRT_TRY(setHypers({}, steps + 1, ignored));
    TRAINRT_TRY(execute(*source->init(), nullptr, false, nothing));
  }
  // What an earlier training left goes with the parameters that it left.
  for (size_t i = 0; goesOn && i < source->program().state.size(); ++i)
    if (source->state(i).hasWeights) {
      std::shared_ptr<const MappedFile> file;
      const unsigned char *data;
      TRAINRT_TRY(parameters.bytesOf(source->state(i), data, file));
      TRAINRT_TRY(writeState(i, data));
    }
  initialized = true;
  return {};
}

Status Session::accumulate(const StepOptions &options, StepResult &result) {
  TRAINRT_TRY(prepareGradients());
  if (gradientsDirty)
    TRAINRT_TRY(device->clear(gradientBlock.data(), gradientBlock.size()));
  gradientsDirty = haveGradients = true;
  result.loss = 0;
  const double count = double(bound.size());
  // A device that runs ahead gets the next micro-batch before the last one is waited for.
  const size_t ahead = device->runsAhead() ? 1 : 0;
  Device::Ticket tickets[2];
  for (size_t i = 0; i < bound.size() + ahead; ++i) {
    if (i < bound.size()) {
      setHyper(hyper.microBatch, int64_t(i));
      setHyper(hyper.gradScale, options.weights ? options.weights[i] : 1 / count);
      // Of the micro-batches of a step the last one is told.
      const bool isLast = i + 1 == bound.size();
      TRAINRT_TRY(enqueue(*selected[i], &bound[i], true, tickets[i % 2], isLast ? steps + 1 : 0));
    }
    if (i < ahead)
      continue;
    Device::Result done;
    TRAINRT_TRY(device->wait(tickets[(i - ahead) % 2], done));
    result.loss += options.weights ? options.weights[i - ahead] * done.loss : done.loss;
    result.nonfinite |= done.nonfinite || !done.numbers.empty();
    addNames(*selected[i - ahead], done.numbers, result);
  }
  if (!options.weights)
    result.loss /= count;
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

Status Session::step(const std::vector<Batch> &batches, const StepOptions &options,
                     StepResult &result) {
  result = {};
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  // The loss of a micro-batch would be finite where its gradients are not.
  for (size_t i = 0; options.weights && i < batches.size(); ++i)
    if (!std::isfinite(float(options.weights[i])))
      return fail(Code::InvalidArgument, "weights[", i, "]: ", options.weights[i],
                  " is no factor of a loss (it must be finite)");
  const Function *first = firstFunction(batches.size(), options.weights);
  const bool fused = first && first == source->step();
  if (!fused && !inference && (!source->micro() || !source->update()))
    return fail(Code::Unsupported,
                "the package cannot accumulate micro-batches (it has no functions "
                "'micro' and 'update'); compile it again");
  if (inference)
    return prepareAll(source->program().functions.front(), {}, {});
  // Without the flag, a step would not know that the one before it must not have happened.
  const bool ahead =
      options.lag && fused && device->runsAhead() && source->nonfiniteState() >= 0 && !observer;
  if (!ahead)
    settle();
  if (options.lag && finished.present && !finished.status.ok())
    return finish(result);
  BindOptions binding;
  binding.checked = options.checked;
  TRAINRT_TRY(prepareAll(*first, batches, binding));
  if (density)
    TRAINRT_TRY(measureDensity(*source, bound, (pending.active ? pending.result.step : steps) + 1,
                               density));
  if (!fused) {
    const ExecutionPlan *plan;
    TRAINRT_TRY(prepare(*source->update(), noSymbols, plan));
  }
  TRAINRT_TRY(initializeState());
  if (ahead)
    return stepAhead(*selected[0], options, result);
  if (fused)
    first = selected[0];
  if (!options.lag)
    return stepNow(*first, fused, options, result);
  StepResult made;
  Status status = stepNow(*first, fused, options, made);
  if (!status.ok() && status.code() != Code::Nonfinite)
    return status;
  Status previous = finish(result);
  finished = {made, std::move(status), true};
  return previous;
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
    TRAINRT_TRY(clearNonfinite());
  const std::string step = "step " + std::to_string(result.step), of = listed(result.numbers);
  std::string what = step + ": ";
  if (result.inPart)
    what += "the gradient of " + of + ", or what its update makes of it, is not finite";
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
  TRAINRT_TRY(setHypers(options, steps + 1, result));
  result.step = steps + 1;
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before the step began");
  Device::Result done;
  phasePeak = 0;
  if (fused) {
    Status status = execute(first, &bound[0], false, done, result.step);
    if (!status.ok()) {
      broken = began;
      return status;
    }
    result.loss = done.loss;
    note(first, done, result);
    return decide(options.allowNonfinite, result);
  }
  // Running statistics and the like, which a micro-batch may change before the step is decided.
  TRAINRT_TRY(saveStates(first));
  Status status = accumulate(options, result);
  if (!status.ok()) {
    TRAINRT_TRY(restoreStates(first));
    cancelled.store(false);
    return status;
  }
  std::vector<ExecutionPlan::Output> microOutputs = outputs;
  if (cancelled.exchange(false)) {
    TRAINRT_TRY(restoreStates(first));
    return Status(Code::Cancelled, "cancelled before the update");
  }
  if (!result.nonfinite) {
    const Function &update = *source->update();
    status = execute(update, nullptr, false, done, result.step);
    if (!status.ok()) {
      broken = began;
      return status;
    }
    note(update, done, result);
  }
  outputs = std::move(microOutputs);
  if (result.nonfinite && !result.inPart)
    TRAINRT_TRY(restoreStates(first));
  return decide(options.allowNonfinite, result);
}

Status Session::stepAhead(const Function &function, const StepOptions &options,
                          StepResult &result) {
  Pending next;
  next.allowNonfinite = options.allowNonfinite;
  next.function = &function;
  next.result.step = (pending.active ? pending.result.step : steps) + 1;
  TRAINRT_TRY(setHypers(options, next.result.step, next.result));
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before the step began");
  phasePeak = 0;
  Status status = enqueue(function, &bound[0], false, next.ticket, next.result.step);
  if (!status.ok()) {
    broken |= began;
    return status;
  }
  next.active = true;
  if (!pending.active) {
    pending = next;
    return finish(result, /*wait=*/false);
  }
  status = complete(pending, result);
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
    // and not that of the step before; bad indices that it met have changed nothing.
    status = device->wait(pending.ticket, ignored);
    if (status.ok())
      status = device->repeat(pending.ticket);
    if (!status.ok()) {
      broken = status.code() != Code::BadData;
      finished = {pending.result, std::move(status), true};
      pending.active = false;
    }
  }
  return {};
}

Status Session::complete(Pending &step, StepResult &result) {
  step.active = false;
  result = step.result;
  Device::Result done;
  if (Status status = device->wait(step.ticket, done); !status.ok()) {
    broken = true;
    return status;
  }
  result.loss = done.loss;
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
  settle();
  TRAINRT_TRY(prepareAll(*source->micro(), batches, {}));
  TRAINRT_TRY(setHypers(options, steps + 1, result));
  if (numerics)
    numerics->reset();
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before it began");
  TRAINRT_TRY(saveStates(*source->micro()));
  phasePeak = 0;
  Status status = accumulate(options, result);
  TRAINRT_TRY(restoreStates(*source->micro()));
  cancelled.store(false);
  TRAINRT_TRY(status);
  result.step = steps + 1;
  return result.nonfinite ? explained({}, std::isfinite(result.loss) ? "a gradient" : "the loss")
                          : Status();
}

Status Session::eval(const Batch &batch, bool fillMissing, double &loss) {
  const Function *function = source->eval();
  if (!function)
    return fail(Code::Unsupported, "the package has no evaluation function");
  settle();
  TRAINRT_TRY(usable());
  BindOptions binding;
  binding.fillMissing = fillMissing;
  TRAINRT_TRY(bind(*function, batch, binding, evalBound));
  function = select(evalBound);
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before it began");
  StepResult ignored;
  StepOptions options;
  options.lr = 0; // not used by an evaluation, which may come from a package without one
  TRAINRT_TRY(setHypers(options, steps + 1, ignored));
  if (numerics)
    numerics->reset();
  Device::Result result;
  Status status = execute(*function, &evalBound, true, result);
  cancelled.store(false);
  TRAINRT_TRY(status);
  loss = evalBound.anyFilled ? NAN : result.loss;
  return std::isfinite(result.loss) || source->lossOutput() < 0
             ? Status()
             : explained({}, "the loss of the evaluation");
}

Status Session::parameter(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().parameters[index];
  if (!parameters.data(index) && decl.staticBytes)
    return fail(Code::NotFound, "parameter '", decl.name, "' has no value yet");
  array = view(decl, decl.dtype);
  return device->view(parameters.data(index), array.bytes, array.data);
}

Status Session::state(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().state[index];
  if (!hasState())
    return fail(Code::NotFound, "state '", decl.name, "': this session is for evaluation only");
  array = view(decl, decl.dtype);
  return device->view(addressOf(Space::State, uint32_t(index)), array.bytes, array.data);
}

Status Session::gradient(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().parameters[index];
  if (!source->parameter(index).trainable)
    return fail(Code::NotFound, "parameter '", decl.name, "' is frozen, it has no gradient");
  if (!haveGradients)
    return fail(Code::NotFound, "no gradients have been computed yet");
  array = view(decl, gradientType(decl));
  return device->view(addressOf(Space::Gradient, uint32_t(index)), array.bytes, array.data);
}

Status Session::output(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().outputs[index];
  for (const ExecutionPlan::Output &output : outputs)
    if (output.index == index) {
      array = {nullptr, decl.dtype, output.shape, output.bytes};
      return device->view(device->outputs() + output.offset, output.bytes, array.data);
    }
  return fail(Code::NotFound, "output '", decl.name, "' was not computed by the last call");
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

Status Session::setParameter(size_t index, const ArrayView &array) {
  TRAINRT_TRY(checkSame("parameter", source->program().parameters[index], array));
  settle();
  Status status = parameters.set(index, array.data);
  measure();
  return status;
}

Status Session::setState(size_t index, const ArrayView &array) {
  const TensorDecl &decl = source->program().state[index];
  TRAINRT_TRY(checkSame("state", decl, array));
  if (!hasState())
    return fail(Code::Unsupported, "state '", decl.name, "': this session is for evaluation only");
  // `init` must not come later and overwrite it.
  if (parameters.missing().empty())
    TRAINRT_TRY(initializeState());
  settle();
  return writeState(index, array.data);
}

Status Session::writeState(size_t index, const void *data) {
  auto *from = static_cast<const unsigned char *>(data);
  return device->write(addressOf(Space::State, uint32_t(index)),
                       source->program().state[index].staticBytes,
                       [from](unsigned char *to, int64_t begin, int64_t end) {
                         std::memcpy(to, from + begin, size_t(end - begin));
                       });
}

void Session::restored(int64_t step, int64_t seed) {
  settle();
  finished = {};
  steps = step;
  key = seed;
  initialized = true;
  broken = false;
}

} // namespace trainrt
