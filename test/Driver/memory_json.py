#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""memory_json.py JSON PAGE: --report=FILE.json has the keys that docs/memory.md names, and no others; its parts
add up."""

import json
import pathlib
import re
import sys


def main():
    report = json.loads(pathlib.Path(sys.argv[1]).read_text())
    page = pathlib.Path(sys.argv[2]).read_text()
    table = page[page.index("### As JSON") : page.index("## Gradients")]
    known = set(re.findall(r"`(\w+)`", table))
    inner = [key for item in report["functions"] + report["by_density"] + report["largest_batches"] for key in item]
    keys = {*report, *inner, *report["functions"][0]["largest_buffers_at_peak"][0]}
    assert keys <= known, keys - known
    parts = "parameters optimizer_state gradients activations inputs outputs workspace".split()
    assert report["peak_bytes"] == sum(report[f"{part}_bytes"] for part in parts), report
    assert report["sizes"] == {"batch": 4, "seq": 32} and report["density"] == 1, report["sizes"]
    densities = report["by_density"]
    assert densities[0] == {"density": 1, "peak_bytes": report["peak_bytes"]}, densities
    assert [d["peak_bytes"] for d in densities] == sorted((d["peak_bytes"] for d in densities), reverse=True)
    assert densities[-1]["peak_bytes"] < report["peak_bytes"]
    names = [function["name"] for function in report["functions"]]
    assert "step" in names and "step.packed" in names, names
    step = report["functions"][0]
    assert max(step["live_bytes"]) <= step["activations_bytes"] and len(step["live_bytes"]) == step["commands"]


if __name__ == "__main__":
    main()
