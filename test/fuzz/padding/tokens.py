# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What programs are made of: inputs of a batch of tokens, masks, and random formulas of them."""

from graph import Value

WIDTH, VOCABULARY, CLASSES = 6, 11, 4
TOKENS = ["batch", "seq"]


class Tokens:
    """The inputs of a program, made when they are first asked for. `mask` says how it tells padding."""

    MASKS = ["attention_mask", "bool mask", "float mask", "pad id", "mask and pad id", "documents", "documents beside a mask"]

    def __init__(self, graph, mask):
        self.graph, self.source = graph, mask
        self.ids = graph.input("input_ids", "i64", TOKENS)
        self.cache = {}

    def _once(self, key, make):
        if key not in self.cache:
            self.cache[key] = make()
        return self.cache[key]

    @property
    def documents(self):
        return self.graph.input("segment_ids", "i64", TOKENS)

    @property
    def real(self):
        """[batch, seq], whether there is a token."""
        g = self.graph
        return self._once("real", {
            "attention_mask": lambda: ~g.input("attention_mask", "i64", TOKENS).equals(0),
            "bool mask": lambda: g.input("attention_mask", "bool", TOKENS),
            "float mask": lambda: g.input("attention_mask", None, TOKENS) > 0.5,
            "pad id": lambda: ~self.ids.equals(0),
            "mask and pad id": lambda: ~g.input("attention_mask", "i64", TOKENS).equals(0) & ~self.ids.equals(0),
            "documents": lambda: ~self.documents.equals(0),
            "documents beside a mask": lambda: ~g.input("attention_mask", "i64", TOKENS).equals(0),
        }[self.source])

    @property
    def number(self):
        """The same as 0 and 1."""
        if self.source == "float mask":
            return self.graph.input("attention_mask", None, TOKENS)
        if self.source in ("attention_mask", "documents beside a mask"):
            return self._once("number", lambda: self.graph.input("attention_mask", "i64", TOKENS).to())
        return self._once("number", self.real.to)

    @property
    def span(self):
        """Some of the tokens of a row, in some rows none."""
        return self._once("span", lambda: ~self.graph.input("span_mask", "i64", TOKENS).equals(0))

    @property
    def places(self):
        """[seq]: 0, 1, 2 ..."""
        def make():
            g = self.graph
            end = g.op("Shape", self.ids, start=1, end=2, integer=True).squeeze(0)
            return g.op("Range", g.const(0, "i64"), end, g.const(1, "i64"), integer=True)
        return self._once("places", make)

    @property
    def counted(self):
        """[batch, seq]: places counted by the mask, 0 at the first token, 1 at padding."""
        return self._once("counted", lambda: self.graph.where(self.real, self.real.to("i64").cumsum(1) - 1, self.graph.const(1, "i64")))

    @property
    def row(self):
        """[batch]: a number a sample."""
        return self.graph.input("row", None, ["batch"])

    @property
    def extra(self):
        """[batch, seq]: floats, which hold anything at padding."""
        return self.graph.input("extra", None, TOKENS)

    def embed(self, ids, rows):
        return self.graph.op("Gather", self.graph.weight(rows, WIDTH, scale=0.8), ids)

    def linear(self, x, inputs=WIDTH, outputs=WIDTH):
        return x @ self.graph.weight(inputs, outputs) + self.graph.weight(outputs, scale=0.3)

    def score(self, x):
        """[batch, seq]: a number a token."""
        return self.linear(x, WIDTH, 1).squeeze(2)

    # ----- masks of pairs ------------------------------------------------------------------

    ORDERS = ["", "causal", "strict", "window", "neighbours", "not itself", "later"]

    def order(self, kind):
        """[1, seq, seq]: which columns a row may see by its place; None: all."""
        i, j = self.places.unsqueeze(0, 2), self.places.unsqueeze(0, 1)
        return {
            "": lambda: None,
            "causal": lambda: j <= i,
            "strict": lambda: j < i,
            "window": lambda: ((i - j).abs() <= 2),
            "neighbours": lambda: ((i - j).abs() <= 1) & ~i.equals(j),
            "not itself": lambda: ~i.equals(j),
            "later": lambda: j > i,
        }[kind]()

    CHOICES = ["", "span", "documents", "above 3", "odd places", "row's span"]

    def choice(self, kind):
        """[batch, seq or 1, seq]: which columns are seen by what they are; None: all."""
        return {
            "": lambda: None,
            "span": lambda: self.span.unsqueeze(1),
            "row's span": lambda: self.span.unsqueeze(2) & self.span.unsqueeze(1),
            "documents": lambda: self.documents.unsqueeze(2).equals(self.documents.unsqueeze(1)),
            "above 3": lambda: self.ids.unsqueeze(1) > 3,
            "odd places": lambda: self.graph.op("Mod", self.places, self.graph.const(2, "i64"), integer=True).equals(1).unsqueeze(0, 1),
        }[kind]()

    def visible(self, columns, rows, order, choice, built="and"):
        """[batch, seq or 1, seq]: columns of tokens, rows of tokens, places, and a choice among them."""
        parts = [self.real.unsqueeze(1) if columns else None, self.real.unsqueeze(2) if rows else None,
                 self.order(order), self.choice(choice)]
        parts = [part for part in parts if part is not None] or [self.real.unsqueeze(1)]
        result = parts[0].to("i64") if built == "product" else parts[0]
        for part in parts[1:]:
            result = result * part.to("i64") if built == "product" else result & part
        return ~result.equals(0) if built == "product" else result


