# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The rows of a run: tokenized into its folder, or as `trainc data` has written them."""

import json
import pathlib
import shutil

import numpy as np

from .. import cache, tensors
from ..data import prepare as preparation
from ..data.keys import ROWS
from ..data import formats, packing, rows, shards, tasks, templates, tokenizers
from ..errors import Error
from ..settings import SettingError

#: Bytes of files whose rows are kept in the cache as tokens.
_CACHED = 1 << 30


def check_vocabulary(tokenizer, base):
    """A tokenizer with more tokens than the model has is one of another model."""
    try:
        config = json.loads((base / "config.json").read_text())
    except ValueError as error:
        raise Error(f"{base / 'config.json'}: no JSON: {error}") from None
    known = config.get("text_config", config).get("vocab_size")
    if known and tokenizer.largest >= known:
        raise Error(
            f"the tokenizer of {tokenizer.name_or_path} has token {tokenizer.largest}, and the model in {base} knows {known:,}: it is "
            "the tokenizer of another model"
        )


def is_folder(paths):
    """Whether this is one folder that `trainc data` wrote."""
    return len(paths) == 1 and (pathlib.Path(paths[0]) / "index.json").exists()


def prepare(run, settings, tokenizer, tell, decided=lambda index: None):
    """(settings with what the data decides, {"train": index, "eval": index}); each index with its `path`. decided: gets what
    `export_options` asks of the training rows' index, as soon as that is known."""
    templates.set_template(tokenizer, settings.chat_template)
    parts = {}
    for part, paths in (("train", settings.data), ("eval", settings.eval)):
        if not paths:
            continue
        if is_folder(paths):
            index = _read(pathlib.Path(paths[0]), settings, tokenizer.real())
            path = pathlib.Path(paths[0]).resolve()
            if part == "train":
                _check_said(path, settings, index, rows_follow=settings.eval and not is_folder(settings.eval))
                decided(index)
        else:
            path = run.data / part
            index = _tokenize(paths, settings, path, tokenizer, tell, decided if part == "train" else lambda index: None)
            tell(preparation.report_text(index, path))
        parts[part] = {**index, "path": str(path)}
        # What the training rows decide holds for the others.
        settings = settings.with_(max_length=index["max_length"], pack=bool(index.get("packed")))
        if index.get("label_names"):
            settings = settings.with_(label_names=index["label_names"])
    if "eval" in parts:
        ours, theirs = (_kinds(parts[part]["columns"]) for part in ("train", "eval"))
        if different := sorted(name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)):
            raise Error(f"--data and --eval are folders of different kinds: '{different[0]}' is not the same in both")
    return settings, parts


def _tokenize(paths, settings, output, tokenizer, tell, decided):
    """Writes the folder `output`, or finds its content in the cache; returns its index."""
    files = [pathlib.Path(path) for path in rows.expand(paths)]
    # Columns are added to those of some losses; and what takes long to read again is not kept twice.
    if tokenizer.key is None or settings.loss in REFERENCES or sum(file.stat().st_size for file in files) > _CACHED:
        return preparation.prepare(paths, settings, output, tokenizer.real(), tell, decided)
    sources = [cache.hash_file(source) for source in sorted(pathlib.Path(preparation.__file__).parent.glob("*.py"))]
    said = {name: getattr(settings, name) for name in (key.field for key in ROWS)}
    template = settings.chat_template
    if template and pathlib.Path(template).is_file():
        template = cache.hash_file(template)
    key = cache.key(
        "rows", [[str(file.resolve()), cache.hash_file(file)] for file in files], said, template, tokenizer.key, sources,
        cache.versions("datasets", "jinja2", "numpy"),
    )  # fmt: skip

    def make(entry, tell):
        preparation.prepare(paths, settings, entry / "rows", tokenizer.real(), tell, decided)

    entry = cache.get_told(key, make, tell)
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    cache.share(entry / "rows", output)
    return shards.Folder(output).index


def _kinds(columns):
    return {name: (column["dtype"], column["ragged"]) for name, column in columns.items()}


#: What rows are when they are tokens, beside their kind.
_OF_TOKENS = (
    "format", "columns", "train-on", "assistant-start", "assistant-end", "max-length", "max-target-length", "overlong", "bad-rows", "eos",
    "pack", "mask-probability", "mask-copies", "source-prefix",
)  # fmt: skip


def _check_said(path, settings, index, rows_follow):
    """Nothing was said of the training rows that they are not. rows_follow: held-out rows are made by the other settings."""
    made = {"max-length": index["max_length"], "pack": bool(index.get("packed"))}
    for key in ROWS:
        value, there = settings.said.get(key.name), made.get(key.name, key.default)
        if key.name in (made if rows_follow else _OF_TOKENS) and value is not None and value != there:
            raise SettingError(
                f"--{key.name}: the rows of {path} are tokens already ({'packed, ' if made['pack'] else ''}at most {made['max-length']} each), "
                f"it changes nothing of them: `trainc data` with --{key.name} writes others"
            )


