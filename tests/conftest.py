"""Settings of all tests; the rows of the conformance table that a test shows; processes that end
with their test.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

from bench.flink import cluster
from tests.left_out import LeftOut
from tests.object_store import ObjectStore, object_store
from tests.rows import PROPERTY, read_rows
from tests.shared_spark import commands_in
from tests.workers import FileScheduling, in_order

# Commands that run with another home or cache directory find what was compiled before.
os.environ.setdefault(
    "NUMBA_CACHE_DIR",
    str(Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "numba")),
)

# The same examples every time, whatever an earlier run has found; how long one takes says nothing
# on a busy machine, and the suite has its own timeout.
EVERY_TIME = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("flinknet", EVERY_TIME)
settings.register_profile("search", EVERY_TIME, derandomize=False)  # make search
settings.load_profile("flinknet")

# Hypothesis draws the constants in the modules that are loaded by then, which tests ran before
# decides; no setting turns that off.
providers.is_local_module_file = lambda _path: False  # type: ignore[attr-defined]


_STARTED_BY = "STARTED_BY_TEST"


@pytest.fixture(autouse=True)
def wide_output(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sentences that commands print stand on one line."""
    monkeypatch.setenv("COLUMNS", "400")


def pytest_configure(config: pytest.Config) -> None:
    """Let the last line of a run say what was left out."""
    config.pluginmanager.register(LeftOut(config))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Let the report of a test tell its rows; a row that the table does not have is a mistake."""
    known = read_rows()
    for item in items:
        for mark in item.iter_markers("row"):
            for row_id in mark.args:
                if row_id not in known:
                    raise pytest.UsageError(f"{item.nodeid}: no row {row_id} in tests/rows.toml")
                item.user_properties.append((PROPERTY, row_id))
    if hasattr(config, "workerinput"):
        items[:] = in_order(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling:
    """Workers take files."""
    return FileScheduling(config, log)


@pytest.fixture(scope="session")
def object_store_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """A store that speaks S3; started at its first use."""
    with object_store(tmp_path_factory.mktemp("store") / "requests") as found:
        yield found


@pytest.fixture
def store(object_store_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """The same, which this process and those that it starts find by their environment."""
    for name, value in object_store_server.environment.items():
        monkeypatch.setenv(name, value)
    return object_store_server


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session for all tests of this process; started at its first use."""
    from flinknet.replay.spark.session import spark_session

    with spark_session() as session:
        yield session


@pytest.fixture
def quick_flink(monkeypatch: pytest.MonkeyPatch) -> None:
    """JVMs of Flink's clusters do not optimise what they run: they live for seconds."""
    monkeypatch.setattr(cluster, "JVM_OPTIONS", (*cluster.JVM_OPTIONS, "-XX:TieredStopAtLevel=1"))


@pytest.fixture
def with_spark(spark: Any) -> Iterator[Any]:
    """Commands that are called in this process get the session of the tests."""
    with commands_in(spark):
        yield spark


@pytest.fixture
def usual_signals() -> Iterator[None]:
    """Signals do what they do in the foreground of a terminal, here and in processes that are
    started meanwhile; `nohup` and shells' background processes ignore some.
    """
    usual = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in usual.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture
def start_process(usual_signals: None) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts processes, with the arguments of `Popen`. Whatever is left of them and of those that
    they have started, all of which inherit an environment variable, is killed with the test.
    """
    started: list[subprocess.Popen[str]] = []
    test = uuid4().hex

    def start(
        command: Sequence[object], *, env: Mapping[str, str] = os.environ, **options: Any
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*map(str, command)], text=True, env={**env, _STARTED_BY: test}, **options
        )
        started.append(process)
        return process

    yield start
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if process.environ().get(_STARTED_BY) == test:
                process.kill()
    for each in started:
        each.communicate()