# ----- formulas ------------------------------------------------------------------------------
# Lists whose first element says what they are; the generator makes them, `Formula` their nodes. Divisors and
# arguments of logarithms are above 0 at tokens; at padding they are whatever comes of it.

INF = float("inf")
ORDINARY = [0.0, 1.0, -1.0, 0.5, 2.0, 0.1, -0.3]
WILD = [1e-8, 1e-30, 1e3, -1e3, -1001.0, -2000.0, 1e4, -1e4, 1e9, -1e9, 1e10, -1e10, 3e38, -3e38, INF, -INF]


class Chooser:
    """Random formulas. `pairs`: of two tokens, [batch, seq, seq]."""

    def __init__(self, rng, scores, pairs=False):
        self.rng, self.scores, self.pairs = rng, scores, pairs

    def pick(self, options):
        return options[int(self.rng.integers(len(options)))]

    def chance(self, share):
        return self.rng.random() < share

    def constant(self, wild=0.25):
        return ["c", self.pick(WILD if self.chance(wild) else ORDINARY)]

    def leaf(self):
        kinds = ["score"] * 6 + ["real", "real", "ids", "span", "place", "row", "extra", "length"]
        kind = self.pick(kinds)
        leaf = ["score", int(self.rng.integers(self.scores))] if kind == "score" else [kind]
        return leaf + [self.pick(["i", "j"])] if self.pairs else leaf

    def number(self, depth):
        if depth <= 0:
            return self.leaf() if self.chance(0.9) else self.constant()
        sub = lambda: self.number(depth - 1 - int(self.rng.integers(2)))
        kind = self.pick(["add", "sub", "mul", "mul", "div", "unary", "unary", "min", "max", "where", "where", "clip", "log", "positive", "masked",
                          "masked", "repair", "leaf"])
        if kind in ("add", "sub", "mul"):
            return [kind, sub(), sub() if self.chance(0.8) else self.constant(0.1)]
        if kind in ("min", "max"):
            return [kind, sub(), sub() if self.chance(0.4) else self.constant(0.5)]
        if kind == "div":
            return [kind, sub(), self.positive(depth - 1)]
        if kind == "unary":
            return [self.pick(["Tanh", "Sin", "Neg", "Erf", "Relu", "Gelu", "Abs", "Sigmoid", "Elu", "Floor", "Round", "Sign", "LeakyRelu"]), sub()]
        if kind == "where":
            return ["where", self.condition(depth - 1), sub(), sub() if self.chance(0.5) else self.constant(0.5)]
        if kind == "clip":
            low, high = sorted([self.pick(ORDINARY + WILD), self.pick(ORDINARY + WILD)])
            return ["clip", sub(), low, high]
        if kind == "log":
            return ["Log", self.positive(depth - 1)]
        if kind == "positive":
            return self.positive(depth - 1)
        if kind == "masked":  # padding gets a constant
            return self.pick([["mul", sub(), self.of(["real"])],
                              ["where", self.of(["is real"]), sub(), self.constant(0.5)],
                              ["where", self.of(["is real"]), sub(), ["c", 0.0]]])
        if kind == "repair":  # what is no number becomes one
            return ["where", [self.pick(["isnan", "isinf"]), sub()], self.constant(0.1), sub()]
        return self.leaf()

    def of(self, leaf):
        return leaf + [self.pick(["i", "j"])] if self.pairs else leaf

    def positive(self, depth):
        """Above 0 at tokens."""
        if depth <= 0:
            return self.pick([self.of(["real"]), ["c", 1.0], ["Sigmoid", self.leaf()], ["exp", self.leaf()], self.of(["length"])])
        sub, plus = lambda: self.number(depth - 1), lambda: self.positive(depth - 1)
        kind = self.pick(["exp", "square", "softplus", "Sigmoid", "add", "mul", "masked", "masked", "div", "Sqrt", "where", "max", "real or"])
        return {
            "exp": lambda: ["exp", sub()],
            "square": lambda: ["add", ["mul", *[sub()] * 2], ["c", self.pick([0.1, 1.0])]],
            "softplus": lambda: ["Softplus", sub()],
            "Sigmoid": lambda: ["Sigmoid", sub()],
            "add": lambda: ["add", plus(), plus()],
            "mul": lambda: ["mul", plus(), plus()],
            "masked": lambda: ["mul", plus(), self.of(["real"])],
            "div": lambda: ["div", plus(), plus()],
            "Sqrt": lambda: ["Sqrt", plus()],
            "where": lambda: ["where", self.of(["is real"]), plus(), self.constant(0.5)],
            "max": lambda: ["max", plus(), sub()],
            "real or": lambda: ["add", ["Abs", sub()], self.of(["real"])],
        }[kind]()

    def condition(self, depth):
        simple = self.pick([["is real"], ["is real"], ["is span"], ["id is", self.pick([0, 1, 3])], ["id above", self.pick([0, 2, 5])]])
        if depth <= 0:
            return self.of(simple)
        sub = lambda: self.condition(depth - 1)
        kind = self.pick(["greater", "greater", "less", "and", "or", "not", "isnan", "isinf", "simple"])
        if kind in ("greater", "less"):
            return [kind, self.number(depth - 1), self.number(depth - 2) if self.chance(0.3) else self.constant(0.5)]
        if kind in ("and", "or"):
            return [kind, sub(), sub()]
        if kind == "not":
            return ["not", sub()]
        if kind in ("isnan", "isinf"):
            return [kind, self.number(depth - 1)]
        return self.of(simple)


