// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What every command of a schedule tells of itself, so that serialising, timing and memory planning know no kind of it.

#ifndef TRAINC_PLAN_INTERFACES_TD
#define TRAINC_PLAN_INTERFACES_TD

include "mlir/IR/OpBase.td"

def PlanCommandOpInterface : OpInterface<"PlanCommandOpInterface"> {
  let cppNamespace = "::trainc::plan";
  let description = [{
    A command of a plan, one entry of `program.fb`. Which buffers it reads and writes its memory effects say. A new kind of
    command implements this, and is added to the union of `runtime/schema/program.fbs`.
  }];
  let methods = [
    InterfaceMethod<"its operands in the order of program.fbs, also those that are absent",
      "::llvm::SmallVector<::trainc::plan::CommandSlot>", "getSlots">,
    InterfaceMethod<"its sizes in the order of program.fbs",
      "::llvm::SmallVector<::trainc::train::DimAttr>", "getCommandSizes">,
    InterfaceMethod<"the kernels that it runs: the one in use, then those that may take its place",
      "::trainc::plan::CommandKernels", "getKernels", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"writes the table of its kind",
      "::trainc::plan::CommandTable", "buildTable", (ins "::trainc::plan::TableBuilder &":$builder)>,
    InterfaceMethod<"its work; by default it computes nothing and moves what it touches",
      "::trainc::plan::CommandCost", "getCommandCost", (ins "::trainc::plan::EvaluateReal":$value), [{}], [{ return {}; }]>,
    InterfaceMethod<"the bytes that it must move at least, and its floating-point operations, where its operands and sizes do not tell",
      "::llvm::SmallVector<::trainc::train::DimAttr>", "getCosts", (ins), [{}], [{ return {}; }]>,
    InterfaceMethod<"bytes that a GPU's library call may ask for, and that ranks stage",
      "::trainc::plan::CommandWorkspace", "getGpuWorkspace", (ins "::trainc::plan::EvaluateInteger":$value), [{}],
      [{ return {}; }]>,
    InterfaceMethod<"adds what the library call on a CPU needs",
      "void", "addCpuWorkspace",
      (ins "::trainc::plan::EvaluateInteger":$value, "::trainrt::WorkingMemory &":$memory), [{}],
      [{ return; }]>,
    InterfaceMethod<"bytes that each thread of a CPU needs; null: none",
      "::trainc::train::DimAttr", "getThreadScratch", (ins), [{}], [{ return {}; }]>
  ];
}

def LibraryCallOpInterface : OpInterface<"LibraryCallOpInterface"> {
  let cppNamespace = "::trainc::plan";
  let description = [{
    An op of a schedule that one call of a library computes (`FusionRole::Library`): its operands may lie through any
    strides. It emits the command for that call.
  }];
  let methods = [
    InterfaceMethod<"places its results and creates the command at the emitter's builder; fails with a diagnostic",
      "::llvm::LogicalResult", "emitCall", (ins "::trainc::plan::CallEmitter &":$emitter)>
  ];
}

#endif // TRAINC_PLAN_INTERFACES_TD
