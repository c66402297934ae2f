// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The report for programs: docs/memory.md describes the keys. Bytes are numbers, never texts.

#include "trainc/Report/StepTime.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace trainc;
namespace json = llvm::json;

namespace {
constexpr size_t kBuffers = 20;

/// Numbers that need sizes are left out without them.
json::Object categories(const StepMemory &step, const Sizes &sizes) {
  json::Object object{{"parameters_bytes", step.parameters},
                      {"optimizer_state_bytes", step.state},
                      {"gradients_bytes", step.gradients}};
  if (FailureOr<StepMemory::Total> total = step.evaluate(sizes); succeeded(total)) {
    object["activations_bytes"] = total->arena;
    object["inputs_bytes"] = total->inputs;
    object["outputs_bytes"] = total->outputs;
    object["workspace_bytes"] = total->workspace;
    object["workspace_bytes_per_other_thread"] = total->workspaceOfOthers;
    object["host_bytes"] = total->host;
    object["peak_bytes"] = total->bytes();
  }
  return object;
}

json::Object describe(const FunctionMemory &function, const Sizes &sizes) {
  const Phases &phases = function.phases();
  json::Object object{{"name", function.name()},
                      {"variant_of", function.variantOf()},
                      {"commands", function.commands()},
                      {"forward_end", phases.forwardEnd},
                      {"backward_end", phases.backwardEnd}};
  // Names and phases are known in any case.
  FailureOr<FunctionMemory::Numbers> numbers = function.evaluate(sizes);
  if (failed(numbers) || !function.commands())
    return object;
  int64_t kept = 0, temporaries = 0;
  json::Array largest;
  for (const PeakBuffer &buffer : buffersAt(function, *numbers, numbers->peak)) {
    const bool isKept = function.isKept(*buffer.life);
    (isKept ? kept : temporaries) += buffer.bytes;
    // The list is sorted: these are the largest.
    if (largest.size() < kBuffers)
      largest.push_back(json::Object{{"bytes", buffer.bytes},
                                     {"node", json::fixUTF8(buffer.name)},
                                     {"first_command", buffer.life->first},
                                     {"last_command", buffer.life->last},
                                     {"kept_for_backward", isKept}});
  }
  object["activations_bytes"] = numbers->arena.planned;
  object["kept_for_backward_bytes"] = kept;
  object["temporaries_bytes"] = temporaries;
  object["peak_command"] = numbers->peak;
  object["peak_node"] = json::fixUTF8(function.node(numbers->peak));
  object["live_bytes"] = json::Array(numbers->live);
  object["largest_buffers_at_peak"] = std::move(largest);
  return object;
}

json::Object describeTime(const MemoryReport &report, const StepTime &time) {
  json::Array waited, scaling;
  for (const ExchangeTime &exchange : time.waitedFor()) {
    json::Array tensors;
    for (const std::string &name : exchange.tensors)
      tensors.push_back(json::fixUTF8(name));
    waited.push_back(json::Object{{"function", exchange.function},
                                  {"kind", exchange.kind},
                                  {"tensors", std::move(tensors)},
                                  {"seconds", exchange.seconds},
                                  {"waited_seconds", exchange.waited},
                                  {"sent_bytes", int64_t(exchange.sent)}});
  }
  for (const WeakScaling &entry : predictScaling(report))
    scaling.push_back(json::Object{{"world", entry.world}, {"ratio", entry.ratio}});
  return json::Object{{"world", report.world},
                      {"computing_seconds", time.computing},
                      {"exchange_seconds", time.exchanging},
                      {"hidden_seconds", time.hidden},
                      {"step_seconds", time.seconds()},
                      {"sent_bytes", int64_t(time.sent)},
                      {"exchanges", int64_t(time.exchanges.size())},
                      {"not_hidden", std::move(waited)},
                      {"scaling_efficiency", time.efficiency()},
                      {"scaling", std::move(scaling)},
                      {"link_bytes_per_second", report.link.bandwidth},
                      {"link_latency_seconds", report.link.latency}};
}
} // namespace

/// Keys are a promise to programs: they are only added.
void trainc::printMemoryJson(const MemoryReport &report, raw_ostream &out) {
  json::Object object = categories(report.step, report.sizes);
  object["version"] = 1;
  object["model"] = json::fixUTF8(report.model);
  object["target"] = report.step.target->name();
  object["kind"] = report.step.training ? "training" : "evaluation";
  object["density"] = report.density;
  json::Object sizes;
  for (auto &[name, value] : report.sizes.known())
    sizes[json::fixUTF8(name)] = value;
  object["sizes"] = std::move(sizes);
  json::Array densities;
  for (auto [density, bytes] : peaksByDensity(report))
    densities.push_back(json::Object{{"density", density}, {"peak_bytes", bytes}});
  object["by_density"] = std::move(densities);
  if (report.baseline)
    object["without_recompute"] = categories(report.baseline->step, report.baseline->sizes);
  if (std::optional<StepTime> time = estimateStepTime(report))
    object["time"] = describeTime(report, *time);
  json::Array functions;
  for (const FunctionMemory &function : report.step.functions)
    functions.push_back(describe(function, report.sizes));
  object["functions"] = std::move(functions);
  json::Array batches;
  for (const LargestBatch &batch : largestBatches(report))
    batches.push_back(json::Object{{"memory_bytes", batch.memory}, {"batch", batch.batch}});
  object["batch_symbol"] = json::fixUTF8(report.batch);
  object["largest_batches"] = std::move(batches);
  out << llvm::formatv("{0:2}", json::Value(std::move(object))) << "\n";
}
