// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Steps and evaluation. The order within a step is what keeps "nothing lost": all batches are
// checked and all memory is there before the first command runs; only then is anything changed.

#include "core/session.h"
#include "core/convert.h"
#include "core/plan.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <sched.h>
#include <thread>

namespace trainrt {

namespace {

int64_t padded(int64_t bytes) {
  return (bytes + planAlignment - 1) / planAlignment * planAlignment;
}

/// Offsets of blocks of these sizes behind each other; returns the end.
template <typename Size>
int64_t layOut(size_t count, std::vector<int64_t> &offsets, const Size &size) {
  int64_t end = 0;
  for (size_t i = 0; i < count; ++i) {
    offsets.push_back(end);
    end += padded(size(i));
  }
  return end;
}

/// Gradient accumulators: one for each trainable parameter.
int64_t layOutGradients(const Package &package, std::vector<int64_t> &offsets) {
  const auto &parameters = package.program().parameters;
  return layOut(parameters.size(), offsets, [&](size_t i) {
    return package.parameter(i).trainable ? gradientBytes(parameters[i]) : int64_t(0);
  });
}

int64_t layOutState(const Program &program, std::vector<int64_t> &offsets) {
  return layOut(program.state.size(), offsets,
                [&](size_t i) { return program.state[i].staticBytes; });
}

ArrayView view(const TensorDecl &decl, DType dtype, const void *data) {
  int64_t elements = decl.staticBytes / int64_t(sizeOf(decl.dtype));
  return {data, dtype, decl.staticShape, elements * int64_t(sizeOf(dtype))};
}

} // namespace

unsigned availableCores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
    return unsigned(CPU_COUNT(&set));
  return std::max(1u, std::thread::hardware_concurrency());
}

Status estimateMemory(const Package &package, const std::vector<int64_t> &symbols,
                      unsigned microBatches, unsigned threads, MemoryUse &use) {
  const Program &program = package.program();
  std::vector<const Function *> functions;
  std::vector<int64_t> ignored;
  if (microBatches == 0) {
    if (!package.eval())
      return fail(Code::Unsupported, "the package has no evaluation function");
    functions = {package.eval()};
  } else if (!package.manifest().training) {
    return fail(Code::Unsupported, "the package is for inference only");
  } else if (microBatches == 1 && package.step()) {
    functions = {package.step()};
  } else if (!package.micro() || !package.update()) {
    return fail(Code::Unsupported, "the package cannot accumulate micro-batches");
  } else {
    functions = {package.micro(), package.update()};
  }
  if (microBatches)
    use.state = layOutState(program, ignored);
  bool usesGradients = false;
  int64_t scratch = 0;
  for (const Function *function : functions) {
    ExecutionPlan plan;
    TRAINRT_TRY(makePlan(program, *function, symbols, plan));
    use.arena = std::max(use.arena, plan.arenaBytes);
    use.arenaLowerBound = std::max(use.arenaLowerBound, plan.arenaLowerBound);
    use.outputs = std::max(use.outputs, plan.outputBytes);
    scratch = std::max(scratch, padded(plan.scratchBytes));
    usesGradients |= function->usesGradients;
  }
  if (usesGradients)
    use.gradients = layOutGradients(package, ignored);
  use.scratch = scratch * int64_t(threads ? threads : availableCores());
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    bool copied = microBatches && package.parameter(i).trainable;
    int64_t bytes = program.parameters[i].staticBytes;
    (copied ? use.parameters : use.mapped) += copied ? padded(bytes) : bytes;
  }
  for (const Constant &constant : program.constants)
    use.mapped += int64_t(constant.data.size());
  return {};
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
  allocator = options.allocator;
  progress = options.progress;
  progressUser = options.progressUser;
  key = options.seed;
  inference = options.inference || !source->manifest().training;
  unsigned threads = options.threads ? options.threads : availableCores();
  if (threads > 1024)
    return fail(Code::InvalidArgument, "threads: ", threads, " are too many (at most 1024)");
  executor = std::make_unique<Executor>(threads);
  staging.resize(program.inputs.size());
  hypers.resize(program.hypers.size());
  TRAINRT_TRY(parameters.create(source, allocator, inference));
  bool needsState = !inference;
  if (inference && source->eval())
    for (const Buffer &buffer : source->eval()->buffers)
      needsState |= buffer.space == Space::State; // running statistics
  if (needsState) {
    int64_t bytes = layOutState(program, stateOffsets);
    TRAINRT_TRY(stateBlock.allocate(allocator, bytes, "optimizer state", true));
  }
  switch (options.weights) {
  case SessionOptions::Weights::Package:
    TRAINRT_TRY(parameters.loadPackage());
    break;
  case SessionOptions::Weights::File:
    TRAINRT_TRY(parameters.loadFile(options.weightsPath, notes));
    break;
  case SessionOptions::Weights::Random:
    if (!(options.initStd >= 0) || !std::isfinite(options.initStd))
      return fail(Code::InvalidArgument, "init_std: ", options.initStd,
                  " is no standard deviation");
    TRAINRT_TRY(parameters.randomize(key, options.initStd, executor->threads(), notes));
    break;
  case SessionOptions::Weights::None:
    break;
  }
  measure();
  return {};
}

