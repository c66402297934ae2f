# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What a row means: its keys tell the format, whatever task it is for."""

import dataclasses
import difflib

from .rows import RowError, kind_of

#: ShareGPT's words for who speaks.
SPEAKERS = {
    "human": "user", "user": "user", "gpt": "assistant", "chatgpt": "assistant", "bing": "assistant", "bard": "assistant",
    "assistant": "assistant", "model": "assistant", "system": "system", "tool": "tool", "function_response": "tool",
    "observation": "tool",
}  # fmt: skip


@dataclasses.dataclass
class Chat:
    """Messages with `role` and `content`; `extra` is what else a template may want (tools, documents)."""

    messages: list
    extra: dict = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Pair:
    """A text that is given and one that is learnt."""

    prompt: str
    completion: str


@dataclasses.dataclass
class Text:
    text: str
    #: Where the text is a piece of a longer one: whether that begins and ends with it.
    begins: bool = True
    ends: bool = True


@dataclasses.dataclass
class Preference:
    """Two answers to the same, the better one first. `prompt` is a text or a list of messages."""

    prompt: object
    chosen: object
    rejected: object


@dataclasses.dataclass
class Judged:
    """An answer and whether it is wanted."""

    prompt: object
    completion: object
    label: bool


@dataclasses.dataclass
class Labelled:
    """A text, or two, with a class (a number or a name) or a score."""

    text: str
    second: str | None
    label: object


@dataclasses.dataclass
class Tagged:
    """Words with a class each."""

    words: list
    tags: list


@dataclasses.dataclass
class Translation:
    source: str
    target: str


#: {task: formats as (name, keys that are needed), the first that fits counts}
FORMATS = {
    "causal-lm": (
        ("messages", ("messages",)), ("sharegpt", ("conversations",)), ("prompt", ("prompt", "completion")),
        ("alpaca", ("instruction", "output")), ("text", ("text",)),
    ),
    "preference": (
        ("preference", ("prompt", "chosen", "rejected")), ("preference", ("chosen", "rejected")),
    ),
    "judged": (("judged", ("prompt", "completion", "label")),),
    "sequence-classification": (
        ("labelled", ("text", "label")), ("labelled", ("sentence", "label")),
        ("labelled", ("sentence1", "sentence2", "label")), ("labelled", ("premise", "hypothesis", "label")),
        ("labelled", ("question", "sentence", "label")), ("labelled", ("text1", "text2", "label")),
    ),
    "token-classification": (
        ("tagged", ("tokens", "tags")), ("tagged", ("tokens", "ner_tags")), ("tagged", ("words", "labels")),
        ("tagged", ("tokens", "labels")),
    ),
    "masked-lm": (("text", ("text",)),),
    "seq2seq": (
        ("translation", ("source", "target")), ("translation", ("prompt", "completion")),
        ("translation", ("document", "summary")), ("translation", ("instruction", "output")),
    ),
}  # fmt: skip
NAMES = tuple(dict.fromkeys(name for formats in FORMATS.values() for name, _ in formats))


def find(row, task, wanted, where):
    """(format, keys) of a row, or an error that tells the keys that are there and the nearest known ones."""
    for name, keys in FORMATS[task]:
        if wanted in ("auto", name) and all(key in row for key in keys):
            return name, keys
    known = [f"`{'`, `'.join(keys)}`" for name, keys in FORMATS[task] if wanted in ("auto", name)]
    if not known:
        names = dict.fromkeys(name for name, _ in FORMATS[task])
        raise RowError(f"{where}: --format {wanted} is not for this task, which has {', '.join(names)}")
    names = {key for name, keys in FORMATS[task] for key in keys}
    close = {key: near[0] for key in row if key not in names and (near := difflib.get_close_matches(key, names, 1, 0.7))}
    hint = "".join(f"; did you mean '{near}' by '{key}'?" for key, near in close.items())
    found = ", ".join(f"'{key}'" for key in row) or "none"
    raise RowError(f"{where}: no known keys: the row has {found}; expected {' or '.join(known)}{hint}"
                   + ("" if close else "; --columns KNOWN=YOURS,... names them"))  # fmt: skip


def _text(row, key, where):
    value = row[key]
    if not isinstance(value, str):
        raise RowError(f"{where}: '{key}' is {kind_of(value)}, not a text")
    return value


