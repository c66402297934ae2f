# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks of several machines, for which neighbours of one stand: W of them make the steps of one process with --accumulate W.

  rank_nodes.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE / "Inputs"))
from cases import expect, run_cases  # noqa: E402
from ranks import Processes  # noqa: E402


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
        _, err = self.run(package, data, "--ranks", "3", "--ranks-per-node", "2", code=4)
        expect("3 ranks are no nodes of 2 each" in err, err)
        at = f"127.0.0.1:{self.port()}"
        ranks = [
            self.start(package, data, "--coordinator", at, "--world", "2", "--rank", str(r), "--ranks-per-node", str(r + 1))
            for r in (0, 1)
        ]
        for code, err in [self.ended(rank) for rank in ranks]:
            expect(code == 4 and "rank 0 was told of nodes of 1 ranks and rank 1 of 2" in err, code, err)

    def case_refused(self):
        distributed, data = self.trainc("mlp", "--distribute", "data"), self.model_data("mlp")
        self.refused(["3 ranks are no nodes of 2 each"], distributed, data, "--emulate-world", "3", "--ranks-per-node", "2", code=4)
        self.refused(["--ranks-per-node needs several ranks: --ranks N, --emulate-world N, --coordinator or a launcher"],
                     distributed, data, "--ranks-per-node", "2", code=2)  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--trainc", required=True)
    parser.add_argument("--trainc-run", required=True)
    parser.add_argument("--models", required=True, type=pathlib.Path)
    parser.add_argument("folder", type=pathlib.Path)
    run_cases(parser, Cases)
