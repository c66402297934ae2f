#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Fills the tables of docs/benchmarks.md from results: `table.py RESULTS.jsonl...`.

Of every case and precision the latest run with a step of trainc counts, and PyTorch's numbers are
those of the same run, never of another. Text outside the markers stays as it is. `--print` writes
the tables to standard output instead.
"""

import argparse
import json
import pathlib
import statistics
import sys

import models

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


def read(paths):
    lines = []
    for path in paths:
        lines += [json.loads(line) for line in path.read_text().splitlines()]
    return lines


def milliseconds(value):
    return f"{value:.3f}" if value < 10 else f"{value:.1f}"


def cell(line):
    """A peer's time and memory, or a dash where it was not measured."""
    if line is None:
        return "-"
    if "error" in line:
        return "failed"
    return milliseconds(line["step_ms"])


def size(count):
    return "-" if count is None else f"{count / 1e9:.2f}"


def step_row(case, precision, lines):
    ours = [line for line in lines if line["who"] == "trainc" and "step_ms" in line]
    peers = {line["who"].removeprefix("torch "): line for line in lines if line["who"] != "trainc"}
    working = [line for who, line in peers.items() if who != "llm.c" and "step_ms" in line]
    time = statistics.mean(line["step_ms"] for line in ours)
    low, high = min(line["p10"] for line in ours), max(line["p90"] for line in ours)
    limit = next((line["limit_ms"] for line in ours if line.get("limit_ms")), None)
    best = min(working, key=lambda line: line["step_ms"]) if working else None
    shape = " x ".join(str(size) for size in case.sizes.values())
    return [
        f"{case.name} {shape}, {precision}",
        f"{milliseconds(time)} ({milliseconds(low)} - {milliseconds(high)})",
        cell(peers.get("eager")),
        cell(peers.get("compile")),
        cell(peers.get("reduce-overhead")),
        cell(peers.get("graphs")),
        cell(peers.get("llm.c")),
        f"{time / best['step_ms']:.3f}" if best else "-",
        milliseconds(limit) if limit else "-",
        f"{time / limit:.2f}" if limit else "-",
        size(max(line["peak_bytes"] for line in ours)),
        size(best.get("peak_reserved")) if best else "-",
    ]


STEP_HEAD = [
    "case", "trainc ms (p10 - p90)", "eager ms", "compile ms", "reduce-overhead ms",
    "graphs ms", "llm.c ms", "ratio to the best of PyTorch",
    "limit ms", "times the limit", "our peak GB", "peak GB of the best",
]  # fmt: skip


CLASS_HEAD = ["case", "class", "commands", "ms", "limit ms", "times the limit", "GB", "TFLOP"]


def step_table(lines):
    runs = {}
    for line in lines:
        if line["kind"] == "step":
            runs.setdefault((line["case"], line["precision"]), {}).setdefault(
                line["run"], []
            ).append(line)
    rows = []
    for name, case in models.CASES.items():
        for (found, precision), by_run in runs.items():
            good = [
                run
                for run, steps in sorted(by_run.items())
                if any(s["who"] == "trainc" and "step_ms" in s for s in steps)
            ]
            if found == name and good:
                rows.append(step_row(case, precision, by_run[good[-1]]))
    return table(STEP_HEAD, rows)


def class_table(lines):
    """Of every case and precision the classes of the latest run that has them."""
    runs = {}
    for line in lines:
        if line["kind"] == "class":
            runs.setdefault((line["case"], line["precision"]), {}).setdefault(
                line["run"], []
            ).append(line)
    rows = []
    for (name, precision), by_run in runs.items():
        for line in by_run[max(by_run)]:
            limit = line["limit_ms"]
            rows.append(
                [
                    f"{name}, {precision}",
                    line["name"],
                    str(line["commands"]),
                    f"{line['ms']:.2f}",
                    f"{limit:.2f}",
                    # Of next to nothing the launch is all.
                    f"{line['ms'] / limit:.2f}" if limit >= 0.01 else "-",
                    f"{line['bytes'] / 1e9:.2f}",
                    f"{line['flops'] / 1e12:.2f}",
                ]
            )
    return table(CLASS_HEAD, rows)


def compile_table(lines):
    latest = {}
    for line in lines:
        if line["kind"] == "compile" and "error" not in line:
            latest[line["case"], line["precision"]] = line
    rows = [
        [
            f"{name}, {precision}",
            f"{line['compile_s']:.1f}",
            f"{line['compile_rss'] / 2**20:.0f}",
            f"{line['package_bytes'] / 2**20:.1f}",
        ]
        for (name, precision), line in latest.items()
    ]
    return table(["case", "seconds", "peak MiB", "package MiB"], rows)


def kernel_table(lines):
    latest = {}
    for line in lines:
        if line["kind"] == "kernel":
            latest[line["case"], line["kernel"], line["nodes"]] = line
    rows = [
        [
            name,
            f"`{kernel}` {nodes}",
            f"{line['bytes'] / 1e6:.0f}",
            f"{line['ms']:.3f}",
            f"{line['of_copy']:.2f}",
        ]
        for (name, kernel, nodes), line in latest.items()
    ]
    return table(["case", "kernel and what it computes", "MB", "ms", "of copy speed"], rows)


def machine_text(lines):
    found = [line for line in lines if line["kind"] == "machine"]
    if not found:
        return "Not measured yet."
    last = found[-1]
    return (
        f"{last['device']}: copy {last['copy_bytes_per_s'] / 1e12:.2f} TB/s, bf16 matmul of 8192"
        f" cubed {last['gemm_flops'] / 1e12:.0f} TFLOP/s; PyTorch {last['torch']};"
        f" {last['run'][:10]}."
    )


def table(head, rows):
    if not rows:
        return "Not measured yet."
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def fill(text, name, content):
    begin, end = f"<!-- {name} -->\n", f"\n<!-- end of {name} -->"
    if text.count(begin) != 1 or text.count(end) != 1:
        sys.exit(f"{PAGE} has no place for the {name}")
    before, rest = text.split(begin)
    return before + begin + content + end + rest.split(end)[1]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=pathlib.Path)
    parser.add_argument("--print", action="store_true", dest="show")
    arguments = parser.parse_args()
    lines = read(arguments.results)
    parts = {
        "machine": machine_text(lines),
        "steps": step_table(lines),
        "classes": class_table(lines),
        "compile times": compile_table(lines),
        "kernels": kernel_table(lines),
    }
    if arguments.show:
        print("\n\n".join(parts.values()))
        return
    text = PAGE.read_text()
    for name, content in parts.items():
        text = fill(text, name, content)
    PAGE.write_text(text)


if __name__ == "__main__":
    main()
