"""Where Flink's jars are: `FLINK_HOME`, or a folder of this project that `make flink` fills.

The jars come from the PyPI package `apache-flink-libraries`, which holds what a Flink distribution
has under `lib/`. Nothing else of the package is used, and a JDK runs them.

    python bench/flink/distribution.py 2.3.0 [WHEEL]    install a release, unless it is there
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

VERSION = "2.3.0"
"""The release whose network protocol flinknet speaks."""

_PROJECT = Path(__file__).parents[2]
_PACKAGE = "apache-flink-libraries"

_LOG4J = """\
rootLogger.level = {level}
rootLogger.appenderRef.file.ref = out
appender.out.name = out
appender.out.type = CONSOLE
appender.out.target = SYSTEM_OUT
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{{HH:mm:ss.SSS}} %-5p %c{{1}} - %m%n%throwable
"""


def flink_home(version: str = VERSION) -> Path | None:
    """The folder with `lib/*.jar` of this release, or None if it is nowhere.

    `FLINK_HOME` goes first, if it holds this release.
    """
    places = [_PROJECT / ".flink" / version / "pyflink"]
    if "FLINK_HOME" in os.environ:
        places.insert(0, Path(os.environ["FLINK_HOME"]))
    for place in places:
        if (place / "lib" / f"flink-dist-{version}.jar").is_file():
            return place
    return None


def install(version: str = VERSION, wheel: Path | None = None) -> Path:
    """Put the jars of a release into the project's folder, unless they can be found already.

    Args:
        version: of Flink.
        wheel: a file of the package that has been downloaded before.

    Returns: its home.
    """
    if (home := flink_home(version)) is not None:
        return home
    target = _PROJECT / ".flink" / version
    pip = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    # Its dependencies are those of PyFlink: none is needed to run Java.
    what = str(wheel) if wheel else f"{_PACKAGE}=={version}"
    subprocess.run([*pip, "--no-deps", "--target", str(target), what], check=True)
    home = flink_home(version)
    if home is None:
        raise SystemExit(f"{what} holds no lib/flink-dist-{version}.jar")
    return home


def class_path(home: Path, *more: Path) -> str:
    """All jars of a distribution, as `java -cp` and `javac -cp` take it, behind your own folders.

    The jars are named one by one: a wildcard would leave their order to the file system.
    """
    return os.pathsep.join(map(str, [*more, *sorted((home / "lib").glob("*.jar"))]))


def java(program: str = "java") -> str | None:
    """The JDK's `java` or `javac`: of `JAVA_HOME`, else of the path; None if there is none."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / program).is_file():
        return str(Path(home) / "bin" / program)
    return shutil.which(program)


def write_log4j(folder: Path, level: str = "INFO") -> Path:
    """Write a `log4j.properties` that prints to standard output.

    Returns: the file, for `-Dlog4j.configurationFile=`.
    """
    file = folder / "log4j.properties"
    file.write_text(_LOG4J.format(level=level))
    return file


if __name__ == "__main__":
    version, wheel, *_ = [*sys.argv[1:], None, None]
    print(install(version or VERSION, Path(wheel) if wheel else None))
