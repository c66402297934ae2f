# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""`trainc inspect`: its numbers against those of other tools, its page in a browser, what it refuses: `inspection.py FOLDER MODELS BROWSER PAGE`

`inspection.py --open PAGE BROWSER` says how long the browser takes to open a page.
"""

import contextlib
import io
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import zipfile

import numpy
import onnx
from browser import Browser
from trainc import commands
from trainc.inspection import costs, facts, graph, layers, program


def inspect(*arguments, code=0):
    """What the command says on standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        arguments = ["inspect", *map(str, arguments)]
        found = commands.run(commands.find(arguments), arguments[1:])
    assert found == code, (arguments, found, err.getvalue())
    return err.getvalue()


def as_dumped(folder):
    """Commands and buffers are those that trainc-translate prints, which reads packages by the runtime's own code."""
    _, read, ir = program.read(folder / "bert.tpk")
    assert ir and read.target == "cpu"
    functions, name = {}, None
    for line in (folder / "dump").read_text().splitlines():
        if found := re.match(r"function (\S+)", line):
            name = found[1]
            functions[name] = ([], [])
        elif name and (found := re.match(r"  b\d+: (\w+) .*?bytes(?: live (\d+)\.\.(\d+))?(?: '(.*)')?$", line)):
            functions[name][0].append((found[1], *map(int, found.group(2, 3) if found[2] else (0, 0)), found[4] or ""))
        elif name and (found := re.match(r"  \d+: (\w+) .*?(?:  # (.*))?$", line)):
            functions[name][1].append((found[1], tuple((found[2] or "").split(", "))))
    assert list(functions) == [function.name for function in read.functions]
    for function in read.functions:
        buffers, listed = functions[function.name]
        arena = ("arena", "host")
        assert buffers == [(b.space, b.first if b.space in arena else 0, b.last if b.space in arena else 0, b.label) for b in function.buffers], function.name
        assert listed == [(c.kind, tuple(read.nodes[n] for n in c.nodes) or ("",)) for c in function.commands], function.name


