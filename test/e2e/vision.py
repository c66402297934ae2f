# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Image models of the end-to-end tests that no library has in this size, and batches of images."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional


def image_batch(sizes, side=16):
    def batch(rng, n, _):
        return {
            "pixel_values": rng.standard_normal((n, 3, side, side)).astype(np.float32),
            "labels": rng.integers(0, sizes.labels, n),
        }

    return batch


def caption_batch(sizes):
    def batch(rng, n, seq):
        ids = rng.integers(3, sizes.vocab, (n, seq))
        ids[:, -1] = 2  # the end of a caption, where the text is read off
        return {
            "input_ids": ids,
            "attention_mask": np.ones((n, seq), np.int64),
            "pixel_values": rng.standard_normal((n, 3, 16, 16)).astype(np.float32),
        }

    return batch


def speech_batch(sizes):
    def batch(rng, n, seq):
        return {
            "input_features": rng.standard_normal((n, 4, 12)).astype(np.float32),
            "labels": rng.integers(3, sizes.vocab, (n, seq)),
        }

    return batch


def noise_batch(rng, n, _):
    return {
        "x": rng.standard_normal((n, 3, 8, 8)).astype(np.float32),
        "t": rng.integers(0, 100, n),
        "noise": rng.standard_normal((n, 3, 8, 8)).astype(np.float32),
    }


class Convs(nn.Module):
    """Convolutions in one, two and three dimensions: strides, dilations, groups, transposed."""

    def __init__(self, labels):
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, stride=2, padding=(0, 1))
        self.grouped = nn.Conv2d(8, 4, (3, 2), groups=2, padding=1)
        self.depthwise = nn.Conv2d(4, 4, 3, groups=4, dilation=2, padding=2, bias=False)
        self.up = nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=(1, 0), groups=2)
        self.line = nn.Conv1d(6, 5, 4, stride=3, dilation=2, padding=3)
        self.line_up = nn.ConvTranspose1d(5, 3, 5, stride=2, dilation=2, padding=1)
        self.volume = nn.Conv3d(1, 2, (2, 3, 3), stride=(1, 2, 2), padding=(1, 0, 1))
        self.volume_up = nn.ConvTranspose3d(2, 1, (1, 2, 3), stride=(1, 2, 1))
        self.norm = nn.GroupNorm(2, 6)
        self.fc = nn.Linear(4, labels)

    def forward(self, pixel_values, labels):
        x = functional.gelu(self.first(pixel_values))
        x = self.depthwise(functional.silu(self.grouped(x)))
        x = self.norm(self.up(x))
        line = torch.tanh(self.line_up(torch.tanh(self.line(x.mean(3)))))
        volume = torch.tanh(self.volume_up(torch.tanh(self.volume(x[:, None]))))
        features = torch.cat([line.mean(2), volume.mean((2, 3, 4))], 1)
        logits = self.fc(features)
        return functional.cross_entropy(logits, labels), logits


class Pools(nn.Module):
    """Pools and resizes of every kind, each with a weight before it that gets its gradient."""

    def __init__(self, labels):
        super().__init__()
        self.scale = nn.Parameter(torch.randn(9, 3, 1, 1))
        self.fc = nn.Linear(27, labels)

    def forward(self, pixel_values, labels):
        def scaled(number):
            return torch.tanh(pixel_values * self.scale[number])

        parts = [
            functional.max_pool2d(functional.relu(scaled(0)), 3, 2, 1),  # ties at 0
            functional.max_pool2d(scaled(1), (2, 3), (2, 1), dilation=2, ceil_mode=True),
            functional.avg_pool2d(scaled(2), 3, 2, 1),
            functional.avg_pool2d(scaled(3), 3, 2, 1, ceil_mode=True, count_include_pad=False),
            functional.adaptive_avg_pool2d(scaled(4), 4),
            functional.adaptive_max_pool2d(scaled(5), 1),
            functional.interpolate(scaled(6), scale_factor=2.0, mode="nearest"),
            functional.interpolate(scaled(7), size=(11, 23), mode="bilinear"),
            functional.interpolate(scaled(8), size=(20, 9), mode="bicubic", align_corners=True),
        ]
        features = torch.cat([(part * part).mean((2, 3)) for part in parts], 1)
        logits = self.fc(features)
        return functional.cross_entropy(logits, labels), logits


