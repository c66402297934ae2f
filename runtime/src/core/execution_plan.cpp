// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Making a plan: evaluate, check, lay out.

#include "core/execution_plan.h"
#include "core/overlap.h"
#include "core/plan.h"

#include <algorithm>

namespace trainrt {

DType gradientType(const TensorDecl &parameter) {
  return parameter.dtype == DType::F64 ? DType::F64 : DType::F32;
}

int64_t gradientBytes(const TensorDecl &parameter) {
  int64_t elements = parameter.staticBytes / int64_t(sizeOf(parameter.dtype));
  return elements * int64_t(sizeOf(gradientType(parameter)));
}

int64_t alignmentOf(Target target) {
  return target == Target::Cuda ? cudaPlanAlignment : planAlignment;
}

namespace {

class Planner {
public:
  Planner(const Program &program, const Function &function, ExecutionPlan &plan)
      : program(program), function(function), plan(plan), alignment(alignmentOf(program.target)) {}

  Status run(const std::vector<int64_t> &symbols) {
    plan.function = &function;
    plan.symbols.assign(program.symbols.size(), 0);
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (function.symbols[i])
        plan.symbols[i] = symbols[i];
    ExprId wrong;
    if (!evaluate(program, function.exprs, plan.symbols, exprs, wrong))
      return fail(Code::BadData, "these sizes are too large: '", program.text(wrong),
                  "' overflows or divides by zero (", symbolText(), ")");
    TRAINRT_TRY(planBuffers());
    for (size_t i = 0; i < function.commands.size(); ++i) {
      number = i;
      const Command &command = function.commands[i];
      plan.steps.push_back({&command, uint32_t(plan.places.size()), uint32_t(plan.values.size())});
      TRAINRT_TRY(std::visit([&](const auto &op) { return add(op); }, command.op));
    }
    return {};
  }

private:
  std::string symbolText() const {
    std::string text;
    for (size_t i = 0; i < program.symbols.size(); ++i)
      if (function.symbols[i])
        text += (text.empty() ? "" : ", ") + program.symbols[i].name + " = " +
                std::to_string(plan.symbols[i]);
    return text;
  }

  template <typename... Args> Status bad(const Args &...what) const {
    return fail(Code::BadPackage, "program.fb: function '", function.name, "': ", what...,
                " (with ", symbolText(), ")");
  }

  int64_t value(ExprId id) const { return exprs[id]; }

  std::vector<int64_t> shapeOf(const TensorDecl &tensor) const {
    std::vector<int64_t> shape;
    for (ExprId extent : tensor.shape)
      shape.push_back(value(extent));
    return shape;
  }

