# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Settings of a command: one table makes the command line, what a YAML file may say, and the reference in the docs."""

import argparse
import collections.abc
import dataclasses
import difflib
import math
import pathlib
import re

from .errors import Error


class SettingError(Error):
    """A setting that does not exist, or not with this value."""


@dataclasses.dataclass(frozen=True)
class Key:
    """A setting: `--NAME` on the command line, `NAME:` in the file."""

    name: str
    kind: str  # of KINDS
    help: str
    default: object = None
    choices: tuple = ()
    least: float | None = None
    group: str = "Run"
    #: What the docs say in place of the default.
    shown: str | None = None

    @property
    def field(self):
        return self.name.replace("-", "_")


def _bytes(text):
    """24GB, 512MiB or a number of bytes."""
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([kKMGT]?)(i?)[bB]?\s*", str(text))
    if not match:
        raise ValueError("expected a size such as 24GB or 512MiB")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** " kmgt".index(match[2].lower() or " "))


def _whole(value):
    if isinstance(value, bool) or (isinstance(value, float) and value != int(value)):
        raise ValueError("expected a whole number")
    try:
        return int(value)
    except (TypeError, ValueError):
        raise ValueError("expected a whole number") from None


def _number(value):
    try:
        if isinstance(value, bool) or not math.isfinite(found := float(value)):
            raise ValueError
    except (TypeError, ValueError):
        raise ValueError("expected a number") from None
    return found


