// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A step's batches: what they are bound to, and all memory that they need.

#include "io/convert.h"
#include "session/session.h"

#include <algorithm>
#include <cassert>
#include <chrono>

namespace trainrt {

/// `step` for one batch of full weight, else `micro`.
const Function *Session::firstFunction(size_t batches, const double *weights) const {
  const bool fused = batches == 1 && source->step() && (!weights || weights[0] == 1.0);
  return fused ? source->step() : source->micro();
}

Status Session::check(const std::vector<Batch> &batches) const {
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  const Function *function = firstFunction(batches.size(), nullptr);
  // Without any function for steps the check says that.
  return binder.check(function ? *function : source->program().functions.front(), batches);
}

Status Session::prepare(const Function &function, const std::vector<int64_t> &symbols,
                        const ExecutionPlan *&plan) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  // Times of building are told apart from those of running.
  const int64_t before = plans.use().plans + device->builds();
  TRAINRT_TRY(plans.get(function, symbols, plan));
  if (function.usesGradients)
    TRAINRT_TRY(values.prepareGradients());
  // Outputs lie in memory that is about to be replaced.
  if (plan->outputBytes > device->outputs().size())
    outputs.clear();
  Status status = device->prepare(*plan);
  if (plans.use().plans + device->builds() != before)
    plans.addBuildTime(std::chrono::duration<double>(Clock::now() - start).count());
  measure();
  return status;
}

/// Fails before anything of the session has changed.
Status Session::prepareAll(const Function &function, const std::vector<Batch> &batches,
                           const BindOptions &options) {
  if (!inference)
    TRAINRT_TRY(usable());
  // Once for all micro-batches, of which some may run when the next one is given.
  if (exposed)
    derivedOf = UINT64_MAX;
  TRAINRT_TRY(binder.bindAll(function, batches, options, bound));
  selected.clear();
  // Ranks take the variants that one process takes for micro-batches: they may differ in bits.
  const Function *measure = where.world > 1 ? source->micro() : nullptr;
  for (BoundBatch &batch : bound)
    selected.push_back(plans.select(batch, measure));
  // All memory is there before anything changes.
  const ExecutionPlan *plan;
  for (size_t i = 0; i < bound.size(); ++i)
    TRAINRT_TRY(prepare(*selected[i], bound[i].symbols, plan));
  return {};
}

double Session::countFlops() const {
  double all = 0;
  std::vector<int64_t> values;
  // 0: not known.
  for (size_t i = 0; i < bound.size(); ++i) {
    int64_t flops = 0;
    assert(selected.size() == bound.size() && "each batch has its function");
    if (selected[i]->flops.empty() ||
        !evaluateInOrder(source->program(), selected[i]->flops, bound[i].symbols, values, flops))
      return 0;
    if (factors.empty() || factors[i] != 0) // as `accumulate` leaves them out
      all += double(flops);
  }
  return all;
}

Status Session::measureLossWeight(const Batch &batch, const StepOptions &options, double &weight) {
  const Function &function = *source->lossWeight();
  BindOptions binding;
  assert(source->lossWeight() && "asked by the caller");
  binding.checked = options.checked;
  TRAINRT_TRY(binder.bind(function, batch, binding, weighed));
  plans.select(weighed);
  Device::Result ignored;
  TRAINRT_TRY(execute(function, &weighed, false, ignored));
  // Read before the next run writes it.
  ArrayView array;
  TRAINRT_TRY(view(Value::Output, size_t(source->lossWeightOutput()), array));
  convertElements(array.data, array.dtype, &weight, DType::F64, 1);
  return {};
}

Status Session::measureWeights(const std::vector<Batch> &batches, const StepOptions &options,
                               std::vector<double> &weights) {
  AccumulateBy by = options.accumulateBy;
  if (by == AccumulateBy::Loss)
    by = source->lossWeight() ? AccumulateBy::Tokens : AccumulateBy::Mean;
  if (options.weights || by == AccumulateBy::Mean)
    return {};
  if (by == AccumulateBy::Tokens && !source->lossWeight()) {
    if (source->lossWeightOutput() >= 0)
      return fail(Code::Unsupported, "the package cannot weight micro-batches by tokens: a trainc "
                                     "of before made it; compile it again");
    if (!source->manifest().lossIsMean)
      return fail(
          Code::Unsupported,
          "micro-batches cannot be weighted by tokens: the loss is no quotient of sums over "
          "rows (trainc --explain=all says why); by rows or by the mean they can");
    by = AccumulateBy::Rows; // which its denominator is a multiple of
  }
  for (size_t i = 0; i < batches.size(); ++i) {
    double weight = 1; // of a fixed number of rows
    if (by == AccumulateBy::Tokens)
      TRAINRT_TRY(measureLossWeight(batches[i], options, weight)
                      .within("micro-batch " + std::to_string(i) + ": "));
    else if (source->batchSymbol() >= 0)
      weight = double(bound[i].symbols[size_t(source->batchSymbol())]);
    weights.push_back(weight);
  }
  return {};
}

void Session::setFactors(std::vector<double> weights) {
  factors = std::move(weights);
  double all = 0;
  for (double weight : factors)
    all += weight;
  // Equal ones are the mean to the bit, and without any there is none to weight.
  if (all == 0 || std::equal(factors.begin() + 1, factors.end(), factors.begin()))
    factors.clear();
  // Weights of a step sum to 1.
  for (double &factor : factors)
    factor /= all;
}

Status Session::weigh(const std::vector<Batch> &batches, const StepOptions &options) {
  std::vector<double> weights;
  if (batches.size() > 1)
    TRAINRT_TRY(measureWeights(batches, options, weights));
  setFactors(std::move(weights));
  share = {0, int64_t(batches.size())};
  return {};
}

void Session::restorePlans(std::vector<PlanCache::Key> keys) {
  settle();
  // Each rank has its own.
  std::vector<int64_t> own(source->program().symbols.size());
  source->program().setRunSymbols(where, own);
  for (PlanCache::Key &key : keys)
    for (size_t i = 0; i < own.size(); ++i)
      if (own[i] && key.function->symbols[i])
        key.symbols[i] = own[i];
  plans.restore(std::move(keys));
}

} // namespace trainrt
