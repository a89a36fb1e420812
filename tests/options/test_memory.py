"""Network memory from total sizes: the numbers a TaskManager of Flink 2.3 starts with."""

from __future__ import annotations

import pytest

from flinknet.errors import ConfigError
from flinknet.options import effective_flink_keys, network_config
from flinknet.options.memory import check_total, network_memory

FLINK = "taskmanager.memory.flink.size"
PROCESS = "taskmanager.memory.process.size"
FRACTION = "taskmanager.memory.network.fraction"
MIN = "taskmanager.memory.network.min"
MAX = "taskmanager.memory.network.max"
HEAP = "taskmanager.memory.task.heap.size"
SEGMENT_BYTES = 32 << 10
MANAGED = "taskmanager.memory.managed.size"
HEAP_1_X = "taskmanager.heap.size"
BUFFERS = "taskmanager.network.numberOfBuffers"


def network_bytes(settings: dict[str, str]) -> int:
    return network_config(settings)[0].network_memory_bytes


@pytest.mark.parametrize(
    ("settings", "segments"),
    [
        ({FLINK: "600m"}, 2048),
        ({FLINK: "1g"}, 3276),
        ({FLINK: "1280m"}, 4096),
        ({FLINK: "2g"}, 6553),
        ({FLINK: "4g"}, 13_107),
        ({FLINK: "10g"}, 32_768),
        ({FLINK: "20g"}, 65_536),
        ({PROCESS: "1g"}, 2048),
        ({PROCESS: "1728m"}, 4096),
        ({PROCESS: "4g"}, 10_977),
        ({FLINK: "1280m", PROCESS: "1728m"}, 4096),  # leave the overhead
        ({FLINK: "4g", MIN: "100mb", MAX: "100mb"}, 3200),
        ({FLINK: "4g", FRACTION: "0.5", MANAGED: "0"}, 65_536),
        ({HEAP_1_X: "4096m"}, 13_107),
        ({"taskmanager.heap.mb": "4096"}, 13_107),
        ({HEAP_1_X: "2g", "taskmanager.heap.mb": "no number"}, 6553),
        ({HEAP_1_X: "no size", FLINK: "4g"}, 13_107),
        ({HEAP_1_X: "3g", PROCESS: "4g"}, 9830),
        ({PROCESS: "4g", BUFFERS: "8192"}, 8192),
        ({PROCESS: "4g", BUFFERS: "8192", FRACTION: "0.2"}, 21_954),
        ({HEAP: "1g", MANAGED: "1g", BUFFERS: "8000"}, 8000),
        ({BUFFERS: "100"}, 100),
    ],
    ids=str,
)
def test_segments_of_total_sizes(settings: dict[str, str], segments: int) -> None:
    assert network_bytes(settings) // SEGMENT_BYTES == segments


@pytest.mark.parametrize(
    ("size", "size_bytes"), [("600m", 67_108_864), ("1g", 107_374_184), ("1280m", 134_217_730)]
)
def test_the_fraction_is_a_32_bit_float(size: str, size_bytes: int) -> None:
    assert network_bytes({FLINK: size}) == size_bytes


def test_without_a_total_it_is_the_minimum() -> None:
    assert network_bytes({}) == 64 << 20
    assert network_bytes({MIN: "8mb"}) == 8 << 20
    assert network_memory({MIN: "8mb", MAX: "1gb"}) == {}


def test_minimum_and_maximum_bound_the_fraction_and_say_so() -> None:
    derived = network_memory({FLINK: "600m"})[MIN]
    assert "is 60mb" in derived.how
    assert "bound by taskmanager.memory.network.min (64mb)" in derived.how
    derived = network_memory({FLINK: "4g", MAX: "128mb"})[MIN]
    assert derived.size_bytes == 128 << 20
    assert "bound by taskmanager.memory.network.max (128mb)" in derived.how


def test_with_heap_and_managed_memory_the_fraction_is_one_of_the_whole() -> None:
    sizes = {HEAP: "1g", MANAGED: "1g", FRACTION: "0.5"}
    assert network_bytes(sizes) == (2 << 30) + (256 << 20)  # as much as the other parts


def test_with_total_and_heap_it_is_what_is_left() -> None:
    # 1024 - 128 - 128 - 0.4 x 1024 - 256, in MiB; 0.4 is 13421773 / 2**25 as a 32-bit float
    left = (1 << 30) - (256 << 20) - (256 << 20) - 13_421_773 * 32
    assert network_bytes({FLINK: "1g", HEAP: "256mb"}) == left
    assert network_bytes({FLINK: "1g", HEAP: "256mb", MANAGED: "384mb"}) == 128 << 20


