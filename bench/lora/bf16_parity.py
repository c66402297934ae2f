#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""How far QLoRA gradients in bf16 are from fp64, ours beside PEFT with bitsandbytes.

  bf16_parity.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--family qwen2]

A small model with bf16 weights, NF4 with quantized scales and adapters whose B is not zero. The
reference takes the weights from bitsandbytes' codes and scales, expanded in fp64, and computes all in
fp64 (but for what transformers does in f32 whatever the type: norms, softmax, angles). Beside it:

  peft   bf16 autocast on a model that prepare_model_for_kbit_training has seen: norms, embedding and
         head in f32, so that the residual stream is, too
  bf16   bf16 autocast with these left in bf16, as in axolotl and unsloth
  ours   the model's export in bf16 (or, with --dtype float32, in f32 and --precision bf16),
         `trainc --lora --quantize nf4:double`, the same adapter file

Prints each adapter tensor's error relative to the norm of its gradient for the first seed, and the ratios
of ours to the others; exit code 1 where ours is further off than `peft`: by the mean over all tensors and
seeds, or by the loss. The error of one loss is a random number of either sign, three of them say little
(of one seed ours was 2.2 times peft's): so it is the root mean square over the seeds, and 1.5 times
peft's are allowed, which is what 16 seeds can tell.

Needs torch, transformers, peft, bitsandbytes, onnx, onnxscript and safetensors.

Where the compiler is not on the machine with the GPU: `--folder FOLDER --target cuda:sm_90 --compile-only`
on one machine, then `--folder FOLDER` on the other, with bitsandbytes for CUDA there.
"""

import argparse
import copy
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import warnings

import bitsandbytes as bnb
import numpy as np
import torch
import transformers
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from safetensors.torch import load_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
FAMILIES = {
    "llama": (transformers.LlamaConfig, transformers.LlamaForCausalLM),
    "qwen2": (transformers.Qwen2Config, transformers.Qwen2ForCausalLM),
}


def make_model(arguments, seed):
    """The base model in bf16: what all sides start from."""
    config, model = FAMILIES[arguments.family]
    config = config(
        vocab_size=1000,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=arguments.layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=0.06,  # activations of the size that trained models have
        tie_word_embeddings=False,
        use_cache=False,
        bos_token_id=None,
        eos_token_id=None,
    )
    torch.manual_seed(seed)
    model = model._from_config(config, attn_implementation="eager", dtype=torch.bfloat16)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.add_(torch.randn_like(parameter) * 0.1)
            elif name.endswith(".bias"):
                parameter.normal_(0, 0.1)
    return model


def quantize(model, device):
    """Projections in bitsandbytes' NF4, but for the head."""
    for path, module in list(model.named_modules()):
        if not isinstance(module, torch.nn.Linear) or path == "lm_head":
            continue
        linear = bnb.nn.Linear4bit(
            module.in_features,
            module.out_features,
            bias=module.bias is not None,
            compute_dtype=torch.bfloat16,
            compress_statistics=True,
            quant_type="nf4",
        )
        linear.weight = bnb.nn.Params4bit(
            module.weight.data, requires_grad=False, compress_statistics=True, quant_type="nf4", module=linear
        )
        linear.bias = module.bias
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, linear)
    model.is_loaded_in_4bit = True
    return model.to(device)


def expand(weight):
    """A weight of bitsandbytes in fp64: code * (code of the scale * scale of scales + their mean)."""
    state = weight.quant_state
    nested = state.state2
    packed = weight.data.reshape(-1).cpu()
    codes = torch.stack([packed >> 4, packed & 15], 1).reshape(-1).long()
    scales = nested.code.double().cpu()[state.absmax.cpu().long()]
    per_scale = nested.absmax.double().cpu().repeat_interleave(nested.blocksize)[: scales.numel()]
    scales = scales * per_scale + state.offset.double().cpu()
    count = torch.Size(state.shape).numel()
    values = state.code.double().cpu()[codes[:count]]
    return (values * scales.repeat_interleave(state.blocksize)[:count]).reshape(state.shape)


def dequantize(model, quantized):
    """`model` in fp64 with the weights that `quantized` stands for."""
    model = model.double()
    for path, module in quantized.named_modules():
        if isinstance(module, bnb.nn.Linear4bit):
            exact = expand(module.weight)
            near = bnb.functional.dequantize_4bit(module.weight.data, module.weight.quant_state)
            # Of the right codes in the right order: no more than bf16's rounding is between them.
            assert (exact - near.double().cpu()).abs().max() <= 2.0**-8 * exact.abs().max(), path
            model.get_submodule(path).weight.data = exact
    return model


def adapt(model, adapters=None):
    config = LoraConfig(r=16, lora_alpha=32, target_modules=PROJECTIONS, task_type="CAUSAL_LM")
    model = get_peft_model(model, config).train()
    trained = {
        name.removeprefix("base_model.model.").replace(".default", ""): parameter
        for name, parameter in model.named_parameters()
        if parameter.requires_grad
    }
    with torch.no_grad():
        for name, parameter in trained.items():
            if adapters:
                parameter.copy_(adapters[name])
            elif name.endswith("lora_B.weight"):
                parameter.normal_(0, 0.02)
    return model, trained


def gradients(model, trained, ids, autocast):
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=autocast):
        loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    return loss.item(), {name: p.grad.double().cpu() for name, p in trained.items()}


