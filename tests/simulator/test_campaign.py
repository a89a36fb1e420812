"""The campaign: failing trials are made smaller, and its parts do what they say."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from flinknet.core.buffers import DataType
from flinknet.core.wire.messages import AddCredit, BacklogAnnouncement
from flinknet.errors import LocalTransportError
from tests.campaign import trial
from tests.campaign.disk import Disk, DiskFaults
from tests.campaign.draw import Draw
from tests.campaign.hostile import waits_for_floating_buffers
from tests.campaign.marks import MARKS
from tests.campaign.trial import Marks, failure_of, smaller
from tests.faults import ChangedClock, ClockChange
from tests.mutants import kept as kept_mutants
from tests.mutants.kept import keep, kept
from tests.mutants.mutants import FLINKNET, MUTANTS
from tests.pair import OTHER_RECEIVER, RECEIVER, partition_id
from tests.peers.by_producers import buffer


def too_large(draw: Draw, marks: Marks) -> None:
    """Fails for what a third of the seeds draw."""
    draw.below("of no importance", 100)
    if draw.below("size", 1000) >= 667:
        raise ValueError(f"too large in trial {draw.seed}")


def test_a_failing_trial_is_made_smaller_and_can_be_repeated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "run_trial", too_large)
    failures = [failure_of(seed, Counter()) for seed in range(100)]
    found = [each for each in failures if each is not None]
    assert 20 < len(found) < 50
    small = smaller(found[0])
    assert small.choices == {"size": 667}
    again = failure_of(small.seed, Counter(), small.choices)
    assert again is not None
    assert again.kind == small.kind == "ValueError: too large in trial N"
    assert small.command.endswith("--choices '{\"size\": 667}'")


def test_what_a_pinned_trial_fails_with_is_made_smaller_without_the_pin(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trial, "run_trial", too_large)
    failure = failure_of(1, Counter(), pinned={"size": 5000})
    assert failure is not None
    assert failure.choices is not None
    assert failure.choices["size"] == 999
    assert smaller(failure).choices == {"size": 667}


def test_a_choice_that_is_made_otherwise_changes_no_other() -> None:
    names = [str(number) for number in range(20)]
    free, pinned = Draw(7), Draw(7, pinned={"3": 1})
    assert [free.below(each, 1000) for each in names if each != "3"] == [
        pinned.below(each, 1000) for each in names if each != "3"
    ]
    assert pinned.below("3", 1000) == 1


def test_states_are_listed_once_and_mutants_fit_their_sources() -> None:
    assert len(set(MARKS)) == len(MARKS)
    assert len(MUTANTS) >= 60
    for mutant in MUTANTS:
        compile(mutant.applied_to((FLINKNET / mutant.path).read_text()), mutant.path, "exec")


def test_who_has_found_a_mutant_is_known_until_it_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "new" / "mutants.jsonl"
    assert kept(path) == {}
    keep(3, "nobody", path)
    keep(3, "simulation (run 4)", path)
    keep(5, "nobody", path)
    assert kept(path) == {3: "simulation (run 4)", 5: "nobody"}
    changed = (*MUTANTS[:5], replace(MUTANTS[5], after="pass"), *MUTANTS[6:])
    monkeypatch.setattr(kept_mutants, "MUTANTS", changed)
    assert kept(path) == {3: "simulation (run 4)"}


@pytest.mark.parametrize(
    ("data", "is_one"),
    [
        (BacklogAnnouncement(1, RECEIVER).encode(), True),
        (BacklogAnnouncement(1, RECEIVER).encode() + b"garbage", True),
        (BacklogAnnouncement(0, RECEIVER).encode(), False),
        (BacklogAnnouncement(1, RECEIVER).encode()[:-1], False),
        (BacklogAnnouncement(1, OTHER_RECEIVER).encode(), False),
        (AddCredit(1, RECEIVER).encode(), False),
        (buffer(to=RECEIVER, kind=DataType.ALIGNED_WATERMARK_EVENT).encode(), True),
        (buffer(to=OTHER_RECEIVER, kind=DataType.ALIGNED_WATERMARK_EVENT).encode(), False),
        (buffer(to=RECEIVER, kind=DataType.END_OF_DATA).encode(), False),
        (b"garbage of any kind", False),
    ],
)
def test_what_may_take_floating_buffers_is_recognized(data: bytes, is_one: bool) -> None:
    assert waits_for_floating_buffers(data, [RECEIVER]) is is_one


CLOCKS = {
    "slow": (ClockChange(100, 0, 900_000),),
    "fast": (ClockChange(100, 0, 1_300_000),),
    "jumps": (ClockChange(100, 70), ClockChange(300, 10, 1_100_000)),
    "stands": (ClockChange(100, -50), ClockChange(400, -10, 990_000)),
}


@pytest.mark.parametrize("changes", CLOCKS.values(), ids=CLOCKS)
def test_a_clock_never_goes_back_and_tells_when_it_shows_something(
    changes: tuple[ClockChange, ...],
) -> None:
    clock = ChangedClock(0, changes)
    shown = [clock.host_ns(at_ns) for at_ns in range(600)]
    assert shown == sorted(shown)
    for shown_ns in range(shown[-1]):
        first_ns = next(at_ns for at_ns, each in enumerate(shown) if each >= shown_ns)
        assert clock.virtual_ns(shown_ns) == first_ns
    for at_ns in range(500):
        assert clock.virtual_ns(clock.next_host_ns(at_ns)) >= at_ns


@pytest.mark.parametrize(
    ("faults", "error"),
    [
        (DiskFaults(), None),
        (DiskFaults(write_bytes_max=3), None),
        (DiskFaults(room_bytes=50), "No space left"),
        (DiskFaults(failing_read=2), "Input/output error"),
    ],
)
def test_a_spill_file_survives_short_writes_and_reports_what_it_cannot_do(
    faults: DiskFaults, error: str | None
) -> None:
    disk = Disk(faults)
    file = disk.create_data(partition_id(), "data")
    found = [memoryview(bytearray(100)) for _ in range(2)]

    def write_and_read() -> None:
        file.write([b"a" * 60, b"b" * 40])
        file.finish()
        for each in found:
            assert file.read(0, [each]) == 100

    with disk:
        if error is None:
            write_and_read()
            assert all(bytes(each) == b"a" * 60 + b"b" * 40 for each in found)
        else:
            with pytest.raises(LocalTransportError, match=error):
                write_and_read()
        file.release()
