// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Sessions of the C API.

#include "capi/internal.h"
#include "format/signature.h"

#include <chrono>
#include <cmath>

using namespace trainrt;
using namespace trainrt::capi;

namespace trainrt::capi {
Status readBatch(const trainrt_batch &from, Batch &to) {
  if (from.count && !from.inputs)
    return nullArgument("batch->inputs");
  // The vector may be used again: its memory stays.
  to.resize(from.count);
  for (size_t i = 0; i < from.count; ++i) {
    if (!from.inputs[i].name)
      return fail(Code::InvalidArgument, "input ", i, " of the batch has no name");
    to[i].name = from.inputs[i].name;
    TRAINRT_TRY(readTensor(from.inputs[i].tensor, "input", from.inputs[i].name, to[i].array));
  }
  return {};
}

} // namespace trainrt::capi

namespace {

class Timer {
public:
  double milliseconds() const {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
        .count();
  }

private:
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
};

/// Returns `status`.
Status writeResult(const trainrt_session &session, const Status &status, const StepResult &done,
                   const Timer &timer, double waitedBefore, trainrt_step_result *result) {
  // Numbers of a step that is not finite are told, too.
  if (status.ok() || status.code() == Code::Nonfinite) {
    trainrt_step_result filled = trainrt_step_result_default();
    filled.step = done.step;
    filled.loss = done.loss;
    filled.lr = done.lr;
    filled.milliseconds = timer.milliseconds();
    filled.peak_bytes = uint64_t(session.impl->peakBytes());
    // 1: the update was left out; 2: parts of it were.
    filled.nonfinite = done.nonfinite ? done.inPart ? 2 : 1 : 0;
    filled.wait_milliseconds = (session.impl->waitedSeconds() - waitedBefore) * 1e3;
    filled.grad_norm = done.gradNorm;
    filled.flops = done.flops;
    filled.last = done.last;
    TRAINRT_TRY(writeStruct(filled, "result", result));
  }
  return status;
}

/// What `trainrt_step` and `trainrt_gradients` share.
/// `flags`: those it knows beside TRAINRT_STEP_ALLOW_NONFINITE.
template <typename Run>
trainrt_status runStep(trainrt_session *session, const trainrt_batch *batches, size_t count,
                       const trainrt_step_options *options, trainrt_step_result *result,
                       trainrt_error **error, uint32_t flags, const Run &run) {
  return guardSession(session, error, [&]() -> Status {
    Timer timer;
    if (!session || (count && !batches))
      return nullArgument(session ? "batches" : "session");
    trainrt_step_options chosen = trainrt_step_options_default();
    // A caller of before that field expects what was done then.
    if (options && options->size <= offsetof(trainrt_step_options, accumulate_by))
      chosen.accumulate_by = TRAINRT_BY_MEAN;
    TRAINRT_TRY(readStruct(options, "options", chosen));
    TRAINRT_TRY(checkStruct(result, "result"));
    if (unsigned(chosen.accumulate_by) > TRAINRT_BY_TOKENS)
      return fail(Code::InvalidArgument, "options->accumulate_by: ", int(chosen.accumulate_by),
                  " is unknown");
    // Bits that mean nothing here may mean something in a newer version.
    if (chosen.flags & ~uint32_t(TRAINRT_STEP_ALLOW_NONFINITE | flags))
      return fail(Code::InvalidArgument, "options->flags: ", chosen.flags, " has unknown bits");
    // Kept between calls, so that a step allocates nothing.
    std::vector<Batch> &read = session->batches;
    read.resize(count);
    for (size_t i = 0; i < count; ++i)
      TRAINRT_TRY(readBatch(batches[i], read[i]));
    StepOptions stepOptions;
    stepOptions.lr = chosen.lr;
    stepOptions.weightDecay = chosen.weight_decay;
    stepOptions.clipNorm = chosen.clip_norm;
    stepOptions.weights = chosen.weights;
    stepOptions.accumulateBy = static_cast<AccumulateBy>(chosen.accumulate_by);
    stepOptions.allowNonfinite = chosen.flags & TRAINRT_STEP_ALLOW_NONFINITE;
    stepOptions.lag = chosen.flags & TRAINRT_STEP_LAG;
    stepOptions.checked = chosen.flags & TRAINRT_STEP_CHECKED;
    stepOptions.last = chosen.flags & TRAINRT_STEP_LAST;
    session->impl->warnings().clear();
    StepResult done;
    // Waiting is told as this call's share.
    const double waited = session->impl->waitedSeconds();
    Status status = run(read, stepOptions, done);
    return writeResult(*session, status, done, timer, waited, result);
  });
}

/// Fills `tensor` with what `get` finds under `name`; the shape lives in the program or the plan.
template <typename Get>
trainrt_status getTensor(const trainrt_session *session, trainrt_kind kind, const char *name,
                         trainrt_tensor *tensor, trainrt_error **error, const Get &get) {
  return guardSession(session, error, [&]() -> Status {
    // `get` fills shape and array; both stay valid as `trainrt.h` says.
    if (!session || !tensor)
      return nullArgument(session ? "tensor" : "session");
    size_t index = 0;
    TRAINRT_TRY(findTensor(session->impl->package(), kind, name, index));
    ArrayView array;
    const int64_t *shape = nullptr;
    TRAINRT_TRY(get(index, array, shape));
    *tensor = makeTensor(array, shape);
    return {};
  });
}

template <typename Set>
/// The array stays the caller's.
trainrt_status setTensor(trainrt_session *session, trainrt_kind kind, const char *name,
                         const trainrt_tensor *tensor, trainrt_error **error, const Set &set) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !tensor)
      return nullArgument(session ? "tensor" : "session");
    size_t index = 0;
    TRAINRT_TRY(findTensor(session->impl->package(), kind, name, index));
    ArrayView array;
    // Type and shape are checked by `set`, which knows what they have to be.
    TRAINRT_TRY(readTensor(*tensor, "tensor", name, array));
    return set(index, array);
  });
}

} // namespace