MemoryUse Session::memory() const {
  MemoryUse use;
  use.parameters = parameters.heldBytes();
  use.mapped = parameters.mappedBytes();
  for (const Constant &constant : source->program().constants)
    use.mapped += int64_t(constant.data.size());
  use.state = stateBlock.size();
  use.gradients = gradientBlock.size();
  use.arena = arena.size();
  use.arenaLowerBound = lastArenaLowerBound;
  for (const Memory &memory : staging)
    use.inputs += memory.size();
  use.outputs = outputBlock.size();
  use.scratch = executor->scratchBytes();
  return use;
}

void Session::measure() { peak = std::max(peak, memory().total()); }

Status Session::usable() const {
  std::string missing = parameters.missing();
  if (!missing.empty())
    return fail(Code::MissingWeights, "these parameters have no values yet: ", missing,
                "; load a checkpoint or set them");
  if (broken)
    return fail(Code::InvalidArgument, "an earlier step was cut off while it was updating, so the "
                                       "parameters are inconsistent; load a checkpoint");
  return {};
}

Status Session::prepare(const Function &function, const std::vector<int64_t> &symbols) {
  const ExecutionPlan *plan;
  TRAINRT_TRY(plans.get(source->program(), function, symbols, plan));
  if (plan->arenaBytes >= arena.size())
    lastArenaLowerBound = plan->arenaLowerBound;
  if (plan->arenaBytes > arena.size())
    TRAINRT_TRY(arena.allocate(allocator, plan->arenaBytes, "activations", false));
  if (plan->outputBytes > outputBlock.size()) {
    outputs.clear();
    TRAINRT_TRY(outputBlock.allocate(allocator, plan->outputBytes, "outputs", false));
  }
  if (function.usesGradients)
    TRAINRT_TRY(prepareGradients());
  measure();
  return {};
}

Status Session::prepareGradients() {
  if (!gradientOffsets.empty())
    return {};
  std::vector<int64_t> offsets;
  int64_t bytes = layOutGradients(*source, offsets);
  TRAINRT_TRY(gradientBlock.allocate(allocator, bytes, "gradient accumulators", true));
  gradientOffsets = std::move(offsets);
  gradientsDirty = false;
  return {};
}

Status Session::stageInput(uint32_t input, const ArrayView &array, const void *&data) {
  const TensorDecl &decl = source->program().inputs[input];
  if (array.data && array.dtype == decl.dtype) {
    data = array.data;
    return {};
  }
  int64_t count, bytes;
  if (!countElements(array.shape.data(), array.shape.size(), count) ||
      !countBytes(decl.dtype, array.shape.data(), array.shape.size(), bytes))
    return fail(Code::BadData, "input '", decl.name, "' is too large");
  Memory &memory = staging[input];
  if (bytes > memory.size())
    TRAINRT_TRY(memory.allocate(allocator, bytes, "inputs", false));
  data = memory.data();
  if (array.data)
    convertElements(array.data, array.dtype, memory.data(), decl.dtype, count);
  else if (bytes)
    std::memset(memory.data(), 0, size_t(bytes));
  return {};
}

