#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""site.py SITE SOURCE BUILD: each link within a built site leads to a page and an anchor that are there, nothing is fetched from
elsewhere, each function of the C API has its place, and the options that the README and the pages without tests of their own name are those of a tool."""

import html.parser
import os
import pathlib
import re
import subprocess
import sys
import urllib.parse

#: Elements whose address a browser fetches by itself; where <a> leads is the reader's choice.
FETCHED = {"img", "script", "link", "iframe", "source", "video", "audio", "object", "embed", "use", "image"}
PAGES = ["README.md", "docs/training.md", "docs/comparison.md"]
#: Options of other programs on these pages.
OTHERS = {"--torch-python"}


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links, self.fetched, self.inline = set(), [], [], []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        self.ids |= {values[key] for key in ("id", "name") if values.get(key)}
        for key in ("href", "src", "srcset", "data", "poster"):
            if values.get(key):
                (self.fetched if tag in FETCHED else self.links).append(values[key])
        self.inline.append(values.get("style") or "")


def elsewhere(address):
    return bool(re.match(r"(https?:)?//", address))


def problems_of(site):
    pages = {path: Page(path) for path in site.rglob("*.html")}
    for path, page in pages.items():
        name = path.relative_to(site)
        yield from (f"{name}: fetches {address}" for address in page.fetched if elsewhere(address))
        for address in {*page.links, *page.fetched}:
            parts = urllib.parse.urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            # A page of an error is served at any address, so its links begin at the site's root.
            base = site if parts.path.startswith("/") else path.parent
            target = pathlib.Path(os.path.normpath(base / urllib.parse.unquote(parts.path).lstrip("/"))) if parts.path else path
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{name}: {address} leads nowhere"
            elif parts.fragment and target in pages and urllib.parse.unquote(parts.fragment) not in pages[target].ids:
                yield f"{name}: {address} has no such anchor"
    for path in site.rglob("*.css"):
        found = re.findall(r"(?:url\(|@import)\s*['\"]?((?:https?:)?//[^'\")\s]+)", path.read_text())
        yield from (f"{path.relative_to(site)}: fetches {address}" for address in found)


def unlisted_functions(site, source):
    """Each function of the C API has an anchor, and a link beside the page to it."""
    headers = "".join(path.read_text() for path in (source / "runtime/include/trainrt").iterdir())
    page = Page(site / "reference/c-api.html")
    for name in sorted(set(re.findall(r"^TRAINRT_API [\w\s*]*?\b(trainrt_\w+)\(", headers, re.M))):
        if name not in page.ids or f"#{name}" not in page.links:
            yield f"reference/c-api.html: {name} has no heading"


def unknown_options(source, build):
    said = [subprocess.run([build / "bin" / tool, "--help"], capture_output=True, text=True).stdout for tool in ("trainc", "trainc-run")]
    scripts = "".join((source / "scripts" / name).read_text() for name in ("wheels", "test"))
    known = set(re.findall(r"--[a-z][\w-]*", "".join(said) + scripts)) | OTHERS
    for page in PAGES:
        for option in sorted(set(re.findall(r"(?<![\w-])--[a-z][\w-]*", (source / page).read_text())) - known):
            yield f"{page}: {option} is no option"


def main():
    site, source, build = (pathlib.Path(argument).resolve() for argument in sys.argv[1:])
    problems = [*problems_of(site), *unlisted_functions(site, source), *unknown_options(source, build)]
    print("\n".join(sorted(problems)) or f"{len(list(site.rglob('*.html')))} pages, no finding")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