extern "C" {

trainrt_status trainrt_session_create(const trainrt_package *package,
                                      const trainrt_session_options *options,
                                      trainrt_session **session, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!package || !session)
      return nullArgument(package ? "session" : "package");
    trainrt_session_options given = trainrt_session_options_default();
    TRAINRT_TRY(readStruct(options, "options", given));
    SessionOptions chosen;
    chosen.threads = given.threads;
    chosen.inference = given.inference != 0;
    chosen.seed = given.seed;
    if (unsigned(given.weights) > TRAINRT_WEIGHTS_NONE)
      return fail(Code::InvalidArgument, "options->weights: ", int(given.weights), " is unknown");
    chosen.weights = static_cast<SessionOptions::Weights>(given.weights);
    if (given.weights == TRAINRT_WEIGHTS_FILE) {
      if (!given.weights_path)
        return nullArgument("options->weights_path");
      chosen.weightsPath = given.weights_path;
    }
    chosen.initStd = given.init_std;
    // One without the other would free what it has not allocated.
    if (!given.allocator.allocate != !given.allocator.deallocate)
      return fail(Code::InvalidArgument, "options->allocator needs both of its functions");
    chosen.allocator = {given.allocator.user, given.allocator.allocate, given.allocator.deallocate};
    chosen.progress = given.progress;
    chosen.progressUser = given.progress_user;
    chosen.device = given.device;
    chosen.stream = given.stream;
    chosen.synchronous = given.synchronous != 0;
    chosen.checkNumerics = given.check_numerics != 0;
    chosen.variants = given.no_variants == 0;
    chosen.anyModel = given.any_model != 0;
    // Records of the C API are made anew for each call: theirs live only so long.
    if (given.command_done)
      chosen.commandDone = [done = given.command_done,
                            user = given.command_user](const CommandRecord &record) {
        trainrt_command command{};
        command.size = sizeof command;
        // What ranks do between functions is of none.
        command.function = record.function ? record.function->name.c_str() : "ranks";
        command.index = record.index;
        command.name = record.name.c_str();
        command.nodes = record.nodes.data();
        command.node_count = record.nodes.size();
        command.start_milliseconds = record.start * 1e3;
        command.milliseconds = record.seconds * 1e3;
        command.bytes = uint64_t(record.bytes);
        command.sent_bytes = uint64_t(record.sent);
        command.waited_milliseconds = record.waited * 1e3;
        command.class_name = nameOf(record.kind);
        command.flops = uint64_t(record.flops);
        command.type = record.type;
        std::vector<const char *> names;
        std::vector<int64_t> numbers;
        for (const auto &[name, number] : record.shape) {
          names.push_back(name);
          numbers.push_back(number);
        }
        command.shape_names = names.data();
        command.shape = numbers.data();
        command.shape_count = names.size();
        done(user, &command);
      };
    if (given.density)
      chosen.density = [done = given.density,
                        user = given.density_user](const DensityRecord &record) {
        trainrt_density density{};
        density.size = sizeof density;
        density.step = record.step;
        density.input = record.input->name.c_str();
        density.role = record.tokens->isLabel ? TRAINRT_LABEL : TRAINRT_EMBED;
        density.pad = record.tokens->pad.value_or(0);
        density.mask = record.tokens->pad ? nullptr : record.tokens->mask.c_str();
        density.valid = record.valid;
        density.total = record.total;
        density.valid_by_row = record.validByRow.data();
        density.rows = record.validByRow.size();
        done(user, &density);
      };
    if (given.memory)
      chosen.memory = [done = given.memory, user = given.memory_user](const MemoryRecord &record) {
        trainrt_phase_memory memory{};
        memory.size = sizeof memory;
        memory.step = record.step;
        memory.phase = record.phase;
        memory.allocated = uint64_t(record.allocated);
        memory.peak = uint64_t(record.peak);
        memory.cached = uint64_t(record.cached);
        done(user, &memory);
      };
    // A session that could not be made leaves nothing behind.
    auto result = std::make_unique<trainrt_session>();
    if (given.ranks && given.emulate_world)
      return fail(Code::InvalidArgument,
                  "options->ranks and emulate_world exclude each other: a process is one rank");
    if ((given.ranks_per_node || given.shard_within) && !given.emulate_world)
      return fail(Code::InvalidArgument,
                  "options->ranks_per_node and shard_within need emulate_world: processes are told "
                  "by trainrt_ranks_options");
    if (given.ranks)
      chosen.ranks = given.ranks->impl;
    TRAINRT_TRY(given.emulate_world == 0
                    ? Session::create(package->impl, chosen, result->impl)
                    : RankGroup::create(package->impl, chosen, given.emulate_world, result->impl,
                                        result->group, {given.ranks_per_node, given.shard_within}));
    *session = result.release();
    return {};
  });
}

