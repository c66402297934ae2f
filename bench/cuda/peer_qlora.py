#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times a QLoRA step of another program on a GPU: `peer_qlora.py --peer PEER --package-path FOLDER`.

The model is Llama-3-8B's shape with --layers layers and random weights, LoRA of rank 16 on all
seven projections, sdpa attention, random tokens; a step is forward, backward, clipping of the global
norm to 1.0 and PyTorch's fused AdamW on the adapters. Peers:

  peft           transformers, bitsandbytes and PEFT
  axolotl        the same model with axolotl's LoRA kernels (lora_mlp_kernel, lora_qkv_kernel,
                 lora_o_kernel), put where its monkeypatches put them
  axolotl-liger  the same with Liger's fused linear cross entropy, RMSNorm and RoPE beside
  unsloth        unsloth's kernels (LoRA, RMSNorm, RoPE, fused cross entropy), in the order in which
                 its Llama calls them. Its trainer and its patches of other libraries are not there,
                 nor its checkpointing with activations in the host's memory.

Types are what each one's own trainer makes of a bf16 model: adapters in f32 under bf16 autocast. With
peft the norms, the embedding and the head are f32, too (prepare_model_for_kbit_training); axolotl casts
these back to bf16, unsloth leaves them. With --quantize none all of the base is bf16 everywhere.
--checkpoint recomputes each layer in the backward pass (torch.utils.checkpoint, not reentrant). Rows are --seq random tokens,
all of them learnt: what packed rows cost, but for attention that sees the row's other documents, too. --mean-length 0.3 makes them
documents of bench/finetune's lengths, padded to the longest of their batch, as a trainer that does not pack gives them; no mask is
passed (with the padding on the right a causal one hides it). tokens_per_s counts what is not padding.

