# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Modules that nobody tuned to: each trains as PyTorch trains it, or is an exception that names it and a way out."""

import collections
import copy
import dataclasses
import inspect
import os
import tempfile

import torch
import trainc
import trainrt
from torch_support import Case, compare_gradients, own_cache

nn, F = torch.nn, torch.nn.functional


def setUpModule():
    own_cache()


class Call(nn.Module):
    """A function of children and x as a module."""

    def __init__(self, function, **children):
        super().__init__()
        self.function = function
        for name, child in children.items():
            setattr(self, name, child)

    def forward(self, x):
        return self.function(self, x)


class Symmetric(nn.Module):
    def forward(self, matrix):
        return matrix.triu() + matrix.triu(1).transpose(-1, -2)


class Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 3)


class KeywordsOnly(Classifier):
    def forward(self, *, x, labels=None):
        return {"loss": F.cross_entropy(self.linear(x), labels), "logits": self.linear(x)}


class AnyKeywords(Classifier):
    def forward(self, **batch):
        return F.cross_entropy(self.linear(batch["x"]), batch["labels"]), self.linear(batch["x"])


@dataclasses.dataclass
class Output:
    loss: torch.Tensor
    logits: torch.Tensor


Pair = collections.namedtuple("Pair", "loss logits")


class Dataclass(Classifier):
    def forward(self, x, labels):
        return Output(F.cross_entropy(self.linear(x), labels), self.linear(x))


class NamedTuple(Classifier):
    def forward(self, x, labels):
        return Pair(F.cross_entropy(self.linear(x), labels), self.linear(x))


class Switch(Classifier):
    def forward(self, x, labels, double=False):
        return F.cross_entropy(self.linear(x) * (2 if double else 1), labels)


class Number(Classifier):
    def forward(self, x, labels, factor):
        return F.cross_entropy(self.linear(x) * factor, labels)


class Lists(Classifier):
    def forward(self, parts, labels):
        return F.cross_entropy(sum(self.linear(part) for part in parts), labels)


class Nested(Classifier):
    def forward(self, sizes, pair, labels=None):
        x = sum(self.linear(part) for part in pair) * sizes["scale"]["factor"]
        return F.cross_entropy(x, labels) if sizes["mean"] else F.cross_entropy(x, labels, reduction="sum")


class Rotary(Classifier):
    def __init__(self):
        super().__init__()
        self.register_buffer("turn", torch.polar(torch.ones(5, 3), torch.randn(5, 3)))

    def forward(self, x):
        turned = torch.view_as_complex(x.unflatten(-1, (3, 2))) * self.turn
        return self.linear(torch.view_as_real(turned).flatten(-2).mean(1))


class Names(nn.Module):
    """Whose parameters, inputs and outputs are called as the exporter calls values."""

    def __init__(self):
        super().__init__()
        self.linear, self.mul = nn.Parameter(torch.randn(6, 3)), nn.Parameter(torch.ones(3))

    def forward(self, matmul, labels):
        scores = (matmul @ self.linear).tanh() * self.mul
        return {"loss": F.cross_entropy(scores, labels), "tanh": scores + 1}


class Moving(Classifier):
    def __init__(self):
        super().__init__()
        self.register_buffer("mean", torch.zeros(6))

    def forward(self, x):
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.linear(x - self.mean)


def cells(self, x):
    h = c = x.new_zeros(x.shape[0], 6)
    for step in range(x.shape[1]):
        h, c = self.cell(x[:, step], (h, c))
    return self.out(h)


def without_gradient(self, x):
    with torch.no_grad():
        fixed = self.one(x)
    return self.out(fixed + self.two(x))


def experts(self, x):
    weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
    return sum(expert(x) * (weights * (chosen == i)).sum(-1, keepdim=True) for i, expert in enumerate(self.experts))


