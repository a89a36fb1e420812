"""Settings of Spark: our defaults, and those of the platform and the user; addresses of masters and
of servers of Spark Connect.

Later ones win: defaults of flinknet; spark-defaults.conf of the platform, or the file of
`--properties-file` in its place, as with spark-submit; `--spark-conf`; the other options. The
platform's configuration is in SPARK_CONF_DIR, or in `conf` of SPARK_HOME.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from flinknet.errors import ConfigError, FlinknetError
from flinknet.loopback import LOOPBACK_6, loopback

SHIP_NOTHING, SHIP_CODE = "none", "code"
"""Code that executors get from here: none, or flinknet's."""

WORK_UNITS_MAX = 1_000
"""Most partitions of a table made by the driver: up to this number, each row is a work unit."""

LOG_CONFIGURATION = "log4j2.properties"
OF_QUERIES = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # 10,000 rows of parts of tables would be gigabytes; Spark 3.5 does not know it
    "spark.sql.execution.arrow.maxBytesPerBatch": str(8 << 20),
    "spark.sql.leafNodeDefaultParallelism": str(WORK_UNITS_MAX),
    "spark.sql.shuffle.partitions": "64",  # small ones are joined, large ones split
}
"""Defaults that a session can have while other sessions of the same Spark have others."""

OF_SESSIONS = OF_QUERIES | {
    "spark.app.name": "flinknet trace replay",
    "spark.log.level": "OFF",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
}
OF_REPLAYS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Defaults of the session of a replay, whose queries have a few rows for each unit and fixed
numbers of partitions: compiling them, and planning them again after each shuffle, takes Spark
longer than computing them."""

TOLD_TO_EXECUTORS = (
    *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"),
    *("AZURE_TENANT_ID", "GOOGLE_CLOUD_PROJECT"),
)
"""Environment variables about storage that executors on other machines need, too. None is a secret:
the platform distributes credentials."""

LOCAL_MASTER = "local[*]"

CONNECT_SCHEME, CONNECT_PORT = "sc://", 15002

_SCHEME = "spark://"

_ANSWER_WAIT_S = 5.0

_PROPERTY = re.compile(r"((?:\\.|[^\s=:\\])+)\s*[=:\s]?\s*(.*)", re.DOTALL)


def is_local(master: str) -> bool:
    return master.startswith("local")


def is_here(master: str) -> bool:
    return is_local(master) or re.match(r"spark://(127\.|localhost:|\[::1\])", master) is not None


def check_master(master: str) -> None:
    """Check that a host of a spark:// URL takes connections; other masters are not checked. Of
    several hosts all but one are on standby. Raises: ConfigError if the URL names no host and port;
    FlinknetError if none of them answers."""
    if master.startswith(CONNECT_SCHEME):
        raise ConfigError(f"--master: a server of Spark Connect is given by --remote {master}")
    if master.startswith(_SCHEME):
        hosts = master.removeprefix(_SCHEME).split(",")
        found = [_address(f"{_SCHEME}{each}") for each in hosts]
        addresses = [each for each in found if each is not None]
        if len(addresses) < len(found):
            raise ConfigError(f"--master: {master!r} is not a master; write spark://HOST:PORT")
        _check_any_answers("Spark master", _SCHEME, addresses, "--master")


def connect_address(remote: str) -> tuple[str, int]:
    """Host and port of sc://HOST[:PORT][/;PARAMETERS], of which a token is not repeated."""
    found = _address(remote, CONNECT_PORT)
    if found is None or not remote.startswith(CONNECT_SCHEME):
        raise ConfigError("--remote: this is not a Spark Connect server; write sc://HOST:PORT")
    return found


def _address(url: str, default_port: int = 0) -> tuple[str, int] | None:
    """Host and port; None without them, and for names of users."""
    with suppress(ValueError):  # of the port
        found = urlsplit(url)
        port = default_port if found.port is None else found.port
        if found.hostname and port and found.username is None:
            return found.hostname, port
    return None


def _check_any_answers(
    what: str, scheme: str, addresses: Iterable[tuple[str, int]], option: str
) -> None:
    silent = []
    for host, port in addresses:
        try:
            socket.create_connection((host, port), _ANSWER_WAIT_S).close()
            return
        except (OSError, UnicodeError) as error:  # the latter for impossible names of hosts
            why = getattr(error, "strerror", None) or error
            silent.append(f"{scheme}{host}:{port} ({why})")
    raise FlinknetError(
        f"no {what} answers at {', '.join(silent)}; see that it runs there, or give another"
        f" {option}"
    )


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Options for Spark."""

    master: str | None = None  # None for that of the platform, or else all cores of this machine
    remote: str | None = None  # server of Spark Connect, sc://HOST:PORT; excludes a master
    conf: Mapping[str, str] = field(default_factory=dict)
    properties_file: Path | None = None  # in the format of spark-defaults.conf, which it replaces
    ship: str = SHIP_NOTHING  # or SHIP_CODE
    defaults: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Check the options. Raises: ConfigError; FlinknetError if the master does not answer."""
        if self.remote is not None:
            belongs = {"--master": self.master, "--properties-file": self.properties_file}
            for option, value in belongs.items():
                if value is not None:
                    raise ConfigError(
                        f"{option}: cannot be used with --remote, whose Spark runs already"
                    )
            # the client of Spark Connect tries for minutes
            address = connect_address(self.remote)
            _check_any_answers("Spark Connect server", CONNECT_SCHEME, [address], "--remote")
        if self.master is not None:
            check_master(self.master)


