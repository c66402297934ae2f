# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Examples as rows of arrays, for each task: which columns there are, and what they hold."""

import dataclasses
import hashlib

import numpy as np

from ..errors import Error
from . import formats
from .rows import RowError
from .templates import Template, marks_of

IGNORED = -100
TASKS = ("causal-lm", "sequence-classification", "token-classification", "masked-lm", "seq2seq")
#: {loss: what a row is}
LOSSES = {"cross-entropy": None, "orpo": "preference", "simpo": "preference", "dpo": "preference", "reward": "preference",
          "kto": "judged"}  # fmt: skip
#: Rows that are left out, and why.
EMPTY, TOO_LONG, NO_LABEL = "empty", "too long", "no label"


@dataclasses.dataclass(frozen=True)
class Column:
    """What index.json says of a column."""

    dtype: str
    pad: int = 0
    ragged: bool = True
    constant: int | None = None
    offsets: str = "offsets"

    def describe(self):
        if not self.ragged:
            return {"dtype": self.dtype, "ragged": False, "shape": []}
        more = {} if self.constant is None else {"constant": self.constant}
        where = {} if self.offsets == "offsets" else {"offsets": self.offsets}
        return {"dtype": self.dtype, "ragged": True, **more, "pad": self.pad, **where}


@dataclasses.dataclass
class Row:
    values: dict
    truncated: bool = False

    def __len__(self):
        return max((len(v) for v in self.values.values() if isinstance(v, np.ndarray)), default=0)


def _ids(values):
    return np.asarray(values, np.int32)


class Task:
    """`columns`, and `encode` from examples to lists of rows, a reason to leave the row out, or a RowError."""

    kind = None  # of formats.FORMATS
    can_split = False

    def __init__(self, tokenizer, settings):
        self.tokenizer, self.settings, self.most = tokenizer, settings, settings.max_length
        pad = tokenizer.pad_token_id
        if pad is None:
            pad = tokenizer.eos_token_id
        self.pad = 0 if pad is None else pad
        self.overlong = settings.overlong
        if self.overlong == "split" and not self.can_split:
            raise Error(f"--overlong split is for causal language models and masked ones, not for {settings.task}")

    def columns(self):
        return {
            "input_ids": Column("I32", self.pad),
            "attention_mask": Column("I8", 0, constant=1),
            "labels": Column("I32", IGNORED),
        }

    def limit(self, length, where):
        """Whether a row of this length is cut; None: it is left out."""
        if length <= self.most:
            return False
        if self.overlong == "drop":
            return None
        if self.overlong == "error":
            raise RowError(f"{where}: {length} tokens, of at most {self.most} (--max-length; --overlong truncate, drop or split)")
        return True


def is_blank(messages):
    """Whether a conversation says nothing: no message, or none of the assistant's (or of anybody, if there is none) has more
    than blanks."""
    said = [m for m in messages if m["role"] == "assistant"] or messages
    return not any(m.get("tool_calls") or (m["content"].strip() if isinstance(m.get("content"), str) else m.get("content")) for m in said)


