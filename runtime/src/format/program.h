// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The scheduled program in memory. `readProgram` takes the untrusted bytes of program.fb: after it,
// every index is in range, every expression refers to earlier ones, and every arena buffer is used
// within its lifetime only. What depends on the actual sizes is checked where a plan is made
// (execution_plan.h).
#ifndef TRAINRT_FORMAT_PROGRAM_H
#define TRAINRT_FORMAT_PROGRAM_H

#include "format/commands/command.h"
#include "format/dtype.h"
#include "format/status.h"
#include "format/target.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace trainrt {

/// Version of the program format that this runtime reads: 2 gives all commands operands and sizes,
/// 3 attention its windows.
inline constexpr uint32_t programMajor = 3;
/// Of one whose ranks add up numbers of 16 bits (`Collective.sent`), or that has the gradient of an
/// attention's bias (`d_bias`), which is as version 3 in all else.
inline constexpr uint32_t programMajorSent = 4;
/// Of one that keeps what it makes of parameters (`Program.derived`).
inline constexpr uint32_t programMajorDerived = 5;
inline constexpr uint32_t programMajorLatest = programMajorDerived;

struct Expr {
  enum class Kind : uint8_t { Constant, Symbol, Add, Mul, FloorDiv, Mod, Max, Min };
  Kind kind = Kind::Constant;
  uint32_t a = 0, b = 0;
  int64_t value = 0;
};

struct Symbol {
  enum class What : uint8_t { Elements, Runs, LongestRun, Sequences, LongestSequence };
  enum class Run : uint8_t { None, World, Rank };
  std::string name;
  int64_t min = 0;
  int64_t max = INT64_MAX;
  int64_t divisor = 1;
  /// Where it is read from; -1 for a symbol with one value only.
  int32_t input = -1;
  int32_t axis = -1; ///< -1 for a count
  /// What the size of that axis is: factor * value + offset, with a factor above 0.
  int64_t factor = 1, offset = 0;
  /// Its value is a bucket (plan/counts.h) of how many elements of the input are not `differs`,
  /// or of what else of them.
  bool counts = false;
  int64_t differs = 0;
  What what = What::Elements;
  /// Not None: it is of the run, and no batch has it.
  Run run = Run::None;
};

/// The value of the symbol where its axis has this size; false: that is of no whole one, or beyond
/// 64 bits.
bool valueAt(const Symbol &symbol, int64_t size, int64_t &value);

/// Which of the ranks of a run a session is.
struct RunPlace {
  int64_t world = 1, rank = 0;
  int64_t perReplica = 0; ///< ranks that share a replica of what is in shards, neighbours; 0: all
  int64_t shards() const { return perReplica ? perReplica : world; }
  int64_t shard() const { return rank % shards(); }
  int64_t replicas() const { return world / shards(); }
  int64_t replica() const { return rank / shards(); }
};

struct TensorDecl {
  std::string name;
  DType dtype = DType::F32;
  std::vector<ExprId> shape;
  /// Parameters, state, hypers and constants: the extents and the bytes.
  std::vector<int64_t> staticShape;
  int64_t staticBytes = 0;
  /// Parameters and state of which a rank holds a shard: elements that are not cut; 0: every rank
  /// has all.
  int64_t shardUnit = 0;
  /// The same of the gradient's accumulator.
  int64_t gradientUnit = 0;
};

/// The part of a tensor that a rank has, in bytes of it; `held` reaches over the end of the tensor
/// where that is no multiple of all shards.
struct ShardRange {
  int64_t begin = 0, there = 0, held = 0;
};
ShardRange shardOf(const TensorDecl &tensor, const RunPlace &place);

struct Constant {
  DType dtype = DType::F32;
  std::vector<unsigned char> data;
};

enum class Space : uint8_t {
  Arena,
  Parameter,
  State,
  Gradient,
  Input,
  Hyper,
  Constant,
  Output,
  Host,   ///< pinned memory of the host, beside a GPU
  Derived ///< made of parameters by the function `derive`, and kept beside them
};

struct Buffer {
  Space space = Space::Arena;
  uint32_t index = 0;
  ExprId bytes = 0;
  int32_t first = 0, last = 0;
  /// For debugging: of an arena buffer, its DType, -1 if the program does not tell, and its node.
  int8_t dtype = -1;
  std::string label = {};
};

/// A command whose kernel met a number that is not finite where one must be.
struct NumberReport {
  const Command *command = nullptr;
  /// Bit 0: it is not known which member of the group met it. Bit 1 + i: member i did.
  uint64_t members = 1;

  bool isOf(size_t member) const {
    return (members & 1) || (member < 63 && (members >> (1 + member) & 1));
  }
};

/// What a batch must be like for a variant, see program.fbs.
struct Condition {
  enum class Kind : uint8_t { Binary, FixedWherePadded, RealAt, Contiguous, Above, Unbroken };
  Kind kind = Kind::Binary;
  uint32_t mask = 0, input = 0; ///< where the kind has one
  int64_t padding = 0, shift = 0, value = 0, index = 0;

  bool hasMask() const { return kind != Kind::Binary; }
  bool hasInput() const { return kind == Kind::Binary || kind == Kind::FixedWherePadded; }
};

