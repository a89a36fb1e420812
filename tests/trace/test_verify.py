"""A sound run passes; each rule broken in one place is found there, and named."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from flinknet.core.buffers.data_type import DataType
from flinknet.core.probe import MessageKind, TracePoint
from flinknet.errors import TraceError
from flinknet.trace import ProcessInfo, TraceReader, TraceWriter
from flinknet.trace.run import open_with_faults
from flinknet.trace.verify import Verification, verify_run
from tests.synthetic_trace import event, interleaved, rows, write_run, write_trace

PRODUCER = ProcessInfo("tm-0", "tm-0.fnt", 100)


def select(events: np.ndarray, point: TracePoint, kind: MessageKind, channel: int) -> np.ndarray:
    """Row numbers of the events of one sort on one channel."""
    return np.flatnonzero(
        (events["point"] == point) & (events["kind"] == kind) & (events["channel"] == channel)
    )


def verified(path: Path) -> Verification:
    return verify_run(*open_with_faults(path))


def test_a_sound_run_passes_with_its_counts(tmp_path: Path) -> None:
    result = verified(write_run(tmp_path / "run", channels=3, data_buffers=50))
    assert result.findings == ()
    assert result.is_ok
    assert (result.files, result.channels) == (2, 3)
    assert result.messages_sent == result.messages_received == 3 * (50 + 1 + 25 + 1)
    assert result.events == 2 * result.messages_sent + 3 * 50


def test_sequence_numbers_wrap_round(tmp_path: Path) -> None:
    top = (1 << 31) - 1
    numbers = [top - 1, top, -top - 1, -top]
    sent = [
        event(at_ns=at, channel=0, point=0, kind=0, data_type=1, sequence_number=number)
        for at, number in enumerate(numbers)
    ]
    assert verified(write_trace(tmp_path / "tm-0.fnt", PRODUCER, rows(sent), 2)).is_ok


def test_equal_instants_do_not_confuse_the_order(tmp_path: Path) -> None:
    producer, consumer = interleaved(channels=2, data_buffers=50)
    producer["at_ns"] = consumer["at_ns"] = 1
    run = write_run(tmp_path / "run", producer_rows=producer, consumer_rows=consumer)
    assert verified(run).is_ok


def test_a_buffer_that_is_consumed_before_it_was_received_is_found(tmp_path: Path) -> None:
    producer, consumer = interleaved(channels=2, data_buffers=50)
    came = select(consumer, TracePoint.RECEIVED, MessageKind.BUFFER_RESPONSE, 1)
    consumer["at_ns"][came[20:22]] += 10**9  # a loop that looks at its clock late
    run = write_run(tmp_path / "run", producer_rows=producer, consumer_rows=consumer)
    (finding,) = verified(run).findings
    assert (finding.channel, finding.rule) == (1, "consumption")
    assert re.fullmatch(
        r"sequence number 20 was consumed \d+ ns before it was received \(2 times\)", finding.text
    )


def test_what_is_still_on_its_way_at_the_end_is_no_fault(tmp_path: Path) -> None:
    producer, consumer = interleaved(channels=2, data_buffers=50)
    end_ns = producer["at_ns"][
        select(producer, TracePoint.SENT, MessageKind.BUFFER_RESPONSE, 1)[30]
    ]
    run = write_run(
        tmp_path / "run",
        producer_rows=producer[producer["at_ns"] <= end_ns],
        consumer_rows=consumer[consumer["at_ns"] <= end_ns],
    )
    result = verified(run)
    assert result.is_ok
    assert result.messages_sent == result.messages_received + result.messages_in_flight
    assert result.messages_in_flight == 2


def test_a_channel_is_cancelled_again_as_often_as_that_was_sent(tmp_path: Path) -> None:
    """A consumer that has forgotten it repeats that without a channel, maybe after the end of its
    trace; producers of earlier traces gave it the channel."""
    cancel = {"kind": MessageKind.CANCEL_PARTITION_REQUEST}
    producer, consumer = interleaved(channels=2, data_buffers=50)
    at_ns = int(producer["at_ns"].max()) + 1
    sent = [
        event(at_ns=at_ns, channel=channel, point=TracePoint.SENT, **cancel)
        for channel in (0, 1, -1, -1)
    ]

    def findings(*channels: int) -> list[int | None]:
        came = [
            event(at_ns=at_ns, channel=each, point=TracePoint.RECEIVED, **cancel)
            for each in channels
        ]
        run = write_run(
            tmp_path / str(channels),
            producer_rows=np.concatenate([producer, rows(came)]),
            consumer_rows=np.concatenate([consumer, rows(sent)]),
        )
        return [each.channel for each in verified(run).findings]

    assert findings(0, 1) == []
    assert findings(0, 1, 1, 0) == []
    assert findings(0, 1, 1, 1, 1) == [1]
    assert findings(0, 1, -1, -1, -1) == []


def at_producer(kind: MessageKind, before: int, after: int, value: int = -1, **more: int):
    """An event that changes the credit of a channel."""
    point = TracePoint.SENT if kind == MessageKind.BUFFER_RESPONSE else TracePoint.RECEIVED
    return event(
        at_ns=1,
        channel=4,
        point=point,
        kind=kind,
        credit_before=before,
        credit_after=after,
        value=value,
        **more,
    )


def test_credit_of_a_channel_without_initial_credit_starts_again_when_it_resumes(
    tmp_path: Path,
) -> None:
    data = {"data_type": DataType.DATA_BUFFER}
    barrier = {"data_type": DataType.ALIGNED_CHECKPOINT_BARRIER}
    events = [
        at_producer(MessageKind.PARTITION_REQUEST, 0, 0, 0),
        at_producer(MessageKind.ADD_CREDIT, 0, 3, 3),
        at_producer(MessageKind.BUFFER_RESPONSE, 3, 2, sequence_number=0, **data),
        at_producer(MessageKind.BUFFER_RESPONSE, 2, 2, sequence_number=1, **barrier),
        at_producer(MessageKind.RESUME_CONSUMPTION, -1, -1),
        at_producer(MessageKind.ADD_CREDIT, 0, 1, 1),
        at_producer(MessageKind.BUFFER_RESPONSE, 1, 0, sequence_number=2, **data),
    ]
    assert verified(write_trace(tmp_path / "a.fnt", PRODUCER, rows(events), 2)).is_ok
    events[0] = at_producer(MessageKind.PARTITION_REQUEST, 0, 2, 2)
    assert not verified(write_trace(tmp_path / "b.fnt", PRODUCER, rows(events), 2)).is_ok


Change = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""Makes of the events of one side, with the numbers of the chosen rows, those of a run with an
error."""