def _flag(value):
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def _text(value):
    """A text; of a mapping or a list what the command line says for it: a=1,b=2."""
    if isinstance(value, collections.abc.Mapping):
        return ",".join(key if each is True else f"{key}={_text(each)}" for key, each in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    if value is None or isinstance(value, bool):
        raise ValueError("expected a text")
    return repr(value) if isinstance(value, float) else str(value)


def _path(value):
    if not isinstance(value, str):
        raise ValueError("expected a path")
    return value


def _paths(value):
    return [_path(each) for each in (value if isinstance(value, (list, tuple)) else [value])]


def _texts(value):
    return [_text(each) for each in (value if isinstance(value, (list, tuple)) else [value])]


def _mapping(value):
    """NAME=VALUE,... or a mapping."""
    if isinstance(value, collections.abc.Mapping):
        return {str(key): _text(each) for key, each in value.items()}
    pairs = {}
    for part in str(value).split(","):
        name, separator, text = part.partition("=")
        if not separator or not name:
            raise ValueError("expected NAME=VALUE,...")
        pairs[name.strip()] = text.strip()
    return pairs


def _size(value):
    _bytes(value)
    return str(value)


#: {kind: (what reads it, its placeholder)}
KINDS = {
    "text": (_text, "TEXT"), "texts": (_texts, "TEXT"), "file": (_path, "FILE"), "files": (_paths, "FILE"),
    "folder": (_path, "DIR"), "whole": (_whole, "N"), "number": (_number, "F"), "flag": (_flag, ""),
    "size": (_size, "SIZE"), "mapping": (_mapping, "NAME=VALUE,..."), "choice": (_text, ""),
}  # fmt: skip
#: Kinds of which a key may be given several times, or with several values.
MANY = ("texts", "files")
as_bytes = _bytes


def nearest(name, names):
    """", did you mean '...'?" or ""."""
    found = difflib.get_close_matches(name, list(names), 1, 0.6)
    return f"; did you mean '{found[0]}'?" if found else ""


class _Parser(argparse.ArgumentParser):
    def error(self, message):
        begin = "unrecognized arguments: "
        unknown = message.removeprefix(begin).split()[0].partition("=")[0]
        if message.startswith(begin) and unknown.startswith("-"):
            message = f"there is no option {unknown}{nearest(unknown, self._option_string_actions)}"
        raise SettingError(f"{message}; {self.prog} --help has the options")


def command_parser(command, text, **more):
    """The command line of `trainc COMMAND`; options are written out."""
    return _Parser(
        prog=f"trainc {command}", description=text, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **more
    )


class Table:
    """The keys of a command."""

    def __init__(self, *keys):
        self.keys = {key.name: key for key in keys}

    def check(self, name, value, where):
        """The value as the program has it."""
        key = self.keys[name]
        try:
            value = KINDS[key.kind][0](value)
            if key.choices and value not in key.choices:
                raise ValueError(f"expected one of {', '.join(key.choices)}{nearest(value, key.choices)}")
            if key.least is not None and value < key.least:
                raise ValueError(f"expected at least {key.least:g}")
        except ValueError as error:
            raise SettingError(f"{where}: {name}: {error}, got {value!r}") from None
        return value

    def add_to(self, parser):
        """The options of argparse. Values stay texts; None where nothing is said."""
        groups = {}
        for key in self.keys.values():
            group = groups.setdefault(key.group, parser.add_argument_group(key.group))
            names = ["-o", "--output"] if key.name == "output" else [f"--{key.name}"]
            help = key.help.replace("%", "%%")
            if (default := describe_default(key)) != "none":
                help += f" (default: {default})".replace("%", "%%")
            if key.kind == "flag":
                group.add_argument(*names, dest=key.field, action=argparse.BooleanOptionalAction, default=None, help=help)
                continue
            placeholder = "|".join(key.choices) if key.choices else KINDS[key.kind][1]
            more = {"action": "append"} if key.kind in MANY else {}
            group.add_argument(*names, dest=key.field, metavar=placeholder, default=None, help=help, **more)

    def read_file(self, path):
        """{name: value} of a YAML file; a key that does not exist is an error with the nearest one."""
        try:
            import yaml
        except ModuleNotFoundError:
            raise SettingError(f"{path}: reading YAML needs PyYAML: pip install pyyaml") from None
        try:
            text = pathlib.Path(path).read_text()
            found = yaml.load(text, _loader(yaml))
        except (OSError, UnicodeDecodeError) as error:
            raise SettingError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            at = f"{path}:{mark.line + 1}" if mark else path
            raise SettingError(f"{at}: no YAML: {getattr(error, 'problem', None) or str(error).splitlines()[0]}") from None
        if found is None:
            return {}
        if not isinstance(found, dict):
            raise SettingError(f"{path}: expected `key: value` lines, got a {type(found).__name__}")
        values = {}
        for name, value in found.items():
            written, name = name, str(name).replace("_", "-")
            if name not in self.keys:
                line = next((i for i, each in enumerate(text.splitlines(), 1) if each.startswith(f"{written}")), None)
                at = f"{path}:{line}" if line else path
                raise SettingError(f"{at}: there is no key '{written}'{nearest(name, self.keys)}")
            if value is not None:
                values[name] = self.check(name, value, path)
        return values

    def resolve(self, arguments, file=None):
        """The settings, of what argparse has read and of a YAML file: the command line counts more."""
        values = self.read_file(file) if file else {}
        for key in self.keys.values():
            said = getattr(arguments, key.field, None)
            if said is not None:
                values[key.name] = self.check(key.name, said, "command line")
        return Settings(self, values)

    def reference(self):
        """The table of the docs, in Markdown."""
        lines, group = [], None
        for key in self.keys.values():
            if key.group != group:
                lines += ([""] if group else []) + [f"**{key.group}**", "", "| key | default | what |", "| --- | --- | --- |"]
                group = key.group
            what = key.help + (f": {', '.join(f'`{c}`' for c in key.choices)}" if key.choices else "")
            lines.append(f"| `{key.name}` | {describe_default(key)} | {what.replace('|', chr(92) + '|')} |")
        return "\n".join(lines) + "\n"


def _loader(yaml):
    """YAML's loader of plain values, to which a key that comes twice is an error."""

    class Loader(yaml.SafeLoader):
        def construct_mapping(self, node, deep=False):
            seen = set()
            for name, _ in node.value:
                if name.value in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key '{name.value}' comes twice", name.start_mark)
                seen.add(name.value)
            return super().construct_mapping(node, deep)

    return Loader


def describe_default(key):
    if key.shown is not None:
        return key.shown
    if key.default is None:
        return "none"
    if isinstance(key.default, bool):
        return "yes" if key.default else "no"
    return f"{key.default:g}" if isinstance(key.default, float) else str(key.default)


class Settings:
    """What was said, and defaults for the rest: `settings.max_length`."""

    def __init__(self, table, values):
        self.table, self.said = table, dict(values)

    def __getattr__(self, field):
        if field.startswith("__"):
            raise AttributeError(field)
        name = field.replace("_", "-")
        if name not in self.table.keys:
            raise AttributeError(field)
        return self.said.get(name, self.table.keys[name].default)

    def with_(self, **more):
        return Settings(self.table, {**self.said, **{name.replace("_", "-"): value for name, value in more.items()}})

    def write(self, path, heading=""):
        """As a YAML file that says the same, with every key."""
        import yaml

        values = {name: self.said.get(name, key.default) for name, key in self.table.keys.items()}
        pathlib.Path(path).write_text(heading + yaml.safe_dump(values, sort_keys=False, allow_unicode=True, width=120))
