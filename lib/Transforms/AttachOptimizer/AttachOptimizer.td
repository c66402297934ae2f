// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `attach-optimizer`.
#ifndef TRAINC_TRANSFORMS_ATTACHOPTIMIZER_TD
#define TRAINC_TRANSFORMS_ATTACHOPTIMIZER_TD

include "mlir/Pass/PassBase.td"

def AttachOptimizerPass : Pass<"attach-optimizer", "::mlir::ModuleOp"> {
  let summary = "adds the optimizer: @gradients -> @update";
  let description = [{
    `@update` takes the trainable parameters, their gradients, the optimizer's state (`NAME/exp_avg`, ...,
    zero before the first update) and the hyper-parameters `lr`, `weight_decay`, `step` (and `clip_norm`), and
    returns the updated parameters and state. The optimizers are those of `dialects/Train/Optimizer.h`, with
    PyTorch's formulas. `train.lr_scale` and `train.decay_scale` of a parameter multiply `lr` and
    `weight_decay`; `train.weight_decay` stands in place of that. Parameters whose gradient is `train.unused` are left out.

    With `state` the formulas load the state before they begin and store it behind (`StateStorage.h` beside the pass):
    of int8, `NAME/exp_avg` holds codes in blocks [blocks, block] and `NAME/exp_avg.absmax` the scales f32 [blocks].
    bf16 and int8 are rounded stochastically, with the hyper-parameter `seed`.

    With `clip`, gradients are scaled by min(1, clip_norm / (norm + 1e-6)) first, where norm is that of all
    gradients together (torch.nn.utils.clip_grad_norm_). The norm is a result then, with the role `verdict`: where
    it is not finite, the update must not happen. With `clip` or `grad-norm` it is an output, too, marked by
    `train.grad_norm`, of the gradients before they are clipped.

    With `shard-from`, parameters of so many elements are updated a shard at a time (docs/design/distribute.md): they, their
    gradients and their state are arguments of a rank's shard, in blocks [rows, block], which `train.shard` says of them.
    Norms of them are of all ranks' shards, added up by rows and then in the order of rows. This needs the symbols
    `@world` and `@rank`.

    Fails without `@gradients` and on options that the optimizer does not allow.

    ```mlir
    // attach-optimizer{kind=sgd}
    func.func @gradients(%w: tensor<8xf32> {train.role = "parameter", train.name = "w", train.trainable},
                         %loss: tensor<f32> {train.role = "input", train.name = "loss"})
        -> (tensor<f32> {train.role = "loss", train.name = "loss"}, tensor<8xf32> {train.role = "gradient", train.name = "w"}) {
      return %loss, %w : tensor<f32>, tensor<8xf32>
    }
    // adds
    func.func @update(%w: tensor<8xf32> {train.name = "w", train.role = "parameter", train.trainable},
        %g: tensor<8xf32> {train.name = "w", train.role = "gradient"},
        %lr: tensor<f32> {train.name = "lr", train.role = "hyper"},
        %weight_decay: tensor<f32> {train.name = "weight_decay", train.role = "hyper"},
        %step: tensor<i64> {train.name = "step", train.role = "hyper"})
        -> (tensor<8xf32> {train.name = "w", train.role = "update", train.updates = "parameter"})
        attributes {train.optimizer = "sgd"} {
      %result = train.sgd %w, %g, %lr, %weight_decay, %step {momentum = 0.000000e+00 : f64}
          : (tensor<8xf32>, tensor<8xf32>, tensor<f32>, tensor<f32>, tensor<i64>) -> tensor<8xf32>
      return %result : tensor<8xf32>
    }
    ```
  }];
  let dependentDialects = ["::trainc::train::TrainDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"kind", "kind", "std::string", "\"adamw\"", "the optimizer: sgd, adam, adamw, adamw-hf or lamb">,
    ListOption<"betas", "betas", "double", "decay of the averages of g and g^2; default 0.9,0.999">,
    Option<"epsilon", "eps", "double", "-1.0",
           "added to the denominator; negative: the optimizer's default (1e-8; lamb 1e-6)">,
    Option<"momentum", "momentum", "double", "0.0", "momentum of sgd">,
    Option<"nesterov", "nesterov", "bool", "false", "Nesterov's form of momentum">,
    Option<"biasCorrection", "bias-correction", "bool", "true",
           "off: averages are used as they are (adamw-hf)">,
    Option<"stateFormat", "state", "std::string", "\"\"",
           "what optimizer state is stored in: fp32, bf16 or int8; empty: the parameter's own type">,
    Option<"clip", "clip", "bool", "false",
           "clip the norm of all gradients together to the hyper-parameter clip_norm">,
    Option<"gradNorm", "grad-norm", "bool", "false",
           "the norm of all gradients together is a result, also where it is not clipped">,
    Option<"shardFrom", "shard-from", "int64_t", "0",
           "elements from which on a parameter's update is a rank's shard of it; 0: none is">,
  ];
}

#endif // TRAINC_TRANSFORMS_ATTACHOPTIMIZER_TD