def parse_conf(text: str) -> tuple[str, str]:
    """KEY=VALUE of --spark-conf. Raises: ConfigError."""
    key, equals, value = text.partition("=")
    if not equals or not key.strip().startswith("spark."):
        raise ConfigError(
            f"--spark-conf: {key!r} is not spark.KEY=VALUE, such as spark.executor.memory=4g"
        )
    return key.strip(), value


def settings_of(
    options: SessionOptions, work_dir: Path, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Settings of Spark but for its Python. Raises: ConfigError for an unreadable file."""
    settings = {
        **OF_SESSIONS,
        **options.defaults,
        "spark.sql.warehouse.dir": (work_dir / "warehouse").as_uri(),
        "spark.driver.memory": "512m",  # the whole JVM takes less than 1 GiB
        **submitted_settings(options, environ),
    }
    master = settings.setdefault("spark.master", LOCAL_MASTER)
    is_bare = conf_dir(environ) is None
    properties = {"java.io.tmpdir": str(work_dir), "derby.system.home": str(work_dir)}
    if is_bare:
        properties["log4j2.configurationFile"] = f"{work_dir}/{LOG_CONFIGURATION}"
    if is_here(master) and loopback() == LOOPBACK_6:
        properties["java.net.preferIPv6Addresses"] = "true"
        settings.setdefault("spark.python.unix.domain.socket.enabled", "true")
    if nameless_user() is not None:
        properties |= {"user.name": str(nameless_user()), "user.home": str(work_dir)}
    java_options = [
        *(shlex.quote(f"-D{name}={value}") for name, value in properties.items()),
        "-XX:+UseParallelGC",
        "-XX:-UsePerfData",
        "-XX:MetaspaceSize=192m",  # Spark's classes; else they grow through several collections
        "-XX:TieredStopAtLevel=1",  # a replay lasts seconds: 7 instead of 10 s
        settings.get("spark.driver.extraJavaOptions", ""),
    ]
    settings["spark.driver.extraJavaOptions"] = " ".join(java_options).rstrip()
    if is_here(master):
        own = loopback()
        settings.setdefault("spark.driver.host", f"[{own}]" if own == LOOPBACK_6 else own)
        settings.setdefault("spark.driver.bindAddress", own)
    return settings


def submitted_settings(
    options: SessionOptions, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Settings of the platform and the user. Raises: ConfigError."""
    settings: dict[str, str] = {}
    directory = conf_dir(environ)
    if options.properties_file is not None:
        settings |= read_properties(options.properties_file, "--properties-file")
    elif directory is not None and (directory / "spark-defaults.conf").is_file():
        settings |= read_properties(directory / "spark-defaults.conf", "SPARK_CONF_DIR")
    settings |= options.conf
    if options.master is not None:
        settings["spark.master"] = options.master
    return for_executors(settings, environ)


def for_executors(
    settings: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    if is_local(settings.get("spark.master", LOCAL_MASTER)):
        return dict(settings)
    told = {f"spark.executorEnv.{x}": environ[x] for x in TOLD_TO_EXECUTORS if environ.get(x)}
    return told | dict(settings)


def nameless_user() -> int | None:
    """Number of this user if it has no entry in /etc/passwd, as in many containers: Java then knows
    neither its name nor its home directory. None if it has one."""
    try:
        pwd.getpwuid(os.geteuid())
    except KeyError:
        return os.geteuid()
    return None


def conf_dir(environ: Mapping[str, str] = os.environ) -> Path | None:
    """The platform's directory of Spark's configuration; None without one."""
    for text in (environ.get("SPARK_CONF_DIR"), environ.get("SPARK_HOME", "") + "/conf"):
        if text and text != "/conf" and Path(text).is_dir():
            return Path(text)
    return None


def read_properties(path: Path, option: str) -> dict[str, str]:
    """A file in the format of spark-defaults.conf, of Java properties. Raises: ConfigError."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise ConfigError(f"{option}: {path} cannot be read ({why})") from error
    found = {}
    for line in _logical_lines(text):
        match = _PROPERTY.match(line)
        if match is not None:
            found[_unescaped(match[1])] = _unescaped(match[2]).rstrip()
    return {key: value for key, value in found.items() if key.startswith("spark.")}


def properties_text(settings: Mapping[str, str]) -> str:
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in settings.items())


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments; a line that ends with a backslash continues in the next one."""
    waiting = ""
    for line in text.splitlines():
        stripped = line.lstrip()
        if not waiting and (not stripped or stripped[0] in "#!"):
            continue
        waiting += stripped
        if (len(waiting) - len(waiting.rstrip("\\"))) % 2:
            waiting = waiting[:-1]
            continue
        yield waiting
        waiting = ""
    if waiting:
        yield waiting


def _unescaped(text: str) -> str:
    plain = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
    return re.sub(r"\\(.)", lambda found: plain.get(found[1], found[1]), text)


def _escaped(text: str) -> str:
    return re.sub(r"([\\ \t=:#!])", r"\\\1", text).replace("\n", "\\n").replace("\r", "\\r")
