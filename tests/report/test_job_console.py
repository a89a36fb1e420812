"""Jobs on a terminal: where they stand, and whole tables of what they did."""

from __future__ import annotations

import io
from dataclasses import replace

from rich.console import Console

from flinknet.report.job import JobView, cluster_view, job_view, status_line, status_view
from flinknet.results import (
    BacklogSummary,
    ClusterJob,
    ClusterStatus,
    ConnectionStatus,
    EdgeMeasured,
    JobResult,
    JobStatus,
    LatencySummary,
    RunWarning,
    TaskManagerStatus,
    VertexMeasured,
    VertexStatus,
)
from tests.report.printing import printed

S = 1_000_000_000

STATUS = JobStatus(
    "id",
    "Count",
    "RUNNING",
    "",
    0,
    2 * S,
    0,
    (
        VertexStatus(0, "A: in", 1, 0, 5000, 0.25, 0.25, 0.5, "running", 0),
        VertexStatus(1, "B", 2, 4000, 0, 1.0, 0.0, 0.0, "running", 1, 2000.0),
    ),
    (TaskManagerStatus(0, 100, "ready", 2, 1, 7, 0), TaskManagerStatus(1, 101, "lost", 2, 0, 3, 0)),
)

RESULT = JobResult(
    "id",
    "Count",
    "/job.py",
    (),
    "failed",
    "B (1/2) failed in attempt 1: ValueError: no",
    2,
    3 * S,
    2 * S,
    {},
    (
        VertexMeasured(0, "A: in", 1, 0, 5000, 0.25, 0.25, 0.5, None, ()),
        VertexMeasured(
            1, "B", 2, 4000, 0, 1.0, 0.0, 0.0, LatencySummary(4000, p50=5e6, p99=9e6), ()
        ),
    ),
    (
        EdgeMeasured(
            0, "A: in", "B", "hash", 2, 1, 4000, 0, 2000.0, 2048.0, 9, BacklogSummary(1.5, 3), S
        ),
    ),
    {"tm-0->tm-1": 1},
    (),
    None,
    "B: it is busy.",
    (RunWarning("some-doubt", "of the result."),),
    None,
)


def shown(console_call: str, *arguments: object, width: int = 120) -> str:
    views = {"job": job_view, "status": status_view, "cluster": cluster_view}
    return printed(views[console_call](*arguments), width=width)  # type: ignore[operator]


def test_a_result_has_a_table_of_vertices_and_one_of_edges() -> None:
    assert (
        shown("job", RESULT.to_dict())
        == """\
ran        Count: failed after 3.00 s, 2 restarts; 2.00 k records/s
verdict    B (1/2) failed in attempt 1: ValueError: no; B: it is busy
trust      fair: of the result

vertex  tasks  records in  records out  busy  idle  pressed      p50      p99
A: in       1                   5.00 k   25%   25%      50%
B           2      4.00 k               100%    0%       0%  5.00 ms  9.00 ms

edge               channels  local  records  records/s   bytes/s  buffers  backlog  max  no credit
1 A: in -hash-> B         2      1   4.00 k     2.00 k  2.00 KiB        9     1.50    3     1.00 s
  tm-0->tm-1: 1 channel on one connection
! Warning: of the result."""
    )


def test_a_job_that_failed_is_not_trusted_for_want_of_a_warning() -> None:
    failed = replace(RESULT, warnings=()).to_dict()
    assert "trust" not in shown("job", failed)
    assert "trust      good" in shown("job", failed | {"state": "finished"})


def test_a_status_says_with_whom_a_job_shares_its_connections() -> None:
    status = replace(
        STATUS,
        connections=(
            ConnectionStatus("tm-0->tm-1", 4, ("Other",)),
            ConnectionStatus("tm-0->tm-1#1", 1, (), 2),
        ),
        other_jobs=(ClusterJob("x", "Other", "RUNNING", "/runs/other", 1),),
    )
    assert shown("status", status).splitlines()[-3:] == [
        "  tm-0->tm-1: 4 channels on one connection, shared with Other",
        "  tm-0->tm-1#1: 1 channel on one connection of its own; 2 jobs that ended had it before",
        "  shares with: Other, running, 1 slot, /runs/other",
    ]
    alone = replace(status, connections=status.connections[1:], other_jobs=())
    assert shown("status", alone).splitlines()[-1] == (
        "  tm-0->tm-1#1: 1 channel on one connection; 2 jobs that ended had it before"
    )