def every_loss(output, batch):
    weight = torch.tensor([1.0, 2.0, 0.5], dtype=output.dtype)
    logs = output.log_softmax(-1)
    return (
        (F.mse_loss(output, batch["target"], reduction="none") * batch["target"]).sum()
        + F.binary_cross_entropy_with_logits(output, batch["target"], reduction="none").mean()
        + F.nll_loss(logs, batch["labels"], reduction="none").sum()
        + F.kl_div(logs, batch["target"], reduction="none").sum()
        + F.smooth_l1_loss(output, batch["target"], reduction="none").sum()
        + F.cross_entropy(output, batch["labels"], reduction="none", label_smoothing=0.1, weight=weight).sum()
        + F.cross_entropy(output, batch["labels"], label_smoothing=0.1, weight=weight)
    )


def cross_entropy(output, batch):
    return F.cross_entropy(output, batch["labels"])


def sequence():
    return {"x": torch.randn(4, 5, 8), "labels": torch.randint(0, 3, (4,))}


def rows(name="x"):
    return {name: torch.randn(4, 6), "labels": torch.randint(0, 3, (4,))}


def tokens():
    return {"x": torch.randint(0, 11, (4, 5)), "labels": torch.randint(0, 3, (4,))}


def images():
    return {"input": torch.randn(4, 2, 6, 6), "labels": torch.randint(0, 3, (4,))}


def shared():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.Tanh(), layer, nn.Tanh(), nn.Linear(6, 3))


def parametrized():
    layer = nn.Linear(6, 6)
    nn.utils.parametrize.register_parametrization(layer, "weight", Symmetric())
    return nn.Sequential(layer, nn.Linear(6, 3))


def mask(size):
    return nn.Transformer.generate_square_subsequent_mask(size)


