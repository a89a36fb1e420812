"""Flink's keys: known from unknown, layers, sweeps, meaning, and back to Flink's spelling."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinknet import options
from flinknet.config import NetworkConfig
from flinknet.errors import ConfigError

TIMEOUT = "execution.buffer-timeout.interval"
EXCLUSIVE = "taskmanager.network.memory.buffers-per-channel"
SEGMENT = "taskmanager.memory.segment-size"


def test_defaults_are_those_of_flink_2_3() -> None:
    network = NetworkConfig()
    for option in options.options().values():
        text = option.default
        if option.field is None or text is None:
            continue
        configured, _ = options.network_config({option.key: text})
        assert configured == network, option.key


def test_every_field_of_the_network_config_has_a_key_in_the_table() -> None:
    acted = {option.field for option in options.options().values()} - {None}
    assert acted == set(NetworkConfig.__dataclass_fields__)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("execution.buffer-timeot", TIMEOUT),
        ("execution.buffer-timeout.intervall", TIMEOUT),
        ("segment-size", SEGMENT),
        ("taskmanager.network.memory.buffer-per-channel", EXCLUSIVE),
    ],
)
def test_an_unknown_key_names_the_nearest_one(wrong: str, right: str) -> None:
    with pytest.raises(ConfigError, match=f"did you mean {right}"):
        options.find_option(wrong)


def test_a_key_like_no_other_gets_no_guess() -> None:
    with pytest.raises(ConfigError, match="Flink has no such key; see Flink's"):
        options.find_option("zzz")


def test_older_spellings_set_the_current_key() -> None:
    assert options.canonical({"execution.buffer-timeout": "5ms"}) == {TIMEOUT: "5ms"}


@pytest.mark.parametrize("order", [1, -1])
def test_the_current_spelling_wins_over_an_older_one(order: int) -> None:
    both = [("execution.buffer-timeout", "5ms"), (TIMEOUT, "7ms")]
    assert options.canonical(dict(both[::order])) == {TIMEOUT: "7ms"}


def test_a_later_layer_wins_whatever_its_spelling() -> None:
    merged = options.merge({TIMEOUT: "5ms", SEGMENT: "4kb"}, {"execution.buffer-timeout": "7ms"})
    assert merged == {TIMEOUT: "7ms", SEGMENT: "4kb"}


def test_a_disabled_timeout_is_minus_one_until_a_later_layer_gives_one() -> None:
    disabled = {TIMEOUT: "5ms", options.BUFFER_TIMEOUT_ENABLED: "false"}
    assert options.network_config(options.merge(disabled))[0].buffer_timeout_ns == -1
    enabled = options.merge(disabled, {TIMEOUT: "7ms"})
    assert options.network_config(enabled)[0].buffer_timeout_ns == 7_000_000


def test_comma_lists_become_their_cartesian_product() -> None:
    expanded = options.expand({TIMEOUT: "0, 5ms", SEGMENT: "32kb", EXCLUSIVE: "1,2"})
    assert [tuple(setting.values()) for setting in expanded] == [
        ("0", "32kb", "1"),
        ("0", "32kb", "2"),
        ("5ms", "32kb", "1"),
        ("5ms", "32kb", "2"),
    ]
    assert options.swept_keys({TIMEOUT: "0,5ms", SEGMENT: "32kb"}) == [TIMEOUT]
    assert options.expand({TIMEOUT: "5ms,5ms"}) == [{TIMEOUT: "5ms"}]


def test_an_empty_value_in_a_list_is_refused() -> None:
    with pytest.raises(ConfigError, match="empty value"):
        options.expand({TIMEOUT: "5ms,,7ms"})


def test_commas_of_keys_that_do_not_act_are_left_alone() -> None:
    settings = {"security.ssl.algorithms": "A,B", options.BIND_PORT: "50100,50101"}
    assert options.expand(settings) == [settings]


def test_values_reach_the_network_config() -> None:
    network, warnings = options.network_config(
        {
            TIMEOUT: "5 ms",
            SEGMENT: "4 kb",
            "taskmanager.memory.network.min": "8mb",
            "taskmanager.network.netty.client.connectTimeoutSec": "3",
            "taskmanager.bind-host": "127.0.0.2",
            options.BIND_PORT: "50100-50200",
        }
    )
    assert network == NetworkConfig(
        buffer_timeout_ns=5_000_000,
        segment_size_bytes=4096,
        network_memory_bytes=8 << 20,
        connect_timeout_ns=3_000_000_000,
        bind_host="127.0.0.2",
        bind_port="50100-50200",
    )
    assert warnings == ()


def test_partitioners_that_choose_idle_channels_are_said_not_to_be_followed() -> None:
    key = "taskmanager.network.adaptive-partitioner.enabled"
    (warning,) = options.network_config({key: "true"})[1]
    assert warning.line.startswith(f"{key}: not followed by flinknet, whose rebalance and rescale")
    assert options.network_config({key: "false"})[1] == ()


def test_a_key_that_flink_2_fixed_works_and_says_so() -> None:
    network, warnings = options.network_config({EXCLUSIVE: "4"})
    assert network.exclusive_buffers == 4
    assert [warning.code for warning in warnings] == ["fixed-in-flink-2"]
    assert warnings[0].line.endswith(
        "ignored by Flink 2.x, which always uses 2; this result holds for Flink 1.x only"
    )
    assert options.network_config({EXCLUSIVE: "2"})[1] == ()


@pytest.mark.parametrize(
    ("key", "value"), [("taskmanager.slot.timeout", "5 s"), ("security.ssl.provider", "OPENSSL")]
)
def test_a_known_key_without_effect_is_a_warning(key: str, value: str) -> None:
    network, warnings = options.network_config({key: value})
    assert network == NetworkConfig()
    assert [warning.code for warning in warnings] == ["option-not-acted-on"]


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("security.ssl.provider", "NSS", "not one of JDK, OPENSSL"),
        (SEGMENT, "5000", "power of two"),
        (SEGMENT, "2kb", "at least 4096"),
        (SEGMENT, "0", "power of two"),
        (TIMEOUT, "-2ms", "negative"),
        (TIMEOUT, "soon", "not a duration"),
        (EXCLUSIVE, "two", "not an integer"),
        (EXCLUSIVE, "-1", "give 0 or more"),
        ("taskmanager.network.memory.max-buffers-per-channel", "0", "give 2 or more"),
        ("taskmanager.memory.network.min", "16kb", "does not hold one"),
        ("taskmanager.memory.framework.off-heap.batch-shuffle.size", "16kb", "does not hold one"),
        ("taskmanager.memory.network.max", "1mb", "is less than"),
        ("taskmanager.data.port", "70000", "is not a port"),
        ("taskmanager.data.port", "http", "is not a port"),
        ("taskmanager.network.netty.client.connectTimeoutSec", "0", "give 1 or more"),
        ("taskmanager.memory.network.fraction", "some", "not a number"),
        (options.BUFFER_TIMEOUT_ENABLED, "maybe", "not a boolean"),
        ("heartbeat.interval", "never", "not a duration"),
        ("taskmanager.network.request-backoff.max", "1s", "is not a number of milliseconds"),
        ("execution.runtime-mode", "FAST", "not one of STREAMING, BATCH, AUTOMATIC"),
        ("taskmanager.network.compression.codec", "GZIP", "not one of NONE, LZ4, LZO, ZSTD"),
        ("taskmanager.network.memory.read-buffer.required-per-gate.max", "0", "give 1 or more"),
        ("taskmanager.network.adaptive-partitioner.max-traverse-size", "1", "give 2 or more"),
        ("taskmanager.memory.network.fraction", "1", "less than 1"),
        ("taskmanager.memory.network.fraction", "-0.1", "0 or more"),
        ("taskmanager.memory.network.fraction", "nan", "not a number"),
        ("taskmanager.network.retries", "-1", "give 0 or more"),
        ("taskmanager.network.memory.buffer-debloat.samples", "0", "give 1 or more"),
        ("taskmanager.memory.network.max", "lots", "not a size"),
    ],
)
def test_a_bad_value_names_its_key_and_says_why(key: str, value: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why) as caught:
        options.network_config({key: value})
    assert str(caught.value).startswith(key)


def test_a_gate_needs_some_buffer() -> None:
    with pytest.raises(ConfigError, match="at least 1 floating buffer"):
        options.network_config({EXCLUSIVE: "0", options.FLOATING_BUFFERS: "0"})


@pytest.mark.parametrize(
    ("protocol", "ciphers", "fits"),
    [
        ("TLSv1.3", None, False),
        ("TLSv1.3", "TLS_AES_128_GCM_SHA256", True),
        ("TLSv1.2", "TLS_AES_128_GCM_SHA256", False),
        ("TLSv1.2,TLSv1.3", None, True),
        ("TLSv1.3", "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256, TLS_AES_256_GCM_SHA384", True),
    ],
)
def test_a_cipher_must_fit_a_protocol(protocol: str, ciphers: str | None, fits: bool) -> None:
    settings = {"security.ssl.internal.enabled": "true", "security.ssl.protocol": protocol}
    if ciphers is not None:
        settings["security.ssl.algorithms"] = ciphers
    if fits:
        options.network_config(settings)
    else:
        with pytest.raises(ConfigError, match=rf"no cipher of {protocol}; with it set security"):
            options.network_config(settings)
    options.network_config(settings | {"security.ssl.internal.enabled": "false"})


network_configs = st.builds(
    NetworkConfig,
    segment_size_bytes=st.sampled_from([4096, 32_768, 1 << 20]),
    network_memory_bytes=st.integers(1 << 20, 1 << 40),
    exclusive_buffers=st.integers(0, 100),
    floating_buffers=st.integers(1, 100),
    buffer_timeout_ns=st.integers(-1, 10**12),
    connect_timeout_ns=st.integers(1, 1000).map(lambda seconds: seconds * 10**9),
    data_port=st.integers(0, 65_535).map(str),
)


@given(network_configs)
def test_effective_keys_read_back_to_the_same_network(network: NetworkConfig) -> None:
    keys = options.effective_flink_keys(network)
    assert options.network_config(options.merge(keys))[0] == network


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        (
            "execution:\n  buffer-timeout:\n    interval: 5 ms\n"
            "taskmanager.memory.segment-size: 4kb\n",
            {TIMEOUT: "5 ms", SEGMENT: "4kb"},
        ),
        (
            "execution.buffer-timeout.interval: 5 ms\ntaskmanager:\n  memory.segment-size: 4kb\n",
            {TIMEOUT: "5 ms", SEGMENT: "4kb"},
        ),
        (
            "execution.buffer-timeout.enabled: false\ntaskmanager.host: ''\n",
            {options.BUFFER_TIMEOUT_ENABLED: "false"},
        ),
        ("# nothing\n", {}),
    ],
    ids=["nested", "dotted", "types of YAML", "empty"],
)
def test_flink_conf_is_read(tmp_path: Path, text: str, settings: dict[str, str]) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    assert options.read_flink_conf(path) == (settings, ())


def test_an_assignment_has_a_key_and_may_hold_more_equal_signs() -> None:
    assert options.parse_assignment("a.b = c=d") == ("a.b", "c=d")
    for text in ("a.b", "=c"):
        with pytest.raises(ConfigError, match="key=value"):
            options.parse_assignment(text)
