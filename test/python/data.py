# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc data`: formats, templates, tasks, shards, packing, and what is said of bad input. `data.py FOLDER`"""

import contextlib
import gzip
import io
import json
import pathlib
import random
import sys

import numpy as np
import tiny
from trainc import commands, tensors
from trainc.data import packing, shards, tokenizers

folder = pathlib.Path(sys.argv[1])
model = tiny.tokenizer(folder / "model")
tokenizer = tokenizers.load(str(model))
IGNORED = -100


def run(*arguments, code=0):
    """What the command prints."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        found = commands.run(commands.find(["data"]), [str(a) for a in arguments])
    assert found == code, (arguments, found, out.getvalue(), err.getvalue())
    return out.getvalue() if code == 0 else err.getvalue()


def data(rows, *options, name="rows.jsonl", tokens=model, code=0):
    """The folder of these rows (or the message of the error)."""
    path = rows if isinstance(rows, pathlib.Path) else pathlib.Path(tiny.write(folder / name, rows))
    said = run(path, "--tokenizer", tokens, "-o", folder / "out", *options, code=code)
    return shards.Folder(folder / "out") if code == 0 else said


def texts(opened):
    """(text, what of it is learnt) of each row."""
    return [
        (tokenizer.decode(row["input_ids"]), tokenizer.decode(row["input_ids"][row["labels"] != IGNORED])) for row in opened
    ]


def formats():
    answer = "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyes.<|im_end|>\n"
    chat = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yes."}]
    same = [
        {"messages": chat},
        {"conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "yes."}]},
        {"conversations": chat},
        {"prompt": chat[:1], "completion": chat[1:]},
        {"instruction": "hi", "input": "", "output": "yes."},
    ]
    for row in same:
        assert texts(data([row])) == [(answer, "yes.<|im_end|>")], row
    assert texts(data([{"prompt": "a b", "completion": " c"}])) == [("a b c<|im_end|>", " c<|im_end|>")]
    assert texts(data([{"prompt": "a b", "completion": " c"}], "--no-eos")) == [("a b c", " c")]
    assert texts(data([{"text": "abc"}])) == [("abc<|im_end|>", "bc<|im_end|>")]  # nothing stands before the first
    assert texts(data([{"text": "abc"}], tokens=tiny.tokenizer(folder / "bracketed", bracketed=True))) == [
        ("<|im_start|>abc<|im_end|>", "abc<|im_end|>")
    ]
    plain = tiny.tokenizer(folder / "plain", template=None)
    alpaca = {"instruction": "do", "input": "it", "output": "ok"}
    assert texts(data([alpaca], tokens=plain)) == [
        ("### Instruction:\ndo\n\nit\n\n### Response:\nok<|im_end|>", "ok<|im_end|>")
    ]
    with_input = texts(data([alpaca]))[0][0]
    assert "do\n\nit" in with_input and "### " not in with_input
    assert texts(data([{"body": "abc"}], "--columns", "text=body"))[0][0] == "abc<|im_end|>"
    # JSON arrays, and plain text in pieces.
    (folder / "rows.json").write_text(json.dumps([{"text": "ab"}, {"text": "cd"}]))
    assert len(texts(data(folder / "rows.json"))) == 2
    (folder / "rows.txt").write_text("abcdefghij\n")
    assert [text for text, _ in texts(data(folder / "rows.txt", "--max-length", 5))] == ["abcde", "efghi", "ij\n<|im_end|>"]
    (folder / "many").mkdir()
    for name in ("b.jsonl", "a.jsonl"):
        tiny.write(folder / "many" / name, [{"text": name[0]}])
    assert [text[0] for text, _ in texts(data(folder / "many"))] == ["a", "b"]
    # Tables have all keys in all rows.
    from trainc.data import rows as reading

    parsed = list(reading.parse("t", "rows", 1, [{"text": "a", "messages": None}], None))
    assert parsed == [(1, {"text": "a"})], parsed


def templates():
    """The three ways to find the assistant's text agree, and with transformers."""
    rows = tiny.chats(40)
    marked = tiny.tokenizer(folder / "marked", template=tiny.MARKED)
    by_tags, by_prefixes = texts(data(rows, tokens=marked)), texts(data(rows))
    by_markers = texts(data(rows, "--assistant-start", "<|im_start|>assistant\n", "--assistant-end", "<|im_end|>"))
    assert by_tags == by_prefixes == by_markers
    other = tokenizers.load(str(marked))
    opened = data(rows, tokens=marked)
    for row, stored in zip(rows, opened):
        theirs = other.apply_chat_template(row["messages"], return_dict=True, return_assistant_tokens_mask=True)
        assert list(stored["input_ids"]) == theirs["input_ids"]
        assert list((stored["labels"] != IGNORED).astype(int)) == theirs["assistant_masks"]
    # Given as a file, it is the same as the tokenizer's own.
    (folder / "marked.jinja").write_text(tiny.MARKED)
    assert texts(data(rows, "--chat-template", folder / "marked.jinja")) == by_tags
    last = texts(data(rows, "--train-on", "last"))
    for (text, all_learnt), (_, learnt) in zip(by_tags, last):
        assert all_learnt.endswith(learnt) and learnt.count("<|im_end|>") == 1
    assert texts(data(rows[:1], "--train-on", "all"))[0][1] == by_tags[0][0].removeprefix("<|im_start|>")
    # A template that changes what was said: the text itself is looked for.
    thinking = tiny.tokenizer(folder / "thinking", template=tiny.THINKING, extra=["<", ">"])
    for (text, learnt), row in zip(texts(data(rows, tokens=thinking)), rows):
        said = [m["content"] for m in row["messages"] if m["role"] == "assistant"]
        assert learnt.replace("think\n/think", "").split("<|im_end|>")[:-1] == said, learnt
    reverse = "{% for message in messages|reverse %}{{ message['content'] }}{% endfor %}"
    said = data(rows[2:3], tokens=tiny.tokenizer(folder / "reverse", template=reverse), code=1)
    assert "rows.jsonl:1: the template writes a conversation's beginning differently once it goes on" in said, said
    # Messages that are not to be learnt.
    weighted = json.loads(json.dumps(rows[1]))
    weighted["messages"][1]["weight"] = 0
    ((_, learnt),) = texts(data([weighted]))
    assert learnt == weighted["messages"][3]["content"] + "<|im_end|>"


