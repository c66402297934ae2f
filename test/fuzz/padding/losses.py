# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Terms of the loss of a program: each takes hidden states [batch, seq, WIDTH] and gives a scalar."""

from layers import choose_formula
from tokens import CLASSES, INF, TOKENS, VOCABULARY, WIDTH, Formula

LOSSES = {}


def term(share, **choices):
    def register(function):
        LOSSES[function.__name__] = (share, choices, function)
        return function
    return register


@term(6, shift=[0] * 5 + [1] * 3 + [-1], reduction=["mean", "mean", "sum", "none"], weighted=[False, False, False, True], ignore=[-100, -100, -100, 0])
def token_labels(t, x, shift, reduction, weighted, ignore):
    """Cross entropy of tokens; `shift` 1 predicts the next token, -1 the one before."""
    g = t.graph
    labels = g.input("labels", "i64", TOKENS) if ignore else t.ids
    if shift == 1:
        x, labels = x.slice(1, 0, -1), labels.slice(1, 1, 1 << 40)
    elif shift == -1:
        x, labels = x.slice(1, 1, 1 << 40), labels.slice(1, 0, -1)
    logits = t.linear(x, WIDTH, VOCABULARY).reshape(-1, VOCABULARY)
    weights = g.tensor((g.rng.random(VOCABULARY) + 0.5).astype("f4" if g.dtype == "f32" else "f8"), f"class_weights{len(g.initializers)}") if weighted else None
    loss = g.cross_entropy(logits, labels.reshape(-1), ignore=ignore, reduction=reduction, weights=weights)
    if reduction == "mean":
        return loss
    if reduction == "sum":
        return loss * 0.05
    return loss.reshape(-1).mean(0) if weighted else loss.sum(0) / (~labels.equals(ignore)).to().sum([0, 1])


@term(3, over=["mask", "span", "mean", "count", "selected"], what=["bce", "square", "abs", "ids"])
def token_targets(t, x, over, what):
    """A number for each token, summed where a mask says so."""
    g = t.graph
    s = t.score(x)
    if what == "bce":
        y = g.op("Softplus", s) - s * (t.ids > 4).to()
    elif what == "square":
        y = (s - t.extra) * (s - t.extra)
    elif what == "abs":
        y = (s - t.extra).abs()
    else:
        y = s * t.ids.to() * 0.1
    if over == "mean":
        return y.mean([0, 1])
    if over == "selected":
        return g.op("Compress", y, t.real.reshape(-1)).mean(0)
    m = t.number * t.span.to() if over == "span" else t.number
    return (y * m).sum([0, 1]) / (m.sum([0, 1]).maximum(1.0) if over != "count" else (s > -1e30).to().sum([0, 1]))


POOLS = ["mean of tokens", "first", "last by count", "last by id", "last place", "mean", "sum", "max of tokens", "max", "attention", "attention of span",
         "attention times mask", "exp attention", "logsumexp", "norm", "span", "start", "conv max", "top places", "product", "any above", "std",
         "weights by places", "documents' mean"]


