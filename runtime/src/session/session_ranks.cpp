// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A step of several ranks. Where each has a batch, or none, it is one function, before and behind
// which they meet. Else they meet before anything is changed, behind their gradients, and in the
// update. Between two meetings no rank may leave without the others' knowing of it.

#include "format/hash.h"
#include "session/ranks/agreement.h"
#include "session/session.h"

#include <algorithm>
#include <cassert>
#include <chrono>
#include <cmath>
#include <sstream>
#include <utility>

namespace trainrt {

std::string Session::describeStep(const StepOptions &options) const {
  std::ostringstream text;
  text.precision(17);
  text << "step " << nextStep();
  for (auto [what, value] : {std::pair(" with learning rate ", options.lr),
                             {", weight decay ", options.weightDecay},
                             {", norm clipped to ", options.clipNorm}})
    if (!std::isnan(value))
      text << what << value;
  static constexpr const char *weightings[] = {"as their losses", "the same", "by rows",
                                               "by tokens"};
  text << ", micro-batches counting " << weightings[size_t(options.accumulateBy)] << ", seed "
       << key << (options.allowNonfinite ? ", whatever is not finite" : "")
       << (ranks->wantsVendorSums() ? ", with sums of the vendor's" : "") << " of package "
       << hex64(source->manifest().checksums.at("manifest"));
  return text.str();
}

Status Session::atStep(int64_t step, Status status) const {
  return status.code() == Code::RankLost ? status.within("step " + std::to_string(step) + ": ")
                                         : status;
}

/// Here the quicker ranks wait for the slower ones, which `commandDone` is told of.
Status Session::meet(const RankOutcome &mine, std::vector<RankOutcome> &all) const {
  const auto began = std::chrono::steady_clock::now();
  const Status status = exchangeOutcomes(*ranks, mine, all);
  if (commandDone) {
    CommandRecord record;
    record.name = "wait for the other ranks";
    record.kind = CommandClass::Exchange;
    record.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    commandDone(record);
  }
  return status;
}

Status Session::prepareTogether(const std::vector<Batch> &batches, const StepOptions &options,
                                bool atOnce, std::vector<double> &weights, double &lr) {
  TRAINRT_TRY(checkFactors(batches.size(), options));
  BindOptions binding;
  binding.checked = options.checked;
  TRAINRT_TRY(prepareAll(atOnce ? *source->step() : *source->micro(), batches, binding));
  const ExecutionPlan *plan;
  for (const Function *function :
       {atOnce ? source->absentStep() : source->absent(), atOnce ? nullptr : source->update()})
    if (function)
      TRAINRT_TRY(prepare(*function, noSymbols, plan));
  TRAINRT_TRY(initializeState());
  weights.clear();
  TRAINRT_TRY(measureWeights(batches, options, weights));
  TRAINRT_TRY(hypers.setStep(source->manifest(), options, nextStep(), key, lr));
  if (!atOnce)
    TRAINRT_TRY(values.save(*source->micro()));
  if (cancelled.exchange(false))
    return Status(Code::Cancelled, "cancelled before the step began");
  return {};
}

Status Session::agree(const std::vector<Batch> &batches, const StepOptions &options,
                      StepResult &result) {
  RankProposal mine;
  StepNotes notes = std::exchange(ranks->notes, {});
  mine.count = notes.count;
  mine.settings = describeStep(options);
  mine.microBatches = int64_t(batches.size());
  mine.hasFactors = options.weights != nullptr;
  mine.isLast = options.last;
  mine.mayLag = mayLag(options);
  std::vector<RankProposal> all;
  auto propose = [&](bool atOnce) {
    mine.status = notes.refusal;
    if (mine.status.ok())
      mine.status = attempt(
          [&] { return prepareTogether(batches, options, atOnce, mine.weights, result.lr); });
    if (mine.status.ok() && density && all.empty())
      mine.status = measureDensity(*source, bound, nextStep(), density);
    return exchangeProposals(*ranks, mine, all);
  };
  auto isOne = [](const RankProposal &rank) { return rank.microBatches <= 1; };
  const bool mayBeAtOnce = source->absentStep() && source->step();
  TRAINRT_TRY(propose(mayBeAtOnce && isOne(mine)));
  const auto ones = std::count_if(all.begin(), all.end(), isOne);
  stepsAtOnce = mayBeAtOnce && size_t(ones) == all.size();
  // Some have prepared another function than the others.
  if (mayBeAtOnce && !stepsAtOnce && ones)
    TRAINRT_TRY(propose(false));
  lags = stepsAtOnce;
  share = {0, 0, 0};
  ranks->notes.total = 0;
  std::vector<double> weights;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (int(rank) == ranks->rank())
      share.first = share.all;
    share.all += all[rank].microBatches;
    result.last |= all[rank].isLast;
    lags &= all[rank].mayLag;
    int64_t &total = ranks->notes.total;
    total = total < 0 || all[rank].count < 0 ? -1 : total + all[rank].count;
    weights.insert(weights.end(), all[rank].weights.begin(), all[rank].weights.end());
  }
  if (!share.all)
    return fail(Code::InvalidArgument, "a step needs at least one batch on some rank");
  setFactors(std::move(weights));
  for (size_t rank = 0, begin = 0; rank < all.size(); ++rank) {
    int64_t run = 0;
    // As `accumulate` leaves them out.
    for (int64_t i = 0; i < all[rank].microBatches; ++i, ++begin)
      run += options.weights || factors.empty() || factors[begin] != 0;
    share.rounds = std::max(share.rounds, run);
  }
  if (!factors.empty())
    factors = {factors.begin() + share.first,
               factors.begin() + share.first + int64_t(batches.size())};
  return {};
}