#: {name: (module, batch, loss)}, made when the test runs.
TRAIN = {
    "attention": lambda: (Call(lambda s, x: s.out(s.a(x, x, x)[0].mean(1)), a=nn.MultiheadAttention(8, 2, batch_first=True), out=nn.Linear(8, 3)), sequence(), cross_entropy),
    "causal attention": lambda: (Call(lambda s, x: s.out(s.a(x, x, x, need_weights=False, attn_mask=mask(5).to(x), is_causal=True)[0].mean(1)), a=nn.MultiheadAttention(8, 2, batch_first=True), out=nn.Linear(8, 3)), sequence(), cross_entropy),
    "transformer": lambda: (Call(lambda s, x: s.out(s.a(x, x).mean(1)), a=nn.Transformer(8, 2, 1, 1, 16, dropout=0.0, batch_first=True), out=nn.Linear(8, 3)), sequence(), cross_entropy),
    "lstm": lambda: (Call(lambda s, x: s.out(s.a(x)[0][:, -1]), a=nn.LSTM(8, 6, num_layers=2, bidirectional=True, batch_first=True), out=nn.Linear(12, 3)), sequence(), cross_entropy),
    "gru": lambda: (Call(lambda s, x: s.out(s.a(x)[0][:, -1]), a=nn.GRU(8, 6, batch_first=True), out=nn.Linear(6, 3)), sequence(), cross_entropy),
    "rnn": lambda: (Call(lambda s, x: s.out(s.a(x)[1].mean(0)), a=nn.RNN(8, 6, num_layers=2, bidirectional=True, nonlinearity="relu", batch_first=True), out=nn.Linear(6, 3)), sequence(), cross_entropy),
    "cells": lambda: (Call(cells, cell=nn.LSTMCell(8, 6), out=nn.Linear(6, 3)), sequence(), cross_entropy),
    "weight norm": lambda: (nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(6, 8)), nn.Tanh(), nn.Linear(8, 3)), rows("input"), cross_entropy),
    "parametrization": lambda: (parametrized(), rows("input"), cross_entropy),
    "bag of mean": lambda: (Call(lambda s, x: s.out(s.bag(x)), bag=nn.EmbeddingBag(11, 6, mode="mean"), out=nn.Linear(6, 3)), tokens(), cross_entropy),
    "bag of sum": lambda: (Call(lambda s, x: s.out(s.bag(x)), bag=nn.EmbeddingBag(11, 6, mode="sum", padding_idx=0), out=nn.Linear(6, 3)), tokens(), cross_entropy),
    "bag of max": lambda: (Call(lambda s, x: s.out(s.bag(x)), bag=nn.EmbeddingBag(11, 6, mode="max"), out=nn.Linear(6, 3)), tokens(), cross_entropy),
    "checkpoint": lambda: (Call(lambda s, x: s.out(torch.utils.checkpoint.checkpoint(s.a, x, use_reentrant=False)), a=nn.Sequential(nn.Linear(6, 8), nn.Tanh()), out=nn.Linear(8, 3)), rows(), cross_entropy),
    "keywords only": lambda: (KeywordsOnly(), rows(), None),
    "any keywords": lambda: (AnyKeywords(), rows(), None),
    "dataclass": lambda: (Dataclass(), rows(), None),
    "names": lambda: (Names(), rows("matmul"), None),
    "named tuple": lambda: (NamedTuple(), rows(), None),
    "number": lambda: (Number(), {**rows(), "factor": 2}, None),
    "switch": lambda: (Switch(), {**rows(), "double": True}, None),
    "shared": lambda: (shared(), rows("input"), cross_entropy),
    "complex buffer": lambda: (Rotary(), {"x": torch.randn(4, 5, 6), "labels": torch.randint(0, 3, (4,))}, cross_entropy),
    "moving buffer": lambda: (Moving(), rows(), cross_entropy),
    "eval": lambda: (nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.9), nn.BatchNorm1d(8), nn.Linear(8, 3)).eval(), rows("input"), cross_entropy),
    "batch norm": lambda: (nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)), rows("input"), cross_entropy),
    "group norm": lambda: (nn.Sequential(nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.SiLU(), nn.Flatten(), nn.Linear(64, 3)), images(), cross_entropy),
    "instance norm": lambda: (nn.Sequential(nn.Conv2d(2, 4, 3), nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.Linear(64, 3)), images(), cross_entropy),
    "detach": lambda: (Call(lambda s, x: s.out(s.one(x).detach() + s.two(x)), one=nn.Linear(6, 8), two=nn.Linear(6, 8), out=nn.Linear(8, 3)), rows(), cross_entropy),
    "no_grad": lambda: (Call(without_gradient, one=nn.Linear(6, 8), two=nn.Linear(6, 8), out=nn.Linear(8, 3)), rows(), cross_entropy),
    "straight through": lambda: (Call(lambda s, x: s.out((y := s.one(x) * 3) + (y.round() - y).detach()), one=nn.Linear(6, 8), out=nn.Linear(8, 3)), rows(), cross_entropy),
    "lists": lambda: (Lists(), {"parts": [torch.randn(4, 6), torch.randn(4, 6)], "labels": torch.randint(0, 3, (4,))}, None),
    "dicts": lambda: (Nested(), {"sizes": {"scale": {"factor": torch.rand(4, 1)}, "mean": True}, "pair": (torch.randn(4, 6), torch.randn(4, 6)), "labels": torch.randint(0, 3, (4,))}, None),
    "experts": lambda: (Call(experts, gate=nn.Linear(6, 4), experts=nn.ModuleList(nn.Linear(6, 3) for _ in range(4))), rows(), cross_entropy),
    "losses": lambda: (nn.Linear(6, 3), {**rows("input"), "target": torch.rand(4, 3)}, every_loss),
    "up and down": lambda: (nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.Upsample(scale_factor=2, mode="bilinear"), nn.PixelShuffle(2), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(144, 3)), images(), cross_entropy),
    "sorted": lambda: (Call(lambda s, x: s.out(s.one(x).cumsum(-1).sort(-1)[0]), one=nn.Linear(6, 8), out=nn.Linear(8, 3)), rows(), cross_entropy),
}  # fmt: skip


def hooked():
    module = nn.Sequential(nn.Linear(6, 3))
    module[0].weight.register_hook(lambda gradient: gradient * 2)
    return module


def hooked_module():
    module = nn.Sequential(nn.Linear(6, 3))
    module[0].register_full_backward_hook(lambda *_: None)
    return module


