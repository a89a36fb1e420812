"""`trace verify`: checks that a run is complete and follows the rules of credit-based flow control.

Findings are values; nothing is printed here, and a damaged file never stops the checks of others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from flinknet.arrays import EventColumns
from flinknet.errors import TraceDamagedError, TraceError, TraceFormatError

from .blocks import IntArray
from .checks import (
    CHECKED_COLUMNS,
    ConsumptionCheck,
    CreditCheck,
    DeliveryCheck,
    SequenceCheck,
    Violation,
    Violations,
)
from .manifest import CAPTURE, CAPTURE_NAME
from .plain_text import read_document
from .reader import TraceReader
from .run import Fault, Run, faults_of_documents


@dataclass(frozen=True, slots=True)
class Finding:
    file: str | None  # None: found only between files
    channel: int | None
    rule: str  # file, checksum, dropped, manifest, capture, sequence, credit, buffers, delivery,
    # consumption, clock
    text: str  # description with location, for display


@dataclass(frozen=True, slots=True)
class Verification:
    """Extent of the checks, and the findings."""

    files: int
    blocks: int
    events: int
    size_bytes: int
    channels: int
    messages_sent: int
    messages_received: int
    messages_in_flight: int  # of channels whose two ends were recorded: sent, not received
    is_from_between: bool  # recorded where messages passed, each of them once
    is_being_written: bool
    findings: tuple[Finding, ...]

    @property
    def is_ok(self) -> bool:
        return not self.findings


def verify_run(
    run: Run, faults: Sequence[Fault] = (), *, is_being_written: bool = False
) -> Verification:
    """Check all checksums and rules of a run. While it is being written, its files have no end, and
    its manifest may lag behind them.

    Args:
        faults: contradictions to its manifest, found when it was opened.

    Raises: TraceError if it is a single trace file that cannot be opened.
    """
    findings = [Finding(fault.file, None, "manifest", fault.text) for fault in faults]
    if run.manifest is not None:
        if run.manifest.origin == CAPTURE:
            capture = read_document(run.path / CAPTURE_NAME)
            findings += _findings_of_capture(capture)
            if not (capture or is_being_written or CAPTURE_NAME in run.manifest.files):
                text = "it is missing or damaged, so what the capture lacks is unknown"
                findings.append(Finding(CAPTURE_NAME, None, "capture", text))
        for fault in faults_of_documents(run):
            findings.append(Finding(fault.file, None, "checksum", fault.text))
    clock_error_ns = 0 if run.manifest is None else run.manifest.clock.error_ns
    delivery = DeliveryCheck(clock_error_ns)
    is_gapless = is_sent_complete = True
    blocks = events = size_bytes = 0
    channels: set[int] = set()
    with ExitStack() as stack:
        for file in run.files:
            try:
                reader = stack.enter_context(TraceReader(file))
            except TraceError as error:
                if run.manifest is None:
                    raise
                text = str(error).removeprefix(f"{file.path}: ")
                findings.append(Finding(file.name, None, "file", text))
                is_sent_complete = False
                continue
            of_file = list(_file_findings(reader, run, is_being_written=is_being_written))
            held = _channels_of(reader)
            violations = Violations()
            for block in _checked_blocks(reader, held, violations, of_file):
                delivery.feed(block)
                blocks += 1
                events += len(block["channel"])
            of_file += [_finding(file.name, violation) for violation in violations]
            findings += of_file
            is_sent_complete &= reader.is_whole
            is_gapless &= not any(finding.rule in ("checksum", "dropped") for finding in of_file)
            size_bytes += reader.size_bytes
            channels.update(held.tolist())
    if is_gapless:
        violations_between = delivery.compare(is_sent_complete=is_sent_complete)
        findings += [_finding(None, violation) for violation in violations_between]
    return Verification(
        len(run.files),
        blocks,
        events,
        size_bytes,
        len(channels - {-1}),
        *delivery.totals(),
        run.manifest is not None and run.manifest.is_from_between,
        is_being_written,
        tuple(findings),
    )


def _findings_of_capture(capture: dict[str, Any]) -> Iterator[Finding]:
    """Findings from the capture's own counts of missing data, which messages do not show."""
    texts = []
    with suppress(KeyError, TypeError):  # an edited document
        if count := capture["packets"]["unread_blocks"]:
            texts.append(f"{count} blocks of the capture could not be read: packets are missing")
    connections = capture.get("connections")
    for each in connections if isinstance(connections, list) else ():
        for direction, end in (("data", "producer"), ("credit", "consumer")):
            with suppress(KeyError, TypeError):
                sent = f"that the {end} of {each['connection']} sent"
                if each["missing_direction"] == direction:
                    texts.append(f"nothing {sent} is in the capture")
                elif count := each["tcp"][direction]["missing_bytes"]:
                    texts.append(f"{count} bytes {sent} are missing in the capture")
    for text in texts:
        yield Finding(CAPTURE_NAME, None, "capture", text)


