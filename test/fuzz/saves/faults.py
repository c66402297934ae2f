# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Each call for a file that a program makes fails once, in every way that such a call can."""

import errno
import os
import re
import shutil
import sys

from place import ROOT, STEPS

#: Repeated by whoever makes the call: nobody may notice.
REPEATED = ("open", "read", "pread", "write", "pwrite", "fsync", "ftruncate", "flock")
#: Where these fail, something may be left behind, which the next run clears.
REMOVING = ("unlink", "unlinkat", "remove", "rmdir", "readdir", "opendir", "fdopendir", "lstat")
ERRORS = (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EDQUOT)


def ways(call):
    """What may happen in such a call: numbers of errors, and "short"."""
    more = [errno.EINTR] if call in REPEATED or call == "close" else []
    return [*ERRORS, "kill", *more, *(["short"] if call in ("read", "pread", "write", "pwrite") else [])]


class Scenario:
    """`prepare()` makes the folder `place.root/work`, and `check(ended, what, removing)` looks at it
    behind each fault."""

    def __init__(self, name, flags, prepare, check, settings=(), program=None):
        self.name, self.flags, self.prepare, self.check = name, flags, prepare, check
        self.settings, self.program = dict(settings), program


def inject(place, scenario, count):
    """Faults at all calls, `count` different ones at each; how many there were."""
    log, work = place.root / "calls", place.root / "work"
    faults = call = 0
    while True:
        call += 1
        for turn in range(count):
            calls = calls_of(place, scenario, log)
            place.fresh()
            scenario.prepare()
            log.unlink(missing_ok=True)
            if call > len(calls):
                return faults
            kind = calls[call - 1].split(" ")[0]
            possible = ways(kind)
            if turn >= len(possible):
                break
            way = possible[(turn + (call if count < len(possible) else 0)) % len(possible)]
            settings = {"FAULT_LOG": str(log), "FAULT_AT": str(call), "FAULT": str(way), **scenario.settings}
            ended = place.run(scenario.flags, work, settings, scenario.program)
            lines = log.read_text().splitlines() if log.exists() else []
            happened = len(lines) >= call
            told = lines[call - 1] if happened else calls[call - 1]
            reason = way if isinstance(way, str) else os.strerror(way)
            what = f"{scenario.name}: call {call}, {told}: {reason}:"
            faults += happened
            if way == "kill":
                place.expect(not happened or ended.code == -9, what, ended.code, ended.stderr)
                scenario.check(ended, what, True)
                continue
            noticed = not (way == "short" or (way == errno.EINTR and kind in REPEATED))
            if place.expect(ended.code in ((0, 1) if noticed else (0,)), what, "exit code", ended.code, ended.stderr):
                if ended.code == 1:
                    place.expect(reason in ended.stderr, what, "the reason is not in:", ended.stderr)
                    place.expect(str(work) in ended.stderr, what, "no file is named in:", ended.stderr)
                scenario.check(ended, what, kind in REMOVING)


def calls_of(place, scenario, log, known={}):
    """The calls of a run without a fault."""
    if scenario.name not in known:
        place.fresh()
        scenario.prepare()
        log.unlink(missing_ok=True)
        ended = place.run(scenario.flags, place.root / "work", {"FAULT_LOG": str(log), **scenario.settings}, scenario.program)
        place.expect(ended.code == 0, scenario.name, ended.code, ended.stderr)
        scenario.check(ended, f"{scenario.name}, without a fault:", False)
        known[scenario.name] = log.read_text().splitlines() if log.exists() else []
        place.expect(len(known[scenario.name]) > 4, scenario.name, "few calls", known[scenario.name])
    return known[scenario.name]


def run_all(place, scenarios, count):
    counts = {s.name: inject(place, s, count) for s in scenarios if place.arguments.only in s.name}
    return f"{sum(counts.values())} faults (" + ", ".join(f"{k} {v}" for k, v in counts.items()) + ")"


