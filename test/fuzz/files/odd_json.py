# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""JSON whose values are changed, and texts that nest, repeat keys, or are none."""

import json
import re

NUMBERS = [0, 1, -1, 2, 3, 7, 64, 4096, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**40, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e308, -1e-320]
TEXTS = ["", " ", "w", "x", "loss", "batch", "f32", "f16", "i64", "u8", "F32", "I64", "BF16", "none", "all", "../../x", "/etc/passwd", "\x1b[31mred\x07", "a\0b", "two\nlines: error: no", "n" * 3000, "\u009b2J", "\u202e",
         "日本語", "%s%n", "(", "(" * 300, "(a*)*b", ".*", "\\", "[[:", "a{99999}", "LONE-SURROGATE", "weights.bin", "program.fb"]  # fmt: skip
OTHERS = [None, True, False, [], {}, [[]], [0], ["x"], {"a": 1}, {"": {}}]


def containers(value, found):
    """Every list and object within, but a long list as one of numbers only once."""
    if isinstance(value, (dict, list)) and value:
        found.append(value)
        for child in value.values() if isinstance(value, dict) else value:
            containers(child, found)
    return found


def descend(value, rng):
    """A container: on every level a random child, so that long lists do not have all the chances."""
    while True:
        inner = [v for v in (value.values() if isinstance(value, dict) else value) if isinstance(v, (dict, list)) and v]
        if not inner or rng.random() < 0.25:
            return value
        value = rng.choice(inner)


def another(old, rng, words=()):
    """A value in place of another, mostly of its type."""
    if rng.random() < 0.12:
        return rng.choice(OTHERS)
    if isinstance(old, bool):
        return not old
    if isinstance(old, (int, float)) and rng.random() < 0.9:
        return rng.choice([old + 1, old - 1, -old, old * 2, *rng.sample(NUMBERS, 4)])
    if isinstance(old, str) and rng.random() < 0.9:
        return rng.choice(list(words)) if words and rng.random() < 0.5 else rng.choice(TEXTS)
    if isinstance(old, list) and rng.random() < 0.7:
        return rng.choice([old[1:], old + old[:1], old * 2, old[::-1], old[:1] * 40, [old]])
    return rng.choice([rng.choice(NUMBERS), rng.choice(TEXTS)])


def damage(root, rng, words=()):
    """Changes one thing within `root` in place."""
    value = descend(root, rng)
    keys = list(value) if isinstance(value, dict) else range(len(value))
    key = rng.choice(list(keys))
    kind = rng.random()
    if kind < 0.12:
        del value[key]
    elif kind < 0.2:
        new = rng.choice([another(value[key], rng, words), value[key]])
        if isinstance(value, dict):
            value[rng.choice([*TEXTS, *words])] = new
        else:
            value.insert(rng.randrange(len(value) + 1), new)
    elif kind < 0.3:  # from elsewhere
        other = descend(root, rng)
        value[key] = json.loads(json.dumps(rng.choice(list(other.values()) if isinstance(other, dict) else other)))
    else:
        value[key] = another(value[key], rng, words)


def tower(rng):
    depth = rng.choice([3, 30, 62, 63, 64, 65, 66, 130, 1000, 20_000, 100_000])
    is_list = rng.random() < 0.5
    return ("[" if is_list else '{"a":') * depth + "0" + ("]" if is_list else "}") * depth if rng.random() < 0.85 else ("[" if is_list else '{"a":') * depth


def text(value, rng, indent=None):
    """`value` as JSON, now and then with damage to the text."""
    result = json.dumps(value, indent=indent, sort_keys=rng.random() < 0.5, ensure_ascii=rng.random() < 0.5)
    result = result.replace("LONE-SURROGATE", "\\ud800")
    kind = rng.random()
    values = [m for m in re.finditer(r'(?<=: )("[^"\\]*"|-?\d+(\.\d+)?|true|null)(?=[,\n}])', result)]
    if kind < 0.08 and values:
        place = rng.choice(values)
        odd = rng.choice([tower(rng), tower(rng), "NaN", "1e999", "-1e999", "1" * 400, "0" * 50 + "1", "'x'", "\"\\u0000\\u001b[2J\"", "// x", "tru"])
        result = result[: place.start()] + odd + result[place.end() :]
    elif kind < 0.12 and values:  # a key twice
        line = rng.choice(re.findall(r'"[^"\\\n]*": [^\n{}\[\]"]+(?=[,\n}])', result) or ['"a": 1'])
        at = rng.choice([m.end() for m in re.finditer(r"\{", result)])
        result = result[:at] + line.strip() + ", " + result[at:]
    elif kind < 0.14:
        result = result[: rng.randrange(len(result) + 1)]
    elif kind < 0.15:
        result = rng.choice(["", "\ufeff", " ", "0", "null", "[]", "{}", '""', tower(rng)])
    data = result.encode("utf-8", "surrogatepass")
    if 0.15 <= kind < 0.17 and data:
        at = rng.randrange(len(data))
        data = data[:at] + rng.choice([b"\xff", b"\0", b"\x80", b"\xed\xa0\x80", b"\x1b"]) + data[at:]
    return data
