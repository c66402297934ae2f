// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all commands have: operands and sizes. A kind of command (launch.h, gemm.h, ...) says in
// which order they come, gives them names, and tells what it demands of them.
#ifndef TRAINRT_FORMAT_COMMANDS_OPERAND_H
#define TRAINRT_FORMAT_COMMANDS_OPERAND_H

#include "format/commands/command_class.h"
#include "format/dtype.h"
#include "format/status.h"

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace trainrt {

struct Program;
struct Function;
struct Command;
struct Buffer;

using ExprId = uint32_t;

/// How a command uses an operand. `Update` is both; `None`: it has no such operand.
enum class Access : uint8_t { None, Read, Write, Update };

/// A place in a buffer of the function, as the program says it.
struct Operand {
  uint32_t buffer = 0;
  ExprId offset = 0; ///< in bytes
  Access access = Access::None;

  bool isPresent() const { return access != Access::None; }
  bool isRead() const { return access == Access::Read || access == Access::Update; }
  bool isWritten() const { return access == Access::Write || access == Access::Update; }
};

/// A place whose offset is known.
struct Place {
  uint32_t buffer;
  int64_t offset; ///< in bytes
  static constexpr uint32_t none = UINT32_MAX;

  bool isPresent() const { return buffer != none; }
  bool operator==(const Place &) const = default;
};

/// A command with its sizes known: what a step of a plan consists of. Kinds derive views with
/// names.
struct StepView {
  const Function &function;
  const Command &command;
  /// Of the function's buffers.
  std::span<const int64_t> bufferBytes;
  /// Of the command's operands, in their order; absent ones have no buffer.
  std::span<const Operand> operands;
  std::span<const Place> places;
  std::span<const int64_t> sizes;
  /// As Command::costs.
  std::span<const int64_t> costs;

  /// From an operand's place to the end of its buffer; 0 of an absent one.
  int64_t bytesOf(size_t operand) const;
  /// The function's buffer of an operand that is present.
  const Buffer &buffer(size_t operand) const;
};

/// Elements of a buffer: `extents` and `strides` (in elements) from `offset` bytes on.
struct Region {
  uint32_t buffer = 0;
  DType dtype = DType::F32;
  int64_t offset = 0;
  std::vector<int64_t> extents, strides;
};

/// What a kind of command needs to check one that is being read. Errors are BadPackage.
class CommandCheck {
public:
  CommandCheck(const Program &program, std::span<const Operand> operands,
               std::span<const ExprId> sizes, std::span<const uint32_t> kernels, std::string where)
      : program(program), operands(operands), sizes(sizes), kernels(kernels),
        where(std::move(where)) {}

  const Program &program;
  const std::span<const Operand> operands;
  const std::span<const ExprId> sizes;
  /// Of the program's.
  const std::span<const uint32_t> kernels;

  /// "program.fb: function 'step'.commands[3].FIELD ..."
  template <typename... Args> Status bad(const Args &...what) const {
    return fail(Code::BadPackage, "program.fb: ", where, what...);
  }
  Status numSizes(size_t wanted) const;

  struct Wanted {
    Access access;
    bool isOptional = false;
  };
  /// Whether the operands are these, in the order of `names`, and there are no kernels. The last
  /// `newer` ones were not known to all compilers: they may be left out.
  Status expect(std::span<const char *const> names, std::initializer_list<Wanted> wanted,
                size_t newer = 0) const;

private:
  const std::string where;
};

/// What a kind of command needs to check a step: whether all that it touches lies in its buffers.
class PlaceCheck {
public:
  /// `context` tells the sizes, for messages.
  PlaceCheck(const StepView &step, const Function &function, size_t number,
             std::function<std::string()> context)
      : step(step), function(function), number(number), context(std::move(context)) {}

  const StepView step;

  template <typename... Args> Status bad(const Args &...what) const {
    return fail(Code::BadPackage, "program.fb: function '", functionName(), "': command ", number,
                what..., " (with ", context(), ")");
  }
  /// The elements of `size` bytes from `low` to `high`, counted from the operand's place.
  Status covers(size_t operand, __int128 low, __int128 high, size_t size) const;
  Status notNegative(int64_t extent) const;

  /// Adds the lowest or highest element that an axis leads to.
  static void reach(int64_t extent, int64_t stride, __int128 &low, __int128 &high);

private:
  const std::string &functionName() const;
  const Function &function;
  const size_t number;
  const std::function<std::string()> context;
};

} // namespace trainrt

#endif // TRAINRT_FORMAT_COMMANDS_OPERAND_H
