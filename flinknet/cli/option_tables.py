"""Tables of the options that commands share: the field or key of each, its parser and its help; and
effects of the exchange's type on other settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from flinknet import options as flink
from flinknet.config import (
    ARRIVAL_LAWS,
    BLOCKING,
    BUFFER_TIMEOUT_NEVER_NS,
    CUSTOM_PARTITIONER,
    FLOW_CONTROLS,
    PARTITION_TYPES,
    PARTITIONERS,
    PIPELINED_BOUNDED,
    SCHEDULINGS,
    NetworkConfig,
    WorkloadConfig,
)
from flinknet.errors import ConfigError
from flinknet.options.keys import (
    BATCH_SHUFFLE_COMPRESSION,
    BATCH_SHUFFLE_MODE,
    COMPRESSION_CODEC,
    RUNTIME_MODE,
)
from flinknet.options.link import parse_link
from flinknet.results import RunWarning
from flinknet.units import format_duration_ns

from . import value_parsers

DEFAULT_BLOCKING_RECORDS = 1_000_000
"""Records of each producer by default; with a duration, the size on disk would depend on speed."""

_BLOCKING_KEYS = {
    COMPRESSION_CODEC: "compression_codec",
    "taskmanager.network.sort-shuffle.min-buffers": "sort_shuffle_min_buffers",
    "taskmanager.network.sort-shuffle.min-parallelism": "sort_shuffle_min_parallelism",
}
"""Keys that act only in blocking exchanges, with their settings. Other exchanges get the defaults,
so that configurations that differ only in these keys are equal."""

_TYPES = {
    "ALL_EXCHANGES_BLOCKING": BLOCKING,
    "ALL_EXCHANGES_PIPELINED": PIPELINED_BOUNDED,
}


def partition_type_of(network: Mapping[str, str]) -> str:
    """The exchange type that follows from Flink's keys: pipelined and bounded in streaming jobs,
    by `execution.batch-shuffle-mode` in batch jobs.

    Raises: ConfigError for hybrid exchanges, which flinknet lacks.
    """
    if network.get(RUNTIME_MODE, "STREAMING").upper() == "STREAMING":
        return PIPELINED_BOUNDED
    mode = network.get(BATCH_SHUFFLE_MODE, "ALL_EXCHANGES_BLOCKING").upper()
    if mode not in _TYPES:
        raise ConfigError(
            f"{BATCH_SHUFFLE_MODE}: flinknet has no {mode}, for its tiers (memory, disk, remote)"
            f" are out of scope; use {' or '.join(_TYPES)}"
        )
    return _TYPES[mode]


def with_exchange(
    network: NetworkConfig,
    workload: WorkloadConfig,
    settings: Mapping[str, str],
    given: Mapping[str, str],
) -> tuple[NetworkConfig, WorkloadConfig, tuple[RunWarning, ...]]:
    """The configuration adapted to its exchange type, and warnings.

    Args:
        settings: Flink's keys from the user.
        given: bench options from the user.

    Raises: ConfigError for settings that contradict each other.
    """
    if "partition-type" not in given:
        workload = replace(workload, partition_type=partition_type_of(settings))
    if not workload.is_blocking:
        usual = {name: getattr(NetworkConfig(), name) for name in _BLOCKING_KEYS.values()}
        return replace(network, **usual), workload, _ignored(workload, settings)
    if workload.slow_consumers and any(
        each.delay_ns_per_record < 0 for each in workload.slow_consumers
    ):
        raise ConfigError("--slow-consumer: pausing one means nothing when all start at the end")
    if network.buffer_timeout_ns != BUFFER_TIMEOUT_NEVER_NS and flink.BUFFER_TIMEOUT in settings:
        raise ConfigError(
            f"{flink.BUFFER_TIMEOUT}: a blocking exchange has no buffer timeout, for nothing is"
            " read before its end; leave it out"
        )
    if settings.get(BATCH_SHUFFLE_COMPRESSION, "true").lower() == "false":
        network = replace(network, compression_codec="NONE")
    from flinknet.core.wire.compression import CompressionCodec, check_codec

    check_codec(CompressionCodec(network.compression_codec))
    network = replace(network, buffer_timeout_ns=BUFFER_TIMEOUT_NEVER_NS)
    if "warmup" not in given:
        workload = replace(workload, warmup_ns=0)
    if workload.records is None and workload.duration_ns is None:
        workload = replace(workload, records=DEFAULT_BLOCKING_RECORDS)
    return network, workload, ()


def _ignored(workload: WorkloadConfig, settings: Mapping[str, str]) -> tuple[RunWarning, ...]:
    ignored = [key for key in (*_BLOCKING_KEYS, BATCH_SHUFFLE_COMPRESSION) if key in settings]
    if not ignored:
        return ()
    text = (
        f"{', '.join(ignored)}: ignored by Flink and flinknet in {workload.partition_type}"
        " exchanges; only --partition-type blocking uses it"
    )
    return (RunWarning("acts-in-blocking-exchanges", text),)


DEFAULT_DURATION_NS = 3_000_000_000
PLACEMENTS = ("split", "spread")

NETWORK_OPTIONS: Mapping[str, tuple[str, str, str]] = {
    "buffer-timeout": (
        flink.BUFFER_TIMEOUT,
        "LIST",
        "How long a record may wait in a buffer that is not full; 0 sends each record at once, -1"
        " sends only full buffers. [default: 100ms]",
    ),
    "exclusive-buffers": (
        flink.EXCLUSIVE_BUFFERS,
        "LIST",
        "Exclusive buffers of each channel; ignored by Flink 2.x. [default: 2]",
    ),
    "floating-buffers": (
        flink.FLOATING_BUFFERS,
        "LIST",
        "Buffers of each gate for any of its channels; ignored by Flink 2.x. [default: 8]",
    ),
    "segment-size": (flink.SEGMENT_SIZE, "LIST", "Size of a buffer. [default: 32kb]"),
    "checkpoint-interval": (
        flink.CHECKPOINT_INTERVAL,
        "LIST",
        "How often checkpoint barriers are sent; their alignment follows Flink's"
        " execution.checkpointing keys. [default: never]",
    ),
}
"""Options for Flink's keys: key, metavar and help, by the name of the option."""


