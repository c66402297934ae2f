#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes models/peft/NAME/: what training by PEFT gives, for peft_training.py to compare with. Needs
torch, transformers, onnx and peft; the test itself needs numpy only.

For every model: model.onnx, the base alone; data.npz; case.json, what `--lora` says and what PEFT
does with it; peft/, the adapter that training begins with; ref.npz: the loss and its gradients in
double ("gradient/NAME" by the names of adapter files), how far float is off, the losses of some
steps of AdamW, and the merged weights after them ("merged/NAME").
"""

import argparse
import json
import pathlib
import shutil
import warnings

import numpy as np
import onnx
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from peft.utils import get_peft_model_state_dict

import export_training

HERE = pathlib.Path(__file__).parent
AXES = {name: {0: "batch", 1: "seq"} for name in ("input_ids", "labels")}
TOKENS = dict(bos_token_id=1, eos_token_id=2, pad_token_id=0, tie_word_embeddings=False)
STEPS, RATE, DECAY = 6, 0.01, 0.01
LLAMA = dict(
    vocab_size=61, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
    num_key_value_heads=1, intermediate_size=24, max_position_embeddings=40, initializer_range=0.1,
)
GPT2 = dict(
    vocab_size=61, n_embd=16, n_head=2, n_layer=2, n_inner=24, n_positions=40,
    initializer_range=0.1, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
)


def llama():
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA, **TOKENS))


def gpt2():
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**GPT2, **TOKENS))


def cases():
    """{name: (makes the base model, --lora, LoraConfig)}"""
    return {
        "embedding": (
            llama,
            "r=4,alpha=6,targets=q_proj|embed_tokens|lm_head,r[embed]=3",
            LoraConfig(
                r=4, lora_alpha=6, target_modules=["q_proj", "embed_tokens", "lm_head"],
                rank_pattern={"embed_tokens": 3},
            ),
        ),
        "dora": (
            llama,
            "dora,r=4,alpha=6,targets=(q|down)_proj|embed_tokens",
            LoraConfig(
                r=4, lora_alpha=6, use_dora=True,
                target_modules=["q_proj", "down_proj", "embed_tokens"],
            ),
        ),
        # Weights [in, out], and biases behind the products.
        "dora-gpt2": (
            gpt2,
            "r=3,alpha=6,rslora,dora,targets=c_proj,bias=lora_only",
            LoraConfig(
                r=3, lora_alpha=6, use_rslora=True, use_dora=True, fan_in_fan_out=True,
                target_modules=["c_proj"], bias="lora_only",
            ),
        ),
        # The graph has the adapter.
        "existing": (
            llama,
            "existing,rslora",
            LoraConfig(
                r=4, lora_alpha=6, use_rslora=True, target_modules=["q_proj", "down_proj", "v_proj"],
                rank_pattern={"down_proj": 2}, alpha_pattern={"v_proj": 5},
                modules_to_save=["lm_head"],
            ),
        ),
        "existing-torchscript": (
            gpt2,
            "existing,bias=lora_only",
            LoraConfig(
                r=3, lora_alpha=7, fan_in_fan_out=True, target_modules=["c_proj", "lm_head"],
                bias="lora_only",
            ),
        ),
    }


def adapter_of(model):
    """{name in adapter files: parameter}; which state_dict's tensors share memory with."""
    by_memory = {p.data_ptr(): p for p in model.parameters() if p.requires_grad}
    state = get_peft_model_state_dict(model, save_embedding_layers=False)
    return {name: by_memory[tensor.data_ptr()] for name, tensor in state.items()}


def loss_and_gradients(model, batch):
    model.zero_grad(set_to_none=True)
    loss = model(**batch).loss
    loss.backward()
    return loss.item(), {n: p.grad.double().numpy().copy() for n, p in adapter_of(model).items()}


def strip(path):
    """Only keeps the exporter's notes that tell what the operators do not."""
    proto = onnx.load(path)
    for node in proto.graph.node:
        notes = [n for n in node.metadata_props if n.key == "pkg.torch.onnx.fx_node"]
        node.ClearField("metadata_props")
        if node.op_type == "Gather":
            node.metadata_props.extend(notes)
        node.doc_string = ""
    for value in list(proto.graph.value_info) + list(proto.graph.input):
        del value.metadata_props[:]
    onnx.save(proto, path)


