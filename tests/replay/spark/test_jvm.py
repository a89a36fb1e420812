"""What becomes of the JVM of a session, and who says so."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from flinknet.errors import FlinknetError
from flinknet.replay.spark.jvm import _Ending, loading_jvm

REFUSED = "raise ConnectionRefusedError(111, 'Connection refused')"


def test_what_py4j_reports_of_a_broken_call_is_ours_to_say(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def report() -> None:
        for error in (Py4JNetworkError("the JVM is gone"), ValueError("something else")):
            try:
                raise error
            except Exception:
                logging.exception("an exception")
        logging.error("no exception")

    with _Ending():
        report()
    report()  # by a thread of py4j that is later than the end
    told = ["something else", "None"]
    assert [str(each.exc_info and each.exc_info[1]) for each in caplog.records] == 2 * told


@pytest.mark.parametrize(
    ("jvm", "module", "kind", "text"),
    [
        ("exit 3", "py4j.java_gateway", FlinknetError, "its JVM ended with exit code 3"),
        ("exec cat > cat", "pyarrow.fs", ConnectionRefusedError, "Connection refused"),
    ],
)
def test_a_jvm_that_ends_between_two_calls_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    jvm: str,
    module: str,
    kind: type[Exception],
    text: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    launcher = tmp_path / "bin" / "spark-submit"
    launcher.parent.mkdir()
    launcher.write_text(f"#!/bin/sh\n{jvm}\n")
    launcher.chmod(0o755)
    (tmp_path / "gateway").write_bytes((1).to_bytes(4, "big") + b"\0\0\0\1x")  # nobody is there
    environment = {"SPARK_HOME": str(tmp_path), "PYSPARK_SUBMIT_ARGS": "pyspark-shell"}

    def call() -> None:
        with loading_jvm(environment, tmp_path / "stderr") as context:
            with suppress(FlinknetError):
                context()
            exec(REFUSED, {"__name__": module})

    with pytest.raises(kind, match=text):
        call()


def test_a_signal_where_python_goes_on_after_an_error_is_not_reported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As within a fork, or while an object is deleted: the end of the JVM is noticed later."""

    class Deleted:
        def __del__(self) -> None:
            signal.raise_signal(signal.SIGINT)

    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    process = subprocess.Popen(["sleep", "60"])
    with _Ending() as ending:
        ending.takes(process)
        Deleted()
        assert isinstance(ending.raised, KeyboardInterrupt)
    assert process.wait() != 0
    assert reported == []
    assert sys.unraisablehook == reported.append
