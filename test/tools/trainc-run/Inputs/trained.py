# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Compiling test models and running trainc-run on them, for tests of cases."""

import json
import subprocess

import numpy as np

from cases import Failed, expect


class Trained:
    def __init__(self, arguments):
        self.arguments = arguments
        self.root = arguments.folder
        self.root.mkdir(parents=True)
        self.serial = 0
        self.packages = {}

    def path(self, ending):
        self.serial += 1
        return self.root / f"{self.serial}{ending}"

    def trainc(self, model, *flags, code=0):
        """The package, or what is said where it fails."""
        key = (model, flags)
        if key not in self.packages or code:
            package = self.path(".tpk")
            command = [self.arguments.trainc, self.arguments.models / f"{model}.onnx", "-o", package]
            command += ["--target", "cpu:x86-64-v3", "--log-level", "error", *flags]
            done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
            if done.returncode != code:
                raise Failed(f"{command}: exit {done.returncode}, not {code}:\n{done.stderr}")
            if code:
                return done.stderr
            self.packages[key] = package
        return self.packages[key]

    def data(self, **arrays):
        path = self.path(".npz")
        np.savez(path, **arrays)
        return path

    def call(self, *arguments, code=0):
        """(standard output, standard error)"""
        command = [str(c) for c in (self.arguments.trainc_run, *arguments)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != code:
            raise Failed(f"{command}: exit {done.returncode}, not {code}:\n{done.stderr}")
        return done.stdout, done.stderr

    def run(self, package, data, *flags, code=0):
        return self.call(package, "--data", data, *flags, code=code)

    def log(self, package, data, *flags):
        return self.without_data(package, "--data", data, *flags)

    def without_data(self, package, *flags):
        out, _ = self.call(package, "--log-format", "json", "--log-level", "error", *flags)
        return [json.loads(line) for line in out.splitlines()]

    def losses(self, *run):
        return [e["loss"] for e in self.log(*run) if "event" not in e]

    def refused(self, words, package, data, *flags, code=1):
        _, err = self.run(package, data, *flags, code=code)
        for word in words:
            expect(word in err, f"'{word}' is not in:", err)

    def close(self, found, expected, tolerance=2e-5):
        expect(len(found) == len(expected), f"{len(found)} steps, not {len(expected)}")
        for step, (a, b) in enumerate(zip(found, expected), 1):
            expect(abs(a - b) <= tolerance * abs(b), f"step {step}: loss {a}, expected {b}")
