#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Image, detection, sound and recurrent nets of sizes that nobody tuned to, by hand: by both exporters
where both write the net, held against PyTorch by run_e2e.py's limits.

  heldout_nets.py --trainc build/bin/trainc --trainc-run build/bin/trainc-run [--seed 7] [--only yolo,gan]

Needs torch and transformers. Exit code 1 when something is out of its limit.
"""

import argparse
import math
import pathlib
import random
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

import families
import make_references
import zoo

DYNAMO, SCRIPT = ("dynamo",), ("torchscript",)
BOTH = DYNAMO + SCRIPT


def block(inputs, outputs, kernel=3, stride=1, dilation=1, groups=1, act=nn.ReLU):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2 * dilation, dilation, groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(outputs), act())


def resized(x, like, mode):
    corners = {} if mode == "nearest" else {"align_corners": False}
    return F.interpolate(x, size=like.shape[-2:], mode=mode, **corners)


def smooth_l1(difference, beta):
    """Written out: the TorchScript exporter has no smooth_l1_loss."""
    a = difference.abs()
    return torch.where(a < beta, 0.5 * a * a / beta, a - 0.5 * beta)


class Net(nn.Module):
    """`forward` of a net by position, as the exporters are called, and by name."""

    def forward(self, *arguments, **inputs):
        return self.run(*arguments, *inputs.values())


class Segmentation(Net):
    """Dilated branches and a pooled one, resized to the image's size."""

    def __init__(self, channels, labels):
        super().__init__()
        self.stem = nn.Sequential(block(channels, 8, stride=2), block(8, 12, stride=2))
        self.branches = nn.ModuleList([block(12, 5, dilation=d) for d in (1, 2, 5)])
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(12, 5, 1), nn.PReLU())
        self.head = nn.Conv2d(20, labels, 1)

    def run(self, x, labels):
        h = self.stem(x)
        parts = [b(h) for b in self.branches] + [self.pool(h).expand(-1, -1, *h.shape[-2:])]
        logits = resized(self.head(torch.cat(parts, 1)), x, "bilinear")
        return F.cross_entropy(logits, labels), logits


class Pyramid(Net):
    """Two levels added top down, one head for both, focal and smooth L1 losses."""

    def __init__(self, channels, classes):
        super().__init__()
        self.low = nn.Sequential(block(channels, 8, stride=2), block(8, 10, stride=2))
        self.high = block(10, 12, stride=2)
        self.lateral = nn.ModuleList([nn.Conv2d(10, 8, 1), nn.Conv2d(12, 8, 1)])
        self.head = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, classes + 4, 3, padding=1))
        self.classes = classes

    def run(self, x, noise):
        low = self.low(x)
        high = self.lateral[1](self.high(low))
        low = self.lateral[0](low) + resized(high, low, "nearest")
        out = torch.cat([self.head(p).flatten(2) for p in (low, high)], 2)
        scores, boxes = out[:, : self.classes], out[:, self.classes :]
        truth = (noise[:, :1, :1] > 1).to(x.dtype)
        cross = F.binary_cross_entropy_with_logits(scores, truth.expand_as(scores), reduction="none")
        right = torch.where(truth > 0, torch.sigmoid(scores), torch.sigmoid(-scores))
        return ((1 - right) ** 2 * cross).mean() + smooth_l1(boxes - noise[:, :, :1], 0.11).mean(), scores


class Grid(Net):
    """Boxes from a grid and anchors, and the complete overlap loss.

    Without detach, which the TorchScript exporter drops, as make_references.py drops the notes that say it."""

    def __init__(self, channels):
        super().__init__()
        self.stem = nn.Sequential(block(channels, 8, 5, 2, act=nn.SiLU), block(8, 12, 3, 2, act=nn.SiLU))
        self.head = nn.Conv2d(36, 2 * 5, 1)
        self.register_buffer("anchors", torch.tensor([[10.0, 13.0], [33.0, 23.0]]))

    def run(self, x, noise):
        h = self.stem(x)
        first = F.max_pool2d(h, 5, 1, 2)
        y = self.head(torch.cat([h, first, F.max_pool2d(first, 5, 1, 2)], 1))
        height, width = y.shape[-2:]
        y = y.view(x.shape[0], 2, 5, height, width).permute(0, 1, 3, 4, 2).sigmoid()
        rows, columns = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        xy = (y[..., :2] * 2 - 0.5 + torch.stack((columns, rows), -1)) * 4
        wh = (y[..., 2:4] * 2) ** 2 * self.anchors.view(1, 2, 1, 1, 2)
        true_xy = 30 + 9 * noise[:, :1, :1, None, None].tanh() + torch.zeros_like(xy)
        true_wh = 20 + 5 * noise[:, :1, 1:2, None, None].tanh() + torch.zeros_like(wh)
        low = torch.maximum(xy - wh / 2, true_xy - true_wh / 2)
        overlap = (torch.minimum(xy + wh / 2, true_xy + true_wh / 2) - low).clamp(0).prod(-1)
        iou = overlap / (wh.prod(-1) + true_wh.prod(-1) - overlap + 1e-7)
        angle = torch.atan(true_wh[..., 0] / true_wh[..., 1]) - torch.atan(wh[..., 0] / wh[..., 1])
        v = 4 / math.pi**2 * angle**2
        complete = iou - v * v / (v - iou + 1 + 1e-7)
        return (1 - complete).mean() + (y[..., 4] - iou).pow(2).mean(), y