Status Session::execute(const Function &function, const BoundBatch *batch, bool cancellable) {
  const Program &program = source->program();
  began = false;
  std::vector<int64_t> symbols(program.symbols.size());
  if (batch)
    symbols = batch->symbols;
  TRAINRT_TRY(prepare(function, symbols));
  const ExecutionPlan *plan;
  TRAINRT_TRY(plans.get(program, function, symbols, plan));

  std::vector<const void *> inputs(program.inputs.size());
  if (batch)
    for (uint32_t input : function.inputs)
      TRAINRT_TRY(stageInput(input, batch->arrays[input], inputs[input]));
  measure();

  Executor::Run run{program, source->kernels(), {}, {}};
  for (size_t i = 0; i < function.buffers.size(); ++i) {
    const Buffer &buffer = function.buffers[i];
    const void *address = nullptr;
    switch (buffer.space) {
    case Space::Arena:
      address = arena.data() + plan->bufferOffsets[i];
      break;
    case Space::Parameter:
      address = parameters.data(buffer.index);
      break;
    case Space::State:
      address = stateBlock.data() + stateOffsets[buffer.index];
      break;
    case Space::Gradient:
      address = gradientBlock.data() + gradientOffsets[buffer.index];
      break;
    case Space::Input:
      address = inputs[buffer.index];
      break;
    case Space::Hyper:
      address = hypers[buffer.index].data();
      break;
    case Space::Constant:
      address = program.constants[buffer.index].data.data();
      break;
    case Space::Output:
      address = outputBlock.data() + plan->bufferOffsets[i];
      break;
    }
    run.buffers.push_back(const_cast<void *>(address));
  }
  if (cancellable || progress)
    run.stop = [this, cancellable](int64_t done, int64_t total) {
      if (progress && progress(progressUser, done, total) != 0)
        cancelled.store(true);
      return cancellable && cancelled.load();
    };
  outputs = plan->outputs;
  began = true;
  Status status;
  try {
    status = executor->run(*plan, run, allocator);
  } catch (const std::bad_alloc &) {
    status = Status(Code::OutOfMemory, "no memory for a kernel's scratch; use a smaller batch");
  } catch (const std::exception &error) {
    status =
        Status(Code::Internal, std::string("function '") + function.name + "': " + error.what());
  }
  measure();
  return status;
}

void Session::setHyper(const char *name, double value) {
  for (size_t i = 0; i < hypers.size(); ++i)
    if (source->program().hypers[i].name == name) {
      float single = static_cast<float>(value);
      std::memcpy(hypers[i].data(), &single, 4);
    }
}

void Session::setHyper(const char *name, int64_t value) {
  for (size_t i = 0; i < hypers.size(); ++i)
    if (source->program().hypers[i].name == name)
      std::memcpy(hypers[i].data(), &value, 8);
}

Status Session::setHypers(const StepOptions &options, StepResult &result) {
  const Manifest &manifest = source->manifest();
  auto has = [&](const char *name) {
    return std::any_of(source->program().hypers.begin(), source->program().hypers.end(),
                       [&](const TensorDecl &hyper) { return hyper.name == name; });
  };
  auto choose = [](double given, double compiled) { return std::isnan(given) ? compiled : given; };
  result.lr = choose(options.lr, manifest.lr);
  double decay = choose(options.weightDecay, manifest.weightDecay);
  double clip = choose(options.clipNorm, manifest.clipNorm);
  if (!std::isnan(options.clipNorm) && !has("clip_norm"))
    return fail(
        Code::InvalidArgument,
        "clip_norm is given, but the package was compiled without clipping; compile it with "
        "--clip-norm");
  if (!std::isnan(options.weightDecay) && !has("weight_decay"))
    return fail(Code::InvalidArgument,
                "weight_decay is given, but the package's optimizer has none");
  struct {
    const char *name;
    double value;
  } values[] = {{"lr", result.lr}, {"weight_decay", decay}, {"clip_norm", clip}};
  for (auto &[name, value] : values) {
    if (!has(name))
      continue;
    if (!std::isfinite(value) || value < 0)
      return fail(Code::InvalidArgument, name, ": ", value,
                  " is no value for it (it must be finite and not negative)");
    setHyper(name, value);
  }
  setHyper("grad_scale", 1.0);
  setHyper("step", steps + 1);
  setHyper("seed", key);
  setHyper("micro_batch", int64_t(0));
  setHyper("rank", int64_t(0));
  return {};
}

double Session::lossValue() const {
  for (const ExecutionPlan::Output &output : outputs) {
    if (int32_t(output.index) != source->lossOutput())
      continue;
    const unsigned char *data = outputBlock.data() + output.offset;
    DType dtype = source->program().outputs[output.index].dtype;
    if (!isFloat(dtype) || output.bytes < int64_t(sizeOf(dtype)))
      return NAN;
    double value;
    convertElements(data, dtype, &value, DType::F64, 1);
    return value;
  }
  return NAN;
}