def save_scenario(place, name, before, keep, flags, settings=()):
    """A save into a folder with the checkpoints `before`, the newest of which no fault loses."""
    folder = place.root / "work" / "saved"

    def prepare():
        for step in before:
            shutil.copytree(place.reference / f"step-{step}", folder / f"step-{step}")

    def check(ended, what, removing):
        newest = place.newest(folder)
        place.expect(newest >= max(before, default=0), what, "lost, the newest is", newest)
        # The lock's file is no harm: nobody holds it. Nor is a checkpoint that was to be replaced.
        (folder / ".lock").unlink(missing_ok=True)
        left = os.listdir(folder) if folder.exists() else []
        left = [n for n in left if n.startswith(".") and not re.search("-old-|-before-", n)]
        if ended.code == 0:
            place.expect(newest == STEPS, what, "not saved, the newest is", newest)
            if "warning" not in ended.stderr:
                place.check_finished(folder, keep, what)
        elif not removing:
            place.expect(not left, what, "left", left)
        place.check_continues(folder, keep, newest, what)

    more = ["--keep", keep, "--save", folder]
    if before and "--overwrite" not in flags:
        more += ["--resume", folder]
    flags = [folder if f is None else f for f in flags]
    return Scenario(name, [*place.training(), *more, *flags], prepare, check, settings)


def file_scenario(place, name, target, flags, program=None, others=(), settings=()):
    """An output `target` over an older one: it is that or the new one, whole, and nothing is beside it,
    behind a kill not after the next run."""
    work = place.root / "work"
    target = work / target
    old, new = b"the older one", None

    def prepare():
        target.write_bytes(old)
        for other in others:
            if "." in other:
                (work / other).write_bytes(old)
            else:
                (work / other).mkdir()

    def check(ended, what, removing):
        nonlocal new
        content = target.read_bytes() if target.exists() else b""
        if new is None:
            new = normal(content)
            place.expect(content != old, what, "not written")
        place.expect(content == old or normal(content) == new, what, "a part of a file")
        if ended.code == 0:
            place.expect(normal(content) == new, what, "not written, and nothing is said")
        if ended.code == -9:
            place.run(flags, work, {**dict(settings), "FAULT_AT": "-1"}, program)
        if not removing or ended.code == -9:
            found = sorted(str(p.relative_to(work)) for p in work.rglob("*"))
            found = [n for n in found if not n.startswith("cache/")]
            if ended.code == -9:  # which the compiler does not clear behind itself: include/trainc/Support/Temporaries.h
                found = [n for n in found if not re.search(r"^tmp/|\.part$", n)]
            place.expect(found == sorted([target.name, *others]), what, "there are", found)

    return Scenario(name, flags, prepare, check, settings, program)


def pair_scenario(place, name, flags, program):
    """A model with its data in a second file: an older model is never found with the new data."""
    work = place.root / "work"
    model, data, old = work / "w.onnx", work / "w.onnx.data", b"the older one"

    def prepare():
        model.write_bytes(old)
        data.write_bytes(old)

    def check(ended, what, removing):
        found = [p.read_bytes() if p.exists() else b"" for p in (model, data)]
        if ended.code == 0:
            place.expect(old not in found and b"" not in found, what, "not written")
        place.expect(found[0] != old or found[1] == old, what, "the older model with the new data")
        place.expect(found[0] in (old, b"") or found[1] != old, what, "the new model with the older data")
        if ended.code == -9:
            place.run(flags, work, {"FAULT_AT": "-1"}, program)
        if not removing or ended.code == -9:
            left = set(os.listdir(work)) - {model.name, data.name}
            place.expect(not left, what, "left", left)

    return Scenario(name, flags, prepare, check, program=program)


def adapter_scenario(place, flags, program, older):
    """An adapter over another one with other settings: weights are never found with the settings of others."""
    folder = place.root / "work" / "adapter"
    names = ("adapter_config.json", "adapter_model.safetensors")
    old, new = [(older / n).read_bytes() for n in names], None

    def contents(suffix=""):
        paths = [folder / (n + suffix) for n in names]
        return [p.read_bytes() if p.exists() else b"" for p in paths]

    def prepare():
        shutil.copytree(older, folder)

    def check(ended, what, removing):
        nonlocal new
        new = new or contents()
        found = contents()
        if ended.code == 0:
            place.expect(found == new != old, what, "not written")
        elif ended.code != -9 and not removing:
            place.expect(found == old, what, "not the older adapter")
        if found not in (old, new):
            place.expect(not found[0], what, "settings beside the weights of others")
            kept = [b or a for a, b in zip(found, contents(".old"))]
            place.expect(kept == old, what, "the older adapter is lost")
        if ended.code == -9:
            place.run(flags, place.root / "work", {"FAULT_AT": "-1"}, program)
            place.expect(contents() == new, what, "not written by the next run")
        if not removing or ended.code == -9:
            place.expect(sorted(os.listdir(folder)) == sorted(names), what, "there are", os.listdir(folder))

    return Scenario("adapter", flags, prepare, check, program=program)