class Generator(Net):
    """Transposed convolutions with batch norm before a small discriminator."""

    def __init__(self, latent):
        super().__init__()
        self.make = nn.Sequential(
            nn.ConvTranspose2d(latent, 12, 4, bias=False), nn.BatchNorm2d(12), nn.ReLU(),
            nn.ConvTranspose2d(12, 8, 3, 2, 1, groups=4), nn.BatchNorm2d(8), nn.LeakyReLU(0.2),
            nn.Conv2d(8, 12, 3, padding=1), nn.PixelShuffle(2), nn.Tanh(),
        )  # fmt: skip
        self.judge = nn.Sequential(nn.Conv2d(3, 6, 4, 2, 1), nn.InstanceNorm2d(6), nn.ELU(), nn.Flatten(), nn.LazyLinear(1))
        self.judge(self.make(torch.zeros(2, latent, 1, 1)))

    def run(self, x, noise):
        image = self.make(x[:, :, None, None])
        return F.softplus(-self.judge(image)).mean() + (image - noise[:, :1, :1, None]).abs().mean(), image


class Sound(Net):
    """Causal, dilated and weight-normed convolutions of a wave, and an LSTM over their frames."""

    def __init__(self, labels):
        super().__init__()
        norm = nn.utils.parametrizations.weight_norm
        self.first, self.second = norm(nn.Conv1d(1, 6, 10, 5)), norm(nn.Conv1d(6, 8, 3, dilation=2))
        self.group, self.lstm = nn.GroupNorm(4, 8), nn.LSTM(8, 7, bidirectional=True, batch_first=True)
        self.gru, self.head = nn.GRU(14, 6, batch_first=True), nn.Linear(6, labels)

    def run(self, wave, labels):
        h = F.elu(self.first(F.pad(wave[:, None], (5, 0), mode="reflect")))
        h = F.gelu(self.group(self.second(F.pad(h, (4, 0)))))
        logits = self.head(self.gru(self.lstm(h.transpose(1, 2))[0])[0].mean(1))
        return F.cross_entropy(logits, labels), logits


def specs(seed):
    """{name: Family} of sizes drawn by `seed`."""
    draw = random.Random(seed)
    odd = lambda low, high: draw.randrange(low, high) | 1  # noqa: E731
    channels, labels, height, width, length = draw.randint(2, 6), odd(3, 9), odd(37, 71), odd(37, 101), odd(500, 900)
    first = {0: "batch"}

    def batch(shape, second="noise", rows=()):
        def make(rng, n, _):
            x = rng.standard_normal((n, *shape)).astype(np.float32)
            if second == "noise":
                return {"x": x, "noise": rng.standard_normal((n, 4, 2)).astype(np.float32)}
            return {"x": x, "labels": rng.integers(0, labels, (n, *rows))}

        return make

    image, axes, fixed = (channels, height, width), {"x": first, "noise": first}, {"x": first, "labels": first}
    dense = {"x": {0: "batch", 2: "height", 3: "width"}, "labels": {0: "batch", 1: "height", 2: "width"}}
    print(f"seed {seed}: images {image}, waves of {length}, {labels} labels")
    latent = odd(7, 15)
    nets = [
        ("segmentation", lambda: Segmentation(channels, labels), batch(image, "labels", image[1:]), fixed, DYNAMO),
        ("any-size", lambda: Segmentation(channels, labels), batch(image, "labels", image[1:]), dense, SCRIPT),
        ("pyramid", lambda: Pyramid(channels, labels), batch(image), axes, BOTH),
        ("grid", lambda: Grid(channels), batch(image), axes, BOTH),
        ("generator", lambda: Generator(latent), batch((latent,)), axes, BOTH),
        ("sound", lambda: Sound(labels), batch((length,), "labels"), fixed, BOTH),
    ]
    return {
        f"{name}-{exporter}": families.Family(f"{name}-{exporter}", build, data, names, exporter=exporter)
        for name, build, data, names, exporters in nets
        for exporter in exporters
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", help="parts of names, comma separated")
    parser.add_argument("--trainc-flag", action="append", default=[], help="passed on; repeatable")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    sizes = zoo.Sizes(batch=5, seed=arguments.seed)
    failed = []
    with tempfile.TemporaryDirectory(prefix="trainc-heldout-") as folder:
        for name, spec in specs(arguments.seed).items():
            if arguments.only and not any(part in name for part in arguments.only.split(",")):
                continue
            print(make_references.make(spec, sizes, pathlib.Path(folder)), flush=True)
            command = [sys.executable, pathlib.Path(__file__).with_name("run_e2e.py"), "--models", folder, "--model", name]
            command += ["--trainc", arguments.trainc, "--trainc-run", arguments.trainc_run]
            # The dynamo exporter writes batch norm in inference form.
            flags = ["--batchnorm=train", *arguments.trainc_flag]
            done = subprocess.run([*command, *(f"--trainc-flag={flag}" for flag in flags)], check=False)
            failed += [name] if done.returncode else []
    if failed:
        sys.exit(f"off: {', '.join(failed)}")


if __name__ == "__main__":
    main()
