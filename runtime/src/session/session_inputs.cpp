// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Whether a step's batches fit, asked by the step itself or ahead of it by any thread.

#include "session/session.h"

#include <algorithm>
#include <chrono>

namespace trainrt {

namespace {
/// Whether values decide how a batch is run.
bool hasFacts(const Function &function) {
  return !function.batchCounts.empty() || !function.variants.empty();
}
} // namespace

Status Session::bind(const Function &function, const Batch &batch, BindOptions options,
                     BoundBatch &into) const {
  if (!device->isHost())
    options.locate = [this](ArrayView &array) { return device->locate(array); };
  std::vector<int64_t> given;
  if (hasFacts(function))
    options.known = &knownFacts;
  if (!function.batchCounts.empty()) {
    std::lock_guard lock(countsMutex);
    given = givenCounts;
    options.givenCounts = &given;
  }
  return bindBatch(*source, function, batch, options, into);
}

Status Session::bindAll(const Function &function, const std::vector<Batch> &batches,
                        const BindOptions &options, std::vector<BoundBatch> &into) const {
  if (inference)
    return fail(Code::Unsupported,
                source->manifest().training
                    ? "the session was created for evaluation only"
                    : "the package was compiled with --inference; it cannot train");
  into.resize(batches.size());
  for (size_t i = 0; i < batches.size(); ++i) {
    Status status = bind(function, batches[i], options, into[i]);
    if (!status.ok())
      return batches.size() == 1 ? status
                                 : status.within("micro-batch " + std::to_string(i) + ": ");
  }
  return {};
}

const Function *Session::firstFunction(size_t batches, const double *weights) const {
  const bool fused = batches == 1 && source->step() && (!weights || weights[0] == 1.0);
  return fused ? source->step() : source->micro();
}

Status Session::check(const std::vector<Batch> &batches) const {
  if (batches.empty())
    return fail(Code::InvalidArgument, "a step needs at least one batch");
  std::vector<BoundBatch> into;
  const Function *function = firstFunction(batches.size(), nullptr);
  TRAINRT_TRY(
      bindAll(function ? *function : source->program().functions.front(), batches, {}, into));
  for (const BoundBatch &batch : into)
    if (hasFacts(*batch.function))
      knownFacts.remember(*batch.function, batch.arrays, batch.facts);
  return {};
}

std::string describe(const Program &program, const Declined &reason) {
  const Function &variant = *reason.variant;
  std::string text = "'" + program.functions[size_t(variant.base)].name + "' ran instead of '" +
                     variant.name + "' for " + std::to_string(reason.batches) +
                     (reason.batches == 1 ? " batch" : " batches") + ": condition " +
                     describe(program, variant.conditions[size_t(reason.first.condition)]);
  return text + (reason.first.row < 0
                     ? " is about values that the host does not see"
                     : " did not hold, first for row " + std::to_string(reason.first.row));
}

bool Session::isDeclined(const Function &variant, const Verdict &verdict) {
  if (verdict.condition < 0)
    return false;
  for (Declined &reason : use.declined)
    if (reason.variant == &variant && reason.first.condition == verdict.condition &&
        (reason.first.row < 0) == (verdict.row < 0)) {
      ++reason.batches;
      return true;
    }
  use.declined.push_back({&variant, verdict, 1});
  return true;
}

const Function *Session::select(BoundBatch &batch) {
  const Program &program = source->program();
  const Function &base = *batch.function;
  const Function *best = &base;
  use.batches += !base.variants.empty();
  // It has to pay for the other plans that it needs.
  constexpr double worth = 0.95;
  double bestCost = base.flops.empty() ? 0 : worth * costOf(program, base, batch.symbols);
  for (size_t i = 0; useVariants && i < base.variants.size(); ++i) {
    const Function &variant = program.functions[base.variants[i]];
    const bool compares = !base.flops.empty() && !variant.flops.empty();
    const double cost = compares ? costOf(program, variant, batch.symbols) : 0;
    if (compares && cost > bestCost)
      continue;
    if (isDeclined(variant, batch.facts.verdicts[i]))
      continue;
    best = &variant;
    bestCost = cost;
    if (!compares)
      break; // nothing can be said to be better
  }
  use.byVariants += best != &base;
  plansOf(base).choose(program, *best, batch.symbols);
  return best;
}

PlanCache &Session::plansOf(const Function &function) {
  const Function *base =
      function.base < 0 ? &function : &source->program().functions[size_t(function.base)];
  return base == source->eval() ? evalPlans : plans;
}

Status Session::prepare(const Function &function, const std::vector<int64_t> &symbols,
                        const ExecutionPlan *&plan) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const int64_t before = use.plans + device->builds();
  TRAINRT_TRY(plansOf(function).get(source->program(), function, symbols, plan));
  use.plans = plans.made() + evalPlans.made();
  if (function.usesGradients)
    TRAINRT_TRY(prepareGradients());
  if (plan->outputBytes > device->outputCapacity())
    outputs.clear();
  Status status = device->prepare(*plan);
  if (use.plans + device->builds() != before)
    use.buildSeconds += std::chrono::duration<double>(Clock::now() - start).count();
  measure();
  return status;
}

Status Session::prepareAll(const Function &function, const std::vector<Batch> &batches,
                           const BindOptions &options) {
  if (!inference)
    TRAINRT_TRY(usable());
  TRAINRT_TRY(bindAll(function, batches, options, bound));
  selected.clear();
  for (BoundBatch &batch : bound)
    selected.push_back(select(batch));
  // All memory is there before anything changes.
  const ExecutionPlan *plan;
  for (size_t i = 0; i < bound.size(); ++i)
    TRAINRT_TRY(prepare(*selected[i], bound[i].symbols, plan));
  return {};
}

void Session::restorePlans(std::vector<PlanCache::Key> keys) {
  settle();
  plans.restore(std::move(keys));
}

Status Session::setCount(size_t symbol, int64_t value) {
  const Symbol &count = source->program().symbols[symbol];
  if (!count.counts)
    return fail(Code::InvalidArgument, "symbol '", count.name,
                "' is no count: it is a size of the "
                "batch, which its arrays say");
  if (value < -1 || value > count.max)
    return fail(Code::InvalidArgument, "the count '", count.name, "' cannot be ", value,
                value < 0 ? " (-1: it is counted)"
                          : ", its maximum is " + std::to_string(count.max));
  std::lock_guard lock(countsMutex);
  givenCounts[symbol] = value;
  return {};
}

} // namespace trainrt
