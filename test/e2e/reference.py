# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reference numbers of one model, by PyTorch: losses, gradients, their noise, training curves.

Everything is computed in double; the same in float32 tells how far float32 itself is off, which
is what the tests allow a multiple of.
"""

import copy
import re

import numpy as np
import torch

from gradient_errors import gradient_errors

#: Training curves: flags of the compiler, flags of the runner, how PyTorch does the same.
#: `groups` is (regex without decay, regex with another learning rate, its factor).
CURVES = {
    "adamw": dict(optimizer="adamw", lr=1e-3),
    "adamw-clip-accumulate": dict(optimizer="adamw", lr=2e-3, clip=0.25, accumulate=2),
    "adamw-groups": dict(
        optimizer="adamw", lr=1e-3, weight_decay=0.1, groups=("bias$|b$", "weight$|w$", 0.5)
    ),
    "adam": dict(optimizer="adam", lr=1e-3, weight_decay=0.02, betas=(0.8, 0.95), eps=1e-6),
    "sgd": dict(optimizer="sgd", lr=1e-2, weight_decay=0.01),
    "sgd-momentum": dict(optimizer="sgd", lr=1e-2, momentum=0.9, clip=0.5),
    "sgd-nesterov": dict(optimizer="sgd", lr=1e-2, momentum=0.9, nesterov=True, accumulate=3),
    "lamb": dict(optimizer="lamb", lr=2e-3, weight_decay=0.01, eps=1e-6),
}


class Lamb(torch.optim.Optimizer):
    """LAMB as in its paper (You et al. 2020, algorithm 2), with Adam's bias correction.

    r = m_hat / (sqrt(v_hat) + eps) + decay * w;  w -= lr * (|w| / |r|) * r per tensor, the ratio
    being 1 where either norm is zero. No normalisation of gradients beforehand.
    """

    def __init__(self, groups, lr, betas=(0.9, 0.999), eps=1e-6, weight_decay=0.0):
        super().__init__(groups, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                s = self.state[p]
                if not s:
                    s.update(step=0, m=torch.zeros_like(p), v=torch.zeros_like(p))
                s["step"] += 1
                s["m"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                s["v"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                m_hat = s["m"] / (1 - beta1 ** s["step"])
                v_hat = s["v"] / (1 - beta2 ** s["step"])
                r = m_hat / (v_hat.sqrt() + group["eps"]) + group["weight_decay"] * p
                wn, rn = p.norm(), r.norm()
                ratio = wn / rn if wn > 0 and rn > 0 else 1.0
                p.add_(r * ratio, alpha=-group["lr"])


def make_optimizer(named, config):
    """The torch optimizer of one curve over {ONNX name: parameter}."""
    common = {"lr": config["lr"]}
    for key in ("weight_decay", "betas", "eps", "momentum", "nesterov"):
        if key in config:
            common[key] = config[key]
    groups = []
    no_decay, scaled, factor = config.get("groups", (None, None, 1.0))
    for name, parameter in named.items():
        group = {"params": [parameter]}
        if no_decay and re.search(no_decay, name):
            group["weight_decay"] = 0.0
        if scaled and re.search(scaled, name):
            group["lr"] = config["lr"] * factor
        groups.append(group)
    kinds = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam, "sgd": torch.optim.SGD}
    return kinds.get(config["optimizer"], Lamb)(groups, **common)


def flags(config):
    """(flags of the compiler, flags of the runner) for one curve."""
    compiler = ["--optimizer", config["optimizer"], "--lr", repr(config["lr"])]
    for key, flag in (("weight_decay", "--weight-decay"), ("eps", "--eps"), ("clip", "--clip-norm")):
        if key in config:
            compiler += [flag, repr(config[key])]
    if "momentum" in config:
        compiler += ["--momentum", repr(config["momentum"])]
    if "betas" in config:
        compiler += ["--betas", ",".join(map(repr, config["betas"]))]
    if config.get("nesterov"):
        compiler += ["--nesterov"]
    if "groups" in config:
        no_decay, scaled, factor = config["groups"]
        compiler += ["--no-decay", no_decay, "--lr-scale", f"{scaled}={factor}"]
    micro = ["--accumulate", str(config["accumulate"])] if "accumulate" in config else []
    # The references are means of micro-batches' means.
    return compiler + micro, micro + ["--accumulate-by", "mean"] if micro else []


def cast(batch, dtype):
    """A batch as tensors, floats in `dtype`."""
    tensors = {k: torch.from_numpy(np.ascontiguousarray(v)) for k, v in batch.items()}
    return {k: v.to(dtype) if v.is_floating_point() else v for k, v in tensors.items()}


def run(model, batch, dtype):
    """The outputs (loss, logits) of `model(**batch)`."""
    out = model(**cast(batch, dtype))
    return (out.loss, out.logits) if hasattr(out, "loss") else out


def loss_and_gradients(model, named, batch, dtype):
    """(loss, logits, {name: gradient as float64}); unused parameters have zero gradients."""
    model.zero_grad(set_to_none=True)
    loss, logits = run(model, batch, dtype)
    loss.backward()
    gradients = {
        n: (torch.zeros_like(p) if p.grad is None else p.grad).double().numpy().copy()
        for n, p in named.items()
    }
    return loss.item(), logits.detach().double().numpy(), gradients


def curve(model, named, batches, config, steps, dtype):
    """`steps` losses of training, each the mean over its micro-batches, before the update."""
    optimizer = make_optimizer(named, config)
    micro = config.get("accumulate", 1)
    losses, position = [], 0
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for _ in range(micro):
            loss = run(model, batches[position % len(batches)], dtype)[0]
            position += 1
            (loss / micro).backward()
            total += loss.item()
        for p in named.values():
            if p.grad is None:
                p.grad = torch.zeros_like(p)
        if "clip" in config:
            torch.nn.utils.clip_grad_norm_(list(named.values()), config["clip"])
        optimizer.step()
        losses.append(total / micro)
    return losses


def without_dropout(model):
    """A copy of the model in training mode with every dropout off."""
    model = copy.deepcopy(model)
    model.train()
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        for key in ("attention_dropout", "dropout_prob", "dropout"):
            if isinstance(getattr(module, key, None), float):
                setattr(module, key, 0.0)
    return model


def reference(model, names, batches, other, steps=20, curves=tuple(CURVES)):
    """All numbers of one model.

    names: ONNX names of the trained parameters, in the order of model.parameters(); batches: consecutive batches of the
    data file; other: one batch of other sizes. Returns (json dict, {npz key: array}).
    """
    model32 = without_dropout(model)
    model64 = copy.deepcopy(model32).double()

    def named(m):
        return dict(zip(names, (p for p in m.parameters() if p.requires_grad), strict=True))

    result, arrays = {"batch_size": len(next(iter(batches[0].values())))}, {}
    for key, batch, kind in (("data", batches[0], np.float64), ("other", other, np.float32)):
        loss64, logits, exact = loss_and_gradients(model64, named(model64), batch, torch.float64)
        loss32, _, rough = loss_and_gradients(model32, named(model32), batch, torch.float32)
        result[key] = {"loss32": loss32, "loss64": loss64, "noise": gradient_errors(rough, exact)}
        arrays.update({f"{key}/{n}": g.astype(kind) for n, g in exact.items()})
        if key == "other":
            arrays["other:logits"] = logits.astype(np.float32)
    result["curves"] = {}
    for name in curves:
        config = CURVES[name]
        compiler, runner = flags(config)
        exact, rough = (
            curve(m, named(m), batches, config, steps, dtype)
            for m, dtype in (
                (copy.deepcopy(model64), torch.float64),
                (copy.deepcopy(model32), torch.float32),
            )
        )
        noise = max(abs(a - b) / abs(b) for a, b in zip(rough, exact))
        result["curves"][name] = {
            "compiler": compiler,
            "runner": runner,
            "losses": exact,
            "noise": noise,
        }
    return result, arrays
