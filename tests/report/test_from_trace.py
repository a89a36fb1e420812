"""Predicted next to measured, as `bench again` shows it."""

from __future__ import annotations

from typing import Any

from flinknet.report.charts import Curves
from flinknet.report.from_trace import OF_MACHINE, again_view, change_lines
from flinknet.report.page_parts import Lines, Table
from tests.report.printing import printed


def document(*codes: str | None) -> dict[str, Any]:
    figures = {
        **{"throughput_records_per_s": 1000.0, "buffers_per_s": 40.0},
        "latency_ns": {"p50": 1e6, "p99": 2e6},
    }
    rows = [
        {
            "name": f"buffer-timeout={number}ms",
            "predicted": figures,
            "measured": figures,
            "error": {"throughput": 0.0, "p50": -0.8, "p99": -0.1},
            "notes": [],
            "warnings": [] if code is None else [{"code": code, "text": "a source was late"}],
            "processors": None,
        }
        for number, code in enumerate(codes)
    ]
    return {
        "trace": "runs/a",
        "is_complete": True,
        "settings_asked": len(rows),
        "recording": {"notes": [], "warnings": []},
        "runs": rows,
    }


def shown(found: dict[str, Any]) -> str:
    return printed(again_view(found), width=200)


def test_a_row_that_the_machine_disturbed_is_marked() -> None:
    text = shown(document(None, "disturbed"))
    first, second = (line for line in text.splitlines() if "1.00 ms" in line)
    assert not first.strip().startswith("!")
    assert second.strip().startswith("! buffer-timeout=1ms")
    assert OF_MACHINE in text
    assert OF_MACHINE not in shown(document(None, None))


def test_the_answer_has_the_worst_error_and_a_grade() -> None:
    lines = shown(document(None, "disturbed")).splitlines()
    assert lines[0] == "sent again a; 2 settings"
    assert lines[1] == (
        "verdict    predictions were off by at most records/s 0.0%, p50 −80.0%, p99 −10.0%"
    )
    assert lines[2].startswith("trust      fair: in run 2 of 2 (buffer-timeout=1ms): a source was")


def test_timeouts_are_drawn_from_the_shortest_on_with_the_recorded_one_among_them() -> None:
    found = document(None, None, "disturbed")
    names = ("buffer-timeout=5ms (as recorded)", "buffer-timeout=-1", "buffer-timeout=0")
    for row, name in zip(found["runs"], names, strict=True):
        row |= {"name": name, "is_recorded": "recorded" in name}
        for kind in ("measured", "predicted"):
            row[kind] = row[kind] | {"buffers_per_s": 100.0}
    view = again_view(found)
    changes = view.details[1]
    assert isinstance(changes, Lines)
    assert changes.lines[0] == "Instead of buffer-timeout=5ms (as recorded):"
    assert " (doubtful: run 3); predicted p50 unchanged" in changes.lines[2]
    curve = view.page[0]
    assert isinstance(curve, Curves)
    assert curve.labels == ["0", "5ms (as recorded)", "-1"]
    found["runs"][1]["name"] = "segment-size=4kb"
    curve = again_view(found).page[0]
    assert isinstance(curve, Curves)
    assert curve.labels[0] == "buffer-timeout=5ms (as recorded)"


def test_buffers_in_a_second_are_among_the_details() -> None:
    (table,) = (each for each in again_view(document(None)).details if isinstance(each, Table))
    assert [each.name for each in table.heads[1:]] == ["buffers/s predicted", "buffers/s measured"]
    assert table.rows[0].cells[1:] == ["40", "40"]


def test_an_invalid_run_is_not_compared() -> None:
    found = document(None, "rate-not-reached")
    for row in found["runs"]:
        row["is_recorded"] = row["name"].endswith("=0ms")
        for kind in ("measured", "predicted"):
            row[kind] = row[kind] | {"buffers_per_s": 100.0}
    assert change_lines(found)[1].startswith(
        "buffer-timeout=1ms: measured not comparable, invalid: buffer-timeout=1ms; predicted p50"
    )
