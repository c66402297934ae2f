# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks of several machines, for which neighbours of one stand, and ranks of which only some share a replica: W of them make the steps
of one process with --accumulate W.

  rank_nodes.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import json
import os
import pathlib
import signal
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "Inputs"))
from cases import expect, program_parser, run_cases  # noqa: E402
from ranks import Processes  # noqa: E402

sys.path.insert(0, str(HERE.parents[1] / "e2e"))
import wide_model  # noqa: E402


class Cases(Processes):
    def case_bits(self):
        """Sums that go from one machine to the next are those of all ranks at once."""
        run = ["--batch-size", "2", "--steps", "3", "--ranks-per-node", "2"]
        package, data = self.trainc("mlp", "--distribute", "data", "--clip-norm", "0.3"), self.model_data("mlp")
        for world in (4, 6):
            expected = self.trained(package, data, *run[:4], "--accumulate", world)
            self.equal(self.trained(package, data, *run, "--emulate-world", world), expected, f"nodes of {world}")
        for how in ("zero1", "zero2", "zero3"):
            package = self.sharded("--clip-norm", "1", how=how)
            expected = self.trained(package, self.rows, *run[:4], "--accumulate", "4")
            self.equal(self.trained(package, self.rows, *run, "--emulate-world", "4"), expected, f"nodes of {how}")

    def case_processes(self):
        """Neighbours stand for a machine."""
        package = self.sharded("--clip-norm", "0.3", how="zero2")
        run, world = ["--batch-size", "2", "--steps", "3"], ["--ranks", "4", "--ranks-per-node", "2"]
        self.equal(self.trained(package, self.rows, *run, *world), self.trained(package, self.rows, *run, "--accumulate", "4"), world)
        package, data = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp")
        said = "nodes        2 of 2 ranks each; gradients are added up within a node, and go from node to node\n"
        _, err = self.run(package, data, *run, *world)
        expect(said in err, err)
        # As torchrun says of two machines; where its numbers are no nodes, hosts count, of which there is one.
        for each in (2, 3):
            port = str(self.port())
            ranks = [
                self.start(package, data, *run, RANK=str(r), WORLD_SIZE="4", MASTER_ADDR="127.0.0.1", MASTER_PORT=port,
                           LOCAL_WORLD_SIZE=str(each), LOCAL_RANK=str(r % each))
                for r in range(4)
            ]  # fmt: skip
            ends = [self.ended(rank) for rank in ranks]
            expect([code for code, _ in ends] == [0] * 4 and (said in ends[0][1]) == (each == 2), ends)
        _, err = self.run(package, data, "--ranks", "3", "--ranks-per-node", "2", code=2)
        expect("--ranks-per-node 2 is no divisor of the number of ranks, 3" in err, err)
        at = f"127.0.0.1:{self.port()}"
        ranks = [
            self.start(package, data, "--coordinator", at, "--world", "2", "--rank", str(r), "--ranks-per-node", str(r + 1))
            for r in (0, 1)
        ]
        for code, err in [self.ended(rank) for rank in ranks]:
            expect(code == 2 and "rank 0 was told of nodes of 1 ranks and rank 1 of 2" in err, code, err)

    def case_a_rank_that_dies(self):
        """Ends those as well that exchange nothing with it."""
        package, data, run = self.slow()
        saved = self.path("")
        process = self.start(package, data, *run, "--ranks", "4", "--ranks-per-node", "2", "--save", saved)
        self.begun(saved)
        os.kill(self.children(process)[3], signal.SIGKILL)
        began = time.monotonic()
        code, err = self.ended(process, 20)
        expect(code == 5 and time.monotonic() - began < 8, code, err)
        expect("rank 3 on " in err and f"the last checkpoint is {saved}/step-" in err, err)

    def case_replicas(self):
        """Several of what is in shards, on any nodes."""
        run = ["--batch-size", "2", "--steps", "3"]
        for how, flags, world, groups in (
            ("zero1", ["--optimizer-state", "int8", "--clip-norm", "1"], 4, [(2, 0), (2, 2), (1, 0)]),
            ("zero2", ["--optimizer", "lamb", "--grad-norm", "--optimizer-state", "bf16"], 4, [(2, 0), (1, 2)]),
            ("zero3", ["--optimizer-state", "int8", "--clip-norm", "1"], 4, [(2, 0), (2, 2), (1, 0)]),
            ("zero3", ["--lora", "r=4,alpha=8", "--quantize", "nf4"], 6, [(3, 2)]),
        ):
            package = self.sharded(*flags, how=how)
            expected = self.trained(package, self.rows, *run, "--accumulate", world)
            for within, node in groups:
                ways = ["--emulate-world", world, "--shard-within", within, *(["--ranks-per-node", node] if node else [])]
                self.equal(self.trained(package, self.rows, *run, *ways), expected, f"{how} {ways}")
        # A rank without a batch, and others in a variant of the step.
        wide_model.widen(self.arguments.models / "gpt2.onnx", wide := self.path(".onnx"), 128, 2100)
        run = ["--batch-size", "2", "--steps", "3", "--trim"]
        package = self.trainc(wide.with_suffix(""), "--distribute", "zero3", "--clip-norm", "1")
        self.equal(self.trained(package, self.tokens, *run, "--emulate-world", "4", "--shard-within", "2"),
                   self.trained(package, self.tokens, *run, "--accumulate", "4"), "variants")  # fmt: skip

    def case_replicas_in_processes(self):
        run, world = ["--batch-size", "2", "--steps", "3"], ["--ranks", "4", "--shard-within", "2"]
        for how in ("zero1", "zero2", "zero3"):
            package = self.sharded("--clip-norm", "0.3", how=how)
            self.equal(self.trained(package, self.rows, *run, *world), self.trained(package, self.rows, *run, "--accumulate", "4"), how)
        scores = []
        for ways in (world, ["--accumulate", "4"]):
            events = self.log(package, self.rows, *run, "--eval", self.data(**wide_model.rows(10)), "--eval-every", "2", *ways)
            scores.append([e["loss"] for e in events if "loss" in e])
        expect(scores[0] == scores[1] and len(scores[0]) > 3, scores)
        exported = self.path(".safetensors")
        _, err = self.run(package, self.rows, *run, "--ranks", "2", "--shard-within", "1", "--export", exported)
        expect("replicas     2 of what is in shards, of 1 rank each\n" in err and exported.exists(), err)

    def case_replicas_in_checkpoints(self):
        """Each tensor is written once, and any number of ranks and replicas goes on."""
        for how in ("zero1", "zero3"):
            package, run, saved = self.sharded("--optimizer-state", "int8", how=how), ["--batch-size", "2", "--steps", "4"], self.path("")
            world = ["--emulate-world", "4", "--shard-within"]
            whole = self.losses(package, self.rows, *run, *world, "2", "--save", saved, "--save-every", "2")
            for ways in ([*world, "2"], [*world, "4"], [*world, "1"], ["--accumulate", "4"]):
                rest = self.losses(package, self.rows, *run, *ways, "--resume", saved / "step-2")
                expect(rest == whole[2:], how, ways, rest, whole)
            run += ["--resume", saved / "step-2"]
            expected = self.trained(package, self.rows, *run, "--accumulate", "2")
            self.equal(self.trained(package, self.rows, *run, "--emulate-world", "2", "--shard-within", "1"), expected, how)

    def case_memory_of_replicas(self):
        """What the report, and the plan of a run, say of a rank is what it holds."""
        told = {}
        for how in ("zero1", "zero3"):
            for within in (1, 2, 4):
                report = self.path(".json")
                dims = ["--dim", "batch=1..2", "--dim", "world=4", "--dim", f"shards={within}", f"--report={report}"]
                package = self.sharded("--clip-norm", "1", *dims, how=how)
                said = json.loads(report.read_text())
                expect(said["sizes"]["world"] == 4 and said["sizes"]["shards"] == within and said["time"]["world"] == 4, said["sizes"])
                told[how, within] = said["peak_bytes"]
                flags = ["--batch-size", "2", "--threads", "1", "--shard-within", within]
                events = self.log(package, self.rows, *flags, "--steps", "2", "--memory-stats", "--emulate-world", "4")
                held = max(e["peak_bytes"] for e in events if "peak_bytes" in e)
                expect(abs(told[how, within] - held) <= 0.02 * held, how, within, told, held)
                (plan,) = [e for e in self.log(package, self.rows, *flags, "--ranks", "4", "--dry-run") if e["event"] == "memory"]
                expect(abs(plan["total"] - held) <= 0.02 * held, how, within, plan, held)
            expect(told[how, 4] < told[how, 2] < told[how, 1], told)

    def case_memory_of_replicas_on_gpus(self):
        """The report tells it."""
        told = []
        for within in (1, 2, 4):
            report = self.path(".json")
            dims = ["--dim", "batch=2", "--dim", "world=4", "--dim", f"shards={within}", f"--report={report}"]
            self.sharded("--target", "cuda:sm_90", *dims, how="zero3")
            told.append(json.loads(report.read_text())["peak_bytes"])
        expect(told[0] > told[1] > told[2], told)

    def case_norms_of_shards(self):
        """What begins as norms of weights needs them whole."""
        wide_model.widen(self.arguments.models / "gpt2.onnx", wide := self.path(".onnx"), 128, 2100)
        package = self.trainc(wide.with_suffix(""), "--distribute", "zero3", "--lora", "r=2,dora,targets=all-linear")
        run = ["--batch-size", "2", "--steps", "2", "--init", "normal:0.02"]
        self.refused(["begins as the norms of 'transformer.h.0.mlp.c_fc.weight', of which each rank holds a part; compile with --distribute zero2, "
                      "or let each rank hold all (--shard-within 1)"], package, self.tokens, *run, "--emulate-world", "2")  # fmt: skip
        self.equal(self.trained(package, self.tokens, *run, "--emulate-world", "2", "--shard-within", "1"),
                   self.trained(package, self.tokens, *run, "--accumulate", "2"), "whole weights")  # fmt: skip

    def case_refused_replicas(self):
        distributed, data, sharded = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp"), self.sharded()
        for ways in (["--emulate-world", "4"], ["--ranks", "4"], ["--ranks", "4", "--dry-run"]):
            _, err = self.run(sharded, self.rows, *ways, "--shard-within", "3", code=2)
            expect("--shard-within 3 is no divisor of the number of ranks, 4" in err, err)
        self.refused(["there is nothing that only 2 of 4 ranks could share (--shard-within); compile it with --distribute zero1, zero2 or zero3"],
                     distributed, data, "--emulate-world", "4", "--shard-within", "2")  # fmt: skip
        self.refused(["--shard-within needs several ranks"], sharded, self.rows, "--shard-within", "2", code=2)
        at = f"127.0.0.1:{self.port()}"
        ranks = [
            self.start(sharded, self.rows, "--coordinator", at, "--world", "2", "--rank", str(r), "--shard-within", str(r + 1))
            for r in (0, 1)
        ]
        for code, err in [self.ended(rank) for rank in ranks]:
            expect(code == 2 and "rank 0 was told of 1 for each and rank 1 of 2 (0: all)" in err, code, err)
        for flags, words in (
            (["zero1", "--dim", "world=4", "--dim", "shards=3"], "--dim: shards=3 is no divisor of world=4"),
            (["data", "--dim", "world=4", "--dim", "shards=2"], "shards=2 is for --distribute zero1, zero2 or zero3: with data each rank has all"),
        ):
            said = self.trainc("mlp", "--distribute", *flags, code=2)
            expect(words in said, said)
        wide_model.write(named := self.path(".onnx"), batch="shards")
        said = self.trainc(named.with_suffix(""), "--distribute", "zero1", code=1)
        expect("--distribute zero1: the model has a size called 'shards', which is one of the ranks" in said, said)

    def case_refused(self):
        distributed, data = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp")
        said = "--ranks-per-node 2 is no divisor of the number of ranks, 3"
        self.refused([said], distributed, data, "--emulate-world", "3", "--ranks-per-node", "2", code=2)
        self.refused(["--ranks-per-node needs several ranks: --ranks N, --emulate-world N, --coordinator or a launcher"],
                     distributed, data, "--ranks-per-node", "2", code=2)  # fmt: skip


if __name__ == "__main__":
    run_cases(program_parser(), Cases)
