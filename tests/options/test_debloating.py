"""The keys of buffer debloating: what they become, and what Flink would refuse."""

from __future__ import annotations

import pytest

from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys, effective_keys, network_config

DEBLOATING = "taskmanager.network.memory.buffer-debloat"
ON = {f"{DEBLOATING}.enabled": "true"}
MS = 1_000_000


def test_the_keys_say_how_gates_are_debloated() -> None:
    settings = ON | {
        f"{DEBLOATING}.target": "500 ms",
        f"{DEBLOATING}.period": "50 ms",
        f"{DEBLOATING}.samples": "10",
        f"{DEBLOATING}.threshold-percentages": "5",
        "taskmanager.memory.min-segment-size": "512b",
        "taskmanager.memory.starting-segment-size": "2kb",
        "taskmanager.memory.segment-size": "16kb",
    }
    network, warnings = network_config(settings)
    assert not warnings
    assert (network.debloating_target_ns, network.debloating_period_ns) == (500 * MS, 50 * MS)
    assert (network.debloating_samples, network.debloating_threshold_percent) == (10, 5)
    assert network.min_segment_size_bytes == 512
    assert network.starting_segment_size_bytes == 2048
    assert network.segment_size_bytes == 16_384
    assert network_config(effective_flink_keys(network))[0] == network


@pytest.mark.parametrize(
    ("settings", "words", "is_checked_without"),
    [
        ({f"{DEBLOATING}.period": "0 ms"}, r"period: 0 is too short", False),
        ({f"{DEBLOATING}.target": "0 ms"}, r"target: 0 is too short", True),
        ({"taskmanager.memory.starting-segment-size": "100b"}, "not in order: .*=100b", True),
        ({"taskmanager.memory.starting-segment-size": "64kb"}, "not in order: .*=64kb", True),
        ({"taskmanager.memory.min-segment-size": "64kb"}, "not in order: .*=64kb", True),
        ({"taskmanager.memory.min-segment-size": "0b"}, "not in order: .*=0b", True),
    ],
)
def test_what_flink_refuses_is_refused(
    settings: dict[str, str], words: str, is_checked_without: bool
) -> None:
    with pytest.raises(ConfigError, match=words):
        network_config(ON | settings)
    if is_checked_without:
        with pytest.raises(ConfigError, match=words):
            network_config(settings)
    else:
        network_config(settings)


def test_without_a_starting_size_buffers_begin_with_the_largest_as_in_flink_1() -> None:
    smallest = {"taskmanager.memory.min-segment-size": "2kb"}
    network, (warning,) = network_config(ON | smallest)
    assert network.starting_segment_size_bytes == 32 * 1024
    assert "as in Flink 1.x; Flink 2.x does not start without a taskman" in warning.text
    keys = effective_keys(smallest, dict.fromkeys(smallest, "-D"))
    starting = next(each for each in keys if each.key.endswith("starting-segment-size"))
    assert (starting.value, starting.origin) == ("32 kb", "derived")
