#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""lsp.py SERVER: speaks JSON-RPC with the language server as an editor does.

Opens a file of each dialect; one has an error, which must come back as a diagnostic at its place;
hovering over an op must tell what it is; the definition of a value must be found."""

import json
import subprocess
import sys

TRAIN = """\
module {
  func.func @forward(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = train.exp %x : tensor<4x8xf32>
    %1 = train.mul %0, %0 : tensor<4x8xf32>
    return %1 : tensor<4x8xf32>
  }
}
"""
#: A verifier's message, at the op.
WRONG = TRAIN.replace("%1 = train.mul", "%1 = train.matmul").replace(
    "%0, %0 : tensor<4x8xf32>", "%0, %0 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>"
)
#: A kernel: the dialects of --save-kernels are known.
KERNEL = """\
llvm.func @kernel(%p: !llvm.ptr) {
  %c = arith.constant 0 : index
  scf.for %i = %c to %c step %c {
  }
  llvm.return
}
"""


class Server:
    def __init__(self, command):
        self.process = subprocess.Popen(
            [command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.number = 0
        self.notes = []

    def send(self, message):
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def receive(self):
        length = 0
        while True:
            line = self.process.stdout.readline()
            if not line:
                raise SystemExit("the server has ended")
            line = line.strip()
            if not line:
                return json.loads(self.process.stdout.read(length))
            key, _, value = line.partition(b":")
            if key.lower() == b"content-length":
                length = int(value)

    def request(self, method, params):
        self.number += 1
        self.send({"id": self.number, "method": method, "params": params})
        while True:
            message = self.receive()
            if message.get("id") == self.number and "method" not in message:
                assert "error" not in message, message
                return message["result"]
            self.notes.append(message)

    def notify(self, method, params):
        self.send({"method": method, "params": params})

    def open(self, uri, text):
        """Opens a document; its diagnostics."""
        document = {"uri": uri, "languageId": "mlir", "version": 1, "text": text}
        self.notify("textDocument/didOpen", {"textDocument": document})
        while True:
            message = self.notes.pop(0) if self.notes else self.receive()
            if message.get("method") == "textDocument/publishDiagnostics":
                if message["params"]["uri"] == uri:
                    return message["params"]["diagnostics"]


def position(text, word):
    line = next(i for i, l in enumerate(text.split("\n")) if word in l)
    return {"line": line, "character": text.split("\n")[line].index(word) + 1}


def main():
    server = Server(sys.argv[1])
    capabilities = server.request("initialize", {"processId": None, "rootUri": None, "capabilities": {}})
    assert capabilities["capabilities"]["hoverProvider"], capabilities
    server.notify("initialized", {})

    found = server.open("file:///good.mlir", TRAIN)
    assert found == [], found
    found = server.open("file:///kernel.mlir", KERNEL)
    assert found == [], found

    found = server.open("file:///wrong.mlir", WRONG)
    assert len(found) == 1, found
    assert found[0]["range"]["start"]["line"] == 3, found
    assert found[0]["severity"] == 1, found
    assert "train.matmul" in found[0]["message"], found

    document = {"uri": "file:///good.mlir"}
    hover = server.request(
        "textDocument/hover", {"textDocument": document, "position": position(TRAIN, "train.exp")}
    )
    text = hover["contents"]["value"]
    assert "train.exp" in text and "tensor<4x8xf32>" in text, text

    definition = server.request(
        "textDocument/definition",
        {"textDocument": document, "position": position(TRAIN, "%0, %0")},
    )
    assert definition[0]["range"]["start"]["line"] == 2, definition

    server.request("shutdown", None)
    server.notify("exit", None)
    assert server.process.wait(timeout=60) == 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
