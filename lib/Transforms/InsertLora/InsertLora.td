// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The pass `insert-lora`.
#ifndef TRAINC_TRANSFORMS_INSERTLORA_TD
#define TRAINC_TRANSFORMS_INSERTLORA_TD

include "mlir/Pass/PassBase.td"

def InsertLoraPass : Pass<"insert-lora", "::mlir::ModuleOp"> {
  let summary = "low-rank branches beside projections and embeddings of @forward, and all else frozen";
  let description = [{
    For y = x W^T with a parameter W whose module matches `targets`, y + scale * (dropout(x) A^T) B^T takes the place
    of y: LoRA (Hu et al. 2021), scale = alpha / rank (alpha / sqrt(rank) with `rslora`, Kalajdzievski 2023). A [rank, k]
    begins uniform in +-1/sqrt(k), B [n, rank] with zeros, as PEFT has them, and both are named as in PEFT's files
    without the prefix: `MODULE.lora_A.weight`, `MODULE.lora_B.weight`, of f32 (f64 beside f64). A module is the
    parameter's name without `.weight`. A weight that several projections share has one pair, and a branch at each.

    For rows y = W[i] of a table that `targets` names, y + scale * A^T[i] B^T: A [rank, rows] begins with zeros and B [n, rank]
    normal, named `MODULE.lora_embedding_A` and `MODULE.lora_embedding_B`. Where the table gets no gradient for its row of
    padding, A gets none either. A table that is projected with, too, is refused.

    With `dora` (Liu et al. 2024) the whole is scaled: magnitude / ||W + scale B A|| of each row times what is above. The magnitude
    is trained, named `MODULE.lora_magnitude_vector`, and begins as the row's norm; the norm is a constant to gradients. With
    dropout x W^T + (factor - 1) x' W^T + factor * branch, where x' is the dropped input: a second matmul, as in PEFT.

    With `existing` nothing is inserted: in a sum of W x and number * B (A dropout(x)) (a bias and other terms do not matter) A and B are
    a branch at W's module, and are trained. So an export of a model of PEFT has the attribute `train.lora`, under PEFT's names for
    the model without adapters. Fails where there is no branch, more than one at a module, or a parameter `*.lora_*` is in none.

    Nothing but the branches is trained, and what `save` matches (modules trained in full) and `bias` names. `targets` empty
    means all projections but heads: those from whose result nothing is projected any more.

    The module gets the attribute `train.lora`, which the package keeps for adapter files.

    ```mlir
    // insert-lora{rank=2 alpha=4 targets=proj}
    func.func @forward(%w: tensor<6x8xf32> {train.role = "parameter", train.name = "proj.weight", train.trainable},
                       %x: tensor<4x8xf32> {train.role = "input", train.name = "x"})
        -> (tensor<4x6xf32> {train.role = "output", train.name = "y"}) {
      %0 = train.matmul %x, %w transposed : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
      return %0 : tensor<4x6xf32>
    }
    // becomes
    ...
    %0 = train.matmul %x, %w transposed : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
    %1 = train.matmul %x, %a transposed : tensor<4x8xf32>, tensor<2x8xf32> -> tensor<4x2xf32>
    %2 = train.full 2.000000e+00 : f32 : tensor<6x2xf32>
    %3 = train.mul %b, %2 : tensor<6x2xf32>
    %4 = train.matmul %1, %3 transposed : tensor<4x2xf32>, tensor<6x2xf32> -> tensor<4x6xf32>
    %5 = train.add %0, %4 : tensor<4x6xf32>
    ...
    ```

    Fails where no module matches (with the names that there are), and where a rank is above the size of a matrix.
    Remarks, of category `insert-lora`: `Inserted` and `Recognised` with rank and scale, `NotInserted` and `NotRecognised` (two
    projections in a row) with the reason.
  }];
  let dependentDialects = ["::trainc::train::TrainDialect"];
  let options = [
    Option<"rank", "rank", "int64_t", "8", "columns of A and rows of B">,
    Option<"alpha", "alpha", "double", "8.0", "numerator of the scale">,
    Option<"dropout", "dropout", "double", "0.0", "share of the branch's input that is dropped, in [0, 1)">,
    Option<"targets", "targets", "std::string", "", "ECMAScript expression that matches anywhere in a module's name">,
    ListOption<"rankPattern", "rank-pattern", "std::string", "RANK=EXPRESSION: another rank for matching modules; the first match counts">,
    ListOption<"alphaPattern", "alpha-pattern", "std::string", "ALPHA=EXPRESSION: another alpha for matching modules">,
    Option<"rslora", "rslora", "bool", "false", "scale by alpha / sqrt(rank)">,
    Option<"dora", "dora", "bool", "false", "train the norms of the weights' rows beside their directions">,
    Option<"existing", "existing", "bool", "false", "train the branches that the graph has, and insert none">,
    Option<"save", "save", "std::string", "", "expression of parameters that are trained in full">,
    Option<"bias", "bias", "std::string", "\"none\"", "biases that are trained: none, all, or lora_only (of modules with a branch)">,
  ];
}

#endif // TRAINC_TRANSFORMS_INSERTLORA_TD