void trainrt_session_free(trainrt_session *session) { delete session; }

const char *trainrt_session_warnings(const trainrt_session *session) {
  return session ? session->impl->warnings().c_str() : "";
}

int64_t trainrt_session_step(const trainrt_session *session) {
  return session ? session->impl->stepCount() : 0;
}

int64_t trainrt_session_seed(const trainrt_session *session) {
  return session ? session->impl->seed() : 0;
}

uint32_t trainrt_session_threads(const trainrt_session *session) {
  return session ? session->impl->threads() : 0;
}

trainrt_status trainrt_session_memory(const trainrt_session *session, trainrt_memory *memory,
                                      trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !memory)
      return nullArgument(session ? "memory" : "session");
    trainrt_memory result = memoryOf(session->impl->memory());
    // The peak of the session, in place of the sum of now.
    result.total = uint64_t(session->impl->peakBytes());
    return writeStruct(result, "memory", memory);
  });
}

/// A speed that the session measures.
static trainrt_status measured(trainrt_session *session, const char *name, double *result,
                               Status (Session::*measure)(double &), trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !result)
      return nullArgument(session ? name : "session");
    double speed = 0;
    TRAINRT_TRY((*session->impl.*measure)(speed));
    *result = speed;
    return {};
  });
}

trainrt_status trainrt_session_copy_speed(trainrt_session *session, double *bytes_per_second,
                                          trainrt_error **error) {
  return measured(session, "bytes_per_second", bytes_per_second, &Session::measureCopySpeed, error);
}

trainrt_status trainrt_session_matmul_speed(trainrt_session *session, double *flops_per_second,
                                            trainrt_error **error) {
  return measured(session, "flops_per_second", flops_per_second, &Session::measureMatmulSpeed,
                  error);
}

trainrt_status trainrt_host_alloc(trainrt_session *session, size_t bytes, void **memory,
                                  trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!session || !memory)
      return nullArgument(session ? "memory" : "session");
    if (bytes == 0 || bytes > size_t(INT64_MAX))
      return fail(Code::InvalidArgument, "bytes: ", bytes, " cannot be allocated");
    return session->impl->allocateHost(int64_t(bytes), *memory);
  });
}