def bad_rows():
    chat = tiny.chats(1)[0]
    for wrong, expected in (
        ({"mesages": []}, "rows.jsonl:2: no known keys: the row has 'mesages'; expected `messages` or `conversations` or `prompt`, "
                          "`completion` or `instruction`, `output` or `text`; did you mean 'messages' by 'mesages'?"),
        ({"foo": 1, "bar": 2}, "the row has 'foo', 'bar'; expected `messages`"),
        ({"foo": 1}, "--columns KNOWN=YOURS,... names them"),
        (7, "rows.jsonl:2: expected an object with keys, got a number"),
        ({"text": 7}, "rows.jsonl:2: 'text' is a number, not a text"),
        ({"messages": "hi"}, "rows.jsonl:2: 'messages' is a text, not a list of messages"),
        ({"messages": ["hi"]}, "rows.jsonl:2: messages[0] is a text, not an object with 'role' and 'content'"),
        ({"messages": [{"rol": "user"}]}, "rows.jsonl:2: messages[0] has 'rol'; expected 'role' and 'content', or 'from' and 'value'"),
        ({"conversations": [{"from": "me", "value": ""}]}, "conversations[0]: 'from' is 'me', none of human, user"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages[0]: 'content' is a number, not a text"),
    ):  # fmt: skip
        said = data([chat, wrong], code=1)
        assert expected in said, said
    path = folder / "broken.jsonl"
    path.write_bytes(b'{"text": "a"}\n\n{"text": "b"\n')
    assert "broken.jsonl:3: no JSON: Expecting ',' delimiter at column 13" in data(path, code=1)
    path.write_bytes(b'{"text": "a"}\n{"text": "\xff"}\n')
    assert "broken.jsonl:2: the line is not UTF-8" in data(path, code=1)
    (folder / "bad.txt").write_bytes(b"abc\n\xff\n")
    assert "bad.txt:2: the text is not UTF-8" in data(folder / "bad.txt", code=1)
    (folder / "bad.json").write_text("[1,")
    assert "bad.json:1: no JSON: " in data(folder / "bad.json", code=1)
    path.write_text('{"text": "a"}\n{"text": \n{"text": "b"}\n')
    report = data(path, "--bad-rows", "skip").index["report"]
    assert (report["read"], report["rows"], report["unreadable"]) == (3, 2, 1), report
    assert "broken.jsonl:2" in report["first"]["unreadable"]
    plain = tiny.tokenizer(folder / "plain", template=None)
    assert "rows.jsonl:1: the row is a conversation, and the tokenizer has no chat template: --chat-template FILE gives one" in data(
        [chat], tokens=plain, code=1
    )
    strict = tiny.tokenizer(folder / "strict", template="{{ raise_exception('roles must alternate') }}")
    assert "rows.jsonl:1: the chat template refuses the row: roles must alternate" in data([chat], tokens=strict, code=1)
    said = data([{"messages": chat["messages"][:2]}], code=1)
    assert "no row is left of 1: 1 have no token that is learnt (first" in said and "--show 3 --train-on all" in said, said
    assert "1 are empty" in data([{"text": ""}], code=1)
    assert "there is no such file" in data(folder / "none.jsonl", code=1)
    (folder / "empty.jsonl").write_text("")
    assert "the file is empty" in data(folder / "empty.jsonl", code=1)
    (folder / "rows.csv").write_text("a,b\n")
    assert "rows.csv: rows are read from files that end in .jsonl, .ndjson, .json, .parquet, .arrow" in data(folder / "rows.csv", code=1)
    assert "there is no file" in run(folder / "rows.jsonl", "--tokenizer", model, "-o", folder / "o2", "--chat-template", "none.jinja", code=1) or True
    assert "there is no tokenizer.json in it" in run(folder / "rows.jsonl", "--tokenizer", folder / "many", "-o", folder / "o2", code=1)
    (folder / "kept").mkdir()
    (folder / "kept" / "letter.txt").write_text("dear")
    said = run(tiny.write(folder / "rows.jsonl", [chat]), "--tokenizer", model, "-o", folder / "kept", code=1)
    assert "kept: the folder holds other files; choose a new one" in said
    assert "--columns names for 'text'; the row has 'body'" in data([{"body": "a"}], "--columns", "text=bdy", code=1)


def lengths():
    rows = [{"text": "a" * n} for n in (3, 10, 20)]
    for how, kept, cut in (("truncate", [4, 8, 8], 2), ("drop", [4], 0)):
        opened = data(rows, "--max-length", 8, "--overlong", how)
        assert list(opened.lengths()) == kept and opened.index["report"]["truncated"] == cut, how
    assert data(rows, "--max-length", 8, "--overlong", "drop").index["report"]["too_long"] == 2
    assert "rows.jsonl:2: 11 tokens, of at most 8" in data(rows, "--max-length", 8, "--overlong", "error", code=1)
    pieces = data(rows[2:], "--max-length", 8, "--overlong", "split")
    joined = [list(row["input_ids"]) for row in pieces]
    assert joined[0] + joined[1][1:] + joined[2][1:] == [tokenizer.convert_tokens_to_ids("a")] * 20 + [3]
    # Every token but the first is learnt once.
    assert sum(int((row["labels"] != IGNORED).sum()) for row in pieces) == 20


def shards_of_rows():
    rows = [{"text": "ab" * (1 + n % 40)} for n in range(400)]
    one = data(rows, "--processes", 1)
    first = [(folder / "out" / shard["file"]).read_bytes() for shard in one.index["shards"]]
    big = [{"text": "word " * 400} for _ in range(600)]  # more than a chunk
    for processes in (1, 3):
        opened = data(big, "--processes", processes, "--shard-size", "1MB", "--max-length", 4096)
        found = [shard["hash"] for shard in opened.index["shards"]]
        assert len(found) > 2 and (processes == 1 or found == before), found
        before = found
        assert [len(row["input_ids"]) for row in opened] == [2001] * 600
    assert len(first) == 1 and sum(shard["rows"] for shard in opened.index["shards"]) == 600
    index = opened.index
    assert index["format"] == "trainc-data" and index["columns"]["attention_mask"] == {
        "dtype": "I8", "ragged": True, "constant": 1, "pad": 0
    }  # fmt: skip
    assert index["tokenizer"]["vocabulary"] == len(tokenizer) and index["max_length"] == 4096
    arrays = tensors.Tensors(folder / "out" / index["shards"][0]["file"]).arrays()
    assert set(arrays) == {"offsets", "input_ids", "labels"} and arrays["offsets"].dtype == np.int64
    # No space: what is there is no folder of data. /dev/full has none.
    broken = folder / "full"
    broken.mkdir()
    (broken / "shard-00000.safetensors").touch()
    (broken / "shard-00000.safetensors.tmp").symlink_to("/dev/full")
    said = run(folder / "rows.jsonl", "--tokenizer", model, "-o", broken, code=1)
    assert "no space is left for this file" in said and not (broken / "index.json").exists(), said
    try:
        shards.Folder(broken)
        raise AssertionError
    except commands.importlib.import_module("trainc.errors").Error as error:
        assert "there is no index.json" in str(error)


def odd_files():
    """As they come: blanks, ends of lines, marks of encodings, compressed, in pieces."""
    chat = [{"messages": [{"role": "user", "content": f"q{n}"}, {"role": "assistant", "content": f"a{n}"}]} for n in range(6)]
    lines = "".join(json.dumps(row) + "\n" for row in chat)
    bom = b"\xef\xbb\xbf"

    def read(name, content, *options, code=0):
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return data(path, *options, code=code)

    expected = texts(read("plain.jsonl", lines))
    for name, content in {
        "crlf.jsonl": lines.replace("\n", "\r\n"), "bom.jsonl": bom + lines.encode(), "lines.json": lines, "blank.jsonl": f"\n \n{lines}\n\t\n",
        "array.json": bom + json.dumps(chat).encode(), "pretty.json": json.dumps(chat, indent=1), "open.jsonl": lines.rstrip("\n"),
        "packed.jsonl.gz": gzip.compress(lines.encode()), "packed.json.gz": gzip.compress(json.dumps(chat).encode()),
    }.items():  # fmt: skip
        assert texts(read(name, content)) == expected, name
    assert texts(read("one.json", json.dumps(chat[0], indent=2))) == expected[:1]
    assert texts(read("bom.txt", bom + b"abc\n")) == texts(read("plain.txt", "abc\n"))
    assert texts(read("packed.txt.gz", gzip.compress(b"abc\n"))) == texts(read("plain.txt", "abc\n"))
    parts = [{"messages": [{"role": "user", "content": [{"type": "text", "text": "q"}, {"type": "text", "text": "0"}]}, chat[0]["messages"][1]]}]
    assert texts(data(parts)) == expected[:1]
    within = folder / "within"
    (within / "sub.jsonl").mkdir(parents=True)
    (within / "a.jsonl").write_text(lines)
    (within / "b.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (within / "notes.log").write_text("x")
    assert texts(data(within)) == expected * 2
    # What says nothing is counted and left out.
    blank = [{"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": " \n"}]}, {"messages": []}, {"text": " \t"},
             {"text": ""}, {"prompt": "a", "completion": "  "}, {"text": "ab"}]  # fmt: skip
    opened = data(blank)
    assert opened.rows == 1 and opened.index["report"]["empty"] == 5, opened.index["report"]
    said = data(blank[:5], code=1)
    assert "no row is left of 5: 5 are empty (first " in said, said
    half = '{"text": "a\\ud800b"}'
    for name, content, words in (
        ("half.jsonl", half, "half.jsonl:1: a text has half of a pair of surrogates (\\ud800 to \\udfff), which is no character"),
        ("half.json", f"[{half}]", "half.json: row 1: a text has half of a pair of surrogates"),
        ("deep.jsonl", '{"a":' * 100000 + "1" + "}" * 100000, "deep.jsonl:1: no row: too many objects or arrays within one another"),
        ("deep.json", "[" * 100000, "deep.json:1: no JSON: "),
        ("cut.jsonl.gz", gzip.compress(lines.encode())[:-20], "cut.jsonl.gz: cannot be read: "),
        ("no.jsonl.gz", lines, "no.jsonl.gz: cannot be read: Not a gzipped file"),
        ("rows.csv", "text\nabc\n", "plain text from .txt, .md, .text; all but .parquet and .arrow also with .gz"),
        ("nan.jsonl", '{"text": NaN}', "'text' is a number, not a text"), ("null.jsonl", '{"text": null}', "'text' is null, not a text"),
        ("none.jsonl", "\n\n", "no row is left of 0: there is none"),
    ):  # fmt: skip
        assert words in read(name, content, code=1), (name, read(name, content, code=1))
    pair = '{"text": "\\ud83d\\ude00 ab"}'  # a whole one is a character
    assert read("pair.jsonl", pair).rows == 1 and read("pair.json", f"[{pair}]").rows == 1


