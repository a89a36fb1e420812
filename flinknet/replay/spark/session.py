"""The Spark session: on this machine, silent, on loopback and without files that stay behind, or on
the user's own Spark, by its settings.

A session on this machine works without network, without an installed Java and in a directory that
cannot be written to.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import flinknet
from flinknet.errors import FlinknetError
from flinknet.loopback import LOOPBACK_6, loopback
from flinknet.whole_files import work_directory

from . import installed, settings
from .jvm import cause_in, loading_jvm
from .worker import DAEMON, code_zip, early_daemon
from .worker import VARIABLE as EARLY_DAEMON

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_RAISED = re.compile(r"[A-Za-z_][\w.]*(Error|Exception|Interrupt|Exit|Stop\w*): ")
_NO_FLINKNET = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")

_LOG4J2 = """rootLogger.level = off
rootLogger.appenderRef.nowhere.ref = nowhere
appender.nowhere.type = Null
appender.nowhere.name = nowhere
"""


@contextmanager
def spark_session(
    options: settings.SessionOptions | None = None, *, record: Path | None = None
) -> Iterator[SparkSession]:
    """As `loading_session`, but waits for the session."""
    with loading_session(options, record=record) as session:
        yield session()


@contextmanager
def loading_session(
    options: settings.SessionOptions | None = None, *, record: Path | None = None
) -> Iterator[Callable[[], SparkSession]]:
    """A session that ends, with its JVM and all its files, when the block ends. A new JVM loads
    meanwhile, and writes the names of its classes to `record`, see `ClassArchive`. Without options
    it has all cores of this machine, or the settings of the platform or of spark-submit, whose
    process has a JVM already. Yields: a function that waits for the session; it raises
    FlinknetError if Spark cannot start. Raises: FlinknetError if there is no Spark or no Java,
    ConfigError for options that cannot be."""
    options = options or settings.SessionOptions()
    installed.pyspark_version()
    if options.master is None and options.remote is None and os.environ.get("SPARK_REMOTE"):
        options = replace(options, remote=os.environ["SPARK_REMOTE"])
    options.check()
    with work_directory("spark") as work_dir, ExitStack() as stack:
        if options.remote is not None:
            yield _connected_session(options, work_dir, stack)
        elif is_submitted():
            yield _submitted_session(options, work_dir, stack)
        else:
            yield _own_session(options, work_dir, stack, record)


def _connected_session(
    options: settings.SessionOptions, work_dir: Path, stack: ExitStack
) -> Callable[[], SparkSession]:
    """A session on a server of Spark Connect, which keeps running. The server refuses some of our
    defaults, and platforms keep settings to themselves."""
    before = {name: os.environ.get(name) for name in ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")}

    def started() -> SparkSession:
        from pyspark.sql import SparkSession

        try:
            session = SparkSession.builder.remote(str(options.remote)).getOrCreate()
        except ImportError as error:
            raise FlinknetError(
                "Spark Connect needs more packages than are installed: pip install"
                f" 'pyspark[connect]' ({str(error).splitlines()[0]})"
            ) from error
        stack.callback(session.stop)
        for key, value in settings.OF_QUERIES.items():
            with suppress(Exception):
                session.conf.set(key, value)
        for key, value in options.conf.items():
            session.conf.set(key, value)
        if options.ship == settings.SHIP_CODE:
            session.addArtifacts(str(code_zip(work_dir)), pyfile=True)
        return session

    def restore() -> None:
        for name, text in before.items():
            os.environ.pop(name, None)
            if text is not None:
                os.environ[name] = text

    stack.callback(restore)
    stack.enter_context(spark_errors())
    return started


def _own_session(
    options: settings.SessionOptions, work_dir: Path, stack: ExitStack, record: Path | None
) -> Callable[[], SparkSession]:
    values = settings.settings_of(options, work_dir)
    is_alone = settings.is_local(values["spark.master"])
    has_daemon = is_alone and values.setdefault("spark.python.daemon.module", DAEMON) == DAEMON
    _, archive = java_and_archive(work_dir / "java")
    options_of_java = "spark.driver.extraJavaOptions"
    values[options_of_java] += "".join(f" {shlex.quote(x)}" for x in archive.java_options(record))
    archive.empty_directory.mkdir(exist_ok=True)
    environment = _environment(values, work_dir) | {
        "JAVA_HOME": str(archive.directory),
        "SPARK_CONF_DIR": str(settings.conf_dir() or archive.empty_directory),
    }
    if archive.directory.is_relative_to(work_dir) and "NUMBA_CACHE_DIR" not in os.environ:
        environment["NUMBA_CACHE_DIR"] = str(work_dir / "numba")
    if has_daemon:
        socket = work_dir / "daemon"
        environment[EARLY_DAEMON] = str(socket)
        stack.enter_context(early_daemon(environment, socket))
    context = stack.enter_context(loading_jvm(environment, work_dir / "stderr"))

    def started() -> SparkSession:
        from pyspark.sql import SparkSession

        with suppress(ImportError):  # while the JVM loads; Spark 3.5 has other modules
            import pyspark.sql.classic.dataframe
            import pyspark.testing.utils  # noqa: F401  # asked for numpy at each argument
        own = context()
        with spark_errors():  # the context ends when its master goes away
            return _with_code(SparkSession(own), options, work_dir)

    return started


def _with_code(
    session: SparkSession, options: settings.SessionOptions, work_dir: Path
) -> SparkSession:
    if options.ship == settings.SHIP_CODE:
        session.sparkContext.addPyFile(str(code_zip(work_dir)))
    return session


def java_and_archive(
    fallback: Path | None = None,
) -> tuple[installed.JavaRuntime, installed.ClassArchive]:
    """The Java of sessions on this machine, and the archive of Spark's classes, in the cache or
    `fallback`. Raises: FlinknetError if there is no Java, OSError if neither can be written to."""
    java = installed.find_java()
    return java, installed.ClassArchive.of(
        java, installed.launcher_home(java, fallback=fallback), installed.spark_home()
    )


def make_class_archive() -> None:
    """Start a session that does a little of everything, and archive the classes that it loads.
    Raises: FlinknetError if Spark cannot be started or Java does not make it."""
    java, archive = java_and_archive()
    with work_directory("classes") as directory:
        record = directory / "classes"
        with spark_session(record=record) as spark:
            count_to_ten(spark)
            jvm = spark.sparkContext._jvm
            assert jvm is not None, "a session of our own has a JVM"
            class_path = jvm.java.lang.System.getProperty("java.class.path")
        archive.make(java, record, class_path)


def make_class_archive_later(options: settings.SessionOptions) -> bool:
    """Start a process that makes the archive after this one has ended, if sessions with these
    options would use it and no process has tried before. Returns: whether it was started."""
    is_own = options.remote is None and not is_submitted() and settings.conf_dir() is None
    is_own &= settings.is_local(options.master or settings.LOCAL_MASTER)
    code = f"from {__name__} import make_class_archive as make; make()"
    environ = {**os.environ, "PYTHONPATH": _python_path()}
    with suppress(OSError):
        if is_own and java_and_archive()[1].is_wanted():
            installed.start_unnoticed([sys.executable, "-c", code], environ)
            return True
    return False


def count_to_ten(spark: SparkSession) -> None:
    """Run a job with Python workers, a shuffle and Arrow tables both ways, as a replay does."""
    import pyarrow as pa
    from pyspark.sql import functions as f

    from .frames import arrow_of, frame_of

    table = pa.table({"id": list(range(10)), "text": ["even", "odd"] * 5})
    rows = frame_of(spark, table).mapInArrow(lambda batches: batches, "id long, text string")
    counts = arrow_of(rows.groupBy("text").agg(f.sum("id"), f.count("id")))
    if sum(counts.column("count(id)").to_pylist()) != table.num_rows:
        raise FlinknetError(f"Spark did not count to {table.num_rows}")


def is_connected(spark: SparkSession) -> bool:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def cores_of(spark: SparkSession) -> int:
    """Number of tasks that run at the same time, as far as known."""
    if not is_connected(spark):
        return int(spark.sparkContext.defaultParallelism)
    text = spark.conf.get("spark.default.parallelism", None)
    return int(text) if text and text.isdecimal() else 8  # Spark Connect does not report it


def page_address(spark: SparkSession) -> str | None:
    return None if is_connected(spark) else spark.sparkContext.uiWebUrl


def is_submitted() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


@contextmanager
def spark_errors() -> Iterator[None]:
    """Turn exceptions of Spark into a FlinknetError of one line. A FlinknetError that was raised in
    an executor keeps its words; others there are reported by the last line of their traceback."""
    from pyspark.errors import PythonException

    try:
        yield
    except Exception as error:
        packages = {each.__module__.partition(".")[0] for each in type(error).__mro__}
        if packages.isdisjoint(("pyspark", "py4j", "grpc")):
            raise
        try:
            text = str(error)
        except Exception:  # some cannot be printed once their JVM is gone, but keep the text
            text = str(getattr(error, "_desc", None) or type(error).__name__)
        ours = re.findall(r"flinknet\.errors\.\w+: (.+)$", text, re.MULTILINE)
        if ours:
            raise FlinknetError(ours[-1]) from None  # the rest is Spark's traceback
        missing = _NO_FLINKNET.search(text)
        if missing is not None:
            raise FlinknetError(
                f"Spark's executors have no Python package {missing[1].partition('.')[0]}: install"
                " flinknet there, or send it: flinknet alone with --ship code, all packages that it"
                " needs with spark.archives"
            ) from error
        if isinstance(error, PythonException):
            lines = text.partition("JVM stacktrace:")[0].strip().splitlines() or [repr(error)]
            raised = [line.strip() for line in lines if _RAISED.match(line.strip())]
            why = (raised or lines)[-1].strip()
            raise FlinknetError(
                f"a bug in flinknet, inside Spark: {why}; please report it"
            ) from error
        raise FlinknetError(f"Spark failed: {cause_in(text) or type(error).__name__}") from error


def _submitted_session(
    options: settings.SessionOptions, work_dir: Path, stack: ExitStack
) -> Callable[[], SparkSession]:
    """A session of the JVM of spark-submit; its settings override ours, and options both."""

    def started() -> SparkSession:
        from pyspark import SparkConf
        from pyspark.sql import SparkSession

        conf = SparkConf()
        for name, value in settings.OF_SESSIONS.items():
            if not conf.contains(name):
                conf.set(name, value)
        values = settings.for_executors(
            dict(conf.getAll()) | settings.submitted_settings(options, {})
        )
        for name, value in values.items():
            conf.set(name, value)
        with spark_errors():
            session = SparkSession.builder.config(conf=conf).getOrCreate()
        stack.callback(session.stop)
        return _with_code(session, options, work_dir)

    return started


def _environment(values: Mapping[str, str], work_dir: Path) -> dict[str, str]:
    """Variables of the JVM. Its settings are in a file, because others can read a command line."""
    (work_dir / settings.LOG_CONFIGURATION).write_text(_LOG4J2)
    (work_dir / "spark.properties").write_text(settings.properties_text(values), encoding="utf-8")
    master, python = values["spark.master"], values.get("spark.pyspark.python")
    properties = shlex.quote(str(work_dir / "spark.properties"))
    more = os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell")
    environment = {
        "PYSPARK_PYTHON": python or os.environ.get("PYSPARK_PYTHON", sys.executable),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYSPARK_SUBMIT_ARGS": f"--properties-file {properties} {more}",
        "SPARK_HOME": str(installed.spark_home()),
        "SPARK_LAUNCHER_OPTS": "-XX:TieredStopAtLevel=1",
        "MALLOC_ARENA_MAX": os.environ.get("MALLOC_ARENA_MAX", "2"),  # else one for each thread
        "SPARK_LOCAL_DIRS": str(work_dir),
    }
    if settings.is_local(master):
        environment |= {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": _python_path()}
    if settings.is_here(master):
        environment["SPARK_LOCAL_IP"] = loopback()
        if loopback() == LOOPBACK_6:
            # Only the gateway without pinned threads listens at the address that Java prefers.
            environment |= {"SPARK_PREFER_IPV6": "true", "PYSPARK_PIN_THREAD": "false"}
    return environment


def _python_path() -> str:
    """A PYTHONPATH by which workers find this flinknet, also where it is not installed."""
    ours = str(Path(flinknet.__file__).parent.parent)
    return os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH")])])
