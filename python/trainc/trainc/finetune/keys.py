# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The settings of `trainc finetune`."""

from ..data.keys import ROWS
from ..settings import Key, Table

_MODEL = (
    Key("model", "folder", "a folder with config.json, .safetensors files and the tokenizer, or a model of the hub", group="Model"),
    Key("data", "files", "files of rows, or a folder that `trainc data` has written", group="Model"),
    Key("eval", "files", "held-out rows, evaluated before, during and after training", group="Model"),
    Key("output", "folder", "the run's folder", group="Model"),
    Key("dtype", "choice", "type of the parameters in the graph", None, ("float32", "bfloat16", "float16"), group="Model",
        shown="the configuration's"),
    Key("attention", "choice", "`sdpa` has no dropout of attention", "eager", ("eager", "sdpa"), group="Model"),
    Key("model-config", "mapping", "changes of the model's configuration: `num_hidden_layers=2`", group="Model"),
    Key("graph", "file", "an ONNX file to train in place of an export of the model (no PyTorch is needed then)", group="Model"),
)  # fmt: skip

_ADAPTER = (
    Key("lora", "text", "low-rank branches: `r=16,alpha=32,dropout=0.05,targets=REGEX,...` (docs/lora.md); without it all "
        "parameters are trained", group="Adapter"),
    Key("quantize", "text", "how weights that are not trained are stored: `nf4:double`, `fp4`, `int8`", group="Adapter"),
    Key("adapter", "folder", "an adapter of PEFT to begin with", group="Adapter"),
)  # fmt: skip

_LOSS = (
    Key("beta", "number", "of preferences: how far answers may go from the reference", None, least=0, group="Loss", shown="0.1; simpo: 2"),
    Key("gamma", "number", "simpo: the margin between better and worse", 1.0, least=0, group="Loss"),
    Key("label-smoothing", "number", "dpo: share of pairs that are the wrong way round", 0.0, least=0, group="Loss"),
    Key("desirable-weight", "number", "kto: weight of wanted answers", 1.0, least=0, group="Loss"),
    Key("undesirable-weight", "number", "kto: weight of unwanted answers", 1.0, least=0, group="Loss"),
)  # fmt: skip

_OPTIMIZER = (
    Key("optimizer", "choice", "what updates parameters", "adamw", ("adamw", "adam", "adamw-hf", "sgd", "lamb"), group="Optimizer"),
    Key("lr", "number", "learning rate", None, least=0, group="Optimizer", shown="2e-4 with `lora`, else 2e-5"),
    Key("lr-schedule", "choice", "how the learning rate falls", "linear", ("linear", "cosine", "constant"), group="Optimizer"),
    Key("warmup", "number", "steps in which the learning rate grows; below 1: a share of all", 0.03, least=0, group="Optimizer"),
    Key("weight-decay", "number", "of matrices", 0.0, least=0, group="Optimizer"),
    Key("no-decay", "text", "parameters without weight decay, a regular expression; `auto`: biases and norms", "auto",
        group="Optimizer"),
    Key("clip-norm", "number", "the gradients' norm at most; 0: as it is", 1.0, least=0, group="Optimizer"),
    Key("optimizer-state", "choice", "what the optimizer's averages are stored in", None, ("fp32", "bf16", "int8"), group="Optimizer",
        shown="as the parameters"),
    Key("group", "texts", "settings of some parameters, `REGEX: lr=16x, weight_decay=0` (docs/optimizers.md); `lora_B: lr=16x` is LoRA+",
        group="Optimizer"),
    Key("layer-decay", "number", "each layer learns at this rate of the one above it", None, least=0, group="Optimizer"),
)  # fmt: skip

_TRAINING = (
    Key("epochs", "whole", "passes over the rows", 1, least=1, group="Training"),
    Key("steps", "whole", "steps of the optimizer, in place of `epochs`", None, least=1, group="Training"),
    Key("batch-size", "whole", "rows of a step", 16, least=1, group="Training"),
    Key("micro-batch", "whole", "rows that are computed at once; a divisor of `batch-size`", None, least=1, group="Training",
        shown="the most that `memory` takes"),
    Key("accumulate-by", "choice", "what the parts of a step count for, where it is computed in parts", None, ("tokens", "rows", "mean"),
        group="Training", shown="tokens, where the loss counts them"),
    Key("shuffle", "flag", "another order of rows in every epoch", True, group="Training"),
    Key("trim", "whole", "batches are as long as their longest row, rounded up to a multiple of this; 0: all of one length", 8,
        least=0, group="Training"),
    Key("group-by-length", "flag", "batches of rows of similar length", False, group="Training"),
)  # fmt: skip

_MACHINE = (
    Key("memory", "size", "memory that a step may take: what is not said of micro-batch, recompute, offload and max-length is chosen so that it fits", group="Machine"),
    Key("recompute", "text", "what the backward pass computes again: `level:1`, ... (docs/recompute.md)", group="Machine",
        shown="as `memory` needs"),
    Key("offload", "text", "GPU: activations wait on the host: `all`, or at most a size", group="Machine", shown="as `memory` needs"),
    Key("target", "text", "`cpu`, `cuda`, `cuda:sm_90`, ...", group="Machine", shown="what the machine has"),
    Key("precision", "choice", "the type of matmuls; all but `fp32` and `bf16`: GPU", None, ("fp32", "tf32", "bf16", "fp16", "pure-bf16"), group="Machine",
        shown="the graph's"),
    Key("threads", "whole", "of the CPU", None, least=1, group="Machine", shown="all cores"),
    Key("device", "whole", "which GPU", None, least=0, group="Machine", shown="0"),
    Key("ranks", "whole", "processes that share out the rows of a step, with a GPU each or a share of the cores (docs/ranks.md)", 1, least=1,
        group="Machine"),
    Key("distribute", "choice", "what each of several ranks holds: all, or a part of the optimizer's state, of gradients, too, of parameters, too",
        "data", ("data", "zero1", "zero2", "zero3"), group="Machine"),
)  # fmt: skip

_OUTPUT = (
    Key("eval-every", "whole", "steps between evaluations", None, least=1, group="Saving", shown="an epoch"),
    Key("save-every", "whole", "steps between checkpoints", None, least=1, group="Saving", shown="at the end"),
    Key("keep", "whole", "checkpoints that are kept, the newest", 2, least=1, group="Saving"),
    Key("keep-best", "whole", "checkpoints with the best evaluations that are kept, too, in `checkpoints/best`", None, least=1,
        group="Saving"),
    Key("metric", "choice", "what `keep-best` and `patience` compare", None, ("loss", "perplexity", "accuracy"), group="Saving",
        shown="loss"),
    Key("patience", "whole", "training ends after so many evaluations that are no better", None, least=1, group="Saving"),
    Key("log-format", "choice", "what training prints", None, ("text", "json"), group="Saving", shown="text"),
    Key("compiler-options", "texts", "more options of the compiler, as they are: `--no-fuse-lora`", group="Saving"),
    Key("runner-options", "texts", "more options of trainc-run, as they are", group="Saving"),
)  # fmt: skip

FINETUNE = Table(*_MODEL, *_ADAPTER, *ROWS, *_LOSS, *_OPTIMIZER, *_TRAINING, *_MACHINE, *_OUTPUT)