def damaged():
    """A folder is looked at when it is opened, and read by --check."""
    data([{"text": "ab" * (1 + n % 40)} for n in range(200)])
    out = folder / "out"
    assert run("--check", out) == f"{out}: 200 rows in 1 shard, whole\n"
    assert "there is no index.json" in run("--check", folder / "none", code=1)
    shard, index = out / "shard-00000.safetensors", out / "index.json"
    whole, said = shard.read_bytes(), json.loads(index.read_text())

    def refused(content=None, what=None, **changes):
        shard.write_bytes(whole if content is None else content)
        index.write_text(json.dumps({**said, **changes}) if what is None else what)
        return run("--check", out, code=1)

    assert "its bytes are not those that were written (its hash is sha256:" in refused(whole[:-8] + b"\1" * 8)
    assert "no safetensors file: 'labels' ends behind the end of the file" in refused(whole[:-8])
    assert f"the file has {len(whole) + 8} bytes, and index.json says {len(whole)}" in refused(whole + b"\0" * 8)
    assert "no safetensors file" in refused(b"") and "says that its header has" in refused(b"\xff" * 7 + b"\0" + whole[8:])
    assert "which are not those of its shape" in refused(whole.replace(b'"shape":[201]', b'"shape":[200]'))
    assert "'input_ids' is missing, which index.json says" in refused(whole.replace(b'"input_ids"', b'"other_ids"'))
    assert "'offsets' is of type U64; expected one of F64, F32, I64, I32, I8" in refused(whole.replace(b'"I64"', b'"U64"'))
    assert "'rows' is 7, and its shards have 200 rows" in refused(rows=7)
    assert "'input_ids' has 200 rows, and index.json says 9" in refused(rows=9, shards=[{**said["shards"][0], "rows": 9}])
    assert "lacks what a folder of `trainc data` says: 'shards'" in refused(what=json.dumps({k: v for k, v in said.items() if k != "shards"}))
    assert "'format' is not trainc-data" in refused(what="[]") and "no JSON" in refused(what="{")
    assert "of version 9; this one reads version 1" in refused(version=9)
    index.write_text(json.dumps(said))
    shard.unlink()
    assert "No such file or directory" in run("--check", out, code=1)


