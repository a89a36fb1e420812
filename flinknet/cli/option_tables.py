"""Tables of the options that commands share: what each sets, its parser, its help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flinknet import options as flink
from flinknet.config import (
    CUSTOM_PARTITIONER,
    FLOW_CONTROLS,
    PARTITION_TYPES,
    PARTITIONERS,
    SCHEDULINGS,
)
from flinknet.units import format_duration_ns

from . import value_parsers

DEFAULT_DURATION_NS = 3_000_000_000
PLACEMENTS = ("split", "spread")
ARRIVALS = ("constant", "poisson", "bursts")

NETWORK_OPTIONS: Mapping[str, tuple[str, str, str]] = {
    "buffer-timeout": (
        flink.BUFFER_TIMEOUT,
        "LIST",
        "How long a record may wait in a buffer that is not full: 0 sends each record, -1 full"
        " buffers only. [default: 100ms]",
    ),
    "exclusive-buffers": (flink.EXCLUSIVE_BUFFERS, "LIST", "Buffers per channel. [default: 2]"),
    "floating-buffers": (
        flink.FLOATING_BUFFERS,
        "LIST",
        "Buffers per gate, shared by its channels. [default: 8]",
    ),
    "segment-size": (flink.SEGMENT_SIZE, "LIST", "Size of a buffer. [default: 32kb]"),
    "checkpoint-interval": (
        flink.CHECKPOINT_INTERVAL,
        "LIST",
        "Send checkpoint barriers this often and measure how they travel; how they are aligned is"
        " up to Flink's execution.checkpointing keys. [default: never]",
    ),
}
"""Named option -> Flink's key, metavar, help."""


@dataclass(frozen=True, slots=True)
class WorkloadOption:
    """A bench option: the WorkloadConfig field it sets, its parser, metavar and help."""

    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str


WORKLOAD_OPTIONS: Mapping[str, WorkloadOption] = {
    "rate": WorkloadOption(
        "rate_per_s",
        value_parsers.rate,
        "RATE",
        "Records per second of each producer, such as 20000/s or 20k/s; max: as fast as it goes."
        " [default: max]",
    ),
    "record-size": WorkloadOption(
        "record_size",
        value_parsers.record_size,
        "SIZE",
        "Size of a record's value, or a range of sizes 100b..1kb (uniform). [default: 100b]",
    ),
    "producers": WorkloadOption(
        "producers", value_parsers.count("--producers"), "N", "Producing tasks. [default: 1]"
    ),
    "consumers": WorkloadOption(
        "consumers", value_parsers.count("--consumers"), "N", "Consuming tasks. [default: 1]"
    ),
    "task-managers": WorkloadOption(
        "task_managers",
        value_parsers.count("--task-managers"),
        "N",
        "Processes that the tasks are put on. [default: 2, and one more for each relay]",
    ),
    "placement": WorkloadOption(
        "placement",
        value_parsers.choice("--placement", PLACEMENTS),
        "|".join(PLACEMENTS),
        "split: producers and consumers have processes of their own, so that every channel crosses"
        " a connection. spread: task i of each sits on process i, in turns; channels within a"
        " process are local. [default: split]",
    ),
    "relays": WorkloadOption(
        "relays",
        value_parsers.number("--relays"),
        "N",
        "Stages between producers and consumers that pass records on. [default: 0]",
    ),
    "relay-delay": WorkloadOption(
        "relay_delay_ns_per_record",
        value_parsers.duration("--relay-delay"),
        "TIME",
        "Time each relay takes for a record. [default: 0]",
    ),
    "flow-control": WorkloadOption(
        "flow_control",
        value_parsers.choice("--flow-control", FLOW_CONTROLS),
        "|".join(FLOW_CONTROLS),
        "What keeps a producer from flooding its consumer: credit, or tcp as before Flink 1.5,"
        " where a slow channel stops its neighbours. [default: credit]",
    ),
    "partitioner": WorkloadOption(
        "partitioner",
        value_parsers.partitioner,
        "|".join((*PARTITIONERS, CUSTOM_PARTITIONER + "MODULE:FUNCTION")),
        "Which consumer gets a record. [default: rebalance]",
    ),
    "partition-type": WorkloadOption(
        "partition_type",
        value_parsers.choice("--partition-type", PARTITION_TYPES),
        "|".join(PARTITION_TYPES),
        "When consumers may read: while the producers write, or (blocking) when all is written."
        " [default: pipelined-bounded; with -D execution.runtime-mode=BATCH what"
        " execution.batch-shuffle-mode says]",
    ),
    "scheduling": WorkloadOption(
        "scheduling",
        value_parsers.choice("--scheduling", SCHEDULINGS),
        "|".join(SCHEDULINGS),
        "What consumers wait for before they start, as before Flink's pipelined regions. [default:"
        " complete-output for blocking exchanges, else all-at-once]",
    ),
    "arrivals": WorkloadOption(
        "arrivals",
        value_parsers.choice("--arrivals", ARRIVALS),
        "|".join(ARRIVALS),
        "How records of a given rate are spread over time. [default: constant]",
    ),
    "slow-consumer": WorkloadOption(
        "slow_consumers",
        value_parsers.slow_consumers,
        "INDEX:DELAY[:TIME]",
        "Let a consumer take DELAY for each record; `pause` stops it for the whole run. With TIME,"
        " for so long from the start of the measured part. May be repeated.",
    ),
    "records": WorkloadOption(
        "records",
        value_parsers.count("--records"),
        "N",
        "Records of each producer in the measured part, instead of a duration.",
    ),
    "duration": WorkloadOption(
        "duration_ns",
        value_parsers.measured_part,
        "TIME",
        "Length of the measured part. Records of a --rate that fell due in it are sent for 10s"
        " behind its end at most; the others are given up, with a warning."
        f" [default: {format_duration_ns(DEFAULT_DURATION_NS)}]",
    ),
    "warmup": WorkloadOption(
        "warmup_ns",
        value_parsers.duration("--warmup"),
        "TIME",
        "Time before the measured part, recorded and left out. [default: 500ms]",
    ),
}
"""Bench option -> what it sets."""
