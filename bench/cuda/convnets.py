# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Convolutional nets among the measured models: torchvision's, and a U-Net that denoises.

torch is imported only where a module is built, so that sizes and data need no more than numpy. A
case is a `models.Case`; its `hidden` is the U-Net's channels at the full resolution.
"""

#: Family: name in torchvision.models.
CLASSIFIERS = {"resnet50": "resnet50", "convnext-t": "convnext_tiny", "efficientnet-b0": "efficientnet_b0"}
UNET = "unet"
FAMILIES = {UNET, *CLASSIFIERS}


def build(case):
    """The module with random weights, as it is trained; its outputs begin with the loss."""
    return _unet(case) if case.family == UNET else _classifier(case)


def _classifier(case):
    import torchvision
    from torch import nn

    class Classifier(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = getattr(torchvision.models, CLASSIFIERS[case.family])(num_classes=case.labels)

        def forward(self, pixel_values, labels):
            logits = self.net(pixel_values)
            return nn.functional.cross_entropy(logits, labels), logits

    return Classifier()


def _unet(case):
    """Predicts noise (Ho et al. 2020): group norms, an embedding of the time, attention where images are small."""
    import math

    import torch
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self, inputs, outputs, width):
            super().__init__()
            self.norm1, self.conv1 = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, outputs, 3, padding=1)
            self.time = nn.Linear(width, outputs)
            self.norm2, self.conv2 = nn.GroupNorm(32, outputs), nn.Conv2d(outputs, outputs, 3, padding=1)
            self.around = nn.Identity() if inputs == outputs else nn.Conv2d(inputs, outputs, 1)

        def forward(self, x, time):
            h = self.conv1(functional.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
            return self.around(x) + self.conv2(functional.silu(self.norm2(h)))

    class Attention(nn.Module):
        def __init__(self, channels, heads=4):
            super().__init__()
            self.heads, self.norm = heads, nn.GroupNorm(32, channels)
            self.qkv, self.out = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)

        def forward(self, x):
            batch, channels, height, width = x.shape
            rows = self.norm(x).flatten(2).transpose(1, 2)
            parts = self.qkv(rows).view(batch, height * width, 3, self.heads, channels // self.heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4)
            rows = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
            return x + self.out(rows).transpose(1, 2).unflatten(2, (height, width))

    class Unet(nn.Module):
        def __init__(self, base, levels=(1, 2, 2, 4), blocks=2, attended=2):
            super().__init__()
            width, channels = 4 * base, base
            self.base, self.first = base, nn.Conv2d(3, base, 3, padding=1)
            self.time = nn.Sequential(nn.Linear(base, width), nn.SiLU(), nn.Linear(width, width))
            self.down, self.up, skips = nn.ModuleList(), nn.ModuleList(), [base]
            for level, factor in enumerate(levels):
                for _ in range(blocks):
                    self.down.append(self.block(channels, base * factor, width, level >= attended))
                    channels = base * factor
                    skips.append(channels)
                if level + 1 < len(levels):
                    self.down.append(nn.ModuleList([nn.Conv2d(channels, channels, 3, 2, 1)]))
                    skips.append(channels)
            self.middle = self.block(channels, channels, width, True)
            for level, factor in reversed(list(enumerate(levels))):
                for index in range(blocks + 1):
                    self.up.append(self.block(channels + skips.pop(), base * factor, width, level >= attended))
                    channels = base * factor
                    if level and index == blocks:
                        self.up[-1].append(nn.Conv2d(channels, channels, 3, padding=1))
            self.norm, self.last = nn.GroupNorm(32, channels), nn.Conv2d(channels, 3, 3, padding=1)

        @staticmethod
        def block(inputs, outputs, width, attends):
            parts = [Block(inputs, outputs, width)] + ([Attention(outputs)] if attends else [])
            return nn.ModuleList(parts)

        @staticmethod
        def apply_parts(parts, h, time):
            for part in parts:
                h = part(h, time) if isinstance(part, Block) else part(h)
            return h

        def forward(self, pixel_values, steps, noise):
            half = self.base // 2
            rates = torch.exp(-math.log(10000) / half * torch.arange(half, device=steps.device))
            angles = steps[:, None].float() * rates
            time = functional.silu(self.time(torch.cat([angles.sin(), angles.cos()], 1)))
            h = self.first(pixel_values)
            skips = [h]
            for parts in self.down:
                h = self.apply_parts(parts, h, time)
                skips.append(h)
            h = self.apply_parts(self.middle, h, time)
            for parts in self.up:
                h = torch.cat([h, skips.pop()], 1)
                enlarges = isinstance(parts[-1], nn.Conv2d)
                h = self.apply_parts(parts[:-1] if enlarges else parts, h, time)
                if enlarges:
                    h = parts[-1](functional.interpolate(h, scale_factor=2.0))
            out = self.last(functional.silu(self.norm(h)))
            return functional.mse_loss(out, noise), out

    return Unet(case.hidden)