def messages_of(value, key, where):
    """A list of messages with role and content; ShareGPT's from and value are read, too."""
    if not isinstance(value, list):
        raise RowError(f"{where}: '{key}' is {kind_of(value)}, not a list of messages")
    messages = []
    for index, message in enumerate(value):
        at = f"{where}: {key}[{index}]"
        if not isinstance(message, dict):
            raise RowError(f"{at} is {kind_of(message)}, not an object with 'role' and 'content'")
        if "from" in message and "value" in message:
            speaker = str(message["from"])
            if speaker not in SPEAKERS:
                raise RowError(f"{at}: 'from' is '{speaker}', none of {', '.join(SPEAKERS)}")
            message = {**{k: v for k, v in message.items() if k not in ("from", "value")},
                       "role": SPEAKERS[speaker], "content": message["value"]}  # fmt: skip
        if "role" not in message or ("content" not in message and "tool_calls" not in message):
            found = ", ".join(f"'{name}'" for name in message) or "no keys"
            raise RowError(f"{at} has {found}; expected 'role' and 'content', or 'from' and 'value'")
        if message.get("content") is not None and not isinstance(message["content"], (str, list)):
            raise RowError(f"{at}: 'content' is {kind_of(message['content'])}, not a text")
        if isinstance(message.get("content"), list) and all(
            isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str) for part in message["content"]
        ):
            message = {**message, "content": "".join(part["text"] for part in message["content"])}
        # Tables have every key in every message.
        messages.append({name: each for name, each in message.items() if each is not None or name == "content"})
    return messages


def _alpaca(row, where):
    """(what is asked, what is answered); `input` is what the instruction is about."""
    asked = _text(row, "instruction", where)
    if row.get("input"):
        asked += "\n\n" + _text(row, "input", where)
    return asked, _text(row, "output", where)


def read(row, task, wanted, columns, has_template, where):
    """The example that a row is, one of the classes above."""
    for known, theirs in (columns or {}).items():
        if theirs not in row:
            found = ", ".join(f"'{key}'" for key in row)
            raise RowError(f"{where}: there is no '{theirs}', which --columns names for '{known}'; the row has {found}")
    if columns:
        row = {**row, **{known: row[theirs] for known, theirs in columns.items()}}
    name, keys = find(row, task, wanted, where)
    if name in ("messages", "sharegpt"):
        key = keys[0]
        extra = {part: row[part] for part in ("tools", "documents") if row.get(part)}
        messages = messages_of(row[key], key, where)
        if name == "sharegpt" and row.get("system"):
            messages.insert(0, {"role": "system", "content": _text(row, "system", where)})
        return Chat(messages, extra)
    if name == "prompt":
        if isinstance(row["prompt"], list) or isinstance(row["completion"], list):
            return Chat(messages_of(row["prompt"], "prompt", where) + messages_of(row["completion"], "completion", where))
        return Pair(_text(row, "prompt", where), _text(row, "completion", where))
    if name == "alpaca":
        asked, answered = _alpaca(row, where)
        if has_template:
            system = [{"role": "system", "content": _text(row, "system", where)}] if row.get("system") else []
            return Chat([*system, {"role": "user", "content": asked}, {"role": "assistant", "content": answered}])
        return Pair(f"### Instruction:\n{asked}\n\n### Response:\n", answered)
    if name == "text":
        return Text(_text(row, "text", where))
    if name == "preference":
        values = [
            messages_of(row[key], key, where) if isinstance(row.get(key), list) else _text(row, key, where)
            for key in ("chosen", "rejected")
        ]
        if "prompt" not in row:
            return Preference(*_shared(values, where))
        prompt = row["prompt"]
        return Preference(messages_of(prompt, "prompt", where) if isinstance(prompt, list) else _text(row, "prompt", where), *values)
    if name == "judged":
        label = row["label"]
        if not isinstance(label, bool) and label not in (0, 1):
            raise RowError(f"{where}: 'label' is {label!r}; expected true (wanted) or false")
        parts = [
            messages_of(row[key], key, where) if isinstance(row[key], list) else _text(row, key, where)
            for key in ("prompt", "completion")
        ]
        return Judged(*parts, bool(label))
    if name == "labelled":
        texts = [_text(row, key, where) for key in keys[:-1]]
        label = row["label"]
        if isinstance(label, (list, dict)):
            raise RowError(f"{where}: 'label' is {kind_of(label)}; one class or score a row is read")
        return Labelled(texts[0], texts[1] if len(texts) > 1 else None, label)
    if name == "tagged":
        words, tags = row[keys[0]], row[keys[1]]
        if not isinstance(words, list) or not isinstance(tags, list):
            raise RowError(f"{where}: '{keys[0]}' and '{keys[1]}' have to be lists")
        if len(words) != len(tags):
            raise RowError(f"{where}: {len(words)} words in '{keys[0]}' and {len(tags)} classes in '{keys[1]}'")
        return Tagged([str(word) for word in words], tags)
    if keys[0] == "instruction":
        return Translation(*_alpaca(row, where))
    return Translation(_text(row, keys[0], where), _text(row, keys[1], where))


def _shared(values, where):
    """Prompt, chosen and rejected of two conversations that begin alike."""
    one, two = values
    if not isinstance(one, list) or not isinstance(two, list):
        raise RowError(f"{where}: without 'prompt', 'chosen' and 'rejected' have to be lists of messages")
    same = 0
    while same < min(len(one), len(two)) and one[same] == two[same]:
        same += 1
    if not same or same in (len(one), len(two)):
        raise RowError(f"{where}: 'chosen' and 'rejected' have to begin with the same messages and to end differently")
    return one[:same], one[same:], two[same:]
