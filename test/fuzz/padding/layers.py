# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Layers of token models, sound and unsound ones: each takes hidden states [batch, seq, WIDTH] and gives such.

A layer's keyword arguments name what may be chosen; of each list the first is the plainest.
"""

from tokens import INF, VOCABULARY, WIDTH, Chooser, Formula, Tokens

LAYERS = {}


def layer(share, **choices):
    def register(function):
        LAYERS[function.__name__] = (share, choices, function)
        return function
    return register


ACTIVATIONS = ["Relu", "Gelu", "Tanh", "Sigmoid", "Elu", "Softplus", "Mish", "HardSwish"]
FILLS = [0.0, -1e9, 1.0, -INF, INF, float("nan"), 1e4, -3.4e38]


@layer(6, act=ACTIVATIONS, residual=[True, False])
def feed_forward(t, x, act, residual):
    y = t.linear(t.graph.op(act, t.linear(x)))
    return x + y if residual else y


@layer(3, kind=["layer", "rms", "l2", "scaled"])
def normalize(t, x, kind):
    """Along the width, which concerns one token at a time."""
    if kind == "layer":
        return t.graph.op("LayerNormalization", x, t.graph.weight(WIDTH, scale=1), t.graph.weight(WIDTH), axis=-1)
    squares = (x * x).sum(2, keep=True)
    if kind == "rms":
        return x / (squares * (1 / WIDTH) + 1e-6).sqrt()
    if kind == "l2":
        return x / squares.sqrt().maximum(1e-12)
    return x / (x.abs().sum(2, keep=True) + 0.1)


STYLES = ["where -1e9", "where -inf", "where least", "where -1e4", "where -1000", "where -50", "add -1e9", "add least", "add log", "add square",
          "times", "add where -inf"]
WEIGHTS = ["softmax", "safe softmax", "exp times mask", "exp times mask + eps", "relu squared", "sigmoid", "shifted", "divided by norm", "linear elu",
           "linear relu", "linear elu, summed", "mean", "other axis", "softmax times mask", "log softmax", "uniform if alone"]


def masked_scores(t, s, visible, style):
    g, number = t.graph, visible.to()
    if style.startswith("where"):
        return g.where(visible, s, {"-inf": -INF, "least": -3.4028234663852886e38}.get(style[6:]) or float(style[6:]))
    if style == "times":
        return s * number
    return s + {
        "add -1e9": lambda: (1 - number) * -1e9,
        "add least": lambda: (1 - number) * -3.4028234663852886e38,
        "add log": lambda: number.log(),
        "add square": lambda: (number - 1) * (1 - number) * 1e9,
        "add where -inf": lambda: g.where(visible, 0.0, -INF),
    }[style]()


def weigh(t, s, visible, style, weights):
    """Weights of columns from scores."""
    g, number = t.graph, visible.to()
    masked = masked_scores(t, s, visible, style)
    if weights == "softmax":
        return masked.softmax()
    if weights == "safe softmax":
        none = (masked <= -1e8).to().min(-1, keep=True).equals(1.0)
        return g.where(none, 0.0, masked.softmax())
    if weights == "uniform if alone":
        return g.where(visible.to().max(-1, keep=True).equals(0.0), 0.1, masked.softmax())
    if weights == "softmax times mask":
        return masked.softmax() * number
    if weights == "log softmax":
        return g.op("LogSoftmax", masked, axis=-1).exp()
    if weights == "other axis":
        return masked.softmax(1 if visible is not None else -1)
    if weights.startswith("exp times mask"):
        w = s.minimum(5.0).exp() * number
        return w / (w.sum(-1, keep=True) + 1e-6 if weights.endswith("eps") else w.sum(-1, keep=True))
    if weights == "relu squared":
        w = (s.relu() * s.relu()) * number
        return w / (w.sum(-1, keep=True) + 1e-3)
    if weights == "sigmoid":
        return masked.sigmoid()
    if weights == "shifted":
        w = (masked - masked.max(-1, keep=True)).exp()
        return w / w.sum(-1, keep=True)
    if weights == "divided by norm":
        w = s * number
        return w / (w * w).sum(-1, keep=True).sqrt().maximum(1e-12)
    number = g.op("Expand", number, g.op("Shape", s, integer=True))
    return number / number.sum(-1, keep=True)


@layer(9, weights=WEIGHTS[:1] * 6 + WEIGHTS, style=STYLES[:3] * 4 + STYLES, columns=[True, True, True, True, True, False],
       rows=[False, False, False, True], order=Tokens.ORDERS[:2] * 3 + Tokens.ORDERS, choice=Tokens.CHOICES[:1] * 6 + Tokens.CHOICES,
       built=["and", "and", "and", "product"], heads=[1, 1, 2, 2, "merged"], dropout=[0.0, 0.0, 0.0, 0.3], residual=[True, True, True, False])
def attention(t, x, weights, style, columns, rows, order, choice, built, heads, dropout, residual):
    g, depth = t.graph, 3
    visible = t.visible(columns, rows, order, choice, built)
    y = attend(t, x, x, visible, t.number if columns else None, weights, style, heads, depth, dropout)
    return x + y if residual else y


def attend(t, x, memory, visible, columns, weights, style, heads, depth=3, dropout=0.0):
    """[batch, seq, WIDTH] of attention to `memory`, of whose tokens `columns` says 1."""
    g, merged = t.graph, heads == "merged"
    heads = 2 if merged else heads
    q, k, v = (t.linear(y, WIDTH, heads * depth) for y in (x, memory, memory))
    if heads > 1:
        q, k, v = (y.reshape(0, 0, heads, depth).transpose(0, 2, 1, 3) for y in (q, k, v))
    if merged and not weights.startswith("linear"):  # [batch * heads, seq, ...]
        length = lambda y: g.op("Shape", y, start=1, end=2, integer=True)
        rows = g.concat(0, g.ints([-1]), length(x), g.ints([depth]))
        columns_of = g.concat(0, g.ints([-1]), length(memory), g.ints([depth]))
        q, k, v = (g.op("Reshape", y, shape) for y, shape in ((q, rows), (k, columns_of), (v, columns_of)))
        # The mask of a sample is that of each of its heads.
        sizes = g.concat(0, g.op("Shape", x, start=0, end=1, integer=True), g.ints([heads]), length(x), length(memory))
        visible = g.op("Expand", visible.unsqueeze(1), sizes)
        visible = g.op("Reshape", visible, g.concat(0, g.ints([-1]), length(x), length(memory)))
        w = weigh(t, (q @ k.transpose(0, 2, 1)) * (1 / depth**0.5), visible, style, weights)
        y = g.op("Reshape", w @ v, g.concat(0, g.op("Shape", x, start=0, end=1, integer=True), g.ints([heads]), length(x), g.ints([depth])))
        return t.linear(y.transpose(0, 2, 1, 3).reshape(0, 0, heads * depth), heads * depth)
    turned = lambda y: y.transpose(*([0, 1, 3, 2] if heads > 1 else [0, 2, 1]))
    if weights.startswith("linear"):
        q, k = ((y.relu() if weights == "linear relu" else y.elu() + 1) for y in (q, k))
        if columns is not None:
            k = k * (columns.unsqueeze(1, 3) if heads > 1 else columns.unsqueeze(2))
        total = k.sum(-2, keep=True)
        divisor = (q * total).sum(-1, keep=True) if weights.endswith("summed") else q @ turned(total)
        y = (q @ (turned(k) @ v)) / (divisor + 1e-6 if weights == "linear relu" else divisor)
    else:
        if heads > 1:
            visible = visible.unsqueeze(1)
        w = weigh(t, (q @ turned(k)) * (1 / depth**0.5), visible, style, weights)
        if dropout:
            w = g.op("Dropout", w, g.const(dropout), g.const(True, "bool"))
        y = w @ v
    if heads > 1:
        y = y.transpose(0, 2, 1, 3).reshape(0, 0, heads * depth)
    return t.linear(y, heads * depth)


@layer(2, weights=WEIGHTS, style=STYLES, heads=[1, 2, "merged"], own=[True, True, False])
def memory(t, x, weights, style, heads, own):
    """Attention to another sequence, which has a mask of its own, or none."""
    g, others = t.graph, ["batch", "other"]
    m = t.embed(g.input("other_input_ids", "i64", others), VOCABULARY)
    mask = g.input("other_attention_mask", "i64", others)
    m = m + t.linear(m.tanh())
    visible = ~mask.unsqueeze(1).equals(0) if own else m.slice(2, 0, 1).transpose(0, 2, 1) > -9.0
    return x + attend(t, x, m, visible, mask.to() if own else None, weights, style, heads)


@layer(3, how=["where", "times", "times twice", "where row"], fill=FILLS)
def mask(t, x, how, fill):
    m = t.real.unsqueeze(2)
    if how == "where":
        return t.graph.where(m, x, fill)
    if how == "where row":
        return t.graph.where((t.real & t.span).unsqueeze(2), x, fill)
    m = t.number.unsqueeze(2)
    return x * m if how == "times" else x * m * m


@layer(2, how=["mean of tokens", "mean", "max of tokens", "max", "sum of tokens", "mean of span", "of all samples", "first", "last"])
def context(t, x, how):
    """What the sample has in common is added to each of its tokens."""
    g, m = t.graph, t.number.unsqueeze(2)
    y = {
        "mean of tokens": lambda: (x * m).sum(1, keep=True) / m.sum(1, keep=True).maximum(1.0),
        "mean": lambda: x.mean(1, keep=True),
        "max of tokens": lambda: g.where(t.real.unsqueeze(2), x, -1e4).max(1, keep=True),
        "max": lambda: x.max(1, keep=True),
        "sum of tokens": lambda: (x * m).sum(1, keep=True) * 0.1,
        "mean of span": lambda: (x * m * t.span.to().unsqueeze(2)).sum(1, keep=True) / (m * t.span.to().unsqueeze(2)).sum(1, keep=True).maximum(1.0),
        "of all samples": lambda: (x * m).sum([0, 1], keep=True) / m.sum([0, 1], keep=True),
        "first": lambda: x.slice(1, 0, 1),
        "last": lambda: x.slice(1, -1, 1 << 40),
    }[how]()
    return x + t.linear(y)


@layer(2, by=[1, -1, 2], fill=[0.0, 0.0, 1.0], clean=[True, True, False])
def shift(t, x, by, fill, clean):
    y = x * t.number.unsqueeze(2) if clean else x
    if by > 0:
        y = y.pad(1, by, 0, fill).slice(1, 0, -by)
    else:
        y = y.pad(1, 0, -by, fill).slice(1, -by, 1 << 40)
    return x + t.linear(y)


@layer(1, clean=[True, True, False], kernel=[3, 2])
def convolve(t, x, clean, kernel):
    y = x * t.number.unsqueeze(2) if clean else x
    y = t.graph.op("Conv", y.transpose(0, 2, 1), t.graph.weight(WIDTH, WIDTH, kernel, scale=0.3), kernel_shape=[kernel],
                   pads=[kernel - 1, 0] if kernel == 2 else [1, 1])
    return x + y.transpose(0, 2, 1)


@layer(1, clean=[True, True, False], over=["counted", "", "norm"])
def accumulate(t, x, clean, over):
    y = x * t.number.unsqueeze(2) if clean else x
    y = y.cumsum(1)
    if over == "counted":
        y = y / (t.counted.to() + 1.0).unsqueeze(2)
    elif over == "norm":
        y = y / (y * y).sum(2, keep=True).sqrt().maximum(1e-6)
    return x + t.linear(y)


@layer(1, clean=[True, False], affine=[True, False])
def normalize_places(t, x, clean, affine):
    """Along the positions."""
    g = t.graph
    if clean:
        m = t.number.unsqueeze(2)
        n = m.sum(1, keep=True).maximum(1.0)
        y = x - (x * m).sum(1, keep=True) / n
        y = y / ((y * y * m).sum(1, keep=True) / n + 0.1).sqrt()
    else:
        y = x - x.mean(1, keep=True)
        y = y / ((y * y).mean(1, keep=True) + 0.1).sqrt()
    return t.linear(y) if affine else y


@layer(1)
def normalize_tokens(t, x):
    """Batch normalization: over samples and positions."""
    y = x.transpose(0, 2, 1)
    mean = y.mean([0, 2], keep=True)
    y = (y - mean) / (((y - mean) * (y - mean)).mean([0, 2], keep=True) + 0.1).sqrt()
    return (y * t.graph.weight(WIDTH, 1)).transpose(0, 2, 1)


@layer(2, kind=["sigmoid", "times mask", "threshold", "top expert", "experts", "ids"])
def gate(t, x, kind):
    g = t.graph
    if kind == "sigmoid":
        return x * t.linear(x, WIDTH, 1).sigmoid()
    if kind == "times mask":
        return x + t.linear(x) * t.linear(x, WIDTH, 1).tanh() * t.number.unsqueeze(2)
    if kind == "threshold":
        return x * (t.linear(x, WIDTH, 1) > 0.1).to()
    if kind == "ids":
        return x * g.where(t.ids.unsqueeze(2) > 4, 0.5, 1.5)
    probability = t.linear(x, WIDTH, 3).softmax()
    if kind == "top expert":
        top, index = g.op("TopK", probability, g.ints([2]), outputs=2, axis=-1)
        index.integer = True
        chosen = g.op("OneHot", index, g.const(3, "i64"), g.const([0.0, 1.0]), axis=-1)  # [batch, seq, 2, 3]
        probability = (chosen * (top / top.sum(2, keep=True)).unsqueeze(3)).sum(2)
    outputs = t.linear(x, WIDTH, 3 * WIDTH).tanh().reshape(0, 0, 3, WIDTH)
    return x + (outputs * probability.unsqueeze(3)).sum(2)


@layer(1, ratio=[0.3, 0.7])
def dropout(t, x, ratio):
    return t.graph.op("Dropout", x, t.graph.const(ratio), t.graph.const(True, "bool"))


@layer(2, of=["positions", "counted positions", "ids as numbers", "extra", "types", "one hot", "row", "length", "documents as numbers"])
def add(t, x, of):
    g = t.graph
    if of == "positions":
        return x + t.embed(t.places, 64)
    if of == "counted positions":
        return x + t.embed(t.counted, 64)
    if of == "types":
        return x + t.embed(g.input("token_type_ids", "i64", ["batch", "seq"]), 3)
    if of == "one hot":
        hot = g.op("OneHot", t.ids, g.const(11, "i64"), g.const([0.0, 1.0]), axis=-1)
        return x + t.linear(hot, 11)
    number = {
        "ids as numbers": lambda: t.ids.to().unsqueeze(2) * 0.2,
        "documents as numbers": lambda: t.documents.to().unsqueeze(2) * 0.2,
        "extra": lambda: t.extra.unsqueeze(2),
        "row": lambda: t.row.unsqueeze(1, 2),
        "length": lambda: t.number.sum(1).unsqueeze(1, 2) * 0.3,
    }[of]()
    return x + number * g.weight(WIDTH)


@layer(2, how=["min", "max", "greater", "is inf", "is nan", "clip"], value=[0.5, -2000.0, 1e10, -1e10, 1e30, INF, -INF, -1001.0, 1e-30, -3e38])
def threshold(t, x, how, value):
    g = t.graph
    if how == "min":
        return x.minimum(value)
    if how == "max":
        return x.maximum(value)
    if how == "greater":
        return g.where(x > value, x * 0.5, x)
    if how == "clip":
        return x.clip(min(value, 0.9), max(value, 0.9))
    return g.where(g.op("IsInf" if how == "is inf" else "IsNaN", x), 0.5, x)


@layer(2, clean=[True, True, False], order=["", "causal", "strict", "not itself"], kind=["log", "inverse", "sqrt", "exp"])
def distances(t, x, clean, order, kind):
    """Weights of tokens for tokens by how far apart they are, 0 for themselves."""
    difference = t.linear(x, WIDTH, 2)
    difference = difference.unsqueeze(2) - difference.unsqueeze(1)
    square = (difference * difference).sum(3)
    visible = t.visible(True, clean, order, "").to()
    if kind == "log":
        w = (square + (1e-6 if clean else 1.0)).log() * visible
    elif kind == "sqrt":
        w = (square + 1e-3).sqrt() * visible
    elif kind == "inverse":
        w = visible / (square + 0.1)
    else:
        w = (-square).exp() * visible
    return x + t.linear((w * 0.1) @ x)


@layer(1, index=["start", "top", "argmax", "end"], clean=[True, False])
def gather(t, x, index, clean):
    """A place of each sample, by an input or by scores, is added to all."""
    g = t.graph
    if index in ("start", "end"):
        at = g.input(index, "i64", ["batch"]).unsqueeze(1)
    else:
        s = t.score(x)
        s = g.where(t.real, s, -1e9) if clean else s
        if index == "top":
            at = g.op("TopK", s, g.ints([1]), outputs=2, axis=1)[1]
        else:
            at = g.op("ArgMax", s, axis=1, keepdims=1)
    at.integer = True
    taken = g.op("GatherND", x, at, batch_dims=1)
    return x + t.linear(taken.unsqueeze(1))


@layer(1, clean=[True, False], of=["documents", "bins", "scatter"])
def pool_documents(t, x, clean, of):
    """Each token gets the mean of its document, or of those with like ids."""
    g = t.graph
    m = t.number.unsqueeze(2)
    if of == "documents":
        same = t.documents.unsqueeze(2).equals(t.documents.unsqueeze(1))
        same = (same & t.real.unsqueeze(1) if clean else same).to()
        return x + t.linear((same @ x) / same.sum(2, keep=True).maximum(1.0))
    bins = g.op("Mod", t.ids, g.const(4, "i64"), integer=True)
    if of == "scatter":
        y = x.slice(2, 0, 1).squeeze(2)
        y = y * t.number if clean else y
        y = g.op("ScatterElements", y * 0.0, bins, y, axis=1, reduction="add")
        return x + t.linear(g.op("GatherElements", y, bins, axis=1).unsqueeze(2), 1)
    hot = g.op("OneHot", bins, g.const(4, "i64"), g.const([0.0, 1.0]), axis=-1)
    sums = hot.transpose(0, 2, 1) @ (x * m if clean else x)
    return x + t.linear(hot @ (sums / (hot * m if clean else hot).sum(1).unsqueeze(2).maximum(1.0)))


def choose_formula(rng, pairs=False, depth=None):
    return Chooser(rng, scores=2, pairs=pairs).number(depth or int(rng.integers(2, 5)))


@layer(4, formula=choose_formula, how=["gate", "add", "where"])
def apply_formula(t, x, formula, how):
    y = Formula(t, x).make(formula).unsqueeze(2)
    if how == "gate":
        return x * y.tanh()
    if how == "add":
        return x + y.clip(-10.0, 10.0) * t.graph.weight(WIDTH)
    return t.graph.where(y > 0.2, x, x * 0.5)


@layer(2, formula=lambda rng: choose_formula(rng, pairs=True, depth=3), reduce=["Sum", "Mean", "Max", "softmax"], clean=[True, False])
def apply_pairs(t, x, formula, reduce, clean):
    """Weights of tokens for tokens by a formula."""
    w = Formula(t, x, pairs=True).make(formula)
    if reduce == "softmax":
        w = t.graph.where(t.real.unsqueeze(1), w, -1e9).softmax() if clean else w.softmax()
        return x + t.linear(w @ x)
    w = w * t.number.unsqueeze(1) if clean else w
    return x + w.reduce(reduce, 2).tanh().unsqueeze(2) * t.graph.weight(WIDTH)