@dataclass(frozen=True, slots=True)
class WorkloadOption:
    """A bench option: the WorkloadConfig field it sets, its parser, metavar, help and default;
    `words` are for completion in a shell.
    """

    field: str
    parse: Callable[[str], Any]
    metavar: str
    help: str
    default: str | None = None
    words: tuple[str, ...] = ()


WORKLOAD_OPTIONS: Mapping[str, WorkloadOption] = {
    "rate": WorkloadOption(
        "rate_per_s",
        value_parsers.rate,
        "RATE",
        "Records per second of each producer, such as 20k/s.",
        "max, as fast as possible",
    ),
    "record-size": WorkloadOption(
        "record_size",
        value_parsers.record_size,
        "SIZE",
        "Size of a record's value: a size, 100b..1kb (uniform) or exponential:200b (mean 200b).",
        "100b",
    ),
    "producers": WorkloadOption(
        "producers", value_parsers.count("--producers"), "N", "Producing tasks.", "1"
    ),
    "consumers": WorkloadOption(
        "consumers", value_parsers.count("--consumers"), "N", "Consuming tasks.", "1"
    ),
    "task-managers": WorkloadOption(
        "task_managers",
        value_parsers.count("--task-managers"),
        "N",
        "Number of TaskManager processes.",
        "2 + one per relay",
    ),
    "placement": WorkloadOption(
        "placement",
        value_parsers.choice("--placement", PLACEMENTS),
        "|".join(PLACEMENTS),
        "split: producers and consumers on separate TaskManagers, so that all channels are remote."
        " spread: task i of each stage on the same TaskManager, so that some are local.",
        "split",
        words=PLACEMENTS,
    ),
    "relays": WorkloadOption(
        "relays",
        value_parsers.number("--relays"),
        "N",
        "Stages between producers and consumers that pass records on.",
        "0",
    ),
    "relay-delay": WorkloadOption(
        "relay_delay_ns_per_record",
        value_parsers.each_of(value_parsers.duration("--relay-delay")),
        "TIME[,TIME...]",
        "Time that a relay spends on a record: one for all stages, or one for each.",
        "0",
    ),
    "relay-parallelism": WorkloadOption(
        "relay_parallelism",
        value_parsers.each_of(value_parsers.count("--relay-parallelism")),
        "N[,N...]",
        "Tasks in a stage of relays: one number for all stages, or one for each.",
        "as many as producers",
    ),
    "flow-control": WorkloadOption(
        "flow_control",
        value_parsers.choice("--flow-control", FLOW_CONTROLS),
        "|".join(FLOW_CONTROLS),
        "credit; or tcp, as before Flink 1.5, where a slow channel stops all others of its"
        " connection.",
        "credit",
        words=FLOW_CONTROLS,
    ),
    "link": WorkloadOption(
        "link",
        parse_link,
        "LINK",
        "Emulated wire between TaskManagers: some of"
        " rtt=2ms,bandwidth=1gbit,jitter=0.2ms,queue=256kb. May be repeated.",
        "none, plain sockets",
    ),
    "partitioner": WorkloadOption(
        "partitioner",
        value_parsers.partitioner,
        "NAME",
        f"Which consumer gets a record: {', '.join(PARTITIONERS)} or"
        f" {CUSTOM_PARTITIONER}MODULE:FUNCTION.",
        "rebalance",
        words=PARTITIONERS,
    ),
    "keys": WorkloadOption(
        "keys",
        value_parsers.count("--keys"),
        "N",
        "Number of different keys, for --partitioner hash.",
        "1048576",
    ),
    "key-skew": WorkloadOption(
        "key_skew",
        value_parsers.exponent("--key-skew"),
        "EXPONENT",
        "Zipf exponent: 1 makes the second most frequent key half as frequent as the first.",
        "0",
    ),
    "partition-type": WorkloadOption(
        "partition_type",
        value_parsers.choice("--partition-type", PARTITION_TYPES),
        "TYPE",
        f"{', '.join(PARTITION_TYPES[:-1])}: consumers read while producers write;"
        f" {PARTITION_TYPES[-1]}: once everything is written.",
        "pipelined-bounded, or as execution.runtime-mode and .batch-shuffle-mode imply",
        words=PARTITION_TYPES,
    ),
    "scheduling": WorkloadOption(
        "scheduling",
        value_parsers.choice("--scheduling", SCHEDULINGS),
        "WHEN",
        f"When consumers start: {', '.join(SCHEDULINGS[:-1])} or {SCHEDULINGS[-1]}.",
        "complete-output for blocking exchanges, else all-at-once",
        words=SCHEDULINGS,
    ),
    "arrivals": WorkloadOption(
        "arrivals",
        value_parsers.arrivals,
        "|".join(ARRIVAL_LAWS),
        "Spread of records over time; on-off:50ms:150ms sends for 50 ms at four times the rate,"
        " then pauses for 150 ms.",
        "constant",
        words=ARRIVAL_LAWS[:-1],
    ),
    "slow-consumer": WorkloadOption(
        "slow_consumers",
        value_parsers.slow_consumers,
        "INDEX:DELAY[:TIME]",
        "Consumer INDEX spends DELAY on each record, or stops (`pause`), for the whole run or the"
        " first TIME of the measured part. May be repeated.",
    ),
    "records": WorkloadOption(
        "records",
        value_parsers.count("--records"),
        "N",
        "Records that each producer sends in the measured part, instead of --duration.",
    ),
    "duration": WorkloadOption(
        "duration_ns",
        value_parsers.measured_part,
        "TIME",
        "Length of the measured part. Records due in it are sent for up to 10s after its end.",
        format_duration_ns(DEFAULT_DURATION_NS),
    ),
    "warmup": WorkloadOption(
        "warmup_ns",
        value_parsers.duration("--warmup"),
        "TIME",
        "Time before the measured part; recorded, but not measured.",
        "500ms",
    ),
}
"""Bench options by name."""
