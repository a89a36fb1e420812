"""bench consume and bench produce: what is refused before anything is opened."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from flinknet.core.wire.ids import ResultPartitionID

PARTITION = ResultPartitionID.decode(bytes(60))
CONSUMER = ["consume", "127.0.0.1:1", "--partition", str(PARTITION)]
PRODUCER = ["produce"]


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (CONSUMER[:2], "a consumer needs --partition"),
        (["consume", "here", *CONSUMER[2:]], "'here' is not an address"),
        (["consume", "here:0", *CONSUMER[2:]], "port 0 is not a data port"),
        (["consume", "here:65536", *CONSUMER[2:]], "is not an address"),
        ([*PRODUCER, "--listen", ":1"], "--listen: ':1' is not an address"),
        ([*CONSUMER[:2], "--partition", "abc"], "--partition: 'abc' is not a result partition"),
        ([*CONSUMER, *CONSUMER[2:]], "is given twice"),
        ([*CONSUMER, "--subpartition", "1", "--subpartition", "1"], "1 is given twice"),
        ([*CONSUMER, "--slow-consumer", "0:1ms:1s"], "write 0:1ms or 0:pause"),
        ([*PRODUCER, "--segment-size", "8kb,32kb"], "has several values"),
        ([*PRODUCER, "--records", "5", "--duration", "1s"], "--records and --duration both"),
    ],
)
def test_what_cannot_be_is_refused(
    options: list[str], complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["bench", *options])
    assert done.exit_code == 2
    assert complaint in done.output
    assert len(done.output.splitlines()) == 1
    assert not list(tmp_path.iterdir())  # nothing was begun


@pytest.mark.parametrize("command", ["consume", "produce"])
def test_help_has_a_section_for_it(command: str) -> None:
    done = CliRunner().invoke(main, ["bench", command, "--help"])
    assert "Peer:" in done.output