#: {name: (module, batch, loss, what the exception says)}.
REFUSED = {
    "function": lambda: (Call(lambda s, x: s.out(Rounded.apply(s.one(x))), one=nn.Linear(6, 8), out=nn.Linear(8, 3)), rows(), cross_entropy, r"Call uses Rounded, a torch.autograd.Function, .* write it with operations"),
    "reentrant": lambda: (nn.Sequential(Call(lambda s, x: torch.utils.checkpoint.checkpoint(s.one, x, use_reentrant=True), one=nn.Linear(6, 3))), rows("input"), cross_entropy, r"module '0' \(Call\) uses CheckpointFunction.*use_reentrant=False"),
    "max_norm": lambda: (Call(lambda s, x: s.out(s.table(x).mean(1)), table=nn.Embedding(11, 6, max_norm=0.5), out=nn.Linear(6, 3)), tokens(), cross_entropy, r"module 'table' \(Embedding\) has max_norm="),
    "frequency": lambda: (Call(lambda s, x: s.out(s.table(x).mean(1)), table=nn.Embedding(11, 6, scale_grad_by_freq=True), out=nn.Linear(6, 3)), tokens(), cross_entropy, r"module 'table' \(Embedding\) has scale_grad_by_freq="),
    "offsets": lambda: (Call(lambda s, x: s.out(s.bag(x.flatten(), torch.arange(4) * 5)), bag=nn.EmbeddingBag(11, 6), out=nn.Linear(6, 3)), tokens(), cross_entropy, r"module 'bag' \(EmbeddingBag\) has an embedding bag with offsets: give it rows of one length"),
    "hook": lambda: (hooked(), rows("input"), cross_entropy, "parameter '0.weight' has a hook on its gradient"),
    "module hook": lambda: (hooked_module(), rows("input"), cross_entropy, "module '0' has a backward hook"),
    "matrix exponential": lambda: (nn.Sequential(nn.utils.parametrizations.orthogonal(nn.Linear(6, 6)), nn.Linear(6, 3)), rows("input"), cross_entropy, r"module '0.parametrizations.weight.0' \(_Orthogonal\) cannot be exported: PyTorch's exporter has no translation of aten.linalg_matrix_exp; write it with other operations"),
    "pooling": lambda: (nn.Sequential(nn.Conv1d(2, 4, 3), nn.AdaptiveMaxPool1d(3), nn.Flatten(), nn.Linear(12, 3)), {"input": torch.randn(4, 2, 9), "labels": torch.randint(0, 3, (4,))}, cross_entropy, r"module '1' \(AdaptiveMaxPool1d\) cannot be exported"),
    "rows that data choose": lambda: (nn.Sequential(Call(lambda s, x: s.one(x)[x[:, 0] > 0], one=nn.Linear(6, 3))), rows("input"), lambda output, batch: output.square().mean(), r"the rows that it selects, .* multiply by the mask(.|\n)*is of module '0'"),
    "an odd input": lambda: (Lists(), {"parts": object(), "labels": torch.randint(0, 3, (4,))}, None, r"example\['parts'\]: expected a tensor or an array, or dicts, lists and tuples of them, got object"),
    "two of a name": lambda: (Lists(), {"parts": [torch.randn(4, 6)], "parts.0": torch.randn(4, 6), "labels": torch.randint(0, 3, (4,))}, None, "two inputs have the name 'parts.0': rename one"),
    "compiled": lambda: (torch.compile(nn.Linear(6, 3)), rows("input"), cross_entropy, "OptimizedModule is around the module: give what is within, `model._orig_mod`"),
    "parallel": lambda: (nn.DataParallel(nn.Linear(6, 3)), rows("input"), cross_entropy, "give what is within, `model.module`"),
    "scripted": lambda: (torch.jit.script(nn.Sequential(nn.Linear(6, 3))), rows("input"), cross_entropy, "RecursiveScriptModule is no module of Python any more"),
    "no module": lambda: (cross_entropy, rows("input"), None, "expected a torch.nn.Module, got function"),
    "lazy": lambda: (nn.Sequential(nn.LazyLinear(3)), rows("input"), cross_entropy, "module '0' has no sizes yet: run it once"),
    "meta buffer": lambda: (Moving().to("meta"), rows(), cross_entropy, "buffer 'mean' is on the meta device"),
    "an output named as a parameter": lambda: (Call(lambda s, x: {"loss": s.one.sum() * x.sum(), "one": x + 1}, one=nn.Parameter(torch.ones(3))), {"x": torch.ones(2)}, None, "output 'one' has the name of a parameter"),
    "an input named as a parameter": lambda: (Call(lambda s, x: F.mse_loss(s.x * x, x), x=nn.Parameter(torch.ones(3))), {"x": torch.ones(2, 3)}, None, "input 'x' has the name of a parameter or buffer of Call: rename one"),
    "nothing": lambda: (nn.Linear(6, 3), {}, cross_entropy, "the example has no arrays"),
    "empty": lambda: (nn.Linear(6, 3), {"input": torch.randn(0, 6), "labels": torch.randint(0, 3, (0,))}, cross_entropy, r"example\['input'\] is empty along axis 0"),
    "mixed norms": lambda: (nn.Sequential(nn.BatchNorm1d(6), nn.Linear(6, 8), nn.BatchNorm1d(8).eval(), nn.Linear(8, 3)), rows("input"), cross_entropy, "module '0' normalizes by its batch and '2' by its running statistics"),
    "constant loss": lambda: (nn.Linear(6, 3), rows("input"), lambda output, batch: torch.tensor(1.0), "no parameter of Linear has requires_grad and reaches the loss"),
    "detached loss": lambda: (nn.Linear(6, 3), rows("input"), lambda output, batch: output.detach().mean(), "no parameter of Linear has requires_grad and reaches the loss"),
    "loss": lambda: (nn.Linear(6, 3), rows("input"), "perplexity", r"has no argument 'labels'"),
}  # fmt: skip