def pool(t, x, how, fill):
    """[batch, WIDTH]"""
    g, m = t.graph, t.number.unsqueeze(2)
    real = t.real.unsqueeze(2)

    def taken(at):
        at.integer = True
        return g.op("GatherND", x, at.unsqueeze(1), batch_dims=1)

    def attend(visible):
        s = g.where(visible, t.score(x), fill if fill < -100 else -1e9)
        return (s.softmax().unsqueeze(2) * x).sum(1)

    return {
        "mean of tokens": lambda: (x * m).sum(1) / m.sum(1).maximum(1e-9),
        "first": lambda: x.slice(1, 0, 1).squeeze(1),
        "last by count": lambda: taken(t.real.to("i64").sum(1) - 1),
        "last by id": lambda: taken(g.op("ArgMax", t.places.unsqueeze(0) * (~t.ids.equals(0)).to("i64"), axis=1, keepdims=0)),
        "last place": lambda: x.slice(1, -1, 1 << 40).squeeze(1),
        "mean": lambda: x.mean(1),
        "sum": lambda: (x * m).sum(1) * 0.2,
        "max of tokens": lambda: g.where(real, x, fill).max(1),
        "max": lambda: x.max(1),
        "attention": lambda: attend(t.real),
        "attention of span": lambda: attend(t.real & t.span),
        "attention times mask": lambda: ((t.score(x) + (1 - t.number) * -1e9).softmax().unsqueeze(2) * x * m).sum(1),
        "exp attention": lambda: (lambda w: (w.unsqueeze(2) * x).sum(1) / w.sum(1, keep=True))(t.score(x).minimum(5.0).exp() * t.number),
        "logsumexp": lambda: g.where(real, x, fill if fill < -100 else -1e9).reduce("LogSumExp", 1),
        "norm": lambda: (x * x * m).sum(1).sqrt() if fill > -1e3 else ((x * x * m).sum(1) + 1e-3).sqrt(),
        "span": lambda: (x * t.span.to().unsqueeze(2) * m).sum(1) / (t.span.to().unsqueeze(2) * m).sum(1).maximum(1.0),
        "start": lambda: taken(g.input("start", "i64", ["batch"])),
        "conv max": lambda: g.op("Conv", (x * m).transpose(0, 2, 1), g.weight(WIDTH, WIDTH, 3, scale=0.3), kernel_shape=[3], pads=[1, 1]).max(2),
        "top places": lambda: g.op("TopK", g.where(real, x, fill).transpose(0, 2, 1), g.ints([2]), outputs=2, axis=2)[0].maximum(-1e3).mean(2),
        "product": lambda: g.where(real, x.tanh() + 1.5, 1.0).reduce("Prod", 1).tanh(),
        "any above": lambda: x.slice(1, 0, 1).squeeze(1) * ((x > 0.5) & real).to().max(1),
        "std": lambda: (lambda mean: (((x - mean) * (x - mean) * m).sum(1) / m.sum(1) + 0.01).sqrt())((x * m).sum(1, keep=True) / m.sum(1, keep=True)),
        "weights by places": lambda: (x * m * (1.0 / (t.places.to() + 1.0)).unsqueeze(1)).sum(1),
        "documents' mean": lambda: (x * t.documents.equals(1).to().unsqueeze(2)).sum(1) / t.documents.equals(1).to().sum(1, keep=True).maximum(1.0),
    }[how]()


def of_samples(t, y, kind):
    """A loss of what is known of each sample [batch, WIDTH]."""
    g = t.graph
    if kind == "classes":
        return g.cross_entropy(t.linear(y, WIDTH, CLASSES), g.input("classes", "i64", ["batch"]), ignore=None)
    if kind == "regression":
        d = t.linear(y, WIDTH, 1).squeeze(1) - t.row
        return (d * d).mean(0)
    if kind == "contrast":
        y = y / ((y * y).sum(1, keep=True) + 0.01).sqrt()
        i = g.op("Range", g.const(0, "i64"), g.op("Shape", y, start=0, end=1, integer=True).squeeze(0), g.const(1, "i64"), integer=True)
        return g.cross_entropy(y @ t.linear(y).transpose(1, 0), i, ignore=None)
    if kind == "batch norm":
        y = (y - y.mean(0, keep=True)) / (((y - y.mean(0, keep=True)) * (y - y.mean(0, keep=True))).mean(0, keep=True) + 0.1).sqrt()
        return (t.linear(y, WIDTH, 1).squeeze(1) * t.row).mean(0)
    return (t.linear(y, WIDTH, 1).squeeze(1).tanh() * t.row).mean(0)


@term(6, how=POOLS[:2] * 3 + POOLS, kind=["classes", "classes", "regression", "contrast", "batch norm", "row"], fill=[-INF, -1e9, -1e4, 0.0])
def pooled(t, x, how, kind, fill):
    return of_samples(t, pool(t, x, how, fill), kind)


REDUCERS = ["Sum", "Mean", "Max", "Min", "Prod", "LogSumExp", "L2", "L1", "SumSquare", "sum of tokens", "mean of tokens", "max of tokens", "min of tokens",
            "count", "all", "any", "argmax", "cumsum", "softmax", "softmax of tokens", "norm of tokens", "logsumexp of tokens", "first", "everything", "softmax of everything"]


