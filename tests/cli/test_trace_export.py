"""`flinknet trace export`, from the command line to the file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from flinknet.cli import main
from flinknet.cli.trace_export import FORMATS
from tests.synthetic_trace import write_run


def run_cli(*args: str | Path) -> Result:
    return CliRunner().invoke(main, ["trace", "export", *map(str, args)], env={"COLUMNS": "120"})


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "runs" / "run", channels=2, data_buffers=10)


@pytest.mark.parametrize("form", FORMATS)
def test_every_form_is_explained_reported_and_always_the_same(
    run: Path, tmp_path: Path, form: str
) -> None:
    assert f"--format {form} " in run_cli("--help").output
    outs = [tmp_path / "a", tmp_path / "b"]
    noun = "20 buffers" if form == "perfetto" else "88 events"
    for out in outs:
        result = run_cli(run, "--format", form, "--out", out)
        assert (result.exit_code, result.stdout) == (0, ""), result.output
        assert result.stderr.startswith(f"{out}: {noun}, ")
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert outs[0].stat().st_size > 500


def test_the_only_run_below_a_directory_is_found(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.csv"
    arguments = ("--format", "csv", "--out", out, "--channel", "1", "--from", "0", "--to", "50us")
    assert run_cli(run.parent, *arguments).exit_code == 0
    write_run(run.parent / "other")
    result = run_cli(run.parent, *arguments, "--overwrite")
    assert result.exit_code == 2
    assert "there are 2 runs below it; give one: " in result.stderr


def test_a_cut_file_is_reported(run: Path, tmp_path: Path) -> None:
    (run / "tm-0.fnt").write_bytes((run / "tm-0.fnt").read_bytes()[:-50])
    result = run_cli(run, "--format", "csv", "--out", tmp_path / "o")
    assert result.exit_code == 0
    assert "tm-0.fnt is cut off; its whole blocks are exported" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint", "exit_code"),
    [
        (("--format", "xml"), "'xml' is not one of", 2),
        (("--format", "csv", "--channel", "a"), "not a list of channel numbers", 2),
        (("--format", "csv", "--channel", "9"), "--channel: 9 is not in the trace", 2),
        (("--format", "csv", "--from", "5"), "--from: '5' has no unit", 2),
        (("--format", "csv", "--from", "-1x"), "--from: 'x' is not a unit of time", 2),
        (("--format", "csv", "--from", "5s"), "there is nothing between them", 2),
    ],
)
def test_what_cannot_be_is_one_line(
    run: Path, tmp_path: Path, arguments: tuple[str, ...], complaint: str, exit_code: int
) -> None:
    result = run_cli(run, "--out", tmp_path / "o", *arguments)
    assert result.exit_code == exit_code, result.output
    assert complaint in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not (tmp_path / "o").exists()


def test_places_that_cannot_be_written_to(run: Path, tmp_path: Path) -> None:
    missing = run_cli(run, "--format", "csv", "--out", tmp_path / "no" / "o")
    assert (missing.exit_code, "cannot be written" in missing.stderr) == (2, True)
    folder = run_cli(run, "--format", "csv", "--out", tmp_path)
    assert (folder.exit_code, "cannot be written" in folder.stderr) == (2, True)
    stdout = run_cli(run, "--format", "csv", "--out", "-")
    assert (stdout.exit_code, "--out: - does not mean stdout" in stdout.stderr) == (2, True)
    packed = run_cli(run, "--format", "parquet", "--out", tmp_path / "o.gz")
    assert (packed.exit_code, "without .gz" in packed.stderr) == (2, True)


def test_a_file_that_is_there_is_replaced_only_if_reported_to(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "mine.csv"
    out.write_text("mine")
    refused = run_cli(run, "--format", "csv", "--out", out)
    assert refused.exit_code == 2
    assert "exists; give another name, or --overwrite" in refused.stderr
    assert out.read_text() == "mine"
    assert run_cli(run, "--format", "csv", "--out", out, "-f").exit_code == 0
    assert out.read_text() != "mine"


def test_pairs_need_a_run_and_tables_take_a_file(run: Path, tmp_path: Path) -> None:
    result = run_cli(run / "tm-0.fnt", "--format", "perfetto", "--out", tmp_path / "o")
    assert result.exit_code == 4
    assert "give the run directory" in result.stderr
    assert not list(tmp_path.glob(".o*"))
    assert run_cli(run / "tm-0.fnt", "--format", "csv", "--out", tmp_path / "o").exit_code == 0


def test_no_spark_is_loaded(run: Path, tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from flinknet.cli import main\n"
        f"main(['trace', 'export', {str(run)!r}, '--format', 'perfetto',"
        f" '--out', {str(tmp_path / 'o')!r}], standalone_mode=False)\n"
        "assert not {'pyspark', 'pandas', 'py4j'} & sys.modules.keys()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