class CausalLM(Task):
    kind = "causal-lm"
    can_split = True

    def __init__(self, tokenizer, settings):
        super().__init__(tokenizer, settings)
        self.template = Template(tokenizer, settings.train_on, settings.assistant_start, settings.assistant_end)
        self.eos = tokenizer.eos_token_id if settings.eos else None

    def tokens(self, examples, places):
        """(ids, marks) or a RowError for each."""
        found = [None] * len(examples)
        chats = [i for i, example in enumerate(examples) if isinstance(example, formats.Chat)]
        for index in chats:
            if is_blank(examples[index].messages):
                found[index] = [], []
        chats = [index for index in chats if found[index] is None]
        if chats:
            encoded = self.template.encode([examples[i] for i in chats], [places[i] for i in chats])
            for index, each in zip(chats, encoded):
                found[index] = each
        plain = [i for i in range(len(examples)) if found[i] is None]
        if plain:
            texts = [e.prompt + e.completion if isinstance(e, formats.Pair) else e.text for e in (examples[i] for i in plain)]
            for index, encoding in zip(plain, self.tokenizer(texts, add_special_tokens=True).encodings):
                found[index] = self._plain(examples[index], encoding)
        return found

    def _plain(self, example, encoding):
        ids, special = encoding.ids, encoding.special_tokens_mask
        if isinstance(example, formats.Pair):
            if not example.completion.strip():
                return [], []
            begin = 0 if self.settings.train_on == "all" else len(example.prompt)
            marks = marks_of(encoding.offsets, [(begin, len(example.prompt) + len(example.completion))])
        else:
            if not example.text.strip():
                return [], []
            marks = [1] * len(ids)
            first = next((i for i, each in enumerate(special) if not each), 0)
            if not example.begins:
                ids, marks, special = ids[first:], marks[first:], special[first:]
        last = getattr(example, "ends", True)
        while ids and special and special[-1]:  # the tokenizer's own, which it may or may not add
            ids, marks, special = ids[:-1], marks[:-1], special[:-1]
        if last and self.eos is not None:
            ids, marks = [*ids, self.eos], [*marks, 1]
        return ids, marks

    def rows(self, ids, marks, where):
        if not len(ids):
            return EMPTY
        ids, marks = _ids(ids), np.asarray(marks, bool)
        cut = self.limit(len(ids), where)
        if cut is None:
            return TOO_LONG
        if cut and self.overlong == "split":
            # The first token of a piece is not predicted in it: it stands at the end of the one before, too.
            pieces = [slice(at, at + self.most) for at in range(0, len(ids) - 1, self.most - 1)]
        else:
            pieces = [slice(0, self.most)]
        rows = []
        for piece in pieces:
            labels = np.where(marks[piece], ids[piece], IGNORED)
            labels[0] = IGNORED  # nothing stands before it
            if (labels != IGNORED).any():
                rows.append(Row({"input_ids": ids[piece], "labels": labels}, cut and self.overlong != "split"))
        return rows or NO_LABEL

    def encode(self, examples, places):
        found = self.tokens(examples, places)
        return [each if isinstance(each, RowError) else self.rows(*each, where) for each, where in zip(found, places)]


class MaskedLM(Task):
    kind = "masked-lm"
    can_split = True

    def __init__(self, tokenizer, settings):
        super().__init__(tokenizer, settings)
        if tokenizer.mask_token_id is None:
            raise Error(f"the tokenizer has no mask token, so it is not of a masked language model (--task {settings.task})")
        self.special = np.asarray(sorted(set(tokenizer.all_special_ids)))
        # What the tokenizer puts around a text.
        around = tokenizer("a", add_special_tokens=True).encodings[0]
        inside = [i for i, special in enumerate(around.special_tokens_mask) if not special]
        self.before, self.after = around.ids[: inside[0]], around.ids[inside[-1] + 1 :]
        self.ends = len(self.before) + len(self.after)

    def encode(self, examples, places):
        encoded = self.tokenizer([e.text for e in examples], add_special_tokens=False).encodings
        found = []
        for example, encoding, where in zip(examples, encoded, places):
            ids, most = encoding.ids, self.most - self.ends
            if not example.text.strip():
                found.append(EMPTY)
                continue
            cut = self.limit(len(ids) + self.ends, where)
            if cut is None:
                found.append(TOO_LONG)
                continue
            split = cut and self.overlong == "split"
            pieces = [ids[at : at + most] for at in range(0, len(ids), most)] if split else [ids[:most]]
            rows = []
            for copy in range(self.settings.mask_copies):
                for number, piece in enumerate(pieces):
                    row = self.mask(_ids([*self.before, *piece, *self.after]), (where, copy, number))
                    if row is not None:
                        rows.append(Row(row, bool(cut) and not split))
            found.append(rows or NO_LABEL)
        return found

    def mask(self, ids, key):
        """80 % of the chosen become the mask token, 10 % another token, 10 % stay; drawn from the seed and the place."""
        digest = hashlib.sha256(repr((self.settings.seed, *key)).encode()).digest()
        random = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        chosen = (random.random(len(ids)) < self.settings.mask_probability) & ~np.isin(ids, self.special)
        chosen[: len(self.before)] = False
        chosen[len(ids) - len(self.after) :] = False
        if not chosen.any():
            return None
        labels = np.where(chosen, ids, IGNORED).astype(np.int32)
        kind = random.random(len(ids))
        masked = np.where(chosen & (kind < 0.8), self.tokenizer.mask_token_id, ids)
        other = random.integers(0, len(self.tokenizer), len(ids))
        masked = np.where(chosen & (kind >= 0.9), other, masked)
        return {"input_ids": masked.astype(np.int32), "labels": labels}