FOLDER is where the peers' packages are, from the registry of Python packages, without what they
need beside (torch, transformers, peft and accelerate are this Python's own):

  pip install --no-deps --target FOLDER bitsandbytes==0.50.2 liger-kernel==0.8.5 axolotl==0.21.0 \\
      unsloth==2026.10.9 unsloth_zoo==2026.10.9

Of axolotl and unsloth only the folders of kernels are imported, since the packages themselves want
all that their trainers do. Weights, tokens and steps are the same for all peers, and so first_loss and
first_norm are but for rounding. Prints one JSON line; for a peer that fails it has the error, the
traceback goes to stderr, and the exit code is 1. Run one peer a process.
"""

import argparse
import contextlib
import importlib.machinery
import json
import logging
import os
import pathlib
import statistics
import sys
import time
import traceback
import types
import warnings

#: Shapes by name: hidden, intermediate, heads, heads of keys and values, vocabulary.
SHAPES = {"llama-3-8b": (4096, 14336, 32, 8, 128256), "tiny": (128, 256, 4, 2, 512)}
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
PEERS = ("peft", "axolotl", "axolotl-liger", "unsloth")
LR = 2e-4


def hollow(name, **attributes):
    """Makes `name` a package of which nothing but the modules that are asked for is imported."""
    parent, _, child = name.rpartition(".")
    paths = sys.modules[parent].__path__ if parent else sys.path
    spec = importlib.machinery.PathFinder.find_spec(name, paths)
    if spec is None:
        raise ImportError(f"there is no {name} in {', '.join(paths)}; --package-path says where to look")
    module = types.ModuleType(name)
    module.__path__ = list(spec.submodule_search_locations)
    module.__spec__ = spec
    vars(module).update(attributes)
    sys.modules[name] = module
    if parent:
        setattr(sys.modules[parent], child, module)


def random_weight(shape, device, dtype):
    import torch

    return torch.empty(shape, device=device, dtype=dtype).normal_(0, 0.02)


def build(arguments, device):
    """The model with its weights made where they stay, one at a time, and quantized there."""
    import torch
    from torch import nn
    from transformers import LlamaConfig, LlamaForCausalLM
    from transformers.models.llama import modeling_llama

    hidden, intermediate, heads, kv_heads, vocab = SHAPES[arguments.shape]
    config = LlamaConfig(
        hidden_size=hidden,
        intermediate_size=intermediate,
        num_attention_heads=heads,
        num_key_value_heads=kv_heads,
        num_hidden_layers=arguments.layers,
        vocab_size=vocab,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0},
        tie_word_embeddings=False,
        use_cache=False,
    )
    bf16 = torch.bfloat16
    with torch.device("meta"):
        model = LlamaForCausalLM._from_config(config, attn_implementation="sdpa", dtype=bf16)
    model.model.rotary_emb = modeling_llama.LlamaRotaryEmbedding(config).to(device)
    for path, module in list(model.named_modules()):
        if isinstance(module, nn.Linear) and path != "lm_head" and arguments.quantize != "none":
            import bitsandbytes as bnb

            quantized = bnb.nn.Linear4bit(
                module.in_features,
                module.out_features,
                bias=False,
                compute_dtype=bf16,
                compress_statistics=True,
                quant_type="nf4",
                device="meta",
            )
            quantized.weight = bnb.nn.Params4bit(
                random_weight(module.weight.shape, device, bf16),
                requires_grad=False,
                compress_statistics=True,
                quant_type="nf4",
                module=quantized,
            ).to(device)
            parent, _, name = path.rpartition(".")
            setattr(model.get_submodule(parent), name, quantized)
        elif isinstance(module, (nn.Linear, nn.Embedding)):
            weight = random_weight(module.weight.shape, device, bf16)
            module.weight = nn.Parameter(weight, requires_grad=False)
        elif "norm" in path.rpartition(".")[2]:
            weight = torch.ones(module.weight.shape, device=device, dtype=bf16)
            module.weight = nn.Parameter(weight, requires_grad=False)
    left = [name for name, tensor in model.state_dict().items() if tensor.is_meta]
    assert not left, f"not made: {left}"
    model.is_loaded_in_4bit = arguments.quantize != "none"
    return model.train()


def add_adapters(model, arguments, back_to_bf16):
    """What QLoRA scripts do with PEFT."""
    import torch
    from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training

    again = {"use_reentrant": False}
    if arguments.quantize != "none" and not back_to_bf16:
        model = prepare_model_for_kbit_training(
            model,
            use_gradient_checkpointing=arguments.checkpoint,
            gradient_checkpointing_kwargs=again,
        )
    if arguments.checkpoint:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs=again)
    lora = LoraConfig(
        r=16,
        lora_alpha=32,
        lora_dropout=0.0,
        bias="none",
        target_modules=PROJECTIONS,
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(model, lora)
    adapters = [p for p in model.parameters() if p.requires_grad]
    assert len(adapters) == 14 * arguments.layers, len(adapters)
    assert all(p.dtype == torch.float32 for p in adapters)
    return model.train()


def hugging_face(model):
    def forward(ids, labels):
        return model(input_ids=ids, labels=labels, use_cache=False).loss

    return forward


def peft(arguments, device):
    model = add_adapters(build(arguments, device), arguments, back_to_bf16=False)
    return model, hugging_face(model)


def axolotl(arguments, device):
    hollow("axolotl")
    hollow("axolotl.kernels")
    hollow("axolotl.utils")
    # Of its utilities the kernels use a logger alone; the real one is part of its command line.
    log = types.ModuleType("axolotl.utils.logging")
    log.get_logger = logging.getLogger
    sys.modules[log.__name__] = log

    from transformers.models.llama import modeling_llama

    if arguments.peer == "axolotl-liger":
        from liger_kernel.transformers import apply_liger_kernel_to_llama

        # The MLP is the LoRA kernel's, as there (lora_mlp_kernel excludes liger_glu_activation).
        apply_liger_kernel_to_llama(swiglu=False)
    from axolotl.kernels import lora

    rotate = modeling_llama.apply_rotary_pos_emb

    def attention(self, hidden_states, position_embeddings=None, attention_mask=None, **kwargs):
        """transformers' forward with the three and the one projection replaced, as the patch writes it."""
        heads = (*hidden_states.shape[:-1], -1, self.head_dim)
        query, key, value = lora.apply_lora_qkv(self, hidden_states)
        query, key, value = (t.view(heads).transpose(1, 2) for t in (query, key, value))
        query, key = rotate(query, key, *position_embeddings)
        attend = modeling_llama.ALL_ATTENTION_FUNCTIONS[self.config._attn_implementation]
        out, weights = attend(
            self, query, key, value, attention_mask, dropout=0.0, scaling=self.scaling, **kwargs
        )
        out = out.reshape(*hidden_states.shape[:-1], -1).contiguous()
        return lora.apply_lora_o(self, out), weights

    model = add_adapters(build(arguments, device), arguments, back_to_bf16=True)
    for layer in model.model.model.layers:
        layer.self_attn.forward = types.MethodType(attention, layer.self_attn)
        layer.mlp.forward = types.MethodType(lora.apply_lora_mlp_swiglu, layer.mlp)
    return model, hugging_face(model)


def unsloth(arguments, device):
    import torch
    import torch.nn.functional as F
    from torch.utils.checkpoint import checkpoint

    hollow("unsloth")
    hollow("unsloth.kernels")
    hollow("unsloth_zoo", DEVICE_TYPE="cuda")
    hollow("unsloth_zoo.temporary_patches")

    from unsloth.kernels.fast_lora import apply_lora_mlp_swiglu, apply_lora_o, apply_lora_qkv
    from unsloth.kernels.rms_layernorm import fast_rms_layernorm
    from unsloth.kernels.rope_embedding import fast_rope_embedding
    from unsloth_zoo.fused_losses import unsloth_fused_ce_loss

    model = add_adapters(build(arguments, device), arguments, back_to_bf16=True)
    llama, head = model.model.model, model.model.lm_head
    positions = torch.arange(arguments.seq, device=device)[None]
    with torch.no_grad():
        cos, sin = llama.rotary_emb(head.weight, positions)  # its type is the head's
    cos, sin = cos[0].contiguous(), sin[0].contiguous()

    def attention(module, hidden):
        batch, seq, _ = hidden.shape
        query, key, value = (
            t.view(batch, seq, -1, module.head_dim).transpose(1, 2)
            for t in apply_lora_qkv(module, hidden)
        )
        query, key = fast_rope_embedding(query, key, cos, sin)
        out = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return apply_lora_o(module, out.transpose(1, 2).reshape(batch, seq, -1))

    def norm(module, hidden):
        return fast_rms_layernorm(module, hidden, save_output=True, reuse_grad=True)

    def run_layer(layer, hidden):
        hidden = hidden + attention(layer.self_attn, norm(layer.input_layernorm, hidden))
        return hidden + apply_lora_mlp_swiglu(
            layer.mlp, norm(layer.post_attention_layernorm, hidden)
        )

    def forward(ids, labels):
        hidden = llama.embed_tokens(ids)
        for layer in llama.layers:
            if arguments.checkpoint:
                hidden = checkpoint(run_layer, layer, hidden, use_reentrant=False)
            else:
                hidden = run_layer(layer, hidden)
        return unsloth_fused_ce_loss(
            trainer=None,
            hidden_states=fast_rms_layernorm(llama.norm, hidden, reuse_grad=True),
            lm_head_weight=head.weight,
            lm_head_bias=None,
            labels=labels,
            torch_compile=True,
        )

    return model, forward


def make_batch(arguments, vocab, index):
    """(tokens, labels), both [batch, longest of the batch rounded up to 8]; labels are -100 where a row has ended."""
    import torch

    lengths = [arguments.seq] * arguments.batch
    if arguments.mean_length:
        sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "finetune"))
        from make_model import document_lengths

        lengths = document_lengths(2000, arguments.seq, arguments.mean_length)
        lengths = [int(lengths[(index * arguments.batch + i) % len(lengths)]) for i in range(arguments.batch)]
    longest = -(-max(lengths) // 8) * 8
    ids = torch.randint(vocab, (arguments.batch, longest), device=arguments.device)
    ended = torch.arange(longest, device=arguments.device)[None] >= torch.tensor(lengths, device=arguments.device)[:, None]
    return ids, ids.masked_fill(ended, -100)


def measure(arguments, begin):
    import torch

    device = arguments.device
    cuda = device == "cuda"
    torch.manual_seed(1)
    make = {"peft": peft, "unsloth": unsloth}.get(arguments.peer, axolotl)
    model, forward = make(arguments, device)
    adapters = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(adapters, lr=LR, weight_decay=0.01, fused=True)
    vocab = SHAPES[arguments.shape][-1]
    batches = [make_batch(arguments, vocab, index) for index in range(arguments.warmup + arguments.steps)]

    def step(ids, labels):
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device, torch.bfloat16):
            loss = forward(ids, labels)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(adapters, 1.0)
        optimizer.step()
        return loss.detach(), norm

    def mark():
        if not cuda:
            return time.perf_counter()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    result = {"weights": torch.cuda.memory_allocated() if cuda else 0, "build_s": time.monotonic() - begin}
    marks = []
    result["first_loss"], result["first_norm"] = (value.item() for value in step(*batches[0]))
    result["first_step_s"] = time.monotonic() - begin - result["build_s"]
    for i in range(1, arguments.warmup + arguments.steps):
        if i >= arguments.warmup and not marks:
            marks.append(mark())
        loss, norm = step(*batches[i])
        if marks:
            marks.append(mark())
        if i % 4 == 0 and cuda:
            torch.cuda.synchronize()  # or the deadline would be looked at long before the steps are done
        if time.monotonic() - begin > arguments.deadline:
            break
    if cuda:
        torch.cuda.synchronize()
    pairs = list(zip(marks, marks[1:]))
    times = [a.elapsed_time(b) if cuda else (b - a) * 1e3 for a, b in pairs]
    if not times:
        raise TimeoutError(f"no step was timed in {arguments.deadline} s")
    result.update(step_ms=statistics.median(times), min_ms=min(times), max_ms=max(times))
    result.update(steps=len(times), last_loss=loss.item(), last_norm=norm.item())
    valid = [int((labels != -100).sum()) for _, labels in batches[arguments.warmup :][: len(times)]]
    result["tokens_per_s"] = sum(valid) / sum(times) * 1e3
    if cuda:
        result["peak_allocated"] = torch.cuda.max_memory_allocated()
        result["peak_reserved"] = torch.cuda.max_memory_reserved()
        result["device"] = torch.cuda.get_device_name()
    # 14 a layer where no kernel leaves one out.
    result["gradients"] = sum(p.grad is not None and bool(p.grad.any()) for p in adapters)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", choices=PEERS, required=True)
    parser.add_argument("--shape", choices=SHAPES, default="llama-3-8b")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--mean-length", type=float, metavar="SHARE", help="of --seq; without it all rows are full")
    parser.add_argument("--quantize", choices=("nf4:double", "none"), default="nf4:double")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--warmup", type=int, default=6)
    parser.add_argument("--package-path", metavar="FOLDER", help="where the peers' packages are")
    parser.add_argument("--deadline", type=float, default=120, metavar="SECONDS", help="no step after")
    parser.add_argument("--device", default="cuda")
    arguments = parser.parse_args()
    if arguments.warmup < 1 or arguments.steps < 1:
        parser.error("--warmup and --steps are at least 1")
    begin = time.monotonic()
    warnings.filterwarnings("ignore")
    if arguments.package_path:
        sys.path.append(os.path.abspath(arguments.package_path))
    names = ("peer", "batch", "seq", "layers", "checkpoint", "quantize", "mean_length")
    line = {name: getattr(arguments, name) for name in names}
    try:
        # Whatever the libraries print does not belong into the line.
        with contextlib.redirect_stdout(sys.stderr):
            line.update(measure(arguments, begin))
    except Exception as error:
        traceback.print_exc()
        line["error"] = f"{type(error).__name__}: {error}"[:400]
    with contextlib.suppress(ImportError):
        import torch
        import transformers

        line.update(torch=torch.__version__, transformers=transformers.__version__)
    print(json.dumps(line), flush=True)
    return 1 if "error" in line else 0


if __name__ == "__main__":
    sys.exit(main())
