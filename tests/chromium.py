"""Debian's `chromium` without a window, for tests that look at pages: spoken to over a pipe in the
DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import os
import select
import shutil
import subprocess
from pathlib import Path
from typing import Any

IS_WANTED = "CI" not in os.environ or "FLINKNET_BROWSER" in os.environ
"""CI has other things to do with its time, unless it is told to look at pages."""

PROGRAM = shutil.which("chromium") if IS_WANTED else None

WHY_NOT = "chromium is not installed (apt-get install chromium), or CI without FLINKNET_BROWSER=1"

ANSWER_WITHIN_S = 120
_FROM_US_FD, _TO_US_FD = 3, 4

Message = dict[str, Any]


class Chromium:
    """A browser with one page open; a context manager."""

    def __init__(self, profile: Path) -> None:
        """Start it; everything it writes goes into `profile`."""
        assert PROGRAM is not None, WHY_NOT
        its_in, self._out = os.pipe()
        self._in, its_out = os.pipe()

        def place_pipes() -> None:
            # First out of the way, for one pipe's end may be where the other shall go.
            source, target = os.dup(its_in), os.dup(its_out)
            high = [os.dup2(fd, number) for fd, number in ((source, 103), (target, 104))]
            os.dup2(high[0], _FROM_US_FD)
            os.dup2(high[1], _TO_US_FD)

        self._process = subprocess.Popen(
            [
                PROGRAM,
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
                "--disable-background-networking",
                "--hide-scrollbars",
                "--force-color-profile=srgb",
                f"--user-data-dir={profile}",
                "--remote-debugging-pipe",
                "about:blank",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=place_pipes,
            env={**os.environ, "HOME": str(profile)},
        )
        os.close(its_in)
        os.close(its_out)
        self._rest = b""
        self._numbers = itertools.count(1)
        self._session: str | None = None
        self.complaints: list[str] = []
        self._requests: list[str] = []
        self._loaded = False

    def __enter__(self) -> Chromium:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, **params: Any) -> Message:
        """Call a method of the protocol and wait for its result."""
        number = next(self._numbers)
        message: Message = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, (method, answer["error"])
                result: Message = answer["result"]
                return result

    def open(
        self, path: Path, width: int, height: int = 900, *, scheme: str = "light", media: str = ""
    ) -> None:
        """Open a file as on a screen of that width, with a preferred colour scheme."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=features)
        self._loaded = False
        self.call("Page.navigate", url=path.absolute().as_uri())
        while not self._loaded:
            self._next()
        self.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")

    @property
    def requested(self) -> list[str]:
        """What the page asked for beside itself."""
        return [url for url in self._requests if not url.startswith(("file:", "data:"))]

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript, awaited; an exception fails."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def mouse(self, kind: str, x: float, y: float, clicks: int = 0) -> None:
        """Move, press or release the mouse, on what is drawn by now: until then an element that has
        moved is where it was.
        """
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        button = "none" if kind == "mouseMoved" else "left"
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=clicks)

    def key(self, key: str, text: str = "") -> None:
        """Press a key and let it go."""
        down = "keyDown" if text else "rawKeyDown"
        codes = {"Tab": 9, "ArrowRight": 39, "ArrowLeft": 37}
        common = {"key": key, "code": key, "windowsVirtualKeyCode": codes.get(key, 0)}
        self.call("Input.dispatchKeyEvent", type=down, **common, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    def picture(self, path: Path) -> Path:
        """Write the whole page as a PNG."""
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        path.write_bytes(base64.b64decode(shot["data"]))
        return path

    def _next(self) -> Message:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._in], [], [], ANSWER_WITHIN_S)
            assert ready, "chromium does not answer"
            data = os.read(self._in, 1 << 20)
            assert data, "chromium ended"
            self._rest += data
        line, self._rest = self._rest.split(b"\0", 1)
        message: Message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: Message) -> None:
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self._requests.append(params["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.complaints.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.complaints.append(json.dumps(params["args"]))
