# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The tokenizer of a folder, and what tells it from others."""

import hashlib
import json
import logging
import os
import pathlib

from .. import cache
from ..errors import Error

#: What a tokenizer and the longest row are read from, where it is a folder.
_FILES = ("*.json", "*.jinja", "*.model", "*.txt", "additional_chat_templates/*")


def load(name):
    """A tokenizer of transformers: of a folder, or of the hub by its name."""
    # Processes tokenize beside each other; threads in each would only wait for another.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    try:
        import transformers
    except ModuleNotFoundError:
        raise Error("tokenizers are those of transformers: pip install transformers") from None
    logging.getLogger("transformers").setLevel(logging.ERROR)
    folder = pathlib.Path(name)
    if folder.exists() and not (folder / "tokenizer.json").exists() and not (folder / "tokenizer_config.json").exists():
        raise Error(f"{name}: there is no tokenizer.json in it; --tokenizer names a folder that has one")
    if not folder.exists() and folder.is_absolute():
        raise Error(f"{name}: there is no such folder (any more): a run needs its model's folder where it was")
    try:
        tokenizer = transformers.AutoTokenizer.from_pretrained(name)
    except Exception as error:  # of many kinds
        said = str(error).strip().splitlines()
        what = "the tokenizer" if folder.exists() else "there is no such folder, and as a name of the hub its tokenizer"
        raise Error(f"{name}: {what} cannot be read: {said[0] if said else type(error).__name__}") from None
    if not tokenizer.is_fast:
        raise Error(f"{name}: the tokenizer has no tokenizer.json, which tells where in the text each token is")
    # Rows are cut here, by --max-length.
    limit = tokenizer.model_max_length
    tokenizer.model_max_length = int(1e30)
    tokenizer.init_kwargs["trainc_limit"] = limit if isinstance(limit, int) and limit < 10**9 else None
    return tokenizer


class Known:
    """What a run asks of a tokenizer, from the cache: loading one takes seconds, as it imports PyTorch. `real()` loads it.
    met: called before one is loaded that was not seen before."""

    def __init__(self, name, met=lambda: None):
        self.name_or_path, self._loaded, self._met = name, None, met
        folder = pathlib.Path(name)
        #: Names its content; None: of the hub.
        self.key = None
        if folder.is_dir():
            files = {str(path.relative_to(folder)): cache.hash_file(path) for glob in _FILES for path in folder.glob(glob) if path.is_file()}
            self.key = cache.key("tokenizer", files, cache.versions("transformers", "tokenizers"))
            entry, _ = cache.get(self.key, lambda entry: (entry / "facts.json").write_text(json.dumps(self._facts())))
            facts = json.loads((entry / "facts.json").read_text())
        else:
            facts = self._facts()
        self.largest, self.pad, self.chat_template = facts["largest"], facts["pad"], facts["chat_template"]

    def _facts(self):
        self._met()
        tokenizer = self.real()
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        largest = max(tokenizer.get_vocab().values(), default=-1)
        return {"largest": largest, "pad": pad, "chat_template": tokenizer.chat_template}

    def real(self):
        if self._loaded is None:
            self._loaded = load(self.name_or_path)
        return self._loaded


def describe(tokenizer):
    """For index.json: another tokenizer has another hash."""
    content = tokenizer.backend_tokenizer.to_str()
    name = tokenizer.name_or_path
    return {
        "name": str(pathlib.Path(name).resolve()) if os.path.isdir(name) else name,
        "hash": "sha256:" + hashlib.sha256(content.encode()).hexdigest(),
        "vocabulary": len(tokenizer),
    }


def limit(tokenizer):
    """The longest row that the tokenizer's or the model's configuration beside it allows, or None."""
    found = [tokenizer.init_kwargs.get("trainc_limit")]
    try:
        config = json.loads((pathlib.Path(tokenizer.name_or_path) / "config.json").read_text())
        config = config.get("text_config", config)
        positions = next((config[key] for key in ("max_position_embeddings", "n_positions") if config.get(key)), None)
        if positions and config.get("model_type") in ("roberta", "xlm-roberta", "camembert"):
            positions -= config.get("pad_token_id", 1) + 1  # of its table of positions, rows begin behind the padding's
        found.append(positions)
    except (OSError, ValueError, AttributeError):
        pass
    return min((each for each in found if each), default=None)