def as_measured(folder, models):
    """Bytes and FLOP of each command are those that the runtime counts."""
    manifest, read, _ = program.read(folder / "bert.tpk")
    data = numpy.load(models / "bert-cls.npz")
    rows, length = data["input_ids"].shape
    sizes = facts.choose_sizes(manifest, read, {"batch": 4, "seq": length})
    real = int(data["attention_mask"][:4].sum())
    kinds = set()
    for run, name in (("base", "step"), ("packed", "step.packed")):
        if run == "packed":
            sizes["count_attention_mask"] = -(-real // 8) * 8
        values, function = read.values(sizes), next(f for f in read.functions if f.name == name)
        lines = [line for line in map(json.loads, (folder / f"{run}.json").read_text().splitlines()) if line["function"] == name]
        assert len(lines) == len(function.commands) and rows >= 4
        for line in lines:
            command = function.commands[line["command"]]
            assert costs.of(command, values) == (line["bytes"], line["flops"]), (line, costs.of(command, values))
            assert facts.command_class(function, line["command"]) == line["class"], line
            kinds.add(command.kind)
    assert kinds >= {"launch", "gemm", "attention"}, kinds
    # Of kinds that this run does not have, by hand: 2 * 9 * 9 windows, 5 filters, 3 x 3 taps, 4 channels; f32.
    table = type("Table", (), {"number": lambda self, field, form, default=0: 0})()
    command = program.Command("convolution", table, [], range(16), (), (), ())
    assert costs.of(command, [2, 4, 5, 1, 9, 3, 9, 1, 1, 1, 9, 3, 9, 1, 1, 1]) == (4 * (2 * 4 * 81 + 5 * 36 + 2 * 5 * 81), 2 * 810 * 36)
    assert costs.pairs(4, -1, 0) == 10 and costs.pairs(4, -1, -1) == 16 and costs.pairs(4, 1, 1) == 10


def as_reported(folder):
    """The arena in use is that of trainc --report."""
    manifest, read, _ = program.read(folder / "bert.tpk")
    sizes = facts.choose_sizes(manifest, read, {})
    made = facts.make(manifest, read, sizes, None, None, None)
    reported = {function["name"]: function["live_bytes"] for function in json.loads((folder / "report.json").read_text())["functions"]}
    assert "step" in reported and sizes == {"batch": 4, "seq": 11, "count_attention_mask": 48}, (reported.keys(), sizes)
    for function in made["functions"]:
        if function["name"] in reported:
            assert function["live"] == reported[function["name"]], function["name"]


def by_layer():
    nodes = [("a", ["h.0.mlp.fc.weight"]), ("b", []), ("c", ["h.0.mlp.out.weight", "h.0.mlp.out.bias"]), ("d", []), ("e", ["h.1.ln.weight"]), ("f", []), ("g", ["head.weight"])]
    assert layers.assign(nodes) == [("h.0", "mlp", "fc"), ("h.0", "mlp"), ("h.0", "mlp", "out"), ("h.0",), ("h.1", "ln"), (), ("head",)]
    assert layers.assign([("/encoder/layer.0/Add", []), ("Add_1", [])]) == [("encoder", "layer.0"), ("encoder", "layer.0")]
    text = ('#loc1 = loc("x")\n  onnx.graph @g(%arg0: tensor<?x3xf32> {onnx.dims = ["n", ""], onnx.name = "x"} loc("x")) {\n'
            '    %0 = onnx.initializer "w\\22" <file = "f", offset = 0, length = 8> : tensor<2xf32> loc(#loc1)\n'
            '    %1:2 = onnx.node "Split" version 18(%arg0, %0) {} : (tensor<?x3xf32>, tensor<2xf32>) -> (tensor<f32>, tensor<f32>) loc(#loc2)\n'
            '    %2 = onnx.node "Add" version 14(%1#0, %1#1) {} : (tensor<f32>, tensor<f32>) -> tensor<f32> loc("sum"("f:nodes":3:0))\n#loc2 = loc("split"(#loc1))\n')  # fmt: skip
    split, add = graph.read(text)
    assert (split.name, split.op, split.parameters, split.inputs, split.reads) == ("split", "Split", ['w"'], ["x"], [])
    assert (add.name, add.reads, add.type) == ("sum", [0, 0], "tensor<f32>")


def in_a_browser(folder, models, browser):
    # A name that would be more than a name if it were not told as text.
    hostile = "</script><img src=//example.org/x.png onerror=document.title=1>"
    model = onnx.load(models / "bert-cls.onnx")
    node = next(node for node in model.graph.node if node.op_type == "Softmax" or node.op_type == "Tanh")
    times = (folder / "base.json").read_text().replace(json.dumps(node.name), json.dumps(hostile))
    (folder / "renamed.json").write_text(times)
    node.name = hostile
    onnx.save(model, folder / "model.onnx")
    said = inspect(folder / "model.onnx", "-o", folder / "page.html", "--target", "cpu:x86-64-v3", "--dropout", "off", "--dim", "batch=1..4", "--dim", "seq=1..11", "--profile", folder / "renamed.json")
    assert "wrote" in said, said
    assert "//example.org" not in re.sub(r"<script type.*?</script>", "", (folder / "page.html").read_text())
    browser.open(folder / "page.html")
    text = lambda selector="#main": browser.ask(f"document.querySelector({json.dumps(selector)}).innerText")  # noqa: E731
    assert browser.ask("document.title") == "model.onnx: inspection" and "batch = 4, seq = 11" in text("#about")
    # From the model to a kernel: each fold shows what is in it.
    for layer in ("/bert", "/bert/encoder", "/bert/encoder/layer.0", "/bert/encoder/layer.0/intermediate", "/bert/encoder/layer.0/intermediate/dense"):
        browser.click(f'[data-layer="{layer}"]')
    assert "bert › encoder › layer.0 › intermediate › dense" in text("#detail") and "bert.encoder.layer.0.intermediate.dense.weight" in text("#detail"), text("#detail")
    node = browser.ask("[...document.querySelectorAll('tr[data-fold]')].find(r => r.innerText.includes('MatMul')).dataset.node")
    browser.click(f'tr[data-node="{node}"]')
    kernels = browser.ask("[...document.querySelectorAll('#main tr[data-command]')].map(r => r.innerText)")
    assert ["forward" in kernel for kernel in kernels] == [True, False, False, False] and ["gemm" in kernel for kernel in kernels] == [True, True, True, False], kernels
    browser.click("#main tr[data-command]")
    assert re.search(r"gemm f32 44x64x32\s*matmul, forward, 0\.\d+ ms, [\d.]+ KiB moved, [\d.]+ kFLOP; [\d.]+ KiB of the arena in use", text("#detail")), text("#detail")
    # Kernels, the slowest first.
    browser.click("[data-tab=kernels]")
    browser.click('[data-sort="4"]')
    times = browser.ask("[...document.querySelectorAll('#main tr.row')].map(r => +r.cells[4].innerText)")
    assert len(times) > 100 and times == sorted(times, reverse=True) and times[0] > 0
    # Memory, where the mouse points.
    browser.click("[data-tab=memory]")
    assert re.search(r"over its \d+ commands: at most [\d.]+ KiB in use", text())
    browser.ask("(() => { const b = document.getElementById('curve').getBoundingClientRect(); document.getElementById('curve').dispatchEvent("
                "new MouseEvent('click', {bubbles: true, clientX: b.left + b.width * .1, clientY: b.top + 5})); })()")  # fmt: skip
    assert re.search(r"in use at \d+: .*: [\d.]+ KiB in \d+ buffers", text()) and "reads" in text("#detail")
    # Decisions of one pass, with reasons.
    browser.click("[data-tab=decisions]")
    browser.ask("(() => { const s = document.querySelector('[data-filter=kind]'); s.value = 'missed'; s.dispatchEvent(new Event('change', {bubbles: true})); })()")
    assert "because" in text() and "passed" not in browser.ask("[...document.querySelectorAll('#main tr td:nth-child(2)')].map(c => c.innerText).join()")
    browser.ask("(() => { const f = document.getElementById('find'); f.value = 'example.org'; f.dispatchEvent(new Event('input')); })()")
    browser.click("[data-tab=model]")
    assert hostile in text() and browser.ask("document.title") == "model.onnx: inspection"
    # Its lines in each phase, and from a line back to it.
    browser.click("tr[data-node]")
    browser.click("[data-tab=ir]")
    browser.until("document.querySelector('button[data-phase]')")
    for phase in range(5):
        browser.click(f'button[data-phase="{phase}"]')
        browser.until(f"""document.querySelector('button[data-phase="{phase}"].on')""")
        assert (count := int(re.search(r"lines, (\d+) of ", text())[1])) > 0, (phase, text()[:500])
        assert browser.ask("document.querySelectorAll('.line.chosen').length") <= count
    browser.ask("document.querySelector('.line.chosen').click()")
    browser.until("document.querySelectorAll('#places a[data-line]').length > 4")
    assert hostile in text("#detail") and re.search(r"1-import: \d+.*\s+2-legalize: \d+", text("#detail")), text("#detail")
    assert browser.problems() == []


def of_a_package(folder, browser):
    inspect(folder / "bert.tpk", "-o", folder / "package.html")
    browser.open(folder / "package.html")
    assert "the package has no graph" in browser.ask("document.getElementById('main').innerText")
    for layer in ("/bert", "/bert/encoder"):
        browser.click(f'[data-layer="{layer}"]')
    browser.click("[data-tab=kernels]")
    assert "trainc-run PACKAGE --data FILE --profile times.json" in browser.ask("document.getElementById('main').innerText")
    browser.click("[data-tab=decisions]")
    assert "A package does not tell" in browser.ask("document.getElementById('main').innerText")
    browser.click("[data-tab=ir]")
    browser.until("document.querySelector('.line')")
    assert "plan.function @step" in browser.ask("(async () => (await phase(0)).lines.join('\\n'))()")
    assert browser.problems() == [], browser.problems()


def as_the_page_says(folder, models, page):
    """The commands of docs/inspection.md."""
    (section,) = re.findall(r"^## One page with everything\n(.*?)(?=^## )", page.read_text(), re.M | re.S)
    shutil.copy(models / "mlp.onnx", folder / "model.onnx")
    shutil.copy(models / "mlp.npz", folder / "train.npz")
    with contextlib.chdir(folder):
        for line in re.search(r"```sh\n(.*?)```", section, re.S)[1].splitlines():
            words = shlex.split(line, comments=True)
            if words[1] == "inspect":
                assert f"wrote {words[words.index('-o') + 1]}" in inspect(*words[2:])
            else:
                subprocess.run(words, check=True, capture_output=True)


def refused(folder, models):
    package = folder / "bert.tpk"
    assert "none.onnx: no such file" in inspect(folder / "none.onnx", code=1)
    assert "--lr: a package is compiled already; trainc inspect MODEL.onnx takes options" in inspect(package, "--lr", "1", code=2)
    assert "unknown option" in (said := inspect(models / "bert-cls.onnx", "-o", folder / "x.html", "--learning", "1", code=2)) or "--learning" in said
    assert "the package has no such size; it has batch, seq" in inspect(package, "--size", "rows=4", code=2)
    assert "--size seq=64: it is 1 to 11" in inspect(package, "--size", "seq=64", code=2)
    assert "is the file that is read" in inspect(package, "-o", package, code=2)
    with contextlib.suppress(SystemExit):
        inspect(package, "--size", "seq", code=2)
        raise AssertionError("a size without a number")
    (folder / "text.json").write_text("no JSON\n")
    assert "text.json: is not a file of trainc-run --profile" in inspect(package, "--profile", folder / "text.json", code=1)
    (folder / "other.json").write_text('{"pass": "x"}\n')
    assert "other.json: is not a file of trainc-run --profile" in inspect(package, "--profile", folder / "other.json", code=1)
    (folder / "far.json").write_text((folder / "base.json").read_text().replace('"command":1,', '"command":1000,', 1))
    assert "has command 1000 of 'step', which the package has not: it is of another one" in inspect(package, "--profile", folder / "far.json", code=1)
    lines = [json.loads(line) for line in (folder / "base.json").read_text().splitlines()]
    (folder / "moved.json").write_text("".join(json.dumps({**line, "nodes": ["elsewhere"]}) + "\n" for line in lines))
    assert "is of other nodes of the model than in the package" in inspect(package, "--profile", folder / "moved.json", code=1)
    assert "is a folder, and has no training_model.onnx" in inspect(folder, code=1)
    assert "wrote" in inspect(models / "ort/mlp", "-o", folder / "ort.html", "--target", "cpu:x86-64-v3")
    (folder / "half.tpk").write_bytes(package.read_bytes()[:3000])
    assert "half.tpk: is no package, or a damaged one" in inspect(folder / "half.tpk", code=1)
    assert "none.json: no such file" in inspect(package, "--profile", folder / "none.json", code=1)
    with zipfile.ZipFile(folder / "empty.zip", "w") as made:
        made.writestr("a", "b")
    assert "empty.zip: is no package: it has no manifest.json and program.fb" in inspect(folder / "empty.zip", code=1)
    with zipfile.ZipFile(package) as whole:
        manifest, bytes_ = whole.read("manifest.json"), whole.read("program.fb")
    # The number of the format is the root's first field.
    root = program.Table(bytes_, int.from_bytes(bytes_[:4], "little"))
    newer = bytearray(bytes_)
    newer[root.place(0)] = 9
    # What few programs need makes them of this version, which is as the one before in all else.
    latest = bytearray(bytes_)
    latest[root.place(0)] = 4
    # A node that is not there: the last number of a command's list of them.
    lost = bytearray(bytes_)
    place = root.tables(12)[0].tables(2)[0].target(5)
    lost[place + 4 : place + 8] = (1 << 20).to_bytes(4, "little")
    says = {"cut": "is no package, or a damaged one", "zeros": "program.fb is none", "newer": "its program has version 9, this trainc reads 3 and 4: compile the model again", "lost": "is a damaged package"}
    for name, damaged in (("cut", bytes_[: len(bytes_) // 2]), ("zeros", bytes(len(bytes_))), ("newer", newer), ("lost", lost)):
        with zipfile.ZipFile(folder / f"{name}.tpk", "w") as made:
            made.writestr("manifest.json", manifest)
            made.writestr("program.fb", bytes(damaged))
        assert says[name] in inspect(folder / f"{name}.tpk", "-o", folder / "x.html", code=1), name
    with zipfile.ZipFile(folder / "latest.tpk", "w") as made:
        made.writestr("manifest.json", manifest)
        made.writestr("program.fb", bytes(latest))
    assert program.read(folder / "latest.tpk")[1].version == 4


def main():
    if sys.argv[1] == "--open":
        with Browser(sys.argv[3]) as browser:
            print(f"{min(browser.open(pathlib.Path(sys.argv[2]).resolve()) for _ in range(5)):.2f} s")
        return
    folder, models = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    as_dumped(folder)
    as_measured(folder, models)
    as_reported(folder)
    as_the_page_says(folder, models, pathlib.Path(sys.argv[4]))
    by_layer()
    refused(folder, models)
    with Browser(sys.argv[3]) as browser:
        in_a_browser(folder, models, browser)
        of_a_package(folder, browser)


if __name__ == "__main__":
    main()