void trainrt_host_free(trainrt_session *session, void *memory) {
  if (session && memory)
    session->impl->releaseHost(memory);
}

void trainrt_session_cancel(trainrt_session *session) {
  if (session)
    session->impl->cancel();
}

trainrt_status trainrt_step(trainrt_session *session, const trainrt_batch *batches,
                            size_t batch_count, const trainrt_step_options *options,
                            trainrt_step_result *result, trainrt_error **error) {
  return runStep(session, batches, batch_count, options, result, error,
                 TRAINRT_STEP_LAG | TRAINRT_STEP_CHECKED | TRAINRT_STEP_LAST,
                 [&](const auto &read, const auto &chosen, auto &done) {
                   return session->group ? session->group->step(*session->impl, read, chosen, done)
                                         : session->impl->step(read, chosen, done);
                 });
}

trainrt_status trainrt_session_check(trainrt_session *session, const trainrt_batch *batches,
                                     size_t batch_count, trainrt_error **error) {
  return guard(error, [&]() -> Status {
    if (!session || (batch_count && !batches))
      return nullArgument(session ? "batches" : "session");
    std::vector<Batch> read(batch_count);
    // Batches of its own: another thread may be running a step.
    for (size_t i = 0; i < batch_count; ++i)
      TRAINRT_TRY(readBatch(batches[i], read[i]));
    return session->impl->check(read);
  });
}

trainrt_status trainrt_session_plans(trainrt_session *session, trainrt_plan_info *info,
                                     trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !info)
      return nullArgument(session ? "info" : "session");
    TRAINRT_TRY(checkStruct(info, "info"));
    const PlanUse &use = session->impl->planUse();
    trainrt_plan_info result = trainrt_plan_info_default();
    result.plans = uint64_t(use.plans);
    result.build_milliseconds = use.buildSeconds * 1e3;
    result.batches = uint64_t(use.batches);
    result.variant_batches = uint64_t(use.byVariants);
    result.declined_count = use.declined.size();
    // The text lives in the session until it is asked for again.
    session->declined.clear();
    for (const Declined &reason : use.declined)
      session->declined += shown(describe(session->impl->package().program(), reason)) + "\n";
    result.declined = session->declined.c_str();
    return writeStruct(result, "info", info);
  });
}

trainrt_status trainrt_session_set_count(trainrt_session *session, const char *symbol,
                                         int64_t value, trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !symbol)
      return nullArgument(session ? "symbol" : "session");
    const auto &symbols = session->impl->package().program().symbols;
    for (size_t i = 0; i < symbols.size(); ++i)
      if (symbols[i].name == symbol)
        return session->impl->setCount(i, value);
    return fail(Code::NotFound, "there is no symbol '", shown(symbol), "'");
  });
}

trainrt_status trainrt_session_finish(trainrt_session *session, trainrt_step_result *result,
                                      trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    Timer timer;
    if (!session)
      return nullArgument("session");
    TRAINRT_TRY(checkStruct(result, "result"));
    StepResult done;
    const double waited = session->impl->waitedSeconds();
    Status status = session->impl->finish(done);
    return writeResult(*session, status, done, timer, waited, result);
  });
}

trainrt_status trainrt_session_tune(trainrt_session *session, const trainrt_batch *batches,
                                    size_t batch_count, double seconds, const char *path,
                                    trainrt_tune_result *result, trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || (batch_count && !batches))
      return nullArgument(session ? "batches" : "session");
    if (!path)
      return nullArgument("path");
    if (!(seconds >= 0) || !std::isfinite(seconds))
      return fail(Code::InvalidArgument, "seconds: ", seconds, " is no time");
    // Before anything is measured, which takes long.
    TRAINRT_TRY(checkStruct(result, "result"));
    std::vector<Batch> read(batch_count);
    for (size_t i = 0; i < batch_count; ++i)
      TRAINRT_TRY(readBatch(batches[i], read[i]));
    session->impl->warnings().clear();
    TuningResult found;
    TRAINRT_TRY(session->impl->tune(read, seconds, found));
    TRAINRT_TRY(writeTuned(session->impl->package(), found.choices, path));
    if (session->impl->package().zip().find(signatureEntry))
      session->impl->warnings() += "the tuned package is another than the signed one: it has no "
                                   "signature\n";
    // Kept by the session, as the result points to it.
    trainrt_tune_result filled = trainrt_tune_result_default();
    std::string &report = session->tuningReport;
    report.clear();
    for (const TuningResult::Line &line : found.lines) {
      ++filled.choices;
      filled.reached += line.candidates != 0;
      filled.changed += line.changed;
      filled.before_milliseconds += line.before * double(line.uses) * 1e3;
      filled.after_milliseconds += line.after * double(line.uses) * 1e3;
      report += shown(describe(line)) + "\n";
    }
    filled.report = report.c_str();
    return writeStruct(filled, "result", result);
  });
}