class Formula:
    def __init__(self, tokens, x, pairs=False):
        self.tokens, self.x, self.pairs, self.scores = tokens, x, pairs, {}

    def side(self, value, formula):
        """A leaf in the place that it has in a formula of pairs."""
        return value.unsqueeze(2 if formula[-1] == "i" else 1) if self.pairs else value

    def emit(self, formula):
        kind, t, g, emit = formula[0], self.tokens, self.tokens.graph, self.emit
        if kind == "c":
            return g.const(formula[1])
        if kind == "score":
            if formula[1] not in self.scores:
                self.scores[formula[1]] = t.score(self.x)
            return self.side(self.scores[formula[1]], formula)
        binary = {"add": Value.__add__, "sub": Value.__sub__, "mul": Value.__mul__, "div": Value.__truediv__, "min": Value.minimum,
                  "max": Value.maximum, "greater": Value.__gt__, "less": Value.__lt__, "and": Value.__and__, "or": Value.__or__}
        if kind in binary:
            return binary[kind](emit(formula[1]), emit(formula[2]))
        if kind == "where":
            return g.where(emit(formula[1]), emit(formula[2]), emit(formula[3]))
        if kind == "clip":
            return emit(formula[1]).clip(formula[2], formula[3])
        if kind == "exp":
            return emit(formula[1]).minimum(5.0).exp()
        if kind == "not":
            return ~emit(formula[1])
        if kind in ("isnan", "isinf"):
            return g.op({"isnan": "IsNaN", "isinf": "IsInf"}[kind], emit(formula[1]))
        if kind == "id is":
            return self.side(t.ids.equals(formula[1]), formula)
        if kind == "id above":
            return self.side(t.ids > formula[1], formula)
        leaves = {
            "real": lambda: t.number,
            "ids": lambda: t.ids.to() * 0.1,
            "span": lambda: t.span.to(),
            "place": lambda: t.places.to().unsqueeze(0) * 0.2,
            "row": lambda: t.row.unsqueeze(1),
            "extra": lambda: t.extra,
            "length": lambda: t.number.sum(1, keep=True),
            "is real": lambda: t.real,
            "is span": lambda: t.span,
        }
        if kind in leaves:
            return self.side(leaves[kind](), formula)
        return g.op(kind, emit(formula[1]))

    def make(self, formula):
        """[batch, seq], or [batch, seq, seq] of pairs."""
        value, g = self.emit(formula), self.tokens.graph
        shape = g.op("Shape", self.tokens.ids, integer=True)
        if self.pairs:
            shape = g.concat(0, shape, g.op("Shape", self.tokens.ids, start=1, end=2, integer=True))
        return g.op("Expand", value, shape)


def parts(formula):
    """Formulas within one, of the same type as it, that may stand in its place."""
    boolean = ("greater", "less", "and", "or", "not", "isnan", "isinf", "id is", "id above", "is real", "is span")
    for part in formula[1:]:
        if isinstance(part, list):
            if (part[0] in boolean) == (formula[0] in boolean):
                yield part
            yield from (p for p in parts(part) if (p[0] in boolean) == (formula[0] in boolean))