class Outputs(torch.nn.Module):
    """What the TorchScript exporter can follow."""

    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, input_ids, labels):
        output = self.inner(input_ids=input_ids, labels=labels)
        return output.loss, output.logits


def export(model, batch, path, name):
    if name.endswith("torchscript"):
        export_training.export_by_position(
            Outputs(model), batch, AXES, path, opset=17, exporter="torchscript"
        )
    else:
        export_training.export_for_training(model, batch, AXES, path, keep_traces=True)
    strip(path)


def make(name, base, text, config, out):
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    rng = np.random.default_rng(4)
    data = {n: rng.integers(3, LLAMA["vocab_size"], (4, 9)) for n in AXES}
    data["input_ids"][:2, 7:] = 0  # padding, whose row PyTorch does not train
    np.savez(out / "data.npz", **data)
    batch = {n: torch.from_numpy(v) for n, v in data.items()}
    existing = "existing" in text
    if not existing:
        export(base, batch, out / "model.onnx", name)
    state = {n: p.clone() for n, p in base.state_dict().items()}

    model = get_peft_model(base, config)
    fresh = {n: p.detach().numpy().copy() for n, p in adapter_of(model).items()}
    with torch.no_grad():  # a fresh adapter does nothing
        for p in adapter_of(model).values():
            p.add_(torch.randn_like(p) * 0.1)
    if existing:
        export(model, batch, out / "model.onnx", name)
    model.save_pretrained(out / "peft", save_embedding_layers=False)
    (out / "peft" / "README.md").unlink()
    (out / "case.json").write_text(
        json.dumps(dict(lora=text, steps=STEPS, lr=RATE, weight_decay=DECAY), indent=1) + "\n"
    )
    single, noise = loss_and_gradients(model, batch)
    model.double()
    loss, gradients = loss_and_gradients(model, batch)
    arrays = {"loss": np.float64(loss), "loss_noise": np.float64(abs(single - loss))}
    for key, gradient in gradients.items():
        arrays[f"gradient/{key}"] = gradient
        arrays[f"noise/{key}"] = np.linalg.norm(noise[key] - gradient)
    # What PEFT computes of the weights, and not at random.
    if not existing:
        arrays.update({f"fresh/{n}": v for n, v in fresh.items() if "magnitude" in n or not v.any()})

    optimizer = torch.optim.AdamW(list(adapter_of(model).values()), lr=RATE, weight_decay=DECAY)
    losses = []
    for _ in range(STEPS):
        losses.append(loss_and_gradients(model, batch)[0])
        optimizer.step()
    arrays["curve"] = np.array(losses)
    arrays.update({f"trained/{n}": p.detach().numpy() for n, p in adapter_of(model).items()})
    merged = model.merge_and_unload().state_dict()
    arrays.update({f"merged/{n}": v.float().numpy() for n, v in merged.items() if n in state})
    np.savez_compressed(out / "ref.npz", **arrays)


def check(name, base, folder):
    """PEFT's logits with the adapter in `folder` against trainc-run's beside it."""
    model = PeftModel.from_pretrained(base, folder).double().eval()
    data = np.load(HERE / "models" / "peft" / name / "data.npz")
    logits = model(**{n: torch.from_numpy(v) for n, v in data.items()}).logits.detach().numpy()
    ours = np.load(folder / "logits.npz")["logits"]
    error = np.linalg.norm(ours - logits) / np.linalg.norm(logits)
    print(f"{name}: logits are off by {error:.1e}")
    return error < 1e-6


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", type=pathlib.Path,
                        help="let PEFT read the adapters that peft_training.py --out left here")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    good = True
    for name in arguments.names or cases():
        torch.manual_seed(3)
        base, text, config = cases()[name]
        base = base()
        if arguments.check:
            good &= check(name, base, arguments.check / name)
        else:
            make(name, base, text, config, HERE / "models" / "peft" / name)
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
