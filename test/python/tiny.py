# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A tokenizer of characters for models of 101 tokens, and rows for it. Needs tokenizers and transformers, no PyTorch."""

import json
import pathlib
import random
import string

CHATML = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
#: The same, with the assistant's text marked.
MARKED = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}{% else %}{{ message['content'] + '<|im_end|>' }}"
    "{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
#: One that writes thoughts in front of the last answer only, as Qwen3's does.
THINKING = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}{% if message['role'] == 'assistant' and loop.last %}"
    "{{ '<think>\n</think>' }}{% endif %}{{ message['content'] + '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
SPECIAL = ["<pad>", "<unk>", "<|im_start|>", "<|im_end|>", "<mask>"]


def tokenizer(folder, template=CHATML, extra=(), **more):
    """Writes tokenizer.json and its configuration."""
    import tokenizers
    import transformers

    characters = string.ascii_letters + string.digits + " \n.,:;!?'#-_/"
    tokens = SPECIAL + list(characters) + list(extra)
    assert extra or len(tokens) <= 101, len(tokens)
    model = tokenizers.models.BPE({token: i for i, token in enumerate(tokens)}, [], unk_token="<unk>")
    made = tokenizers.Tokenizer(model)
    made.add_special_tokens(SPECIAL)
    made.decoder = tokenizers.decoders.Fuse()
    if more.pop("bracketed", False):
        made.post_processor = tokenizers.processors.TemplateProcessing(
            single="<|im_start|> $A <|im_end|>", pair="<|im_start|> $A <|im_end|> $B:1 <|im_end|>:1",
            special_tokens=[("<|im_start|>", 2), ("<|im_end|>", 3)],
        )  # fmt: skip
    saved = transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="<pad>", unk_token="<unk>", eos_token="<|im_end|>", mask_token="<mask>", **more
    )
    if template:
        saved.chat_template = template
    saved.save_pretrained(folder)
    return pathlib.Path(folder)


def chats(count, seed=1, most=3):
    """Rows of messages."""
    drawn = random.Random(seed)
    words = "red green blue small large cat dog bird runs sleeps eats the a under over".split()

    def sentence(least, greatest):
        return " ".join(drawn.choice(words) for _ in range(drawn.randint(least, greatest)))

    rows = []
    for number in range(count):
        messages = [{"role": "system", "content": "You are terse."}] if number % 3 == 0 else []
        for _ in range(1 + number % most):
            messages += [{"role": "user", "content": sentence(1, 4) + "?"}, {"role": "assistant", "content": sentence(1, 5) + "."}]
        rows.append({"messages": messages})
    return rows


def write(path, rows):
    path = pathlib.Path(path)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)
