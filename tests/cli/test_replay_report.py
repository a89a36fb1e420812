"""`flinknet trace replay --report`, from the command line to the page."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from flinknet.cli import main
from tests.recorded_run import write_run


@pytest.mark.spark
@pytest.mark.usefixtures("with_spark")
def test_the_page_is_made_from_the_answer(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", buffers=40)
    page, answer = tmp_path / "out.html", tmp_path / "out.json"
    options = ["--buffer-timeout", "5ms", "--max-records", "100"]
    files = ["--report", str(page), "--json", str(answer)]
    done = CliRunner().invoke(main, ["trace", "replay", str(run), *options, *files])
    assert (done.exit_code, done.stderr) == (0, "flinknet: starting Spark …\n")
    text = page.read_text(encoding="utf-8")
    start = text.index('id="data">') + len('id="data">')
    (view,) = json.loads(text[start : text.index("</script>", start)])["views"]
    actual = json.loads(answer.read_text())
    assert actual["observed"]["records"] == 800
    first, *_ = view["parts"]
    assert first["kind"] == "headline"
    titles = [each.get("title") for each in view["parts"]]
    assert titles[5:8] == ["Latency", "Over time", "Where the time went"]
    assert '"800' in json.dumps(view)