class _Classes:
    """Names of classes as numbers."""

    def __init__(self, names):
        self.names = list(names or ())
        self.numbers = {name: number for number, name in enumerate(self.names)}

    def number(self, label, where):
        if isinstance(label, bool):
            label = int(label)
        if isinstance(label, str):
            if label in self.numbers:
                return self.numbers[label]
            raise RowError(f"{where}: the class '{label}' is none of {', '.join(map(repr, self.names))}")
        if isinstance(label, float) and label == int(label):
            label = int(label)
        if not isinstance(label, int) or label < 0 or (self.names and label >= len(self.names)):
            most = f"0 to {len(self.names) - 1}" if self.names else "a number from 0"
            raise RowError(f"{where}: the class is {label!r}; expected {most} or a name")
        return label


class SequenceClassification(Task):
    kind = "sequence-classification"

    def __init__(self, tokenizer, settings):
        super().__init__(tokenizer, settings)
        self.scores = settings.label_names == ["score"]
        self.classes = _Classes(None if self.scores else settings.label_names)
        self.types = "token_type_ids" in tokenizer.model_input_names

    def columns(self):
        columns = super().columns()
        columns["labels"] = Column("F32" if self.scores else "I32", ragged=False)
        if self.types:
            columns["token_type_ids"] = Column("I32", 0)
        return columns

    def encode(self, examples, places):
        seconds = [e.second for e in examples]
        if any(second is None for second in seconds):
            encoded = self.tokenizer([e.text if e.second is None else (e.text, e.second) for e in examples]) if any(seconds) else (
                self.tokenizer([e.text for e in examples]))  # fmt: skip
        else:
            encoded = self.tokenizer([e.text for e in examples], seconds)
        found = []
        for example, encoding, where in zip(examples, encoded.encodings, places):
            if not example.text.strip():
                found.append(EMPTY)
                continue
            try:
                if self.scores:
                    if isinstance(example.label, (str, bool)):
                        raise RowError(f"{where}: the label is {example.label!r}; with --label-names score it is a number")
                    label = np.float32(example.label)
                else:
                    label = np.int32(self.classes.number(example.label, where))
                cut = self.limit(len(encoding.ids), where)
            except RowError as error:
                found.append(error)
                continue
            if cut is None:
                found.append(TOO_LONG)
                continue
            if cut:
                encoding.truncate(self.most)
            values = {"input_ids": _ids(encoding.ids), "labels": label}
            if self.types:
                values["token_type_ids"] = _ids(encoding.type_ids)
            found.append([Row(values, cut)])
        return found


class TokenClassification(Task):
    kind = "token-classification"

    def __init__(self, tokenizer, settings):
        super().__init__(tokenizer, settings)
        self.classes = _Classes(settings.label_names)

    def encode(self, examples, places):
        found = []
        for example, where in zip(examples, places):
            if not any(word.strip() for word in example.words):
                found.append(EMPTY)
                continue
            encoding = self.tokenizer(example.words, is_split_into_words=True).encodings[0]
            try:
                tags = [self.classes.number(tag, where) for tag in example.tags]
                cut = self.limit(len(encoding.ids), where)
            except RowError as error:
                found.append(error)
                continue
            if cut is None:
                found.append(TOO_LONG)
                continue
            # A word's class is that of its first token.
            labels, last = [], None
            for word in encoding.word_ids:
                labels.append(IGNORED if word is None or word == last else tags[word])
                last = word
            labels = _ids(labels[: self.most])
            if not (labels != IGNORED).any():
                found.append(NO_LABEL)
                continue
            found.append([Row({"input_ids": _ids(encoding.ids[: self.most]), "labels": labels}, cut)])
        return found


