# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The PyTorch side of the MiniLM benchmark: the model, its export, and timed training steps.

  torch_step.py export DIR                        writes model.onnx and data.npz
  torch_step.py eager|compile DIR STEPS THREADS   prints {"step_ms": [...], "losses": [...], ...}
"""

import json
import pathlib
import resource
import sys
import time

import numpy as np
import torch

SIZES = dict(layers=6, width=384, heads=12, inter=1536, vocabulary=30522, batch=8, seq=128)


def make_model():
    """BERT classification in the shape of MiniLM-L6, without dropout, fixed first weights."""
    import transformers

    torch.manual_seed(1)
    config = transformers.BertConfig(
        vocab_size=SIZES["vocabulary"],
        hidden_size=SIZES["width"],
        num_hidden_layers=SIZES["layers"],
        num_attention_heads=SIZES["heads"],
        intermediate_size=SIZES["inter"],
        num_labels=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    return transformers.BertForSequenceClassification(config).train()


def make_batches(count):
    rng = np.random.default_rng(1)
    shape = (count * SIZES["batch"], SIZES["seq"])
    lengths = rng.integers(SIZES["seq"] // 4, SIZES["seq"] + 1, shape[0])
    mask = (np.arange(SIZES["seq"])[None, :] < lengths[:, None]).astype(np.int64)
    ids = rng.integers(1000, SIZES["vocabulary"], shape)
    return {
        "input_ids": (ids * mask).astype(np.int64),
        "attention_mask": mask,
        "labels": rng.integers(0, 2, shape[0]).astype(np.int64),
    }


def export(folder):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "e2e"))
    import export_training

    data = make_batches(4)
    example = {k: torch.from_numpy(v[:2]) for k, v in data.items()}
    axes = {k: {0: "batch", 1: "seq"} for k in ("input_ids", "attention_mask")}
    axes["labels"] = {0: "batch"}
    export_training.export_for_training(make_model(), example, axes, folder / "model.onnx")
    np.savez(folder / "data.npz", **data)


def measure(mode, folder, steps, threads):
    torch.set_num_threads(threads)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    data = {k: torch.from_numpy(v) for k, v in np.load(folder / "data.npz").items()}
    batches = [
        {k: v[i : i + SIZES["batch"]] for k, v in data.items()}
        for i in range(0, len(data["labels"]), SIZES["batch"])
    ]
    begin = time.perf_counter()
    run = torch.compile(model) if mode == "compile" else model
    times, losses, first = [], [], None
    for step in range(steps + 3):
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss = run(**batches[step % len(batches)]).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        end = time.perf_counter()
        first = first or end - begin
        times.append((end - start) * 1e3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(
        json.dumps(
            {
                "step_ms": times[3:],
                "losses": losses,
                "first_step_s": first,
                "peak_rss": peak,
                "version": torch.__version__,
            }
        )
    )


def main():
    mode, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    if mode == "export":
        export(folder)
    else:
        measure(mode, folder, int(sys.argv[3]), int(sys.argv[4]))


if __name__ == "__main__":
    main()