def normal(content):
    """Without times."""
    return re.sub(rb"\d+\.\d+|\d+", b"0", content) if content[:1] in (b"{", b"<", b"[") else content


def of_runs(place, count):
    third = place.reference / f"step-{STEPS - 2}"
    resumed = ["--resume", third]
    work, root = place.root / "work", place.root
    saves = [
        save_scenario(place, "first save", [], 1, ["--save-every", STEPS - 1]),
        save_scenario(place, "goes on", [STEPS - 2, STEPS - 1], 2, []),
        save_scenario(place, "another run", [2], 1, ["--overwrite"]),
        save_scenario(place, "same step", [STEPS], 1, []),
        save_scenario(place, "same step, no exchange", [STEPS], 1, [], {"NO_EXCHANGE": "1"}),
    ]
    files = [
        file_scenario(place, "export", "w.safetensors", [*resumed, "--export", work / "w.safetensors"]),
        file_scenario(place, "predict", "p.safetensors", [*resumed, "--predict", root / "good.npz", "-o", work / "p.safetensors"]),
        file_scenario(place, "profile", "p.json", [*place.training(), "--profile", work / "p.json"], others=["p.json.trace.json"]),
        file_scenario(place, "gradients", "g.safetensors", [*place.training(), "--dump-gradients", work / "g.safetensors"]),
    ]
    return run_all(place, saves + files, count)


def of_compiler(place, count):
    sys.path.insert(0, str(ROOT / "test" / "e2e"))
    import mini_onnx

    model, work = place.root / "model.onnx", place.root / "work"
    model.write_bytes(mini_onnx.classifier())
    trainc = [place.arguments.build / "bin" / "trainc", model, "--target", "cpu", "--log-level", "error", "--dim", "batch=8"]
    inside = {"TMPDIR": str(work / "tmp")}
    package = ["-o", place.root / "m.tpk"]
    assert place.run(package, program=trainc).code == 0
    trainc_run = place.trainc_run
    (place.root / "w.bin").write_bytes(bytes(48))
    outside = place.root / "outside.onnx"
    outside.write_bytes(mini_onnx.classifier(weight=mini_onnx.tensor("w", [4, 3], external=("w.bin", 0, 48))))
    assert place.run(["-o", place.root / "outside.tpk"], program=[trainc[0], outside, *trainc[2:]]).code == 0
    branches = []
    for rank in (2, 3):
        package_with = place.root / f"lora-{rank}.tpk"
        lora = ["--lora", f"r={rank},alpha=4,targets=.*", "-o", package_with]
        assert place.run(lora, program=trainc).code == 0
        branches.append([trainc_run, package_with])
    older = place.root / "older"
    assert place.run(["--export", older], program=branches[0]).code == 0
    scenarios = [
        adapter_scenario(place, ["--export", work / "adapter"], branches[1], older),
        file_scenario(place, "package", "m.tpk", ["-o", work / "m.tpk"], trainc, ["tmp"], inside),
        file_scenario(
            place, "cache", "m.tpk", ["-o", work / "m.tpk", "--cache", work / "cache"], trainc, ["tmp", "cache"], inside
        ),
        file_scenario(place, "ONNX", "w.onnx", ["--export", work / "w.onnx"], [trainc_run, place.root / "m.tpk"]),
        pair_scenario(place, "ONNX and data", ["--export", work / "w.onnx"], [trainc_run, place.root / "outside.tpk"]),
        file_scenario(place, "report", "r.html", [*package, f"--report={work}/r.html"], trainc),
        file_scenario(place, "report as JSON", "r.json", [*package, f"--report={work}/r.json"], trainc),
    ]
    return run_all(place, scenarios, count)
