# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Ranks that a launcher starts: the variables that torchrun, mpirun and srun set for two processes, and mpirun itself. They share out
a model (zero3) and have the bits of one process.

  rank_launchers.py --trainc TRAINC --trainc-run TRAINC_RUN --models test/e2e/models DIR [--mpirun]
"""

import os
import pathlib
import socket
import subprocess

from ranks import Processes, expect, program_parser, run_cases

RUN = "--batch-size", "3", "--steps", "2"


def torchrun(rank, port):
    """With the agent's store, which listens at MASTER_PORT."""
    return dict(
        RANK=rank, LOCAL_RANK=rank, GROUP_RANK="0", ROLE_RANK=rank, ROLE_NAME="default", WORLD_SIZE="2", LOCAL_WORLD_SIZE="2", GROUP_WORLD_SIZE="1",
        ROLE_WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port, TORCHELASTIC_RUN_ID="none", TORCHELASTIC_RESTART_COUNT="0",
        TORCHELASTIC_MAX_RESTARTS="0", TORCHELASTIC_USE_AGENT_STORE="True", OMP_NUM_THREADS="1",
    )  # fmt: skip


def mpirun(rank, port):
    """As Open MPI 4.1 has them."""
    return dict(
        OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE="2", OMPI_COMM_WORLD_LOCAL_RANK=rank, OMPI_COMM_WORLD_LOCAL_SIZE="2", OMPI_COMM_WORLD_NODE_RANK=rank,
        OMPI_UNIVERSE_SIZE="2", PMIX_RANK=rank, PMIX_NAMESPACE=f"job{port}", OMPI_MCA_ess_base_jobid=port,
    )  # fmt: skip


def srun(rank, port):
    return dict(
        SLURM_PROCID=rank, SLURM_LOCALID=rank, SLURM_NODEID="0", SLURM_NTASKS="2", SLURM_NPROCS="2", SLURM_NNODES="1", SLURM_TASKS_PER_NODE="2",
        SLURM_STEP_NUM_TASKS="2", SLURM_STEP_NODELIST="localhost", SLURM_JOB_NODELIST="localhost", SLURM_JOB_ID=port, SLURM_STEP_ID="0",
    )  # fmt: skip


class Launched(Processes):
    def saved(self, folder):
        (step,) = folder.glob("step-*")
        return {p.name: p.read_bytes() for p in sorted(step.glob("*.safetensors"))}

    def expected(self, package):
        return self.trained(package, self.rows, *RUN, "--accumulate", "2")[1]


class Cases(Launched):
    def case_launchers(self):
        package = self.sharded(how="zero3")
        expected = self.expected(package)
        for name, variables in (("torchrun", torchrun), ("mpirun (Open MPI)", mpirun), ("srun (Slurm)", srun)):
            saved = self.path("")
            with socket.socket() as store:
                store.bind(("127.0.0.1", 0))
                store.listen()
                port = str(store.getsockname()[1])
                ranks = [self.start(package, self.rows, *RUN, "--save", saved, **variables(str(rank), port)) for rank in (1, 0)]
                ends = [self.ended(rank) for rank in ranks]
            expect([code for code, _ in ends] == [0, 0], name, ends)
            expect(f"ranks        2, by {name}; rank 0 is at " in ends[1][1] and not ends[0][1], name, ends)
            expect(self.saved(saved) == expected, name, "has other bits")

    def case_torchrun_starts_again(self):
        """All of its ranks, by the same command: they go on from the last checkpoint, where there is one."""
        package, saved = self.sharded(how="zero1"), self.path("")
        whole = self.trained(package, self.rows, "--batch-size", "3", "--steps", "4", "--accumulate", "2")[1]
        for restarts, steps, words in (("1", "2", None), ("2", "4", f"torchrun has begun the run again (restart 2); it goes on from the last checkpoint in {saved}\n")):
            port, run = str(self.port()), ["--batch-size", "3", "--steps", steps, "--save", saved]
            environment = [torchrun(str(rank), port) | dict(TORCHELASTIC_RESTART_COUNT=restarts) for rank in (0, 1)]
            ends = [self.ended(rank) for rank in [self.start(package, self.rows, *run, **variables) for variables in environment]]
            expect([code for code, _ in ends] == [0, 0] and not ends[1][1], ends)
            expect(words in ends[0][1] if words else "begun the run again" not in ends[0][1], ends)
        expect({p.name: p.read_bytes() for p in (saved / "step-4").glob("*.safetensors")} == whole, "other bits behind a restart")

    def case_launchers_within_others(self):
        """torchrun within a step of Slurm, whose variables are there, too; and a batch script outside of any step."""
        package = self.sharded(how="zero3")
        slurm = dict(SLURM_PROCID="0", SLURM_NTASKS="8", SLURM_JOB_ID=str(self.port()))
        port = str(self.port())
        inner = [slurm | dict(SLURM_STEP_NUM_TASKS="1") | torchrun(str(rank), port) for rank in (0, 1)]
        ends = [self.ended(rank) for rank in [self.start(package, self.rows, *RUN, **variables) for variables in inner]]
        expect([code for code, _ in ends] == [0, 0] and "2, by torchrun" in ends[0][1], ends)
        expect(f"threads      {max(1, len(os.sched_getaffinity(0)) // 2)}\n" in ends[0][1], ends)
        code, err = self.ended(self.start(package, self.rows, *RUN, **slurm))
        expect(code == 0 and "ranks  " not in err, code, err)
        at = f"127.0.0.1:{self.port()}"
        ranks = [self.start(package, self.rows, *RUN, "--coordinator", at, "--world", "2", "--rank", str(r)) for r in (0, 1)]
        ends = [self.ended(rank) for rank in ranks]
        expect([code for code, _ in ends] == [0, 0] and "by the command line" in ends[0][1], ends)


class MpirunCases(Launched):
    #: A test may be root, and a machine have fewer cores than ranks.
    COMMAND = "mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"

    def case_mpirun(self):
        package, saved = self.sharded(how="zero3"), self.path("")
        command = [*self.COMMAND, self.arguments.trainc_run, package, "--data", self.rows, *RUN, "--save", saved]
        started = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        code, err = self.ended(started)
        expect(code == 0 and err.count("ranks        2, by mpirun (Open MPI); rank 0 is at 127.0.0.1:") == 1, code, err)
        expect(self.saved(saved) == self.expected(package), "mpirun has other bits")


if __name__ == "__main__":
    parser = program_parser()
    parser.add_argument("--mpirun", action="store_true", help="the cases that Open MPI starts")
    run_cases(parser, lambda arguments: (MpirunCases if arguments.mpirun else Cases)(arguments))
