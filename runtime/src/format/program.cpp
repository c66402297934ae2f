// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Expressions of a program: evaluation and text.

#include "format/program.h"
#include "format/memory/arena_plan.h"

#include <algorithm>
#include <cassert>

namespace trainrt {

const Function *Program::function(std::string_view name) const {
  for (const Function &function : functions)
    if (function.name == name)
      return &function;
  return nullptr;
}

std::string Program::text(ExprId id) const {
  // Expressions are a DAG whose text could be exponentially long: the depth is limited.
  // Six levels: enough for the sizes of real models, bounded for those that are not.
  auto build = [&](auto &self, ExprId id, int depth, bool nested) -> std::string {
    const Expr &expr = exprs[id];
    if (expr.kind == Expr::Kind::Constant)
      return std::to_string(expr.value);
    if (expr.kind == Expr::Kind::Symbol)
      return symbols[expr.a].name;
    if (depth == 0)
      return "...";
    // A sum within a product needs parentheses, and the names of operators around everything else
    // have their own.
    bool sum = expr.kind == Expr::Kind::Add;
    std::string a = self(self, expr.a, depth - 1, !sum), b = self(self, expr.b, depth - 1, !sum);
    switch (expr.kind) {
    case Expr::Kind::Add:
      return nested ? "(" + a + " + " + b + ")" : a + " + " + b;
    case Expr::Kind::Mul:
      return a + "*" + b;
    case Expr::Kind::FloorDiv:
      return "(" + a + " floordiv " + b + ")";
    case Expr::Kind::Mod:
      return "(" + a + " mod " + b + ")";
    case Expr::Kind::Max:
      return "max(" + a + ", " + b + ")";
    default:
      return "min(" + a + ", " + b + ")";
    }
  };
  return build(build, id, 6, false);
}

void Program::collect(ExprId id, std::vector<bool> &marked,
                      std::vector<bool> &markedSymbols) const {
  marked.resize(exprs.size());
  markedSymbols.resize(symbols.size());
  if (marked[id])
    return;
  marked[id] = true;
  const Expr &expr = exprs[id];
  if (expr.kind == Expr::Kind::Constant)
    return;
  if (expr.kind == Expr::Kind::Symbol) {
    markedSymbols[expr.a] = true;
    return;
  }
  assert(id < exprs.size() && "ids are checked when the program is read");
  // No recursion: a long chain must not exhaust the stack. Operands come before their users, so one
  // backward sweep marks everything.
  std::vector<bool> todo(id + 1);
  assert(ExprId(expr.a) < id && ExprId(expr.b) < id && "operands come before their users");
  todo[expr.a] = todo[expr.b] = true;
  for (ExprId i = id; i-- > 0;) {
    if (!todo[i] || marked[i])
      continue;
    marked[i] = true;
    if (exprs[i].kind == Expr::Kind::Symbol)
      markedSymbols[exprs[i].a] = true;
    else if (exprs[i].kind != Expr::Kind::Constant)
      todo[exprs[i].a] = todo[exprs[i].b] = true;
  }
}

bool valueAt(const Symbol &symbol, int64_t size, int64_t &value) {
  assert(symbol.factor > 0 && "checked when the program is read");
  int64_t room;
  if (__builtin_sub_overflow(size, symbol.offset, &room) || room % symbol.factor != 0)
    return false;
  value = room / symbol.factor;
  return true;
}

namespace {
/// False on overflow, or a divisor that is not positive.
bool evaluateOne(const Expr &expr, const std::vector<int64_t> &symbols,
                 std::vector<int64_t> &values, int64_t &value) {
  if (expr.kind == Expr::Kind::Constant)
    return value = expr.value, true;
  if (expr.kind == Expr::Kind::Symbol)
    return value = symbols[expr.a], true;
  int64_t a = values[expr.a], b = values[expr.b];
  switch (expr.kind) {
  case Expr::Kind::Add:
    return !__builtin_add_overflow(a, b, &value);
  case Expr::Kind::Mul:
    return !__builtin_mul_overflow(a, b, &value);
  case Expr::Kind::FloorDiv:
  case Expr::Kind::Mod: {
    // A size divides by what a symbol's divisor allows; b could be an expression of symbols that is
    // 0 for this batch.
    if (b <= 0)
      return false;
    // Towards minus infinity, as MLIR's affine expressions have it: the remainder is never
    // negative.
    int64_t remainder = a % b;
    if (remainder < 0)
      remainder += b;
    // a - remainder cannot overflow the quotient: |a / b| <= |a|.
    value = expr.kind == Expr::Kind::Mod ? remainder : a / b - (a % b < 0 ? 1 : 0);
    return true;
  }
  case Expr::Kind::Max:
    return value = std::max(a, b), true;
  default:
    return value = std::min(a, b), true;
  }
}
} // namespace

/// One forward sweep suffices: operands come before their users. Only needed ones: others may
/// overflow for these symbols without harm. After true, `bad` means nothing.
bool evaluate(const Program &program, const std::vector<bool> &needed,
              const std::vector<int64_t> &symbols, std::vector<int64_t> &values, ExprId &bad) {
  values.assign(program.exprs.size(), 0);
  for (ExprId i = 0; i < program.exprs.size(); ++i) {
    if (i >= needed.size() || !needed[i])
      continue;
    bad = i;
    if (!evaluateOne(program.exprs[i], symbols, values, values[i]))
      return false;
  }
  return true;
}

/// `order` is the part of the sweep that one expression needs, so `values` may hold others' results
/// in between.
bool evaluateInOrder(const Program &program, const std::vector<ExprId> &order,
                     const std::vector<int64_t> &symbols, std::vector<int64_t> &values,
                     int64_t &result) {
  assert(!order.empty() && order.back() < program.exprs.size() && "an expression needs itself");
  values.resize(program.exprs.size());
  for (ExprId i : order)
    if (!evaluateOne(program.exprs[i], symbols, values, values[i]))
      return false;
  result = values[order.back()];
  return true;
}

/// By its operands, not by its kind: whatever touches memory of the host goes over the link.
bool isTransfer(const Function &function, const Command &command) {
  return std::ranges::any_of(command.operands, [&](const Operand &operand) {
    return operand.isPresent() && function.buffers[operand.buffer].space == Space::Host;
  });
}

void Program::setRunSymbols(const RunPlace &place, std::vector<int64_t> &values) const {
  for (size_t i = 0; i < symbols.size(); ++i)
    if (symbols[i].run != Symbol::Run::None)
      values[i] = symbols[i].run == Symbol::Run::World ? place.shards() : place.shard();
}

bool Program::hasShards() const {
  return std::ranges::any_of(symbols,
                             [](const Symbol &symbol) { return symbol.run == Symbol::Run::World; });
}

bool Program::sharesParameters() const {
  return std::ranges::any_of(parameters, &TensorDecl::shardUnit);
}

/// As the compiler's Shard has it; without a unit it is all.
static ShardRange cut(int64_t bytes, int64_t unit, const RunPlace &place) {
  if (!unit)
    return {0, bytes, bytes};
  const int64_t units = bytes / unit + (bytes % unit != 0);
  const int64_t held = ((units + place.shards() - 1) / place.shards()) * unit;
  const int64_t begin = std::min(place.shard() * held, bytes);
  return {begin, std::min(held, bytes - begin), held};
}

ShardRange shardOf(const TensorDecl &tensor, const RunPlace &place) {
  return cut(tensor.staticBytes, tensor.shardUnit * int64_t(sizeOf(tensor.dtype)), place);
}

/// Sums of 16-bit gradients would lose small ones.
DType gradientType(const TensorDecl &parameter) {
  return parameter.dtype == DType::F64 ? DType::F64 : DType::F32;
}

/// staticBytes is that of parameters, whose shapes have no symbols.
ShardRange gradientShard(const TensorDecl &parameter, const RunPlace &place) {
  const int64_t elements = parameter.staticBytes / int64_t(sizeOf(parameter.dtype)),
                size = int64_t(sizeOf(gradientType(parameter)));
  return cut(elements * size, parameter.gradientUnit * size, place);
}

std::vector<bool> launchedExternals(const Program &program) {
  std::vector<bool> launched(program.externals.size());
  for (const Function &function : program.functions)
    for (const Command &command : function.commands)
      if (const auto *external = std::get_if<External>(&command.op); external && external->launched)
        launched[external->function] = true;
  return launched;
}

} // namespace trainrt