def packed():
    drawn = random.Random(3)
    for _ in range(60):
        capacity = drawn.randint(4, 60)
        sizes = np.asarray([drawn.randint(1, capacity) for _ in range(drawn.randint(0, 80))], np.int64)
        found = packing.best_fit_decreasing(sizes, capacity)
        assert sorted(d for row in found for d in row) == list(range(len(sizes)))
        assert all(sizes[row].sum() <= capacity for row in found)
        # As the definition says, one document after the other.
        rooms = []
        for size in sorted(sizes, reverse=True):
            fitting = [room for room in rooms if room >= size]
            best = min(fitting, default=capacity)
            if fitting:
                rooms.remove(best)
            rooms.append(best - size)
        assert len(rooms) == len(found), (capacity, sizes)
    rows = tiny.chats(60)
    single, opened = data(rows), data(rows, "--pack", "--max-length", 256)
    documents = {bytes(row["input_ids"]): row["labels"] for row in single}
    assert opened.index["packed"] and set(opened.columns) == {"input_ids", "labels", "segment_ids", "position_ids"}
    seen = 0
    for row in opened:
        assert len(row["input_ids"]) <= 256
        for segment in range(1, int(row["segment_ids"].max()) + 1):
            part = np.flatnonzero(row["segment_ids"] == segment)
            assert (np.diff(part) == 1).all() and list(row["position_ids"][part]) == list(range(len(part)))
            labels = documents[bytes(row["input_ids"][part])].copy()
            labels[0] = IGNORED
            assert (row["labels"][part] == labels).all()
            seen += 1
    assert seen == 60 and opened.index["report"]["packed"]["full"] > 0.8
    assert not (folder / "out" / "unpacked").exists()
    said = data([{"text": "a", "label": 0}], "--pack", "--task", "sequence-classification", code=1)
    assert "--pack is for causal language models" in said