  Status planBuffers() {
    std::vector<PlanBuffer> lifetimes(function.buffers.size()), onHost(function.buffers.size());
    plan.bufferBytes.resize(function.buffers.size());
    plan.bufferOffsets.resize(function.buffers.size());
    for (uint32_t output : function.outputs) {
      ExecutionPlan::Output result{output, shapeOf(program.outputs[output]), 0, plan.outputBytes};
      if (!countBytes(program.outputs[output].dtype, result.shape.data(), result.shape.size(),
                      result.bytes) ||
          result.bytes > INT64_MAX / 4)
        return fail(Code::BadData, "output '", program.outputs[output].name, "' of shape ",
                    shapeText(result.shape), " is impossible");
      if (__builtin_add_overflow(plan.outputBytes, padded(result.bytes, alignment),
                                 &plan.outputBytes))
        return fail(Code::BadData, "the outputs are too large (", symbolText(), ")");
      plan.outputs.push_back(std::move(result));
    }
    int64_t sum = 0;
    for (size_t i = 0; i < function.buffers.size(); ++i) {
      const Buffer &buffer = function.buffers[i];
      int64_t bytes = value(buffer.bytes), limit = 0;
      plan.bufferBytes[i] = bytes;
      if (bytes < 0)
        return bad("buffer ", i, " has ", bytes, " bytes");
      switch (buffer.space) {
      case Space::Arena:
      case Space::Host:
        (buffer.space == Space::Arena ? lifetimes : onHost)[i] = {bytes, buffer.first, buffer.last};
        // Half of the range leaves room for alignment.
        if (__builtin_add_overflow(sum, bytes, &sum) || sum > INT64_MAX / 2)
          return fail(Code::BadData, "these sizes are too large (", symbolText(), ")");
        continue;
      case Space::Parameter:
        limit = program.parameters[buffer.index].staticBytes;
        break;
      case Space::State:
        limit = program.state[buffer.index].staticBytes;
        break;
      case Space::Gradient:
        limit = gradientBytes(program.parameters[buffer.index]);
        break;
      case Space::Hyper:
        limit = program.hypers[buffer.index].staticBytes;
        break;
      case Space::Constant:
        limit = int64_t(program.constants[buffer.index].data.size());
        break;
      case Space::Input: {
        const TensorDecl &input = program.inputs[buffer.index];
        std::vector<int64_t> shape = shapeOf(input);
        if (!countBytes(input.dtype, shape.data(), shape.size(), limit))
          return fail(Code::BadData, "input '", input.name, "' of shape ", shapeText(shape),
                      " is impossible");
        break;
      }
      case Space::Output:
        for (const ExecutionPlan::Output &output : plan.outputs)
          if (output.index == buffer.index)
            limit = output.bytes;
        break;
      }
      if (bytes > limit)
        return bad("buffer ", i, " has ", bytes, " bytes, its tensor ", limit);
    }
    Plan memory = planMemory(lifetimes, alignment);
    plan.arenaLowerBound = memory.lowerBound;
    if (program.target == Target::Cuda)
      giveTime(lifetimes, memory);
    plan.arenaBytes = memory.peak;
    markPhases(lifetimes);
    plan.bufferOffsets = std::move(memory.offsets);
    const Plan host = planMemory(onHost, alignment);
    plan.hostBytes = host.peak;
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (function.buffers[i].space == Space::Host)
        plan.bufferOffsets[i] = host.offsets[i];
    for (size_t i = 0; i < function.buffers.size(); ++i)
      if (function.buffers[i].space == Space::Output)
        for (const ExecutionPlan::Output &output : plan.outputs)
          if (output.index == function.buffers[i].index)
            plan.bufferOffsets[i] = output.offset;
    return {};
  }

  /// What is in use in a command is what planMemory counts for its lower bound.
  void markPhases(const std::vector<PlanBuffer> &lifetimes) {
    const int32_t ends[2] = {std::max(function.forwardEnd, 0), std::max(function.backwardEnd, 0)};
    std::vector<int64_t> change(function.commands.size() + 1);
    for (const PlanBuffer &buffer : lifetimes) {
      if (!buffer.bytes)
        continue;
      const int64_t bytes = padded(buffer.bytes, alignment);
      change[size_t(buffer.first)] += bytes;
      change[size_t(buffer.last) + 1] -= bytes;
      for (int i = 0; i < 2; ++i)
        if (buffer.first < ends[i] && ends[i] <= buffer.last)
          plan.marks.between[i] += bytes;
    }
    int64_t live = 0;
    for (int32_t i = 0; i < int32_t(function.commands.size()); ++i) {
      int64_t &most = plan.marks.most[(i >= ends[0]) + (i >= ends[1])];
      most = std::max(most, live += change[size_t(i)]);
    }
  }

  bool leavesRoom() const {
    std::vector<int64_t> touched;
    for (const Command &command : function.commands) {
      int64_t bytes = 0;
      for (uint32_t buffer : buffersOf(command))
        bytes += plan.bufferBytes[buffer];
      touched.push_back(bytes);
    }
    return leavesRoomBeside(std::move(touched));
  }

  /// Lets what commands on the second lane touch live longer, so that the first lane does not wait
  /// for them to write to the same memory; as far as that costs next to none.
  void giveTime(const std::vector<PlanBuffer> &lifetimes, Plan &memory) {
    plan.aside.assign(function.commands.size(), false);
    if (!leavesRoom())
      return;
    plan.aside = findAside(function);
    const int32_t end = int32_t(function.commands.size()) - 1;
    for (int32_t delay : {64, 16, 4}) {
      std::vector<PlanBuffer> longer = lifetimes;
      for (int32_t i = 0; i <= end; ++i)
        if (plan.aside[size_t(i)])
          for (uint32_t buffer : buffersOf(function.commands[size_t(i)]))
            longer[buffer].last = std::max(longer[buffer].last, std::min(end, i + delay));
      Plan relaxed = planMemory(longer, alignment);
      if (relaxed.peak > memory.peak + roomForOverlap(memory.peak))
        continue;
      memory.peak = relaxed.peak;
      memory.offsets = std::move(relaxed.offsets);
      return;
    }
  }

