// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel in PTX, which the driver compiles when it is loaded, and its launch.

#include "device/cuda/segments.h"

#include "format/dtype.h"

#include <algorithm>
#include <utility>

namespace trainrt::cuda {

namespace {

/// The only parameter. Blocks with blockIdx.y = t do task t: a table of beginnings (the first one
/// also the lengths), behind the tables a result to be cleared. Offsets are taken as within the
/// rows and ascending, whatever they are: nothing is written elsewhere.
struct Job {
  uint64_t offsets = 0, lengths = 0, starts = 0;
  int64_t segments = 0, longest = 0, rows = 0, tables = 0;
  struct Task {
    /// Of a table: the stride of a row, in elements, in `rowBytes`. Of a result: where it is, the
    /// strides of its rows and heads, and its words of four bytes a row and head.
    uint64_t address = 0;
    int64_t rowBytes = 0, headBytes = 0, heads = 1, words = 0;
  } tasks[numSegmentedOperands + 3];
};
static_assert(sizeof(Job) == 56 + 12 * 40, "the kernel's text has these numbers");

constexpr char text[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry trainrt_segments(.param .align 8 .b8 job[536])
{
  .reg .pred %p;
  .reg .b32 %ctas, %cta, %size, %lane, %word, %zero, %count, %wordsOfHead, %head, %inHead;
  .reg .b64 %i, %step, %task, %base, %at, %segments, %rows, %tables, %offsets, %longest;
  .reg .b64 %begin, %end, %stride, %to, %n, %rest, %row, %heads, %words, %headStride;

  mov.u32 %cta, %ctaid.x;
  mov.u32 %size, %ntid.x;
  mov.u32 %lane, %tid.x;
  cvt.u64.u32 %i, %lane;
  mad.wide.u32 %i, %cta, %size, %i;
  mov.u32 %ctas, %nctaid.x;
  mul.wide.u32 %step, %ctas, %size;
  mov.u32 %cta, %ctaid.y;
  cvt.u64.u32 %task, %cta;
  mov.b64 %base, job;
  mad.lo.s64 %base, %task, 40, %base;
  ld.param.b64 %offsets, [job];
  ld.param.b64 %segments, [job+24];
  ld.param.b64 %longest, [job+32];
  ld.param.b64 %rows, [job+40];
  ld.param.b64 %tables, [job+48];
  ld.param.b64 %stride, [%base+64];
  setp.ge.s64 %p, %task, %tables;
  @%p bra CLEAR;

TABLE: // starts[task][i] = offsets[i] * stride; lengths[i] = offsets[i + 1] - offsets[i]
  setp.gt.s64 %p, %i, %segments;
  @%p bra DONE;
  shl.b64 %at, %i, 2;
  add.s64 %at, %at, %offsets;
  ld.s32 %begin, [%at];
  max.s64 %begin, %begin, 0;
  min.s64 %begin, %begin, %rows;
  mul.lo.s64 %n, %begin, %stride;
  add.s64 %to, %segments, 1;
  mad.lo.s64 %to, %to, %task, %i;
  shl.b64 %to, %to, 3;
  ld.param.b64 %end, [job+16];
  add.s64 %to, %to, %end;
  st.b64 [%to], %n;
  setp.ne.s64 %p, %task, 0;
  @%p bra NEXT;
  setp.eq.s64 %p, %i, %segments;
  @%p bra NEXT;
  ld.s32 %end, [%at+4];
  min.s64 %end, %end, %rows;
  sub.s64 %n, %end, %begin;
  max.s64 %n, %n, 0;
  min.s64 %n, %n, %longest;
  cvt.u32.u64 %word, %n;
  ld.param.b64 %to, [job+8];
  shl.b64 %at, %i, 2;
  add.s64 %to, %to, %at;
  st.b32 [%to], %word;
NEXT:
  add.s64 %i, %i, %step;
  bra TABLE;

CLEAR: // the rows from offsets[segments] on, a block a row; words of a row are counted by head, word
  shl.b64 %at, %segments, 2;
  add.s64 %at, %at, %offsets;
  ld.s32 %begin, [%at];
  max.s64 %begin, %begin, 0;
  min.s64 %begin, %begin, %rows;
  ld.param.b64 %to, [%base+56];
  ld.param.b64 %headStride, [%base+72];
  ld.param.b64 %heads, [%base+80];
  ld.param.b64 %words, [%base+88];
  mul.lo.s64 %n, %heads, %words;
  cvt.u32.u64 %count, %n;
  cvt.u32.u64 %wordsOfHead, %words;
  mov.u32 %cta, %ctaid.x;
  cvt.u64.u32 %row, %cta;
  add.s64 %row, %row, %begin;
  cvt.u64.u32 %step, %ctas;
  mov.b32 %zero, 0;
ROW:
  setp.ge.s64 %p, %row, %rows;
  @%p bra DONE;
  mad.lo.s64 %rest, %row, %stride, %to;
  mov.u32 %word, %lane;
WORD:
  setp.ge.u32 %p, %word, %count;
  @%p bra NEXTROW;
  div.u32 %head, %word, %wordsOfHead;
  mul.lo.u32 %inHead, %head, %wordsOfHead;
  sub.u32 %inHead, %word, %inHead;
  mul.wide.u32 %at, %inHead, 4;
  add.s64 %at, %at, %rest;
  cvt.u64.u32 %n, %head;
  mad.lo.s64 %at, %n, %headStride, %at;
  st.b32 [%at], %zero;
  add.u32 %word, %word, %size;
  bra WORD;
NEXTROW:
  add.s64 %row, %row, %step;
  bra ROW;
DONE:
  ret;
}
)";

// Fixed, whatever the segments are: loops of the kernel go over the rest, and a captured launch
// stays good.
constexpr unsigned threads = 128, blocks = 128;

/// Of the rows of an operand, in elements; 0 where the call has no such operand.
/// Operands of equal strides share a table.
struct RowStrides {
  explicit RowStrides(const AttentionCall &call) {
    const int64_t *all[numSegmentedOperands] = {call.q,  call.k,  call.v,  call.o, nullptr,
                                                call.dO, call.dQ, call.dK, call.dV};
    for (size_t i = 0; i < numSegmentedOperands; ++i) {
      if (!call.backward && i > size_t(SegmentedOperand::Stats))
        continue;
      const int64_t stride = all[i] ? all[i][2] : call.heads;
      auto found = std::find(distinct, distinct + count, stride);
      table[i] = found - distinct;
      if (table[i] == ptrdiff_t(count))
        distinct[count++] = stride;
    }
  }
  int64_t distinct[numSegmentedOperands] = {};
  size_t count = 0;
  /// The number of the operand's table, by operand.
  ptrdiff_t table[numSegmentedOperands] = {};
};

uint64_t padded(uint64_t bytes) { return (bytes + 255) / 256 * 256; }
uint64_t lengthBytes(const AttentionCall &call) { return padded(uint64_t(call.segments) * 4); }

} // namespace

/// In the context that is current.
Status SegmentKernel::load(std::unique_ptr<SegmentKernel> &kernel) {
  const Driver *driver = nullptr;
  TRAINRT_TRY(Driver::load(driver));
  std::unique_ptr<SegmentKernel> made(new SegmentKernel(*driver));
  TRAINRT_TRY(driver->check(driver->cuModuleLoadDataEx(&made->module, text, 0, nullptr, nullptr),
                            "cannot load the runtime's kernel for attention over segments"));
  TRAINRT_TRY(
      driver->check(driver->cuModuleGetFunction(&made->function, made->module, "trainrt_segments"),
                    "cannot find the runtime's kernel for attention over segments"));
  // Asked for anything, the driver loads what it would else load at the first launch, which must
  // not be while a graph is captured.
  int most = 0;
  TRAINRT_TRY(driver->check(
      driver->cuFuncGetAttribute(&most, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, made->function),
      "cannot load the runtime's kernel for attention over segments"));
  kernel = std::move(made);
  return {};
}

SegmentKernel::~SegmentKernel() {
  if (module)
    driver.cuModuleUnload(module);
}

uint64_t SegmentKernel::tableBytes(const AttentionCall &call) {
  return lengthBytes(call) + padded(RowStrides(call).count * uint64_t(call.segments + 1) * 8);
}

/// `memory` has `tableBytes`: the lengths, then the tables. It belongs to the call until the
/// attention that reads the tables has ended, and `clears` tells whether rows behind the segments
/// become zero, which the attention does not write.
Status SegmentKernel::enqueue(StreamHandle stream, const AttentionCall &call,
                              const AttentionOperands &operands, DeviceAddress memory, bool clears,
                              SegmentTables &tables) const {
  const RowStrides strides(call);
  Job job;
  job.offsets = operands.segments;
  job.lengths = tables.lengths = memory;
  // Tables of equal strides are one, so their number is that of the strides.
  job.starts = memory + lengthBytes(call);
  job.segments = call.segments;
  job.longest = call.longest;
  job.rows = call.queryRows;
  job.tables = int64_t(strides.count);
  for (size_t i = 0; i < numSegmentedOperands; ++i)
    tables.starts[i] = job.starts + uint64_t(strides.table[i]) * uint64_t(call.segments + 1) * 8;
  size_t count = 0;
  for (; count < strides.count; ++count)
    job.tasks[count].rowBytes = strides.distinct[count];

  const int64_t size = int64_t(sizeOf(call.dtype));
  auto clear = [&](DeviceAddress address, const int64_t (&of)[3], int64_t heads, int64_t columns) {
    // Heads side by side are one.
    if (of[1] == columns)
      columns *= std::exchange(heads, 1);
    job.tasks[count++] = {address, of[2] * size, of[1] * size, heads, columns * size / 4};
  };
  if (clears && call.backward) {
    clear(operands.dQ, call.dQ, call.heads, call.keyColumns);
    clear(operands.dK, call.dK, call.kvHeads, call.keyColumns);
    clear(operands.dV, call.dV, call.kvHeads, call.valueColumns);
  } else if (clears) {
    clear(operands.o, call.o, call.heads, call.valueColumns);
    if (operands.stats)
      job.tasks[count++] = {operands.stats, call.heads * 4, 0, 1, call.heads};
  }
  void *parameters[] = {&job};
  return driver.check(driver.cuLaunchKernel(function, blocks, unsigned(count), 1, threads, 1, 1, 0,
                                            static_cast<CUstream>(stream), parameters, nullptr),
                      "cannot start the runtime's kernel for attention over segments");
}

} // namespace trainrt::cuda
