"""Commands that read runs of a store, and write there."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.storage import StoragePath, path_of
from tests.object_store import BUCKET, ObjectStore
from tests.recorded_run import write_run

pytestmark = pytest.mark.socket


def call(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments])


@pytest.fixture
def here(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs" / "run-1", buffers=20)


@pytest.fixture
def there(here: Path, store: ObjectStore) -> str:
    return store.upload(here.parent, "commands")


@pytest.mark.parametrize("command", ["info", "verify"])
def test_a_run_in_a_store_is_shown_as_one_of_this_machine(
    here: Path, there: str, command: str
) -> None:
    expected, found = (call("trace", command, path, "--json") for path in (here, there))
    assert found.exit_code == expected.exit_code
    assert found.stdout.replace(f"{there}/run-1", str(here)) == expected.stdout


def test_events_are_exported_into_a_store(here: Path, there: str, store: ObjectStore) -> None:
    target = f"s3://{BUCKET}/exported/events.parquet"
    command = ("trace", "export", there, "--format", "parquet", "--out", target)
    found = call(*command)
    assert (found.exit_code, found.stderr.partition(":")[0]) == (0, "s3")
    content = io.BytesIO(store.client.open_input_file(f"{BUCKET}/exported/events.parquet").read())
    assert pyarrow.parquet.read_table(content).num_rows == events_of(here)
    again = call(*command)
    assert (again.exit_code, "exists; give another name" in again.stderr) == (2, True)


def events_of(run: Path) -> int:
    (described,) = json.loads(call("trace", "info", run, "--json").stdout)["runs"]
    return int(described["events"])


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("info", "s3://traces/nowhere"), 2, "s3://traces/nowhere: there is no such file"),
        (("info", "s4://traces/run"), 2, "no such storage"),
        (("verify", "s3://no-such-bucket/run"), 2, "there is no such file"),
        (("replay", "gs:///run"), 2, "names no bucket"),
        (("import", "{there}", "--follow"), 2, "--follow: only for a file of this machine"),
        (
            ("export", "{there}", "--format", "csv", "--out", "s3://no-such-bucket/a.csv"),
            2,
            "is not the name of a file in an existing bucket",
        ),
    ],
)
def test_a_path_that_cannot_be_is_one_line(
    there: str, arguments: tuple[str, ...], code: int, says: str
) -> None:
    found = call("trace", *(each.format(there=there) for each in arguments))
    assert says in found.stderr
    assert (found.exit_code, len(found.stderr.splitlines())) == (code, 1)


@pytest.mark.parametrize("option", ["--csv", "--json"])
def test_a_store_is_written_to_before_the_first_run(store: ObjectStore, option: str) -> None:
    arguments = ("compare-configs", "base", "producers=2", "--rate", "1k/s", option)
    missing = call(*arguments, "s3://no-such-bucket/results")
    assert (missing.exit_code, missing.stdout) == (2, "")
    assert "in an existing bucket" in missing.stderr
    path = path_of(f"s3://{BUCKET}/checked/results.json")
    assert isinstance(path, StoragePath)
    path.check_writable()
    assert list(path.parent.iterdir()) == []