trainrt_status trainrt_gradients(trainrt_session *session, const trainrt_batch *batches,
                                 size_t batch_count, const trainrt_step_options *options,
                                 trainrt_step_result *result, trainrt_error **error) {
  return runStep(session, batches, batch_count, options, result, error, 0,
                 [&](const auto &read, const auto &chosen, auto &done) {
                   return session->impl->gradients(read, chosen, done);
                 });
}

trainrt_status trainrt_eval(trainrt_session *session, const trainrt_batch *batch,
                            const trainrt_eval_options *options, trainrt_eval_result *result,
                            trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    Timer timer;
    if (!session || !batch)
      return nullArgument(session ? "batch" : "session");
    trainrt_eval_options chosen = trainrt_eval_options_default();
    TRAINRT_TRY(readStruct(options, "options", chosen));
    TRAINRT_TRY(checkStruct(result, "result"));
    if (chosen.flags & ~uint32_t(TRAINRT_EVAL_FILL_MISSING))
      return fail(Code::InvalidArgument, "options->flags: ", chosen.flags, " has unknown bits");
    Batch read;
    TRAINRT_TRY(readBatch(*batch, read));
    session->impl->warnings().clear();
    trainrt_eval_result filled = trainrt_eval_result_default();
    const bool fills = chosen.flags & TRAINRT_EVAL_FILL_MISSING;
    TRAINRT_TRY(session->group ? session->group->eval(*session->impl, read, fills, filled.loss)
                               : session->impl->eval(read, fills, filled.loss));
    filled.milliseconds = timer.milliseconds();
    filled.peak_bytes = uint64_t(session->impl->peakBytes());
    return writeStruct(filled, "result", result);
  });
}

trainrt_status trainrt_session_parameter(const trainrt_session *session, const char *name,
                                         trainrt_tensor *tensor, trainrt_error **error) {
  return getTensor(session, TRAINRT_PARAMETER, name, tensor, error,
                   [&](size_t index, ArrayView &array, const int64_t *&shape) {
                     shape =
                         session->impl->package().program().parameters[index].staticShape.data();
                     return session->impl->parameter(index, array);
                   });
}

trainrt_status trainrt_session_merged_parameter(trainrt_session *session, const char *name,
                                                trainrt_tensor *tensor, trainrt_error **error) {
  return getTensor(session, TRAINRT_PARAMETER, name, tensor, error,
                   [&](size_t index, ArrayView &array, const int64_t *&shape) -> Status {
                     OwnedArray &merged = session->merged;
                     TRAINRT_TRY(mergedParameter(*session->impl, index, merged, array));
                     // Merged values are the session's, others the package's own.
                     const bool isHeld = array.data == merged.bytes.data();
                     shape = isHeld ? merged.shape.data()
                                    : session->impl->package().parameter(index).shape.data();
                     return {};
                   });
}

trainrt_status trainrt_session_state(const trainrt_session *session, const char *name,
                                     trainrt_tensor *tensor, trainrt_error **error) {
  return getTensor(session, TRAINRT_STATE, name, tensor, error,
                   [&](size_t index, ArrayView &array, const int64_t *&shape) {
                     shape = session->impl->package().program().state[index].staticShape.data();
                     return session->impl->state(index, array);
                   });
}

trainrt_status trainrt_session_gradient(const trainrt_session *session, const char *name,
                                        trainrt_tensor *tensor, trainrt_error **error) {
  return getTensor(session, TRAINRT_PARAMETER, name, tensor, error,
                   [&](size_t index, ArrayView &array, const int64_t *&shape) {
                     shape =
                         session->impl->package().program().parameters[index].staticShape.data();
                     return session->impl->gradient(index, array);
                   });
}

