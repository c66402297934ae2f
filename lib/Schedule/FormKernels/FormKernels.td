// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `form-kernels`.
#ifndef TRAINC_SCHEDULE_FORMKERNELS_TD
#define TRAINC_SCHEDULE_FORMKERNELS_TD

include "mlir/Pass/PassBase.td"

def FormKernelsPass : Pass<"form-kernels", "::mlir::func::FuncOp"> {
  let summary = "groups ops into train.fusion, one kernel each, and orders them";
  let description = [{
    Works on roles (`FusionOpInterface`) after `decompose`. Pointwise ops join the kernel of a producer with
    the same iteration space, or with a reduction over it; reductions over the same axes of the same space
    share a kernel, those down the columns (over leading axes) of tensors of one shape also where nothing but
    being near in program order connects them (`unrelated-sums`; without, `join-column-sums` finds each a kernel that reads its tensors); access ops (broadcast, gather, ...) are index arithmetic inside
    their readers. Library calls stay outside; an access op that a library call can read through strides stays
    a view, one whose producer is a library call without another reader is written in place by that call. What joins
    values each of which is a library call's alone (views of it looked through) is their one buffer, in which each call writes
    its part. So do views, but for those of a value that can be computed again, or that has whole rows of others in
    other places (windows of an image, behind a reshape that joins their axes): they are index arithmetic in its readers, where
    their elements can be had one by one, by divisions by known numbers, too. Of standalone ops a scatter of rows goes on: what alone reads its sums, element by
    element, is in its kernel, which stores every element once and so may write over what it adds the sums to (the gradient
    that a tied embedding has from the head). What joins values of one shape that one pointwise kernel makes is part of that
    kernel, which stores each in its place (the gradient of a gate and of what it is for, where one product has made both).

    A value that other kernels need is computed again in them instead of being stored, if that costs at most
    `recompute-cost` an element and reads at most two tensors as large as the value:
    - where its readers are near, if reading these tensors there moves fewer bytes than storing the value and
      reading it: at most as many where next to nothing is computed, else at most three quarters;
    - where they come later (by when kernels run, so a mask that the forward's kernel would make for the backward is
      late), if what has to be kept longer for it takes less memory than the value, or as much and it reads nothing else.

    Once it is known what each kernel reads in any case, a value that is stored by then is looked at again: where its readers
    would read nothing more, or, near, at most three quarters of the bytes that storing and reading it moves, it is computed
    again after all. (Gradients of norms sum up the rows of a product that the kernel of the column sums computes as well:
    both kernels read what it is made of.)

    A float that was widened is stored as it was before, and widened by every reader. A tensor's memory is kept as long as
    anything reads a view of it.

    What it needs of a smaller rank from a reduction (a row's mean) is stored for it.

    Kernels are emitted in the order of the function, as soon as what they read is there: a reduction where its
    first one stood, anything else where its last op stood, an update once nobody reads the old value; so a gradient is freed as soon as
    it is complete. Without `schedule-updates` updates come last, and all gradients are alive until then.

    Legal because ops are pure and a kernel never depends on itself through another one. Declines (remark
    `KeptApart`) to join two kernels where that would happen, or where the kernel would exceed `max-ops`.

    ```mlir
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %0 = train.add %x, %y : tensor<8xf32>
      %1 = train.exp %0 : tensor<8xf32>
      return %1 : tensor<8xf32>
    }
    // becomes
    func.func @f(%x: tensor<8xf32>, %y: tensor<8xf32>) -> tensor<8xf32> {
      %0 = train.fusion(%x, %y) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> {
      ^bb0(%arg2: tensor<8xf32>, %arg3: tensor<8xf32>):
        %1 = train.add %arg2, %arg3 : tensor<8xf32>
        %2 = train.exp %1 : tensor<8xf32>
        train.yield %2 : tensor<8xf32>
      }
      return %0 : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"maxOps", "max-ops", "unsigned", "128", "largest number of ops in a kernel">,
    Option<"recomputeCost", "recompute-cost", "unsigned", "6",
           "largest element cost (an add is 1) of a value that is computed again instead of stored">,
    Option<"unrelatedSums", "unrelated-sums", "bool", "true",
           "sums down the columns of tensors of one shape share a kernel where nothing else connects them">,
    Option<"scheduleUpdates", "schedule-updates", "bool", "true",
           "update a parameter as soon as its gradient is there, instead of after the backward pass">,
  ];
}

#endif // TRAINC_SCHEDULE_FORMKERNELS_TD
