# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A real browser for tests of pages: Chromium without a window, told what to do over a pipe (the DevTools protocol)."""

import json
import os
import subprocess
import tempfile
import time


class Browser:
    """`with Browser("chromium-headless-shell") as browser: browser.open(path); browser.ask("document.title")`"""

    def __init__(self, program):
        self._profile = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def three_and_four():
            # Duplicates first: a pipe's end may have the number 3 or 4 itself.
            read, write = os.dup(to_read), os.dup(to_write)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self._process = subprocess.Popen(
            [program, "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--window-size=1400,900", f"--user-data-dir={self._profile.name}", "about:blank"],
            preexec_fn=three_and_four, close_fds=False, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._number, self._rest, self._session, self.events = 0, b"", None, []
        target = self._send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self._send(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._process.kill()
        self._process.wait()
        os.close(self._to)
        os.close(self._from)
        self._profile.cleanup()

    def _receive(self):
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._rest += more
        text, _, self._rest = self._rest.partition(b"\0")
        return json.loads(text)

    def _send(self, method, **parameters):
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer)
                return answer["result"]
            self.events.append(answer)

    def open(self, path):
        """Seconds until the page has drawn itself."""
        began = time.monotonic()
        self._send("Page.navigate", url=f"file://{path}")
        while self.ask("document.documentElement?.dataset.ready") != "yes":
            assert time.monotonic() - began < 60, self.problems()
            time.sleep(0.01)
        self.ask("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")
        return time.monotonic() - began

    def ask(self, expression):
        """The value of an expression of JavaScript, behind what it promises."""
        result = self._send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, (expression, result["exceptionDetails"])
        return result["result"].get("value")

    def until(self, expression):
        """Waits until it is true."""
        began = time.monotonic()
        while not self.ask(f"!!({expression})"):
            assert time.monotonic() - began < 60, (expression, self.ask("document.body.innerText"))
            time.sleep(0.02)

    def click(self, selector):
        """The first one that is there."""
        assert self.ask(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e && e.click(); return !!e; }})()"), selector

    def problems(self):
        """Exceptions and messages of the page, and what it has asked the network for."""
        return [event for event in self.events if event["method"] in ("Runtime.exceptionThrown", "Log.entryAdded")] + [
            event["params"]["request"]["url"] for event in self.events
            if event["method"] == "Network.requestWillBeSent" and not event["params"]["request"]["url"].startswith("file://")
        ]  # fmt: skip
