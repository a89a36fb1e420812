"""What Spark is started with: who says what, and what is sent to executors."""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import SparkConf

from flinknet.errors import ConfigError, FlinknetError
from flinknet.replay.spark import session
from flinknet.replay.spark.installed import check_data_source, find_pyspark, spark_home
from flinknet.replay.spark.settings import (
    OF_REPLAYS,
    SessionOptions,
    connect_address,
    parse_conf,
    properties_text,
    read_properties,
    settings_of,
    submitted_settings,
)
from flinknet.replay.spark.worker import code_zip


def test_the_user_says_more_than_the_platform_and_that_more_than_we(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/spark-defaults.conf").write_text(
        "# of the platform\nspark.master  yarn\nspark.driver.memory=4g\nspark.a: 1\nspark.b 1\n"
        "spark.driver.extraJavaOptions -Da=b \\\n   -Dc=d\n"
    )
    environ = {"SPARK_HOME": str(tmp_path), "AWS_REGION": "eu-west-1"}
    options = SessionOptions(conf={"spark.b": "2"})
    found = settings_of(options, tmp_path, environ)
    assert found["spark.master"] == "yarn"
    assert found["spark.driver.memory"] == "4g"
    assert (found["spark.a"], found["spark.b"]) == ("1", "2")
    assert found["spark.driver.extraJavaOptions"].endswith(" -Da=b -Dc=d")
    assert found["spark.ui.enabled"] == "false"
    assert found["spark.executorEnv.AWS_REGION"] == "eu-west-1"
    assert "spark.driver.host" not in found
    (tmp_path / "mine").write_text("spark.a 3")
    asked = SessionOptions(
        "local[1]", conf={"spark.ui.enabled": "true"}, properties_file=tmp_path / "mine"
    )
    found = settings_of(asked, tmp_path, environ)
    assert (found["spark.master"], found["spark.a"]) == ("local[1]", "3")
    assert (found["spark.driver.memory"], found["spark.ui.enabled"]) == ("512m", "true")
    assert found["spark.driver.host"] == "127.0.0.1"


def test_executors_of_spark_submit_learn_where_storage_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: dict[str, str] = {}

    class Builder:
        """Takes the settings, and starts nothing."""

        def config(self, conf: SparkConf) -> Builder:
            found.update(conf.getAll())
            return self

        def getOrCreate(self) -> SimpleNamespace:
            return SimpleNamespace(stop=lambda: None)

    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=Builder()))
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    for master in ("yarn", "local[2]"):
        found.clear()
        with ExitStack() as stack:
            session._submitted_session(SessionOptions(master), tmp_path, stack)()
        assert ("spark.executorEnv.AWS_REGION" in found) is (master == "yarn")


@pytest.mark.parametrize(
    ("options", "adaptive"),
    [
        (SessionOptions(), None),
        (SessionOptions(defaults=OF_REPLAYS), "false"),
        (SessionOptions(defaults=OF_REPLAYS, conf={"spark.sql.adaptive.enabled": "true"}), "true"),
    ],
)
def test_without_a_platform_it_is_this_machine_alone_with_defaults_behind_options(
    tmp_path: Path, options: SessionOptions, adaptive: str | None
) -> None:
    found = settings_of(options, tmp_path, {})
    assert found["spark.master"] == "local[*]"
    assert found.get("spark.sql.adaptive.enabled") == adaptive


def test_settings_are_read_back_as_they_were_written(tmp_path: Path) -> None:
    settings = {
        "spark.plain": "1",
        "spark.hard": " a=b c:d #e \\ ü\nnext",
        "spark.empty": "",
        "spark.odd key:=#!": "x",
    }
    (tmp_path / "file").write_text(properties_text(settings), encoding="utf-8")
    assert read_properties(tmp_path / "file", "--properties-file") == settings


def test_a_file_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--properties-file: .* cannot be read \(No such file"):
        submitted_settings(SessionOptions(properties_file=tmp_path / "none"), {})


@pytest.mark.parametrize("text", ["spark.a", "a=1", "=1"])
def test_what_is_no_setting_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--spark-conf: .* is not spark.KEY=VALUE"):
        parse_conf(text)


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("sc://host", ("host", 15002)),
        ("sc://host:443/;token=secret;x-a=b", ("host", 443)),
        ("sc://[::1]:15002", ("::1", 15002)),
        ("sc://[::1]", ("::1", 15002)),
    ],
)
def test_the_address_of_a_connect_server(remote: str, address: tuple[str, int]) -> None:
    assert connect_address(remote) == address


@pytest.mark.parametrize(
    "remote", ["host:15002", "sc://", "sc://h:0", "sc://u:secret@h", "sc://h:port/;token=secret"]
)
def test_what_is_no_connect_server_is_refused_without_its_token(remote: str) -> None:
    with pytest.raises(ConfigError, match="write sc://HOST:PORT") as caught:
        connect_address(remote)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (SessionOptions("local[1]", remote="sc://host"), "--master: cannot be used with --remote"),
        (
            SessionOptions(remote="sc://host", properties_file=Path("mine")),
            "--properties-file: cannot",
        ),
        (SessionOptions("sc://host"), "is given by --remote sc://host"),
    ],
)
def test_what_does_not_go_together_is_refused(options: SessionOptions, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        options.check()


def test_a_spark_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.4.4")
    with pytest.raises(FlinknetError, match=r"Spark 3\.4\.4 is too old: flinknet needs 3\.5"):
        find_pyspark({})


def test_spark_3_5_replays_but_reads_no_traces_as_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyspark.__version__", "3.5.8")
    assert find_pyspark({}) == "3.5.8"
    with pytest.raises(FlinknetError, match=r"Spark 3\.5\.8 has no data sources in Python"):
        check_data_source()


def test_the_spark_of_the_platform_is_started_if_pyspark_is_of_its_version(tmp_path: Path) -> None:
    import pyspark

    (tmp_path / "jars").mkdir()
    environ = {"SPARK_HOME": str(tmp_path)}
    own = Path(pyspark.__file__).parent
    assert spark_home(environ) == spark_home({}) == own
    (tmp_path / f"jars/spark-core_2.13-{pyspark.__version__}.jar").touch()
    assert spark_home(environ) == tmp_path


def test_code_is_sent_as_a_zip_file_that_python_imports_from(tmp_path: Path) -> None:
    with zipfile.ZipFile(code_zip(tmp_path)) as file:
        names = file.namelist()
    assert {"flinknet/__init__.py", "flinknet/replay/spark/units.py"} <= set(names)
    assert not [name for name in names if "_compiled" in name or name.endswith(".pyc")]
