#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a model's folder with random weights and a folder of rows of random tokens: `make_model.py SHAPE FOLDER`.

For timings where no model can be downloaded: FOLDER/model is what `save_pretrained` writes (config.json, bf16 .safetensors of at
most 4 GiB, a tokenizer of single words), FOLDER/rows.jsonl are documents of random tokens. Their lengths are log-normal, cut at
--length, and --mean of it on average, as those of chats are. --sparse leaves the weights zero, which takes no room on the disk:
enough to export, compile and predict. Needs torch, transformers, tokenizers.
"""

import argparse
import json
import pathlib
import struct

import numpy as np

#: hidden, intermediate, heads, heads of keys and values, layers, vocabulary, head size, tied.
SHAPES = {
    "llama-3-8b": ("llama", 4096, 14336, 32, 8, 32, 128256, 128, False),
    "llama-1b": ("llama", 2048, 8192, 32, 8, 16, 128256, 64, True),
    "qwen3-0.6b": ("qwen3", 1024, 3072, 16, 8, 28, 151936, 128, True),
    "tiny": ("llama", 64, 128, 4, 2, 2, 512, 16, False),
}
SHARD = 2**32


def configuration(shape):
    import transformers

    kind, hidden, intermediate, heads, kv_heads, layers, vocab, head, tied = SHAPES[shape]
    make = {"llama": transformers.LlamaConfig, "qwen3": transformers.Qwen3Config}[kind]
    return make(
        hidden_size=hidden, intermediate_size=intermediate, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head,
        num_hidden_layers=layers, vocab_size=vocab, tie_word_embeddings=tied, max_position_embeddings=8192, rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 500000.0}, dtype="bfloat16", bos_token_id=1, eos_token_id=2, pad_token_id=0,
    )  # fmt: skip


def write_weights(config, folder, sparse):
    """Normal numbers of deviation 0.02, norms 1; one tensor at a time, on the GPU where there is one."""
    import torch
    import transformers

    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    drop = {"lm_head.weight"} if config.tie_word_embeddings else set()
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters() if name not in drop}
    shards, size = [[]], 0
    for name, shape in shapes.items():
        many = 2 * int(np.prod(shape))
        if size and size + many > SHARD:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += many
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(1)
    index = {}
    for number, names in enumerate(shards):
        file = f"model-{number + 1:05}-of-{len(shards):05}.safetensors"
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name in names:
            many = 2 * int(np.prod(shapes[name]))
            header[name] = {"dtype": "BF16", "shape": shapes[name], "data_offsets": [offset, offset + many]}
            offset += many
            index[name] = file
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            for name in names if not sparse else ():
                plain = "norm" in name
                values = torch.ones(shapes[name], device=device) if plain else torch.empty(shapes[name], device=device).normal_(0, 0.02)
                out.write(values.bfloat16().view(torch.uint8).cpu().numpy())
            out.truncate(8 + len(text) + offset)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": index}))


def write_tokenizer(config, folder):
    """A word for each number of the vocabulary: as many as the model has, so that it is the model's own."""
    import tokenizers
    import transformers

    words = {"<pad>": 0, "<s>": 1, "</s>": 2, "<unk>": 3, **{f"w{i}": i for i in range(4, config.vocab_size)}}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, unk_token="<unk>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    wrapped = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    )
    wrapped.save_pretrained(folder)


def document_lengths(count, longest, mean, seed=0):
    """Log-normal of shape 0.8, scaled until the mean of what is cut at `longest` is `mean * longest`; at least 16."""
    normal = np.random.default_rng(seed).lognormal(0, 0.8, count)
    low, high = 1.0, 4.0 * longest
    while high - low > 0.5:
        middle = (low + high) / 2
        reached = np.clip(normal * middle, 16, longest).mean()
        low, high = (middle, high) if reached < mean * longest else (low, middle)
    return np.clip(normal * low, 16, longest).astype(int)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--length", type=int, default=2048)
    parser.add_argument("--mean", type=float, default=0.3, help="of --length")
    parser.add_argument("--documents", type=int, default=2000)
    parser.add_argument("--sparse", action="store_true", help="all weights zero, in files without content")
    arguments = parser.parse_args()
    config = configuration(arguments.shape)
    model = arguments.folder / "model"
    model.mkdir(parents=True, exist_ok=True)
    config.architectures = [{"llama": "LlamaForCausalLM", "qwen3": "Qwen3ForCausalLM"}[config.model_type]]
    config.save_pretrained(model)
    write_weights(config, model, arguments.sparse)
    write_tokenizer(config, model)
    lengths = document_lengths(arguments.documents, arguments.length, arguments.mean)
    tokens = np.random.default_rng(1)
    with open(arguments.folder / "rows.jsonl", "w") as out:
        for length in lengths:
            text = " ".join(f"w{i}" for i in tokens.integers(4, config.vocab_size, length - 1))  # and the end
            out.write(json.dumps({"text": text}) + "\n")
    print(f"{arguments.folder}: {len(lengths)} documents, {lengths.mean():.1f} tokens on average, at most {lengths.max()}")


if __name__ == "__main__":
    main()
