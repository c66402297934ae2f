// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a person is told before the first step.
#include "cli/log/introduce.h"

#include "cli/decisions.h"
#include "cli/failure.h"
#include "cli/format.h"
#include "cli/info.h"

#include <cmath>

namespace trainrt::run {

/// Why batches are as large as they are, where nobody has said it.
static std::string howChosen(const Dataset &data) {
  if (!data.choosesBatch())
    return "";
  return data.batchSize() < data.possibleBatch(Dataset::defaultBatch)
             ? " (as many as fit into the memory that is free)"
             : " (the default, see --batch-size)";
}

static std::string howWeighted(const std::string &by) {
  return by == "mean" ? "each counting the same" : "weighted by their " + by;
}

trainrt_memory introduce(const Options &options, const Package &package, const Session &session,
                         const Dataset *data, BatchOrder *order, Reporter &reporter) {
  trainrt_memory plan = trainrt_memory_default();
  const trainrt_package_info &info = package.info;
  reporter.fact("package",
                package.path + ": " + info.model + ", by " + info.producer + ", " + info.target);
  const ParameterCount count = countParameters(package);
  if (count.all >= 0)
    reporter.fact("parameters", count.text());
  if (data) {
    int64_t rows = 0, length = 0;
    order->largest(rows, length);
    const std::string how = order->planOptions();
    reporter.fact(
        "data",
        data->path() + ": " + grouped(data->rows()) + " rows, batches of " +
            (how.empty() ? grouped(data->batchSize()) + howChosen(*data)
                         : "up to " + grouped(rows) + " (" + how + ")") +
            (options.microBatches() > 1
                 ? ", " + grouped(options.microBatches()) + " micro-batches a step, " +
                       howWeighted(options.accumulateBy.empty() ? defaultWeighting(info)
                                                                : options.accumulateBy)
                 : "") +
            (data->wholeInputs().empty() ? "" : "; whole in every batch: " + data->wholeInputs()));
    if (info.optimizer)
      reporter.fact("optimizer", std::string(info.optimizer) + ", learning rate " +
                                     shortest(options.lr.value_or(info.lr)) + ", " +
                                     options.schedule.text());
    std::vector<trainrt_symbol_value> symbols = data->symbolValues(rows, length);
    ErrorSlot error;
    // Gradients that are kept need memory of their own, as they do for two micro-batches.
    uint32_t micro = options.dumpGradients.empty() ? uint32_t(options.accumulate) : 2;
    if (trainrt_package_memory(package.handle.get(), symbols.data(), symbols.size(), micro,
                               trainrt_session_threads(session.get()), &plan, error) == TRAINRT_OK)
      reporter.fact("memory plan",
                    byteSize(plan.total) + ": parameters " + byteSize(plan.parameters) +
                        ", optimizer state " + byteSize(plan.state) +
                        (plan.gradients ? ", gradients " + byteSize(plan.gradients) : "") +
                        ", activations " + byteSize(plan.arena) + ", other " +
                        byteSize(plan.inputs + plan.outputs + plan.scratch) +
                        (plan.pinned ? "; pinned on the host " + byteSize(plan.pinned) : ""));
  }
  reporter.fact("threads", std::to_string(trainrt_session_threads(session.get())));
  return plan;
}

} // namespace trainrt::run
