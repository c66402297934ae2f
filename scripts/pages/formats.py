# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Files and JSON: where each is described, the schemas of JSON, and that of programs."""

import json

INTRO = """# Files and JSON

| what | described in |
| --- | --- |
| `model.tpk`, its `manifest.json` and signature | [the package](../design/package.md), [manifest](#manifest) |
| `program.fb` in a package | [program.fbs](#programfbs) |
| checkpoints: `parameters.safetensors`, `optimizer.safetensors`, `state.json` | [embedding](../embedding.md#what-holds), [checkpoint-state](#checkpoint-state) |
| data: `.npz`, `.safetensors`, folders of shards, `.bin` | [data](../data.md) |
| adapters in PEFT's layout | [LoRA](../lora.md) |
| the objects of `--log-format json`, `--remarks`, `--profile`, `--info`; tfevents | [looking inside](../inspection.md), [log](#log), [remark](#remark), [profile](#profile), [profile-classes](#profile-classes), [package-info](#package-info) |
| the report of memory as JSON | [memory](../memory.md), [report](#report) |
| the description of a plug-in | [operators of your own](../plugins.md), [plugin](#plugin) |
| a run of `trainc finetune`: `config.yaml`, folders | [fine-tuning](../finetuning.md) |

Schemas are JSON Schema (2020-12), files of `docs/schemas`, and what the tools write is held against them by the tests. Keys stay; new ones may come.
"""


def pages(root, build):
    text = [INTRO]
    for path in sorted((root / "docs/schemas").glob("*.schema.json")):
        schema = json.loads(path.read_text())
        text.append(f"## {path.name.removesuffix('.schema.json')}\n\n{schema['title'][0].upper()}{schema['title'][1:]}. {schema['description']}\n\n```json\n{path.read_text().strip()}\n```\n")
    program = (root / "runtime/schema/program.fbs").read_text()
    text.append(f"## program.fbs\n\n```text\n{program.strip()}\n```\n")
    return {"formats.md": "\n".join(text)}
