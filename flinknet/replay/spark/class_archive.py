"""Spark's classes as the JVM has them in memory once they are loaded (class data sharing): from an
archive a JVM maps them, and spends half of the CPU time that it otherwise takes to start a session.

An archive is of one Java and one Spark. Making it takes half a minute of CPU time and 170 MB in the
user's cache directory. That is done when it is asked for (`flinknet doctor --start-spark`), and
once behind the first replay on a terminal: by a process that gets a processor only when nobody else
wants it, so that a bench that follows is not disturbed. The JVM itself sees that an archive fits
its jars, and ignores it if it does not.
"""

from __future__ import annotations

import datetime
import hashlib
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flinknet.errors import FlinknetError

from .java import JavaRuntime

_SILENT = "-Xlog:disable"  # an archive that does not fit is reported to stdout otherwise

_DUMP_WAIT_S = 600.0

_RETRY_S = 24 * 3600.0
"""After which a try that came to nothing, as when the machine was turned off, is made again."""

VARIABLE = "FLINKNET_CLASS_ARCHIVE"
"""Of the environment; `off` keeps archives from being made unasked."""


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of a Java and a Spark, made already or not.

    Attributes:
        directory: of the launcher of this Java; it is written to.
        path: of the archive.
    """

    directory: Path
    path: Path

    @classmethod
    def of(cls, java: JavaRuntime, launcher: Path, spark_home: Path) -> ClassArchive:
        """That of a Java with the jars of a Spark."""
        text = f"{java.home} {java.version} {spark_home}"
        name = f"spark-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsa"
        return cls(launcher, launcher / name)

    @property
    def is_made(self) -> bool:
        return self.path.exists()

    @property
    def empty_directory(self) -> Path:
        """For a class path that is the same each time: no archive has a directory with files."""
        return self.directory / "no-configuration"

    def java_options(self, record: Path | None = None) -> list[str]:
        """What a JVM is started with.

        Args:
            record: file that takes the names of the classes that are loaded, for `make`; the
                archive is not used then.
        """
        if record is not None:
            return [f"-XX:DumpLoadedClassList={record}"]
        return [f"-XX:SharedArchiveFile={self.path}", _SILENT] if self.is_made else []

    def is_wanted(self, environ: Mapping[str, str] = os.environ) -> bool:
        """Whether nobody has made it, or tried to in the last day, so that it is worth a try; this
        is the try, also if two processes ask at the same time.
        """
        if self.is_made or environ.get(VARIABLE) == "off":
            return False
        tried = self.path.with_suffix(".tried")
        now_s = datetime.datetime.now(datetime.UTC).timestamp()
        try:
            if tried.exists() and now_s - tried.stat().st_mtime > _RETRY_S:
                tried.unlink()
            tried.touch(exist_ok=False)
        except OSError:
            return False
        return True

    def make(self, java: JavaRuntime, record: Path, class_path: str) -> None:
        """Write it; a JVM that starts meanwhile finds the old one or none.

        Args:
            class_path: of the JVM that has written `record`.

        Raises: FlinknetError if Java does not, OSError if the cache cannot be written to.
        """
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        command = [
            *(str(java.executable), "-Xshare:dump", _SILENT, "-cp", class_path),
            *(f"-XX:SharedClassListFile={record}", f"-XX:SharedArchiveFile={draft}"),
        ]
        self.empty_directory.mkdir(exist_ok=True)
        try:
            _run(command)
            draft.replace(self.path)
        finally:
            draft.unlink(missing_ok=True)


def start_unnoticed(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a process that outlives this one, says nothing, and runs when nothing else does."""
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=dict(environ),
        start_new_session=True,
        preexec_fn=_run_when_idle,
    )


def _run_when_idle() -> None:
    os.nice(19)
    with suppress(OSError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))


def _run(command: Sequence[str]) -> None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            check=False,
            timeout=_DUMP_WAIT_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise FlinknetError(f"Java has not made an archive in {_DUMP_WAIT_S:.0f} s") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines() or ["it does not say why"]
        raise FlinknetError(f"Java does not make an archive of Spark's classes: {said[-1]}")
