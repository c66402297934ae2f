# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""The page: one file without anything from elsewhere. Data and IR are compressed in it; the browser unpacks IR when it is looked at."""

import base64
import html
import json
import pathlib
import zlib

HERE = pathlib.Path(__file__).resolve().parent
# What names in a model may hold can neither load nor send anything.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def packed(name, text):
    """An element that the browser does not read by itself."""
    return f'<script type="application/octet-stream" id="{name}">{base64.b64encode(zlib.compress(text.encode(), 6)).decode()}</script>\n'


def make(facts, phases):
    """`phases`: {name of a phase: its IR}."""
    facts = {**facts, "phases": list(phases)}
    title = html.escape(f"{facts['model']}: inspection")
    style, script, body = ((HERE / name).read_text() for name in ("page.css", "page.js", "page.html"))
    return "".join([
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f"<title>{title}</title>\n<style>\n{style}</style></head>\n<body>\n{body}",
        packed("facts", json.dumps(facts, separators=(",", ":"))),
        *(packed(f"ir-{i}", text) for i, text in enumerate(phases.values())),
        f"<script>\n{script}</script>\n</body></html>\n",
    ])  # fmt: skip
