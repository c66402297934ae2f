#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Rows of text from two dictionaries, and a small Llama that has learnt nothing yet.

  prepare.py WN.dict.dz DEVIL.dict.dz OUT

OUT/words.jsonl: words with their meanings in WordNet, as plain text. OUT/chat.jsonl and held.jsonl: words as a user asks for
them, and what The Devil's Dictionary answers. OUT/base: a tokenizer made of both, and a model of 4 million random numbers.
"""

import gzip
import json
import pathlib
import random
import re
import sys

TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}"
    "{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def wordnet(text):
    """(word, first meaning) of each entry."""
    for entry in re.split(r"\n(?=\S)", text):
        word, _, body = entry.partition("\n")
        meaning = re.sub(r"\s+", " ", body).strip()
        found = re.match(r"(n|v|adj|adv) ?\d*: (.*?)(?: \[syn| \[ant|; \"| \d+: |$)", meaning)
        if found and word[0].isalpha() and len(found[2]) > 20:
            yield word, found[2]


def devil(text):
    """(word, definition) of each entry that begins with WORD, n. or the like; its first paragraph."""
    for entry in re.findall(r"^([A-Z][A-Z' -]+), (?:n|adj|v\.[ti]|pro|adv)\. +(.*?)(?=\n\n)", text, re.M | re.S):
        definition = re.sub(r"\s+", " ", entry[1]).strip()
        if 20 < len(definition) < 500:
            yield entry[0].lower(), definition


def read(path):
    return gzip.decompress(pathlib.Path(path).read_bytes()).decode("utf-8", "replace").replace("\r", "")


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    print(f"{path}: {len(rows)} rows")


def tokenizer(texts, folder):
    import tokenizers
    import transformers

    made = tokenizers.Tokenizer(tokenizers.models.BPE())
    made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=4096, special_tokens=["<pad>", "<|im_start|>", "<|im_end|>"], show_progress=False,
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
    )  # fmt: skip
    made.train_from_iterator(texts, trainer)
    saved = transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<pad>")
    saved.chat_template = TEMPLATE
    saved.save_pretrained(folder)


def model(folder):
    import torch
    import transformers

    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=4096, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, pad_token_id=0, bos_token_id=None,
        eos_token_id=2,
    )  # fmt: skip
    transformers.LlamaForCausalLM(config).save_pretrained(folder)


def main():
    out = pathlib.Path(sys.argv[3])
    out.mkdir(parents=True, exist_ok=True)
    drawn = random.Random(1)
    words = [f"{word}: {meaning}." for word, meaning in wordnet(read(sys.argv[1]))]
    drawn.shuffle(words)
    entries = [(word, text) for word, text in devil(read(sys.argv[2]))]
    drawn.shuffle(entries)
    chats = [{"messages": [{"role": "user", "content": w}, {"role": "assistant", "content": t}]} for w, t in entries]
    held = len(chats) // 10
    write(out / "words.jsonl", [{"text": text} for text in words[:60000]])
    write(out / "words-held.jsonl", [{"text": text} for text in words[60000:60500]])
    write(out / "held.jsonl", chats[:held])
    write(out / "chat.jsonl", chats[held:])
    tokenizer(words[:60000] + [text for _, text in entries[held:]], out / "base")
    model(out / "base")


main()