class Seq2Seq(Task):
    kind = "seq2seq"

    def columns(self):
        columns = super().columns()
        columns["labels"] = Column("I32", IGNORED, offsets="offsets.decoder")
        return columns

    def encode(self, examples, places):
        prefix = self.settings.source_prefix or ""
        sources = self.tokenizer([prefix + e.source for e in examples]).encodings
        targets = self.tokenizer(text_target=[e.target for e in examples]).encodings
        most = self.settings.max_target_length or self.most
        found = []
        for example, source, target, where in zip(examples, sources, targets, places):
            if not example.source.strip() or not example.target.strip():
                found.append(EMPTY)
                continue
            try:
                cut = self.limit(max(len(source.ids), len(target.ids) - most + self.most), where)
            except RowError as error:
                found.append(error)
                continue
            if cut is None:
                found.append(TOO_LONG)
                continue
            values = {"input_ids": _ids(_ended(source.ids, self.most)), "labels": _ids(_ended(target.ids, most))}
            found.append([Row(values, cut)])
        return found


def _ended(ids, most):
    """Cut in front of its last token, which ends it."""
    return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]


class _Sides(CausalLM):
    """Rows of two answers, each with its prompt, whose columns differ in their prefix; what is trained on is the answer."""

    can_split = False
    sides = ("", "")

    def columns(self):
        columns = {}
        for side in self.sides:
            columns[f"{side}input_ids"] = Column("I32", self.pad)
            columns[f"{side}attention_mask"] = Column("I8", 0)
            columns[f"{side}labels"] = Column("I32", IGNORED)
        return columns

    def pair(self, prompt, answer, where):
        if isinstance(prompt, list) or isinstance(answer, list):
            before = prompt if isinstance(prompt, list) else [{"role": "user", "content": prompt}]
            after = answer if isinstance(answer, list) else [{"role": "assistant", "content": answer}]
            return formats.Chat(before + after)
        if self.tokenizer.chat_template:
            return formats.Chat([{"role": "user", "content": prompt}, {"role": "assistant", "content": answer}])
        return formats.Pair(prompt, answer)

    def tokens_of(self, pairs, places):
        """(ids, labels, cut), a reason or a RowError for each (prompt, answer)."""
        chats = [self.pair(prompt, answer, where) for (prompt, answer), where in zip(pairs, places)]
        results = []
        for each, where in zip(self.tokens(chats, places), places):
            try:
                rows = each if isinstance(each, RowError) else self.rows(*each, where)
            except RowError as error:
                rows = error
            results.append(rows[0] if isinstance(rows, list) else rows)
        return results

    def together(self, pairs, others, places):
        """A row for each two answers, both of one length, so that a batch is one array of twice as many rows."""
        for one, two in zip(self.tokens_of(pairs, places), self.tokens_of(others, places)):
            wrong = next((each for each in (one, two) if not isinstance(each, Row)), None)
            if wrong is not None:
                yield wrong
                continue
            longest = max(len(one), len(two))
            values = {}
            for side, row in zip(self.sides, (one, two)):
                rest = (0, longest - len(row))
                values[f"{side}input_ids"] = np.pad(row.values["input_ids"], rest, constant_values=self.pad)
                values[f"{side}attention_mask"] = np.pad(np.ones(len(row), np.int8), rest)
                values[f"{side}labels"] = np.pad(row.values["labels"], rest, constant_values=IGNORED)
            yield [Row(values, one.truncated or two.truncated)]


class Preference(_Sides):
    kind = "preference"
    sides = ("chosen_", "rejected_")

    def encode(self, examples, places):
        chosen, rejected = ([(e.prompt, getattr(e, side)) for e in examples] for side in ("chosen", "rejected"))
        return list(self.together(chosen, rejected, places))


class Judged(_Sides):
    """For KTO: a row beside its answer has that of another row, from which the mean is estimated."""

    kind = "judged"
    sides = ("", "kl_")

    def columns(self):
        return {**super().columns(), "desirable": Column("F32", ragged=False)}

    def encode(self, examples, places):
        own = [(e.prompt, e.completion) for e in examples]
        other = [(e.prompt, o.completion) for e, o in zip(examples, [*examples[1:], *examples[:1]])]
        found = list(self.together(own, other, places))
        for example, rows in zip(examples, found):
            if isinstance(rows, list):
                rows[0].values["desirable"] = np.float32(example.label)
        return found


_BY_KIND = {c.kind: c for c in (CausalLM, MaskedLM, SequenceClassification, TokenClassification, Seq2Seq, Preference, Judged)}


def make(tokenizer, settings):
    return _BY_KIND[LOSSES[settings.loss] or settings.task](tokenizer, settings)


def row_kind(settings):
    """Which of formats.FORMATS rows have."""
    return LOSSES[settings.loss] or settings.task