bool Session::takeNonfinite(double loss) {
  // The flag is sticky for devices that run ahead; here the host looks after every step, so it is
  // cleared: the state is that before the bad step.
  int32_t flag = 0;
  if (source->nonfiniteState() >= 0) {
    unsigned char *state = stateBlock.data() + stateOffsets[size_t(source->nonfiniteState())];
    std::memcpy(&flag, state, 4);
    std::memset(state, 0, 4);
  }
  return flag != 0 || !std::isfinite(loss);
}

std::vector<unsigned char> Session::saveStates(const Function &function) const {
  std::vector<unsigned char> saved;
  for (const Buffer &buffer : function.buffers)
    if (buffer.space == Space::State) {
      const unsigned char *data = stateBlock.data() + stateOffsets[buffer.index];
      saved.insert(saved.end(), data, data + source->program().state[buffer.index].staticBytes);
    }
  return saved;
}

void Session::restoreStates(const Function &function, const std::vector<unsigned char> &saved) {
  const unsigned char *from = saved.data();
  for (const Buffer &buffer : function.buffers)
    if (buffer.space == Space::State) {
      int64_t bytes = source->program().state[buffer.index].staticBytes;
      std::memcpy(stateBlock.data() + stateOffsets[buffer.index], from, size_t(bytes));
      from += bytes;
    }
}

Status Session::initializeState() {
  if (initialized || inference)
    return {};
  TRAINRT_TRY(usable());
  if (source->init()) {
    StepResult ignored;
    TRAINRT_TRY(setHypers({}, ignored));
    TRAINRT_TRY(execute(*source->init(), nullptr, false));
  }
  initialized = true;
  return {};
}

Status Session::bindAll(const Function &function, const std::vector<Batch> &batches,
                        std::vector<BoundBatch> &bound) {
  if (inference)
    return fail(Code::Unsupported,
                source->manifest().training
                    ? "the session was created for evaluation only"
                    : "the package was compiled with --inference; it cannot train");
  TRAINRT_TRY(usable());
  bound.resize(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    Status status = bindBatch(*source, function, batches[i], false, bound[i]);
    if (!status.ok())
      return batches.size() == 1 ? status
                                 : status.within("micro-batch " + std::to_string(i) + ": ");
  }
  // All memory is there before anything changes.
  for (const BoundBatch &batch : bound)
    TRAINRT_TRY(prepare(function, batch.symbols));
  return {};
}

Status Session::accumulate(const std::vector<BoundBatch> &bound, const StepOptions &options,
                           double &loss) {
  TRAINRT_TRY(prepareGradients());
  if (gradientsDirty)
    executor->threads().parallelFor(
        gradientBlock.size(), 1 << 18, [this](unsigned, int64_t begin, int64_t end) {
          std::memset(gradientBlock.data() + begin, 0, size_t(end - begin));
        });
  gradientsDirty = haveGradients = true;
  loss = 0;
  double count = double(bound.size());
  for (size_t i = 0; i < bound.size(); ++i) {
    setHyper("micro_batch", int64_t(i));
    setHyper("grad_scale", options.weights ? options.weights[i] : 1 / count);
    TRAINRT_TRY(execute(*source->micro(), &bound[i], true));
    loss += options.weights ? options.weights[i] * lossValue() : lossValue();
  }
  if (!options.weights)
    loss /= count;
  return {};
}