def run(*command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def compile_package(arguments, folder):
    """The package of the model in `folder`, which reads the weights where they are."""
    make_model(arguments, 0).save_pretrained(folder)
    run(sys.executable, ROOT / "examples/export/causal_lm.py", "--model", folder, "--dtype", arguments.dtype,
        "--no-attention-mask", "--output", folder / "model.onnx")  # fmt: skip
    run(arguments.trainc, folder / "model.onnx", "--target", arguments.target, "-o", folder / "model.tpk",
        "--lora", "r=16,alpha=32", "--quantize", "nf4:double",
        *(["--precision", "bf16"] if arguments.dtype == "float32" else []), *arguments.trainc_option)  # fmt: skip


def ours(arguments, folder, ids):
    """Loss and gradients of the package, for the weights and the adapter in `folder`."""
    np.savez(folder / "data.npz", input_ids=ids.cpu().numpy(), labels=ids.cpu().numpy())
    found = folder / "gradients.safetensors"
    lines = run(arguments.trainc_run, folder / "model.tpk", "--data", folder / "data.npz", "--batch-size",
                len(ids), "--weights", folder / "model.safetensors", "--adapter", folder / "adapter",
                "--dump-gradients", found, "--log-format", "json")  # fmt: skip
    losses = [line["loss"] for line in map(json.loads, lines.splitlines()) if "event" not in line]
    return losses[0], {name: value.double() for name, value in load_file(found).items()}


def errors(expected, actual):
    if missing := expected.keys() ^ actual.keys():
        sys.exit(f"gradients of one side alone: {', '.join(sorted(missing))}")
    return {name: ((actual[name] - g).norm() / g.norm()).item() for name, g in expected.items()}


def compare(arguments, folder, seed):
    """{side: ({tensor: error}, error of the loss)} of one seed."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    base = make_model(arguments, seed)
    ids = torch.randint(1000, (arguments.batch, arguments.seq), device=device)
    quantized = quantize(copy.deepcopy(base), device)
    double, trained = adapt(dequantize(copy.deepcopy(base), quantized))
    adapters = {name: value.detach().float().clone() for name, value in trained.items()}
    double.double()
    for name, parameter in trained.items():
        parameter.data = adapters[name].double()  # what f32 holds
    loss, expected = gradients(double, trained, ids.cpu(), False)

    found = {}
    kbit = {"use_gradient_checkpointing": False}
    model = prepare_model_for_kbit_training(quantize(copy.deepcopy(base), device), **kbit)
    model, trained = adapt(model, adapters)
    found["peft"] = gradients(model, trained, ids, True)
    model, trained = adapt(quantized, adapters)
    found["bf16"] = gradients(model, trained, ids, True)
    base.save_pretrained(folder)
    model.save_pretrained(folder / "adapter")
    found["ours"] = ours(arguments, folder, ids)
    return {
        side: (errors(expected, values), (value - loss) / loss) for side, (value, values) in found.items()
    }


def show(peft, bf16, own):
    print(f"{'tensor':32} {'peft':>8} {'bf16':>8} {'ours':>8} ours/peft ours/bf16")
    for name, error in own.items():
        short = name.removeprefix("model.layers.").removesuffix(".weight")
        print(f"{short:32} {peft[name]:8.1e} {bf16[name]:8.1e} {error:8.1e}"
              f" {error / peft[name]:9.2f} {error / bf16[name]:9.2f}", flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", default="trainc")
    parser.add_argument("--trainc-run", default="trainc-run")
    parser.add_argument("--family", choices=FAMILIES, default="llama")
    parser.add_argument("--dtype", choices=("bfloat16", "float32"), default="bfloat16",
                        help="of our export; float32 is compiled with --precision bf16")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--target", help="of trainc (default: cuda:sm_90 where there is a GPU, else cpu)")
    parser.add_argument("--folder", type=pathlib.Path, help="where the package stays, and is taken from")
    parser.add_argument("--compile-only", action="store_true")
    parser.add_argument("--trainc-option", action="append", default=[], help="another one for trainc")
    arguments = parser.parse_args()
    arguments.target = arguments.target or ("cuda:sm_90" if torch.cuda.is_available() else "cpu")
    warnings.filterwarnings("ignore")
    total = {"peft": [], "bf16": [], "ours": []}
    losses = {side: [] for side in total}
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or pathlib.Path(temporary)
        if not (folder / "model.tpk").exists():
            compile_package(arguments, folder)
        if arguments.compile_only:
            return 0
        for seed in range(arguments.seeds):
            found = compare(arguments, folder, seed)
            if seed == 0:
                show(*(found[side][0] for side in total))
            for side in total:
                total[side] += found[side][0].values()
                losses[side].append(found[side][1])
    mean = {side: statistics.fmean(values) for side, values in total.items()}
    loss = {side: statistics.fmean(e * e for e in values) ** 0.5 for side, values in losses.items()}
    for side in total:
        print(f"{side}: mean error {mean[side]:.3e}, largest {max(total[side]):.3e}; loss {loss[side]:.2e}, "
              f"at most {max(map(abs, losses[side])):.2e}; {arguments.seeds} seeds")  # fmt: skip
    for side in ("peft", "bf16"):
        print(f"ours/{side}: {mean['ours'] / mean[side]:.3f}, loss {loss['ours'] / loss[side]:.2f}")
    return int(mean["ours"] > mean["peft"] or loss["ours"] > 1.5 * loss["peft"])


if __name__ == "__main__":
    sys.exit(main())