def test_a_cluster_is_shown_with_its_jobs_and_free_slots() -> None:
    jobs = (ClusterJob("1234", "Count", "RUNNING", "/runs/count", 1),)
    cluster = ClusterStatus(True, 2, {}, jobs, STATUS.task_managers)
    assert (
        shown("cluster", cluster)
        == """\
cluster    1 TaskManager, 1 job, 1 of 2 slots free

job      id    state  slots  directory
Count  1234  running      1  /runs/count

TaskManager  pid  state  slots in use  heartbeats
tm-0         100  ready        1 of 2           7
tm-1         101   lost        0 of 2           3"""
    )
    empty = replace(cluster, jobs=(), task_managers=STATUS.task_managers[:1])
    assert shown("cluster", empty).splitlines()[0] == (
        "cluster    1 TaskManager, 0 jobs, 1 of 2 slots free"
    )


def test_names_of_vertices_are_no_markup() -> None:
    (first, *others), edges = RESULT.vertices, RESULT.edges
    named = replace(
        RESULT,
        vertices=(replace(first, name="[/x]y"), *others),
        edges=tuple(replace(each, source="[/x]y") for each in edges),
    )
    assert shown("job", named.to_dict()).count("[/x]y") == 2
    status = replace(STATUS, vertices=(replace(STATUS.vertices[0], name="[/x]y"),))
    assert "[/x]y" in shown("status", status)


def test_a_job_that_never_began_has_its_reason() -> None:
    never = replace(RESULT, vertices=(), edges=(), reason="too few slots", restarts=0)
    assert shown("job", never.to_dict()).split("\n")[:2] == [
        "ran        Count: failed after 3.00 s",
        "verdict    too few slots; B: it is busy",
    ]
    canceled = replace(never, state="canceled", reason="it was canceled", duration_ns=0)
    assert shown("job", canceled.to_dict()).startswith("ran        Count: canceled before it began")


def test_a_status_has_a_table_of_vertices_and_one_of_task_managers() -> None:
    assert (
        shown("status", STATUS)
        == """\
job        Count: running, 2.00 k records/s

vertex  tasks    state  attempt  records in      /s  records out  busy  pressed
A: in       1  running        0                           5.00 k   25%      50%
B           2  running        1      4.00 k  2.00 k               100%       0%

TaskManager  pid  state  slots in use  heartbeats
tm-0         100  ready        1 of 2           7
tm-1         101   lost        0 of 2           3"""
    )


def test_a_line_has_what_there_is_to_show() -> None:
    actual = replace(
        STATUS, restarts=1, reason="tm-1 is lost", checkpoints=2, latency_ns_p99=5_000_000.0
    )
    assert status_line(actual) == (
        "Count: running, 1 restart, 2.00 k records/s, p99 5.00 ms, 2 checkpoints, tm-1 is lost"
    )


def test_off_a_terminal_changes_are_reported_at_once_and_the_rest_now_and_then() -> None:
    file = io.StringIO()
    with JobView(Console(file=file, width=120)) as view:
        for state, elapsed_s in (("CREATED", 0), ("CREATED", 1), ("RUNNING", 2), ("RUNNING", 8)):
            view.update(replace(STATUS, state=state, elapsed_ns=elapsed_s * S, vertices=()))
        view.update(replace(STATUS, state="RUNNING", elapsed_ns=14 * S))
    assert file.getvalue().splitlines() == [
        "Count: created",
        "Count: running",  # and not again, where nothing has changed
        "Count: running, 2.00 k records/s",
    ]