bool Session::exchangesLast() const {
  if (!exchangesMicro())
    return false;
  const Function &absent = *source->absent();
  for (const Command &command : absent.commands)
    if (const auto *collective = std::get_if<Collective>(&command.op))
      for (const Operand &operand : command.operands)
        if (!collective->isInPlace() || absent.buffers[operand.buffer].space != Space::Gradient)
          return false;
  return true;
}

Status Session::takePart(StepResult &result) {
  Device::Result done;
  TRAINRT_TRY(execute(*source->absent(), nullptr, false, done));
  result.nonfinite |= !done.numbers.empty();
  addNames(*source->absent(), done.numbers, result);
  return {};
}

/// A bad index lets the exchanges behind it run; of another error in the middle it is not known
/// which of them have.
bool Session::keepsPace(const Status &status) {
  if (!exchangesMicro())
    return true;
  if (!exchangesLast() || status.code() == Code::RankLost)
    return false;
  StepResult ignored;
  return exchangeBegan ? status.code() == Code::BadData
                       : attempt([&] { return takePart(ignored); }).ok();
}

Status Session::accumulateTogether(const StepOptions &options, StepResult &result) {
  RankOutcome mine;
  mine.status = attempt([&] { return accumulate(options, result, mine.losses); });
  mine.nonfinite = result.nonfinite;
  mine.numbers = result.numbers;
  if (!mine.status.ok() && !keepsPace(mine.status)) {
    ranks->abort(mine.status); // the others may be in the middle of it
    return mine.status;
  }
  if (mine.status.ok() && cancelled.exchange(false))
    mine.status = Status(Code::Cancelled, "cancelled before the update");
  std::vector<RankOutcome> all;
  TRAINRT_TRY(meet(mine, all));
  mergeOutcomes(all, result);
  result.loss /= lossDivisor(options);
  result.nonfinite |= !std::isfinite(result.loss);
  return {};
}

/// Losses add up in the order of ranks.
void Session::mergeOutcomes(const std::vector<RankOutcome> &all, StepResult &result) {
  result.loss = 0;
  result.numbers.clear();
  for (const RankOutcome &one : all) {
    result.nonfinite |= one.nonfinite;
    for (auto [factor, loss] : one.losses)
      result.loss += factor * loss;
    for (const std::string &name : one.numbers)
      if (std::find(result.numbers.begin(), result.numbers.end(), name) == result.numbers.end())
        result.numbers.push_back(name);
  }
}

Status Session::beginAtOnce(const StepOptions &options, Pending &step) {
  const bool hasBatch = !bound.empty() && (options.weights || factors.empty() || factors[0] != 0);
  step.isShared = step.active = true;
  step.allowNonfinite = options.allowNonfinite;
  step.hasBatch = hasBatch;
  step.factor = options.weights   ? hasBatch ? options.weights[0] : 0
                : factors.empty() ? 1
                                  : factors.front();
  step.lossDivisor = lossDivisor(options);
  hypers.setMicroBatch(share.first,
                       options.weights || !factors.empty() ? step.factor : 1 / double(share.all));
  step.function = hasBatch ? selected[0] : source->absentStep();
  step.begun = attempt([&] {
    return enqueue(*step.function, hasBatch ? &bound[0] : nullptr, false, step.ticket,
                   step.result.step);
  });
  // What a rank has met in its data it has told the others, and has exchanged all that they wait
  // for.
  if (step.begun.ok() || (step.begun.code() == Code::BadData && began))
    return {};
  broken |= began;
  ranks->abort(step.begun); // the others may be in the middle of it
  return step.begun;
}

/// Whatever happens on a rank alone (bad data, a loss that is not finite) is part of the verdict
/// that all of them come to on their devices, in front of every update.
Status Session::completeTogether(const Pending &step, const Status &ended,
                                 const Device::Result &done, StepResult &result) {
  RankOutcome mine;
  mine.status = ended;
  if (!ended.ok() && ended.code() != Code::BadData) {
    broken = true;
    ranks->abort(ended); // the others may be in the middle of it
    return ended;
  }
  mine.isLeftOut = done.nonfinite;
  mine.nonfinite = done.nonfinite || !done.numbers.empty();
  // Where the flag was set before them, the updates have changed nothing.
  if (!done.nonfinite)
    addNames(*step.function, done.numbers, result);
  mine.numbers = result.numbers;
  if (step.hasBatch)
    mine.losses.emplace_back(step.factor, done.loss);
  std::vector<RankOutcome> all;
  const Status status = meet(mine, all);
  const bool isLeftOut =
      std::any_of(all.begin(), all.end(), [](const RankOutcome &one) { return one.isLeftOut; });
  if (!status.ok()) {
    broken |= !isLeftOut;
    if (isLeftOut)
      TRAINRT_TRY(values.clearNonfinite());
    return status;
  }
  result.gradNorm = done.gradNorm;
  mergeOutcomes(all, result);
  result.loss /= step.lossDivisor;
  result.nonfinite |= !std::isfinite(result.loss);
  result.inPart = result.nonfinite && !isLeftOut;
  return decide(step.allowNonfinite, result);
}

