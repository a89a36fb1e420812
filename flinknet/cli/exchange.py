"""Effects of the exchange's type on other settings: a blocking exchange has no buffer timeout, no
warm-up, and an end; a pipelined one has no compression.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from flinknet import options as flink
from flinknet.config import (
    BLOCKING,
    BUFFER_TIMEOUT_NEVER_NS,
    PIPELINED_BOUNDED,
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
from flinknet.results import RunWarning

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
