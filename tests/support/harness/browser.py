"""A headless browser, controlled over pipes by the part of the DevTools protocol that the tests of a page need."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import contextmanager

import pytest

REQUIRED = "DELTAMARK_BROWSER_REQUIRED"
"""The environment variable that makes tests fail without a browser, instead of skipping them."""

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
WORDS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe",
)  # fmt: skip


CODES = {"Tab": 9, "Enter": 13, "ArrowDown": 40}
"""The codes of keys that the browser itself acts on."""


class Page:
    def __init__(self, reading, writing):
        self._reading, self._writing = reading, writing
        self._held, self._last = b"", 0
        self.events = []
        target = self._call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._session = self._call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method, **parameters):
        return self._call(method, parameters, {"sessionId": self._session})

    def open(self, url):
        before = len(self.events)
        self.call("Page.navigate", url=url)
        while not any(event["method"] == "Page.loadEventFired" for event in self.events[before:]):
            self._take()

    def run(self, script):
        """Return the value of a script."""
        reply = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in reply:
            raise AssertionError(reply["exceptionDetails"])
        return reply["result"].get("value")

    def press(self, key):
        more = {"windowsVirtualKeyCode": CODES[key], "code": key} if key in CODES else {}
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if (kind, key) == ("keyDown", "Enter") else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, **more, **text)

    def click(self, x, y):
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screen(self, width, height, scheme="light"):
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    @property
    def complaints(self):
        """The errors of the page: exceptions, and errors on the console."""
        return [
            event
            for event in self.events
            if event["method"] == "Runtime.exceptionThrown"
            or (event["method"] == "Log.entryAdded" and event["params"]["entry"]["level"] in ("error", "warning"))
            or (event["method"] == "Runtime.consoleAPICalled" and event["params"]["type"] in ("error", "warning"))
        ]

    @property
    def loaded(self):
        """The addresses that the page has requested."""
        requests = [event["params"] for event in self.events if event["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in requests]

    def _call(self, method, parameters, more=()):
        self._last += 1
        message = {"id": self._last, "method": method, "params": parameters, **dict(more)}
        os.write(self._writing, json.dumps(message).encode() + b"\0")
        while True:
            message = self._take()
            if message.get("id") == self._last:
                assert "error" not in message, message
                return message["result"]

    def _take(self):
        while b"\0" not in self._held:
            piece = os.read(self._reading, 1 << 20)
            assert piece, "the browser has ended"
            self._held += piece
        line, self._held = self._held.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message


@contextmanager
def opened(profile):
    """Start a browser, which reads commands from descriptor 3 and answers on descriptor 4; skip tests without one."""
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        missing = f"no browser is installed: none of {', '.join(NAMES)}"
        assert not os.environ.get(REQUIRED), missing
        pytest.skip(missing)
    (theirs_in, ours_out), (ours_in, theirs_out) = os.pipe(), os.pipe()
    process = subprocess.Popen(
        ["bash", "-c", f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}', program, *WORDS, f"--user-data-dir={profile}"],
        pass_fds=(theirs_in, theirs_out), stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    os.close(theirs_in)
    os.close(theirs_out)
    try:
        page = Page(ours_in, ours_out)
        yield page
        page._call("Browser.close", {})
    finally:
        os.close(ours_out)
        os.close(ours_in)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