CHOSEN = {
    "sent": (0, TracePoint.SENT, MessageKind.BUFFER_RESPONSE),
    "received": (1, TracePoint.RECEIVED, MessageKind.BUFFER_RESPONSE),
    "announced": (1, TracePoint.SENT, MessageKind.ADD_CREDIT),
    "credited": (0, TracePoint.RECEIVED, MessageKind.ADD_CREDIT),
}
"""Whose events they are, of the producer or the consumer, and which of channel 1 are chosen."""


def lose(at: int) -> Change:
    return lambda events, chosen: np.delete(events, chosen[at])


def put(at: int, **columns: int) -> Change:
    def change(events: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        for name, value in columns.items():
            events[name][chosen[at]] = value
        return events

    return change


def add(at: object, **columns: object) -> Change:
    def change(events: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        for name, value in columns.items():
            events[name][chosen[at]] += value
        return events

    return change


def send_data_without_credit(producer: np.ndarray, _: np.ndarray) -> np.ndarray:
    changes = np.flatnonzero((producer["channel"] == 1) & (producer["credit_before"] >= 0))
    return add(changes, credit_before=-2, credit_after=-2)(producer, np.arange(len(producer)))


def use_a_channel_that_does_not_exist(producer: np.ndarray, _: np.ndarray) -> np.ndarray:
    stray = producer[-1:].copy()
    stray["channel"] = 9
    return np.concatenate([producer, stray])


@pytest.mark.parametrize(
    ("chosen", "change", "where", "says"),
    [
        ("sent", add(np.s_[10:], sequence_number=1), (1, "sequence"), "were SENT: 11 follows 9"),
        ("sent", add(np.s_[10:], sequence_number=1), (1, "delivery"), "RESPONSE number 11 differs"),
        ("received", lose(20), (1, "sequence"), "where they were RECEIVED: 21 follows 19"),
        ("received", add([5, 6], sequence_number=[1, -1]), (1, "sequence"), "6 follows 4"),
        ("received", add(7, payload_bytes=1), (1, "delivery"), "BUFFER_RESPONSE number 8"),
        (
            *("received", put(-1, data_type=DataType.END_OF_DATA)),
            *((1, "delivery"), "BUFFER_RESPONSE number 51"),
        ),
        ("sent", lose(-1), (1, "delivery"), "51 BUFFER_RESPONSE messages"),
        ("announced", lose(3), (1, "delivery"), "25 ADD_CREDIT messages"),
        ("credited", lose(3), (1, "credit"), "was 0 after a message and 2 before the next"),
        ("sent", add(-1, credit_after=-1), (1, "credit"), "that leaves"),
        ("sent", send_data_without_credit, (1, "credit"), "data was sent without credit (credit 0"),
        (
            *("received", put(4, credit_before=0, credit_after=-1)),
            *((1, "buffers"), "no free buffer (sequence number 4)"),
        ),
        ("received", add(4, credit_after=-1), (1, "buffers"), "with sequence number 4"),
        ("announced", add(4, credit_before=1), (1, "credit"), "announced 2 of 3 credits"),
        ("sent", use_a_channel_that_does_not_exist, (9, "manifest"), "does not know this channel"),
    ],
)
def test_a_broken_rule_is_found(
    tmp_path: Path, chosen: str, change: Change, where: tuple[int, str], says: str
) -> None:
    sides = list(interleaved(channels=2, data_buffers=50))
    side, point, kind = CHOSEN[chosen]
    sides[side] = change(sides[side], select(sides[side], point, kind, 1))
    run = write_run(tmp_path / "run", producer_rows=sides[0], consumer_rows=sides[1])
    findings = verified(run).findings
    texts = [each.text for each in findings if (each.channel, each.rule) == where]
    assert any(says in text for text in texts), findings
    assert {finding.channel for finding in findings} == {where[0]}


def test_many_violations_of_a_kind_are_one_finding_with_their_number(tmp_path: Path) -> None:
    producer, _ = interleaved(channels=1, data_buffers=50)
    sent = select(producer, TracePoint.SENT, MessageKind.BUFFER_RESPONSE, 0)
    producer["sequence_number"][sent] *= 2
    (finding,) = verified(write_trace(tmp_path / "tm-0.fnt", PRODUCER, producer)).findings
    assert finding.text.endswith("(50 times)")


def test_a_damaged_block_is_named_and_the_others_are_checked(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = run / "tm-1.fnt"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    findings = verified(run).findings
    assert {finding.rule for finding in findings} >= {"checksum"}
    assert {finding.rule for finding in findings} <= {"checksum", "sequence"}
    assert all(finding.file == "tm-1.fnt" for finding in findings)
    (damage,) = (finding for finding in findings if finding.rule == "checksum")
    assert "block" in damage.text
    assert "checksum" in damage.text


def test_a_cut_file_is_one_finding(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    file = run / "tm-0.fnt"
    file.write_bytes(file.read_bytes()[:-2000])
    (finding,) = verified(run).findings
    assert (finding.file, finding.rule) == ("tm-0.fnt", "file")
    assert "no trailer" in finding.text
    assert re.search(r" bytes are lost, the last [\d.e-]+ s of the measured part$", finding.text)


def test_a_foreign_file_in_a_run_is_a_finding_and_alone_an_error(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "tm-0.fnt").write_bytes(b"something else entirely")
    (finding,) = verified(run).findings
    assert "not a flinknet trace" in finding.text
    with pytest.raises(TraceError, match="not a flinknet trace"):
        verified(run / "tm-0.fnt")


def test_dropped_events_are_a_finding(tmp_path: Path) -> None:
    producer, _ = interleaved(channels=1, data_buffers=5)
    with TraceWriter(tmp_path / "tm-0.fnt", PRODUCER) as writer:
        writer.write_events(producer)
        writer.close(dropped_events=12)
    (finding,) = verified(tmp_path / "tm-0.fnt").findings
    assert finding.rule == "dropped"
    assert "12 events" in finding.text


@pytest.mark.parametrize("is_cut", [False, True])
def test_events_that_are_missing_are_no_error_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_cut: bool
) -> None:
    def no_room(_: bytes) -> NoReturn:
        raise TraceError("no room")

    producer, _ = interleaved(channels=2, data_buffers=60)
    parts = np.array_split(producer, 5)
    path = tmp_path / "tm-0.fnt"
    writer = TraceWriter(path, PRODUCER)
    for number, part in enumerate(parts):
        with monkeypatch.context() as patch:
            if number == 2:
                patch.setattr(writer, "_append", no_room)
                with pytest.raises(TraceError):
                    writer.write_events(part)
            else:
                writer.write_events(part)
    size_bytes = writer.size_bytes
    writer.close(dropped_events=len(parts[2]))
    if is_cut:
        os.truncate(path, size_bytes)
    found = {finding.rule: finding.text for finding in verified(path).findings}
    assert found.keys() == ({"file", "dropped"} if is_cut else {"dropped"})
    assert found["dropped"].startswith(f"{len(parts[2])} events could not be written")


@pytest.mark.parametrize("count", [-1, 0, True, "3", 3.0, None, 10**30, [3]], ids=repr)
def test_a_number_of_missing_events_that_cannot_be_is_not_believed(
    tmp_path: Path, count: object
) -> None:
    producer, _ = interleaved(channels=1, data_buffers=20)
    producer = np.delete(producer, len(producer) // 2)
    with TraceWriter(tmp_path / "tm-0.fnt", PRODUCER) as writer:
        writer.write_events(producer[: len(producer) // 2])
        writer.write_meta({"dropped_events": count})
        writer.write_events(producer[len(producer) // 2 :])
    assert not {each.rule for each in verified(tmp_path / "tm-0.fnt").findings} & {"dropped"}
    assert not verified(tmp_path / "tm-0.fnt").is_ok


def test_a_trailer_with_a_number_of_missing_events_that_cannot_be_is_not_believed(
    tmp_path: Path,
) -> None:
    producer, _ = interleaved(channels=1, data_buffers=5)
    with TraceWriter(tmp_path / "tm-0.fnt", PRODUCER) as writer:
        writer.write_events(producer)
        writer.close(dropped_events=(1 << 64) - 1)
    (finding,) = verified(tmp_path / "tm-0.fnt").findings
    assert finding.rule == "file"
    assert "no trailer" in finding.text


def test_a_description_is_not_read_for_gaps(tmp_path: Path) -> None:
    producer, _ = interleaved(channels=1, data_buffers=20)
    with TraceWriter(tmp_path / "tm-0.fnt", PRODUCER) as writer:
        writer.write_meta({"dropped_events": 3, "about": "x" * 100})
        writer.write_events(producer)
    assert verified(tmp_path / "tm-0.fnt").is_ok


def test_what_is_wrong_behind_a_gap_is_found(tmp_path: Path) -> None:
    producer, _ = interleaved(channels=1, data_buffers=60)
    parts = np.array_split(producer, 8)
    for part in parts[6:]:  # right only within each block
        part["sequence_number"][part["kind"] == MessageKind.BUFFER_RESPONSE] += 1
    path = tmp_path / "tm-0.fnt"
    with TraceWriter(path, PRODUCER) as writer:
        for number, part in enumerate(parts):
            if number == 2:
                writer.drop(len(part))
            else:
                writer.write_events(part)
    assert {each.rule for each in verified(path).findings} == {"dropped", "sequence"}


def test_a_channel_whose_request_is_missing_may_be_without_initial_credit(tmp_path: Path) -> None:
    def resumed(gap: int) -> Verification:
        path = tmp_path / f"{gap}.fnt"
        with TraceWriter(path, PRODUCER) as writer:
            writer.write_events(rows([at_producer(MessageKind.PARTITION_REQUEST, 0, 2, 2)]))
            writer.drop(gap)
            writer.write_events(
                rows(
                    [
                        at_producer(MessageKind.ADD_CREDIT, 0, 3, 3),
                        at_producer(MessageKind.RESUME_CONSUMPTION, -1, -1),
                        at_producer(MessageKind.ADD_CREDIT, 0, 1, 1),
                    ]
                )
            )
        return verified(path)

    assert {each.rule for each in resumed(gap=5).findings} == {"dropped"}
    assert {each.rule for each in resumed(gap=0).findings} == {"credit"}


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_damaged_block_is_no_error_of_the_protocol(tmp_path: Path, is_cut: bool) -> None:
    producer, _ = interleaved(channels=2, data_buffers=60)
    path = tmp_path / "tm-0.fnt"
    with TraceWriter(path, PRODUCER) as writer:
        for rows in np.array_split(producer, 5):
            writer.write_events(rows)
    with TraceReader(path) as reader:
        block = reader.blocks()[2]
    damaged = bytearray(path.read_bytes())
    damaged[block.offset + block.length_bytes - 3] ^= 0x10
    path.write_bytes(damaged[:-5] if is_cut else damaged)
    rules = {finding.rule for finding in verified(path).findings}
    assert rules == ({"file", "checksum"} if is_cut else {"checksum"})


def test_a_file_of_another_process_is_found(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    (run / "tm-0.fnt").rename(run / "swap")
    (run / "tm-1.fnt").rename(run / "tm-0.fnt")
    (run / "swap").rename(run / "tm-1.fnt")
    assert {finding.rule for finding in verified(run).findings} == {"manifest"}
