"""The table of keys is whole: each row parses, each default is a value of its type."""

from __future__ import annotations

import pytest

from flinknet.options import deprecated_keys, options, origins_of
from flinknet.options.keys import Option
from flinknet.options.values import TYPE_NAMES, format_value, parse_value

ALL = list(options().values())


@pytest.mark.parametrize("option", ALL, ids=lambda option: option.key)
def test_defaults_are_values_of_their_type_within_their_limits(option: Option) -> None:
    assert option.group
    assert option.kind in TYPE_NAMES
    for text in (option.default_1_20, option.default_2_3):
        if text not in ("unset", "-"):
            value = parse_value(option, text.removeprefix("fixed "))
            assert parse_value(option, format_value(option, value)) == value


def test_every_group_stands_together() -> None:
    groups = [option.group for option in ALL]
    starts = [group for index, group in enumerate(groups) if group != groups[index - 1]]
    assert len(starts) == len(set(groups))


def test_no_spelling_belongs_to_two_keys() -> None:
    spellings = [
        spelling
        for option in ALL
        for spelling in (option.key, *option.older_keys, *option.fallback_keys)
    ]
    assert len(spellings) == len(set(spellings))


@pytest.mark.parametrize("option", [each for each in ALL if each.older_keys], ids=lambda o: o.key)
def test_each_older_spelling_is_named_with_the_current_one(option: Option) -> None:
    for older in option.older_keys:
        (warning,) = deprecated_keys({older: "1"})
        assert warning.code == "deprecated-key"
        assert older in warning.text
        assert option.key in warning.text
    assert deprecated_keys(dict.fromkeys(option.fallback_keys, "1")) == ()


def test_a_key_that_is_gone_in_flink_2_says_what_is_there_instead() -> None:
    (warning,) = deprecated_keys({"taskmanager.network.numberOfBuffers": "1"})
    assert warning.text.startswith("Flink 2.x has no taskmanager.network.numberOfBuffers: use ")
    assert "taskmanager.memory.network.fraction" in warning.text


def test_words_are_known_in_any_case() -> None:
    option = options()["execution.runtime-mode"]
    assert parse_value(option, "batch") == "BATCH"


def test_secrets_are_known() -> None:
    assert [option.key for option in ALL if option.is_secret] == [
        f"security.ssl.internal.{name}-password" for name in ("keystore", "key", "truststore")
    ]


def test_the_last_layer_is_the_origin_of_a_key_in_any_spelling() -> None:
    timeout = "execution.buffer-timeout.interval"
    layers = [("a", {"execution.buffer-timeout": "1ms"}), ("b", {timeout: "2ms"}), ("c", {})]
    assert origins_of(layers) == {timeout: "b"}
