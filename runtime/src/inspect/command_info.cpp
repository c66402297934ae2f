// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is read off a plan's steps, whose values are described in execution_plan.h.

#include "inspect/command_info.h"

#include <algorithm>
#include <numeric>

namespace trainrt {

namespace {

int64_t product(const int64_t *from, size_t count) {
  return std::accumulate(from, from + count, int64_t(1), std::multiplies<>());
}

/// Extents of the axes along which an operand has elements of its own.
int64_t ownExtents(const int64_t *extents, const int64_t *strides, size_t count) {
  int64_t result = 1;
  for (size_t i = 0; i < count; ++i)
    result *= strides[i] ? extents[i] : 1;
  return result;
}

int64_t gemmBytes(const Gemm &op, const int64_t *values) {
  const int64_t m = values[0], n = values[1], k = values[2];
  const size_t rank = op.batch.size();
  const int64_t *batch = values + 9;
  const int64_t a = m * k * ownExtents(batch, batch + rank, rank),
                b = k * n * ownExtents(batch, batch + 2 * rank, rank),
                c = m * n * ownExtents(batch, batch + 3 * rank, rank);
  return (a + b + c * (op.beta != 0 ? 2 : 1)) * int64_t(sizeOf(op.dtype));
}

} // namespace

std::string commandName(const Program &program, const ExecutionPlan &plan, size_t index) {
  const ExecutionPlan::Step &step = plan.steps[index];
  const int64_t *values = plan.values.data() + step.firstValue;
  const auto &op = step.command->op;
  if (auto *launch = std::get_if<Launch>(&op))
    return program.kernels[launch->kernel].name;
  if (auto *gemm = std::get_if<Gemm>(&op)) {
    std::string text = std::string("gemm ") + nameOf(gemm->dtype) + " ";
    if (const size_t rank = gemm->batch.size())
      text += std::to_string(product(values + 9, rank)) + "x";
    return text + std::to_string(values[0]) + "x" + std::to_string(values[1]) + "x" +
           std::to_string(values[2]);
  }
  if (auto *attention = std::get_if<Attention>(&op))
    return attention->backward ? "attention backward" : "attention";
  if (isTransfer(*plan.function, *step.command))
    return plan.function->buffers[std::get<Copy>(op).to.buffer].space == Space::Host
               ? "copy to host"
               : "copy from host";
  return std::holds_alternative<Copy>(op) ? "copy" : "fill";
}

int64_t commandBytes(const ExecutionPlan &plan, size_t index) {
  const ExecutionPlan::Step &step = plan.steps[index];
  const int64_t *values = plan.values.data() + step.firstValue;
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  auto rest = [&](const ExecutionPlan::Place &place) {
    return place.buffer == ExecutionPlan::Place::none
               ? int64_t(0)
               : plan.bufferBytes[place.buffer] - place.offset;
  };
  const auto &op = step.command->op;
  size_t count = 0;
  if (auto *launch = std::get_if<Launch>(&op))
    count = launch->args.size();
  else if (std::holds_alternative<Attention>(op))
    count = numAttentionOperands;
  else if (auto *gemm = std::get_if<Gemm>(&op))
    return gemmBytes(*gemm, values);
  else
    return values[0] *
           (std::holds_alternative<Copy>(op) && !isTransfer(*plan.function, *step.command) ? 2 : 1);
  int64_t bytes = 0;
  for (size_t i = 0; i < count; ++i)
    bytes += rest(places[i]);
  return bytes;
}

bool bufferType(const Program &program, const Buffer &buffer, DType &dtype) {
  switch (buffer.space) {
  case Space::Arena:
  case Space::Host:
    if (buffer.dtype < 0)
      return false;
    dtype = static_cast<DType>(buffer.dtype);
    return true;
  case Space::Parameter:
    dtype = program.parameters[buffer.index].dtype;
    return true;
  case Space::Gradient:
    dtype = gradientType(program.parameters[buffer.index]);
    return true;
  case Space::State:
    dtype = program.state[buffer.index].dtype;
    return true;
  case Space::Input:
    dtype = program.inputs[buffer.index].dtype;
    return true;
  case Space::Hyper:
    dtype = program.hypers[buffer.index].dtype;
    return true;
  case Space::Constant:
    dtype = program.constants[buffer.index].dtype;
    return true;
  case Space::Output:
    dtype = program.outputs[buffer.index].dtype;
    return true;
  }
  return false;
}

std::string bufferName(const Program &program, const Buffer &buffer) {
  auto named = [](const char *kind, const std::string &name) {
    return std::string(kind) + " '" + name + "'";
  };
  switch (buffer.space) {
  case Space::Arena:
  case Space::Host:
    return buffer.label.empty() ? "an intermediate value"
                                : named("the value of node", buffer.label);
  case Space::Parameter:
    return named("parameter", program.parameters[buffer.index].name);
  case Space::Gradient:
    return named("the gradient of parameter", program.parameters[buffer.index].name);
  case Space::State:
    return named("state", program.state[buffer.index].name);
  case Space::Input:
    return named("input", program.inputs[buffer.index].name);
  case Space::Hyper:
    return named("hyper-parameter", program.hypers[buffer.index].name);
  case Space::Constant:
    return "a constant";
  case Space::Output:
    return named("output", program.outputs[buffer.index].name);
  }
  return "";
}

std::string nodesText(const Program &program, const Command &command) {
  std::string text;
  for (size_t i = 0; i < command.nodes.size(); ++i) {
    text += i ? ", " : command.nodes.size() == 1 ? " (node " : " (nodes ";
    if (i == 4) {
      text += "and " + std::to_string(command.nodes.size() - i) + " more";
      break;
    }
    text += "'" + program.nodes[command.nodes[i]] + "'";
  }
  return text.empty() ? text : text + ")";
}

namespace {

/// All of a buffer's elements.
void addWhole(const Program &program, const ExecutionPlan &plan, uint32_t buffer,
              std::vector<Region> &results) {
  Region region;
  if (!bufferType(program, plan.function->buffers[buffer], region.dtype) || !isFloat(region.dtype))
    return;
  region.buffer = buffer;
  region.extents = {plan.bufferBytes[buffer] / int64_t(sizeOf(region.dtype))};
  region.strides = {1};
  results.push_back(std::move(region));
}

bool sameOperands(const ExecutionPlan &plan, size_t a, size_t b) {
  auto *first = std::get_if<Launch>(&plan.steps[a].command->op),
       *second = std::get_if<Launch>(&plan.steps[b].command->op);
  if (!first || !second || first->args.size() != second->args.size())
    return false;
  for (size_t i = 0; i < first->args.size(); ++i) {
    const ExecutionPlan::Place &one = plan.places[plan.steps[a].firstPlace + i],
                               &other = plan.places[plan.steps[b].firstPlace + i];
    if (one.buffer != other.buffer || one.offset != other.offset)
      return false;
  }
  return true;
}

void addAttention(const Attention &op, const int64_t *values, const ExecutionPlan::Place *places,
                  std::vector<Region> &results) {
  using Which = AttentionOperand;
  const int64_t batch = values[0], heads = values[1], kvHeads = values[2], rows = values[3],
                keys = values[4], columns = values[5], valueColumns = values[6];
  const int64_t *q = values + 7, *o = q + 9, *dQ = o + 3 + 4 + 3;
  auto add = [&](Which which, int64_t numHeads, int64_t numRows, int64_t numColumns,
                 const int64_t *strides) {
    const ExecutionPlan::Place &place = places[size_t(which)];
    if (place.buffer != ExecutionPlan::Place::none)
      results.push_back({place.buffer,
                         op.dtype,
                         place.offset,
                         {batch, numHeads, numRows, numColumns},
                         {strides[0], strides[1], strides[2], 1}});
  };
  if (!op.backward) {
    add(Which::O, heads, rows, valueColumns, o);
    const ExecutionPlan::Place &stats = places[size_t(Which::Stats)];
    results.push_back({stats.buffer, DType::F32, stats.offset, {batch * heads * rows}, {1}});
    return;
  }
  add(Which::DQ, heads, rows, columns, dQ);
  add(Which::DK, kvHeads, keys, columns, dQ + 3);
  add(Which::DV, kvHeads, keys, valueColumns, dQ + 6);
}

} // namespace

Status commandResults(const Program &program, const ExecutionPlan &plan, size_t index,
                      std::vector<Region> &results) {
  results.clear();
  const ExecutionPlan::Step &step = plan.steps[index];
  const int64_t *values = plan.values.data() + step.firstValue;
  const ExecutionPlan::Place *places = plan.places.data() + step.firstPlace;
  const auto &op = step.command->op;
  if (auto *launch = std::get_if<Launch>(&op)) {
    if (launch->numInputs < 0)
      return fail(Code::BadPackage,
                  "the package does not tell what its kernels write; compile it again with this "
                  "version of trainc");
    // The next stage of the same kernel.
    if (index + 1 < plan.steps.size() && sameOperands(plan, index, index + 1))
      return {};
    const size_t members = std::max<size_t>(launch->group.size(), 1),
                 args = launch->args.size() / members;
    for (size_t member = 0; member < members; ++member)
      for (size_t i = size_t(launch->numInputs); i < args; ++i)
        addWhole(program, plan, places[member * args + i].buffer, results);
  } else if (auto *gemm = std::get_if<Gemm>(&op)) {
    const size_t rank = gemm->batch.size();
    Region region{places[2].buffer, gemm->dtype, places[2].offset, {}, {}};
    region.extents.assign(values + 9, values + 9 + rank);
    region.strides.assign(values + 9 + 3 * rank, values + 9 + 4 * rank);
    region.extents.insert(region.extents.end(), {values[0], values[1]});
    region.strides.insert(region.strides.end(), {values[7], values[8]});
    results.push_back(std::move(region));
  } else if (auto *attention = std::get_if<Attention>(&op)) {
    addAttention(*attention, values, places, results);
  }
  // Copies and fills make no new values.
  return {};
}

} // namespace trainrt
