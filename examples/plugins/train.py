# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A model with an operator of torch.library whose gradient is a plug-in's: `train.py SWISH.json`. Prints the loss of each step."""

import sys

import torch
import trainc


@torch.library.custom_op("example::swish", mutates_args=())
def swish(x: torch.Tensor, beta: torch.Tensor) -> torch.Tensor:
    return x * torch.sigmoid(beta * x)


@swish.register_fake
def _(x, beta):
    return torch.empty_like(x)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(4, 16), torch.nn.Linear(16, 1)
        self.beta = torch.nn.Parameter(torch.ones(16))

    def forward(self, x, y):
        return ((self.outer(swish(self.inner(x), self.beta)) - y) ** 2).mean()


torch.manual_seed(1)
x = torch.randn(64, 4)
batch = {"x": x, "y": x[:, :1] * x[:, 1:2]}
trainc.load_plugin(sys.argv[1])
step = trainc.compile(Model(), example=batch, optimizer="adamw", lr=0.05)
for _ in range(100):
    print(float(step(batch)))
