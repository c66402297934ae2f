#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Times TRL's SFTTrainer on the model and rows of make_model.py: `peer_trl.py WORK --package-path FOLDER`.

QLoRA of rank 16 on all projections, as TRL's own documentation sets it up: PEFT, bitsandbytes' NF4 with quantized scales, bf16, its
packing (--packed) or its padding. tokens_per_s counts the labels that are learnt. FOLDER holds the packages that this Python
lacks, without what they need beside:

  pip install --no-deps --target FOLDER trl==1.16.0 peft bitsandbytes datasets pyarrow pandas dill multiprocess xxhash

Prints one JSON line; without a GPU it runs on the CPU, and --quantize none needs no bitsandbytes.
"""

import argparse
import contextlib
import json
import os
import pathlib
import sys
import time


def measure(arguments):
    import datasets
    import torch
    import transformers
    from peft import LoraConfig
    from trl import SFTConfig, SFTTrainer

    cuda = torch.cuda.is_available()
    quantize = {}
    if arguments.quantize != "none":
        quantize["quantization_config"] = transformers.BitsAndBytesConfig(
            load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True, bnb_4bit_compute_dtype=torch.bfloat16
        )
    model = transformers.AutoModelForCausalLM.from_pretrained(
        arguments.work / "model", dtype=torch.bfloat16, attn_implementation="sdpa", device_map={"": 0} if cuda else None, **quantize
    )
    tokenizer = transformers.AutoTokenizer.from_pretrained(arguments.work / "model")
    with open(arguments.work / "rows.jsonl") as file:
        rows = datasets.Dataset.from_list([json.loads(line) for line in file])
    marks, learnt = [], []

    class Marks(transformers.TrainerCallback):
        def on_step_end(self, *_, **__):
            if cuda:
                torch.cuda.synchronize()
            marks.append(time.perf_counter())

    class Counted(SFTTrainer):
        def training_step(self, model, inputs, *more, **named):
            learnt.append(int((inputs["labels"] != -100).sum()))
            return super().training_step(model, inputs, *more, **named)

    settings = SFTConfig(
        output_dir=str(arguments.work / "trl"), max_length=arguments.seq, packing=arguments.packed, per_device_train_batch_size=arguments.batch,
        max_steps=arguments.warmup + arguments.steps, learning_rate=2e-4, max_grad_norm=1.0, bf16=cuda, use_cpu=not cuda, report_to=[],
        save_strategy="no", gradient_checkpointing=arguments.checkpoint, optim="adamw_torch_fused", logging_steps=1000,
    )  # fmt: skip
    lora = LoraConfig(r=16, lora_alpha=32, target_modules="all-linear", task_type="CAUSAL_LM")
    Counted(model, args=settings, train_dataset=rows, processing_class=tokenizer, peft_config=lora, callbacks=[Marks()]).train()
    seconds = marks[-1] - marks[arguments.warmup - 1]
    found = {"tokens_per_s": sum(learnt[arguments.warmup :]) / seconds, "step_ms": 1e3 * seconds / arguments.steps}
    if cuda:
        found.update(peak_reserved=torch.cuda.max_memory_reserved(), device=torch.cuda.get_device_name())
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--package-path", metavar="FOLDER")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seq", type=int, default=2048)
    parser.add_argument("--packed", action="store_true")
    parser.add_argument("--checkpoint", action="store_true")
    parser.add_argument("--quantize", choices=("nf4:double", "none"), default="nf4:double")
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--steps", type=int, default=8)
    arguments = parser.parse_args()
    if arguments.warmup < 1 or arguments.steps < 1:
        parser.error("--warmup and --steps are at least 1")
    if arguments.package_path:
        sys.path.append(os.path.abspath(arguments.package_path))
    names = ("batch", "seq", "packed", "checkpoint", "quantize")
    line = {"peer": "trl", **{name: getattr(arguments, name) for name in names}}
    with contextlib.redirect_stdout(sys.stderr):  # what libraries print does not belong into the line
        line.update(measure(arguments))
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