class ResBlock(nn.Module):
    """Two convolutions with the time between them, and a way around (Ho et al. 2020)."""

    def __init__(self, channels, out, time):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(2, channels), nn.GroupNorm(2, out)
        self.conv1 = nn.Conv2d(channels, out, 3, padding=1)
        self.conv2 = nn.Conv2d(out, out, 3, padding=1)
        self.time = nn.Linear(time, out)
        self.skip = nn.Conv2d(channels, out, 1) if channels != out else nn.Identity()

    def forward(self, x, time):
        h = self.conv1(functional.silu(self.norm1(x)))
        h = h + self.time(functional.silu(time))[:, :, None, None]
        return self.skip(x) + self.conv2(functional.silu(self.norm2(h)))


class ImageAttention(nn.Module):
    """Attention between the positions of an image."""

    def __init__(self, channels):
        super().__init__()
        self.norm = nn.GroupNorm(2, channels)
        self.qkv = nn.Conv2d(channels, 3 * channels, 1)
        self.out = nn.Conv2d(channels, channels, 1)

    def forward(self, x):
        n, c, h, w = x.shape
        parts = self.qkv(self.norm(x)).reshape(n, 3, 2, c // 2, h * w).transpose(-1, -2)
        y = functional.scaled_dot_product_attention(*parts.unbind(1))
        return x + self.out(y.transpose(-1, -2).reshape(n, c, h, w))


class UNet(nn.Module):
    """A denoiser: down, attention, up with the skips; the loss is the error of the noise."""

    def __init__(self, channels=4, time=8):
        super().__init__()
        wide = 2 * channels
        self.time1, self.time2 = nn.Linear(8, time), nn.Linear(time, time)
        self.begin = nn.Conv2d(3, channels, 3, padding=1)
        self.down1 = ResBlock(channels, channels, time)
        self.half1 = nn.Conv2d(channels, wide, 3, stride=2, padding=1)
        self.down2, self.attention = ResBlock(wide, wide, time), ImageAttention(wide)
        self.half2 = nn.Conv2d(wide, wide, 3, stride=2, padding=1)
        self.middle = ResBlock(wide, wide, time)
        self.double1 = nn.ConvTranspose2d(wide, wide, 4, stride=2, padding=1)
        self.up1 = ResBlock(2 * wide, wide, time)
        self.double2 = nn.Conv2d(wide, channels, 3, padding=1)
        self.up2 = ResBlock(2 * channels, channels, time)
        self.norm, self.end = nn.GroupNorm(2, channels), nn.Conv2d(channels, 3, 3, padding=1)

    def forward(self, x, t, noise):
        steps = torch.arange(4, dtype=x.dtype, device=x.device)
        angle = t.to(x.dtype)[:, None] * torch.exp(-math.log(100.0) * steps / 4)[None]
        time = torch.cat([angle.sin(), angle.cos()], 1)
        time = self.time2(functional.silu(self.time1(time)))
        skip1 = self.down1(self.begin(x), time)
        skip2 = self.attention(self.down2(self.half1(skip1), time))
        h = self.middle(self.half2(skip2), time)
        h = self.up1(torch.cat([self.double1(h), skip2], 1), time)
        h = self.double2(functional.interpolate(h, scale_factor=2.0, mode="nearest"))
        h = self.up2(torch.cat([h, skip1], 1), time)
        out = self.end(functional.silu(self.norm(h)))
        return functional.mse_loss(out, noise), out
