# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files and JSON: where each is described, and the schema of programs."""

INTRO = """# Files and JSON

| what | described in |
| --- | --- |
| `model.tpk`, its `manifest.json` and signature | [the package](../design/package.md) |
| `program.fb` in a package | the schema below |
| checkpoints: `parameters.safetensors`, `optimizer.safetensors`, `state.json` | [embedding](../embedding.md#what-holds) |
| data: `.npz`, `.safetensors`, folders of shards, `.bin` | [data](../data.md) |
| adapters in PEFT's layout | [LoRA](../lora.md) |
| the objects of `--log-format json`, `--remarks`, `--profile`; tfevents | [looking inside](../inspection.md) |
| the report of memory as JSON | [memory](../memory.md) |
| a run of `trainc finetune`: `config.yaml`, folders | [fine-tuning](../finetuning.md) |

## program.fbs
"""


def pages(root, build):
    schema = (root / "runtime/schema/program.fbs").read_text()
    return {"formats.md": f"{INTRO}\n```text\n{schema.strip()}\n```\n"}
