// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The `plan` dialect: a scheduled program over buffers. One op becomes one command of the package.

#ifndef TRAINC_PLAN_DIALECT_TD
#define TRAINC_PLAN_DIALECT_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/Train/TrainDialect.td"
include "dialects/Plan/PlanEnums.td"
include "dialects/Plan/PlanInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::trainc::plan";
  let summary = "scheduled program over buffers";
  let description = [{
    Buffers with a size expression, kernel launches and library calls in the order in which they run.
    Lifetimes follow from the order; offsets in the arena are the runtime's, for the sizes at hand.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::trainc::train::TrainDialect"];
}

def Plan_BufferType : TypeDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "memory that commands read and write";
}

class Plan_Op<string mnemonic, list<Trait> traits = []> : Op<Plan_Dialect, mnemonic, traits>;
/// Its effects say which buffers it reads and writes; `methods` are those of the interface that it does not leave as they are.
class Plan_Command<string mnemonic, list<string> methods, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat(traits, [DeclareOpInterfaceMethods<MemoryEffectsOpInterface>,
                                             DeclareOpInterfaceMethods<PlanCommandOpInterface, methods>])>;

def Plan_FunctionOp : Plan_Op<"function", [Symbol, IsolatedFromAbove, NoTerminator, SingleBlock]> {
  let summary = "one schedule: buffers, then commands";
  let arguments = (ins SymbolNameAttr:$sym_name);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def Plan_SpaceAttr : EnumAttr<Plan_Dialect, Plan_Space, "space"> {
  let assemblyFormat = "$value";
}

def Plan_BufferOp : Plan_Op<"buffer"> {
  let summary = "declares a buffer for a tensor";
  let description = [{
    `name` is that of the parameter, state, input, hyper-parameter or output; of the parameter for a
    gradient. `value` holds the data of a constant. A buffer of the space `host` lies in pinned memory of the
    host; only copies to and from the device name it, and they run beside the commands around them.
    Example: `%0 = plan.buffer arena : tensor<?x64xf32, #train.dims<batch, 64>>`.
  }];
  let arguments = (ins Plan_SpaceAttr:$space, OptionalAttr<StrAttr>:$name, TypeAttrOf<AnyRankedTensor>:$type,
                       OptionalAttr<ElementsAttr>:$value);
  let results = (outs Plan_BufferType:$result);
  let assemblyFormat = "$space ($name^)? (`value` $value^)? `:` $type attr-dict";
  let hasVerifier = 1;
}

def Plan_KernelFormAttr : EnumAttr<Plan_Dialect, Plan_KernelForm, "kernel_form"> {
  let assemblyFormat = "$value";
}

def Plan_LaunchOp : Plan_Command<"launch", ["getKernels", "getThreadScratch", "getCosts"]> {
  let summary = "runs a kernel over `work` items";
  let description = [{
    With `group`, the work of each member, it is several launches of a kernel at once: `buffers` and `dims`
    are those of the members behind each other, `work` is their sum. `variants` are kernels that may be
    launched instead, each with its work and grain. For reports: the kernel's `form`, the bytes that the launch
    `moves` at least and its `flops` (of matmuls alone); absent where nothing is known of the kernel.
  }];
  let arguments = (ins StrAttr:$kernel, Variadic<Plan_BufferType>:$buffers, I64Attr:$num_inputs,
                       Train_DimsAttr:$dims, Train_DimAttr:$work, I64Attr:$grain, Train_DimAttr:$scratch,
                       OptionalAttr<Train_DimsAttr>:$group, OptionalAttr<StrArrayAttr>:$variants,
                       OptionalAttr<Train_DimsAttr>:$variant_work,
                       OptionalAttr<DenseI64ArrayAttr>:$variant_grain, OptionalAttr<Plan_KernelFormAttr>:$form,
                       OptionalAttr<Train_DimAttr>:$moved, OptionalAttr<Train_DimAttr>:$flops);
  let assemblyFormat = [{
    $kernel `(` $buffers `)` `inputs` $num_inputs `dims` $dims `work` $work `grain` $grain `scratch` $scratch
    (`group` $group^)? (`variants` $variants^ `work` $variant_work `grain` $variant_grain)?
    (`form` $form^)? (`moves` $moved^ `flops` $flops)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_GemmOp : Plan_Command<"gemm", ["getCommandCost", "getGpuWorkspace", "addCpuWorkspace"], [AttrSizedOperandSegments]> {
  let summary = "c = a * b, batched, every axis with its stride";
  let description = [{
    `sizes` is [m, n, k]; strides are [batch..., row, column] in elements, offsets [a, b, c] in elements. With an
    `epilogue` (`train.matmul`) there are `bias`, the bias or its gradient [n], and `aux`, which lies like c, as it needs them;
    both are whole buffers. `accumulate`: c += a * b. `element_type` is that of all but c, which may be f32 where it has 16 bits.
  }];
  let arguments = (ins Plan_BufferType:$a, Plan_BufferType:$b, Plan_BufferType:$c,
                       Optional<Plan_BufferType>:$bias, Optional<Plan_BufferType>:$aux, Train_DimsAttr:$batch,
                       Train_DimsAttr:$sizes, Train_DimsAttr:$a_strides, Train_DimsAttr:$b_strides,
                       Train_DimsAttr:$c_strides, Train_DimsAttr:$offsets, TypeAttr:$element_type,
                       TypeAttr:$result_type, UnitAttr:$tf32, UnitAttr:$accumulate,
                       OptionalAttr<Train_EpilogueAttr>:$epilogue);
  let assemblyFormat = [{
    $a `,` $b `,` $c (`epilogue` $epilogue^)? (`bias` $bias^)? (`aux` $aux^)? `batch` $batch `sizes` $sizes `strides` $a_strides `,` $b_strides `,` $c_strides
    `offsets` $offsets (`tf32` $tf32^)? (`accumulate` $accumulate^)? `:` $element_type `->` $result_type attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_AttentionOp : Plan_Command<"attention", ["getCommandCost", "getGpuWorkspace", "addCpuWorkspace"],
                                    [AttrSizedOperandSegments]> {
  let summary = "fused attention, or its gradient where d_o is given";
  let description = [{
    `sizes`: batch, heads of q, heads of k and v, rows of q, rows of k, columns of q, columns of v. `strides`
    and `offsets` in elements, for each operand that is there: of batch, head, row; of the bias: of batch,
    head, row of q, row of k. With `segments` (`train.attention` with its operand `offsets`) the batch is 1, and
    `segment_sizes` are the number of segments and the length of the longest. `before` and `after` as those of
    `train.attention`. `d_bias`, the bias's gradient, is row major.
  }];
  let arguments = (ins Plan_BufferType:$q, Plan_BufferType:$k, Plan_BufferType:$v, Plan_BufferType:$o,
                       Plan_BufferType:$stats, Optional<Plan_BufferType>:$bias, Optional<Plan_BufferType>:$seed,
                       Optional<Plan_BufferType>:$d_o, Optional<Plan_BufferType>:$d_q,
                       Optional<Plan_BufferType>:$d_k, Optional<Plan_BufferType>:$d_v,
                       Optional<Plan_BufferType>:$segments, Optional<Plan_BufferType>:$positions,
                       Optional<Plan_BufferType>:$d_bias,
                       Train_DimsAttr:$sizes, Train_DimsAttr:$offsets, Train_DimsAttr:$q_strides,
                       Train_DimsAttr:$k_strides, Train_DimsAttr:$v_strides, Train_DimsAttr:$o_strides,
                       OptionalAttr<Train_DimsAttr>:$bias_strides, OptionalAttr<Train_DimsAttr>:$d_o_strides,
                       OptionalAttr<Train_DimsAttr>:$d_q_strides, OptionalAttr<Train_DimsAttr>:$d_k_strides,
                       OptionalAttr<Train_DimsAttr>:$d_v_strides, TypeAttr:$element_type,
                       OptionalAttr<TypeAttr>:$bias_type, F64Attr:$scale, F64Attr:$dropout, UnitAttr:$causal,
                       OptionalAttr<Train_DimsAttr>:$segment_sizes, OptionalAttr<I64Attr>:$before,
                       OptionalAttr<I64Attr>:$after);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $o `,` $stats (`bias` $bias^)? (`seed` $seed^)?
    (`gradients` $d_o^ `,` $d_q `,` $d_k `,` $d_v)? (`bias_gradient` $d_bias^)? (`segments` $segments^)? (`positions` $positions^)? `:`
    $element_type attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ConvolutionKindAttr : EnumAttr<Plan_Dialect, Plan_ConvolutionKind, "convolution_kind"> {
  let assemblyFormat = "$value";
}

def Plan_ConvolutionOp : Plan_Command<"convolution", ["getCommandCost", "getGpuWorkspace", "addCpuWorkspace"]> {
  let summary = "a convolution, or its gradient for the input (`data`) or the filter";
  let description = [{
    Row major: input [batch, positions..., channels], filter [filters, taps..., channels / groups], output [batch, windows...,
    filters]; `kind` says which one is written. `sizes`: batch, channels, filters, groups. The other lists have a number for
    each axis of positions; `pads` are the zeros on either side.
  }];
  let arguments = (ins Plan_ConvolutionKindAttr:$kind, Plan_BufferType:$input, Plan_BufferType:$filter,
                       Plan_BufferType:$output, Train_DimsAttr:$sizes, Train_DimsAttr:$positions, Train_DimsAttr:$taps,
                       Train_DimsAttr:$windows, Train_DimsAttr:$strides, Train_DimsAttr:$dilations,
                       Train_DimsAttr:$pads, TypeAttr:$element_type, UnitAttr:$tf32);
  let assemblyFormat = [{
    $kind $input `,` $filter `,` $output `sizes` $sizes `positions` $positions `taps` $taps `windows` $windows
    `strides` $strides `dilations` $dilations `pads` $pads (`tf32` $tf32^)? `:` $element_type attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_Command<"copy", ["getCommandCost"]> {
  let summary = "copies a whole buffer";
  let arguments = (ins Plan_BufferType:$from, Plan_BufferType:$to, Train_DimAttr:$bytes);
  let assemblyFormat = "$from `to` $to `bytes` $bytes attr-dict";
  let extraClassDeclaration = [{
    /// Whether it goes over the link between the host and the device, beside other commands.
    bool isTransfer();
  }];
  let hasVerifier = 1;
}

def Plan_CollectiveKindAttr : EnumAttr<Plan_Dialect, Plan_CollectiveKind, "collective_kind"> {
  let assemblyFormat = "$value";
}

def Plan_CollectiveOp : Plan_Command<"collective", ["getCommandCost", "getGpuWorkspace", "addCpuWorkspace"]> {
  let summary = "what all ranks of a run do together";
  let description = [{
    `all_reduce`: each buffer, of `elements` numbers of `element_type`, becomes the sum of those of all ranks, in their
    order (`train.all_reduce`). The others read the first half of the buffers and write the second, in the same order:
    `reduce_scatter` tensors, then the rank's shards of their sums, `all_gather` the rank's shards, then tensors of all.
    Where sums are of numbers of a type of 16 bits (`of`), `all_reduce` reads and writes different buffers in this way, too.
    A `verdict`, an `all_reduce` of one number, is above 0 where that of a rank is, or where one has met a bad index by then.
  }];
  let arguments = (ins Plan_CollectiveKindAttr:$kind, UnitAttr:$verdict, OptionalAttr<TypeAttr>:$sent,
                       Variadic<Plan_BufferType>:$tensors, Train_DimsAttr:$elements, TypeAttr:$element_type);
  let assemblyFormat = [{
    $kind (`verdict` $verdict^)? (`of` $sent^)? $tensors `elements` $elements `:` $element_type attr-dict
  }];
  let extraClassDeclaration = [{
    /// Whether buffers are read and written; else those of the first half are read.
    bool isInPlace() { return getKind() == CollectiveKind::all_reduce && !getSent(); }
  }];
  let hasVerifier = 1;
}

def Plan_LoopOp : Plan_Command<"loop", ["getCommandCost"], [AttrSizedOperandSegments]> {
  let summary = "begins, or with `end` ends, commands that run for each step of a sequence";
  let description = [{
    In step i the buffer of a slice is part i of its tensor, from the last part to the first with `reverse`. Slices of
    `scanned` tensors are read, those of `stacked` ones written. `kept` is what else must live as long as the loop. The
    command with `end` has the same operands and attributes beside.
  }];
  let arguments = (ins Variadic<Plan_BufferType>:$scanned, Variadic<Plan_BufferType>:$scanned_slices,
                       Variadic<Plan_BufferType>:$stacked, Variadic<Plan_BufferType>:$stacked_slices,
                       Variadic<Plan_BufferType>:$kept, Train_DimAttr:$steps, UnitAttr:$end, UnitAttr:$reverse);
  let assemblyFormat = [{
    (`end` $end^)? `scanned` `(` $scanned `)` `by` `(` $scanned_slices `)` `stacked` `(` $stacked `)` `by` `(` $stacked_slices `)`
    `kept` `(` $kept `)` `steps` $steps (`reverse` $reverse^)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ExternalOp : Plan_Command<"external", ["getCommandCost"]> {
  let summary = "calls a function of a plug-in";
  let description = [{
    `types` are those of the tensors in the buffers, whole and row major, of which the first `num_inputs` are read and the
    others written. All else is that of `train.external`.
  }];
  let arguments = (ins Variadic<Plan_BufferType>:$buffers, I64Attr:$num_inputs, TypeArrayAttr:$types, StrAttr:$plugin,
                       StrAttr:$symbol, Train_DimAttr:$flops, OptionalAttr<DictionaryAttr>:$settings,
                       OptionalAttr<Train_DimsAttr>:$launch, OptionalAttr<ArrayAttr>:$arguments);
  let assemblyFormat = [{
    $plugin $symbol `(` $buffers `)` `inputs` $num_inputs `:` $types `flops` $flops (`settings` $settings^)?
    (`launch` $launch^ `arguments` $arguments)? attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ReleaseOp : Plan_Op<"release"> {
  let summary = "ends a buffer's lifetime here, and not before";
  let description = [{
    No command: the buffer is in use up to the command before. For what a copy to the host reads while commands run
    beside it.
  }];
  let arguments = (ins Plan_BufferType:$buffer);
  let assemblyFormat = "$buffer attr-dict";
  let hasVerifier = 1;
}

#endif // TRAINC_PLAN_DIALECT_TD