  /// Adds the place; [offset + low, offset + high) must lie within its buffer.
  Status place(const Ref &ref, __int128 low, __int128 high) {
    int64_t offset = value(ref.offset), bytes = plan.bufferBytes[ref.buffer];
    if (offset < 0 || offset > bytes || offset + low < 0 || offset + high > bytes)
      return bad("command ", number, " leaves buffer ", ref.buffer, " of ", bytes, " bytes");
    plan.places.push_back({ref.buffer, offset});
    return {};
  }

  /// The lowest and highest element that an axis adds to what is touched.
  static void reach(int64_t extent, int64_t stride, __int128 &low, __int128 &high) {
    // Clamped far beyond any buffer, so that sums of these cannot overflow.
    constexpr __int128 far = __int128(1) << 80;
    __int128 end = std::clamp(__int128(extent - 1) * stride, -far, far);
    (end < 0 ? low : high) += end;
  }

  Status add(const Launch &op) {
    for (const Ref &arg : op.args)
      TRAINRT_TRY(place(arg, 0, 0));
    int64_t work = value(op.work), scratch = value(op.scratch);
    if (work < 0 || scratch < 0)
      return bad("command ", number, " has negative work or scratch");
    plan.scratchBytes = std::max(plan.scratchBytes, scratch);
    plan.values.push_back(work);
    plan.values.push_back(std::max<int64_t>(value(op.grain), 1));
    for (ExprId dim : op.dims)
      plan.values.push_back(value(dim));
    plan.values.push_back(scratch);
    int64_t members = 0;
    for (ExprId member : op.group) {
      plan.values.push_back(value(member));
      if (value(member) < 0 || __builtin_add_overflow(members, value(member), &members))
        return bad("command ", number, " has a member with impossible work");
    }
    if (!op.group.empty() && members != work)
      return bad("command ", number, " has work ", work, ", its members ", members);
    for (const Launch::Variant &variant : op.variants) {
      if (value(variant.work) < 0 || (value(variant.work) == 0) != (work == 0))
        return bad("command ", number, " has a variant with impossible work");
      plan.values.push_back(value(variant.work));
      plan.values.push_back(std::max<int64_t>(value(variant.grain), 1));
    }
    return {};
  }

  Status add(const Gemm &op) {
    int64_t m = value(op.m), n = value(op.n), k = value(op.k);
    bool empty = false, emptyProduct = k <= 0;
    const __int128 size = __int128(sizeOf(op.dtype));
    for (int64_t extent : {m, n, k})
      if (extent < 0)
        return bad("command ", number, " has an extent of ", extent);
    empty = m == 0 || n == 0;
    for (ExprId batch : op.batch) {
      if (value(batch) < 0)
        return bad("command ", number, " has an extent of ", value(batch));
      empty |= value(batch) == 0;
    }
    auto operand = [&](const Ref &ref, int64_t extent0, ExprId stride0, int64_t extent1,
                       ExprId stride1, const std::vector<ExprId> &strides, __int128 size,
                       bool unused) {
      __int128 low = 0, high = 0;
      if (unused)
        return place(ref, 0, 0);
      reach(extent0, value(stride0), low, high);
      reach(extent1, value(stride1), low, high);
      for (size_t i = 0; i < strides.size(); ++i)
        reach(value(op.batch[i]), value(strides[i]), low, high);
      return place(ref, low * size, (high + 1) * size);
    };
    TRAINRT_TRY(operand(op.a, m, op.aM, k, op.aK, op.aBatch, size, empty || emptyProduct));
    TRAINRT_TRY(operand(op.b, k, op.bK, n, op.bN, op.bBatch, size, empty || emptyProduct));
    TRAINRT_TRY(operand(op.c, m, op.cM, n, op.cN, op.cBatch, op.wide ? 4 : size, empty));
    if (op.epilogue == GemmEpilogue::DGeluBGrad && empty && n > 0)
      return bad("command ", number, " has no rows to sum a bias's gradient over");
    if (hasBias(op.epilogue))
      TRAINRT_TRY(place(op.bias, 0, n * size));
    else
      plan.places.push_back({ExecutionPlan::Place::none, 0});
    if (hasAux(op.epilogue))
      TRAINRT_TRY(operand(op.aux, m, op.cM, n, op.cN, op.cBatch, size, empty));
    else
      plan.places.push_back({ExecutionPlan::Place::none, 0});
    for (ExprId id : {op.m, op.n, op.k, op.aM, op.aK, op.bK, op.bN, op.cM, op.cN})
      plan.values.push_back(value(id));
    for (const auto *list : {&op.batch, &op.aBatch, &op.bBatch, &op.cBatch})
      for (ExprId id : *list)
        plan.values.push_back(value(id));
    return {};
  }

