// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Buffers and commands of a program in the words of people.

#include "format/program.h"

namespace trainrt {

bool bufferType(const Program &program, const Buffer &buffer, DType &dtype) {
  switch (buffer.space) {
  case Space::Arena:
  case Space::Host:
    // A value of the arena may be shared by buffers of several types, or be no tensor: then there
    // is none.
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
  case Space::Derived:
    dtype = program.derived[buffer.index].dtype;
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

/// For messages: the names that a user knows from the model, none of the compiler's.
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
  case Space::Derived:
    return named("the rounded copy of parameter", program.derived[buffer.index].name);
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
    // Fused kernels have dozens of nodes: four tell where one is.
    if (i == 4) {
      text += "and " + std::to_string(command.nodes.size() - i) + " more";
      break;
    }
    text += "'" + program.nodes[command.nodes[i]] + "'";
  }
  return text.empty() ? text : text + ")";
}

std::string pluginText(const Program &program, size_t external) {
  const std::string text = "the plug-in '" + program.externals[external].plugin + "'";
  for (const Function &function : program.functions)
    for (const Command &command : function.commands)
      if (const auto *call = std::get_if<External>(&command.op);
          call && call->function == external && !command.nodes.empty())
        return text + nodesText(program, command);
  return text;
}

} // namespace trainrt