def test_what_is_derived_is_reported_key_by_key() -> None:
    derived = network_memory({PROCESS: "1728m"})
    assert derived[FLINK].size_bytes == 1280 << 20
    assert derived[FLINK].how == (
        "taskmanager.memory.process.size (1728mb) less taskmanager.memory.jvm-metaspace.size"
        " (256mb) and 192mb of JVM overhead"
    )
    assert derived[MANAGED].size_bytes == 536_870_920  # the 512mb of Flink's documentation
    assert derived[HEAP].size_bytes == 402_653_174  # and its 384mb
    assert sum(derived[key].size_bytes for key in (MANAGED, HEAP, MIN)) == (1280 - 256) << 20


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (
            {FLINK: "512m"},
            r"^524.8mb of parts at their defaults exceed taskmanager\.memory\.flink\.size"
            r" \(512mb\); set taskmanager\.memory\.flink\.size to 534m$",
        ),
        (
            {PROCESS: "2200m", MANAGED: "800m", FRACTION: "0.99", MAX: "2200mb"},
            r"^taskmanager\.memory\.network\.fraction \(0\.99: 1706\.8mb\) \+"
            r" taskmanager\.memory\.managed\.size \(800mb\) \+ 256mb of parts at their defaults"
            r" exceed taskmanager\.memory\.process\.size \(2200mb\), which leaves 1724\.0mb to"
            r" Flink; set taskmanager\.memory\.process\.size to 3903m, or lower"
            r" taskmanager\.memory\.network\.fraction$",
        ),
        (
            {"taskmanager.heap.mb": "300"},
            r"exceed taskmanager\.heap\.mb \(300mb\); set taskmanager\.heap\.mb to 534$",
        ),
        (  # from some total on network memory, which gets the rest, would exceed its maximum
            {FLINK: "300m", HEAP: "1g", MAX: "2g"},
            r"; set taskmanager\.memory\.flink\.size to 2241m, or lower taskmanager\.memory\.task",
        ),
        ({PROCESS: "400m"}, "does not hold taskmanager.memory.jvm-metaspace.size"),
        (
            {FLINK: "1g", HEAP: "700mb", MANAGED: "100mb"},
            r"size \(700mb\) \+ .* exceed taskmanager.memory.fl",
        ),
        ({FLINK: "1g", HEAP: "700mb", MANAGED: "10mb"}, "outside taskmanager.memory.network.min"),
        ({FLINK: "1g", HEAP: "9mb", MANAGED: "9mb", MAX: "64mb"}, "are left for network memory"),
        ({FLINK: "1g", PROCESS: "8g"}, r"leaves 6912mb of JVM overhead .* give one total only"),
        ({FLINK: "4g", PROCESS: "1g"}, "-3328mb of JVM overhead"),
        ({MIN: "1gb", MAX: "1mb"}, r"network\.max: 1mb is less than .*network\.min \(1gb\)"),
        ({FLINK: "1g", FRACTION: "1.5"}, "is not a fraction"),
        (
            {FLINK: "1g", "taskmanager.memory.jvm-overhead.max": "1mb"},
            r"jvm-overhead\.max: 1mb is less",
        ),
    ],
    ids=str,
)
def test_sizes_that_contradict_each_other_are_refused(settings: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        network_config(settings)


def test_a_size_that_flink_does_not_read_is_reported() -> None:
    settings = {
        FLINK: "1g",
        HEAP_1_X: "5g",
        MANAGED: "8m",
        "taskmanager.memory.managed.fraction": "2",
    }
    assert [warning.text for warning in network_config(settings)[1]] == [
        f"{HEAP_1_X}: ignored by Flink, which takes {FLINK}",
        f"taskmanager.memory.managed.fraction: ignored by Flink, which takes {MANAGED}",
    ]


def test_a_number_of_buffers_that_is_not_what_is_left_is_refused() -> None:
    sizes = {FLINK: "4g", HEAP: "1g", MANAGED: "1g", BUFFERS: "8192"}
    with pytest.raises(ConfigError, match=r"1792mb are left .*numberOfBuffers is 256mb; leave it"):
        network_config(sizes)


def test_a_total_is_what_flink_needs_to_start() -> None:
    for settings in ({FLINK: "1g"}, {PROCESS: "1g"}, {HEAP: "1g", MANAGED: "1g"}, {HEAP_1_X: "1g"}):
        check_total(settings)
    with pytest.raises(
        ConfigError, match=r"Flink does not start; set taskmanager\.memory\.process"
    ):
        check_total({HEAP: "1g", MIN: "64mb"})


def test_a_size_that_says_nothing_alone_is_reported() -> None:
    _, warnings = network_config({FRACTION: "0.2"})
    assert [warning.code for warning in warnings] == ["option-not-acted-on"]
    assert "ignored by Flink and flinknet without" in warnings[0].text
    assert network_config({FRACTION: "0.2", FLINK: "1g"})[1] == ()


def test_what_was_derived_reads_back_as_a_minimum() -> None:
    network, _ = network_config({FLINK: "1g"})
    keys = effective_flink_keys(network)
    assert keys[MIN] == "107374184 b"
    assert network_config(keys)[0] == network
