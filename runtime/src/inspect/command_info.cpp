// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Kinds of commands tell of themselves; buffers are told here.

#include "inspect/command_info.h"

#include <algorithm>

namespace trainrt {

std::string commandName(const Program &program, const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [&](const auto &op, const StepView &step) { return op.name(program, step); });
}

int64_t commandBytes(const ExecutionPlan &plan, size_t index) {
  return plan.visit(plan.steps[index],
                    [](const auto &op, const StepView &step) { return op.bytes(step); });
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

/// Whether the second is the next stage of the first one's kernel.
bool isNextStage(const ExecutionPlan &plan, size_t first, size_t second) {
  const ExecutionPlan::Step &one = plan.steps[first], &other = plan.steps[second];
  return std::holds_alternative<Launch>(one.command->op) &&
         std::holds_alternative<Launch>(other.command->op) &&
         std::ranges::equal(plan.view(one).places, plan.view(other).places);
}

} // namespace

void commandResults(const Program &program, const ExecutionPlan &plan, size_t index,
                    std::vector<Region> &results) {
  results.clear();
  if (index + 1 < plan.steps.size() && isNextStage(plan, index, index + 1))
    return;
  plan.visit(plan.steps[index],
             [&](const auto &op, const StepView &step) { op.results(program, step, results); });
}

} // namespace trainrt
