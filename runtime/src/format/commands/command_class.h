// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What commands are summed up by where time is told: what limits them, and what they are for.
#ifndef TRAINRT_FORMAT_COMMANDS_COMMAND_CLASS_H
#define TRAINRT_FORMAT_COMMANDS_COMMAND_CLASS_H

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace trainrt {

/// In the order of tables.
enum class CommandClass : uint8_t {
  Matmul,
  Attention,
  Convolution,
  Row,
  Column,
  Pointwise,
  Scatter,
  Scan,
  Optimizer, ///< kernels behind the backward pass, and those that only update parameters
  Copy,
  Exchange,
  Other ///< loops, and kernels whose package does not tell their form
};

/// "matmul", ...
inline const char *nameOf(CommandClass kind) {
  static constexpr const char *names[] = {"matmul",    "attention", "convolution", "row",
                                          "column",    "pointwise", "scatter",     "scan",
                                          "optimizer", "copy",      "exchange",    "other"};
  return names[size_t(kind)];
}

/// What a command computes, in numbers with names: "m" 512, ...
using CommandShape = std::vector<std::pair<const char *, int64_t>>;

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_COMMAND_CLASS_H