def reduce(t, y, how):
    """[batch] of [batch, seq]"""
    g, m = t.graph, t.number
    if how in ("Sum", "Mean", "Max", "Min", "LogSumExp", "L2", "L1", "SumSquare"):
        return y.reduce(how, 1)
    return {
        "Prod": lambda: (y.tanh() + 1.5).reduce("Prod", 1).tanh(),
        "sum of tokens": lambda: (y * m).sum(1),
        "mean of tokens": lambda: (y * m).sum(1) / m.sum(1).maximum(1.0),
        "max of tokens": lambda: g.where(t.real, y, -INF).max(1),
        "min of tokens": lambda: g.where(t.real, y, INF).min(1),
        "count": lambda: (y > 0.3).to().mean(1),
        "all": lambda: (y > -0.5).to().min(1),
        "any": lambda: (y > 0.5).to().max(1),
        "argmax": lambda: g.op("ArgMax", y, axis=1, keepdims=0).to() * 0.1,
        "cumsum": lambda: (y * m).cumsum(1).tanh().sum(1),
        "softmax": lambda: (y.softmax() * t.number).sum(1),
        "softmax of tokens": lambda: (g.where(t.real, y, -1e9).softmax() * y).sum(1),
        "norm of tokens": lambda: ((y * y * m).sum(1) + 1e-3).sqrt(),
        "logsumexp of tokens": lambda: g.where(t.real, y, -1e9).reduce("LogSumExp", 1),
        "first": lambda: y.slice(1, 0, 1).squeeze(1),
        "softmax of everything": lambda: (g.op("Reshape", g.where(t.real, y, -1e9).reshape(1, -1).softmax(), g.op("Shape", y, integer=True)) * y).sum(1),
        "everything": lambda: (y * m).sum([0, 1], keep=True).squeeze(1),
    }[how]()


def finish(t, x, y, how):
    """A scalar of [batch]; what has no gradient is multiplied with something that has."""
    if how == "with tokens":
        return (y * (t.score(x) * t.number).sum(1) * 0.2).mean(0)
    if how == "square":
        return ((y - t.row) * (y - t.row)).mean(0)
    if how == "tanh":
        return ((y * 0.3).tanh() * t.graph.weight(1) * t.row).mean(0)
    return (y * t.row * t.graph.weight(1)).mean(0)


@term(6, formula=choose_formula, how=REDUCERS, end=["times row", "tanh", "square", "with tokens"])
def formula(t, x, formula, how, end):
    return finish(t, x, reduce(t, Formula(t, x).make(formula), how), end)


@term(2, formula=lambda rng: choose_formula(rng, pairs=True, depth=3), inner=["Sum", "Mean", "Max", "Min", "LogSumExp", "tokens", "softmax"], how=REDUCERS,
      end=["times row", "tanh", "square", "with tokens"])
def pairs(t, x, formula, inner, how, end):
    y = Formula(t, x, pairs=True).make(formula)
    if inner == "tokens":
        y = (y * t.number.unsqueeze(1)).sum(2) * t.number
    elif inner == "softmax":
        y = (t.graph.where(t.real.unsqueeze(1), y, -1e9).softmax() * t.score(x).unsqueeze(1)).sum(2) * t.number
    else:
        y = y.reduce(inner, 2)
    return finish(t, x, reduce(t, y, how), end)


@term(1, of=["square", "abs", "entropy", "variance", "logsumexp"], over=["tokens", "all", "sum"])
def regularizer(t, x, of, over):
    y = {
        "square": lambda: (x * x).sum(2),
        "abs": lambda: x.abs().sum(2),
        "entropy": lambda: (lambda p: -(p * (p + 1e-6).log()).sum(2))(t.linear(x, WIDTH, 3).softmax()),
        "variance": lambda: ((x - x.mean(2, keep=True)) * (x - x.mean(2, keep=True))).mean(2),
        "logsumexp": lambda: t.linear(x, WIDTH, VOCABULARY).reduce("LogSumExp", 2) * 0.5,
    }[of]()
    if over == "all":
        return y.mean([0, 1]) * 0.1
    m = t.number
    return (y * m).sum([0, 1]) / m.sum([0, 1]) * 0.1 if over == "tokens" else (y * m).sum([0, 1]) * 0.01
