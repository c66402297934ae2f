# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What is said of ranks before they run: their memory, and the time of their steps (docs/memory.md).

  ranks_beforehand.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import json
import math
import pathlib
import re
import subprocess
import zipfile

import numpy as np
from ranks import Sharded, expect, program_parser, run_cases, wide_model


class Cases(Sharded):
    def case_memory_beforehand(self):
        """What the report, and the plan of a run, say of a rank is what it holds: exchanges have their room."""
        wide, adapters = self.wide.with_suffix(""), ["--lora", "r=4,alpha=8", "--quantize", "nf4"]
        for model, data, sizes, how in (("vit", self.model_data("vit"), dict(batch=2), ["data"]),
                                          ("mlp", self.model_data("mlp"), dict(batch=3), ["data"]),
                                          (wide, self.rows, dict(batch=2), ["zero1"]), (wide, self.rows, dict(batch=2), ["zero3"]),
                                          (self.frozen.with_suffix(""), self.rows, dict(batch=2), ["zero3", *adapters])):  # fmt: skip
            for world in (1, 2, 3, 8) if how == ["data"] else (1, 3):
                report = self.path(".json")
                dims = [word for size in (sizes | {"world": world}).items() for word in ("--dim", "{}=1..{}".format(*size))]
                package = self.trainc(model, "--distribute", *how, "--clip-norm", "1", *dims, f"--report={report}")
                told = json.loads(report.read_text())
                expect(told["time"]["world"] == world, told["time"])
                events = self.log(
                    package, data, "--batch-size", sizes["batch"], "--steps", 2, "--threads", 1, "--memory-stats",
                    *(["--emulate-world", world] if world > 1 else [])
                )  # fmt: skip
                held = max(e["peak_bytes"] for e in events if "peak_bytes" in e)
                expect(abs(told["peak_bytes"] - held) <= 0.02 * held, model, world, told["peak_bytes"], held)
                never = self.path("")
                flags = ["--batch-size", sizes["batch"], "--threads", "1", "--ranks", world, "--dry-run", "--save", never]
                (plan,) = [e for e in self.log(package, data, *flags) if e["event"] == "memory"]
                expect(abs(plan["total"] - held) <= 0.02 * held, model, world, plan, held)
                expect(not never.exists(), never)

    def case_memory_of_gpus_beforehand(self):
        """The report has room for the pieces of two others of three ranks."""
        report, told = self.path(".json"), {}
        parameters = json.loads(zipfile.ZipFile(self.trainc("mlp")).read("manifest.json"))["parameters"]
        for world in (1, 3):
            self.trainc("mlp", "--target", "cuda:sm_90", "--distribute", "data", "--dim", "batch=3", "--dim", f"world={world}", f"--report={report}", "--stop-after", "codegen")
            told[world] = json.loads(report.read_text())["workspace_bytes"]
        piece = 4 * sum(-(-math.prod(p["shape"]) // 3) for p in parameters)
        expect(told[3] - told[1] == 2 * (-(-piece // 256) * 256), told, piece)

    def case_memory_budget(self):
        """Is of a rank, with its shards and its room for exchanges: what is chosen for it is within it, and what a rank holds."""
        wide_model.widen(self.arguments.models / "gpt2.onnx", wide := self.path(".onnx"), 128, 2100)
        random = np.random.default_rng(4)
        tokens = random.integers(1, 101, (12, 16))
        data = self.data(input_ids=tokens, attention_mask=np.ones_like(tokens), labels=tokens)
        report = self.path(".json")
        for how in ("zero1", "zero3"):
            compiling = [wide.with_suffix(""), "--distribute", how, "--dim", "batch=1..4", "--dim", "seq=16", "--dim", "world=3", f"--report={report}"]
            self.trainc(*compiling)
            plain = json.loads(report.read_text())["peak_bytes"]
            remarks = self.path(".json")
            budget = plain - 500000
            package = self.trainc(*compiling, "--memory-budget", f"{budget}B", "--remarks", remarks)
            told = json.loads(report.read_text())
            expect(told["peak_bytes"] <= budget and told["without_recompute"]["peak_bytes"] == plain, how, plain, budget, told["peak_bytes"])
            expect("the budget is for each of 3 ranks" in remarks.read_text(), remarks)
            events = self.log(package, data, "--batch-size", "4", "--steps", "1", "--threads", "1", "--emulate-world", "3", "--memory-stats")
            held = max(e["peak_bytes"] for e in events if "peak_bytes" in e)
            expect(abs(told["peak_bytes"] - held) <= 0.02 * held, how, told["peak_bytes"], held)

    def case_time_beforehand(self):
        """Bytes and seconds of an exchange grow with the number of ranks as its halves do, and no package is for one number alone."""
        told, packages = {}, {}
        for world in (1, 2, 8):
            report = self.path(".json")
            package = self.trainc("mlp", "--distribute", "data", "--dim", "batch=1..4", "--dim", f"world={world}", f"--report={report}", "--link-rate", "16Gbit", "--link-latency", "50")
            told[world], packages[world] = json.loads(report.read_text())["time"], zipfile.ZipFile(package).read("program.fb")
        expect(len(set(packages.values())) == 1, "packages differ")
        expect(told[1]["exchange_seconds"] == 0 and told[1]["scaling_efficiency"] == 1 and told[1]["sent_bytes"] == 0, told[1])
        for world in (2, 8):
            time = told[world]
            expect(abs(time["exchange_seconds"] - time["exchanges"] * 50e-6 - time["sent_bytes"] / 2e9) < 1e-12, time)
            expect(abs(time["step_seconds"] - (time["computing_seconds"] + time["exchange_seconds"] - time["hidden_seconds"])) < 1e-12, time)
            expect(0 <= time["hidden_seconds"] <= 51e-6, time)  # at most the verdict, beside the backward pass
            expect(0 < time["scaling_efficiency"] < 1, time)
            waited = time["not_hidden"][0]
            expect(waited["kind"] == "all_reduce" and waited["function"] == "step" and len(set(waited["tensors"])) == 8, waited)
            ratios = {entry["world"]: entry["ratio"] for entry in time["scaling"]}
            expect(list(ratios) == [2, 4, 8] and 0 < ratios[2] < ratios[4] < ratios[8] < 8, ratios)
            expect(abs(ratios[world] - world * time["scaling_efficiency"]) < 1e-9, ratios, time)
        shares = told[8]["sent_bytes"] / told[2]["sent_bytes"]
        expect(1.7 < shares < 1.8, shares, "is not 7/8 to 1/2")
        # Gradients of several weights of 2 MB leave one after the other.
        wide_model.write(large := self.path(".onnx"), widths=(720, 720, 720, 720))
        for how in ("data", "zero2"):
            self.trainc(large.with_suffix(""), "--distribute", how, "--dim", "batch=512", "--dim", "world=2", f"--report={report}")
            time = json.loads(report.read_text())["time"]
            expect(time["exchanges"] > 2 and 0 < time["hidden_seconds"] < time["exchange_seconds"], how, time)
            waits = [entry["waited_seconds"] for entry in time["not_hidden"]]
            expect(how == "data" or "reduce_scatter in step of w0" in [f"{e['kind']} in {e['function']} of {', '.join(e['tensors'])}" for e in time["not_hidden"]], time)
            expect(abs(sum(waits) - (time["exchange_seconds"] - time["hidden_seconds"])) < 1e-12 and waits == sorted(waits, reverse=True), how, time)
        # Norms of all shards are gathered at once.
        self.trainc(large.with_suffix(""), "--distribute", "zero1", "--clip-norm", "1", "--dim", "batch=512", "--dim", "world=2", f"--report={report}")
        norms = [entry for entry in json.loads(report.read_text())["time"]["not_hidden"] if entry["tensors"] == ["grad_norm"]]
        expect(len(norms) == 1 and norms[0]["kind"] == "all_gather", norms)
        told = [self.arguments.trainc, self.arguments.models / "mlp.onnx", "--distribute", "data", "--dim", "batch=1..4", "--dim", "world=2", "--stop-after", "codegen"]
        text = subprocess.run([*told, "--report", "--target", "cuda:sm_90"], capture_output=True, text=True).stdout
        expect("; assumed is a link of 260 GB/s each way behind 50 us (" in text and re.search(r"\n  not hidden +[0-9.]+ ms  all_reduce in ", text), text)
        page = self.path(".html")
        text = subprocess.run([*told, f"--report={page}"], capture_output=True, text=True).stdout
        expect("<td>not hidden: all_reduce in step of fc3.bias, fc3.weight, fc2.bias and 5 more, " in page.read_text(), page)
        expect("; to one rank 2 ranks: " in page.read_text(), page)
        expect("time of a step of 2 ranks, by the model of the CPU: " in text and "scaling efficiency" in text, text)
        expect("; assumed is a link of 1 GB/s each way behind 200 us (--link-rate and --link-latency say another)" in text, text)
        expect(re.search(r"\n  not hidden +[0-9.]+ ms  all_reduce in step of fc3.bias, fc3.weight, fc2.bias and 5 more, [0-9.]+ KiB\n", text), text)
        expect(re.search(r"\n  to one rank +2 ranks: \d\.\d\dx, 4 ranks: ", text), text)


if __name__ == "__main__":
    run_cases(program_parser(), Cases)