Status Session::step(const std::vector<Batch> &batches, const StepOptions &options,
                     StepResult &result) {
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  bool fused =
      batches.size() == 1 && source->step() && (!options.weights || options.weights[0] == 1.0);
  if (!fused && !inference && (!source->micro() || !source->update()))
    return fail(Code::Unsupported,
                "the package cannot accumulate micro-batches (it has no functions "
                "'micro' and 'update'); compile it again");
  const Function *first = fused ? source->step() : source->micro();
  std::vector<BoundBatch> bound;
  if (inference)
    return bindAll(source->program().functions.front(), {}, bound);
  TRAINRT_TRY(bindAll(*first, batches, bound));
  if (!fused)
    TRAINRT_TRY(prepare(*source->update(), std::vector<int64_t>(source->program().symbols.size())));
  TRAINRT_TRY(initializeState());
  TRAINRT_TRY(setHypers(options, result));
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before the step began");

  if (fused) {
    Status status = execute(*first, &bound[0], false);
    if (!status.ok()) {
      broken = began;
      return status;
    }
    result.loss = lossValue();
    result.nonfinite = takeNonfinite(result.loss);
  } else {
    // Running statistics and the like, which a micro-batch may change before the step is decided.
    std::vector<unsigned char> saved = saveStates(*first);
    Status status = accumulate(bound, options, result.loss);
    if (!status.ok()) {
      restoreStates(*first, saved);
      cancelled.store(false);
      return status;
    }
    std::vector<ExecutionPlan::Output> microOutputs = outputs;
    if (cancelled.exchange(false)) {
      restoreStates(*first, saved);
      return Status(Code::Cancelled, "cancelled before the update");
    }
    // The update sees the flag and leaves everything as it is; ours to leave out entirely, if the
    // program has no such flag.
    bool bad = !std::isfinite(result.loss);
    if (!bad || source->nonfiniteState() >= 0) {
      status = execute(*source->update(), nullptr, false);
      if (!status.ok()) {
        broken = began;
        return status;
      }
    }
    outputs = std::move(microOutputs);
    result.nonfinite = takeNonfinite(result.loss);
    if (result.nonfinite) {
      restoreStates(*first, saved);
      takeNonfinite(result.loss);
    }
  }
  result.step = steps + 1;
  if (result.nonfinite && !options.allowNonfinite)
    return fail(Code::Nonfinite, "step ", result.step,
                std::isfinite(result.loss) ? ": a gradient" : ": the loss",
                " is not finite; parameters and state are those before the step");
  steps = result.step;
  return {};
}

Status Session::gradients(const std::vector<Batch> &batches, const StepOptions &options,
                          StepResult &result) {
  if (batches.empty())
    return fail(Code::InvalidArgument, "gradients need at least one batch");
  std::vector<BoundBatch> bound;
  if (inference)
    return bindAll(source->program().functions.front(), {}, bound);
  if (!source->micro())
    return fail(Code::Unsupported, "the package has no function 'micro'; compile it again");
  TRAINRT_TRY(bindAll(*source->micro(), batches, bound));
  TRAINRT_TRY(setHypers(options, result));
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before it began");
  std::vector<unsigned char> saved = saveStates(*source->micro());
  Status status = accumulate(bound, options, result.loss);
  restoreStates(*source->micro(), saved);
  cancelled.store(false);
  TRAINRT_TRY(status);
  result.step = steps + 1;
  result.nonfinite = !std::isfinite(result.loss);
  return {};
}

Status Session::eval(const Batch &batch, bool fillMissing, double &loss) {
  const Function *function = source->eval();
  if (!function)
    return fail(Code::Unsupported, "the package has no evaluation function");
  TRAINRT_TRY(usable());
  BoundBatch bound;
  TRAINRT_TRY(bindBatch(*source, *function, batch, fillMissing, bound));
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before it began");
  StepResult ignored;
  StepOptions options;
  options.lr = 0; // not used by an evaluation, which may come from a package without one
  TRAINRT_TRY(setHypers(options, ignored));
  Status status = execute(*function, &bound, true);
  cancelled.store(false);
  TRAINRT_TRY(status);
  loss = bound.anyFilled ? NAN : lossValue();
  return {};
}

Status Session::parameter(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().parameters[index];
  if (!parameters.data(index) && decl.staticBytes)
    return fail(Code::NotFound, "parameter '", decl.name, "' has no value yet");
  array = view(decl, decl.dtype, parameters.data(index));
  return {};
}

Status Session::state(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().state[index];
  if (!hasState())
    return fail(Code::NotFound, "state '", decl.name, "': this session is for evaluation only");
  array = view(decl, decl.dtype, stateBlock.data() + stateOffsets[index]);
  return {};
}

Status Session::gradient(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().parameters[index];
  if (!source->parameter(index).trainable)
    return fail(Code::NotFound, "parameter '", decl.name, "' is frozen, it has no gradient");
  if (!haveGradients)
    return fail(Code::NotFound, "no gradients have been computed yet");
  array = view(decl, gradientType(decl), gradientBlock.data() + gradientOffsets[index]);
  return {};
}

Status Session::output(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().outputs[index];
  for (const ExecutionPlan::Output &output : outputs)
    if (output.index == index) {
      array = {outputBlock.data() + output.offset, decl.dtype, output.shape, output.bytes};
      return {};
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
  if (decl.staticBytes)
    std::memcpy(stateBlock.data() + stateOffsets[index], array.data, size_t(decl.staticBytes));
  return {};
}

void Session::restored(int64_t step, int64_t seed) {
  steps = step;
  key = seed;
  initialized = true;
  broken = false;
}

} // namespace trainrt