/// An element of a shard that is not finite is seen by its rank alone.
Status Session::shareOutcome(StepResult &result) {
  RankOutcome mine;
  mine.nonfinite = result.inPart;
  mine.numbers = result.numbers;
  std::vector<RankOutcome> all;
  TRAINRT_TRY(exchangeOutcomes(*ranks, mine, all));
  const double loss = result.loss;
  mergeOutcomes(all, result);
  result.loss = loss;
  for (const RankOutcome &one : all)
    result.inPart |= one.nonfinite;
  return {};
}

static const TensorDecl &declOf(const Program &program, Session::Value kind, size_t index) {
  assert((kind == Session::Value::State || kind == Session::Value::Parameter) &&
         "others have none");
  return (kind == Session::Value::State ? program.state : program.parameters)[index];
}

bool Session::holdsShard(Value kind, size_t index, ShardRange &range) const {
  const TensorDecl &decl = declOf(source->program(), kind, index);
  if (!decl.shardUnit || where.shards() == 1)
    return false;
  range = shardOf(decl, where);
  return true;
}

Status Session::shard(Value kind, size_t index, ArrayView &shard) const {
  const TensorDecl &decl = declOf(source->program(), kind, index);
  const int64_t bytes = shardOf(decl, where).there;
  const Space space = kind == Value::State ? Space::State : Space::Parameter;
  shard = {values.address(space, uint32_t(index)), decl.dtype, decl.staticShape, bytes};
  return device->view(shard.data, bytes, shard.data);
}

Status Session::gather(size_t index, ArrayView &array) const {
  const TensorDecl &decl = source->program().parameters[index];
  std::vector<unsigned char> &bytes = gathered[index];
  bytes.resize(size_t(decl.staticBytes));
  for (const Session *rank : ranksHere) {
    ArrayView part;
    if (!rank->hasParameter(index))
      return fail(Code::NotFound, "parameter '", decl.name, "' has no value yet");
    TRAINRT_TRY(rank->shard(Value::Parameter, index, part));
    std::copy_n(static_cast<const unsigned char *>(part.data), part.bytes,
                bytes.data() + shardOf(decl, rank->where).begin);
  }
  array = {bytes.data(), decl.dtype, decl.staticShape, decl.staticBytes};
  return {};
}

/// Where all ranks may, a step begins before the one before it has ended: what they tell each
/// other, and the batches that come, cost no time of a GPU.
Status Session::stepTogether(const std::vector<Batch> &batches, const StepOptions &options,
                             StepResult &result) {
  if (numerics)
    numerics->reset();
  gathered.clear();
  if (!mayLag(options))
    settle();
  if (hasFailed(options))
    return finish(result);
  Pending next;
  TRAINRT_TRY(atStep(nextStep(), agree(batches, options, next.result)));
  // From here on the ranks are in step.
  if (!lags)
    settle();
  if (hasFailed(options))
    return finish(result);
  next.result.step = nextStep();
  next.result.flops = countFlops();
  phases.begin();
  if (stepsAtOnce)
    TRAINRT_TRY(atStep(nextStep(), beginAtOnce(options, next)));
  const bool isLast = next.result.last;
  const Status status =
      lags ? stepAhead(next, result)
           : told(
                 options,
                 [&](StepResult &made) {
                   made = next.result;
                   return stepsAtOnce ? complete(next, made) : stepByMicro(options, made);
                 },
                 result);
  result.last = isLast;
  return status;
}

Status Session::stepByMicro(const StepOptions &options, StepResult &result) {
  const int64_t step = result.step;
  Status status = atStep(step, accumulateTogether(options, result));
  cancelled.store(false);
  if (!status.ok()) {
    TRAINRT_TRY(values.restore(*source->micro()));
    return status;
  }
  std::vector<ExecutionPlan::Output> microOutputs = outputs;
  if (!result.nonfinite) {
    const Function &update = *source->update();
    Device::Result done;
    status = attempt([&] { return execute(update, nullptr, false, done, result.step); });
    if (!status.ok()) {
      broken = true;
      status = atStep(step, std::move(status));
      ranks->abort(status); // the others may be in the middle of it
      return status;
    }
    result.gradNorm = done.gradNorm;
    note(update, done, result);
    if (hasShards())
      TRAINRT_TRY(atStep(step, shareOutcome(result)));
  }
  outputs = std::move(microOutputs);
  if (result.nonfinite && !result.inPart)
    TRAINRT_TRY(values.restore(*source->micro()));
  return decide(options.allowNonfinite, result);
}

} // namespace trainrt
