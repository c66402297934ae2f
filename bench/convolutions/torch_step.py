# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The PyTorch side of the benchmark of convolutional nets: nets, export, timed training steps.

  torch_step.py export NET DIR BATCH               writes NET.onnx and data.npz
  torch_step.py MODE NET DIR BATCH STEPS THREADS   MODE eager|compile, or with -last behind it: images
                                                   with the channels last in memory

SGD with momentum 0.9. Prints a JSON object: step_ms, losses, peak_rss in bytes.
"""

import json
import pathlib
import resource
import sys
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

SIDE, LABELS, BATCHES = 224, 1000, 2


def normed(inputs, outputs, taps, stride=1, groups=1):
    conv = nn.Conv2d(inputs, outputs, taps, stride, taps // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs)]


class Basic(nn.Module):
    """Two convolutions and a way around (He et al. 2015)."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.body = nn.Sequential(
            *normed(inputs, outputs, 3, stride), nn.ReLU(), *normed(outputs, outputs, 3)
        )
        same = inputs == outputs and stride == 1
        self.around = nn.Identity() if same else nn.Sequential(*normed(inputs, outputs, 1, stride))

    def forward(self, x):
        return functional.relu(self.body(x) + self.around(x))


class Inverted(nn.Module):
    """Wider, one filter a channel, narrower (Sandler et al. 2018)."""

    def __init__(self, inputs, outputs, stride, widen):
        super().__init__()
        wide = inputs * widen
        parts = [*normed(inputs, wide, 1), nn.ReLU6()] if widen > 1 else []
        parts += [*normed(wide, wide, 3, stride, wide), nn.ReLU6(), *normed(wide, outputs, 1)]
        self.body, self.adds = nn.Sequential(*parts), inputs == outputs and stride == 1

    def forward(self, x):
        return x + self.body(x) if self.adds else self.body(x)


def resnet18():
    parts = [*normed(3, 64, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        parts += [Basic(inputs, outputs, stride), Basic(outputs, outputs, 1)]
        inputs = outputs
    return parts, inputs


def mobilenet():
    parts, inputs = [*normed(3, 32, 3, 2), nn.ReLU6()], 32
    for widen, outputs, count, stride in (
        (1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2),
        (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1),
    ):  # fmt: skip
        for index in range(count):
            parts.append(Inverted(inputs, outputs, stride if index == 0 else 1, widen))
            inputs = outputs
    return [*parts, *normed(320, 1280, 1), nn.ReLU6()], 1280


NETS = {"resnet18": resnet18, "mobilenet-v2": mobilenet}


class Classifier(nn.Module):
    def __init__(self, net):
        super().__init__()
        torch.manual_seed(1)
        parts, channels = NETS[net]()
        self.body, self.fc = nn.Sequential(*parts), nn.Linear(channels, LABELS)

    def forward(self, images, labels):
        logits = self.fc(self.body(images).mean((2, 3)))
        return functional.cross_entropy(logits, labels), logits


def export(net, folder, batch):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "test" / "e2e"))
    import export_training

    rng = np.random.default_rng(1)
    data = {
        "images": rng.standard_normal((BATCHES * batch, 3, SIDE, SIDE)).astype(np.float32),
        "labels": rng.integers(0, LABELS, BATCHES * batch),
    }
    example = {k: torch.from_numpy(v[:2]) for k, v in data.items()}
    axes = {k: {0: "batch"} for k in data}
    export_training.export_by_position(
        Classifier(net), example, axes, folder / f"{net}.onnx", exporter="torchscript"
    )
    np.savez(folder / "data.npz", **data)


def measure(mode, net, folder, batch, steps, threads):
    torch.set_num_threads(threads)
    model = Classifier(net).train()
    last = mode.endswith("-last")
    data = {k: torch.from_numpy(v) for k, v in np.load(folder / "data.npz").items()}
    if last:
        model = model.to(memory_format=torch.channels_last)
        data["images"] = data["images"].contiguous(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    run = torch.compile(model) if mode.startswith("compile") else model
    times, losses = [], []
    for step in range(steps + 2):
        begin = step % BATCHES * batch
        start = time.perf_counter()
        optimizer.zero_grad(set_to_none=True)
        loss, _ = run(*(v[begin : begin + batch] for v in data.values()))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        times.append((time.perf_counter() - start) * 1e3)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"step_ms": times[2:], "losses": losses, "peak_rss": peak}))


def main():
    mode, net, folder = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    sizes = [int(size) for size in sys.argv[4:]]
    if mode == "export":
        export(net, folder, *sizes)
    else:
        measure(mode, net, folder, *sizes)


if __name__ == "__main__":
    main()
