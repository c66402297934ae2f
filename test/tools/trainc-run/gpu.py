# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""trainc-run on a GPU that is emulated: steps overlap with each other and with loading their data,
and still the log, checkpoints, signals and errors are those of the CPU. No GPU and no numpy needed.

  gpu.py --trainc-run build/bin/trainc-run --driver FAKE_DRIVER.so --libraries FOLDER DIR

DIR holds cpu.tpk and gpu.tpk, the unit tests' tiny package for both targets, gpu-gemm.tpk, which
needs the fake cuBLASLt, too, and cpu-tokens.tpk and gpu-tokens.tpk with an input of tokens.
"""

import argparse
import json
import math
import os
import pathlib
import random
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "Inputs"))
from cases import Failed, expect, run_cases  # noqa: E402
from make_package import save_npz  # noqa: E402

ROWS = 20


def make_data(folder):
    source = random.Random(3)
    x = [source.gauss(0, 1) for _ in range(3 * ROWS)]
    y = [source.gauss(0, 1) for _ in range(ROWS)]
    ids = [source.randrange(4) for _ in range(ROWS)]

    def save(name, y=y, ids=ids):
        arrays = {"x": ("<f4", (ROWS, 3), x), "id": ("<i8", (ROWS,), ids)}
        save_npz(folder / name, y=("<f4", (ROWS,), y), **arrays)

    save("good.npz")
    save("nan.npz", y=[*y[:12], math.nan, *y[13:]])
    save("badid.npz", ids=[*ids[:13], 9, *ids[14:]])


class Cases:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = arguments.folder
        self.serial = 0
        make_data(self.folder)

    def scratch(self):
        self.serial += 1
        return self.folder / f"scratch-{self.serial}-{time.time_ns()}"

    def command(self, package, *flags):
        return [str(c) for c in (self.arguments.trainc_run, self.folder / package, *flags)]

    def environment(self, **more):
        fakes = {
            "TRAINRT_CUDA_DRIVER": str(self.arguments.driver),
            "TRAINRT_CUDA_PATH": str(self.arguments.libraries),
        }
        return {**os.environ, **fakes, **more}

    def run(self, package, *flags, data="good.npz", code=0, **environment):
        command = self.command(package, "--data", self.folder / data, *flags)
        variables = self.environment(**environment)
        done = subprocess.run(command, capture_output=True, text=True, env=variables)
        if done.returncode != code:
            raise Failed(f"{command}: exit {done.returncode}, not {code}:\n{done.stderr}")
        return done.stdout, done.stderr

    def log(self, package, *flags, **more):
        out, err = self.run(package, "--log-format", "json", *flags, **more)
        entries = [json.loads(line) for line in out.splitlines()]
        steps = [entry for entry in entries if "event" not in entry]
        return steps, [entry for entry in entries if "event" in entry], err

    def same(self, *flags, code=0, **more):
        """The steps of a run on the GPU, which are those of the CPU."""
        cpu, _, _ = self.log("cpu.tpk", *flags, code=code, **more)
        gpu, events, err = self.log("gpu.tpk", *flags, code=code, **more)
        expect([e["step"] for e in gpu] == [e["step"] for e in cpu], gpu, cpu)
        for a, b in zip(gpu, cpu):
            close = a["loss"] is b["loss"] is None or abs(a["loss"] - b["loss"]) < 1e-5
            expect(close and a["lr"] == b["lr"], a, b)
            expect(a["step_ms"] > 0, a)
        return gpu, events, err

    def same_checkpoints(self, one, other):
        for name in ("parameters.safetensors", "optimizer.safetensors"):
            expect((one / name).read_bytes() == (other / name).read_bytes(), one, other, name)

    def saved(self, folder):
        return sorted(int(path.name[5:]) for path in folder.glob("step-*"))

    def case_steps(self):
        steps, _, _ = self.same("--batch-size", 6, "--steps", 23)
        expect([e["step"] for e in steps] == list(range(1, 24)), steps)
        self.same("--batch-size", 6, "--steps", 1)
        self.same("--batch-size", 6, "--epochs", 3, "--shuffle", "--seed", 4)
        schedule = ["--lr-schedule", "linear,warmup=4", "--lr", 0.05]
        self.same("--batch-size", 6, "--epochs", 3, "--accumulate", 2, *schedule)

    def case_density(self):
        """Told with its own step, although steps overlap, and as on the CPU."""
        flags = ["--batch-size", 6, "--steps", 7, "--shuffle", "--density=2", "--log-format", "json"]
        logs = []
        for package in ("cpu-tokens.tpk", "gpu-tokens.tpk"):
            out, _ = self.run(package, *flags)
            entries = [json.loads(line) for line in out.splitlines()]
            logs.append([{k: v for k, v in e.items() if k in ("event", "step", "valid", "total", "valid_per_row")}
                         for e in entries if e.get("event") != "summary"])  # fmt: skip
        expect(logs[0] == logs[1], logs)
        events = [e.get("event", "step") for e in logs[1]]
        twice = ["step"] * 2 + ["density"] * 4
        expect(events == twice * 3 + ["step"] + ["density"] * 2 + ["density_summary"] * 2, events)

    def case_summary(self):
        steps, events, _ = self.same("--batch-size", 6, "--steps", 9)
        (summary,) = [e for e in events if e["event"] == "summary"]
        expect(summary["steps"] == 9 and 0 < summary["host_us"] < 1e6, summary)
        expect(summary["peak_bytes"] == steps[-1]["peak_bytes"], summary)

    def case_checkpoints(self):
        folder, whole = self.scratch(), self.scratch()
        flags = ["--batch-size", 6, "--shuffle"]
        steps, _, _ = self.log("gpu.tpk", "--steps", 11, "--save", whole, *flags)
        saving = ["--save", folder, "--save-every", 4]
        first, _, _ = self.log("gpu.tpk", "--steps", 7, *saving, *flags)
        expect(self.saved(folder) == [4, 7], self.saved(folder))
        resume = ["--resume", folder / "step-4"]
        resume += ["--save", folder, "--overwrite"]  # step 7
        second, _, _ = self.log("gpu.tpk", "--steps", 11, *resume, *flags)
        losses = [e["loss"] for e in steps]
        expect([e["loss"] for e in first[:4] + second] == losses, first, second, steps)
        self.same_checkpoints(folder / "step-11", whole / "step-11")

    def case_evaluations(self):
        flags = ["--batch-size", 6, "--eval", self.folder / "good.npz"]
        for more in (["--steps", 7, "--eval-every", 3], ["--epochs", 2]):
            _, events, _ = self.same(*flags, *more)
            _, expected, _ = self.log("cpu.tpk", *flags, *more)
            losses, others = (
                [(e["step"], e["loss"]) for e in list if e["event"] == "eval"]
                for list in (events, expected)
            )
            expect([s for s, _ in losses] == [s for s, _ in others], losses, others)
            expect(all(abs(a - b) < 1e-5 for (_, a), (_, b) in zip(losses, others)), losses)

    def case_nonfinite(self):
        """Row 12 is in step 3 of batches of 6: the step before it is saved, with its position."""
        folder = self.scratch()
        flags = ["--batch-size", 6, "--epochs", 2, "--save", folder, "--overwrite"]
        steps, _, err = self.same(*flags, data="nan.npz", code=1)
        expect([e["loss"] is None for e in steps] == [False, False, True], steps)
        expect("step 3: the loss is not finite" in err, err)
        expect(self.saved(folder) == [2], self.saved(folder))
        clean = self.scratch()
        self.log("gpu.tpk", "--batch-size", 6, "--steps", 2, "--save", clean, data="nan.npz")
        self.same_checkpoints(folder / "step-2", clean / "step-2")
        more = ["--batch-size", 6, "--epochs", 2, "--allow-nonfinite"]
        self.same(*more, "--resume", folder, data="nan.npz")
        self.same(*more, data="nan.npz")
        # In the last step, behind which no other is started.
        self.same("--batch-size", 6, "--steps", 3, data="nan.npz", code=1)

    def case_bad_data(self):
        """Row 13 is in step 3: the two before it are told, and the row is named."""
        steps, _, err = self.same("--batch-size", 6, "--epochs", 1, data="badid.npz", code=1)
        expect([e["step"] for e in steps] == [1, 2], steps)
        expect("that is row 13 of" in err and "the batch is rows 12 to 17" in err, err)

    def case_signals(self):
        folder = self.scratch()
        flags = ["--data", self.folder / "good.npz", "--batch-size", 6, "--steps", 10**9]
        command = self.command("gpu.tpk", *flags, "--log-format", "json", "--save", folder)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with subprocess.Popen(command, env=self.environment(), **pipes) as process:
            for line in process.stdout:
                if json.loads(line)["step"] >= 50:
                    break
            process.send_signal(signal.SIGINT)
            rest = [line, *process.stdout.read().splitlines()]
            err = process.stderr.read()
        expect(process.returncode == 1 and "interrupted by SIGINT" in err, err)
        (last,) = self.saved(folder)
        expect(json.loads(rest[-1])["step"] == last, rest[-1], last)
        more = ["--batch-size", 6, "--steps", last + 5]
        resumed, _, _ = self.log("gpu.tpk", *more, "--resume", folder)
        whole, _, _ = self.log("gpu.tpk", *more)
        losses = [[e["loss"] for e in entries] for entries in (whole[last:], resumed)]
        expect(losses[0] == losses[1], losses)

    def case_gradients(self):
        file = self.scratch()
        self.run("gpu.tpk", "--batch-size", 6, "--dump-gradients", file)
        expect(file.exists() and b"F32" in file.read_bytes())

    def case_profile(self):
        for package in ("cpu.tpk", "gpu.tpk"):
            file = self.scratch()
            flags = ["--batch-size", 6, "--steps", 8, "--profile", file]
            out, _ = self.run(package, *flags)
            expect("copy speed" in out and "loss_and_gradient" in out, out)
            rows = [json.loads(line) for line in file.read_text().splitlines()]
            steps = {row["command"]: row for row in rows if row["function"] == "step"}
            expect(list(steps) == [0, 1, 2, 3, 4], rows)
            forward = steps[0]
            expect(forward["name"] == "forward" and forward["runs"] == 8, forward)
            # x, w, table, id, pred
            expect(forward["bytes"] == 6 * 12 + 12 + 16 + 6 * 8 + 6 * 4, forward)
            expect(forward["nodes"] == ["/model/Gather"] and forward["ms"] > 0, forward)
            expect(forward["of_copy"] >= 0, forward)
            # Of evaluations the last batch has two rows of the twenty: the mean of 6, 6, 6 and 2.
            other = self.scratch()
            self.run(package, *flags[:-1], other, "--eval", self.folder / "good.npz")
            evaluated = [json.loads(line) for line in other.read_text().splitlines()]
            mean = [row["bytes"] for row in evaluated if row["function"] == "eval"]
            expect(mean[0] == 5 * 12 + 12 + 16 + 5 * 8 + 5 * 4, evaluated)
            expect([steps[i]["class"] for i in (0, 2)] == ["other", "copy"], rows)
            # The matmul of the CPU's package is a command, that of the GPU's a kernel of no told form.
            if "shape" in steps[3]:
                expect(steps[3]["type"] == "f32" and steps[3]["shape"]["k"] == 6, steps[3])
                expect(steps[3]["class"] == "matmul" and steps[3]["flops"] == 2 * 3 * 6, steps[3])
            else:
                expect(package == "gpu.tpk" and steps[3]["class"] == "other", steps[3])
            found = (file.parent / (file.name + ".classes.json")).read_text().splitlines()
            classes = {c["class"]: c for c in map(json.loads, found) if c["function"] == "step"}
            expect(list(classes)[-1] == "gaps" and classes["gaps"]["ms"] >= 0, classes)
            for name in set(row["class"] for row in steps.values()):
                mine = [row for row in steps.values() if row["class"] == name]
                expect(classes[name]["commands"] == len(mine), classes)
                expect(abs(classes[name]["ms"] - sum(row["ms"] for row in mine)) < 1e-5, classes)
                expect(classes[name]["bytes"] == sum(row["bytes"] for row in mine), classes)
            line = next(line for line in out.splitlines() if line.startswith("step") and " gaps " in line)
            expect(len(line.split()) == 9, out)
            trace = json.loads((file.parent / (file.name + ".trace.json")).read_text())
            names = [e["name"] for e in trace["traceEvents"] if e["ph"] == "X"]
            expect("update" in names and "copy" in names, names)
            # The log goes to standard output alone, and the numbers are as ever.
            self.same(*flags)

    def case_offload(self):
        """The same losses to the last digit, with and without a graph; what is held on the host is told."""
        for more in ([], ["--sync"], ["--check-numerics"], ["--profile", self.scratch()]):
            flags = ["--batch-size", 6, "--steps", 9, *more]
            losses = [
                [step["loss"] for step in self.log(package, *flags)[0]]
                for package in ("gpu.tpk", "gpu-offload.tpk")
            ]
            expect(losses[0] == losses[1], more, losses)
        rows = [json.loads(line) for line in more[-1].read_text().splitlines()]
        copies = {row["name"]: row for row in rows if row["name"].startswith("copy ")}
        expect(sorted(copies) == ["copy from host", "copy to host"], rows)
        expect(all(row["bytes"] == 6 * 4 for row in copies.values()), copies)
        flags = ["--batch-size", 6, "--steps", 2, "--memory-stats"]
        for package, pinned in (("gpu.tpk", 0), ("gpu-offload.tpk", 256)):
            _, events, _ = self.log(package, *flags)
            held = [e for e in events if e["event"] == "memory" and "phase" not in e][-1]
            expect(held["pinned"] == pinned, held)
            parts = "parameters state gradients arena inputs outputs scratch driver".split()
            expect(held["total"] >= sum(held[part] for part in parts), held)
            out, _ = self.run(package, *flags)
            expect(("pinned on the host 256 B" in out) == (pinned > 0), out)

    def case_check_numerics(self):
        for package in ("cpu.tpk", "gpu.tpk"):
            flags = ["--batch-size", 6, "--steps", 9, "--check-numerics"]
            steps, _, err = self.log(package, *flags, data="nan.npz", code=1)
            expect(len(steps) == 3 and "step 3: the loss is not finite" in err, err)
            expect("the first NaN is at element 0 of 6 of input 'y'" in err, err)
            _, _, err = self.log(package, *flags, "--lr", 1e38, code=1)
            for part in ("the first infinite value is at element", "of function 'step', ", "(node '"):
                expect(part in err, part, err)
            expect("from finite operands" in err, err)
            self.log(package, *flags)
        self.same(*flags)
        _, events, err = self.log("gpu.tpk", *flags, "--allow-nonfinite", data="nan.npz")
        expect("step 3 is not finite" in err, err)

    def case_errors(self):
        _, err = self.run("gpu.tpk", code=3, TRAINRT_CUDA_DRIVER="/nowhere/libcuda.so.1")
        for part in ("needs an NVIDIA GPU", "/nowhere/libcuda.so.1", "--target cpu"):
            expect(part in err, part, err)
        _, err = self.run("gpu.tpk", "--device", 1, code=3)
        expect("there is no GPU 1" in err, err)

    def algorithms(self, package, batch=6, **fakes):
        """Those of the matmuls of a short run, with what it says."""
        log = self.scratch()
        flags = ["--batch-size", batch, "--steps", 3]
        _, _, err = self.log(package, *flags, FAKE_CUBLASLT_LOG=str(log), **fakes)
        return {int(line) for line in log.read_text().split()}, err

    def case_tune(self):
        """Algorithm 2 of the fake library is the quickest of the three that may be used."""
        tuned = self.folder / "tuned.tpk"
        flags = ["--batch-size", 6, "--tune", 5]
        out, err = self.run("gpu-gemm.tpk", *flags, "-o", tuned)
        for part in ("1 x f32 ", " us -> ", ", of 3\n"):
            expect(part in out, part, out)
        expect("tuned 1 of 1 choices, 1 changed" in err and "wrote " in err, err)
        expect(self.algorithms("gpu-gemm.tpk")[0] == {0})
        used, err = self.algorithms("tuned.tpk")
        expect(used == {2} and "tuned" not in err, used, err)
        self.same_as_cpu("tuned.tpk")
        # Elsewhere it runs, and says so.
        used, err = self.algorithms("tuned.tpk", FAKE_CUBLASLT_VERSION="130200")
        expect(used == {0} and err.count("the package was tuned for") == 1, used, err)
        for part in ("cuBLASLt 130100, Fake GPU, 4 SMs", "cuBLASLt 130200"):
            expect(part in err, part, err)
        # Tuned again, over itself: for another version beside the first, and for micro-batches.
        self.run("tuned.tpk", *flags, "-o", tuned, FAKE_CUBLASLT_VERSION="130200")
        self.run("tuned.tpk", *flags, "--accumulate", 2, "-o", tuned)
        for version in ("130100", "130200"):
            used, err = self.algorithms("tuned.tpk", FAKE_CUBLASLT_VERSION=version)
            expect(used == {2} and not err, version, used, err)
        # Another shape is as ever.
        used, _ = self.algorithms("tuned.tpk", batch=5)
        expect(used == {0}, used)

    def same_as_cpu(self, package):
        cpu, _, _ = self.log("cpu.tpk", "--batch-size", 6, "--steps", 9)
        gpu, _, _ = self.log(package, "--batch-size", 6, "--steps", 9)
        again, _, _ = self.log(package, "--batch-size", 6, "--steps", 9)
        expect([e["loss"] for e in gpu] == [e["loss"] for e in again], gpu, again)
        for a, b in zip(gpu, cpu):
            expect(abs(a["loss"] - b["loss"]) < 1e-5, a, b)

    def case_tune_errors(self):
        tuned = self.folder / "unused.tpk"
        flags = ["--batch-size", 6, "--tune", 0]
        _, err = self.run("gpu-gemm.tpk", *flags, "-o", tuned)
        expect("tuned 0 of 1" in err and "time was up before the last 1 choices" in err, err)
        expect(self.algorithms("unused.tpk")[0] == {0})
        tuned.unlink()
        for package, output, code, part in (
            ("cpu.tpk", tuned, 1, "nothing to tune: it is for the CPU"),
            ("gpu.tpk", tuned, 1, "the step has no matmuls"),
            ("gpu-gemm.tpk", "/nowhere/t.tpk", 1, "cannot create '/nowhere/t.tpk'"),
            ("gpu-gemm.tpk", self.folder.parent / "t.tpk", 1, "write it into the same folder"),
        ):
            _, err = self.run(package, *flags, "-o", output, code=code)
            expect(part in err and not tuned.exists(), part, err)
        nothing = {"TRAINRT_CUDA_DRIVER": "/nowhere/libcuda.so.1"}
        _, err = self.run("gpu-gemm.tpk", *flags, "-o", tuned, code=3, **nothing)
        expect("needs an NVIDIA GPU" in err, err)
        for more, part in (
            ([], "--tune needs -o TUNED.tpk"),
            (["-o", tuned, "--steps", 3], "--tune and --steps exclude each other"),
        ):
            _, err = self.run("gpu-gemm.tpk", *flags, *more, code=2)
            expect(part in err, part, err)

    def case_ranks(self):
        """On one GPU: the bits of one process."""
        flags = ["--batch-size", 5, "--steps", 4]
        alone, _, _ = self.log("gpu-ranks.tpk", *flags, "--accumulate", 2)
        ranks, _, _ = self.log("gpu-ranks.tpk", *flags, "--emulate-world", 2)
        same = [[(step["step"], step["loss"]) for step in steps] for steps in (alone, ranks)]
        expect(len(alone) == 4 and same[0] == same[1], *same)

    def case_ranks_that_are_processes(self):
        """Each has a GPU, or is refused; the fake NCCL knows nothing of other processes."""
        flags = ["--batch-size", 5, "--steps", 2, "--collective-timeout", 1]
        _, err = self.run("gpu-ranks.tpk", *flags, "--gpus", 2, code=3)
        expect("rank 1 needs a GPU of its own: there is no GPU 1: this process sees 1, GPU 0" in err, err)
        two = {"FAKE_CUDA_DEVICES": "2"}
        for how in (["--gpus", 2], ["--ranks", 2]):
            _, err = self.run("gpu-ranks.tpk", *flags, *how, code=5, **two)
            expect("NCCL cannot connect the GPUs of 2 ranks" in err and "have not come within 1 s" in err, err)
        nowhere = dict.fromkeys(("TRAINRT_CUDA_PATH", "PATH", "HOME", "VIRTUAL_ENV", "CONDA_PREFIX"), str(self.scratch()))
        _, err = self.run("gpu-ranks.tpk", *flags, "--gpus", 2, code=3, **two, **nowhere)
        missing = "cannot find libnccl.so.2 (ranks on several GPUs exchange by it; it is in the wheels"
        expect(missing in err or "NCCL cannot connect the GPUs" in err, err)  # a real one of the system's
        for launcher in (["RANK", "WORLD_SIZE", "LOCAL_RANK"], ["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"],
                         ["SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"]):  # fmt: skip
            # One that is alone joins nobody, so that the GPU is all there is to see.
            place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1", "SLURM_STEP_NODELIST": "localhost", "SLURM_JOB_ID": "1"}
            place |= dict(zip(launcher, ("0", "1", "3")))
            _, err = self.run("gpu-ranks.tpk", *flags, code=3, **place, FAKE_CUDA_DEVICES="3")
            expect("there is no GPU 3: this process sees 3, GPUs 0 to 2" in err, err)
            self.run("gpu-ranks.tpk", *flags, **place, CUDA_VISIBLE_DEVICES="5")

    def case_out_of_memory(self):
        """Before the first step: what is asked for, what is free, what is held, what to do."""
        flags = ["--batch-size", 20, "--steps", 2]
        for memory, parts in (
            (
                956,
                [
                    "no memory for the parameters (512 bytes): 188 bytes of 956 bytes are free",
                    "held so far: constants 512 bytes, error slots 256 bytes",
                ],
            ),
            (2000, ["a batch of 20 rows needs ", "not even a smaller one fits", "`nvidia-smi`"]),
        ):
            out, err = self.run("gpu.tpk", *flags, code=3, FAKE_CUDA_MEMORY=str(memory))
            if memory == 956:
                parts += ["GPU 0 (Fake GPU)", "--batch-size"]
            for part in (*parts, "--precision bf16"):
                expect(part in err, part, err)
            expect(not out, out)

    def case_faults(self):
        fault = {"FAKE_CUDA_FAULT": "loss_and_gradient"}
        flags = ["--batch-size", 6, "--steps", 5]
        _, err = self.run("gpu.tpk", *flags, code=3, **fault)
        for part in ("function 'step'", "CUDA_ERROR_ILLEGAL_ADDRESS", "--sync"):
            expect(part in err, part, err)
        for flag in ("--sync", "--check-numerics"):
            _, err = self.run("gpu.tpk", *flags, flag, code=3, **fault)
            for part in ("kernel 'loss_and_gradient' (node '/model/Gather')", "ILLEGAL_ADDRESS"):
                expect(part in err, part, err)
        _, err = self.run("gpu.tpk", *flags, "--profile", self.scratch(), code=3, **fault)
        expect("--sync" in err, err)


def main():
    # lit's workers ignore it; ignored ones would be so in what is started here, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--driver", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", type=pathlib.Path, required=True)
    run_cases(parser, Cases)


if __name__ == "__main__":
    main()
