"""Types of exchange on the command line: what they ask of other settings, and what is printed."""

from __future__ import annotations

import sys
from dataclasses import replace
from typing import Any

import pytest

from flinknet.config import WorkloadConfig
from flinknet.report.bench import bench_view
from flinknet.report.console import console_for, print_view
from flinknet.results import BlockingExchange
from tests.made_results import configuration

from .conftest import Flinknet

CODEC = "taskmanager.network.compression.codec"
BATCH = ("-D", "execution.runtime-mode=BATCH")


def test_a_blocking_exchange_has_an_end_and_neither_timeout_nor_warmup(
    flinknet: Flinknet, run: Any
) -> None:
    assert flinknet("bench", "--no-trace", "--partition-type", "blocking").exit_code == 0
    (scenario,) = run.scenarios
    workload = scenario.workload
    assert workload.is_blocking
    assert (workload.records, workload.duration_ns, workload.warmup_ns) == (1_000_000, None, 0)
    assert scenario.network.buffer_timeout_ns == -1
    assert scenario.network.compression_codec == "LZ4"


def test_what_is_asked_for_stands(flinknet: Flinknet, run: Any) -> None:
    flinknet(
        *("bench", "--no-trace", "--partition-type", "blocking", "--duration", "2s"),
        *("--warmup", "1s", "--buffer-timeout", "-1", "-D", f"{CODEC}=zstd"),
    )
    (scenario,) = run.scenarios
    workload = scenario.workload
    assert (workload.records, workload.duration_ns, workload.warmup_ns) == (None, 2 * 10**9, 10**9)
    assert scenario.network.compression_codec == "ZSTD"


@pytest.mark.parametrize(
    ("arguments", "partition_type"),
    [
        ((), "pipelined-bounded"),
        (("-D", "execution.batch-shuffle-mode=ALL_EXCHANGES_BLOCKING"), "pipelined-bounded"),
        (BATCH, "blocking"),
        ((*BATCH, "-D", "execution.batch-shuffle-mode=ALL_EXCHANGES_BLOCKING"), "blocking"),
        (
            (*BATCH, "-D", "execution.batch-shuffle-mode=ALL_EXCHANGES_PIPELINED"),
            "pipelined-bounded",
        ),
        ((*BATCH, "--partition-type", "pipelined"), "pipelined"),
        (("--partition-type", "pipelined-approximate"), "pipelined-approximate"),
    ],
)
def test_flinks_keys_choose_the_type_where_the_option_does_not(
    flinknet: Flinknet, run: Any, arguments: tuple[str, ...], partition_type: str
) -> None:
    result = flinknet("bench", "--no-trace", *arguments)
    assert result.exit_code == 0, result.output
    assert run.scenarios[0].workload.partition_type == partition_type


def test_codecs_make_a_sweep(flinknet: Flinknet, run: Any) -> None:
    flinknet("bench", "--no-trace", *BATCH, "-D", f"{CODEC}=NONE,LZ4,ZSTD")
    assert [each.network.compression_codec for each in run.scenarios] == ["NONE", "LZ4", "ZSTD"]


def test_the_older_switch_turns_compression_off(flinknet: Flinknet, run: Any) -> None:
    key = "taskmanager.network.batch-shuffle.compression.enabled"
    flinknet("bench", "--no-trace", *BATCH, "-D", f"{key}=false")
    assert run.scenarios[0].network.compression_codec == "NONE"


@pytest.mark.parametrize("key", [CODEC, "taskmanager.network.batch-shuffle.compression.enabled"])
def test_who_asks_a_streaming_exchange_to_compress_is_reported(
    flinknet: Flinknet, key: str
) -> None:
    value = "ZSTD" if key == CODEC else "true"
    result = flinknet("bench", "--no-trace", "-D", f"{key}={value}")
    assert f"{key}: ignored by Flink and flinknet in pipelined-bounded exchanges" in result.stdout
    blocking = flinknet("bench", "--no-trace", *BATCH, "-D", f"{key}={value}")
    assert "pipelined-bounded exchanges" not in blocking.stdout
    assert "pipelined-bounded exchanges" not in flinknet("bench", "--no-trace").stdout


def test_what_a_streaming_exchange_ignores_has_no_price(flinknet: Flinknet, run: Any) -> None:
    result = flinknet("bench", "--no-trace", "-D", f"{CODEC}=NONE,ZSTD")
    assert run.scenarios[0] == run.scenarios[1]
    assert "instead of" not in result.stdout
    result = flinknet("bench", "--no-trace", "--buffer-timeout", "1ms,5ms")
    assert "instead of" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("--partition-type hybrid", "not one of pipelined, pipelined-bounded"),
        (f"--partition-type blocking -D {CODEC}=LZO", "flinknet has no LZO; use LZ4, ZSTD or NONE"),
        ("--partition-type blocking --buffer-timeout 5ms", "has no buffer timeout"),
        ("--partition-type blocking --slow-consumer 0:pause --duration 1s", "--slow-consumer"),
        ("--partition-type blocking --scheduling first-output", "they have complete-output"),
        (
            "-D execution.runtime-mode=BATCH"
            " -D execution.batch-shuffle-mode=ALL_EXCHANGES_HYBRID_FULL",
            "flinknet has no ALL_EXCHANGES_HYBRID_FULL",
        ),
        ("--partitioner custom:a:f", "not one of rebalance, rescale"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    flinknet: Flinknet, run: Any, arguments: str, words: str
) -> None:
    result = flinknet("bench", "--no-trace", *arguments.split())
    assert result.exit_code == 2
    assert words in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1
    assert run.scenarios == []


def test_the_two_phases_are_reported(flinknet: Flinknet, run: Any) -> None:
    flinknet("bench", "--no-trace", "--partition-type", "blocking")
    exchange = BlockingExchange(2_000_000, 500_000_000, 4e6, 10**9, 2e6, 200 << 20, 20 << 20, "LZ4")
    scenario = run.scenarios[0]
    assert isinstance(scenario.workload, WorkloadConfig)
    result = replace(
        run(scenario, out_dir=None, trace=False, on_progress=lambda _: None), blocking=(exchange,)
    )
    console = console_for(sys.stdout)
    with console.capture() as capture:
        print_view(console, bench_view([configuration("", [result])]))
    assert (
        "Written in 500 ms (4.00 M records/s), read in 1.00 s (2.00 M records/s): 200 MiB in"
        " buffers, compressed with LZ4 to 20.0 MiB (10.0%)."
    ) in capture.get()
    assert result.to_dict()["blocking"][0]["stored_bytes"] == 20 << 20
