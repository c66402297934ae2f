# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What training loops of the tests keep of a run."""

import trainc


class Record(trainc.Callback):
    def __init__(self):
        self.losses, self.evals = [], []

    def on_step(self, state):
        self.losses.append(state.loss)

    def on_eval(self, state):
        self.evals.append(state.eval_loss)