  Status add(const Attention &op) {
    int64_t sizes[7];
    bool empty = false;
    for (size_t i = 0; i < 7; ++i) {
      sizes[i] = value(op.sizes[i]);
      if (sizes[i] < 0)
        return bad("command ", number, " has an extent of ", sizes[i]);
      empty |= sizes[i] == 0;
    }
    if (!empty && sizes[1] % sizes[2] != 0)
      return bad("command ", number, " has ", sizes[1], " heads of q over ", sizes[2]);
    auto [batch, heads, kvHeads, rows, keys, columns, valueColumns] = sizes;
    const int64_t segments = op.segmented() ? value(op.segments) : 0,
                  longest = op.segmented() ? value(op.longest) : 0;
    if (op.segmented() && (segments < 1 || longest < 1 || batch != 1 || rows != keys))
      return bad("command ", number, " has ", segments, " segments of up to ", longest,
                 " rows in a batch of ", batch, " with ", rows, " rows and ", keys, " columns");
    using Which = AttentionOperand;
    for (size_t i = 0; i < numAttentionOperands; ++i) {
      const Attention::Operand &operand = op.operands[i];
      if (!operand.present) {
        plan.places.push_back({ExecutionPlan::Place::none, 0});
        continue;
      }
      const auto which = static_cast<Which>(i);
      const bool ofKeys =
          which == Which::K || which == Which::V || which == Which::DK || which == Which::DV;
      const bool ofValues =
          which == Which::V || which == Which::O || which == Which::DO || which == Which::DV;
      __int128 low = 0, high = 0, size = sizeOf(op.dtype);
      auto stride = [&](size_t axis) { return value(operand.strides[axis]); };
      if (which == Which::Stats) {
        size = 4;
        high = std::min(__int128(batch) * heads, __int128(1) << 62) * rows - 1;
      } else if (which == Which::Seed) {
        size = 8;
        high = 1;
      } else if (which == Which::Segments) {
        size = 4;
        high = segments;
      } else if (which == Which::Positions) {
        size = 4;
        high = rows - 1;
      } else {
        reach(batch, stride(0), low, high);
        reach(ofKeys ? kvHeads : heads, stride(1), low, high);
        reach(ofKeys ? keys : rows, stride(2), low, high);
        if (which == Which::Bias) {
          size = sizeOf(op.biasDtype);
          reach(keys, stride(3), low, high);
        } else {
          reach(ofValues ? valueColumns : columns, 1, low, high);
        }
      }
      TRAINRT_TRY(empty ? place(operand.ref, 0, 0)
                        : place(operand.ref, low * size, (high + 1) * size));
    }
    plan.values.insert(plan.values.end(), sizes, sizes + 7);
    for (size_t i = 0; i < numAttentionOperands; ++i) {
      const auto which = static_cast<Which>(i);
      if (which == Which::Stats || which == Which::Seed || which == Which::Segments ||
          which == Which::Positions)
        continue;
      const Attention::Operand &operand = op.operands[i];
      for (size_t axis = 0; axis < (which == Which::Bias ? 4u : 3u); ++axis)
        plan.values.push_back(operand.present ? value(operand.strides[axis]) : 0);
    }
    plan.values.insert(plan.values.end(), {segments, longest});
    return {};
  }

  Status add(const Copy &op) {
    int64_t bytes = value(op.bytes);
    if (bytes < 0)
      return bad("command ", number, " copies ", bytes, " bytes");
    TRAINRT_TRY(place(op.from, 0, bytes));
    TRAINRT_TRY(place(op.to, 0, bytes));
    plan.values.push_back(bytes);
    return {};
  }

  Status add(const Fill &op) {
    int64_t bytes = value(op.bytes);
    if (bytes < 0)
      return bad("command ", number, " fills ", bytes, " bytes");
    TRAINRT_TRY(place(op.to, 0, bytes));
    plan.values.push_back(bytes);
    return {};
  }

  const Program &program;
  const Function &function;
  ExecutionPlan &plan;
  const int64_t alignment;
  std::vector<int64_t> exprs;
  size_t number = 0;
};

} // namespace

Status makePlan(const Program &program, const Function &function,
                const std::vector<int64_t> &symbols, ExecutionPlan &plan) {
  return Planner(program, function, plan).run(symbols);
}

} // namespace trainrt