def tasks():
    bracketed = tiny.tokenizer(folder / "bracketed", bracketed=True, model_input_names=["input_ids", "token_type_ids", "attention_mask"])
    classify = ("--task", "sequence-classification")
    opened = data([{"text": "ab", "label": "no"}, {"text": "c", "label": "yes"}], *classify, tokens=bracketed)
    assert opened.index["label_names"] == ["no", "yes"] and [int(row["labels"]) for row in opened] == [0, 1]
    assert tokenizer.decode(opened.row(0)["input_ids"]) == "<|im_start|>ab<|im_end|>"
    pair = data([{"sentence1": "a", "sentence2": "b", "label": 2}], *classify, tokens=bracketed)
    assert list(pair.row(0)["token_type_ids"]) == [0, 0, 0, 1, 1] and len(pair.index["label_names"]) == 3
    scores = data([{"text": "a", "label": 0.5}], *classify, tokens=bracketed)
    assert scores.index["columns"]["labels"] == {"dtype": "F32", "ragged": False, "shape": []} and scores.row(0)["labels"] == 0.5
    assert "the class 'no' is none of 'yes'" in data([{"text": "a", "label": "no"}], *classify, "--label-names", "yes", code=1)
    assert "labels are names in some rows ('a') and numbers in others" in data(
        [{"text": "a", "label": "a"}, {"text": "a", "label": 1}], *classify, code=1
    )
    assert "'label' is an array; one class or score a row is read" in data([{"text": "a", "label": [1]}], *classify, code=1)
    tag = ("--task", "token-classification")
    tagged = data([{"tokens": ["ab", "c"], "tags": ["X", "O"]}], *tag, tokens=bracketed)
    assert list(tagged.row(0)["labels"]) == [IGNORED, 1, IGNORED, 0, IGNORED] and tagged.index["label_names"] == ["O", "X"]
    assert "2 words in 'tokens' and 1 classes in 'tags'" in data([{"tokens": ["a", "b"], "tags": [1]}], *tag, code=1)
    masked = data([{"text": "abcdefghij" * 20}], "--task", "masked-lm", "--mask-copies", 50, tokens=bracketed)
    share = np.mean([(row["labels"] != IGNORED).mean() for row in masked])
    assert 0.13 < share < 0.17 and len(masked) == 50
    for row in masked:
        assert row["input_ids"][0] == 2 and row["input_ids"][-1] == 3 and row["labels"][0] == IGNORED
    chosen = np.concatenate([row["input_ids"][row["labels"] != IGNORED] for row in masked])
    assert 0.75 < (chosen == 4).mean() < 0.85
    assert "plain text is for causal and masked language models" in data(folder / "rows.txt", *classify, "--label-names", "a", code=1)
    pairs = data([{"source": "ab", "target": "c"}], "--task", "seq2seq", "--source-prefix", "x: ", tokens=bracketed)
    assert pairs.index["columns"]["labels"]["offsets"] == "offsets.decoder"
    assert tokenizer.decode(pairs.row(0)["labels"]) == "<|im_start|>c<|im_end|>" and tokenizer.decode(pairs.row(0)["input_ids"][1:4]) == "x: "
    better = data([{"prompt": "q", "chosen": "good", "rejected": "b"}], "--loss", "dpo")
    row = better.row(0)
    assert len(row["chosen_input_ids"]) == len(row["rejected_input_ids"]) and row["rejected_attention_mask"].sum() == len(row["chosen_labels"]) - 3
    assert tokenizer.decode(row["chosen_labels"][row["chosen_labels"] != IGNORED]) == "good<|im_end|>"
    chats = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "good"}]
    whole = {"chosen": chats, "rejected": [chats[0], {"role": "assistant", "content": "b"}]}
    assert (data([whole], "--loss", "orpo").row(0)["chosen_input_ids"] == row["chosen_input_ids"]).all()
    assert "have to begin with the same messages" in data([{"chosen": chats, "rejected": chats}], "--loss", "orpo", code=1)
    judged = data([{"prompt": "q", "completion": w, "label": w == "good"} for w in ("good", "b")], "--loss", "kto")
    assert [float(r["desirable"]) for r in judged] == [1, 0]
    assert tokenizer.decode(judged.row(0)["kl_labels"][judged.row(0)["kl_labels"] != IGNORED]) == "b<|im_end|>"
    shards.add_columns(folder / "out", {"reference_logps": np.asarray([1, 2], np.float32)})
    assert [float(r["reference_logps"]) for r in shards.Folder(folder / "out")] == [1, 2]
    assert "'label' is 'x'; expected true" in data([{"prompt": "q", "completion": "a", "label": "x"}], "--loss", "kto", code=1)


