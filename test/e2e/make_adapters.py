#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/adapters/NAME/: what the tests of adapter files compare with. Needs torch,
transformers, onnx and peft; the tests themselves need numpy only.

  make_adapters.py                 the committed files
  make_adapters.py --check DIR     DIR/NAME/ are adapters that trainc-run wrote, with its logits:
                                   PEFT loads them and gives the same logits

For every model: model.onnx, the graph with its adapters; lora.json, the section of the manifest;
peft/, the adapter as PEFT saves it; data.npz; ref.npz, PEFT's logits with the adapter, and the
weights that it merges ("merged/NAME").
"""

import argparse
import json
import pathlib
import sys
import warnings

import numpy as np
import onnx
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.numpy import load_file

import export_training

HERE = pathlib.Path(__file__).parent
AXES = {name: {0: "batch", 1: "seq"} for name in ("input_ids", "labels")}
TOKENS = dict(pad_token_id=0, bos_token_id=1, eos_token_id=2)
LLAMA = dict(
    vocab_size=61, hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
    num_key_value_heads=1, intermediate_size=24, max_position_embeddings=40, initializer_range=0.1,
)
GPT2 = dict(
    vocab_size=61, n_embd=16, n_head=2, n_layer=1, n_inner=24, n_positions=40,
    initializer_range=0.1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)


def models():
    """{name: (base model, LoraConfig)}: what differs between adapters is in one of them."""
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, **TOKENS))
    gpt2 = transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2, **TOKENS))
    return {
        "llama": (
            llama,
            LoraConfig(
                r=4, lora_alpha=6, use_rslora=True, modules_to_save=["lm_head"],
                target_modules=["q_proj", "v_proj", "down_proj", "embed_tokens"],
                rank_pattern={"down_proj": 2}, alpha_pattern={"layers.0.self_attn.v_proj": 5},
            ),
        ),
        "gpt2": (
            gpt2,
            LoraConfig(
                r=3, lora_alpha=12, use_dora=True, fan_in_fan_out=True, bias="all",
                target_modules=["c_attn", "mlp.c_proj"],
            ),
        ),
    }


def plain(name):
    """The name of the model without PEFT's wrappers, as packages have it."""
    name = name.removeprefix("base_model.model.")
    for part in (".base_layer", ".default", ".modules_to_save"):
        name = name.replace(part, "")
    return name.removesuffix(".weight") if name.endswith("lora_magnitude_vector.weight") else name


def section(model, config):
    """What the manifest says of the adapters."""
    modules, trained, prefix = [], [], "base_model.model."
    for path, layer in model.named_modules():
        if not hasattr(layer, "lora_A"):
            continue
        path = path.removeprefix(prefix)
        embedding = bool(len(layer.lora_embedding_A))
        a, b = ("lora_embedding_A", "lora_embedding_B") if embedding else ("lora_A.weight", "lora_B.weight")
        module = dict(
            path=path, weight=f"{path}.weight", a=f"{path}.{a}", b=f"{path}.{b}",
            rank=layer.r["default"], alpha=layer.lora_alpha["default"],
            scale=layer.scaling["default"], embedding=embedding,
            fan_in_fan_out=layer.fan_in_fan_out and not embedding,
        )
        if config.use_dora:
            module["magnitude"] = f"{path}.lora_magnitude_vector"
        modules.append(module)
    if config.bias == "all":
        trained = [plain(n) for n, _ in model.named_parameters() if n.endswith(".bias")]
    saved = [plain(n) for n, _ in model.named_parameters() if ".modules_to_save." in n]
    return dict(
        rank=config.r, alpha=config.lora_alpha, dropout=0.0, rslora=config.use_rslora,
        dora=config.use_dora, modules=modules, modules_to_save=saved, bias=config.bias,
        trained_biases=trained,
    )


def rename(path, model):
    """Gives initializers their plain names, wherever they are named, and lists all parameters as
    trainable: what the list lacks counts as a constant."""
    proto = onnx.load(path)
    names = {tensor.name: plain(tensor.name) for tensor in proto.graph.initializer}
    if len(set(names.values())) != len(names):
        raise ValueError("two parameters have one plain name")
    for tensor in proto.graph.initializer:
        tensor.name = names[tensor.name]
    for node in proto.graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
    parameters = {plain(name) for name, _ in model.named_parameters()}
    listed = [name for name in names.values() if name in parameters]
    onnx.helper.set_model_props(proto, {"trainable": "\n".join(listed)})
    onnx.save(proto, path)


def make(name, base, config, out):
    out.mkdir(parents=True, exist_ok=True)
    weights = {n: p.clone() for n, p in base.state_dict().items()}
    model = get_peft_model(base, config)
    with torch.no_grad():  # a fresh adapter does nothing, and biases of 0 show nothing
        for n, p in model.named_parameters():
            if p.requires_grad:
                p.add_(torch.randn_like(p) * 0.1)
    model.save_pretrained(out / "peft", save_embedding_layers=False)
    (out / "peft" / "README.md").unlink()
    rng = np.random.default_rng(4)
    data = {n: rng.integers(3, 61, (2, 9)) for n in AXES}
    np.savez(out / "data.npz", **data)
    batch = {n: torch.from_numpy(v) for n, v in data.items()}
    export_training.export_for_training(model, batch, AXES, out / "model.onnx")
    rename(out / "model.onnx", model)
    (out / "lora.json").write_text(json.dumps(section(model, config), indent=1) + "\n")
    arrays = {"logits": model.double()(**batch).logits.detach().numpy()}
    merged = model.merge_and_unload().state_dict()
    arrays.update({f"merged/{n}": v.numpy() for n, v in merged.items() if n in weights})
    np.savez_compressed(out / "ref.npz", **arrays)


def check(name, base, folder, data):
    """PEFT's logits with the adapter in `folder` against trainc-run's beside it."""
    model = PeftModel.from_pretrained(base, folder).double().eval()
    batch = {n: torch.from_numpy(v) for n, v in np.load(data).items()}
    logits = model(**batch).logits.detach().numpy()
    ours = load_file(folder / "logits.safetensors")["logits"]
    error = np.linalg.norm(ours - logits) / np.linalg.norm(logits)
    print(f"{name}: logits are off by {error:.1e}")
    return error < 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=pathlib.Path)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.manual_seed(3)
    good = True
    for name, (base, config) in models().items():
        out = HERE / "models" / "adapters" / name
        if arguments.check:
            good &= check(name, base, arguments.check / name, out / "data.npz")
        else:
            make(name, base, config, out)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