struct Function {
  std::string name;
  std::vector<Buffer> buffers;
  std::vector<Command> commands;
  /// Indices into Program::outputs that it computes.
  std::vector<uint32_t> outputs;
  /// Indices into Program::inputs that it reads or takes a size from.
  std::vector<uint32_t> inputs;
  /// Which expressions, and which symbols, its plan needs.
  std::vector<bool> exprs, symbols;
  /// Of these symbols, the counts.
  std::vector<uint32_t> counts;
  /// Commands before the former are the forward, those from there to the latter the backward; -1
  /// where the package does not tell.
  int32_t forwardEnd = -1, backwardEnd = -1;
  bool usesGradients = false, usesDerived = false;
  /// The expression of its work, and all it is made of, in order; none if the program does not
  /// tell.
  std::vector<ExprId> flops;
  /// Index of the function that it may take the place of, where the conditions hold; -1: of none.
  int32_t base = -1;
  std::vector<Condition> conditions;
  /// Indices of the functions that may take its place.
  std::vector<uint32_t> variants;
  /// What a batch is bound to, for this function and its variants.
  std::vector<uint32_t> batchInputs, batchCounts;
  std::vector<bool> batchSymbols;
};

/// Whether a command copies between a GPU and the host: beside the other commands.
bool isTransfer(const Function &function, const Command &command);

struct KernelDecl {
  std::string name;
  uint32_t args = 0, dims = 0;
};

/// A function of a plug-in.
struct ExternalFunction {
  std::string plugin, name;
};

struct ValueRule {
  uint32_t input = 0;
  int64_t min = 0;
  ExprId max = 0;
  bool hasExcept = false;
  int64_t except = 0;
  uint32_t node = 0;
  /// For each axis, of the values that the rule is about; empty: all.
  std::vector<ExprId> begin, end;

  /// All of its expressions.
  std::vector<ExprId> expressions() const {
    std::vector<ExprId> all = {max};
    all.insert(all.end(), begin.begin(), begin.end());
    all.insert(all.end(), end.begin(), end.end());
    return all;
  }
};

struct SizeRule {
  ExprId value = 0;
  int64_t max = 0;
  uint32_t node = 0;
};

struct Program {
  /// What the commands are for.
  Target target = {};
  std::vector<Symbol> symbols;
  std::vector<Expr> exprs;
  std::vector<TensorDecl> parameters, state, inputs, hypers, outputs, derived;
  std::vector<Constant> constants;
  std::vector<KernelDecl> kernels;
  std::vector<ExternalFunction> externals;
  std::vector<std::string> nodes;
  std::vector<Function> functions;
  std::vector<ValueRule> valueRules;
  std::vector<SizeRule> sizeRules;

  /// Null if there is none.
  const Function *function(std::string_view name) const;
  /// "seq + 1", with the symbols' names.
  std::string text(ExprId expr) const;
  /// Marks `expr` and all it is made of in `exprs`, and their symbols in `symbols`.
  /// Sets the symbols that the run gives.
  void setRunSymbols(const RunPlace &place, std::vector<int64_t> &values) const;
  /// Whether ranks hold shards, of state or of what they update.
  bool hasShards() const;
  /// Whether they do of parameters.
  bool sharesParameters() const;
  void collect(ExprId expr, std::vector<bool> &exprs, std::vector<bool> &symbols) const;
};

/// Bytes of the gradient accumulator of a parameter, and its type: f64 for f64, else f32.
DType gradientType(const TensorDecl &parameter);
/// The part of the accumulator that a rank has.
ShardRange gradientShard(const TensorDecl &parameter, const RunPlace &place);

/// Which functions of plug-ins are kernels for a GPU.
std::vector<bool> launchedExternals(const Program &program);

/// Parses and verifies program.fb. Errors are BadPackage and name the table, index and field.
Status readProgram(const unsigned char *data, uint64_t size, Program &program);

/// Evaluates those expressions of `program` that `needed` marks (all of what they refer to must be
/// marked, too), into `values`, of which unmarked elements are 0. False on overflow or a divisor
/// that is not positive; `bad` is then the expression.
bool evaluate(const Program &program, const std::vector<bool> &needed,
              const std::vector<int64_t> &symbols, std::vector<int64_t> &values, ExprId &bad);

/// The value of the last of `order`, which are expressions each behind all it is made of; false as
/// `evaluate`. `values` is room for all expressions, in which the others are left as they are.
bool evaluateInOrder(const Program &program, const std::vector<ExprId> &order,
                     const std::vector<int64_t> &symbols, std::vector<int64_t> &values,
                     int64_t &result);

/// The element type of a buffer; false if the program does not tell.
bool bufferType(const Program &program, const Buffer &buffer, DType &dtype);

/// "parameter 'w'", "the value of node '/a/Softmax'"
std::string bufferName(const Program &program, const Buffer &buffer);

/// " (nodes 'a', 'b')"; "" without any.
std::string nodesText(const Program &program, const Command &command);
/// A plug-in by one of its functions, with the nodes that call that first: "the plug-in 'swish'
/// (node '/act')".
std::string pluginText(const Program &program, size_t external);

} // namespace trainrt

#endif // TRAINRT_FORMAT_PROGRAM_H