def _file_findings(reader: TraceReader, run: Run, *, is_being_written: bool) -> Iterator[Finding]:
    name = reader.path.name
    cut = reader.truncation
    if cut is not None and (cut.gap_bytes or not is_being_written):
        text = (
            "there is no trailer, so its process did not end cleanly or the file was cut:"
            f" {cut.whole_blocks} whole blocks are readable, {cut.lost_bytes} bytes are lost"
        )
        until_ns = (run.manifest and run.manifest.measured_to_ns) or 0
        last_ns = max((each.last_ns for each in reader.blocks()), default=until_ns)
        if last_ns < until_ns:
            text += f", the last {(until_ns - last_ns) / 1e9:.3g} s of the measured part"
        yield Finding(name, None, "file", text)
        if cut.gap_bytes:
            text = f"{cut.gap_bytes} of them are damaged, with readable blocks behind them"
            yield Finding(name, None, "checksum", text)
    dropped_events = max(reader.dropped_events or 0, sum(reader.gaps().values()))
    if dropped_events:
        text = f"{dropped_events} events could not be written when it was recorded"
        yield Finding(name, None, "dropped", text)
    try:
        reader.meta()
    except TraceFormatError as error:
        text = str(error).removeprefix(f"{reader.path}: ")
        yield Finding(name, None, "checksum", text)
    if run.manifest is not None and not is_being_written:
        known = {channel.index for channel in run.manifest.channels} | {-1}
        for channel in _channels_of(reader).tolist():
            if channel not in known:
                yield Finding(name, channel, "manifest", "the manifest does not know this channel")


def _checked_blocks(
    reader: TraceReader, channels: IntArray, violations: Violations, findings: list[Finding]
) -> Iterator[EventColumns]:
    """Check and return every readable block; adds a finding for each unreadable one."""
    by_channel = SequenceCheck(channels, violations), CreditCheck(channels, violations)
    checks = *by_channel, ConsumptionCheck(violations)
    gaps = reader.gaps()
    is_missing, before = False, -1
    for index, number in enumerate(reader.numbers):
        is_missing |= any(before < gap <= number for gap in gaps)
        before = number
        try:
            reader.check_block(index)
            block = reader.read_block(index, CHECKED_COLUMNS)
        except TraceDamagedError as error:
            findings.append(Finding(reader.path.name, None, "checksum", error.damage))
            is_missing = True
            continue
        for check in checks:
            if is_missing:
                check.forget()
            check.feed(block)
        is_missing = False
        yield block


def _channels_of(reader: TraceReader) -> IntArray:
    entries = [entry.channels["channel"] for entry in reader.blocks()]
    return np.unique(np.concatenate(entries)) if entries else np.zeros(0, dtype=np.int32)


def _finding(file: str | None, violation: Violation) -> Finding:
    more = f" ({violation.times} times)" if violation.times > 1 else ""
    return Finding(file, violation.channel, violation.rule, violation.first + more)