def _read(path, settings, tokenizer):
    index = shards.Folder(path).index
    made, own = index.get("tokenizer", {}), tokenizers.describe(tokenizer)
    if made.get("hash") != own["hash"]:
        raise Error(
            f"{path}: the rows were written with the tokenizer of {made.get('name')} ({made.get('vocabulary')} tokens), and the "
            f"model's is that of {own['name']} ({own['vocabulary']} tokens)"
        )
    wanted = tasks.make(tokenizer, settings.with_(max_length=index["max_length"])).columns()
    if index.get("packed"):
        wanted = packing.packed_columns(wanted)
    wanted = _kinds({name: column.describe() for name, column in wanted.items()})
    found = _kinds(index["columns"])
    if wrong := sorted(name for name in wanted if wanted[name] != found.get(name)):
        there = ", ".join(sorted(found))
        raise Error(f"{path}: the rows are of another task or loss: their column '{wrong[0]}' is absent or of another kind; there are {there}")
    return index


def export_options(settings, train, tokenizer):
    """How the model is exported for these rows: the keywords of pretrained.export, which JSON can say."""
    options = {
        "task": settings.task, "dtype": settings.dtype, "attention": settings.attention, "loss": settings.loss,
        "overrides": [f"{key}={value}" for key, value in (settings.model_config or {}).items()],
        "packed": bool(train.get("packed")), "types": "token_type_ids" in train["columns"],
    }  # fmt: skip
    if train.get("label_names"):
        options.update(labels=train["label_names"], scores=train["label_names"] == ["score"])
    options["pad"] = tokenizer.pad
    if settings.loss != "cross-entropy":
        options["loss_options"] = loss_options(settings)
    return options


def loss_options(settings):
    """Those of the loss; what is said for another one is an error."""
    taken = {"orpo": ["beta"], "simpo": ["beta", "gamma"], "dpo": ["beta", "label_smoothing"],
             "kto": ["beta", "desirable_weight", "undesirable_weight"], "reward": []}[settings.loss]  # fmt: skip
    for name in ("beta", "gamma", "label-smoothing", "desirable-weight", "undesirable-weight"):
        if name in settings.said and settings.said[name] is not None and name.replace("-", "_") not in taken:
            if settings.said[name] != settings.table.keys[name].default:
                raise Error(f"--{name} is not a setting of --loss {settings.loss}")
    return {name: getattr(settings, name) for name in taken if getattr(settings, name) is not None}


def has_chat(settings):
    """Whether the first row is a conversation, so that what a run has learnt is asked the same way."""
    if is_folder(settings.data):
        return True
    for path, kind, first, content in preparation.all_chunks(rows.expand(settings.data)):
        if kind == "text":
            return False
        for number, row in rows.parse(path, kind, first, content, lambda message: None):
            try:
                example = formats.read(row, tasks.row_kind(settings), settings.format, settings.columns, True, str(number))
            except rows.RowError:
                continue
            return not isinstance(example, (formats.Text, formats.Pair))
    return False


def lengths(train, held, settings):
    """{size: the longest of all rows, rounded up to a multiple of --trim}."""
    found = {}
    for index in filter(None, (train, held)):
        folder = shards.Folder(index["path"])
        groups = {column.offsets for column in folder.columns.values() if column.ragged}
        for group in groups:
            name = "target" if group.endswith("decoder") else "seq"
            longest = int(folder.lengths(group).max())
            multiple = settings.trim or 1
            found[name] = max(found.get(name, 2), min(-(-longest // multiple) * multiple, max(longest, index["max_length"])))
    return found


def add_references(run, facts, settings, parts, tell):
    """Columns of what the reference says, the model as it is before training, computed by the package itself."""
    from .processes import run as run_process

    wanted = REFERENCES.get(settings.loss)
    if not wanted:
        return
    for part, index in parts.items():
        if set(wanted) <= set(index["columns"]):
            continue
        tell(f"computing what the reference says of the rows of {part}")
        if not pathlib.Path(index["path"]).is_relative_to(run.path.resolve()) and not str(index["path"]).startswith(str(run.data)):
            shutil.copytree(index["path"], run.data / part)  # the folder that was given stays as it is
            index["path"] = str(run.data / part)
        output = run.data / f"{part}.reference.safetensors"
        start = ["--weights", facts["weights"]] if facts["weights"] else []
        if settings.adapter:
            start += ["--adapter", settings.adapter]
        run_process(
            [run.package, *start, "--predict", index["path"], "--outputs", ",".join(wanted.values()),
             "--batch-size", facts["micro_batch"], "-o", output], quiet=True,
        )  # fmt: skip
        found = tensors.Tensors(output).arrays()
        shards.add_columns(index["path"], {column: np.asarray(found[name], np.float32) for column, name in wanted.items()})
        output.unlink()
        index["columns"] = shards.Folder(index["path"]).index["columns"]


#: {loss: {column that is computed beforehand: output that it is}}
REFERENCES = {
    "dpo": {"reference_chosen_logps": "chosen_logps", "reference_rejected_logps": "rejected_logps"},
    "kto": {"reference_logps": "logps", "reference_kl_logps": "kl_logps"},
}