trainrt_status trainrt_session_output(const trainrt_session *session, const char *name,
                                      trainrt_tensor *tensor, trainrt_error **error) {
  return getTensor(session, TRAINRT_OUTPUT, name, tensor, error,
                   [&](size_t index, ArrayView &array, const int64_t *&shape) {
                     shape = session->impl->outputShape(index);
                     return session->impl->output(index, array);
                   });
}

trainrt_status trainrt_session_set_parameter(trainrt_session *session, const char *name,
                                             const trainrt_tensor *tensor, trainrt_error **error) {
  return setTensor(session, TRAINRT_PARAMETER, name, tensor, error,
                   [&](size_t index, const ArrayView &array) {
                     return session->impl->setParameter(index, array);
                   });
}

trainrt_status trainrt_session_set_state(trainrt_session *session, const char *name,
                                         const trainrt_tensor *tensor, trainrt_error **error) {
  return setTensor(
      session, TRAINRT_STATE, name, tensor, error,
      [&](size_t index, const ArrayView &array) { return session->impl->setState(index, array); });
}

void *trainrt_session_stream(const trainrt_session *session) {
  return session ? session->impl->stream() : nullptr;
}

uint64_t trainrt_session_input_copies(const trainrt_session *session, const char **reason) {
  const Device::InputCopies copies = session ? session->impl->inputCopies() : Device::InputCopies();
  if (reason)
    *reason = copies.reason;
  return copies.count;
}

trainrt_status trainrt_session_wait_stream(trainrt_session *session, void *stream,
                                           trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    return session ? session->impl->waitFor(stream) : nullArgument("session");
  });
}

trainrt_status trainrt_session_signal_stream(trainrt_session *session, void *stream,
                                             trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    return session ? session->impl->signal(stream) : nullArgument("session");
  });
}

trainrt_status trainrt_session_set_step(trainrt_session *session, int64_t step,
                                        trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session)
      return nullArgument("session");
    if (step < 0)
      return fail(Code::InvalidArgument, "step: ", step, " is no number of steps");
    // Nothing is initialized later over what the caller has set.
    TRAINRT_TRY(session->impl->initializeState());
    session->impl->restored(step, session->impl->seed());
    return {};
  });
}

trainrt_status trainrt_checkpoint_save(trainrt_session *session, const char *directory,
                                       uint32_t keep, const char *data_position,
                                       trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !directory)
      return nullArgument(session ? "directory" : "session");
    session->impl->warnings().clear();
    const std::string position = data_position ? data_position : "";
    if (session->group)
      return session->group->save(*session->impl, directory, keep, position, session->checkpoint,
                                  &session->claim);
    return saveCheckpoint(*session->impl, directory, keep, position, session->checkpoint,
                          &session->claim);
  });
}

trainrt_status trainrt_checkpoint_claim(trainrt_session *session, const char *directory,
                                        uint32_t flags, trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !directory)
      return nullArgument(session ? "directory" : "session");
    if (flags & ~uint32_t(TRAINRT_CLAIM_OVERWRITE))
      return fail(Code::InvalidArgument, "flags: ", flags, " has unknown bits");
    session->impl->warnings().clear();
    return claimCheckpoints(*session->impl, directory, flags & TRAINRT_CLAIM_OVERWRITE,
                            session->checkpoint, session->claim);
  });
}

trainrt_status trainrt_checkpoint_load(trainrt_session *session, const char *directory,
                                       trainrt_checkpoint_info *info, trainrt_error **error) {
  return guardSession(session, error, [&]() -> Status {
    if (!session || !directory)
      return nullArgument(session ? "directory" : "session");
    TRAINRT_TRY(checkStruct(info, "info"));
    session->impl->warnings().clear();
    // What a later claim or save goes on from.
    TRAINRT_TRY(loadCheckpoint(*session->impl, directory, session->checkpoint));
    trainrt_checkpoint_info result = trainrt_checkpoint_info_default();
    result.step = session->checkpoint.step;
    result.seed = session->checkpoint.seed;
    result.path = session->checkpoint.path.c_str();
    result.data_position = session->checkpoint.dataPosition.c_str();
    return writeStruct(result, "info", info);
  });
}

} // extern "C"