class Modules(Case):
    def run_module(self, module, batch, loss):
        if loss is None:
            result = module(**batch)
            result = result["loss"] if isinstance(result, dict) else getattr(result, "loss", result)
            return result[0] if isinstance(result, tuple) else result
        first = next(name for name in inspect.signature(module.forward).parameters if name in batch)
        return loss(module(batch[first]), batch)

    def test_trained_as_pytorch_does(self):
        for name, make in TRAIN.items():
            with self.subTest(name):
                torch.manual_seed(0)
                module, batch, loss = make()
                gradients = []
                for kind in (torch.float64, torch.float32):
                    other = copy.deepcopy(module).to(kind) if name != "complex buffer" else copy.deepcopy(module)
                    if name != "complex buffer":
                        cast = torch.utils._pytree.tree_map(lambda v: v.to(kind) if isinstance(v, torch.Tensor) and v.is_floating_point() else v, batch)
                    else:
                        cast = batch
                    value = self.run_module(other, cast, loss)
                    value.backward()
                    gradients.append({k: p.grad.double() for k, p in other.named_parameters() if p.grad is not None})
                step = trainc.compile(module, example=batch, loss=loss, optimizer="sgd", lr=0.1)
                self.assertAlmostEqual(float(step.gradients(batch)), value.item(), delta=2e-5 * max(1, abs(value.item())))
                found = {k: step.grads[k].torch() for k in step.grads}
                self.assertLessEqual({k for k, g in gradients[0].items() if g.abs().max()}, set(found))
                for k in set(found) - set(gradients[0]):
                    self.assertEqual(found[k].abs().max(), 0, k)
                compare_gradients(self, found, *({k: g for k, g in each.items() if k in found} for each in gradients))
                step(batch)
                module.load_state_dict(step.state_dict())

    def test_refused_by_name(self):
        for name, make in REFUSED.items():
            with self.subTest(name):
                torch.manual_seed(0)
                module, batch, loss, words = make()
                with self.assertRaises(trainc.Error) as caught:
                    trainc.compile(module, example=batch, loss=loss)
                self.assertRegex(str(caught.exception), words or "")

    def test_half_precision(self):
        for kind in (torch.float16, torch.bfloat16):
            module = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)).to(kind)
            batch = {"input": torch.randn(4, 6).to(kind), "labels": torch.randint(0, 3, (4,))}

            def loss(output, batch):
                return F.cross_entropy(output.float(), batch["labels"])

            expected = loss(module(batch["input"]), batch).item()
            step = trainc.compile(module, example=batch, loss=loss)
            self.assertAlmostEqual(float(step(batch)), expected, delta=0.02)
            self.assertEqual(step.state_dict()["0.weight"].dtype, kind)

    def test_nested_inputs(self):
        torch.manual_seed(0)
        batch = {"parts": [torch.randn(4, 6), torch.randn(4, 6)], "labels": torch.randint(0, 3, (4,))}
        step = trainc.compile(Lists(), example=batch)
        self.assertEqual(list(step.package.inputs), ["parts.0", "parts.1", "labels"])
        same = trainc.compile(Lists(), example=batch)
        same.load_state_dict(step.state_dict())
        expected = [float(step(batch)) for _ in range(3)]
        flat = {"parts.0": batch["parts"][0], "parts.1": batch["parts"][1], "labels": batch["labels"]}
        self.assertEqual([float(same(form)) for form in (flat, (batch["parts"], batch["labels"]), [batch])], expected)
        with self.assertRaisesRegex(trainrt.errors.MissingInput, "input 'parts.1' is missing"):
            step({**batch, "parts": batch["parts"][:1]})
        # Of the same tensors, otherwise put together.
        nested = trainc.compile(Nested(), example={"sizes": {"scale": {"factor": torch.rand(4, 1)}, "mean": True}, "pair": tuple(batch["parts"]), "labels": batch["labels"]})
        self.assertEqual(list(nested.package.inputs), ["sizes.scale.factor", "pair.0", "pair.1", "labels"])
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "input 'sizes.mean' is True in the graph, .* got False"):
            nested({"sizes": {"scale": {"factor": torch.rand(4, 1)}, "mean": False}, "pair": batch["parts"], "labels": batch["labels"]})

    def test_switches_are_a_part_of_the_graph(self):
        batch = {**rows(), "double": True}
        step = trainc.compile(Switch(), example=batch)
        step(batch)
        step({**batch, "double": True})
        with self.assertRaisesRegex(trainrt.errors.InvalidArgument, "input 'double' is True in the graph, .* got False"):
            step({**batch, "double": False})

    def test_meta_modules_take_their_weights_from_files(self):
        real = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        with torch.device("meta"):
            meta = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))
        batch = rows("input")
        with self.assertRaisesRegex(trainc.Error, "parameter '0.weight' is on the meta device.* give weights="):
            trainc.compile(meta, example=batch, loss=cross_entropy)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "weights.safetensors")
            trainrt.write_tensors(path, {name: value.detach() for name, value in real.state_dict().items()})
            step = trainc.compile(meta, example=batch, loss=cross_entropy, weights=path)
            self.assertAlmostEqual(step.eval(batch), cross_entropy(real(batch["input"]), batch).item(), 5)

    def test_free_sizes(self):
        class Tokens(Classifier):
            def forward(self, x, labels):
                return F.cross_entropy(self.linear(x).flatten(0, 1), labels.flatten())

        def batch(size, length):
            return {"x": torch.randn(size, length, 6), "labels": torch.randint(0, 3, (size, length))}

        step = trainc.compile(Tokens(), example=batch(2, 3), other=batch(4, 7))
        self.assertEqual(step.package.inputs["x"].shape, ("batch", "seq", 6))
        for size, length in ((1, 1), (5, 9)):
            step(batch(size, length))
        one = trainc.compile(Tokens(), example=batch(2, 3))
        self.assertEqual(one.package.inputs["labels"].shape, ("batch", 3))
        with self.assertRaisesRegex(trainrt.errors.BadData, "input 'x', axis 1: expected 3, got 4"):
            one(batch(2, 4))
        for dynamic, words in (
            ("batch", r"dynamic: expected {input: {axis: name}}, got 'batch'"),
            ({"x": "batch"}, r"dynamic\['x'\]: expected {axis: name}, got 'batch'"),
            ({"x": {7: "batch"}}, r"dynamic\['x'\]: there is no axis 7; its shape is \["),
            ({"x": {"batch": 0}}, r"dynamic\['x'\]: there is no axis 'batch'"),
        ):
            with self.assertRaisesRegex(trainc.ExportError, words):
                trainc.compile(Tokens(), example=batch(2, 3), dynamic=dynamic)
        listed = trainc.compile(Tokens(), example=batch(2, 3), dynamic={"x": ["batch", "seq", None], "labels": {0: "batch", -1: "seq"}})
        self.assertEqual(listed.package.inputs["labels"].shape, ("batch", "seq"))
        with self.assertRaisesRegex(trainc.ExportError, "dynamic: there is no input 'y'"):
            trainc.compile(Tokens(), example=batch(2, 3), dynamic={"y": {0: "batch"}})
        with self.assertRaisesRegex(trainc.ExportError, "the second example has no 'x' with 3 axes"):
            trainc.compile(Tokens(), example=batch(2, 3), other={"x": torch.randn(4, 7)})

    def test_tensors_that_do_not_fit(self):
        batch = rows("input")
        step = trainc.compile(nn.Linear(6, 3), example=batch, loss=cross_entropy)
        for value, kind, words in (
            (batch["input"].double(), trainrt.errors.BadData, r".*got float64, .*\.astype\(numpy.float32\), or batch\['input'\].to\(torch.float32\)"),
            (batch["input"].to_sparse(), trainrt.errors.ArrayError, "expected a dense tensor .*got torch.float32, torch.sparse_coo, on cpu"),
            (batch["input"].to("meta"), trainrt.errors.ArrayError, "expected a dense tensor .* on meta"),
            (batch["input"].t().contiguous().t(), trainrt.errors.ArrayError, "expected a contiguous tensor"),
            (batch["input"].cfloat(), trainrt.errors.ArrayError, "expected a dense tensor .*got torch.complex64"),
        ):
            with self.assertRaisesRegex(kind, f"input 'input': {words}"):
                step({**batch, "input": value})

    def test_adapters_of_a_module(self):
        module = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 5))
        batch = {"input": torch.randn(8, 32), "labels": torch.randint(0, 5, (8,))}
        for options in ({"lora": {"r": 2}}, {"lora": {"r": 2, "dora": True}}, {"lora": {"r": 2}, "quantize": "nf4"}):
            step = trainc.compile(module, example=batch, loss=cross_entropy, lr=0.05, **options)
            for _ in range(3):
                step(batch)
            merged = copy.deepcopy(module)
            merged.load_state_dict(step.state_dict())
            self.assertAlmostEqual(cross_entropy(merged(batch["input"]), batch).item(), step.eval(batch), 5)

    def test_adapters_go_to_peft_and_back(self):
        import peft

        module = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 5))
        batch = {"input": torch.randn(8, 32), "labels": torch.randint(0, 5, (8,))}
        step = trainc.compile(module, example=batch, loss=cross_entropy, lr=0.05, lora={"r": 2, "targets": "0|2"})
        for _ in range(3):
            step(batch)
        with tempfile.TemporaryDirectory() as folder:
            step.save_adapter(folder)
            theirs = peft.PeftModel.from_pretrained(copy.deepcopy(module), folder, is_trainable=True)
            self.assertAlmostEqual(cross_entropy(theirs(batch["input"]), batch).item(), step.eval(batch), 5)
            for name, parameter in theirs.named_parameters():
                if "lora_B" in name:
                    parameter.data += 0.1
            theirs.save_pretrained(folder)
            step.load_adapter(folder)
            self.assertAlmostEqual(cross_entropy(theirs(batch["input"]), batch).item(), step.eval(batch), 5)

    def test_models_go_to_onnx(self):
        import onnxruntime

        module = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3))
        batch = rows("input")
        step = trainc.compile(module, example=batch, loss=cross_entropy, lr=0.1)
        step(batch)
        module.load_state_dict(step.state_dict())
        with tempfile.TemporaryDirectory() as folder:
            written = step.export_onnx(os.path.join(folder, "model.onnx"), outputs="output")
            result = onnxruntime.InferenceSession(written[0]).run(None, {"input": batch["input"].numpy()})[0]
        torch.testing.assert_close(torch.from_numpy(result), module.eval()(batch["input"]).detach())


if __name__ == "__main__":
    import unittest

    unittest.main()