def shown():
    path = tiny.write(folder / "rows.jsonl", [{"prompt": "a ", "completion": "b"}])
    said = run(path, "--tokenizer", model, "--show", 3)
    assert f"{path}:1: 4 tokens, 2 learnt\n  a| |[b]|[<|im_end|>]\n" in said, said
    said = run(tiny.write(folder / "rows.jsonl", tiny.chats(1)), "--tokenizer", model, "--show", 1)
    assert "the chat template does not mark the assistant's text" in said
    report = run(path, "--tokenizer", model, "-o", folder / "out")
    assert f"{folder / 'out'}: 1 rows of 1\ntokens: " in report and "length of a row: least" in report
    assert json.loads(run(path, "--tokenizer", model, "-o", folder / "out", "--json"))["rows"] == 1


def settings():
    path = folder / "data.yaml"
    path.write_text(f"tokenizer: {model}\nmax-length: 9\ncolumns: {{text: body}}\n")
    rows = tiny.write(folder / "rows.jsonl", [{"body": "a" * 20}])
    run(rows, "--config", path, "-o", folder / "out")
    assert list(shards.Folder(folder / "out").lengths()) == [9]
    run(rows, "--config", path, "--max-length", 7, "-o", folder / "out")  # the command line counts more
    assert list(shards.Folder(folder / "out").lengths()) == [7]
    for text, expected in (
        ("max-lenght: 9\n", ":1: there is no key 'max-lenght'; did you mean 'max-length'?"),
        ("seed: 1\nmax-length: many\n", "max-length: expected a whole number, got 'many'"),
        ("max-length: 1\n", "max-length: expected at least 2, got 1"),
        ("task: causal\n", "task: expected one of causal-lm, sequence-classification, token-classification, masked-lm, seq2seq; did you mean 'causal-lm'?"),
        ("a: [\n", "no YAML"),
        ("- a\n", "expected `key: value` lines, got a list"),
        ("eos: 3\n", "eos: expected true or false, got 3"),
        ("shard-size: big\n", "shard-size: expected a size such as 24GB or 512MiB, got 'big'"),
        ("columns: a\n", "columns: expected NAME=VALUE,..., got 'a'"),
        ("mask-probability: x\n", "mask-probability: expected a number, got 'x'"),
    ):  # fmt: skip
        path.write_text(text)
        said = run(rows, "--config", path, "--tokenizer", model, "-o", folder / "out", code=2)
        assert expected in said, said
    assert "no-such.yaml: cannot be read: No such file" in run(rows, "--config", folder / "no-such.yaml", code=2)
    assert "--tokenizer is missing" in run(rows, "-o", folder / "out", code=2)
    assert "-o is missing" in run(rows, "--tokenizer", model, code=2)
    assert "command line: max-length: expected a whole number, got 'x'" in run(rows, "--max-length", "x", code=2)


for check in (formats, templates, bad_rows, lengths, shards_of_rows, odd_files, damaged, packed, tasks, shown, settings):
    check()
    print(check.__name__)
