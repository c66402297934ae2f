#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""remarks.py JSON TEXT: every line of --remarks is an object with the fields that
docs/inspection.md names, and --explain=all says as many things of the same passes."""

import collections
import json
import sys

REQUIRED = {"pass", "kind", "name", "nodes"}
OPTIONAL = {"function", "message", "reason", "suggestion", "metrics"}


def main():
    passes = collections.Counter()
    for line in open(sys.argv[1]):
        remark = json.loads(line)
        assert REQUIRED <= remark.keys() <= REQUIRED | OPTIONAL, remark
        assert remark["kind"] in ("passed", "missed", "failure", "analysis"), remark
        assert remark["nodes"] and all(isinstance(n, str) for n in remark["nodes"]), remark
        assert "message" in remark or "reason" in remark, remark
        passes[remark["pass"]] += 1
    said = collections.Counter(
        line.split(":")[0] for line in open(sys.argv[2]) if line.split(":")[0] in passes
    )
    assert len(passes) >= 3, passes
    assert said == passes, (said, passes)


if __name__ == "__main__":
    main()
